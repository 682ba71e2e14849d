"""Checks of the exercises of chapter 4, in the order of its pages; each takes what the student made."""
from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from probebook.labs.checks.expect import NotRight, close, given, interpretation, prediction, same_function, tick
from probebook.measures.specification import shares

# 01 toy world


def weak_text(found):
    """Exercise 1: any of the three signs."""
    prediction(found, ["positive", "about zero", "negative"])


def sign_after(found):
    """Exercise 2: the covariance after selection is that of W and T times that of G and T, with a minus before it."""
    cases = [(1., 1.), (1., -1.), (-1., -1.), (-2., .5), (0., 1.)]
    same_function(found, lambda u, v: 0 - np.sign(u) * np.sign(v), cases,
                  why="c holds u Var W and v Var G; the covariance goes down by a positive multiple of their product")


def limit(found):
    """Exercise 3: the partial correlation of W and G given T, from the inverse of their covariance."""
    def partial(alpha, noise):
        w, g = alpha ** 2 / 4, alpha ** 2
        p = np.linalg.inv([[w, 0, w], [0, g, g], [w, g, w + g + noise ** 2]])
        return -p[0, 1] / (p[0, 0] * p[1, 1]) ** .5
    same_function(found, partial, [(10., 1.), (10., 10.), (1., 1.), (3., .5)], 1e-5,
                  why="λ(λ − a) goes to 1: what is left is the covariance given T, in which both variances shrink too")


def unpromised_zero(found):
    """Exercise 4: speaks of the two effects that cancel, and of the graph or faithfulness."""
    interpretation(found, ["cancel|opposite|compensat", "graph|faithful"])


# 02 correlations


def delta_over_places(found):
    """Exercise 1: where the interval of delta may lie."""
    prediction(found, ["above 0", "around 0", "below 0"])


def interval(found, means):
    """Exercise 2: against SciPy's fit, on the page's means by kind and on short random series."""
    draw = np.random.default_rng(0)
    series = [(np.arange(float(n)), draw.normal(size=n)) for n in (4, 12)]
    series += [(mean.index.to_numpy(float), mean[gender].to_numpy(float)) for mean in means.values()
               for gender in ("female", "male")]

    def wanted(x, y):
        fit = stats.linregress(x, y)
        away = stats.t.ppf(.975, len(x) - 2) * fit.stderr
        return fit.slope, fit.slope - away, fit.slope + away
    same_function(found, wanted, series, 1e-5,
                  why="the residuals' variance divides by n − 2, and few points need Student's t in place of 1.96")


def mass_up_share_down(found):
    """Exercise 3: two triples of masses, of which the female mass rises while its share falls."""
    try:
        before, after = np.asarray(given(found, "your example"), float)
    except (TypeError, ValueError):
        raise NotRight("your example should be two triples of numbers: (female, male, neutral), twice") from None
    if before.shape != (3,):
        raise NotRight(f"your example has triples of shape {before.shape}: each should be (female, male, neutral)")
    for name, mass in {"before": before, "after": after}.items():
        if mass.min() < 0 or not 0 < mass.sum() <= 100:
            raise NotRight(f"the masses {name} are {mass.tolist()}: probabilities in percent, that is from 0 to 100 "
                           "in sum, and not all 0")
    then, now = shares([before, after])[:, 0]
    if not after[0] > before[0]:
        raise NotRight(f"the female mass goes from {before[0]:g} to {after[0]:g}: it should rise")
    if not now < then:
        raise NotRight(f"the female share goes from {then:.1f} to {now:.1f} %: it should fall, so the others' masses "
                       "have to grow by a larger factor")
    tick("your example")


def years_that_are_none(found):
    """Exercise 4: speaks of digits or numbers, of the shuffled null, and of the texts' own control."""
    interpretation(found, ["digit|number|token", "shuffl|permut|null", "time|year"], 30)


# 03 detection


def strength_needed(found):
    """Exercise 1: one of the strengths that are tried, or none."""
    prediction(found, [0, .1, .2, .5, 1, 2, 4, "more than 4"])


def area_by_hand(found, table):
    """Exercise 2: against Mann and Whitney's count of ranks, on small cases with ties and on the page's sets."""
    cases = [(np.array([3., 1., 2., 0.]), np.array([True, True, False, False])),
             (np.array([1., 1., 1., 0., 2.]), np.array([True, False, True, False, False]))]
    cases += [(part.female.to_numpy(), part.unspecified.to_numpy()) for _, part in table.groupby("set", sort=False)]

    def wanted(metric, unspecified):
        ranks, m = stats.rankdata(metric), unspecified.sum()
        return (ranks[unspecified].sum() - m * (m + 1) / 2) / (m * (~unspecified).sum())
    same_function(found, wanted, cases, why="count pairs of one text of each kind, equal ones as one half")


def change_of_share(found):
    """Exercise 3: a shift of log-odds multiplies the odds."""
    def wanted(share, beta):
        odds = share / (100 - share) * np.exp(beta)
        return 100 * odds / (1 + odds) - share
    cases = [(50., 1.), (10., 1.), (98., 1.), (2., -.5), (30., 0.)]
    same_function(found, wanted, cases, 1e-5,
                  why="β p (1 − p) holds for small β only; the exact share comes from the log-odds plus β, in percent")


def upside_down(found):
    """Exercise 4: speaks of the labels that chose the direction, and of the level of the share or its room."""
    interpretation(found, ["label|answer|after|afterwards|hindsight", "room|level|share|50|middle"], 30)


# 04 trained worlds


def better_learned(found):
    """Exercise 1: times or places."""
    prediction(found, ["times", "places"])


def two_slopes(found):
    """Exercise 2: differences of Bayes' law between t = 0 and t = 1, by numbers."""
    def wanted(s, neutral):
        kept = .5 + s * np.outer([-.5, .5], [1, -1, 0])                                # t = 0 and t = 1
        joint = kept * [(1 - neutral) / 2, (1 - neutral) / 2, neutral]
        joint /= joint.sum(1, keepdims=True)
        return np.diff(joint[:, 0]).item(), np.diff(joint[:, 0] / joint[:, :2].sum(1)).item()
    same_function(found, wanted, [(.5, .1), (1., .1), (.5, 0.), (.3, .6), (0., .1)],
                  why="the mass of she is the share of those called she or he times ½ + s (t − ½)")


def texts_that_count(found):
    """Exercise 3: the moments of the weights on a fine grid of t, each selected text with its chance."""
    def wanted(s):
        t = (np.arange(200_000) + .5) / 200_000
        chance = .5 + s * np.outer(t - .5, [1, -1, 0])
        weight, drawn = .5 / chance, chance * [.45, .45, .1] / len(t)
        drawn /= drawn.sum()
        return (weight * drawn).sum() ** 2 / (weight ** 2 * drawn).sum()
    same_function(found, wanted, [(.75,), (.25,), (.5,), (.95,)], 1e-3,
                  why="E[w²] among the selected is Σ P(G) ∫ P(S) w² dt / P(S = 1); those called they keep the weight 1")


def one_sided(found):
    """Exercise 4: speaks of what was learned or could be gained, and of both directions."""
    interpretation(found, ["learn|gain|train", "slope", "other|cause|style|something like"], 30)


# 05 audit


def below_a_coin(found):
    """Exercise 1: a number of the eleven models."""
    prediction(found, (0, 11))


def rate_bounds(found):
    """Exercise 2: surely found by all three metrics, possibly by one."""
    draw = np.random.default_rng(0)
    cases = [(np.array([[True, True, True], [True, False, False], [False, False, False], [False, True, True]]),),
             *((draw.random((n, 3)) < p,) for n, p in ((48, .5), (360, .9), (7, .1)))]

    def wanted(above):
        votes = above.sum(axis=1)
        return np.mean(votes == 3), np.mean(votes > 0)
    same_function(found, wanted, cases, why="each text may have any of its three metrics, apart from the other texts")


def weights_as_drawn(found):
    """Exercise 3: the running sum, divided each time, of one 1 among 0s."""
    def wanted(k):
        mean = np.zeros(k)
        for row in np.eye(k):
            mean = (mean + row) / k
        return mean
    same_function(found, wanted, [(1,), (2,), (3,), (5,)],
                  why="the first value is divided by k as often as there are values, the last one once")


def elsewhere(found, scan):
    """Exercise 4: at the lowest of the thresholds that are best on the simplified texts, scored on Winogender."""
    wanted = {}
    for model, part in scan.groupby("model"):
        part = part.set_index("threshold")
        here, there = (part.balanced[part.texts == kind] for kind in ("simplified", "winogender"))
        wanted[model] = there[here.index[here == here.max()].min()]
    wanted = pd.Series(wanted)
    if isinstance(given(found, "elsewhere"), pd.Series):
        if set(found.index) != set(wanted.index):
            raise NotRight(f"elsewhere should have a value for each model, {', '.join(wanted.index)}; its index is "
                           f"{', '.join(map(str, found.index[:4]))} …")
        found = found[wanted.index]
    close(found, wanted, "elsewhere", why="the threshold is chosen on one set of texts and scored on the other; of "
                                          "equally good ones the lowest counts")


def what_survives(found):
    """Exercise 5: speaks of the order of the models, of the genders of the files, and of thresholds or areas."""
    interpretation(found, ["order|rank|best", "gender|file", "threshold|area|curve"], 30)
