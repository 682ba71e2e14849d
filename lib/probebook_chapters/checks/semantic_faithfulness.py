"""Checks of the exercises of chapter 5, in the order of its pages.

Some print a second line after the tick: what the answer shows on the page's own data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm

from probebook.base import to_numpy
from probebook.corpora.predicate_argument import sample
from probebook.corpora.stories.facts import entails
from probebook.measures.answers import exact_match
from probebook.models.readers import FittedReader
from probebook_chapters.free_answers import interpret
from probebook_runs.labs.expect import (
    Answer,
    Cases,
    Function,
    NotRight,
    draws,
    given,
    prediction,
    reference_solution,
    same_function,
    tick,
    written,
)

YES, NO, UNKNOWN, SPAN = range(4)  # a reader's scores of a window
DENIALS = {"not", "refused", "failed", "forgot"}

# 01 stories and models

old_answer = partial(prediction, among=(0, 1))


def _facts_and_queries(draw: np.random.Generator, world: pd.DataFrame) -> Cases:
    some = world.sample(min(60, len(world)), random_state=draw)
    return [(list(facts), query) for facts, query in zip(some.facts, some["query"])]


@reference_solution(
    _facts_and_queries,
    why="leave out one fact at a time; compare with the answer from all of them",
)
def hangs_on(facts: list, query: Any) -> list[int]:
    """Exercise 2: the facts without which, one at a time, another answer follows."""
    truth = entails(facts, query)
    return [i for i in range(len(facts)) if entails(facts[:i] + facts[i + 1 :], query) != truth]


def by_margin(answer: Function, score: np.ndarray, item: np.ndarray) -> None:
    """Exercise 3: the best score of the window with the greatest margin over its own unknown."""

    def wanted(score: np.ndarray) -> int:
        window = max(score.tolist(), key=lambda s: max(s[YES], s[NO], s[SPAN]) - s[UNKNOWN])
        return window.index(max(window))

    def by_worst(score: np.ndarray) -> int:
        best = np.argmax([*score.max(0)[:2], score[:, UNKNOWN].min(), score[:, SPAN].max()])
        return int(best)

    draw = draws()
    cases = [(np.array([[0.0, 0, 3, 5], [0, 0, 9, 8]]),)]
    cases += [(draw.normal(size=(windows, 4)),) for windows in [1, 2, 3, 5] * 5]
    same_function(
        answer,
        wanted,
        cases,
        why="choose a window by its margin first, then the best of its four scores",
    )
    stories = [score[item == i] for i in np.unique(item)]
    rules = (answer, by_worst, lambda score: score.max(0).argmax())
    margin, worst, best = (np.mean([rule(s) == UNKNOWN for s in stories]) for rule in rules)
    tick(
        f"of the longest stories without an answer it declines {margin:.2f}, the worst window "
        f"{worst:.2f}, the best {best:.2f}"
    )


what_a_control_catches = written(
    "word|bag", "negat|denial|denie|role|change places|changing places|exchange|not "
)

# 02 deletion

unknown_after_offer = partial(prediction, among=(0, 1))


@reference_solution(
    lambda draw, endings: [*product(("whole", "deleted"), endings)],
    why="behind a deleted story unknown is right, behind a whole one it is not",
)
def right_in(text: str, ending: str) -> bool:
    """Exercise 2: right is unknown behind a deleted story, and no unknown behind a whole one."""
    behind = {
        "nothing": ".",
        "bare answer": ". park",
        "answer, full stop": ". park.",
        "other bare word": ". red",
        "sentence": ". A park is green.",
    }
    return behind[ending].endswith(".") == (text == "whole")


@reference_solution(
    lambda draw: [
        (0.8, 0.5),
        (0.5, 0.8),
        (1.0, 0.45),
        (0.3, 0.3),
        (0.9, 0.95),
        (0.05, 0.0),
        tuple(draw.integers(1, 21, 2) / 20),
    ],
    why="at most min(a, b) are right both times, at least a + b - 1 and never less than none; "
    "both are shares of a",
)
def necessity_bounds(a: float, b: float) -> tuple[float, float]:
    """Exercise 3: the two extreme ways in which 20 questions can be right before and after."""
    shares = [k / 20 for k in range(21)]
    both = [s for s in shares if s <= min(a, b) + 1e-9 and a + b - s <= 1 + 1e-9]
    return 1 - max(both) / a, 1 - min(both) / a


fall = written("word|bare|cue", "sentence", "nothing", "whole")

# 03 inside


def farthest_version(answer: Answer, versions: Iterable[str]) -> None:
    """Exercise 1: any version but the whole story."""
    prediction(answer, [name for name in versions if name != "OS"])


def cosine_from(answer: Function, a: ArrayLike, b: ArrayLike) -> None:
    """Exercise 2: the point is subtracted from both sets of states."""

    def wanted(a: ArrayLike, b: ArrayLike, point: np.ndarray) -> np.ndarray:
        a, b = np.asarray(a, float) - point, np.asarray(b, float) - point
        return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    draw, mean = draws(), np.asarray(a, float).mean(0)
    x, y, point = draw.normal(size=(6, 4)), draw.normal(size=(6, 4)), draw.normal(size=4)
    same_function(
        answer,
        wanted,
        [(x, y, 0 * point), (x, y, point), (a, b, mean)],
        1e-5,
        why="the same point is taken off the rows of both",
    )
    from_here, from_mean, from_far = (np.mean(wanted(a, b, k * mean)) for k in (0, 1, -10))
    tick(
        f"the deletion's mean cosine is {from_here:.3f}, from the mean state {from_mean:.3f}, "
        f"from ten times its opposite {from_far:.3f}"
    )


def exchanged(
    answer: Function,
    reader: FittedReader,
    cls: np.ndarray,
    scores: np.ndarray,
    other: np.ndarray,
) -> None:
    """Exercise 3: three scores change by twice the weights times the change of the state."""

    def wanted(scores: np.ndarray, cls: np.ndarray, new: np.ndarray, w: np.ndarray) -> np.ndarray:
        spoken = [scores[:, k] + 2 * ((new - cls) * w[k]).sum(1) for k in (YES, NO, UNKNOWN)]
        return np.column_stack([*spoken, scores[:, SPAN]])

    draw = draws()
    case = tuple(draw.normal(size=size) for size in ((5, 4), (5, 6), (5, 6), (3, 6)))
    w = to_numpy(reader.net.heads.weights())[:, : cls.shape[1]]
    w = (w - w[-1])[:3] / 2  # what they gain on the span
    same_function(
        answer,
        wanted,
        [case, (scores, cls, cls[other], w)],
        1e-3,
        why="2 (new - cls) w is added to yes, no and unknown, nothing to the span",
    )
    before, after = scores.argmax(1), wanted(scores, cls, cls[other], w).argmax(1)
    changed, unlike = before != after, before != before[other]
    of_unlike = np.mean(changed[unlike]) if unlike.any() else 0
    tick(
        f"the kind of answer changes in {np.mean(changed):.2f} of the stories, and in "
        f"{of_unlike:.2f} of those whose state is from another kind"
    )


what_a_cosine_shows = written(
    "origin|baseline|unrelated|another story|scale", "put back|patch|interven|answer"
)

# 04 negation

edit_with_most_gain = partial(prediction, among=["negation", "antonym", "value", "role"])


def right_after(answer: Function, printed: pd.DataFrame) -> None:
    """Exercise 2: both / org, (mod - both) / (1 - org)."""

    def wanted(org: float, mod: float, both: float) -> tuple[float, float]:
        return both / org, (mod - both) / (1 - org)

    columns = ["original", "modified", "both"]
    rows = [tuple(row) for row in printed[columns].to_numpy(float)]
    drawn = tuple(draws().uniform(0.1, 0.9, 3))
    same_function(
        answer,
        wanted,
        [(0.8, 0.6, 0.5), (0.5, 0.5, 0.0), drawn, *rows],
        why="the first is a share of those right before, the second of those wrong before",
    )
    switched = np.array([wanted(*row)[0] for row in rows])
    names = (printed.model + " on " + printed.dataset).to_numpy()
    tick(
        f"of the right answers {names[switched.argmin()]} switches the smallest share "
        f"({switched.min():.2f}), {names[switched.argmax()]} the largest ({switched.max():.2f})"
    )


def together_in_one(
    answer: Function,
    edits: Mapping[str, pd.DataFrame],
    before: pd.DataFrame,
) -> None:
    """Exercise 3: one sentence that denies nothing holds the query's words and the names."""

    def wanted(row: Any) -> bool:
        asked = re.findall(r"\w+", row.question)[1:]
        names = {word for word in asked if word[0].isupper() and len(word) > 1}
        needed = names | set(re.findall(r"\w+", row.query.values[0]))
        sentences = [set(re.findall(r"\w+", row.story[a:b])) for a, b in row.sentences]
        return any(needed <= words and not words & DENIALS for words in sentences)

    def is_right(row: Any) -> bool:
        result = given(answer(row), "together_in_one(row)")
        if result not in ("yes", "no"):
            raise NotRight(f"together_in_one(row) is {result!r}: it should be 'yes' or 'no'")
        if (result == "yes") != wanted(row):
            raise NotRight(
                f"“{row.question}” gets {result!r} from “{row.story}”: all words must "
                "stand in one and the same sentence, and that sentence must not deny"
            )
        return result == row.answer

    shares = []
    for edit, part in edits.items():
        old = part[["story_id", "turn"]].merge(before, on=["story_id", "turn"])
        pairs = zip(old.itertuples(), part.itertuples())
        share = np.mean([is_right(first) & is_right(second) for first, second in pairs])
        shares.append(f"{edit} {share:.2f}")
    tick(f"together_in_one; Comb-Acc {', '.join(shares)}")


which_edit = written(
    "word|bag|look for", "role|places|order|held out", "network|rule|Comb|control|cheap"
)

# 05 predicate argument

right_when_apart = partial(prediction, among=(0, 1))


def accuracy_at(answer: Function, split: pd.DataFrame) -> None:
    """Exercise 2: the mean of hits and rejections at a distance and a threshold."""

    def wanted(d: float, c: float) -> float:
        return (norm.cdf(d / 2 - c) + norm.cdf(d / 2 + c)) / 2

    cases = [
        (2.0, 0.0),
        (2.0, 3.0),
        (0.0, 1.0),
        (-1.0, 0.5),
        (1.0, -2.0),
        tuple(draws().normal(size=2)),
        *zip(split["d′"].head(8), split.c.head(8)),
    ]
    same_function(
        answer,
        wanted,
        cases,
        why="H is the share above the threshold of what lies around d/2, F of what "
        "lies around -d/2; right are the hits and the rejections",
    )
    gain = np.array([wanted(d, 0) - wanted(d, c) for d, c in zip(split["d′"], split.c)])
    most = split.iloc[gain.argmax()]
    tick(
        f"a threshold in the middle would help {most.model} most ({most.question}): right in "
        f"{wanted(most['d′'], 0):.2f} instead of {wanted(most['d′'], most.c):.2f}"
    )


def telling(
    answer: Answer,
    known: Mapping[str, str],
    nearest: Callable[[Any], str],
    readers: Mapping[str, FittedReader],
) -> None:
    """Exercise 3: a new template in which the colour nearest to the first thing is not its own."""
    _check_template(answer, known)
    asked = sample(answer, 20, "open", seed=1)
    first = asked[asked.which == 0]
    neighbours = np.array([nearest(row) for row in first.itertuples()])
    colours = first.colour.to_numpy()
    if (neighbours == colours).any():
        story, thing = first[["story", "thing"]].iloc[int((neighbours == colours).argmax())]
        raise NotRight(f"“{story}”: the colour nearest to the {thing} is its own")
    if (neighbours == "").any():
        raise NotRight(
            f"“{first.story.iloc[0]}”: no colour stands before the first thing or after it"
        )
    shares = []
    for name, reader in readers.items():
        replies = reader(first).said.to_numpy()
        shares.append(
            f"{name} {(replies == colours).mean():.2f}, {(replies == neighbours).mean():.2f}"
        )
    tick(f"telling; right, and the neighbour's colour: {', '.join(shares)}")


def _check_template(answer: Answer, known: Mapping[str, str]) -> None:
    if not isinstance(given(answer, "telling"), str):
        raise NotRight(f"telling should be a text, not {type(answer).__name__}")
    places = {"one", "two", "c1", "c2"}
    try:
        parts = [part[1:] for part in Formatter().parse(answer) if part[1] is not None]
    except ValueError as e:
        raise NotRight(f"telling cannot be filled: {e}") from None
    held = {str(name) for name, _, _ in parts}
    if len(answer) > 500 or any(spec or conversion for _, spec, conversion in parts):
        raise NotRight("telling should be a sentence or two, its places as {one}, nothing more")
    if held != places:
        raise NotRight(f"telling has the places {sorted(held)}, and should have {sorted(places)}")
    if answer in known.values():
        raise NotRight("that telling is on the page already: write another")


fifty = written(
    "line|score|d′|d'|bias|threshold", "nearest|neighbour|neighbor|rule", "open|apart|colour"
)

# 06 prompting

gain_by_an_answer = partial(prediction, among=(-100, 100))


def opening_not(answer: Function, judged: pd.DataFrame) -> None:
    """Exercise 2: a first word "not" means no; any other text is read by the rule "meaning"."""

    def meaning(text: str) -> str:
        return interpret([text])[0]

    def wanted(text: str) -> str:
        words = re.findall(r"\w+", text.lower())
        return "no" if words[:1] == ["not"] else meaning(text)

    more = [
        "Not mentioned.",
        "not blue",
        "Nothing was said.",
        "It was not.",
        "Knot",
        "I do not know.",
    ]
    first, last = ["Not", "not", "Nothing", "Knot", "It is", "no"], ["red", "said.", "in the park"]
    more += [" ".join(words) for words in draws().choice([*product(first, last)], 6)]
    for text in [*judged.text, *more]:
        result = given(answer(text), f"opening_not({text!r})")
        if result != wanted(text):
            raise NotRight(
                f"opening_not({text!r}) is {result!r}, and should be {wanted(text)!r}: "
                "only the first word not is new, and it comes before the patterns"
            )
    changed = [text for text in judged.text if wanted(text) != meaning(text)]
    new, old = (
        exact_match([rule(text) for text in judged.text], judged.right).mean()
        for rule in (wanted, meaning)
    )
    tick(
        f"opening_not; exact on the answers by hand {new:.2f}, by the rule meaning {old:.2f}; "
        f"changed: {', '.join(changed)}"
    )


def own_line(
    answer: Function,
    yes_no: Mapping[str, np.ndarray],
    before: pd.Series,
    after: pd.Series,
) -> None:
    """Exercise 3: yes above the median of all log-odds, before and after taken together."""

    def wanted(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        line = np.quantile(np.concatenate([one, two]), 0.5)
        return one > line, two > line

    draw = draws()
    odds = tuple(scores[:, 0] - scores[:, 1] for scores in (yes_no["before"], yes_no["after"]))
    cases = [
        (draw.normal(size=6) - 2, draw.normal(size=6)),
        (np.array([3.0, 4.0]), np.array([1.0, 2.0])),
        odds,
    ]
    same_function(answer, wanted, cases, why="one line for both, at the median of all the log-odds")
    at_zero = [each > 0 for each in odds]
    for name, answers in (("at 0", at_zero), ("at the median", wanted(*odds))):
        one, two = (
            yes == (right == "yes").to_numpy() for yes, right in zip(answers, (before, after))
        )
        tick(
            f"line {name}: no {1 - np.mean(answers):.2f}, Comb-Acc {np.mean(one & two):.2f}, "
            f"just one {np.mean(one != two):.2f}"
        )


copying = written(
    "cop|probable|priming", "nothing put|unrelated|another story", "whole|baseline|delet"
)

# 07 audit

share_on_changed = partial(prediction, among=(0, 100))


def sizes(answer: Function, negated: pd.DataFrame) -> None:
    """Exercise 2: the sizes at which every percentage is that of a whole number."""

    def fits(percent: float, n: int, unit: float) -> bool:
        low = int(percent * n / 100)
        return any(abs(100 * k / n - percent) <= unit / 2 + 1e-9 for k in (low, low + 1))

    def wanted(percents: Iterable[float], low: int, high: int, unit: float = 0.1) -> list[int]:
        return [n for n in range(low, high + 1) if all(fits(p, n, unit) for p in percents)]

    cases = [
        ([33.3, 66.7], 2, 8),
        ([50.0], 1, 6),
        ([14.3, 28.6], 1, 30),
        ([0.0, 100.0], 4, 5),
        ([99.6, 12.1], 2, 40),
        (draws().uniform(0, 100, 1).round(1).tolist(), 17, 31),
    ]
    same_function(
        answer,
        wanted,
        cases,
        why="every one of the percentages has to be possible; both ends belong to it",
    )
    for name, part in negated.groupby("dataset", sort=False):
        n = int(part.n.iloc[0])
        printed = part[["original", "modified", "both"]].to_numpy().ravel()
        possible = [percent for percent in printed if wanted([percent], n, n)]
        others = ", ".join(map(str, wanted(possible, n - 25, n + 25)))
        tick(
            f"{name}: {len(possible)} of {len(printed)} percentages fit {n} stories; these "
            f"{len(possible)} fit {others} of the sizes from {n - 25} to {n + 25}"
        )


def exact_on_changed(
    answer: Function,
    deletion: pd.DataFrame,
    printed_counts: Mapping[str, float],
    items: Mapping[str, float],
) -> None:
    """Exercise 3: bounds of exact match, from all that the common stories can have."""
    put = int(printed_counts["CoQA: answer put into TS-R, dev"])
    kept = int(printed_counts["CoQA: of these with a sentence in TS-R+Aug"])
    n = int(items["TS-R"])
    of_edit = {"TS-R": n, "TS-R+Aug": n - put + kept}
    rows = deletion.query("model == 'BERT-base' and dataset == 'CoQA'")
    printed = rows.set_index(["training", "edit"]).em

    def counts(percent: float, of: int) -> np.ndarray:
        return np.arange(
            np.ceil((percent - 0.05) * of / 100), np.floor((percent + 0.05) * of / 100) + 1
        )

    def wanted(training: str) -> list[list[float]]:
        on_common = np.arange(n - put + 1)
        bare, sentence = (
            counts(printed[training, edit], of)[:, None] - on_common for edit, of in of_edit.items()
        )
        possible = [(0 <= x) & (x <= most) for x, most in ((bare, put), (sentence, kept))]
        together = possible[0].any(0) & possible[1].any(0)
        bounds = []
        for x, fits, of in zip((bare, sentence), possible, (put, kept)):
            right = x[fits & together]
            bounds.append([right.min() / of, right.max() / of])
        return bounds

    same_function(
        answer,
        wanted,
        [("IBT",), ("OT",)],
        1e-4,
        why="bounds of the column em of BERT-base on CoQA, with unit=.05, since it is "
        "printed with one digit",
    )
    (a, b), (c, d) = wanted("IBT")
    tick(f"IBT: {a:.2f} to {b:.2f} with the bare answer, {c:.2f} to {d:.2f} with the sentence")


def switching(answer: Function, negated: pd.DataFrame) -> None:
    """Exercise 4: Mod-Acc, Comb-Acc and drop of a reader that switches with one probability."""

    def wanted(a: ArrayLike, s: ArrayLike) -> tuple[ArrayLike, ArrayLike, ArrayLike]:
        both, after = a * s, a * s + (1 - a) * (1 - s)
        return after, both, a - after

    cases = [(0.9, 0.7), (0.5, 0.2), (1.0, 0.0), (0.8, 1.0), (0.3, 0.5), tuple(draws().random(2))]
    same_function(
        answer,
        wanted,
        cases,
        why="right before and switched is right after, and so is wrong before and kept",
    )
    columns = ["original", "modified", "both"]
    org, mod, both = negated[columns].to_numpy(float).T / 100
    off = mod - wanted(org, both / org)[0]
    tick(
        f"with s = Comb / Org, the Mod-Acc of tables 10 and 11 is off by {off.min():+.2f} to "
        f"{off.max():+.2f}: where it is far off, switching depends on the story"
    )


arithmetic = written(
    "whole number|impossible|cannot",
    "common|changed|dilut|differ|just one|drop",
    "item|answers|released|each story",
)
