"""Agreement sentences read from files, mined ones and others'; the rule for Z_e in natural text."""

from __future__ import annotations

import csv
import lzma
from functools import cache
from pathlib import Path

import pandas as pd

from probebook.base import DATA
from probebook.corpora.agreement.lexicon import plural
from probebook.corpora.fetch import fetch
from probebook.corpora.words import word_table

SENTENCES = DATA / "corpora" / "agreement_prose.tsv.xz"
ADDRESSES = DATA / "corpora" / "agreement_addresses.tsv.xz"
WORKS = DATA / "corpora" / "agreement_works.tsv"


def read_mined(path: Path = SENTENCES) -> list[dict]:
    """Read sentences that `probebook_training.agreement_prose` found in the project's prose, or in
    the State of the Union addresses, 1790–2021, which trained no pocket model (`ADDRESSES`;
    `work`: year and president)."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row | {"zc": int(row["zc"]), "ze": int(row["ze"])} for row in rows]


def works() -> pd.DataFrame:
    """The works of the mined sentences.

    Columns: `work`; `author`, `title` and `source` as in the shards; `year` of first publication
    (of a collection made later, that of the collection; "" where it is doubtful); `sentences`, how
    many; `seen`, whether text of it may have trained the pocket models, that is, whether any of its
    paragraphs is not among the held-out ones."""
    return pd.read_csv(
        WORKS,
        sep="\t",
        dtype={"work": str, "year": str},
        keep_default_na=False,
        quoting=csv.QUOTE_NONE,
    )


def provenance(table: pd.DataFrame) -> pd.Series:
    """How many sentences of a table of `load` or `generate` have which origin.

    Index: "generated", "collected by others", "mined, read in training" (a pocket model may have
    been trained on the work), "mined, never read"; only those that occur."""
    seen = works().set_index("work").seen
    origin = pd.Series("mined, never read", table.index, name="origin")
    origin[table.work.map(seen).eq(True)] = "mined, read in training"
    origin[table.work == ""] = "collected by others"
    origin[table.group != ""] = "generated"
    return origin.value_counts(sort=False).rename("sentences")


def _linzen() -> list[dict]:
    """The sentences of Linzen et al., without the 4 lines whose index misses the verb."""
    sentences = fetch("linzen_testset.text").read_text(encoding="utf-8").splitlines()
    gold = fetch("linzen_testset.gold").read_text(encoding="utf-8").splitlines()
    rows = []
    for sentence, line in zip(sentences, gold, strict=True):
        words = sentence.removesuffix(" <eos>").split(" ")
        index, verb, other, _ = line.split("\t")
        if words[int(index)] == verb:
            rows.append(_natural(words, int(index), verb, other))
    return rows


def _lgd_masked() -> list[dict]:
    with open(fetch("lgd_masked.tsv"), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    split_up = [(row, row["masked"].split(" ")) for row in rows]
    return [
        _natural(words, words.index("***mask***"), row["verb"], row["other_verb"])
        for row, words in split_up
    ]


def _natural_text() -> list[dict]:
    """The mined sentences and those of both collections, which overlap; each text once."""
    rows = _linzen() + _lgd_masked() + read_mined()
    return list({row["text"]: row for row in rows}.values())


def _masked(words: list[str], index: int) -> list[str]:
    return [*words[:index], "[MASK]", *words[index + 1 :]]


def _natural(words: list[str], index: int, verb: str, other: str) -> dict:
    return {
        "text": " ".join(_masked(words, index)),
        "zc": int(verb != _third_person(verb, other)),
        "ze": object_number(words[:index]),
        "verb": verb,
        "other_verb": other,
    }


def _third_person(a: str, b: str) -> str:
    """The form for a singular subject: it ends in s, and of two such forms it is the longer one
    (pass, passes). "" if neither ends in s."""
    return max("", a, b, key=lambda word: (word.endswith("s"), len(word) * word.endswith("s")))


def _syneval() -> list[dict]:
    """The crossed templates. All their nouns have regular plurals; a full stop is added."""
    with open(fetch("syneval_prepositional.tsv"), encoding="utf-8", newline="") as f:
        pairs = list(csv.DictReader(f, delimiter="\t"))
    return [_template(pair) for pair in pairs]


def _template(pair: dict[str, str]) -> dict:
    words, wrong = pair["grammatical"].split(), pair["ungrammatical"].split()
    at = next(i for i, (a, b) in enumerate(zip(words, wrong)) if a != b)
    zc, ze = (int(pair[key] == "Pl") for key in ("subject_number", "attractor_number"))
    masked = [*_masked(words, at), "."]

    def flipped(i: int, number: int) -> str:
        noun = masked[i].removesuffix("s") if number else masked[i] + "s"
        return " ".join([*masked[:i], noun, *masked[i + 1 :]])

    return {
        "text": " ".join(masked),
        "zc": zc,
        "ze": ze,
        "verb": words[at],
        "other_verb": wrong[at],
        "subject": words[1].removesuffix("s") if zc else words[1],
        "attractor": words[at - 1].removesuffix("s") if ze else words[at - 1],
        "subject_flipped": flipped(1, zc),
        "attractor_flipped": flipped(at - 1, ze),
        "animacy": pair["animacy"],
    }


def _lgd() -> list[dict]:
    """The full corpus. Singular verbs whose plural form never occurs in it are left out."""
    columns = ["orig_sentence", "pos_sentence", "verb", "verb_pos", "subj_index", "verb_index"]
    table = pd.read_csv(
        fetch("agr_50_mostcommon_10K.tsv.gz"), sep="\t", keep_default_na=False, usecols=columns
    )
    verbs = table["verb"].str.lower()
    plurals = sorted(
        verb
        for verb in verbs[table["verb_pos"] == "VBP"].unique()
        if verb.isalpha() and verb != "am"
    )
    singular = {verb: {"are": "is", "have": "has"}.get(verb) or _s_form(verb) for verb in plurals}
    other_form = singular | {sg: pl for pl, sg in singular.items()}
    rows = []
    for verb, row in zip(verbs, table.itertuples(index=False)):
        words, tags = row.orig_sentence.split(" "), row.pos_sentence.split(" ")
        index, is_plural = row.verb_index - 1, row.verb_pos == "VBP"  # the file counts from 1
        right_form = (verb in singular) == is_plural and verb in other_form
        if right_form and words[index].lower() == verb:
            rows.append(
                {
                    "text": " ".join(_masked(words, index)),
                    "zc": int(is_plural),
                    "ze": _tagged_object_number(tags[:index], row.subj_index - 1),
                    "verb": verb,
                    "other_verb": other_form[verb],
                }
            )
    return rows


def _s_form(verb: str) -> str:
    return verb + "es" if verb.endswith("o") else plural(verb)


def _tagged_object_number(tags: list[str], subject: int) -> int:
    """`object_number` by Penn Treebank tags: IN or TO, then determiners, adjectives and nouns."""
    if not tags or not tags[-1].startswith("NN"):
        return -1
    inside = "DT PRP$ POS JJ JJR JJS CD VBN VBG NN NNS NNP NNPS".split()
    at = next((i for i in range(len(tags) - 1, -1, -1) if tags[i] not in inside), -1)
    found = at > subject and tags[at] in ("IN", "TO")
    return int(tags[-1] in ("NNS", "NNPS")) if found else -1


@cache
def _closed_classes() -> dict[str, frozenset[str]]:
    lists = word_table("prepositional_objects").items()
    classes = {name: frozenset(text.split()) for name, text in lists}
    names = ("outside noun phrases", "determiners", "prepositions")
    return classes | {"not nominal": frozenset.union(*(classes[name] for name in names))}


def object_number(words: list[str]) -> int:
    """Number of the prepositional object that the lower-case `words` end in: 0 Sg, 1 Pl, −1 none.

    The rule looks for preposition (determiner)? (adjective or noun)* noun in word lists; it uses no
    tagger. A noun is plural if it ends in s (not ss, us, is) or is a listed irregular. The rule
    gives −1 where it could be wrong: the phrase opens the sentence or follows a comma, "to" comes
    without a determiner, the phrase has a word of a closed class, an adverb in -ly, a number or
    more than four words before its noun, or the noun's number is unclear.
    """
    classes = _closed_classes()
    if len(words) < 3 or not _nominal(words[-1]):
        return -1
    noun = words[-1]
    if noun in classes["uncertain"] or noun.endswith("ics"):
        return -1
    regular = noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
    number = int(noun in classes["irregular plurals"] or regular)
    for i in range(len(words) - 2, max(len(words) - 7, 0), -1):
        determined = words[i] in classes["determiners"]
        at = i - 1 if determined else i
        if words[at] in classes["prepositions"]:
            safe = at > 0 and words[at - 1][-1].isalnum() and (words[at] != "to" or determined)
            return number if safe else -1
        if determined or not (_nominal(words[i]) or words[i] == "'s"):
            return -1
    return -1


def _nominal(word: str) -> bool:
    """Whether a word may be an adjective or a noun."""
    letters = word.replace("-", "").isalpha()
    closed = word in _closed_classes()["not nominal"]
    return len(word) > 1 and letters and not word.endswith("ly") and not closed


ROWS = {
    "linzen": _linzen,
    "lgd_masked": _lgd_masked,
    "natural": _natural_text,
    "syneval": _syneval,
    "lgd": _lgd,
    "prose": read_mined,
    "addresses": lambda: read_mined(ADDRESSES),
}
