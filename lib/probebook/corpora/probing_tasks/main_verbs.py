"""The main verb of an English sentence, and its two clauses, found by rule with closed word lists.

The rule is sure rather than complete: it gives None where it could be wrong. Its words stand in
`data/corpora/main_verbs.yaml`.
"""

from __future__ import annotations

import re

from probebook.corpora.words import word_table

WORD = re.compile(r"\w+(?:[-'’]\w+|[.,]\d+)*")


def main_verb(sentence: str) -> tuple[str, str, str] | None:
    """Form, lemma and tense ("past", "present") of the main verb, or None where the rule is not
    sure.

    It looks for [preposition …,] subject [adverbs] verb. The subject is a pronoun, or up to four
    words of which none is in a closed list or looks like a verb; the verb is one of `FORMS` that
    agrees with it. After a noun, a form that can also be a participle or a noun needs an object (an
    article, possessive or pronoun). Left out are be, have, do, modals and verbs whose past and
    present look alike, questions and quotations.
    """
    if re.search(r"[\"“”‘?]", sentence):
        return None
    clause = _Clause(sentence)
    verb = clause.verb(clause.start())
    return None if verb is None or verb in _AUXILIARIES else (verb, FORMS[verb][0], FORMS[verb][1])


def inverted(sentence: str) -> tuple[str, int] | None:
    """The sentence with its two clauses exchanged, and the sign of their difference in words.

    None if the rule does not find two clauses: they are joined by one and, but or or; both have at
    least three words and start with a subject (an article or the like and a noun, or a pronoun;
    without a comma only I, he, she, we or they) and its verb, which may be an auxiliary.
    """
    clause = _Clause(sentence)
    links = [i for i, word in enumerate(clause.lower) if word in ("and", "but", "or")]
    if len(links) != 1 or re.search(r"[\"“”‘?;:()]", sentence):
        return None
    at, spans = links[0], clause.spans
    left, right = at, len(spans) - at - 1
    if left < 3 or right < 3:
        return None
    gap = sentence[spans[at - 1][1] : spans[at][0]]
    if gap not in (" ", ", ", " , "):
        return None
    starts = _STARTS - {"that"} if "," in gap else _NOMINATIVE
    known = clause.lower[0] in _STARTS and clause.lower[at + 1] in starts
    if not (known and clause.joined[at] and clause.verb(0, at) and clause.verb(at + 1)):
        return None
    first, link = sentence[: spans[at - 1][1]], sentence[spans[at - 1][1] : spans[at + 1][0]]
    second, end = sentence[spans[at + 1][0] : spans[-1][1]], sentence[spans[-1][1] :]
    first = first if clause.lower[0].split("'")[0] == "i" else first[0].lower() + first[1:]
    return second[0].upper() + second[1:] + link + first + end, (left > right) - (left < right)


class _Clause:
    """The words of a sentence.

    spans: (start, end) of each word; words, lower: as written, and in lower case; gaps: what stands
    between a word and the next, without blanks; joined: whether only blanks do
    """

    def __init__(self, text: str) -> None:
        self.spans = [match.span() for match in WORD.finditer(text)]
        self.words = [text[a:b] for a, b in self.spans]
        self.lower = [word.lower().replace("’", "'") for word in self.words]
        self.gaps = [text[a[1] : b[0]].strip() for a, b in zip(self.spans, self.spans[1:])]
        self.joined = [gap == "" for gap in self.gaps] + [False]

    def start(self) -> int:
        """Number of the word at which the subject starts: 0, or after an opening ("In winter,
        …")."""
        if self.lower and self.lower[0] in _OPENERS and "," in self.gaps[:8]:
            comma = self.gaps.index(",")
            if _VERBAL.isdisjoint(self.lower[: comma + 1]):
                return comma + 1
        return 0

    def verb(self, i: int, end: int | None = None) -> str | None:
        """The finite verb of the clause whose subject starts at word `i` (before word `end`), if it
        is sure."""
        end = len(self.lower) if end is None else end
        subject = self._subject(i, end)
        if subject is None:
            return None
        j, noun, plural = subject
        while j < end and _is_adverb(self.lower[j]):
            j += 1
        if j >= end or not all(self.joined[i:j]):
            return None
        word = self.lower[j]
        if word in _AUXILIARIES:
            return word
        lemma, tense, kind = FORMS.get(word, ("", "", ""))
        agrees = tense != "present" or plural == (kind == "base")
        if not lemma or not self.words[j].islower() or not agrees:
            return None
        if noun and word in _UNSURE and not self._has_object(j, end, lemma, tense):
            return None
        return word

    def _subject(self, i: int, end: int) -> tuple[int, bool, bool] | None:
        """The word after the subject that starts at word `i`, whether it has a noun, and whether it
        is plural."""
        words = self.lower
        if i < end and words[i] in _PRONOUNS:
            return i + 1, False, words[i] in _PLURAL
        j = i
        while j < end and words[j] in _DETERMINERS:
            j += 1
        first = j
        if j == i and (j >= end or not self.words[j][0].isupper()):
            return None
        while j < end and j < first + 4:
            determined = j == first > i and words[j] in _ALSO_NOUNS
            if not (_is_nominal(words[j]) or determined):
                break
            j += 1
        if j == first:
            return None
        last = words[j - 1]
        return j, True, last in _PLURALS or last.endswith("s") and last[-2:] != "ss"

    def _has_object(self, j: int, end: int, lemma: str, tense: str) -> bool:
        """Whether word `j`, which could be a participle or a noun, is a verb with an object."""
        words = self.lower
        has_object = j + 1 < end and self.joined[j] and words[j + 1] in _NAMED
        passive = lemma in _RETAINED or _DATES & set(words[j + 1 : j + 4])
        return has_object and not (tense == "past" and passive)


def _is_nominal(word: str) -> bool:
    """Whether a word may be part of a noun phrase: it is in no closed list and looks like no verb
    or adverb."""
    own = word.removesuffix("'s")
    closed = word in _CLOSED or own in _OWNERS or "'" in own
    return not (closed or word in FORMS or word.endswith("ed") or _is_adverb(word))


def _is_adverb(word: str) -> bool:
    return word in _ADVERBS or word.endswith("ly") and word not in _NOT_ADVERBS


_TABLE = word_table("main_verbs")


def _set(name: str) -> frozenset[str]:
    return frozenset(_TABLE[name].split())


_SINGULAR, _PLURAL = _set("singular pronouns"), _set("plural pronouns")
_NOMINATIVE = _set("nominative pronouns")
_OBJECTS = _set("objects")
_DETERMINERS = _set("determiners")
_ADVERBS, _NOT_ADVERBS = _set("adverbs"), _set("no adverbs")
_OPENERS = _set("openers")
_AUXILIARIES = _set("auxiliaries")
_FUNCTION = _OPENERS | _OBJECTS | _set("function words")
_PRONOUNS = _SINGULAR | _PLURAL
_NAMED = _DETERMINERS | _OBJECTS  # begin the object of a verb
_OWNERS = _SINGULAR | _FUNCTION
_STARTS = _PRONOUNS | _DETERMINERS
_CLOSED = _FUNCTION | _AUXILIARIES | _STARTS
_PLURALS = _set("plurals")
_RETAINED = _set("verbs with two objects")
_DATES = _set("dates")


def _verbs() -> list[tuple[str, str, str, str]]:
    """Base, marks, past and participle ("" if it is the past) of every verb."""
    irregular = " ".join(_TABLE["irregular verbs"].split())
    verbs = re.findall(r"(\w+)([~-]*) (\w+)(?: (\w+))?(?:;|$)", irregular)
    for base, marks in re.findall(r"(\w+)([*~-]*)", _TABLE["regular verbs"]):
        stem = base + base[-1] if "*" in marks else re.sub("([^aeiou])y$", r"\1i", base)
        verbs.append((base, marks, stem + ("d" if base.endswith("e") else "ed"), ""))
    return verbs


def _forms() -> tuple[dict[str, tuple[str, str, str]], set[str], set[str]]:
    """form → lemma, tense, kind; forms of the present that may be nouns; forms that need an object
    behind a noun."""
    forms: dict[str, tuple[str, str, str]] = {}
    nouns: set[str] = set()
    unsure = set(_set("past forms like nouns"))
    for base, marks, past, participle in _verbs():
        ending = "es" if re.search("(s|sh|ch|x|z|[^e]o)$", base) else "s"
        third = re.sub("([^aeiou])y$", r"\1ie", base) + ending
        forms |= {
            base: (base, "present", "base"),
            third: (base, "present", "third"),
            past: (base, "past", "past"),
        }
        nouns |= {base, third} if "~" in marks else set()
        unsure |= {past} if participle in ("", past) and "-" not in marks else set()
    return forms, nouns, unsure | nouns


FORMS, _ALSO_NOUNS, _UNSURE = _forms()  # "found" is of find, "saw" of see
_VERBAL = _AUXILIARIES | _NOMINATIVE | FORMS.keys()  # in an opening they would be a clause's
