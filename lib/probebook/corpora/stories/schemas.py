"""Schemas of events and states, and the words that fill them, from `data/corpora/stories.yaml`.

A template has roles in braces; in a yes/no question {x} is the value asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from probebook.corpora.words import phrases, word_table


@dataclass(frozen=True)
class Form:
    """One way to state a fact (holds) or to deny it.

    `lexical`: the denial uses another verb ("refused to"), not "not". `parts`: literal, role,
    literal, and so on.
    """

    text: str
    holds: bool
    lexical: bool
    parts: tuple[str, ...]
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Schema:
    """One kind of fact: who and what take part, how it is stated, denied and asked for.

    `key`: roles that pick out one event or one bearer of a state; for a key each other role has one
    value. `implications`: (another schema, its role → the role here) of what follows from a fact.
    """

    roles: dict[str, str]  # role → type of its words; opposites are a type of their own
    key: tuple[str, ...]
    forms: tuple[Form, ...]
    wh: dict[str, tuple[str, ...]]  # role asked about → questions
    yes_no: dict[str, tuple[str, ...]]  # role asked about → questions
    descriptions: dict[str, str] = field(default_factory=dict)  # role → "the thing … {who} bought"
    implications: tuple[tuple[str, dict[str, str]], ...] = ()
    complement: str = ""  # role whose two values exclude each other and leave no third
    pair: bool = False  # a comparison, in which {who} and {whom} cannot change places

    @cached_property
    def statements(self) -> list[int]:
        """Numbers of the forms that state the fact."""
        return [i for i, form in enumerate(self.forms) if form.holds]

    @cached_property
    def implied_schemas(self) -> frozenset[str]:
        """Names of the schemas of what follows from a fact."""
        return frozenset(name for name, _ in self.implications)


@cache
def words() -> dict[str, list[str]]:
    """Type → its words."""
    table = word_table("stories")
    lists = {kind: text.split() for kind, text in table["words"].items()}
    women, men = lists.pop("woman"), lists.pop("man")
    opposites = {row["pair"]: row["pair"].split("/") for row in table["opposites"]}
    return {"person": women + men} | lists | opposites


@cache
def pronouns() -> dict[str, tuple[str, str]]:
    """Name → subject and object pronoun."""
    names = word_table("stories")["words"]
    women = dict.fromkeys(names["woman"].split(), ("she", "her"))
    return women | dict.fromkeys(names["man"].split(), ("he", "him"))


@cache
def articles() -> dict[str, str]:
    """Type whose words make a noun phrase → what stands before the word: "" or "the "."""
    kinds = word_table("stories")["noun phrases"]
    return dict.fromkeys(kinds["bare"].split(), "") | dict.fromkeys(kinds["the"].split(), "the ")


@cache
def all_schemas() -> dict[str, Schema]:
    """Name → schema: events by their verb, opposites ("happy/sad"), other states."""
    table = word_table("stories")
    events = {row["verb"].split()[0]: _event(**row) for row in table["events"]}
    opposites = {row["pair"]: _opposites(**row) for row in table["opposites"]}
    return events | opposites | {name: _state(**row) for name, row in table["states"].items()}


def _form(text: str, holds: bool = True, lexical: bool = False) -> Form:
    text = f"{text[0].upper()}{text[1:]}."
    parts = tuple(re.split(r"\{(\w+)\}", text))
    return Form(text, holds, lexical, parts, parts[1::2])


def _forms(
    statements: Iterable[str], denials: Iterable[str], refusals: Iterable[str] = ()
) -> tuple[Form, ...]:
    return (
        *map(_form, statements),
        *(_form(text, False) for text in denials),
        *(_form(text, False, True) for text in refusals),
    )


_GAP = re.compile("<(.+?)>")
_COLOURED = (("colour", {"what": "what", "colour": "colour"}),)


def _event(
    verb: str, what: str, refusal: str = "", where: str = "in the {where}", whom: str = ""
) -> Schema:
    """Somebody does something to a thing, once: it has one doer, one place and one time.

    `verb`: base, past and participle; `what`: type of the thing; `refusal`: what stands before "to
    buy" if it did not happen; `where`, `whom`: phrases with the role in braces.
    """
    base, past, part = verb.split()
    preposition = whom.split(" ")[0]
    words = {
        "base": base,
        "past": past,
        "part": part,
        "to": f" {whom}" if whom else "",
        "refusal": refusal or None,
        "where": where or None,
        "asked where": where.replace("{where}", "{x}"),
        "one": "one" if where else "in the",
        "preposition": preposition,
        "Preposition": preposition.capitalize(),
        "noun": what if what in ("animal", "building") else "thing",
    }
    roles = {"what": what, "who": "person"} | ({"whom": "person"} if whom else {})
    roles |= ({"where": "place"} if where else {}) | {"when": "when"}
    roles |= {"colour": "colour"} if what == "thing" else {}
    texts = word_table("stories")["event"]
    wh, yes_no, descriptions = (
        {role: tuple(_told(text, words, roles)) for role, text in texts[name].items()}
        for name in ("wh", "yes/no", "descriptions")
    )
    return Schema(
        roles,
        ("what",),
        _forms(*(_told(texts[kind], words, roles) for kind in ("stated", "denied", "refused"))),
        {role: asked for role, asked in wh.items() if role in roles},
        {role: asked for role, asked in yes_no.items() if role in roles},
        {role: text for role, (text,) in descriptions.items()},
        _COLOURED if what == "thing" else (),
    )


def _told(text: str, words: Mapping[str, str | None], roles: Iterable[str] = ()) -> list[str]:
    """The templates of an entry with words for what stands in <angle brackets>.

    Those are left out for which there is None, or which have a role that is not among `roles`."""
    told = []
    for template in phrases(text):
        parts = [words[part] if i % 2 else part for i, part in enumerate(_GAP.split(template))]
        if None not in parts:
            told.append("".join(map(str, parts)))
    known = {*roles, "x"}
    return [one for one in told if not roles or known.issuperset(re.findall(r"{(\w+)}", one))]


def _state_forms(statements: list[str], denial: str) -> tuple[Form, ...]:
    """The first statement also follows "everybody knew that" and the like."""
    texts, words = word_table("stories")["state"], {"first": statements[0], "denial": denial}
    return _forms([*statements, *_told(texts["stated"], words)], _told(texts["denied"], words))


def _opposites(pair: str, bearer: str, complementary: bool = False) -> Schema:
    """Two states of which a bearer has at most one; exactly one if they are complementary."""
    subject, role = ("{who}", "who") if bearer == "person" else ("the {what}", "what")
    statements = [f"{subject} was {{state}}", f"{subject} was quite {{state}}"]
    return Schema(
        {role: bearer, "state": pair},
        (role,),
        _state_forms(statements, f"{subject} was not {{state}}"),
        {},
        {"state": (f"Was {subject} {{x}}?",)},
        complement="state" if complementary else "",
    )


def _state(
    roles: dict[str, str],
    statements: str,
    denial: str,
    questions: dict[str, str],
    yes_no: dict[str, str] | None = None,
    key: str = "",
    descriptions: dict[str, str] | None = None,
    implied: list[tuple[str, dict[str, str]]] | None = None,
    comparison: bool = False,
) -> Schema:
    """A state as the file has it."""
    wh, closed = (
        {role: tuple(phrases(text)) for role, text in (texts or {}).items()}
        for texts in (questions, yes_no)
    )
    return Schema(
        roles,
        tuple(key.split()) or (next(iter(roles)),),
        _state_forms(phrases(statements), denial),
        wh,
        closed,
        descriptions or {},
        tuple((name, own) for name, own in implied or []),
        pair=comparison,
    )
