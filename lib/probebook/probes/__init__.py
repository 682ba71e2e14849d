"""Probes: classifiers that read a property from hidden states.

`fit(h, z)` takes states [n, d] and labels [n]; a fitted probe maps states to logits [n, k].
`description_length` and `variational` measure how many bits the labels cost, given the states.

    accuracy = (LinearProbe(C=1.0).fit(h, z)(h_test).argmax(1) == z_test).double().mean()
"""

from probebook.probes.discriminant import LinearDiscriminant
from probebook.probes.linear import LinearProbe
from probebook.probes.mlp import MLPProbe, Panel
