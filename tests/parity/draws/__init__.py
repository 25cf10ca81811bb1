"""Random programs of all of the language, each as text and in torch (README.md of the folder above)."""

from .program import make

__all__ = ["make"]
