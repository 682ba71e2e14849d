"""Checks of the exercises of chapter 5, in the order of its pages; each takes what the student made."""
from __future__ import annotations

import re
from math import erf
from string import Formatter

import numpy as np

from probebook.corpora.predicate_argument import drawn
from probebook.corpora.stories.facts import entails
from probebook.labs.checks.expect import NotRight, given, interpretation, prediction, same_function, tick
from probebook.measures.answers import exact_match
from probebook.measures.free_answers import interpret

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


# 05 predicate argument


def apart(found):
    """Exercise 1: a share."""
    prediction(found, (0, 1))


def accuracy_at(found, split):
    """Exercise 2: the mean of hits and rejections at a distance and a line."""
    def below(z):
        return (1 + erf(z / 2 ** .5)) / 2

    def wanted(d, c):
        return (below(d / 2 - c) + below(d / 2 + c)) / 2

    cases = [(2., 0.), (2., 3.), (0., 1.), (-1., .5), (1., -2.), *zip(split["d′"].head(8), split.c.head(8))]
    same_function(found, wanted, cases, why="H is the share above the line of what lies around d/2, F of what lies "
                                            "around -d/2; right are the hits and the rejections")
    gain = np.array([wanted(d, 0) - wanted(d, c) for d, c in zip(split["d′"], split.c)])
    most = split.iloc[gain.argmax()]
    tick(f"most would be had by moving the line of {most.model} ({most.question}): "
         f"{wanted(most['d′'], most.c):.2f} would be {wanted(most['d′'], 0):.2f}")


def telling(found, known, nearest, readers):
    """Exercise 3: a template whose first thing's nearest colour is the wrong one; then the readers are asked."""
    if not isinstance(given(found, "telling"), str):
        raise NotRight(f"telling should be a text, not {type(found).__name__}")
    places = {"one", "two", "c1", "c2"}
    try:
        held = {name for _, name, _, _ in Formatter().parse(found) if name is not None}
    except ValueError as e:
        raise NotRight(f"telling cannot be filled: {e}") from None
    if held != places:
        raise NotRight(f"telling has the places {sorted(held)}, and should have {sorted(places)}")
    if found in known.values():
        raise NotRight("that telling is on the page already: write another")
    asked = drawn(found, 20, "open", seed=1)
    first = asked[asked.which == 0]
    near = np.array([nearest(row) for row in first.itertuples()])
    if (near == first.colour).any():
        at = int((near == first.colour).to_numpy().argmax())
        raise NotRight(f"“{first.story.iloc[at]}”: the colour nearest to the {first.thing.iloc[at]} is its own")
    if (near == "").any():
        raise NotRight(f"“{first.story.iloc[0]}”: no colour stands before the first thing or after it")
    tick("telling; right, and the neighbour's colour: " + ", ".join(
        f"{who} {(said == first.colour.to_numpy()).mean():.2f}, {(said == near).mean():.2f}"
        for who, said in ((who, reader(first).said.to_numpy()) for who, reader in readers.items())))


def fifty(found):
    """Exercise 4: speaks of the line or scores, of the nearest colour, and of an experiment."""
    interpretation(found, ["line|score|d′|d'|bias|threshold", "nearest|neighbour|neighbor|rule", "open|apart|colour"])


# 06 prompting


def by_an_answer(found):
    """Exercise 1: percentage points."""
    prediction(found, (-100, 100))


def opening_not(found, judged):
    """Exercise 2: a first word not is no, before every other rule; else what the rule "meaning" hears."""
    def wanted(text):
        return "no" if (re.findall(r"\w+", text.lower()) or [""])[0] == "not" else interpret([text])[0]

    more = ["Not mentioned.", "not blue", "Nothing was said.", "It was not.", "Knot", "I do not know."]
    for text in [*judged.text, *more]:
        if (answer := given(found(text), f"opening_not({text!r})")) != wanted(text):
            raise NotRight(f"opening_not({text!r}) is {answer!r}, and should be {wanted(text)!r}: only the first word "
                           "not is new, and it comes before the patterns")
    unlike = [text for text in judged.text if wanted(text) != interpret([text])[0]]
    new, old = (exact_match([of(text) for text in judged.text], judged.right).mean()
                for of in (wanted, lambda text: interpret([text])[0]))
    tick(f"opening_not; exact on the answers by hand {new:.2f}, by the rule meaning {old:.2f}; "
         f"changed: {', '.join(unlike)}")


def own_line(found, yes_no, before, after):
    """Exercise 3: yes above the median of all log-odds, before and after taken together."""
    def wanted(one, two):
        line = np.quantile(np.concatenate([one, two]), .5)
        return one > line, two > line

    draw = np.random.default_rng(0)
    odds = tuple(scores[:, 0] - scores[:, 1] for scores in (yes_no["before"], yes_no["after"]))
    cases = [(draw.normal(size=6) - 2, draw.normal(size=6)), (np.array([3., 4.]), np.array([1., 2.])), odds]
    same_function(found, wanted, cases, why="one line for both, at the median of all the log-odds")
    for name, answers in (("at 0", [each > 0 for each in odds]), ("at the median", wanted(*odds))):
        one, two = (yes == (right == "yes").to_numpy() for yes, right in zip(answers, (before, after)))
        tick(f"line {name}: no {1 - np.mean(answers):.2f}, Comb-Acc {np.mean(one & two):.2f}, just one "
             f"{np.mean(one != two):.2f}")


def copied(found):
    """Exercise 4: speaks of copying, and of the versions that show it."""
    interpretation(found, ["cop|probable|priming", "nothing put|unrelated|another story", "whole|baseline|delet"])


# 07 audit


def on_the_changed(found):
    """Exercise 1: a percentage."""
    prediction(found, (0, 100))


def sizes(found, negated):
    """Exercise 2: the sizes at which every percentage is that of a whole number."""
    def wanted(percents, low, high, unit=.1):
        fits = [any(abs(100 * k / n - p) <= unit / 2 + 1e-9 for k in (int(p * n / 100), int(p * n / 100) + 1))
                for n in range(low, high + 1) for p in percents]
        fits = np.reshape(fits, (high - low + 1, len(percents))).all(1)
        return [n for n, fit in zip(range(low, high + 1), fits) if fit]

    cases = [([33.3, 66.7], 2, 8), ([50.0], 1, 6), ([14.3, 28.6], 1, 30), ([0.0, 100.0], 4, 5), ([99.6, 12.1], 2, 40)]
    same_function(found, wanted, cases, why="every one of the percentages has to be possible; both ends belong to it")
    for name, part in negated.groupby("dataset", sort=False):
        n, printed = int(part.n.iloc[0]), part[["original", "modified", "both"]].to_numpy().ravel()
        free = [p for p in printed if wanted([p], n, n)]
        fit = wanted(free, n - 25, n + 25)
        tick(f"{name}: {len(free)} of {len(printed)} percentages fit {n} stories; these {len(free)} fit "
             f"{', '.join(map(str, fit))} of the sizes from {n - 25} to {n + 25}")


def exact_on_changed(found, deletion, said, items):
    """Exercise 3: bounds of exact match, by going through what the common stories can have."""
    put, kept = int(said["CoQA: answer put into TS-R, dev"]), int(said["CoQA: of these with a sentence in TS-R+Aug"])
    n = int(items["TS-R"])
    of_edit = {"TS-R": n, "TS-R+Aug": n - put + kept}

    def counts(percent, of):
        return np.arange(np.ceil((percent - .05) * of / 100), np.floor((percent + .05) * of / 100) + 1)

    def wanted(training):
        em = deletion.query("model == 'BERT-base' and dataset == 'CoQA' and training == @training").set_index("edit").em
        bare, sentence = (counts(em[edit], of)[:, None] - np.arange(n - put + 1) for edit, of in of_edit.items())
        fits = [((x >= 0) & (x <= most)) for x, most in ((bare, put), (sentence, kept))]
        both = fits[0].any(0) & fits[1].any(0)
        return [[x[fit & both].min() / of, x[fit & both].max() / of]
                for x, fit, of in ((bare, fits[0], put), (sentence, fits[1], kept))]

    same_function(found, wanted, [("IBT",), ("OT",)], 1e-4,
                  why="bounds of the column em of BERT-base on CoQA, with unit=.05, since it is printed with one digit")
    (a, b), (c, d) = wanted("IBT")
    tick(f"IBT: {a:.2f} to {b:.2f} with the bare answer, {c:.2f} to {d:.2f} with the sentence")


def switching(found, negated):
    """Exercise 4: Mod-Acc, Comb-Acc and drop of a reader that switches with one probability."""
    def wanted(a, s):
        both, turned = a * s, a * s + (1 - a) * (1 - s)
        return turned, both, a - turned

    cases = [(.9, .7), (.5, .2), (1., 0.), (.8, 1.), (.3, .5)]
    same_function(found, wanted, cases, why="right before and switched is right after, and so is wrong before and kept")
    org, mod, both = (negated[name].to_numpy(float) / 100 for name in ("original", "modified", "both"))
    off = mod - wanted(org, both / org)[0]
    tick(f"with s = Comb / Org, the Mod-Acc of tables 10 and 11 is off by {off.min():+.2f} to {off.max():+.2f}: where "
         "it is far off, switching depends on the story")


def arithmetic(found):
    """Exercise 5: speaks of what cannot be, of what says less than it seems, and of what is missing."""
    interpretation(found, ["whole number|impossible|cannot", "common|changed|dilut|differ|just one|drop",
                           "item|answers|released|each story"])
