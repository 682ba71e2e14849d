"""Seconds of chapter 1's methods against plain implementations and libraries, at equal results.

    .venv/bin/pip install -c constraints.txt -e '.[bench]'
    .venv/bin/python benchmarks/interventions.py [inlp] [leace] [rlace] [pgd] [grid] [--small]
    .venv/bin/python benchmarks/interventions.py --sweep [--items 20000] [--queries 1000]
                                                 [--device cpu] [--small]
    .venv/bin/python benchmarks/interventions.py --fits [--small]

The contestants take turns in one run on one CPU thread. The median of the turns' CPU seconds
counts, and a ratio is printed only after the results have been asserted equal. Without `--small`
each finished task replaces its table in data/records/benchmarks. The states are random projections
of pocket-agreement's states of generated sentences.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from references import network, official_inlp
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from probebook.base import DATA
from probebook.corpora import agreement
from probebook.interventions import (
    DAS,
    FGSM,
    INLP,
    LEACE,
    PGD,
    QLEACE,
    RLACE,
    AffineSteering,
    AlterRep,
    AutoAttack,
    MeanShift,
    SparseAutoencoder,
    SparseFeatures,
    rlace,
)
from probebook.interventions.attack import Attack
from probebook.interventions.rlace import FittedRLACE
from probebook.interventions.rlace_game import Game, project_to_fantope
from probebook.models import embed, load
from probebook.probes import LinearProbe, MLPProbe
from probebook.probes.mlp import FittedMLP
from probebook.probes.training import generator
from probebook_chapters.causal_probing import accuracy

FOLDER = DATA / "records" / "benchmarks"
EPSILONS = [*np.geomspace(0.005, 0.2, 20), *np.geomspace(0.2, 5, 10)[1:]]  # the paper's 29
ALPHAS = [0, 0.1, 0.5, 1, 2, 3, 4, 6, 8, 12, 16]


def states(n: int, d: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """States [n, d] of the last layer at [MASK], projected to d dimensions, and numbers [n]."""
    lm = load("pocket-agreement")
    table = agreement.load("generated", n, seed, lm.tokenizer, 0.5)
    h, draws = embed(table.text, lm, layer=-1, at="[MASK]"), torch.Generator().manual_seed(0)
    projected = h @ torch.randn(h.shape[1], d, generator=draws) / d**0.5
    return projected, torch.tensor(table.zc.to_numpy())


def turns(ways: dict[str, Callable], times: int) -> tuple[dict, dict[str, float]]:
    """The result of each way, and the median of its CPU seconds."""
    results, seconds = {}, {way: [] for way in ways}
    for _ in range(times):
        for way, run in ways.items():
            start = time.process_time()
            results[way] = run()
            seconds[way].append(time.process_time() - start)
    return results, {way: statistics.median(s) for way, s in seconds.items()}


def rows(
    task: str, d: int, seconds: dict[str, float], equal: str, ratios: bool = True
) -> list[dict]:
    """A row for each contestant; `ratio`: how many times as long as the first, this library."""
    own, found = next(iter(seconds.values())), []
    for way, s in seconds.items():
        ratio = float(f"{s / own:.3g}") if ratios else np.nan
        found.append(
            {
                "task": task,
                "d": d,
                "contestant": way,
                "seconds": float(f"{s:.3g}"),
                "ratio": ratio,
                "equal": equal,
            }
        )
    for r in found:
        print(f"{task}, d={d}: {r['contestant']}  {r['seconds']:g} s  ×{r['ratio']:g}", flush=True)
    print(f"    equal: {equal}", flush=True)
    return found


# INLP: the loop of its authors


def inlp(small: bool) -> list[dict]:
    found = []
    for d, rank in ((256, 8), (768, 3)) if small else ((256, 16), (768, 16)):
        h, z = states(4000, d)
        h, x, y = h.double(), h.double().numpy(), z.numpy()
        ways = {"probebook": lambda: INLP(rank, tol=-1).fit(h, z)}
        for tol in (1e-8, 1e-4):
            ways[f"scikit-learn loop, tol {tol:g}"] = lambda tol=tol: official_inlp(
                x, y, rank, tol=tol, max_iter=100_000
            )
        results, seconds = turns(ways, 1 if small or d > 256 else 3)  # minutes at 768
        edit, exact, default = results.values()
        for projections in (exact, default):
            assert edit.rank == rank == round(d - np.trace(projections[-1]))
        few = min(rank, 8)  # later on little is left to agree about
        early = h @ torch.from_numpy(exact[few - 1])
        gap = float((edit.at(rank=few)(h) - early).norm() / early.norm())
        edited = [edit(h), *(h @ torch.from_numpy(p) for p in (exact[-1], default[-1]))]
        losses = [float(F.cross_entropy(LinearProbe().fit(e, z)(e), z)) for e in edited]
        scores = [accuracy(LinearProbe().fit(e, z), e, z) for e in (edit.at(rank=few)(h), early)]
        assert gap < 0.01, f"after {few} rounds the states differ by {gap}"
        assert scores[0] == scores[1], f"after {few} rounds: accuracies {scores}"
        assert np.ptp(losses[:2]) < 0.01, f"a probe's losses after the edits: {losses}"
        printed = ", ".join(f"{loss:.4f}" for loss in losses)
        found += rows(
            f"INLP, rank {rank}",
            d,
            seconds,
            f"probe loss after: {printed}; after {few} rounds states to {gap:.0e}, "
            f"accuracy {scores[0]:.3f}",
        )
    return found


# LEACE: the package of its authors without shrinkage, which is another edit


def leace(small: bool) -> list[dict]:
    from concept_erasure import LeaceEraser

    found = []
    for d in (256, 768):
        h, z = states(4000, d)
        x, y = h.double(), z.double()
        ways = {
            "probebook": lambda: LEACE().fit(h, z),
            "concept-erasure, float64": lambda: LeaceEraser.fit(x, y, shrinkage=False),
        }
        results, seconds = turns(ways, 3 if small else 31)
        own, other = (edit(x) - x for edit in results.values())
        gap = float((own - other).norm() / own.norm())
        assert gap < 1e-6, f"the edits differ by {gap}"
        found += rows("LEACE", d, seconds, f"changes by the edits: {gap:.0e} of their norm")
        ways = {
            "probebook": ways["probebook"],
            "concept-erasure, float32": lambda: LeaceEraser.fit(h, z, shrinkage=False),
        }
        results, seconds = turns(ways, 3 if small else 31)
        gap = float((results["concept-erasure, float32"](h) - h - own).norm() / own.norm())
        equal = f"changes by the edits: {gap:.0e} of their norm" + ", not equal" * (gap >= 1e-3)
        found += rows("LEACE, the package in float32", d, seconds, equal, gap < 1e-3)
    return found


# R-LACE: the same game with A as a matrix, its d × d eigenvectors after every step


class DenseGame(Game):
    """The same game with A as a d × d matrix."""

    def __init__(self, start: np.ndarray, k: int, width: int):
        super().__init__(start, k, width)
        self.a = start @ start.T

    def erased(self, v: np.ndarray) -> np.ndarray:
        return v - self.a @ v

    def ascend(self, p: np.ndarray, q: np.ndarray) -> None:
        values, vectors = np.linalg.eigh(self.a + p @ q.T + q @ p.T)
        self.a = (vectors * project_to_fantope(values, 0, 0, self.rank)[0]) @ vectors.T

    def top(self, start: np.ndarray) -> np.ndarray:
        return np.linalg.eigh(self.a)[1][:, -self.rank :]


def whole_fit(game: type[Game], rank: int, h: torch.Tensor, z: torch.Tensor) -> FittedRLACE:
    """Play until no more than a thousandth of the label entropy is left."""
    with patch.object(rlace, "Game", game):
        return RLACE(rank).fit(h, z)


def play(game: type[Game], rank: int, steps: int, x: np.ndarray, y: np.ndarray) -> Game:
    """The game after so many steps."""
    start = np.linalg.qr(np.random.default_rng(0).normal(size=(x.shape[1], rank)))[0]
    game = game(start, 2, 16)
    for t in range(steps):
        batch = slice(128 * (t % 31), 128 * (t % 31) + 128)
        game.step(x[batch], game.contrasts[y[batch]], 0.005, 1e-5)
    return game


def rlace_game(small: bool) -> list[dict]:
    found, games = [], {"probebook": Game, "eigenvectors each step": DenseGame}
    for d, steps in ((256, 30), (768, 10)) if small else ((256, 400), (768, 100)):
        h, z = states(4000, d)
        x = (h - h.mean(0)).double().numpy()
        x /= np.sqrt(np.mean(x * x))
        for rank in (1, 8):
            ways = {
                way: lambda game=game: play(game, rank, steps, x, z.numpy())
                for way, game in games.items()
            }
            results, seconds = turns(ways, 3)
            a, b = (game.erased(np.eye(d)) for game in results.values())
            gap = np.abs(a - b).max()
            assert gap < 1e-4, f"the games differ by {gap}"
            per_step = {way: s / steps for way, s in seconds.items()}
            found += rows(
                f"R-LACE, rank {rank}, one step",
                d,
                per_step,
                f"I − A after {steps} steps: {gap:.0e}",
            )
            if d > 256:  # too many decompositions
                continue
            ways = {
                way: lambda game=game: whole_fit(game, rank, h, z) for way, game in games.items()
            }
            results, seconds = turns(ways, 1 if small else 3)
            own, other = results.values()
            gap = float((own.basis @ own.basis.T - other.basis @ other.basis.T).abs().max())
            assert own.steps == other.steps
            assert gap < 1e-3, f"the projections differ by {gap}"
            assert abs(own.loss - other.loss) < 1e-4, f"losses {own.loss}, {other.loss}"
            found += rows(
                f"R-LACE, rank {rank}, fit of {own.steps} steps",
                d,
                seconds,
                f"projection: {gap:.0e}; loss {own.loss:.4f} and {other.loss:.4f}",
            )
    return found


# PGD: the Adversarial Robustness Toolbox without clipping, and a plain loop


class Network(torch.nn.Module):
    """A fitted perceptron as a torch module."""

    def __init__(self, probe: FittedMLP):
        super().__init__()
        self.mean, self.std, self.layers = probe.mean, probe.std, torch.nn.Sequential()
        for i, (w, b) in enumerate(zip(probe.weights, probe.biases)):
            layer = torch.nn.utils.skip_init(torch.nn.Linear, *w.shape)
            layer.load_state_dict({"weight": w.T, "bias": b})
            last = i == len(probe.weights) - 1
            self.layers.extend([layer] if last else [layer, torch.nn.ReLU()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers((x - self.mean) / self.std)


def plain_pgd(
    net: torch.nn.Module, h: torch.Tensor, to: torch.Tensor, eps: float, steps: int
) -> torch.Tensor:
    """PGD as one would write it."""
    x = h.clone()
    for _ in range(steps):
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(net(x), to, reduction="sum"), x)
        x = torch.clamp(x.detach() - 2.5 * eps / steps * gradient.sign(), h - eps, h + eps)
    return x


def pgd(small: bool) -> list[dict]:
    warnings.simplefilter("ignore")
    from art.attacks.evasion import ProjectedGradientDescent
    from art.estimators.classification import PyTorchClassifier

    found, steps = [], 40
    for d in (256, 768):
        h, z = states(1000 if small else 4000, d)
        eps, to = 0.1 * float(h.std()), 1 - z
        for layers, width in ((1, 64), (2, 256)):
            probe = MLPProbe(layers, width, epochs=2).fit(h, z)
            net = Network(probe).eval()
            peer = PyTorchClassifier(
                net, torch.nn.CrossEntropyLoss(), (d,), 2, clip_values=None, device_type="cpu"
            )
            peers = {
                f"ART, batches of {batch}": ProjectedGradientDescent(
                    peer,
                    np.inf,
                    eps,
                    2.5 * eps / steps,
                    max_iter=steps,
                    targeted=True,
                    batch_size=batch,
                    verbose=False,
                )
                for batch in (32, 1024)
            }
            ways = {
                "probebook": lambda: PGD(probe, eps, steps=steps)(h, to=to),
                "plain loop": lambda: plain_pgd(net, h, to, eps, steps),
            }
            ways |= {
                name: lambda p=p: torch.from_numpy(p.generate(h.numpy(), to.numpy()))
                for name, p in peers.items()
            }
            results, seconds = turns(ways, 3)
            own = results["probebook"]
            same = min(float(((r - own).abs() < 1e-5).double().mean()) for r in results.values())
            flipped = [accuracy(probe, r, to) for r in results.values()]
            assert same > 0.999, f"equal coordinates: {same}"
            assert np.ptp(flipped) < 1e-3, f"flipped: {flipped}"
            found += rows(
                f"PGD, 40 steps, perceptron of {layers} × {width}",
                d,
                seconds,
                f"coordinates equal to 1e-5: {100 * same:.3f} %; flipped: {100 * flipped[0]:.1f} %",
            )
    return found


# 36 perceptrons: torch modules with torch's Adam one after another, with equal starts and batches


def one_by_one(
    cells: Sequence[MLPProbe],
    h: torch.Tensor,
    z: torch.Tensor,
    h_valid: torch.Tensor,
    z_valid: torch.Tensor,
    loader: bool = False,
) -> list[float]:
    """Validation accuracies; batches by indexing, or from torch's DataLoader."""
    mean, std, scores = h.mean(0), h.std(0).clamp_min(1e-6), []
    x, x_valid = (h - mean) / std, (h_valid - mean) / std
    for cell in cells:
        net = network(cell, [h.shape[1]] + [cell.width] * cell.layers + [2])
        optimizer = torch.optim.Adam(net.parameters(), lr=cell.lr)
        for epoch in range(cell.epochs):
            order = torch.randperm(len(x), generator=generator(cell.seed, epoch, len(x)))
            if loader:
                batches = DataLoader(TensorDataset(x, z), cell.batch, sampler=order.tolist())
            else:
                batches = ((x[rows], z[rows]) for rows in order.split(cell.batch))
            for inputs, classes in batches:
                optimizer.zero_grad()
                F.cross_entropy(net(inputs), classes).backward()
                optimizer.step()
        with torch.no_grad():
            scores.append(accuracy(net, x_valid, z_valid))
    return scores


def grid(small: bool) -> list[dict]:
    found = []
    for d in (256,) if small else (256, 768):
        h, z = states(4000, d)
        n = 320 if small else 1600
        examples = h[:n], z[:n], h[n:], z[n:]
        for widths in ((64,), (64, 256, 512, 1024)):
            cells = MLPProbe.grid(widths=widths, epochs=2)
            cells.fit(*examples)  # warm-up
            ways = {
                "probebook": lambda: [a for _, a in cells.fit(*examples).scores],
                "torch modules one after another": lambda: one_by_one(cells.cells, *examples),
                "the same with DataLoader": lambda: one_by_one(cells.cells, *examples, True),
            }
            results, seconds = turns(ways, 1 if small else 3)
            gaps = np.ptp(list(results.values()), axis=0)
            assert np.median(gaps) < 1e-3, f"validation accuracies differ: {np.sort(gaps)[-5:]}"
            assert gaps.max() < 0.02, f"validation accuracies differ: {np.sort(gaps)[-5:]}"
            width = f"{widths[0]} to {widths[-1]}" if len(widths) > 1 else f"{widths[0]}"
            found += rows(
                f"{len(cells.cells)} perceptrons, width {width}",
                d,
                seconds,
                f"validation accuracies: {gaps.max():.4f} at most",
            )
    return found


# All methods at all strengths


def sweep(small: bool, items: int, queries: int, device: str) -> list[dict]:
    """Seconds to fit, to edit and to judge, by method; nothing is compared."""
    found = []
    for d in (256, 768):
        h, z = (t.to(device) for t in states(4000 + items, d))
        fit, labels, x, to = h[:4000], z[:4000], h[4000:], 1 - z[4000:]
        probe = MLPProbe(1, 64).fit(fit, labels)
        oracle = MLPProbe(2, 256).fit(fit, labels)
        ranks = (0, 1, 8, 40) if small else range(41)
        epsilons = EPSILONS[::7] if small else EPSILONS

        def erased(edits: Iterable) -> Iterable[torch.Tensor]:
            return (edit(x) for edit in edits)

        def attacked(attack: Attack) -> Iterable[torch.Tensor]:
            return (attack.at(eps=eps)(x, to=to) for eps in epsilons)

        methods = {
            "INLP": (
                lambda: INLP(40).fit(fit, labels),
                lambda e: erased(e.at(rank=r) for r in ranks),
                len(ranks),
            ),
            "R-LACE": (lambda: [RLACE(r).fit(fit, labels) for r in ranks], erased, len(ranks)),
            "LEACE": (lambda: [LEACE().fit(fit, labels)], erased, 1),
            "AlterRep": (
                lambda: AlterRep().fit(fit, labels),
                lambda e: (e.at(alpha=a)(x, to=to) for a in ALPHAS),
                len(ALPHAS),
            ),
            "FGSM": (lambda: FGSM(probe), attacked, len(epsilons)),
            "PGD": (lambda: PGD(probe), attacked, len(epsilons)),
            f"AutoAttack, {queries} queries": (
                lambda: AutoAttack(probe, queries=queries),
                attacked,
                len(epsilons),
            ),
        }
        for name, (fitted, edited, strengths) in methods.items():
            begin, editing, judging = clock(device), 0.0, 0.0
            edit = fitted()
            start = clock(device)
            fitting = start - begin
            for e in edited(edit):
                middle = clock(device)
                editing += middle - start
                with torch.no_grad():
                    oracle(e).softmax(1)
                start = clock(device)
                judging += start - middle
            seconds = {"fit": fitting, "edit": editing, "judge": judging}
            found.append(
                {"method": name, "d": d, "items": items, "strengths": strengths}
                | {part: float(f"{s:.3g}") for part, s in seconds.items()}
            )
            row = pd.DataFrame(found[-1:])
            print(row.to_string(index=False, header=len(found) == 1), flush=True)
    return found


# Every method once


def fits(small: bool) -> list[dict]:
    """Seconds to fit every method on 2,000 states with its defaults, and to edit them once; nothing
    is compared.

    An attack fits nothing: what counts is its probe, a perceptron. DAS takes its pairs from other
    rows and learns through a random linear head with two answers."""
    found = []
    for d in (256,) if small else (256, 768):
        h, z = states(2000, d)
        draws = torch.Generator().manual_seed(0)
        head = torch.randn(d, 2, generator=draws)
        source = torch.empty_like(h)
        for c in (0, 1):
            rows = torch.randint(int((z != c).sum()), (int((z == c).sum()),), generator=draws)
            source[z == c] = h[z != c][rows]
        das = DAS(steps=20 if small else 300)
        sparse = SparseAutoencoder(steps=20 if small else 1000)

        def attack(kind: type[Attack]) -> Callable:
            return lambda: kind(MLPProbe().fit(h, z))

        methods: dict[str, Callable] = {
            "INLP, rank 8": lambda: INLP(8).fit(h, z),
            "R-LACE": lambda: RLACE().fit(h, z),
            "LEACE": lambda: LEACE().fit(h, z),
            "QLEACE": lambda: QLEACE().fit(h, z),
            "AlterRep, rank 8": lambda: AlterRep(8).fit(h, z),
            "MeanShift": lambda: MeanShift().fit(h, z),
            "AffineSteering": lambda: AffineSteering().fit(h, z),
            "DAS": lambda: das.fit(h, source, 1 - z, lambda states: states @ head),
            "SparseFeatures": lambda: SparseFeatures(autoencoder=sparse).fit(h, z),
            "FGSM": attack(FGSM),
            "PGD": attack(PGD),
            "AutoAttack": attack(AutoAttack),
        }
        for name, fit in methods.items():
            begin = time.process_time()
            edit = fit()
            middle = time.process_time()
            if name.startswith(("INLP", "R-LACE", "LEACE")):
                edit(h)
            else:
                edit(h, z if name == "QLEACE" else 1 - z)
            seconds = {"fit": middle - begin, "edit": time.process_time() - middle}
            found.append(
                {"method": name, "d": d, "items": len(h)}
                | {part: float(f"{s:.3g}") for part, s in seconds.items()}
            )
            row = pd.DataFrame(found[-1:])
            print(row.to_string(index=False, header=len(found) == 1), flush=True)
    return found


def clock(device: str) -> float:
    """CPU seconds of this process; seconds on the wall where a GPU works."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def machine(device: str) -> dict[str, str]:
    """The processor, the system and the versions of the packages."""
    names = "torch", "numpy", "scikit-learn", "adversarial-robustness-toolbox", "concept-erasure"
    name = f"{processor()}, one thread" if device == "cpu" else torch.cuda.get_device_name()
    return {
        "processor": name,
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def processor() -> str:
    """The name of the CPU."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    tasks = {"inlp": inlp, "leace": leace, "rlace": rlace_game, "pgd": pgd, "grid": grid}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", help=f"some of {', '.join(tasks)}; default: all")
    parser.add_argument(
        "--small", action="store_true", help="fewer rounds, steps and strengths; nothing is stored"
    )
    parser.add_argument("--sweep", action="store_true", help="all methods at all strengths instead")
    parser.add_argument("--fits", action="store_true", help="every method once instead")
    parser.add_argument("--items", type=int, default=20_000, help="edited states in the sweep")
    parser.add_argument(
        "--queries", type=int, default=1000, help="of AutoAttack's Square in the sweep"
    )
    parser.add_argument("--device", default="cpu", help="of the sweep")
    options = parser.parse_args()
    if unknown := set(options.tasks) - set(tasks):
        parser.error(f"no task {', '.join(sorted(unknown))}: choose from {', '.join(tasks)}")
    torch.set_num_threads(1)
    if options.sweep:
        found = sweep(options.small, options.items, options.queries, options.device)
        store("sweep", found, options)
    if options.fits:
        store("fits", fits(options.small), options)
    for task in [] if options.sweep or options.fits else options.tasks or tasks:
        store(task, tasks[task](options.small), options)


def store(name: str, found: list[dict], options: argparse.Namespace) -> None:
    """Write a finished task's table and the machine that it ran on, unless the run was small."""
    if not options.small:
        FOLDER.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(found).to_csv(FOLDER / f"{name}.csv", index=False)
        about = pd.Series(machine(options.device), name="value").rename_axis("what")
        about.to_csv(FOLDER / "machine.csv")


if __name__ == "__main__":
    main()
