"""Checks of the exercises of chapter 1, in the order of its pages; each takes what the student made."""
from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import torch

from probebook.labs.checks.expect import NotRight, close, given, interpretation, prediction, same_function, tick
from probebook.measures.counterfactual import relative_distance
from probebook.measures.reliability import completeness, reliability

# 01 agreement and embeddings


def incongruent_share(found):
    """Exercise 1: any share."""
    prediction(found, (0, 1))


def nearest_accuracy(found):
    """Exercise 2: right without an attractor, or where it has the subject's number."""
    def wanted(zc, ze):
        return np.mean([c == (c if e < 0 else e) for c, e in zip(zc, ze)])
    pairs = [([0, 0, 1, 1], [-1, 1, 1, 0]), ([0, 0, 0, 1, 1], [-1, -1, 1, 0, -1]), ([0, 1], [1, 0])]
    same_function(found, wanted, [(np.array(zc), np.array(ze)) for zc, ze in pairs],
                  why="without an attractor (-1) the subject is the nearest noun")


def majority_ze(found, ze, test):
    """Exercise 3: over the test sentences that have an attractor."""
    labels = pd.Series(np.asarray(ze)[np.asarray(test)])
    close(found, labels[labels >= 0].value_counts(normalize=True).max(), "majority_ze",
          why="count test sentences only, and of these only the ones with an attractor")


def read_or_used(found):
    """Exercise 4: speaks of the attractor, and of what the model chooses or what moves its state."""
    interpretation(found, ["attractor", "verb|choose|choice|flip"])


# 02 oracle probes


def leaning(found):
    """Exercise 1: any accuracy."""
    prediction(found, (0, 1))


def keep_shares_of_ze(found):
    """Exercise 2: every row of the table is filled in the proportions of Z_e, up to its scarcest cell."""
    def wanted(counts):
        shares = counts.sum(0) / counts.sum()
        return np.array([min(row / shares) * shares for row in counts])
    tables = [[[30, 10], [10, 30]], [[70, 20], [6, 4]], [[8, 4], [4, 2]], [[50, 20, 10], [5, 9, 6]]]
    same_function(found, wanted, [(np.array(counts),) for counts in tables],
                  why="every row has the shares of Z_e among all sentences; its scarcest cell says how long it is")


def gap_closed(found, table2):
    """Exercise 3: what the majority gets wrong and the probe gets right, as a share of the former."""
    given(found, "gap_closed")
    wanted = 1 - (1 - table2["here"]) / (1 - table2["majority here"])
    close(found, wanted, "gap_closed", why="from the majority to the probe, divided by from the majority to 1")


def wrong_judge(found):
    """Exercise 4: speaks of the correlation or congruence, and of the subject."""
    interpretation(found, ["correlat|congruent", "subject"])


# 03 first interventions


def winner(found):
    """Exercise 1: any of the three methods."""
    prediction(found, ["INLP", "AlterRep", "FGSM"])


def largest_distance(found):
    """Exercise 2: m of equation 3 is 1 - min p."""
    cases = [(np.array(p),) for p in ([.9, .1], [.5, .5], [.2, .3, .5], [1., 0.])]
    same_function(found, lambda p: 1 - p.min(), cases, why="the farthest answer puts all on the least likely label")


def raw_alpha(found):
    """Exercise 3: the raw step holds the squared length of w once too often."""
    draw = np.random.default_rng(0)
    cases = [(alpha, torch.from_numpy(draw.normal(size=8))) for alpha in (1., 4.)]
    same_function(found, lambda alpha, w: alpha / (w @ w), cases, why="|h·w| w holds the length of w twice")


def incomplete_erasure(found):
    """Exercise 4: speaks of the oracle or its perceptron, and of the uniform goal or label shares."""
    interpretation(found, ["oracle|perceptron|nonlinear|non-linear", "uniform|shares"])


# 04 nullifying


def silenced(found):
    """Exercise 1: any of the four answers."""
    prediction(found, ["neither", "linear", "perceptron", "both"])


def gap_left(found):
    """Exercise 2: projecting out b leaves the part of δ at a right angle to b, measured on vectors."""
    def wanted(c):
        delta, b = np.array([1., 0.]), np.array([c, (1 - c * c) ** .5])
        return np.linalg.norm(delta - b * (b @ delta))
    same_function(found, wanted, [(.6,), (1.,), (0.,), (.95,)], why="what is left of δ is at a right angle to b")


def equal_means(singulars, plurals):
    """Exercise 3: states of equal class means, of which none is in both classes."""
    classes = []
    for name, rows in (("singulars", singulars), ("plurals", plurals)):
        try:
            points = np.asarray(given(rows, name), dtype=float)
        except (TypeError, ValueError):
            raise NotRight(f"{name} should be rows of numbers, as in [[0., 1.], [2., 3.]]") from None
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise NotRight(f"{name} has shape {points.shape}: give one or more rows of finite numbers, [m, d]")
        classes.append(points)
    a, b = classes
    if a.shape[1] != b.shape[1]:
        raise NotRight(f"singulars have {a.shape[1]} coordinates, plurals {b.shape[1]}: give both the same")
    if not np.allclose(a.mean(0), b.mean(0), atol=1e-6):
        means = f"{a.mean(0).round(3)} and {b.mean(0).round(3)}"
        raise NotRight(f"the class means are {means}: where they differ, LEACE moves the states")
    if (shared := np.abs(a[:, None] - b).max(2).min(1) < 1e-6).any():
        raise NotRight(f"{a[shared][0]} is a state of both classes: nobody can read the number there")
    tick("equal means, and every state still tells its class")


def gone_for_whom(found):
    """Exercise 4: speaks of linear readers, and of perceptrons or the fixed oracles."""
    interpretation(found, ["linear", "perceptron|oracle"])


# 05 counterfactual


def most_selective(found):
    """Exercise 1: any of the five edits."""
    prediction(found, ["FGSM", "PGD", "AutoAttack", "AlterRep, unit", "AlterRep, raw"])


def smallest_radius(found):
    """Exercise 2: the log-odds divided by the L1 length of w, and 0 where the probe says the wanted label already."""
    draw = np.random.default_rng(0)
    cases = [(np.array([7., -1., 0.]), np.array([3., -4.])), (draw.normal(size=6), draw.normal(size=5))]
    same_function(found, lambda against, w: [max(a, 0) / sum(map(abs, w)) for a in against], cases,
                  why="each coordinate moves by ε, so the log-odds by ε times the sum of |w|; no radius is below 0")


def moved_by(found):
    """Exercise 3: the distance between coordinates before and after, taken row by row."""
    def wanted(along, sides, alpha):
        after = [[alpha * abs(c) * side for c in row] for row, side in zip(along, sides)]
        return np.linalg.norm(np.array(after) - along, axis=1)
    draw = np.random.default_rng(0)
    cases = [(np.array([[3., -4.]]), np.array([1.]), 1.), (np.array([[3., -4.]]), np.array([-1.]), 0.),
             (draw.normal(size=(4, 3)), np.array([1., -1., -1., 1.]), 2.5)]
    same_function(found, wanted, cases,
                  why="a component on the wrong side moves by 1 + α of itself, one on the right side by |α − 1|")


def transfer(found):
    """Exercise 4: speaks of the oracle or another probe, and of the attacked one."""
    interpretation(found, ["oracle|another probe|other probe", "attack|own probe|its probe"])


# 06 reliability


def erasure_over_rank(found):
    """Exercise 1: any of the three answers."""
    prediction(found, ["rises", "stays", "falls"])


def best_possible(found):
    """Exercise 2: the harmonic mean at full completeness."""
    same_function(found, lambda s: float(reliability(np.linspace(0, 1, 11), s).max()), [(.4,), (1.,), (.05,), (0.,)],
                  why="R grows with C, so put C at its largest")


def optimism(found, curves, table):
    """Exercise 3: the best score on the test sentences minus the one at the strength chosen on others."""
    ids = ["oracle", "method"]
    wanted = curves.groupby(ids).reliability.max() - table.set_index(ids).reliability
    if not isinstance(given(found, "optimism"), pd.Series):
        raise NotRight(f"optimism should be a Series indexed by oracle and method, not {type(found).__name__}")
    if set(found.index) != set(wanted.index):
        raise NotRight("optimism should have one entry for each pair of oracle and method, and no other")
    close(found.reindex(wanted.index), wanted, "optimism", why="chosen on the test sentences minus chosen on others")


def lead(found, draws):
    """Exercise 4: percentiles of the paired difference over the resamples."""
    paired = (draws["mlp", "PGD"] - draws["mlp", "FGSM"])[2, 1:]
    close(found, np.quantile(paired, [.025, .975]), "lead",
          why="subtract draw by draw, and leave out the first column, which is no resample")


def verdicts(found):
    """Exercise 5: speaks of what the intervals cover, and of what was drawn once."""
    interpretation(found, ["sentence", "model|oracle|probe|seed"])


# 07 layers


def arrives(found):
    """Exercise 1: any completeness."""
    prediction(found, (0, 1))


def do_nothing(found):
    """Exercise 2: what an oracle that answers with the shares gives to doing nothing, sentence by sentence."""
    def wanted(q):
        singular = round(1000 * q)
        to = [1] * singular + [0] * (1000 - singular)
        return float(completeness([[q, 1 - q]] * 1000, to=to).mean())
    same_function(found, wanted, [(.7,), (.5,), (1.,), (.2,)],
                  why="a singular sentence wants plural, and a share q is singular")


def survived(found, results):
    """Exercise 3: completeness at the last layer as a share of that at the edited layer, learned edits."""
    given(found, "survived")
    kept = results[results.directions == "learned"].set_index(["judged", "method", "layer"]).completeness
    wanted = (kept["at the last layer"] / kept["at its layer"]).sort_index()
    if not isinstance(found, pd.Series) or set(found.index) != set(wanted.index):
        raise NotRight("survived should be a Series with one entry for each pair of method and layer")
    close(found.reindex(wanted.index), wanted, "survived", why="learned edits alone: what arrived ÷ what was made")


def opinion(found):
    """Exercise 4: speaks of the oracles, and of where the number comes from."""
    interpretation(found, ["oracle|probe", "subject|position|attention|block"])


# 08 true counterfactual


def truth_selectivity(found):
    """Exercise 1: any selectivity."""
    prediction(found, (0, 1))


def distance(found):
    """Exercise 2: the same as the library's relative distance of states made to order."""
    def wanted(share, sideways):
        h, h_true = np.array([[1., 2., 2.]]), np.array([[1., 2., 5.]])
        return float(relative_distance(h + [[0., 3 * sideways, 3 * share]], h, h_true)[0])
    same_function(found, wanted, [(1., 0.), (.5, 0.), (1., 2.), (0., 0.), (1.5, .5)],
                  why="what is left of the way and the sideways move are at a right angle")


def one_vector(found):
    """Exercise 3: mean way from singular to plural, the way of plural sentences turned."""
    def wanted(h, h_true, zc):
        return np.mean([(b - a) if c == 0 else (a - b) for a, b, c in zip(h, h_true, zc)], axis=0)
    draw = np.random.default_rng(0)
    cases = [(np.array([[0., 1.], [4., 5.]]), np.array([[2., 1.], [0., 5.]]), np.array([0, 1])),
             (draw.normal(size=(7, 3)), draw.normal(size=(7, 3)), np.array([0, 0, 1, 0, 1, 1, 0]))]
    same_function(found, wanted, cases, why="a plural sentence goes the other way: turn its sign, or the ways cancel")


def by_chance(found):
    """Exercise 4: counted over all orders."""
    def wanted(m):
        orders = list(permutations(range(m)))
        return sum(o == orders[0] or o == orders[-1] for o in orders) / len(orders)
    same_function(found, wanted, [(4,), (3,), (5,), (6,)], why="of all orders of m methods two have ρ = ±1")


def calibrated(found):
    """Exercise 5: speaks of the truth, and of the oracle."""
    interpretation(found, ["truth|true|flip", "oracle|probe|judge"])


# 09 audit


def complete_at_a_tenth(found):
    """Exercise 1: any of the four answers."""
    prediction(found, ["unit", "raw", "both", "neither"])


def share_for(found):
    """Exercise 2: the share at which the library gives the ignorant oracle this completeness."""
    def wanted(c):
        shares = np.linspace(.5, 1, 1001)
        return shares[np.abs(completeness(np.c_[shares, 1 - shares]).numpy() - c).argmin()]
    same_function(found, wanted, [(.9,), (.604,), (1.,), (0.,)], tolerance=1e-3,
                  why="C = 1 − 2 (q − .5) for q of .5 or more")


def selectivity_for(found):
    """Exercise 3: put into equation 4 it gives the reliability it came from."""
    rows = [(c, s) for c in (1., .6, .35) for s in (.784, .4)]
    right = {(float(reliability(c, s)), c): s for c, s in rows}
    same_function(found, lambda r, c: right[r, c], list(right), why="solve r = 2cs/(c + s) for s")


def per_sentence(found, alter):
    """Exercise 4: selectivities whose mean is the printed one, and whose R at C = 1 has the printed mean."""
    try:
        s = np.asarray(given(found, "per_sentence"), dtype=float)
    except (TypeError, ValueError):
        raise NotRight("per_sentence should be an array of selectivities") from None
    if s.ndim != 1 or not s.size or not ((s >= 0) & (s <= 1)).all():
        raise NotRight("per_sentence should be a row of selectivities, each from 0 to 1")
    close(s.mean(), alter.selectivity, "the mean of per_sentence", tolerance=1e-3)
    close(np.mean(2 * s / (1 + s)), alter.reliability, "the mean of R over per_sentence", tolerance=1e-3,
          why="equal selectivities give the largest mean of R, selectivities of 0 and 1 the smallest")


def what_stands(found):
    """Exercise 5: speaks of arithmetic on what is printed, and of what was measured here."""
    interpretation(found, ["arithmetic|printed|table", "model|sentences|run|here"])
