"""Pictures of spectra, certificates, trees and words; Matplotlib is imported when the first of them is asked for."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
