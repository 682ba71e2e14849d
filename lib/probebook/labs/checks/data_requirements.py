"""Checks of the exercises of chapter 3, in the order of its pages; each takes what the student made."""
from __future__ import annotations

from math import comb, log, log2

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import binom, norm, t

from probebook.experiments.data_requirements import marks
from probebook.labs.checks.expect import interpretation, prediction, same_function
from probebook.measures.sample_size import constant, excess_risk, items_needed

# 01 from bounds to n


def against_itself(found):
    """Exercise 1: what N does as the pilot of a configuration against itself grows."""
    prediction(found, ["falls", "stays", "grows"])


def times_more(found):
    """Exercise 2: the ratio of the two rules' constants."""
    cases = [(dim,) for dim in (1, 10, 300, 768, 4096)]
    same_function(found, lambda dim: constant(dim, "correct") / constant(dim), cases,
                  why="2 and δ stand in both logarithms; ln of a power is the exponent times ln of the base")


def sign_safe(found):
    """Exercise 3: ε = Δ, so a quarter of the N at ε = Δ/2."""
    same_function(found, lambda delta, dim: constant(dim) / 4 / delta ** 2, [(.1, 768), (-.05, 300), (.01, 4096)], 1e-3,
                  why="the trained probes' difference lies between Δ − ε and Δ + ε")


def log_labellings(found):
    """Exercise 4: the logarithm of 2 Σ C(n − 1, k), in whole numbers."""
    cases = [(1, 1), (4, 1), (3, 5), (50, 8), (20_000, 300)]
    same_function(found, lambda n, dim: log(2 * sum(comb(n - 1, k) for k in range(dim + 1))), cases,
                  why="k runs from 0 to D, D among them; on 4 points of a line there are 8 labellings")


def what_was_verified(found):
    """Exercise 5: speaks of the power or McNemar's test, of the constant, and of the pilot."""
    interpretation(found, ["power|McNemar", "constant|factor|times|larger", "pilot"], 25)


# 02 power


def power_at(found):
    """Exercise 1: a power."""
    prediction(found, (0, 1))


def power_of_p(found):
    """Exercise 2: Φ(z of p/2 − z of .025)."""
    same_function(found, lambda p: norm.cdf(norm.isf(p / 2) - norm.isf(.025)), [(p,) for p in (.05, .005, .3, 1e-4)],
                  1e-3, why="p has two sides, and the next z lies around the one that was seen, with deviation 1")


def standard_error(found):
    """Exercise 3: the deviation of the items' means, over √items."""
    draw = np.random.default_rng(0)
    same = np.repeat(draw.random((1, 40)) < .7, 5, axis=0)
    apart = draw.random((5, 200)) < np.linspace(.2, .9, 200), draw.random((2, 30)) < .5
    cases = [(hits * 1.,) for hits in (same, *apart)]
    same_function(found, lambda hits: hits.mean(0).std(ddof=1) / hits.shape[1] ** .5, cases,
                  why="seeds share the test items: take each item's mean over seeds, and the items as the sample")


def false_alarms(found):
    """Exercise 4: speaks of training and of configurations, and of what is to be drawn."""
    interpretation(found, ["train", "configuration", "draw|independent|data set|sample"], 25)


# 03 encoders and probes


def what_moves(found):
    """Exercise 1: pooling or weights."""
    prediction(found, ["pooling", "weights"])


def coin_ratio(found):
    """Exercise 2: ε over the coin's 1/√n, the same for every n."""
    cases = [(n, dim) for dim in (192, 768) for n in (64, 1024, 65_536)]
    same_function(found, lambda n, dim: excess_risk(n, dim) * n ** .5, cases,
                  why="the coin is tested on n/4 items, and each of its answers has a standard deviation of ½")


def shared_out(found, crossed):
    """Exercise 3: both orders of the two changes; `crossed` holds the page's accuracies, two models or more a task."""
    tables = [part for _, part in crossed[["cls", "pooler"]].groupby(level=0)]
    cases = [({"cls": .7, "pooler": .8}, {"cls": .6, "pooler": .65})]
    cases += [(part.iloc[0].to_dict(), other) for part in tables for other in part.iloc[1:].to_dict("records")]

    def wanted(own, other):
        at_cls, at_pooler = own["cls"] - other["cls"], own["pooler"] - other["pooler"]
        return (at_cls + at_pooler) / 2, own["pooler"] - other["cls"] - (at_cls + at_pooler) / 2

    same_function(found, wanted, cases, why="both parts add up to own pooler − other cls; weights come first in the "
                                            "pair, and each part is the mean over both orders")


def luck(found):
    """Exercise 4: the expected maximum of independent binomials."""
    def wanted(settings, items):
        least = binom.cdf(np.arange(items + 1), items, .5) ** settings
        return np.diff(least, prepend=0) @ np.arange(items + 1) / items

    same_function(found, wanted, [(1, 16), (20, 16), (20, 128), (100, 512)], .005,
                  why="the best of k coins has at most j right if all k have at most j right")


def could_it_fail(found):
    """Exercise 5: speaks of the coin or control, and of what the margin is centred on or set against."""
    interpretation(found, ["coin|control", "deviation|scatter|spread", "mean|centre|center|unlimited"], 25)


# 04 collapse


def most_collapsed(found, rules):
    """Exercise 1: one of the page's rules."""
    prediction(found, list(rules))


def by_luck(found):
    """Exercise 2: the normal distribution between ± .02."""
    cases = [(64, .2), (4096, .2), (1024, .05), (256, 1.)]
    same_function(found, lambda n, differ: 1 - 2 * norm.sf(.02 * (n / differ) ** .5), cases, 1e-4,
                  why="the standard deviation of Δ̂ is √(differ/n), and Δ̂ may lie on both sides of 0")


def p_equal(found):
    """Exercise 3: the larger of two one-sided p-values."""
    cases = [(0., .01, 5), (.012, .004, 5), (-.012, .004, 5), (.03, .01, 5), (-.03, .01, 11)]
    same_function(found, lambda delta, se, df: t.sf((.02 - abs(delta)) / se, df), cases, 1e-5,
                  why="both Δ ≤ −.02 and Δ ≥ .02 have to be rejected, so the larger p counts")


def power_to_prove(found):
    """Exercise 4: both one-sided tests reject, or none can."""
    def wanted(n, differ, gap=0.):
        width = .02 - norm.isf(.05) * (differ / n) ** .5
        inside = norm.cdf(np.array([-width, width]), gap, (differ / n) ** .5)
        return max(0., inside[1] - inside[0])

    cases = [(64, .2), (2000, .2), (5000, .2), (5000, .2, .01), (20_000, .2, .01), (20_000, .2, .03)]
    same_function(found, wanted, cases, 1e-4,
                  why="\"equal\" is said where |Δ̂| < .02 − 1.645 · √(differ/n); nowhere, if that is below 0")


def nothing_found(found):
    """Exercise 5: speaks of power or the number of items, and of equivalence, a margin or an interval."""
    interpretation(found, ["power|few|small|items", "equivalen|margin|interval|.02"], 25)


# 05 description length


def steadiest(found, criteria):
    """Exercise 1: one of the page's criteria."""
    prediction(found, list(criteria))


def code_length(found):
    """Exercise 2: uniform bits of the first block, then mean losses in nats times items, over ln 2."""
    draw = np.random.default_rng(0)
    cases = [(np.array([log(2)]), np.array([2, 10]), 2), (np.array([.7, .4, .2]), np.array([2, 10, 40, 100]), 2),
             (draw.random(5), np.array([3, 9, 20, 50, 90, 300]), 6)]

    def wanted(losses, ends, k):
        blocks = [(end - begin) * loss for begin, end, loss in zip(ends[:-1], ends[1:], losses, strict=True)]
        return ends[0] * log2(k) + sum(blocks) * log2(np.e)

    same_function(found, wanted, cases,
                  why="losses are nats, means over the items of a block; the first block has none")


def true_compression(found):
    """Exercise 3: all but the first block from nats to bits."""
    def wanted(reported, n, first, k):
        plain = first * log2(k)
        return n * log2(k) / (plain + (reported - plain) / log(2))

    same_function(found, wanted, [(1000, 1600, 2, 2), (2000, 1600, 64, 6), (50, 100, 1, 2)],
                  why="a nat is 1/ln 2 bits, and the first block is in bits already")


def decodable(found):
    """Exercise 4: the shortest code, and the name of its setting."""
    cases = [(np.array(bits),) for bits in ([900., 850., 910., 1000.], [50., 40.], [7.])]
    same_function(found, lambda bits: np.min(bits) + log2(len(bits)), cases,
                  why="the receiver has to be told which of the settings it was")


def steady_order(found):
    """Exercise 5: speaks of random labels and of where a preference comes from."""
    interpretation(found, ["random", "overfit|width|wide|penalty|unit|confident|sure|spectrum"], 25)


# 06 does it work


def turned(found):
    """Exercise 1: a share of labs."""
    prediction(found, (0, 1))


def marked(found):
    """Exercise 2: covered, short and none, with inf for no number."""
    def wanted(numbers, enough):
        return marks({"": numbers}, enough)[["covered", "short", "none"]].to_numpy()[0]

    cases = [(np.array(numbers), 100.) for numbers in
             ([50, 100, 400, np.inf], [99., 99, 99], [np.inf, np.inf], [1e6, 100, 2, np.inf, np.inf])]
    same_function(found, wanted, cases, why="inf is no number: such a lab is neither covered nor short")


def least_constant(found):
    """Exercise 3: where the probability that c / Δ̂² suffices passes .95."""
    def wanted(gap, m, p):
        least, spread = 4 * items_needed((p + gap) / 2, (p - gap) / 2), ((p - gap ** 2) / m) ** .5
        ends = lambda c: norm.cdf([-(c / least) ** .5, (c / least) ** .5], gap, spread)                    # noqa: E731
        return brentq(lambda c: ends(c) @ [-1, 1] - .95, 1e-3, 1e7)

    same_function(found, wanted, [(.05, 256, .2), (.01, 256, .2), (.02, 4096, .1), (.1, 64, .4)], 1e-3,
                  why="the probability of sufficient numbers should be .95 at this constant")


def ever_found(found):
    """Exercise 4: any look with an exact p ≤ .05."""
    draw, cases = np.random.default_rng(0), []
    for rates in ([.1, .1, .8], [.15, .1, .75], [.01, .01, .98]):
        more = draw.multinomial([32, 32, 64, 128, 256], rates, (100, 5))
        cases.append(tuple(more.cumsum(1)[..., :2].transpose(2, 0, 1)))

    def wanted(wins, losses):
        less = np.minimum(wins, losses)
        return (2 * binom.cdf(less, wins + losses, .5) <= .05 + 1e-12).any(1).mean()

    same_function(found, wanted, cases, why="a lab stops at its first p ≤ .05, on either side")


def which_rule(found):
    """Exercise 5: speaks of the pilot, and of a difference fixed beforehand or of how often probes disagree."""
    interpretation(found, ["pilot", "least difference|beforehand|care|matters|disagree|differ"], 25)


# 07 calculator


def what_matters(found):
    """Exercise 1: the disagreement or the route."""
    prediction(found, ["disagreement", "route"])


def ends_of_disagreement(found):
    """Exercise 2: nested errors, and as many errors on different items as there can be."""
    cases = [(.85, .8), (.8, .85), (.6, .4), (.3, .2), (1., .5)]
    same_function(found, lambda a, b: (abs(a - b), 1 - abs(a + b - 1)), cases,
                  why="at least the better one's lead; at most what is right, or wrong, of both together")


def only_one(found):
    """Exercise 3: right and wrong, not same and other."""
    draw, cases = np.random.default_rng(0), []
    for k in (2, 4):
        label = draw.integers(k, size=60)
        cases.append((draw.integers(k, size=60), np.where(draw.random(60) < .6, label, 0), label))

    def wanted(a, b, label):
        table = pd.crosstab(pd.Categorical(a == label, [False, True]), pd.Categorical(b == label, [False, True]),
                            dropna=False).to_numpy() / len(label)
        return table[1, 0], table[0, 1]

    same_function(found, wanted, cases, why="two different wrong answers are no item that only one gets right")


def overrated(found):
    """Exercise 4: the mean of the differences that were found, over the true one."""
    draw, cases = np.random.default_rng(0), []
    for n, p, q in [(100, .2, .1), (400, .15, .1), (64, .11, .09)]:
        wins, losses, _ = draw.multinomial(n, [p, q, 1 - p - q], 500).T
        cases.append((wins, losses, n, p - q))

    def wanted(wins, losses, n, gap):
        seen = 2 * binom.cdf(np.minimum(wins, losses), wins + losses, .5) <= .05 + 1e-12
        return np.mean(np.abs(wins - losses)[seen]) / n / gap

    same_function(found, wanted, cases, why="only pilots with p ≤ .05 count, and their differences without the sign")


def no_upper_end(found):
    """Exercise 5: speaks of the interval or its end, and of what to do."""
    interpretation(found, ["interval|end|infinit", "pilot", "items|larger|more|collect"], 25)
