"""Checks of the exercises of chapter 5, in the order of its pages; each takes what the student made."""
from __future__ import annotations

import numpy as np

from probebook.corpora.story_facts import entails
from probebook.labs.expect import interpretation, prediction, same_function, tick

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
    same_function(found, wanted, cases, why="at most min(a, b) are right both times, at least a + b - 1, and never less "
                                            "than none; both are shares of a")


def fall(found):
    """Exercise 4: speaks of the word, the sentence, and a cell that parts them."""
    interpretation(found, ["word|bare|cue", "sentence", "nothing", "whole"])
