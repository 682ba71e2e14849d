"""The one table of interventions: what each is called, does and needs, and how it is fitted.

Saved files, figures, the pages that compare methods, and the audit read it, so a new intervention
is a row here.

    method, data = INTERVENTIONS["AlterRep"], FitData(h, z)
    edit = method.at(method.fit(data), 4.0, data)
    h_edited = method.apply(edit, data)(h, to)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from probebook.interventions.affine_steering import AffineSteering, FittedAffineSteering
from probebook.interventions.alterrep import FittedAlterRep
from probebook.interventions.attack import Norm
from probebook.interventions.autoattack import AutoAttack
from probebook.interventions.das import FittedDAS
from probebook.interventions.fgsm import FGSM
from probebook.interventions.inlp import INLP, FittedINLP
from probebook.interventions.leace import LEACE, FittedLEACE
from probebook.interventions.mean_shift import FittedMeanShift, MeanShift
from probebook.interventions.pgd import PGD
from probebook.interventions.qleace import QLEACE, FittedQLEACE
from probebook.interventions.rlace import RLACE, FittedRLACE
from probebook.interventions.sparse_autoencoder import SparseAutoencoder
from probebook.interventions.sparse_features import FittedSparseFeatures, SparseFeatures
from probebook.probes.mlp import FittedMLP, MLPProbe
from probebook.probes.moments import Moments


@dataclass(frozen=True)
class FitData:
    """What the methods of the table are fitted on, with the settings that pages vary.

    - `perceptron`: the probe that attacks work on, or its settings
    - `norm`, `radius`: of attacks; the unit of their strength, by default `spread`
    - `fit_das`: fits DAS, which needs pairs of states and the model's head
    - `sums`: of these states and of more, from which `streamed` methods learn instead"""

    h: Tensor  # [n, d], states
    z: Tensor  # [n], their labels
    seed: int = 0  # of everything drawn
    max_rank: int = 8  # directions of INLP and AlterRep
    perceptron: MLPProbe | FittedMLP | None = None
    norm: Norm = "l2"
    radius: float | None = None
    queries: int = 50  # of AutoAttack's Square
    autoencoder: SparseAutoencoder | None = None  # settings of SparseFeatures' autoencoder
    fit_das: Callable[[], FittedDAS] | None = None
    sums: Moments | None = None

    @cached_property
    def probe(self) -> FittedMLP:
        """The perceptron that attacks work on and that tells QLEACE the labels."""
        perceptron = self.perceptron or MLPProbe(seed=self.seed)
        if isinstance(perceptron, MLPProbe):
            return perceptron.fit(self.h, self.z)
        return perceptron

    @cached_property
    def inlp(self) -> FittedINLP:
        """INLP, along whose directions AlterRep moves, too."""
        return INLP(self.max_rank, C=0.1).fit(self.h, self.z)

    @cached_property
    def spread(self) -> float:
        """Mean distance of the states from their mean."""
        return float((self.h - self.h.mean(0)).norm(dim=1).mean())

    def learn(self, method: LEACE | MeanShift) -> Any:
        """A streamed method, fitted on the sums if there are any."""
        if self.sums is not None:
            return method.fit_moments(self.sums)
        return method.fit(self.h, self.z)


Scale = Literal["rank", "α", "s", "ε"]


@dataclass(frozen=True)
class Intervention:
    """A row of the table.

    - `scale`: what its strength counts: directions, AlterRep's α, shares of a move, or a radius;
      None: it has a single strength, 1
    - `slider`: the largest strength on the page *Try it*; None: its script lacks the method
    - `needs`: beside labelled states: a probe to attack, pairs of states and the model's head, or
      the labels of the states that it edits
    - `speed`: "fast": fitted at every layer; "very slow": not once for every seed of an audit"""

    fitted: type  # the class of a fitted one
    fit: Callable[[FitData], Any]  # from data to a fitted edit
    colour: int  # position in the figures' palette
    flips: bool = True  # it moves states towards a wanted class; else it erases the property
    scale: Scale | None = None
    natural: float = 1.0  # the strength that the audit calls dose 1
    slider: float | None = None
    needs: Literal["states", "probe", "pairs", "labels"] = "states"
    streamed: bool = False  # sums over the states are enough to learn from
    speed: Literal["fast", "slow", "very slow"] = "fast"
    title: str = ""  # its name in tables of pages, if that is another one

    @property
    def name(self) -> str:
        """The name of its class."""
        return self.fitted.__name__.removeprefix("Fitted")

    def at(self, edit: Any, strength: float, data: FitData) -> Any:
        """A fitted edit at another strength; an attack's counts the radius of the data."""
        if self.scale is None:
            return edit
        if self.scale == "rank":
            return edit.at(int(strength))
        if self.scale == "ε":
            return edit.at(strength * (data.spread if data.radius is None else data.radius))
        return edit.at(strength)

    def apply(self, edit: Any, data: FitData) -> Callable[[Tensor, Tensor], Tensor]:
        """A fitted edit as a function of states [n, d] and wanted classes [n]."""
        if self.flips:
            return lambda h, to: edit(h, to=to)
        if self.needs == "labels":
            return lambda h, to: edit(h, data.probe(h).argmax(1))
        return lambda h, to: edit(h)


def _das(data: FitData) -> FittedDAS:
    assert data.fit_das is not None
    return data.fit_das()


INTERVENTIONS = {
    row.name: row
    for row in (
        Intervention(
            FittedINLP, lambda data: data.inlp, colour=0, flips=False, scale="rank", slider=16
        ),
        Intervention(
            FittedRLACE,
            lambda data: RLACE(seed=data.seed).fit(data.h, data.z),
            colour=9,
            flips=False,
            speed="slow",
            title="R-LACE",
        ),
        Intervention(
            FittedLEACE,
            lambda data: data.learn(LEACE()),
            colour=2,
            flips=False,
            slider=1,
            streamed=True,
        ),
        Intervention(
            FittedQLEACE,
            lambda data: QLEACE().fit(data.h, data.z),
            colour=11,
            flips=False,
            needs="labels",
            speed="slow",
        ),
        Intervention(
            FittedAlterRep,
            lambda data: FittedAlterRep(data.inlp, 1.0),
            colour=1,
            scale="α",
            natural=2.0,
            slider=16,
        ),
        Intervention(
            FittedMeanShift,
            lambda data: data.learn(MeanShift()),
            colour=5,
            scale="s",
            slider=4,
            streamed=True,
        ),
        Intervention(
            FittedAffineSteering,
            lambda data: AffineSteering().fit(data.h, data.z),
            colour=8,
            scale="s",
        ),
        Intervention(FittedDAS, _das, colour=10, scale="s", needs="pairs"),
        Intervention(
            FittedSparseFeatures,
            lambda data: SparseFeatures(autoencoder=data.autoencoder).fit(data.h, data.z),
            colour=12,
            scale="s",
            speed="very slow",
        ),
        Intervention(
            FGSM,
            lambda data: FGSM(data.probe, norm=data.norm),
            colour=3,
            scale="ε",
            slider=1.6,
            needs="probe",
        ),
        Intervention(
            PGD,
            lambda data: PGD(data.probe, norm=data.norm),
            colour=4,
            scale="ε",
            slider=1.6,
            needs="probe",
        ),
        Intervention(
            AutoAttack,
            lambda data: AutoAttack(data.probe, norm=data.norm, queries=data.queries),
            colour=6,
            scale="ε",
            needs="probe",
            speed="very slow",
        ),
    )
}
