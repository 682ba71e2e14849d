"""A generated world of true and false statements, for probes that are to tell one from the other.

Four topics: cities and countries, sums, opposites, animals and their classes. Of each subject four
things are said: its own predicate and a false one, each affirmed and negated ("The city of Lyon is
in France", "… is not in France", "… is in Peru", "… is not in Peru"). Two subjects lend each other
their predicates (Lima is said to be in France) and are one group of the column `fact`. So in each
group every word stands as often in true as in false statements: a bag of words learns nothing from
any set of groups, and its AUROC on any other is ½. A sum borrows a result that is a little too
large or too small. The facts stand in `data/corpora/statements.yaml`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from probebook.base import UserError
from probebook.corpora.words import phrase_table

TOPICS = ("cities", "sums", "opposites", "animals")
NUISANCES = ("length", "punctuation", "opening")
BLOCK = 8  # statements on two subjects
SPREAD = 8  # sums whose results differ by less may lend them to each other
COLUMNS = ["text", "topic", "true", "affirmed", "fact", "subject", "predicate"]
Fact = tuple[str | int, list[tuple[str, str]]]  # facts of one kind lend each other nothing


def generate(topics: tuple[str, ...] = TOPICS, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """`n` statements on each topic, all different, a quarter in each cell of true × affirmed.

    Columns: text; topic; true (1; 0 for a false statement); affirmed (1; 0 for "is not"); fact (the
    group by which to split: two subjects, and of opposites both directions); subject; predicate.
    With the same seed a topic's statements do not depend on the other topics, and fewer are the
    first of more. UserError for an unknown topic, and for an n that is no multiple of 8 or more
    than the facts allow (on each topic more than 1,100).
    """
    for topic in topics or [""]:
        if topic not in TOPICS:
            raise UserError(f"{topic!r} is not a valid topic: expected {', '.join(TOPICS)}")
    if n < BLOCK or n % BLOCK:
        raise UserError(f"n = {n}: expected a multiple of {BLOCK}, the statements on two subjects")
    rows = [row for topic in dict.fromkeys(topics) for row in _statements(topic, n, seed)]
    return pd.DataFrame(rows, columns=COLUMNS)


def plant(
    table: pd.DataFrame, nuisance: str = "length", strength: float = 1.0, seed: int = 0
) -> pd.DataFrame:
    """The statements, rewritten so that a property of the text goes with its truth.

    The property is an empty clause at the end ("length"), an exclamation mark for the full stop
    ("punctuation") or "Indeed," at the beginning ("opening"). A share (1 + strength)/2 of the true
    statements has it, (1 − strength)/2 of the false ones: its AUROC is (1 + strength)/2. So at .98
    a probe can read it alone and reach .99; at 0, for a test set, it tells nothing. The new column
    named after the nuisance says which texts have it (1, 0). UserError for an unknown nuisance, a
    strength outside [0, 1], and a table without the columns text and true.
    """
    if nuisance not in NUISANCES:
        raise UserError(f"{nuisance!r} is not a valid nuisance: expected {', '.join(NUISANCES)}")
    if not 0 <= strength <= 1:
        raise UserError(f"strength = {strength}: expected a number from 0 to 1")
    if not {"text", "true"} <= {*table}:
        raise UserError("the table lacks text or true: expected statements.generate's columns")
    rng = np.random.default_rng(seed)
    rank = pd.Series(rng.random(len(table))).groupby(table.true.to_numpy()).rank(pct=True)
    has = rank.to_numpy() <= np.where(table.true, 1 + strength, 1 - strength) / 2
    forms = rng.choice(phrase_table("statements")["nuisances"][nuisance], len(table))
    texts = [
        _sentence(form.format(text[0].lower() + text[1:-1])) if one else text
        for text, form, one in zip(table.text, forms, has)
    ]
    return table.assign(**{"text": texts, nuisance: has.astype(int)})


def _statements(topic: str, n: int, seed: int) -> list[tuple]:
    """The first `n` rows of a topic."""
    facts, rng = _facts(topic), np.random.default_rng([seed, TOPICS.index(topic)])
    [form] = phrase_table("statements")[topic]["sentence"]
    rows = []
    for i, j in _partners(np.array([kind for kind, _ in facts]), rng):
        mine, yours = facts[i][1], facts[j][1]
        group = f"{mine[0][0]} and {yours[0][0]}"
        for (a, of_a), (b, of_b) in zip(mine, yours):
            for subject, own, lent in (a, of_a, of_b), (b, of_b, of_a):
                for said, right in (own, 1), (lent, 0):
                    for verb, affirmed in ("is", 1), ("is not", 0):
                        words = {"subject": subject, "is": verb, "predicate": said}
                        text, true = _sentence(form.format(**words)), int(right == affirmed)
                        rows.append((text, topic, true, affirmed, group, subject, said))
    if n > len(rows):
        raise UserError(f"n = {n}: expected at most {len(rows)} on {topic}")
    return rows[:n]


def _partners(kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pairs of numbers of facts, [m, 2]: of different kinds, and of near ones if kinds are sums."""
    place = kinds if kinds.dtype.kind == "i" else 0
    order = np.argsort(place + rng.uniform(0, SPREAD, len(kinds)))
    pairs = order[: len(kinds) // 2 * 2].reshape(-1, 2)
    while len(alike := np.flatnonzero(kinds[pairs[:, 0]] == kinds[pairs[:, 1]])):
        i = alike[0]  # take the partner of the nearest pair that has nothing of this kind
        others = np.flatnonzero((kinds[pairs] != kinds[pairs[i, 0]]).all(1))
        j = others[np.abs(others - i).argmin()]
        pairs[[i, j], 1] = pairs[[j, i], 1]
    return rng.permutation(pairs)


def _facts(topic: str) -> list[Fact]:
    """What is known on a topic, in the file's order: kind, and pairs of subject and predicate."""
    table = phrase_table("statements")[topic]
    if topic == "sums":
        name = dict(enumerate(table["numbers"], 1))
        terms = [(a, b) for a in range(1, len(name) // 2 + 1) for b in range(1, a + 1)]
        return [(a + b, [(f"{name[a]} plus {name[b]}", name[a + b])]) for a, b in terms]
    lists = table["facts"].items()
    if topic == "cities":
        places = [(part, *place) for part, countries in lists for place in countries.items()]
        return [(part, [(city, country)]) for part, country, cities in places for city in cities]
    if topic == "opposites":
        pairs = [(kind, pair.split()) for kind, listed in lists for pair in listed]
        return [(kind, [(a, b), (b, a)]) for kind, (a, b) in pairs]
    names = [(kind, name) for kind, listed in lists for name in listed]
    return [(kind, [(f"a{'n' * (x[0] in 'aeiou')} {x}", kind)]) for kind, x in names]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
