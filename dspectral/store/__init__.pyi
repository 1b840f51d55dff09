from .anndata import AnnDataCounts as AnnDataCounts
from .corpus import Corpus as Corpus
from .counts import CountStore as CountStore
from .forget import ForgetReceipt as ForgetReceipt
from .location import StoreError as StoreError
from .location import redact_urls as redact_urls
from .vocabulary import Vocabulary as Vocabulary
from .writer import discard_unfinished as discard_unfinished
