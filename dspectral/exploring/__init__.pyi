from .exploration import Exploration as Exploration
from .exploration import explore as explore
from .sizes import Sizes as Sizes
