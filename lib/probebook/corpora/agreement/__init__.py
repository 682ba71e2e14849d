"""Subject–verb agreement: generated sentences and their true counterfactuals, natural sentences, splits.

Every table has the columns `text` (with `[MASK]` at the verb), `zc` (number of the subject), `ze` (number of the
prepositional object right before the verb), both 0 Sg, 1 Pl, −1 none; `verb` (right here) and `other_verb`; `subject`
and `attractor` (lemmas), `subject_flipped` and `attractor_flipped` (the sentence with only that noun's number changed),
`animacy` (animate or inanimate subject), `group` (the part of the split that a generated sentence belongs to). What is
not known is "" or −1.
"""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd
from datasets import Dataset

from probebook.base import UserError
from probebook.corpora.agreement import lexicon
from probebook.corpora.agreement.files import ROWS
from probebook.corpora.agreement.lexicon import Noun

COLUMNS = ["text", "zc", "ze", "verb", "other_verb", "subject", "attractor", "subject_flipped", "attractor_flipped",
           "animacy", "group"]
GROUPS = ["oracle", "intervention", "test"]
SHARES = [.4, .4, .2]
VALID = .05                                     # of the first two groups
CONTINGENCY = [[176, 31, 5], [78, 10, 4]]       # thousands; rows zc Sg, Pl; columns ze none, Sg, Pl (Canby et al., §4)


def apportion(n: int, weights) -> np.ndarray:
    """Whole numbers that add up to `n` in proportion to `weights`, in their shape (largest remainders)."""
    w = np.asarray(weights, dtype=float)
    exact = n * w.ravel() / w.sum()
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[:n - counts.sum()]] += 1
    return counts.reshape(w.shape)


def generate(n: int, seed: int = 0, contingency=None, nouns: str = "all") -> Dataset:
    """Sentences in plain English with known structure, each with its two minimal pairs.

    `contingency`: weights [2, 3] of (zc Sg, Pl) × (ze none, Sg, Pl), default the paper's test set; the counts of the
    cells are exact. `nouns`: "all", or the lexicon's "train" or "test" half. The nouns are dealt out to three groups
    by `seed` (40/40/20 of every kind) and a sentence takes all its nouns from one group, so that `split` loses none.
    No text occurs twice.
    """
    weights = np.asarray(CONTINGENCY if contingency is None else contingency, dtype=float)
    if n <= 0:
        raise UserError(f"n = {n}: at least 1 sentence")
    if weights.shape != (2, 3) or not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() == 0:
        raise UserError(f"contingency {weights.tolist()}: a [2, 3] table of weights ≥ 0, not all 0 "
                        "(rows: subject Sg, Pl; columns: attractor none, Sg, Pl)")
    if nouns not in ("all", "train", "test"):
        raise UserError(f"nouns = {nouns!r}: 'all', 'train' or 'test'")
    rng = random.Random(seed)
    chosen = _deal([noun for noun in lexicon.NOUNS if nouns in ("all", noun.split)], rng)
    rows, seen = [], set()
    for (zc, column), size in np.ndenumerate(apportion(n, weights)):
        for group, k in zip(GROUPS, apportion(size, SHARES)):
            for _ in range(k):
                row = _sentence(rng, chosen[group], zc, column - 1)
                while row["text"] in seen:
                    row = _sentence(rng, chosen[group], zc, column - 1)
                seen.add(row["text"])
                rows.append(row | {"group": group})
    rng.shuffle(rows)
    return _dataset(rows)


def _deal(nouns: list[Noun], rng: random.Random) -> dict[str, dict[str, list[Noun]]]:
    """group → kind → nouns; every kind is dealt out 40/40/20."""
    groups = {group: {} for group in GROUPS}
    for kind in lexicon.KINDS:
        pack = [noun for noun in nouns if noun.kind == kind]
        rng.shuffle(pack)
        for group, k in zip(GROUPS, apportion(len(pack), SHARES)):
            groups[group][kind], pack = pack[:k], pack[k:]
    return groups


def _sentence(rng: random.Random, nouns: dict[str, list[Noun]], zc: int, ze: int) -> dict:
    """One sentence with the nouns of one group: [opening] subject [modifier] [MASK] continuation."""
    subject = rng.choice([noun for pack in nouns.values() for noun in pack])
    kind = subject.kind
    plural, singular, continuation = rng.choice(lexicon.PREDICATES[kind])
    attractor, middle = _modifier(rng, nouns, subject, ze)
    head = [rng.choice(lexicon.DETERMINERS) if kind in ("person", "thing") else "the"]
    if rng.random() < .3:
        head.append(rng.choice(lexicon.ADJECTIVES[kind]))
    if rng.random() < .2:
        opening = rng.choice(lexicon.OPENINGS)
        head.insert(0, opening if opening.endswith("that") else opening + ",")
    frame = " ".join([*head, "{s}", *middle, "[MASK]", continuation]) + "."
    frame = frame[0].upper() + frame[1:]

    def text(number: int, other: int) -> str:
        return frame.format(s=subject.form(number), a=attractor and attractor.form(other))

    return {"text": text(zc, ze), "zc": zc, "ze": ze, "verb": plural if zc else singular,
            "other_verb": singular if zc else plural, "subject": subject.singular,
            "attractor": attractor.singular if attractor else "", "subject_flipped": text(1 - zc, ze),
            "attractor_flipped": text(zc, 1 - ze) if attractor else "",
            "animacy": "animate" if kind in ("person", "animal") else "inanimate"}


def _modifier(rng: random.Random, nouns: dict[str, list[Noun]], subject: Noun,
              ze: int) -> tuple[Noun | None, list[str]]:
    """The attractor and the words between subject and verb; `{a}` stands for the attractor."""
    kind = subject.kind
    if ze >= 0:
        attractor, phrase = _phrase(rng, nouns, subject, "{a}")
        if kind in lexicon.STANDING and rng.random() < .15:         # … who stood near the gates [MASK]
            return attractor, [rng.choice(lexicon.STANDING[kind]), rng.choice(lexicon.PLACES), *phrase[1:]]
        return attractor, phrase
    shape = rng.random()
    if shape < .3:                                                  # the judges [MASK]
        return None, []
    if shape < .55:                                                 # the judges often [MASK]
        return None, [rng.choice(lexicon.ADVERBS)]
    if shape < .7:                                                  # the judges who came yesterday [MASK]
        return None, [rng.choice(lexicon.RELATIVES[kind])]
    if shape < .85:                                                 # the judges that the boy saw [MASK]
        person = rng.choice([noun for noun in nouns["person"] if noun != subject])
        return None, ["that the", person.form(rng.randrange(2)), rng.choice(lexicon.RELATIVES_OF_PERSON[kind])]
    between, phrase = _phrase(rng, nouns, subject, "{b}")           # the judges near the gates often [MASK]
    words = [between.form(rng.randrange(2)) if word == "{b}" else word for word in phrase]
    return None, [*words, rng.choice(lexicon.ADVERBS)]


def _phrase(rng: random.Random, nouns: dict[str, list[Noun]], subject: Noun, slot: str) -> tuple[Noun, list[str]]:
    """A noun that may follow `subject` and the prepositional phrase with `slot` in its place."""
    kinds = [kind for kind in lexicon.KINDS if (subject.kind, kind) in lexicon.PREPOSITIONS]
    noun = rng.choice([noun for kind in kinds for noun in nouns[kind] if noun != subject])
    phrase = [rng.choice(lexicon.PREPOSITIONS[subject.kind, noun.kind]), "the"]
    if rng.random() < .2:
        phrase.append(rng.choice(lexicon.ADJECTIVES[noun.kind]))
    return noun, [*phrase, slot]


def _dataset(rows: Iterable[dict]) -> Dataset:
    """The columns of every table, in order; missing ones are ""."""
    table = pd.DataFrame(list(rows)).reindex(columns=COLUMNS, fill_value="")
    return Dataset.from_pandas(table.astype({"zc": "int64", "ze": "int64"}), preserve_index=False)


def load(name: str, n: int | None = None, seed: int = 0, tokenizer=None, attractors: float | None = None) -> Dataset:
    """Real sentences: "linzen", "lgd_masked", both of these ("natural"), "lgd", "syneval" (crossed templates), in the
    file's order; or "generated": `generate(n, seed, nouns="test")`, nouns that `pocket-agreement` was not trained on.

    `n`: at most so many, drawn by `seed`. `tokenizer`: keep the rows whose two verb forms are different single tokens
    of it (anything with `get_vocab()`; four Linzen lines give one form twice). In natural text `ze` follows
    `agreement_files.object_number` ("lgd": the file's part-of-speech tags) and nouns are not known; in the templates
    everything is. `attractors`: share of generated sentences that have one, else the paper's 16 %; the shares among
    those with and among those without stay the paper's. Raises UserError if no row is left.
    """
    def generated() -> list[dict]:
        cells = np.array(CONTINGENCY, dtype=float)
        if attractors is not None:
            cells[:, 0] *= (1 - attractors) / cells[:, 0].sum()
            cells[:, 1:] *= attractors / cells[:, 1:].sum()
        return generate(10_000 if n is None else n, seed, cells, "test").to_list()

    loaders = {"generated": generated, **ROWS}
    if name not in loaders:
        raise UserError(f"unknown agreement data {name!r}: one of {', '.join(loaders)}")
    if n is not None and n <= 0:
        raise UserError(f"n = {n}: at least 1 sentence, or None for all")
    if attractors is not None and not 0 <= attractors <= 1:
        raise UserError(f"attractors = {attractors}: a share, 0 … 1")
    rows = loaders[name]()
    if tokenizer is not None:
        vocabulary = tokenizer.get_vocab()
        rows = [row for row in rows
                if row["verb"] != row["other_verb"] and row["verb"] in vocabulary and row["other_verb"] in vocabulary]
        if not rows:
            raise UserError(f"agreement data {name!r}: in no sentence are both verb forms single tokens of the "
                            "model's vocabulary; another model's may have them")
    if n is not None and n < len(rows):
        rows = [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), n))]
    return _dataset(rows)


def decorrelate(zc, ze) -> np.ndarray:
    """Indices [N] of the largest subset in which Z_c and Z_e are independent and Z_c keeps its distribution p.

    Only rows where both are present (≥ 0) count; any number of classes. n_ab = N·p_a·q_b may not exceed what is there,
    so column b holds at most m_b = min_a n_ab / p_a rows, and N = Σ_b m_b is reached by q_b = m_b / N (Canby et al.,
    §4). Cells are rounded down, so each differs from exact independence by less than one row. Exchange the arguments
    to keep Z_e's distribution. The rows of a cell are drawn with seed 0.
    """
    zc, ze = np.asarray(zc), np.asarray(ze)
    if zc.ndim != 1 or zc.shape != ze.shape:
        raise UserError(f"zc {zc.shape} and ze {ze.shape}: two lists of the same length")
    present = np.flatnonzero((zc >= 0) & (ze >= 0))
    if present.size == 0:
        raise UserError("no row has both properties (zc ≥ 0 and ze ≥ 0)")
    rng = np.random.default_rng(0)
    classes, share = np.unique(zc[present], return_counts=True)
    p = share / present.size
    kept = []
    for b in np.unique(ze[present]):
        cells = [present[(zc[present] == a) & (ze[present] == b)] for a in classes]
        m = min(len(cell) / p_a for cell, p_a in zip(cells, p))
        kept += [rng.choice(cell, int(m * p_a + 1e-9), replace=False) for cell, p_a in zip(cells, p)]
    return np.sort(np.concatenate(kept))


def split(table: Dataset, seed: int = 0) -> dict[str, np.ndarray]:
    """Row indices of oracle, intervention and test (40/40/20); 5 % of the first two are their "_valid" parts.

    Disjoint by sentence, and where nouns are known by subject and attractor as well. Generated tables come with their
    groups and lose no row. In a table of templates the nouns are dealt out by `seed` and a row whose subject and
    attractor fall into different groups is dropped: about a third of the crossed templates remains.
    """
    text, subject, attractor = (np.asarray(table[name], dtype=object) for name in ("text", "subject", "attractor"))
    part = np.asarray(table["group"], dtype=object)
    rng = np.random.default_rng(seed)
    if len(text) == 0:
        raise UserError("an empty table cannot be split: give it at least one sentence")
    if not part.all():
        if subject.all():
            group = _deal_nouns(subject, attractor, rng)
            part = np.array([group[s] if a == "" or group[a] == group[s] else "" for s, a in zip(subject, attractor)])
        else:
            texts = sorted(set(text))
            group = dict(zip(texts, rng.permutation(np.repeat(GROUPS, apportion(len(texts), SHARES)))))
            part = np.array([group[t] for t in text])
    parts = {name: np.flatnonzero(part == name) for name in GROUPS}
    for name in GROUPS[:2]:
        texts = sorted(set(text[parts[name]]))
        valid = set(rng.permutation(texts)[:round(VALID * len(texts))])
        held = np.array([t in valid for t in text[parts[name]]], dtype=bool)
        parts |= {name: parts[name][~held], f"{name}_valid": parts[name][held]}
    return parts


def _deal_nouns(subject: np.ndarray, attractor: np.ndarray, rng: np.random.Generator) -> dict[str, str]:
    """noun → group: subjects, attractors and nouns that are both are dealt out apart, those of many rows as evenly as
    those of few, in shares whose squares are as 40 to 40 to 20 (a row stays if both its nouns are in one group)."""
    rows = Counter(subject) + Counter(attractor[attractor != ""])
    shares = np.sqrt(SHARES) / np.sqrt(SHARES).sum()
    subjects, attractors = set(subject), set(attractor) - {""}
    group = {}
    for role in (subjects - attractors, attractors - subjects, subjects & attractors):
        dealt = np.zeros(len(GROUPS))
        for noun in sorted(rng.permutation(sorted(role)), key=rows.get):
            g = int(np.argmax(shares * (dealt.sum() + 1) - dealt))
            dealt[g] += 1
            group[str(noun)] = GROUPS[g]
    return group
