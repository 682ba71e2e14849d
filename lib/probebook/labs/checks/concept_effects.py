"""Checks of the exercises of chapter 2, in the order of its pages; each takes what the student made."""
from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pandas as pd

from probebook.labs.checks.expect import close, given, interpretation, prediction, same_function

# 01 reviews and edits


def where_strangers_meet(found):
    """Exercise 1: any of the three answers."""
    prediction(found, ["many", "few", "no difference"])


def strangers(found):
    """Exercise 2: pairs of one number with other labels, less those of one review."""
    draw = np.random.default_rng(0)
    values = ["Negative", "Positive", "unknown"]
    cases = [([7, 7, 7], ["a", "a", "b"], ["Positive", "Negative", "Negative"])]
    for n in (12, 30):
        review = draw.integers(0, 8, n)
        cases.append(((review % 3).tolist(), review.tolist(), draw.choice(values, n).tolist()))

    def wanted(number, review, label):
        return _differing(number, label) - _differing(list(zip(number, review)), label)

    same_function(found, wanted, cases,
                  why="a pair has one number, two reviews and two labels, and is counted once, in either order")


def _differing(keys, labels):
    """Unordered pairs of one key whose labels differ: all pairs of the key less those of one label."""
    both = Counter(zip(keys, labels))
    return (sum(n ** 2 for n in Counter(keys).values()) - sum(n ** 2 for n in both.values())) / 2


def unmixed(found, mixture, weight):
    """Exercise 3: the mean of all pairs is (1 - share) times that of true pairs plus share times that of strangers."""
    cases = [(1.5, .5, 1.), (1.2, .4, .9), (-.6, .25, -.3)]
    same_function(found, lambda ate, share, strange: (ate - share * strange) / (1 - share), cases,
                  why="the published effect is a mean of two means, weighted by their shares of the pairs")
    rows = mixture.assign(share=weight).dropna(subset=["as published", "one review", "strangers", "share"])
    rows = rows[rows.share < 1]
    close(found(rows["as published"], rows.share, rows.strangers), rows["one review"],
          "the effect in pairs of one review, from the other columns of the table")


def pull_towards_zero(found):
    """Exercise 4: speaks of the strangers, and of where they started: the originals or their head start."""
    interpretation(found, ["stranger", "original|head start"])


# 02 black boxes


def smaller_effects(found, n):
    """Exercise 1: a number of the changes."""
    prediction(found, (0, n))


def mean_f1(found):
    """Exercise 2: macro-F1 from precision and recall; a class that is never named counts as 0."""
    draw = np.random.default_rng(0)
    cases = [(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0])), (np.array([2, 1, 0, 2]), np.array([2, 1, 0, 1]))]
    cases.append((draw.integers(0, 5, 60), draw.integers(0, 5, 60)))

    def wanted(z, guess):
        scores = []
        for c in np.union1d(z, guess):
            hits = np.sum((z == c) & (guess == c))
            precision, recall = hits / max(np.sum(guess == c), 1), hits / max(np.sum(z == c), 1)
            scores.append(2 * precision * recall / (precision + recall) if hits else 0)
        return np.mean(scores)

    same_function(found, wanted, cases, why="every class counts alike, also one that is never named: its F1 is 0")


def both_effects(found):
    """Exercise 3: the change of the most probable star, and of the expected stars."""
    cases = [(np.array([.1, .2, .4, .2, .1]), np.array([0., .1, .4, .3, .2]))]
    cases += [tuple(pair) for pair in np.random.default_rng(0).dirichlet(np.ones(5), (3, 2))]

    def wanted(p, p_new):
        return [float(p_new.argmax()) - float(p.argmax()), (4 - p_new.cumsum()[:4].sum()) - (4 - p.cumsum()[:4].sum())]

    same_function(found, wanted, cases,
                  why="[most probable star after less before, expected stars after less before], with stars 1 … 5")


def break_even(found):
    """Exercise 4: the classifier stands in the middle between the two effects."""
    cases = [(w,) for w in (0., .4, .8, 1.)]
    same_function(found, lambda w: np.mean([w, 1.]), cases,
                  why="the gaps are |s - w| and |s - 1| times the effect: for which s are they equal?")


def stand_in(found):
    """Exercise 5: speaks of single pairs and of means."""
    interpretation(found, ["pair", "mean|average", "reader"])


# 03 explainers


def worse_than_silence(found, n):
    """Exercise 1: a number of the explainers."""
    prediction(found, (0, n))


def adjusted(found):
    """Exercise 2: against weights one over the share of the concept's value in the stratum, which give the same."""
    draw = np.random.default_rng(0)
    cases = [(np.array([2., 4, 4, 4, 1, 1, 1, 3]), np.array([0, 1, 1, 1, 0, 0, 0, 1]), np.repeat([0, 1], 4))]
    for n in (40, 90):
        w, z = draw.integers(0, 3, n), draw.integers(0, 2, n)
        w[:6], z[:6] = [0, 0, 1, 1, 2, 2], [0, 1] * 3
        cases.append((z * (1. + w) - 2 * w + draw.normal(size=n), z, w))

    def wanted(y, z, w):
        share = np.array([z[w == value].mean() for value in w])
        return np.mean(y * z / share) - np.mean(y * (1 - z) / (1 - share))

    same_function(found, wanted, cases,
                  why="a difference of means in each stratum of w, weighted by the stratum's share of all rows")


def cost_of_drawing(found):
    """Exercise 3: the mean squared error of one draw less that of the mean of all, whatever the truth."""
    draw = np.random.default_rng(0)
    cases = [(np.array([[.2, -.2], [.4, -.4]]),), (draw.normal(size=(6, 5)),), (np.ones((3, 4)),)]

    def wanted(estimates):
        truth = draw.normal(size=estimates.shape[1])
        return ((estimates - truth) ** 2).sum(1).mean() - ((estimates.mean(0) - truth) ** 2).sum()

    same_function(found, wanted, cases, why="the classes' variances over the draws, summed; divide by m, not by m - 1")


def slope_of_probs(found):
    """Exercise 4: against a small step along the slopes, from logits that give p."""
    draw = np.random.default_rng(0)
    cases = [(np.array([1., 0, 0]), np.array([.5, .25, .25]))]
    cases += [(draw.normal(size=k), draw.dirichlet(np.ones(k))) for k in (2, 5)]

    def wanted(slopes, p):
        up, down = (p * np.exp(step * slopes) for step in (1e-5, -1e-5))
        return (up / up.sum() - down / down.sum()) / 2e-5

    same_function(found, wanted, cases,
                  why="a softmax rises with its logit and falls with every other: the entries must sum to 0")


def without_direction(found):
    """Exercise 5: speaks of the goal, and of an explainer that is not told it."""
    interpretation(found, ["direction|goal|wanted", "TCAV|INLP|CausaLM|ConceptSHAP"])


# 04 scoreboard


def better_than_nothing(found, n):
    """Exercise 1: a number of the explainers."""
    prediction(found, (0, n))


def three_answers(found):
    """Exercise 2: rows zero, double, reversed; columns cosine, L2, normdiff."""
    length = .32 ** .5
    close(found, [[1, length, length], [0, length, length], [2, 2 * length, 0]], "the table of errors", tolerance=.006,
          why="rows: zero, double, reversed; columns: cosine, L2, normdiff; the cosine error of a zero vector is 1")


def best_scale(found):
    """Exercise 3: the minimum of the parabola, found by fitting it through three points."""
    draw = np.random.default_rng(0)
    cases = [(np.array([[1., -1.]]), np.array([[2., -2.]])), (draw.normal(size=(7, 5)), draw.normal(size=(7, 5)))]

    def wanted(true, estimated):
        at = [((true - t * estimated) ** 2).sum() for t in (-1, 0, 1)]
        return (at[0] - at[2]) / (2 * (at[0] + at[2] - 2 * at[1]))

    same_function(found, wanted, cases, why="set the derivative of the sum of |e - t ê|² by t to 0")


def drawn_mean(found):
    """Exercise 4: a mean over the pairs of the drawn groups, in which a group counts as often as it was drawn."""
    draw = np.random.default_rng(0)
    cases = [(np.array([0., 0, 3]), np.array(["a", "a", "b"]), ["a", "b"]),
             (np.array([0., 0, 3]), np.array(["a", "a", "b"]), ["b", "b"]),
             (draw.normal(size=20), np.repeat([*"abcd"], [2, 3, 5, 10]), [*"cabc"])]

    def wanted(values, groups, drawn):
        times = Counter(drawn)
        return np.average(values, weights=[times[group] for group in groups])

    same_function(found, wanted, cases, why="every pair of a drawn group counts, as often as the group was drawn; the "
                                            "mean is over pairs, not over groups")


def survives_the_swap(found):
    """Exercise 5: speaks of the lengths and of the wrong pairs."""
    interpretation(found, ["length|norm|size", "pair", "direction|cosine"])


# 05 audit


def most_changed(found, names):
    """Exercise 1: any of the five."""
    prediction(found, names)


def lost_to_or(found, train):
    """Exercise 2: the reviews that have the label Negative, aspect by aspect."""
    labels = train[[f"{aspect}_aspect_majority" for aspect in ("food", "service", "ambiance", "noise")]]
    close(found, (labels == "Negative").sum(), "the reviews that the slip drops",
          why="kept by the right dictionary less kept by the wrong one, for food, service, ambiance, noise")


def gradients(found, head, state):
    """Exercise 3: times a direction, the gradients give what a small step in it does to the outputs."""
    rows = given(found(head, state), "class_gradients(head, h)")
    directions = [state.new_tensor(v) for v in np.random.default_rng(0).normal(size=(3, len(state)))]
    steps = [(head(state + 1e-5 * v) - head(state - 1e-5 * v)) / 2e-5 for v in directions]
    wanted = np.array([step.detach().tolist() for step in steps])
    along = [[float((row * v).sum()) for row in rows] for v in directions]
    close(along, wanted, "the gradients along three random directions", tolerance=1e-4 * np.abs(wanted).max(),
          why="class j must have its own gradient alone, not a sum over classes")


def least_length(found):
    """Exercise 4: the shortest vector with that sum has equal entries."""
    cases = [(5, .5), (2, .5), (5, .2), (3, .5), (4, 0.)]
    same_function(found, lambda k, less: np.linalg.norm(np.full(k, 1 / k - less)), cases,
                  why="a softmax less b has the sum 1 - k b, and the shortest vector of that sum has equal entries")


def cause_of_one(found):
    """Exercise 5: speaks of the two orders of a pair or the direction, and of what the slips can explain."""
    interpretation(found, ["TCAV", "direction|opposite|both orders|reverse", "slip|released|code"])


# 06 known world


def share_left(found):
    """Exercise 1: a share of Zero's error."""
    prediction(found, (0, 2))


def left_over(found):
    """Exercise 2: the mean squared distance to the group's mean, as what is left of the groups' mean squares."""
    draw = np.random.default_rng(0)
    cases = [(np.array([[1., -1], [3., -3], [0, 0]]), np.array(["a", "a", "b"])),
             (draw.normal(size=(30, 5)), draw.integers(0, 4, 30)), (draw.normal(size=(4, 2)), np.arange(4))]

    def wanted(effects, known):
        share = pd.Series(known).value_counts(normalize=True)
        explained = sum(share[key] * (effects[known == key].mean(0) ** 2).sum() for key in share.index)
        return (effects ** 2).sum(1).mean() - explained

    same_function(found, wanted, cases, why="one answer for each value of `known`: the mean effect of its rows; then "
                                            "the squared distances, summed over classes, mean over rows")


def own_error(found):
    """Exercise 3: twice the smaller of the positive and the negative part of a class's mean."""
    cases = [(np.array([[.2, -.2], [-.2, .2]]),), (np.array([[.2, -.2], [.1, -.1]]),),
             (np.random.default_rng(0).normal(size=(9, 5)),)]

    def wanted(effects):
        up, down = np.clip(effects, 0, None).mean(0), np.clip(-effects, 0, None).mean(0)
        return np.linalg.norm(2 * np.minimum(up, down))

    same_function(found, wanted, cases, why="|mean| on one side, mean of | | on the other; then the L2 distance")


def mood_bias(found):
    """Exercise 4: the eight combinations of quality, label and mood, added up."""
    def wanted(c, b):
        kinds = pd.DataFrame(product([-1, 1], repeat=3), columns=["quality", "label", "mood"])
        chances = 1 / (1 + np.exp(-c * kinds.quality.to_numpy()[:, None] * kinds[["label", "mood"]].to_numpy()))
        kinds["share"], kinds["stars"] = chances.prod(1) / 2, b * kinds.mood
        means = [np.average(part.stars, weights=part.share) for _, part in kinds.groupby("label")]
        return means[1] - means[0]

    cases = [(0., .5), (1.2, .5), (3., .25), (.6, 1.)]
    same_function(found, wanted, cases, why="P(quality | label) by Bayes, then the mean mood given the quality; the "
                                            "two labels' mean stars are each other's negative")


def better_explainer(found):
    """Exercise 5: speaks of the network and of the world or the readers."""
    interpretation(found, ["network|classifier|black box|model", "world|reader|exact", "ICaCE|effect"])
