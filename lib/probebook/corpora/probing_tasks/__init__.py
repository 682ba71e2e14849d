"""Four probing tasks made from any sentences, after SentEval's (Conneau et al. 2018).

A table has `text` (in its own case, no text twice) and `z`, the number of its class in `TASKS`;
that of past_present also has the main verb's `form` and `lemma`. A word is a run of letters and
digits with inner hyphens, apostrophes and decimal signs. Verbs are found by rule (`main_verbs`);
sentences of which the rule is not sure are left out.

    table = probing_tasks.generate("past_present", probing_tasks.sentences("plain"))
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from probebook.base import UserError, check_choice
from probebook.corpora import english
from probebook.corpora.fetch import fetch
from probebook.corpora.probing_tasks import plain_sentences
from probebook.corpora.probing_tasks.main_verbs import WORD, inverted, main_verb

BINS = [(5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28)]  # words
TASKS = {  # classes 0, 1, …
    "sentence_length": [f"{low}–{high}" for low, high in BINS],
    "bigram_shift": ["intact", "swapped"],
    "coordination_inversion": ["intact", "inverted"],
    "past_present": ["past", "present"],
}
SOURCES = ["plain", "wikitext2", "english"]
SHARES = {"train": 4, "dev": 1, "test": 1}
_LABELS = {"sentence_length": [*"012345"], "past_present": ["PAST", "PRES"]}  # others: O, I
_PARTS = {"tr": "train", "va": "dev", "te": "test"}


# the tasks


def generate(
    task: str, sentences: Iterable[str], n: int | None = None, seed: int = 0
) -> pd.DataFrame:
    """The task's table of the sentences that fit it.

    `n`: at most so many rows, with classes as equal as they can be. `seed` draws the changes and
    the rows. UserError for an unknown task, n < 1, or if no sentence fits.
    """
    check_choice(task, "task", TASKS)
    if n is not None and n < 1:
        raise UserError(f"n = {n}: at least 1 text, or None for all")
    given = list(sentences)
    if task in ("sentence_length", "past_present"):
        table = sentence_length(given) if task == "sentence_length" else past_present(given)
    else:
        change = bigram_shift if task == "bigram_shift" else coordination_inversion
        table = change(given, seed)
    if table.empty:
        raise UserError(
            f"none of the {len(given)} sentences fits {task}: give more, or longer and plainer ones"
        )
    order = np.random.default_rng(seed).permutation(len(table))
    z = table.z.iloc[order]
    rank = z.groupby(z).cumcount()  # of a row in its class
    return table.loc[np.sort(rank.sort_values(kind="stable").index[:n])].reset_index(drop=True)


def sentence_length(sentences: Iterable[str]) -> pd.DataFrame:
    """Class of a sentence by its number of words (`BINS`); other lengths are left out."""
    classes = {length: z for z, (low, high) in enumerate(BINS) for length in range(low, high + 1)}
    lengths = {text: len(WORD.findall(text)) for text in sentences}
    return _table((text, classes[length]) for text, length in lengths.items() if length in classes)


def bigram_shift(sentences: Iterable[str], seed: int = 0) -> pd.DataFrame:
    """Half of the sentences intact (0), half with two adjacent words exchanged (1), at random.

    Never exchanged are the first word, which has a capital, equal words, and words with punctuation
    between them. Sentences without other words are left out.
    """
    rng = random.Random(seed)
    texts: set[str] = set()
    rows: list[tuple[str, int]] = []
    for text in _shuffled(sentences, rng):
        pairs = _exchangeable(text)
        if not pairs:
            continue
        a, b, c, d = rng.choice(pairs)
        z = len(rows) % 2
        new = text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:] if z else text
        if new not in texts:
            texts.add(new)
            rows.append((new, z))
    return _table(rows)


def _exchangeable(text: str) -> list[tuple[int, int, int, int]]:
    """Start and end of the first and of the second of two words that may be exchanged."""
    spans = [match.span() for match in WORD.finditer(text)]
    return [
        (*a, *b)
        for a, b in zip(spans[1:], spans[2:])
        if text[a[1] : b[0]].isspace() and text[slice(*a)].lower() != text[slice(*b)].lower()
    ]


def coordination_inversion(sentences: Iterable[str], seed: int = 0) -> pd.DataFrame:
    """Sentences of two clauses joined by and, but or or: intact (0), or with clauses exchanged (1).

    As in SentEval, the first clause is the longer one (in words) equally often in both classes, and
    equally often the shorter one.
    """
    rng = random.Random(seed)
    texts: set[str] = set()
    pairs: dict[int, list[tuple[str, str]]] = {-1: [], 0: [], 1: []}
    for text in _shuffled(sentences, rng):
        if (found := inverted(text)) and not texts & {text, found[0]}:
            texts |= {text, found[0]}
            pairs[found[1]].append((text, found[0]))
    few = min(len(pairs[1]), len(pairs[-1]))
    rows = []
    for longer, some in pairs.items():
        some = some[:few] if longer else some[: len(some) // 2 * 2]
        # `few` stay intact in all, with the first clause longer and with it shorter
        intact = (few + (longer > 0)) // 2 if longer else len(some) // 2
        rows += [(text, 0) for text, _ in some[:intact]]
        rows += [(exchanged, 1) for _, exchanged in some[intact:]]
    rng.shuffle(rows)
    return _table(rows)


def past_present(sentences: Iterable[str]) -> pd.DataFrame:
    """Tense of the main verb, past (0) or present (1), where `main_verb` finds it."""
    found = {text: main_verb(text) for text in sentences}
    rows = ((text, int(verb[2] == "present"), *verb[:2]) for text, verb in found.items() if verb)
    return _table(rows, ["form", "lemma"])


def control(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The same texts with a control task's classes, random for each type of last word.

    (Hewitt & Liang 2019.) They are drawn with the shares of the table's classes. Accuracy on them
    is memory for words; the task's accuracy minus that is the probe's selectivity.
    """
    words = pd.factorize(table.text.map(lambda text: WORD.findall(text)[-1].lower()))[0]
    by_word = np.random.default_rng(seed).choice(table.z.to_numpy(), words.max() + 1)
    return table.assign(z=by_word[words])


def _shuffled(sentences: Iterable[str], rng: random.Random) -> list[str]:
    different = list(dict.fromkeys(sentences))
    return rng.sample(different, len(different))


def _table(rows: Iterable[tuple], more: Iterable[str] = ()) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["text", "z", *more]).astype({"z": "int64"})


# subsets and sources


def subset(table: pd.DataFrame, per_class: int, seed: int = 0, leak: bool = False) -> pd.DataFrame:
    """`per_class` training texts of each class and a quarter as many for dev and for test (4:1:1).

    The column `split` names the part. Rows are shuffled by `seed`, so that a first part of a split
    is a random part. A table with splits keeps them (in SentEval's of past_present, no verb form is
    in two). Where lemmas are known, none is in two splits, and texts without a lemma are left out.
    Else the split is drawn; `leak=True` draws it in any case, as the paper's code does. UserError
    if there are too few texts.
    """
    if not {"text", "z"} <= set(table) or table.z.nunique() < 2:
        raise UserError(
            "a table of generate or load is needed: columns text and z, at least two classes"
        )
    if per_class < 4 or per_class % 4:
        raise UserError(f"per_class = {per_class}: training texts of each class, a multiple of 4")
    rng = np.random.default_rng(seed)
    rows = table.iloc[rng.permutation(len(table))].reset_index(drop=True)
    by_lemma = not leak and "split" not in table and "lemma" in table
    if by_lemma:
        rows = rows[rows.lemma != ""]
        counts = pd.crosstab(rows.lemma, rows.z)
        rows["split"] = rows.lemma.map(_lemma_splits(counts, per_class, rng))
    elif leak or "split" not in table:
        rows["split"] = np.array(_SIXTHS)[rows.groupby("z").cumcount() % 6]
    most = _room(pd.crosstab(rows.split, rows.z))
    if most < per_class:
        no_leak = ", with no verb in two splits" if by_lemma else ""
        counts = ", ".join(map(str, rows.z.value_counts().sort_index()))
        raise UserError(
            f"per_class = {per_class}: there are texts for {most} training texts of "
            f"each class{no_leak} (the classes have {counts})"
        )
    size = rows.split.map({name: per_class * share // 4 for name, share in SHARES.items()})
    chosen = rows[rows.groupby(["split", "z"]).cumcount() < size]
    return chosen.sort_values(
        "split", key=lambda names: names.map([*SHARES].index), kind="stable", ignore_index=True
    )


_SIXTHS = [name for name, share in SHARES.items() for _ in range(share)]


def _room(counts: pd.DataFrame) -> int:
    """The largest `per_class` that counts [splits, classes] allow."""
    found = counts.reindex([*SHARES], fill_value=0).to_numpy()
    return 4 * int((found // np.array([*SHARES.values()])[:, None]).min())


def _lemma_splits(counts: pd.DataFrame, per_class: int, rng: np.random.Generator) -> dict[str, str]:
    """lemma → split, from counts [lemmas, classes].

    Of each six lemmas that are about equally frequent, four go to train, one to dev and one to
    test. Of 50 draws the first with enough of each class is taken, else the one with most.
    """
    by_size = counts.sum(axis=1).sort_values(ascending=False, kind="stable").index
    most, best = -1, {}
    for _ in range(50):
        names = np.concatenate([rng.permutation(_SIXTHS) for _ in by_size[::6]])
        splits = dict(zip(by_size, names))
        room = _room(counts.groupby(splits).sum())
        if room > most:
            most, best = room, splits
        if most >= per_class:
            break
    return best


def load(path: str | Path, task: str) -> pd.DataFrame:
    """SentEval's file of a task: text, z and `split` (train, dev, test).

    Lines have partition (tr, va, te), label and tokenised sentence, divided by tabs. Of a text that
    comes twice the first stays. The table of past_present has `form` and `lemma` as well, "" where
    `main_verb` finds no verb or another tense than the label. UserError for a missing or bad file.
    """
    check_choice(task, "task", TASKS)
    path = Path(path)
    if not path.is_file():
        raise UserError(
            f"{path}: no such file: SentEval's {task}.txt is in its folder data/probing"
        )
    labels = _LABELS.get(task, ["O", "I"])
    rows: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) < 3 or fields[0] not in _PARTS or fields[1] not in labels:
            raise UserError(
                f"{path.name}, line {number}: partition ({', '.join(_PARTS)}), label "
                f"({', '.join(labels)}) and sentence, divided by tabs, are needed"
            )
        rows.setdefault(fields[-1], (labels.index(fields[1]), _PARTS[fields[0]]))
    table = _table((text, z) for text, (z, _) in rows.items())
    table["split"] = [split for _, split in rows.values()]
    if task == "past_present":
        verbs = [_verb_of_tense(text, TASKS[task][z]) for text, z in zip(table.text, table.z)]
        table["form"], table["lemma"] = [form for form, _ in verbs], [lemma for _, lemma in verbs]
    return table


def _verb_of_tense(text: str, tense: str) -> tuple[str, str]:
    """Form and lemma of the main verb if it has this tense, else "" twice."""
    form, lemma, found = main_verb(text) or ("", "", "")
    return (form, lemma) if found == tense else ("", "")


def sentences(source: str = "plain", n: int = 10_000, seed: int = 0) -> list[str]:
    """`n` different sentences of 5 to 28 words, drawn by `seed`. UserError if there are fewer.

    `source`: "plain" (generated), "wikitext2" or "english" (prose). Of real text those are taken
    that run from a capital to a full stop, have brackets and quotation marks in pairs and no
    unknown word. WikiText-2's (valid and test) get their usual spelling back.
    """
    if source == "plain":
        return plain_sentences.generate(n, seed)
    if source == "wikitext2":
        found = _wikitext()
    elif source == "english":
        found = {}
        order: np.ndarray = (np.arange(8) + seed) % 8
        for shard in order:  # one is enough for some 100,000 sentences
            paragraphs = english.paragraphs([int(shard)])
            found |= _whole(part for text in paragraphs for part in _ENDS.split(text))
            if len(found) >= n:
                break
    else:
        raise UserError(f"source {source!r}: one of {', '.join(SOURCES)}")
    if not 1 <= n <= len(found):
        raise UserError(f"n = {n}: {source} has {len(found)} sentences")
    return random.Random(seed).sample([*found], n)


_ENDS = re.compile(r"(?<=[a-z]{2}[.?!])(?<!Mr\.)(?<!Mrs\.)(?<!Dr\.)(?<!St\.) (?=[A-Z])")
_SPELLING = [
    (r" @([-,.])@ ", r"\1"),
    (r" (['’](?:s|t|re|ve|ll|d|m)\b)", r"\1"),
    (r" ([,.;:?!%)])", r"\1"),
    (r"\( ", "("),
    (r'" ([^"]*) "', r'"\1"'),
]


def _wikitext() -> dict[str, None]:
    """Sentences of the two files, in which every full stop that ends one stands alone."""
    found = []
    for name in ("valid", "test"):
        for line in fetch(f"wikitext2/{name}.txt").read_text(encoding="utf-8").splitlines():
            for text in re.split(r"(?<= [.?!]) ", line.strip()):
                for pattern, plain in _SPELLING:
                    text = re.sub(pattern, plain, text)
                found.append(text)
    return _whole(found)


def _whole(texts: Iterable[str]) -> dict[str, None]:
    """The texts that are one whole sentence, each once."""
    inside = r'[^.?!"“”‘()\[\]<>_=]|\.(?!$)|\([^()"<>]*\)|"[^"()<>?!]*[^"()<>?!.]"'
    plain = re.compile(rf"[A-Z](?:{inside})*\.")
    (shortest, _), (_, longest) = BINS[0], BINS[-1]
    right_length = (text for text in texts if shortest <= len(WORD.findall(text)) <= longest)
    return dict.fromkeys(text for text in right_length if plain.fullmatch(text))
