"""The twins of the zoo's models, in PyTorch: one module a family, one class a model."""

from . import adversaries, attention, experts, followers, generative, hybrid, noise, pairs, parts, preferences, retention, states, streams, tables, vision
from .twin import KINDS

__all__ = ["KINDS", "adversaries", "attention", "experts", "followers", "generative", "hybrid", "noise", "pairs", "parts", "preferences", "retention", "states", "streams", "tables", "vision"]
