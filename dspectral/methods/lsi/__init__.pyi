from .linear_svm import train_linear_svms as train_linear_svms
