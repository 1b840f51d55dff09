from .anchor import AnchorHMM as AnchorHMM
from .anchor import AnchorRecipe as AnchorRecipe
from .em import EMHMM as EMHMM
from .em import EMRecipe as EMRecipe
from .quantizer import VectorQuantizer as VectorQuantizer
from .refinement import RefinementHMM as RefinementHMM
from .refinement import RefinementRecipe as RefinementRecipe
