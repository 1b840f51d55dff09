from .frequent_directions import FrequentDirections as FrequentDirections
from .moments import GramProduct as GramProduct
from .moments import Moments as Moments
from .spectrum import Certificate as Certificate
