"""polysharp: the best small polynomial, with a certificate."""

from polysharp._version import __version__

__all__ = ["__version__"]
