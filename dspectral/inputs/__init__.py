"""The doors of the estimators: rows, sequences, labeled rows, class labels and parameters.

Names are imported when they are asked for: :mod:`~dspectral.inputs.rows` and
:mod:`~dspectral.inputs.labels` import scikit-learn, which a worker that only summarizes blocks need not hold.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
