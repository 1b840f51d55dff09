"""Pictures of spectra, certificates, trees and words; Matplotlib is imported when the first of them is asked for."""

__all__: list[str] = []
