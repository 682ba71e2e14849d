"""Checks of the exercises of chapter 5, in the order of its pages; each takes what the student made."""
from __future__ import annotations

import re

import numpy as np

from probebook.corpora.story_facts import entails
from probebook.labs.expect import NotRight, given, interpretation, prediction, same_function, tick

# 01 stories and models


def old_answer(found):
    """Exercise 1: a share."""
    prediction(found, (0, 1))


def hangs_on(found, world):
    """Exercise 2: the sentences without which, one at a time, another answer follows."""
    def wanted(facts, query):
        return [i for i in range(len(facts)) if entails(facts[:i] + facts[i + 1:], query) != entails(facts, query)]

    cases = [(list(facts), query) for facts, query in zip(world.facts.head(60), world["query"].head(60))]
    same_function(found, wanted, cases, why="leave out one fact at a time; compare with the answer from all of them")


def by_margin(found, score, item):
    """Exercise 3: what wins in the window with the greatest margin over its own unknown."""
    def wanted(score):
        window = max(score.tolist(), key=lambda s: max(s[0], s[1], s[3]) - s[2])
        return window.index(max(window))

    draw = np.random.default_rng(0)
    cases = [(np.array([[0., 0, 3, 5], [0, 0, 9, 8]]),), *((draw.normal(size=(w, 4)),) for w in [1, 2, 3, 5] * 5)]
    same_function(found, wanted, cases, why="choose a window by its margin first, then the best of its four scores")
    asked = [score[item == i] for i in np.unique(item)]
    declined = np.mean([found(each) == 2 for each in asked])
    tick(f"of the longest stories without an answer it declines {declined:.2f}, the worst window "
         f"{np.mean([np.argmax([*s.max(0)[:2], s[:, 2].min(), s[:, 3].max()]) == 2 for s in asked]):.2f}, "
         f"the best {np.mean([s.max(0).argmax() == 2 for s in asked]):.2f}")


def what_a_control_catches(found):
    """Exercise 4: speaks of words that are shared, and of an edit that keeps them."""
    interpretation(found, ["word|bag", "negat|denial|denie|role|change places|changing places|exchange|not "])


# 02 deletion


def offered(found):
    """Exercise 1: a share."""
    prediction(found, (0, 1))


def right_in(found, endings):
    """Exercise 2: right where it says unknown behind a deleted story, or does not behind a whole one."""
    behind = {"nothing": ".", "bare answer": ". park", "answer, full stop": ". park.", "other bare word": ". red",
              "sentence": ". A park is green."}

    def wanted(text, ending):
        return behind[ending].endswith(".") == (text == "whole")

    cases = [(text, ending) for text in ("whole", "deleted") for ending in endings]
    same_function(found, wanted, cases, why="behind a deleted story unknown is right, behind a whole one it is not")


def necessity_bounds(found):
    """Exercise 3: the two extreme ways in which twenty questions can be right before and after."""
    def wanted(a, b):
        both = [k / 20 for k in range(21) if k / 20 <= min(a, b) + 1e-9 and a + b - k / 20 <= 1 + 1e-9]
        return 1 - max(both) / a, 1 - min(both) / a

    cases = [(.8, .5), (.5, .8), (1., .45), (.3, .3), (.9, .95), (.05, 0.)]
    same_function(found, wanted, cases, why="at most min(a, b) are right both times, at least a + b - 1 and "
                                            "never less than none; both are shares of a")


def fall(found):
    """Exercise 4: speaks of the word, the sentence, and a cell that parts them."""
    interpretation(found, ["word|bare|cue", "sentence", "nothing", "whole"])


# 03 inside


def farthest(found, versions):
    """Exercise 1: any version but the whole story."""
    prediction(found, [name for name in versions if name != "OS"])


def cosine_from(found, a, b):
    """Exercise 2: the point is taken off both sets of states."""
    def wanted(a, b, point):
        a, b = np.asarray(a, float) - point, np.asarray(b, float) - point
        return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    draw, mean = np.random.default_rng(0), np.asarray(a, float).mean(0)
    x, y, point = draw.normal(size=(6, 4)), draw.normal(size=(6, 4)), draw.normal(size=4)
    same_function(found, wanted, [(x, y, 0 * point), (x, y, point), (a, b, mean)], 1e-5,
                  why="the same point is taken off the rows of both")
    from_here, from_mean, from_far = (np.mean(wanted(a, b, k * mean)) for k in (0, 1, -10))
    tick(f"the deletion's mean cosine is {from_here:.3f}, from the mean state {from_mean:.3f}, from ten times its "
         f"opposite {from_far:.3f}")


def exchanged(found, reader, cls, scores, other):
    """Exercise 3: three scores change by twice the weights times the change of the state."""
    def wanted(scores, cls, new, w):
        return np.column_stack([*(scores[:, k] + 2 * ((new - cls) * w[k]).sum(1) for k in range(3)), scores[:, 3]])

    draw = np.random.default_rng(0)
    drawn = [draw.normal(size=size) for size in ((5, 4), (5, 6), (5, 6), (3, 6))]
    w = reader.net.heads.spoken.weight.detach().cpu().numpy()[:, :cls.shape[1]]
    same_function(found, wanted, [tuple(drawn), (scores, cls, cls[other], w)], 1e-3,
                  why="2 (new - cls) w is added to yes, no and unknown, nothing to the span")
    before, after = scores.argmax(1), wanted(scores, cls, cls[other], w).argmax(1)
    unlike = before != before[other]
    tick(f"the kind of answer changes in {np.mean(before != after):.2f} of the stories, and in "
         f"{np.mean((before != after)[unlike]) if unlike.any() else 0:.2f} of those whose state is from another kind")


def what_a_cosine_shows(found):
    """Exercise 4: speaks of a baseline or the origin, and of what an intervention shows."""
    interpretation(found, ["origin|baseline|unrelated|another story|scale", "put back|patch|interven|answer"])


# 04 negation


def most_gained(found):
    """Exercise 1: any kind of edit."""
    prediction(found, ["negation", "antonym", "value", "role"])


def right_after(found, printed):
    """Exercise 2: both / org, (mod - both) / (1 - org)."""
    def wanted(org, mod, both):
        return both / org, (mod - both) / (1 - org)

    table = [tuple(row) for row in printed[["original", "modified", "both"]].to_numpy(float)]
    same_function(found, wanted, [(.8, .6, .5), (.5, .5, 0.), *table],
                  why="the first is a share of those right before, the second of those wrong before")
    first = np.array([wanted(*row)[0] for row in table])
    names = (printed.model + " on " + printed.dataset).to_numpy()
    tick(f"of the right answers {names[first.argmin()]} switches the smallest share ({first.min():.2f}), "
         f"{names[first.argmax()]} the largest ({first.max():.2f})")


def together_in_one(found, edits, before):
    """Exercise 3: one sentence that denies nothing holds the word and the names."""
    def holds(text, words):
        return not set(words) - set(re.findall(r"\w+", text))

    def wanted(row):
        names = [word for word in re.findall(r"\w+", row.question)[1:] if word[0].isupper() and len(word) > 1]
        told = [row.story[a:b] for a, b in row.sentences]
        return any(holds(s, [*re.findall(r"\w+", row.query.values[0]), *names])
                   and not {*re.findall(r"\w+", s)} & {"not", "refused", "failed", "forgot"} for s in told)

    def check(row):
        said = given(found(row), "together_in_one(row)")
        if said not in ("yes", "no"):
            raise NotRight(f"together_in_one(row) is {said!r}: it should be 'yes' or 'no'")
        if (said == "yes") != wanted(row):
            raise NotRight(f"“{row.question}” gets {said!r} from “{row.story}”: all words must stand in one and the "
                           "same sentence, and that sentence must not deny")
        return said == row.answer

    both = {}
    for how, part in edits.items():
        old = part[["story_id", "turn"]].merge(before, on=["story_id", "turn"])
        both[how] = np.mean([check(a) & check(b) for a, b in zip(old.itertuples(), part.itertuples())])
    tick("together_in_one; Comb-Acc " + ", ".join(f"{how} {share:.2f}" for how, share in both.items()))


def which_edit(found):
    """Exercise 4: speaks of words to look for, of an order or role, and of a comparison."""
    interpretation(found, ["word|bag|look for", "role|places|order|held out", "network|rule|Comb|control|cheap"])
