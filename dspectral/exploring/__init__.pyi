from .findings import Sizes as Sizes
from .page import Exploration as Exploration
