from .exploration import Exploration as Exploration
from .exploration import explore as explore
from .findings import Sizes as Sizes
