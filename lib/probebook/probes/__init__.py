"""Classifiers of a property from hidden states: `.fit(h, z)`, then `probe(h)` → logits [n, k]."""
from probebook.probes.linear import LinearProbe
from probebook.probes.mlp import MLPProbe

__all__ = ["LinearProbe", "MLPProbe"]
