"""Plots of spectra, certificates, trees and words; Matplotlib is imported with the first of them."""

__all__: list[str] = []
