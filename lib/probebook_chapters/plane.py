"""Five methods at work on two clouds of states in the plane, for the picture of what they do.

clouds = edit_clouds()
clouds.edited["LEACE"]               # where LEACE takes each state
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from probebook.interventions import FGSM, INLP, LEACE, AlterRep, MeanShift
from probebook.probes import LinearProbe


@dataclass(frozen=True)
class EditedClouds:
    """States `h` [n, 2] with numbers `z` [n] (0 singular, 1 plural), a linear probe of the number,
    and the states after each method: name → [n, 2]. Flips go towards the other number."""

    h: Tensor
    z: Tensor
    probe: LinearProbe
    edited: dict[str, Tensor]


def edit_clouds(shuffled: bool = False) -> EditedClouds:
    """Draw two Gaussian clouds of 60 states, fit a probe and five methods on them, and edit them.

    `shuffled`: fit on labels in random order, a negative control."""
    n, generator = 60, torch.Generator().manual_seed(0)
    spread = torch.tensor([[0.4, 0.0], [0.3, 0.35]])
    means = torch.tensor([[-0.6, 0.4], [1.6, 0.8]])
    z = torch.arange(2).repeat_interleave(n)
    h = means[z] + torch.randn(2 * n, 2, generator=generator) @ spread.T
    labels = z[torch.randperm(2 * n, generator=generator)] if shuffled else z
    probe = LinearProbe().fit(h, labels)
    edited = {
        "INLP": INLP(max_rank=1).fit(h, labels)(h),
        "LEACE": LEACE().fit(h, labels)(h),
        "AlterRep": AlterRep(max_rank=1).fit(h, labels)(h, to=1 - z),
        "MeanShift": MeanShift().fit(h, labels)(h, to=1 - z),
        "FGSM": FGSM(probe).at(eps=1.3)(h, to=1 - z),
    }
    return EditedClouds(h, z, probe, edited)
