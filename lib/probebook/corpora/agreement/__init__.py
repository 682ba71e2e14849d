"""Subject–verb agreement: generated sentences with true counterfactuals, natural sentences, splits.

Every table has these columns; what is not known is "" or −1.

- `text`: the sentence with `[MASK]` at the verb
- `zc`, `ze`: number of the subject and of the prepositional object right before the verb (the
  attractor): 0 Sg, 1 Pl, −1 none
- `verb`, `other_verb`: the right form of the verb and the other one
- `subject`, `attractor`: lemmas of the two nouns
- `subject_flipped`, `attractor_flipped`: the sentence with only that noun's number changed
- `animacy`: "animate" or "inanimate" subject
- `group`: the part of the split that a generated sentence belongs to
- `work`: the work or article that a mined sentence comes from (`files.works`)

    table = agreement.generate(2_000)
    parts = agreement.split(table)           # oracle, intervention, test: disjoint by noun
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from probebook.base import UserError, check_choice, to_numpy
from probebook.corpora.agreement.files import ROWS
from probebook.corpora.agreement.lexicon import KINDS, Noun, load_lexicon
from probebook.corpora.words import single_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COLUMNS = "text zc ze verb other_verb subject attractor subject_flipped attractor_flipped".split()
COLUMNS += ["animacy", "group", "work"]
GROUPS = ["oracle", "intervention", "test"]
SHARES = [0.4, 0.4, 0.2]
VALID = 0.05  # share of the first two groups
# thousands; rows zc Sg, Pl; columns ze none, Sg, Pl (Canby et al., §4)
CONTINGENCY = [[176, 31, 5], [78, 10, 4]]
WITH_ATTRACTOR = [[0.3, 0.2], [0.2, 0.3]]  # rows zc, columns ze: as many of both, φ = .2


def apportion(n: int, weights: ArrayLike) -> np.ndarray:
    """Whole numbers, in the shape of `weights` and in proportion to them, that add up to `n`
    (largest remainders)."""
    w = np.asarray(weights, dtype=float)
    exact = n * w.ravel() / w.sum()
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: n - counts.sum()]] += 1
    return counts.reshape(w.shape)


def generate(
    n: int, seed: int = 0, contingency: ArrayLike | None = None, nouns: str = "all"
) -> pd.DataFrame:
    """Sentences in plain English with known structure, each with its two minimal pairs.

    `contingency`: weights [2, 3] of (zc Sg, Pl) × (ze none, Sg, Pl), by default the paper's test
    set; the counts of the cells are exact. `nouns`: "all", or the lexicon's "train" or "test" half.
    `seed` assigns the nouns of each kind to three groups (40/40/20), and a sentence takes all its
    nouns from one group, so that `split` loses no row. No text occurs twice. Raises UserError for n
    < 1, another half or impossible weights.
    """
    weights = np.asarray(CONTINGENCY if contingency is None else contingency, dtype=float)
    if n <= 0:
        raise UserError(f"n = {n}: at least 1 sentence")
    possible = np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() != 0
    if weights.shape != (2, 3) or not possible:
        raise UserError(
            f"contingency {weights.tolist()}: a [2, 3] table of weights ≥ 0, not all 0 "
            "(rows: subject Sg, Pl; columns: attractor none, Sg, Pl)"
        )
    if nouns not in ("all", "train", "test"):
        raise UserError(f"nouns = {nouns!r}: 'all', 'train' or 'test'")
    rng = random.Random(seed)
    chosen = _groups([noun for noun in load_lexicon().nouns if nouns in ("all", noun.split)], rng)
    rows, texts = [], set()
    for (zc, column), size in np.ndenumerate(apportion(n, weights)):
        for group, k in zip(GROUPS, apportion(size, SHARES)):
            for _ in range(k):
                row = _sentence(rng, chosen[group], zc, column - 1)
                while row["text"] in texts:
                    row = _sentence(rng, chosen[group], zc, column - 1)
                texts.add(row["text"])
                rows.append(row | {"group": group})
    rng.shuffle(rows)
    return _table(rows)


def _groups(nouns: list[Noun], rng: random.Random) -> dict[str, dict[str, list[Noun]]]:
    """group → kind → nouns; of every kind 40/40/20."""
    groups: dict[str, dict[str, list[Noun]]] = {group: {} for group in GROUPS}
    for kind in KINDS:
        pack = [noun for noun in nouns if noun.kind == kind]
        rng.shuffle(pack)
        for group, k in zip(GROUPS, apportion(len(pack), SHARES)):
            groups[group][kind], pack = pack[:k], pack[k:]
    return groups


def _sentence(rng: random.Random, nouns: dict[str, list[Noun]], zc: int, ze: int) -> dict:
    """One sentence with the nouns of one group: [opening] subject [modifier] [MASK]
    continuation."""
    words = load_lexicon()
    subject = rng.choice([noun for pack in nouns.values() for noun in pack])
    kind = subject.kind
    plural, singular, continuation = rng.choice(words.predicates[kind])
    attractor, middle = _modifier(rng, nouns, subject, ze)
    head = [rng.choice(words.determiners) if kind in ("person", "thing") else "the"]
    if rng.random() < 0.3:
        head.append(rng.choice(words.adjectives[kind]))
    if rng.random() < 0.2:
        opening = rng.choice(words.openings)
        head.insert(0, opening if opening.endswith("that") else opening + ",")
    frame = " ".join([*head, "{s}", *middle, "[MASK]", continuation]) + "."
    frame = frame[0].upper() + frame[1:]

    def text(number: int, other: int) -> str:
        return frame.format(s=subject.form(number), a=attractor and attractor.form(other))

    return {
        "text": text(zc, ze),
        "zc": zc,
        "ze": ze,
        "verb": plural if zc else singular,
        "other_verb": singular if zc else plural,
        "subject": subject.singular,
        "attractor": attractor.singular if attractor else "",
        "subject_flipped": text(1 - zc, ze),
        "attractor_flipped": text(zc, 1 - ze) if attractor else "",
        "animacy": "animate" if kind in ("person", "animal") else "inanimate",
    }


def _modifier(
    rng: random.Random, nouns: dict[str, list[Noun]], subject: Noun, ze: int
) -> tuple[Noun | None, list[str]]:
    """The attractor and the words between subject and verb; `{a}` stands for the attractor."""
    words, kind = load_lexicon(), subject.kind
    if ze >= 0:
        attractor, phrase = _phrase(rng, nouns, subject, "{a}")
        if kind in words.place_relatives and rng.random() < 0.15:  # who stood near the gates
            clause = rng.choice(words.place_relatives[kind])
            return attractor, [clause, rng.choice(words.places), *phrase[1:]]
        return attractor, phrase
    shape = rng.random()
    if shape < 0.3:  # the judges [MASK]
        return None, []
    if shape < 0.55:  # the judges often [MASK]
        return None, [rng.choice(words.adverbs)]
    if shape < 0.7:  # the judges who came yesterday
        return None, [rng.choice(words.relatives[kind])]
    if shape < 0.85:  # the judges that the boy saw
        person = rng.choice([noun for noun in nouns["person"] if noun != subject])
        verb_of_person = words.object_relatives[kind]
        return None, ["that the", person.form(rng.randrange(2)), rng.choice(verb_of_person)]
    between, phrase = _phrase(rng, nouns, subject, "{b}")  # the judges near the gates
    middle = [between.form(rng.randrange(2)) if word == "{b}" else word for word in phrase]
    return None, [*middle, rng.choice(words.adverbs)]


def _phrase(
    rng: random.Random, nouns: dict[str, list[Noun]], subject: Noun, slot: str
) -> tuple[Noun, list[str]]:
    """A noun that may follow `subject`, and its prepositional phrase with `slot` for the noun."""
    words = load_lexicon()
    kinds = [kind for kind in KINDS if (subject.kind, kind) in words.prepositions]
    noun = rng.choice([noun for kind in kinds for noun in nouns[kind] if noun != subject])
    phrase = [rng.choice(words.prepositions[subject.kind, noun.kind]), "the"]
    if rng.random() < 0.2:
        phrase.append(rng.choice(words.adjectives[noun.kind]))
    return noun, [*phrase, slot]


def _table(rows: Iterable[dict]) -> pd.DataFrame:
    """The columns of every table, in order; missing ones are ""."""
    table = pd.DataFrame(list(rows)).fillna("").reindex(columns=COLUMNS, fill_value="")
    return table.astype({"zc": "int64", "ze": "int64"})


def load(
    name: str,
    n: int | None = None,
    seed: int = 0,
    tokenizer: PreTrainedTokenizerBase | None = None,
    attractors: float | None = None,
) -> pd.DataFrame:
    """Sentences of one collection, in the file's order. UserError if no row is left.

    - `name`: "prose" (mined, ships with the project), "linzen", "lgd_masked", these three
      ("natural"), "addresses" (mined, ships too; no pocket model was trained on it), "lgd",
      "syneval" (crossed templates), or "generated": `generate(n, seed, nouns="test")`, whose nouns
      `pocket-agreement` never saw
    - `n`: at most so many rows, drawn by `seed`
    - `tokenizer`: keep the rows whose two verb forms are different single tokens of its vocabulary
      (four Linzen lines give one form twice)
    - `attractors`: share of generated sentences that have one, half of them singular, three in
      five of the subject's number; by default the paper's table, in which 16 % have one and four
      in five are singular, so that a probe of their number can hardly beat the majority

    Mined sentences all have an attractor, and their nouns are known, but for a few plurals. In
    other natural text `ze` follows `files.object_number` ("lgd": the file's part-of-speech tags)
    and the nouns are not known. In the templates everything is known.
    """
    check_choice(name, "name of agreement data", ["generated", *ROWS])
    if n is not None and n <= 0:
        raise UserError(f"n = {n}: at least 1 sentence, or None for all")
    if attractors is not None and not 0 <= attractors <= 1:
        raise UserError(f"attractors = {attractors}: a share, 0 … 1")
    if name == "generated":
        table = generate(10_000 if n is None else n, seed, _contingency(attractors), "test")
    else:
        table = _table(ROWS[name]())
    if tokenizer is not None:
        known = single_tokens({*table.verb, *table.other_verb}, tokenizer)
        table = table[
            (table.verb != table.other_verb) & table.verb.isin(known) & table.other_verb.isin(known)
        ]
        if table.empty:
            raise UserError(
                f"agreement data {name!r}: in no sentence are both verb forms single "
                "tokens of the model's vocabulary; another model's may have them"
            )
    if n is not None and n < len(table):
        table = table.iloc[sorted(random.Random(seed).sample(range(len(table)), n))]
    return table.reset_index(drop=True)


def _contingency(attractors: float | None) -> np.ndarray:
    """The paper's table, or one with this share of sentences that have an attractor."""
    cells = np.array(CONTINGENCY, dtype=float)
    if attractors is not None:
        cells[:, 0] *= (1 - attractors) / cells[:, 0].sum()
        cells[:, 1:] = attractors * np.array(WITH_ATTRACTOR)
    return cells


def decorrelate(zc: ArrayLike, ze: ArrayLike) -> np.ndarray:
    """Indices [N] of the largest subset in which Z_c and Z_e are independent and Z_c keeps its
    distribution p.

    Only rows where both are present (≥ 0) count; there may be any number of classes. Independence
    asks for n_ab = N·p_a·q_b rows in cell (a, b). Column b then holds at most m_b = min_a n_ab /
    p_a rows, and N = Σ_b m_b is reached by q_b = m_b / N (Canby et al., §4). Cells are rounded
    down, so each differs from exact independence by less than one row. The rows of a cell are drawn
    with seed 0. Exchange the arguments to keep Z_e's distribution. UserError: no such row, or
    unequal lengths.
    """
    zc, ze = to_numpy(zc), to_numpy(ze)
    if zc.ndim != 1 or zc.shape != ze.shape:
        raise UserError(f"zc {zc.shape} and ze {ze.shape}: two lists of the same length")
    present = np.flatnonzero((zc >= 0) & (ze >= 0))
    if present.size == 0:
        raise UserError("no row has both properties (zc ≥ 0 and ze ≥ 0)")
    rng = np.random.default_rng(0)
    classes, counts = np.unique(zc[present], return_counts=True)
    p = counts / present.size
    kept = []
    for b in np.unique(ze[present]):
        cells = [present[(zc[present] == a) & (ze[present] == b)] for a in classes]
        m = min(len(cell) / p_a for cell, p_a in zip(cells, p))
        kept += [
            rng.choice(cell, int(m * p_a + 1e-9), replace=False) for cell, p_a in zip(cells, p)
        ]
    return np.sort(np.concatenate(kept))


def split(table: pd.DataFrame, seed: int = 0) -> dict[str, np.ndarray]:
    """Row numbers of oracle, intervention and test (40/40/20); 5 % of the first two become their
    "_valid" parts.

    The parts share no sentence, and where nouns are known no subject or attractor. Generated tables
    come with their groups and lose no row. Mined sentences are split by work and lose no row; the
    parts share nouns. In a table of templates `seed` assigns the nouns to groups, and a row whose
    subject and attractor fall into different groups is dropped: about a third of the crossed
    templates remains. UserError for an empty table.
    """
    names = ("text", "subject", "attractor", "group", "work")
    text, subject, attractor, part, work = (np.asarray(table[name], dtype=object) for name in names)
    rng = np.random.default_rng(seed)
    if len(text) == 0:
        raise UserError("an empty table cannot be split: give it at least one sentence")
    if not part.all():
        if work.any():
            part = _work_groups(np.where(work == "", text, work), rng)
        elif subject.all():
            group = _noun_groups(subject, attractor, rng)
            same = [a == "" or group[a] == group[s] for s, a in zip(subject, attractor)]
            part = np.array([group[s] if one else "" for s, one in zip(subject, same)])
        else:
            texts = sorted(set(text))
            names = rng.permutation(np.repeat(GROUPS, apportion(len(texts), SHARES)))
            group = dict(zip(texts, names))
            part = np.array([group[t] for t in text])
    parts = {name: np.flatnonzero(part == name) for name in GROUPS}
    for name in GROUPS[:2]:
        texts = sorted(set(text[parts[name]]))
        valid = set(rng.permutation(texts)[: round(VALID * len(texts))])
        held = np.array([t in valid for t in text[parts[name]]], dtype=bool)
        parts |= {name: parts[name][~held], f"{name}_valid": parts[name][held]}
    return parts


def _work_groups(work: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each row's group: works, from the longest to the shortest, go where most rows are missing."""
    rows = Counter(work)
    room = np.array(SHARES) * len(work)
    group = {}
    for name in sorted(rng.permutation(sorted(rows)), key=lambda name: -rows[name]):
        g = int(np.argmax(room))
        room[g] -= rows[name]
        group[name] = GROUPS[g]
    return np.array([group[name] for name in work], dtype=object)


def _noun_groups(
    subject: np.ndarray, attractor: np.ndarray, rng: np.random.Generator
) -> dict[str, str]:
    """noun → group.

    Subjects, attractors and nouns that are both are assigned apart, and frequent nouns as evenly as
    rare ones. The squares of the shares are as 40 to 40 to 20, since a row stays only if both its
    nouns are in one group.
    """
    rows = Counter(subject) + Counter(attractor[attractor != ""])
    shares = np.sqrt(SHARES) / np.sqrt(SHARES).sum()
    subjects, attractors = set(subject), set(attractor) - {""}
    group = {}
    for role in (subjects - attractors, attractors - subjects, subjects & attractors):
        assigned = np.zeros(len(GROUPS))
        for noun in sorted(rng.permutation(sorted(role)), key=lambda noun: rows[noun]):
            g = int(np.argmax(shares * (assigned.sum() + 1) - assigned))
            assigned[g] += 1
            group[str(noun)] = GROUPS[g]
    return group
