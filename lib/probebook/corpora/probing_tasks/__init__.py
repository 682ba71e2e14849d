"""Four probing tasks made from any sentences, after SentEval's (Conneau et al. 2018): texts with a class each.

A table has `text` (in its own case, no text twice) and `z`, the number of its class in `TASKS`; past_present also the
main verb's `form` and `lemma`. A word is a run of letters and digits with inner hyphens, apostrophes, decimal signs.
Verbs are found by rule (`main_verbs`); sentences of which the rule is not sure are left out."""
from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from probebook.base import UserError
from probebook.corpora import english
from probebook.corpora.fetch import fetch
from probebook.corpora.probing_tasks import plain_sentences
from probebook.corpora.probing_tasks.main_verbs import WORD, inverted, main_verb

BINS = [(5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28)]            # words
TASKS = {"sentence_length": [f"{low}–{high}" for low, high in BINS], "bigram_shift": ["intact", "swapped"],
         "coordination_inversion": ["intact", "inverted"], "past_present": ["past", "present"]}     # classes 0, 1, …
SOURCES = ["plain", "wikitext2", "english"]
SHARES = {"train": 4, "dev": 1, "test": 1}
_LABELS = {"sentence_length": [*"012345"], "past_present": ["PAST", "PRES"]}           # SentEval's; others O, I
_PARTS = {"tr": "train", "va": "dev", "te": "test"}


# the tasks

def generate(task: str, sentences: Iterable[str], n: int | None = None, seed: int = 0) -> pd.DataFrame:
    """The task's table of those sentences that fit it; `n`: at most so many rows, classes as equal as they can be.

    `seed` draws the changes and the rows. Raises UserError for an unknown task, n < 1, or if no sentence fits."""
    _known(task)
    if n is not None and n < 1:
        raise UserError(f"n = {n}: at least 1 text, or None for all")
    given = list(sentences)
    made = {"sentence_length": sentence_length, "past_present": past_present}
    table = made[task](given) if task in made else _SEEDED[task](given, seed)
    if table.empty:
        raise UserError(f"none of the {len(given)} sentences fits {task}: give more, or longer and plainer ones")
    order = np.random.default_rng(seed).permutation(len(table))
    rank = table.z.iloc[order].groupby(table.z.iloc[order]).cumcount()       # of a row in its class
    return table.loc[np.sort(rank.sort_values(kind="stable").index[:n])].reset_index(drop=True)


def sentence_length(sentences: Iterable[str]) -> pd.DataFrame:
    """Class of a sentence by its number of words: `BINS`; those of other lengths are left out."""
    classes = {length: z for z, (low, high) in enumerate(BINS) for length in range(low, high + 1)}
    lengths = {text: len(WORD.findall(text)) for text in sentences}
    return _table((text, classes[length]) for text, length in lengths.items() if length in classes)


def bigram_shift(sentences: Iterable[str], seed: int = 0) -> pd.DataFrame:
    """Half of the sentences intact (0), half with two adjacent words exchanged (1), at random.

    Not the first word, which has a capital, nor equal words, nor across punctuation: that stays where it is. Sentences
    without such words are left out."""
    rng, seen, rows = random.Random(seed), set(), []
    for text in _shuffled(sentences, rng):
        spans = [match.span() for match in WORD.finditer(text)]
        pairs = [(*a, *b) for a, b in zip(spans[1:], spans[2:])
                 if text[a[1]:b[0]].isspace() and text[slice(*a)].lower() != text[slice(*b)].lower()]
        if not pairs:
            continue
        a, b, c, d = rng.choice(pairs)
        z = len(rows) % 2
        new = text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:] if z else text
        if new not in seen:
            seen.add(new)
            rows.append((new, z))
    return _table(rows)


def coordination_inversion(sentences: Iterable[str], seed: int = 0) -> pd.DataFrame:
    """Sentences of two clauses joined by and, but or or: intact (0) or with the clauses exchanged (1).

    As in SentEval the first clause is the longer one (in words) equally often in both classes, and the shorter one."""
    rng, seen, kinds = random.Random(seed), set(), {-1: [], 0: [], 1: []}
    for text in _shuffled(sentences, rng):
        if (found := inverted(text)) and not seen & {text, found[0]}:
            seen |= {text, found[0]}
            kinds[found[1]].append((text, found[0]))
    few = min(len(kinds[1]), len(kinds[-1]))
    rows = []
    for kind, some in kinds.items():
        some = some[:few] if kind else some[:len(some) // 2 * 2]
        half = (few + (kind > 0)) // 2 if kind else len(some) // 2          # intact: `few` in all, longer and shorter
        rows += [(intact, 0) for intact, _ in some[:half]] + [(inverted, 1) for _, inverted in some[half:]]
    rng.shuffle(rows)
    return _table(rows)


def past_present(sentences: Iterable[str]) -> pd.DataFrame:
    """Tense of the main verb, past (0) or present (1), where `main_verb` finds it."""
    found = {text: main_verb(text) for text in sentences}
    rows = ((text, int(verb[2] == "present"), *verb[:2]) for text, verb in found.items() if verb)
    return _table(rows, ["form", "lemma"])


def control(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The same texts with a control task's classes (Hewitt & Liang 2019): drawn at random for each type of last word.

    They are drawn with the shares of the table's classes. Accuracy on them is memory for words; that of the task less
    it is the probe's selectivity."""
    words = pd.factorize(table.text.map(lambda text: WORD.findall(text)[-1].lower()))[0]
    drawn = np.random.default_rng(seed).choice(table.z.to_numpy(), words.max() + 1)
    return table.assign(z=drawn[words])


_SEEDED = {"bigram_shift": bigram_shift, "coordination_inversion": coordination_inversion}


def _known(task: str) -> None:
    if task not in TASKS:
        raise UserError(f"unknown task {task!r}: one of {', '.join(TASKS)}")


def _shuffled(sentences: Iterable[str], rng: random.Random) -> list[str]:
    different = list(dict.fromkeys(sentences))
    return rng.sample(different, len(different))


def _table(rows: Iterable[tuple], more: Iterable[str] = ()) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["text", "z", *more]).astype({"z": "int64"})


# subsets and sources

def subset(table: pd.DataFrame, per_class: int, seed: int = 0, leak: bool = False) -> pd.DataFrame:
    """`per_class` training texts of each class and a quarter as many for dev and for test, 4:1:1: column `split`.

    Shuffled by `seed`, so that a first part of a split is a random part. A table with splits keeps them (SentEval's of
    past_present share no verb form); where lemmas are known none is in two splits, and texts without are left out; else
    the split is drawn. `leak=True` draws it in any case, as the paper's code does. UserError if there are too few."""
    if not {"text", "z"} <= set(table) or table.z.nunique() < 2:
        raise UserError("a table of generate or load is needed: columns text and z, at least two classes")
    if per_class < 4 or per_class % 4:
        raise UserError(f"per_class = {per_class}: training texts of each class, a multiple of 4")
    rng = np.random.default_rng(seed)
    drawn = table.iloc[rng.permutation(len(table))].reset_index(drop=True)
    apart = not leak and "split" not in table and "lemma" in table
    if apart:
        drawn = drawn[drawn.lemma != ""]
        drawn["split"] = drawn.lemma.map(_dealt(pd.crosstab(drawn.lemma, drawn.z), per_class, rng))
    elif leak or "split" not in table:
        drawn["split"] = np.array(_SIXTHS)[drawn.groupby("z").cumcount() % 6]
    most = _room(pd.crosstab(drawn.split, drawn.z))
    if most < per_class:
        raise UserError(f"per_class = {per_class}: there are texts for {most} training texts of each class"
                        f"{', with no verb in two splits' if apart else ''} (the classes have "
                        f"{', '.join(map(str, drawn.z.value_counts().sort_index()))})")
    size = drawn.split.map({name: per_class * share // 4 for name, share in SHARES.items()})
    kept = drawn[drawn.groupby(["split", "z"]).cumcount() < size]
    return kept.sort_values("split", key=lambda x: x.map([*SHARES].index), kind="stable", ignore_index=True)


_SIXTHS = [name for name, share in SHARES.items() for _ in range(share)]


def _room(there: pd.DataFrame) -> int:
    """The `per_class` for which texts are there, of counts [splits, classes]."""
    return 4 * int((there.reindex([*SHARES], fill_value=0).to_numpy() // np.array([*SHARES.values()])[:, None]).min())


def _dealt(counts: pd.DataFrame, per_class: int, rng: np.random.Generator) -> dict[str, str]:
    """lemma → split, from counts [lemmas, classes]: of 50 deals the first with enough of each class, else with most.

    In a deal, of each six lemmas that are about equally frequent four go to train, one to dev, one to test."""
    by_size, most, best = counts.sum(axis=1).sort_values(ascending=False, kind="stable").index, -1, {}
    for _ in range(50):
        deal = dict(zip(by_size, np.concatenate([rng.permutation(_SIXTHS) for _ in by_size[::6]])))
        room = _room(counts.groupby(deal).sum())
        if room > most:
            most, best = room, deal
        if most >= per_class:
            break
    return best


def load(path: str | Path, task: str) -> pd.DataFrame:
    """SentEval's file of a task: text, z and `split` (train, dev, test); for past_present form and lemma as well.

    Lines of partition (tr, va, te), label and tokenised sentence, divided by tabs. Of a text that comes twice the first
    stays. `main_verb` gives form and lemma, "" where it finds no verb or another tense than the label."""
    _known(task)
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file: SentEval's {task}.txt is in its folder data/probing")
    labels, rows = _LABELS.get(task, ["O", "I"]), {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) < 3 or fields[0] not in _PARTS or fields[1] not in labels:
            raise UserError(f"{path.name}, line {number}: partition ({', '.join(_PARTS)}), label ({', '.join(labels)}) "
                            "and sentence, divided by tabs, are needed")
        rows.setdefault(fields[-1], (labels.index(fields[1]), _PARTS[fields[0]]))
    table = _table(((text, z) for text, (z, _) in rows.items())).assign(split=[split for _, split in rows.values()])
    if task == "past_present":
        verbs = [main_verb(text) or ("", "", "") for text in table.text]
        right = [verb if TASKS[task].index(verb[2] or "past") == z else ("", "", "") for verb, z in zip(verbs, table.z)]
        table["form"], table["lemma"] = [verb[0] for verb in right], [verb[1] for verb in right]
    return table


def sentences(source: str = "plain", n: int = 10_000, seed: int = 0) -> list[str]:
    """`n` different sentences of 5 to 28 words, drawn by `seed`: "plain" (generated), "wikitext2" or "english" (prose).

    Of real text those from a capital to a full stop with brackets and quotation marks in pairs and no unknown word;
    WikiText-2's (valid and test) get their usual spelling back. Raises UserError if there are fewer than n."""
    if source == "plain":
        return plain_sentences.generate(n, seed)
    if source == "wikitext2":
        found = _wikitext()
    elif source == "english":
        found = {}
        for shard in (np.arange(8) + seed) % 8:         # one is enough for some 100,000 sentences
            found |= _whole(part for text in english.paragraphs([int(shard)]) for part in _ENDS.split(text))
            if len(found) >= n:
                break
    else:
        raise UserError(f"source {source!r}: one of {', '.join(SOURCES)}")
    if not 1 <= n <= len(found):
        raise UserError(f"n = {n}: {source} has {len(found)} sentences")
    return random.Random(seed).sample([*found], n)


_ENDS = re.compile(r"(?<=[a-z]{2}[.?!])(?<!Mr\.)(?<!Mrs\.)(?<!Dr\.)(?<!St\.) (?=[A-Z])")
_SPELLING = [(r" @([-,.])@ ", r"\1"), (r" (['’](?:s|t|re|ve|ll|d|m)\b)", r"\1"), (r" ([,.;:?!%)])", r"\1"),
             (r"\( ", "("), (r'" ([^"]*) "', r'"\1"')]


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
    plain = re.compile(r'[A-Z](?:[^.?!"“”‘()\[\]<>_=]|\.(?!$)|\([^()"<>]*\)|"[^"()<>?!]*[^"()<>?!.]")*\.')
    kept = (text for text in texts if BINS[0][0] <= len(WORD.findall(text)) <= BINS[-1][1] and plain.fullmatch(text))
    return dict.fromkeys(kept)
