"""Agreement sentences of others, read from their files; the rule for Z_e in natural text."""
from __future__ import annotations

import csv

import pandas as pd

from probebook.corpora.agreement import lexicon
from probebook.corpora.fetch import fetch


def _linzen() -> list[dict]:
    """The 4 lines whose verb index misses its verb are left out."""
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
    return [_natural(words, words.index("***mask***"), row["verb"], row["other_verb"]) for row, words in split_up]


def _both() -> list[dict]:
    """Each text once: the two collections overlap."""
    return list({row["text"]: row for row in _linzen() + _lgd_masked()}.values())


def _natural(words: list[str], index: int, verb: str, other: str) -> dict:
    return {"text": " ".join([*words[:index], "[MASK]", *words[index + 1:]]),
            "zc": int(verb != _third_person(verb, other)), "ze": object_number(words[:index]),
            "verb": verb, "other_verb": other}


def _third_person(a: str, b: str) -> str:
    """Of two forms of a verb, the one for a singular subject: it ends in s, and of pass and passes it is the longer.
    "" where neither ends in s."""
    return max("", a, b, key=lambda word: (word.endswith("s"), len(word) * word.endswith("s")))


def _syneval() -> list[dict]:
    """Every noun of the templates has a regular plural; a full stop is added, as the files' sentences have none."""
    with open(fetch("syneval_prepositional.tsv"), encoding="utf-8", newline="") as f:
        pairs = list(csv.DictReader(f, delimiter="\t"))
    rows = []
    for pair in pairs:
        words, wrong = pair["grammatical"].split(), pair["ungrammatical"].split()
        at = next(i for i, (a, b) in enumerate(zip(words, wrong)) if a != b)
        zc, ze = (int(pair[key] == "Pl") for key in ("subject_number", "attractor_number"))
        masked = [*words[:at], "[MASK]", *words[at + 1:], "."]

        def flipped(i: int, number: int) -> str:
            return " ".join([*masked[:i], masked[i].removesuffix("s") if number else masked[i] + "s", *masked[i + 1:]])

        rows.append({"text": " ".join(masked), "zc": zc, "ze": ze, "verb": words[at], "other_verb": wrong[at],
                     "subject": words[1].removesuffix("s") if zc else words[1],
                     "attractor": words[at - 1].removesuffix("s") if ze else words[at - 1],
                     "subject_flipped": flipped(1, zc), "attractor_flipped": flipped(at - 1, ze),
                     "animacy": pair["animacy"]})
    return rows


def _lgd() -> list[dict]:
    """The published table. A singular verb whose plural form occurs nowhere in it is left out (its form is unknown)."""
    table = pd.read_csv(fetch("agr_50_mostcommon_10K.tsv.gz"), sep="\t", keep_default_na=False,
                        usecols=["orig_sentence", "pos_sentence", "verb", "verb_pos", "subj_index", "verb_index"])
    verbs = table["verb"].str.lower()
    plurals = sorted(verb for verb in verbs[table["verb_pos"] == "VBP"].unique() if verb.isalpha() and verb != "am")
    singular = {verb: {"are": "is", "have": "has"}.get(verb) or _s_form(verb) for verb in plurals}
    other_form = singular | {sg: pl for pl, sg in singular.items()}
    rows = []
    for verb, row in zip(verbs, table.itertuples(index=False)):
        words, tags = row.orig_sentence.split(" "), row.pos_sentence.split(" ")
        index, plural = row.verb_index - 1, row.verb_pos == "VBP"         # the file counts from 1
        if (verb in singular) == plural and verb in other_form and words[index].lower() == verb:
            rows.append({"text": " ".join([*words[:index], "[MASK]", *words[index + 1:]]), "zc": int(plural),
                         "ze": _tagged_object_number(tags[:index], row.subj_index - 1),
                         "verb": verb, "other_verb": other_form[verb]})
    return rows


def _s_form(verb: str) -> str:
    return verb + "es" if verb.endswith("o") else lexicon.plural(verb)


def _tagged_object_number(tags: list[str], subject: int) -> int:
    """As `object_number`, by Penn Treebank tags: IN or TO, then determiners, adjectives and nouns up to the verb."""
    if not tags or not tags[-1].startswith("NN"):
        return -1
    inside = ("DT", "PRP$", "POS", "JJ", "JJR", "JJS", "CD", "VBN", "VBG", "NN", "NNS", "NNP", "NNPS")
    at = next((i for i in range(len(tags) - 1, -1, -1) if tags[i] not in inside), -1)
    return int(tags[-1] in ("NNS", "NNPS")) if at > subject and tags[at] in ("IN", "TO") else -1


_PREPOSITIONS = set("""of in on at by for with from near behind beside under over between among within about against
    into through across along around above below beyond inside outside toward towards upon to""".split())
_DETERMINERS = set("""the a an this that these those its his her their our my your each every some any no all many
    several both few various other another two three four five six seven eight nine ten""".split())
_NO_NOUN_PHRASE = set("""and or but nor as than if because while when where who whom whose which what why how that there
    here not it he she they we you i me him us them himself herself itself themselves one is are was were be been being
    am has have had do does did will would can could may might shall should must also often usually still now then
    always never sometimes already just even only both each all alone else ever once too therefore however thus hence
    today later instead together itself""".split())
_UNCERTAIN = set("""series species means news media data sheep fish deer aircraft headquarters police staff crew
    course first last least present times general particular addition fact example instance contrast turn part
    himself others more most much many some any none two three four five six seven eight nine ten""".split())
_IRREGULAR = set("men women children people feet teeth mice geese criteria phenomena bacteria".split())


def object_number(words: list[str]) -> int:
    """Number (0 Sg, 1 Pl, −1 none or uncertain) of the prepositional object that the lower-case `words` end in.

    The rule looks for preposition (determiner)? (adjective or noun)* noun by word lists, without a tagger. The noun is
    plural if it ends in s (not ss, us, is) or is a listed irregular. −1 where it could be wrong: the phrase opens the
    sentence or follows a comma, "to" without a determiner, a word of a closed class, an adverb in -ly, a number, more
    than four words between, a noun of unclear number.
    """
    if len(words) < 3 or not _nominal(words[-1]) or words[-1] in _UNCERTAIN or words[-1].endswith("ics"):
        return -1
    noun = words[-1]
    number = int(noun in _IRREGULAR or noun.endswith("s") and not noun.endswith(("ss", "us", "is")))
    for i in range(len(words) - 2, max(len(words) - 7, 0), -1):
        determined = words[i] in _DETERMINERS
        at = i - 1 if determined else i
        if words[at] in _PREPOSITIONS:
            safe = at > 0 and words[at - 1][-1].isalnum() and (words[at] != "to" or determined)
            return number if safe else -1
        if determined or not (_nominal(words[i]) or words[i] == "'s"):
            return -1
    return -1


def _nominal(word: str) -> bool:
    letters = word.replace("-", "")
    return (len(word) > 1 and letters.isalpha() and not word.endswith("ly")
            and word not in _NO_NOUN_PHRASE | _DETERMINERS | _PREPOSITIONS)


ROWS = {"linzen": _linzen, "lgd_masked": _lgd_masked, "natural": _both, "syneval": _syneval, "lgd": _lgd}
