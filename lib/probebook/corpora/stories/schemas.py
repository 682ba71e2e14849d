"""Schemas of events and states, and the words that fill them, from `data/corpora/stories.yaml`.

A template has roles in braces; in a yes/no question {x} is the value asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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

    roles: role → type of its words; opposites are a type of their own key: roles that pick out one
    event or one bearer of a state; for a key each other role has one value wh, yes_no: role asked
    about → questions descriptions: role → "the thing that {who} bought" implications: (another
    schema, its role → the role here) of what follows from a fact complement: role whose two values
    exclude each other and leave no third pair: a comparison, in which {who} and {whom} cannot
    change places
    """

    roles: dict[str, str]
    key: tuple[str, ...]
    forms: tuple[Form, ...]
    wh: dict[str, tuple[str, ...]]
    yes_no: dict[str, tuple[str, ...]]
    descriptions: dict[str, str] = field(default_factory=dict)
    implications: tuple[tuple[str, dict[str, str]], ...] = ()
    complement: str = ""
    pair: bool = False

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


_COLOURED = (("colour", {"what": "what", "colour": "colour"}),)


def _event(
    verb: str, what: str, refusal: str = "", where: str = "in the {where}", whom: str = ""
) -> Schema:
    """Somebody does something to a thing, once: it has one doer, one place and one time.

    `verb`: base, past and participle; `what`: type of the thing; `refusal`: what stands before "to
    buy" if it did not happen; `where`, `whom`: phrases with the role in braces.
    """
    base, past, part = verb.split()
    roles = {"what": what, "who": "person"} | ({"whom": "person"} if whom else {})
    roles |= ({"where": "place"} if where else {}) | {"when": "when"}
    to = f" {whom}" if whom else ""
    active, passive = f"{{who}} {past} the {{what}}{to}", f"the {{what}} was {part}{to} by {{who}}"
    statements = [active, passive]
    wh: dict[str, tuple[str, ...]] = {}
    yes_no: dict[str, tuple[str, ...]] = {}
    if what == "thing":
        roles |= {"colour": "colour"}
        coloured = f"{{who}} {past} a {{colour}} {{what}}{to}"
        statements += (
            [f"{coloured} {where}", f"one {{when}} {coloured}"]
            if where
            else [f"in the {{when}} {coloured}"]
        )
    if where:
        statements += [
            f"{active} {where}",
            f"{passive} {where}",
            f"it was {{who}} who {past} the {{what}}{to} {where}",
        ]
        at = where.replace("{where}", "{x}")
        wh["where"] = (f"Where did {{who}} {base} the {{what}}?", f"Where was the {{what}} {part}?")
        yes_no["where"] = (
            f"Did {{who}} {base} the {{what}} {at}?",
            f"Was the {{what}} {part} {at}?",
        )
    statements += [
        f"in the {{when}} {active}",
        f"in the {{when}} {passive}",
        f"{active} in the {{when}}",
    ]
    wh["when"] = (f"When did {{who}} {base} the {{what}}?", f"When was the {{what}} {part}?")
    yes_no["when"] = (
        f"Did {{who}} {base} the {{what}} in the {{x}}?",
        f"Was the {{what}} {part} in the {{x}}?",
    )
    if where:
        statements += [
            f"in the {{when}} {active} {where}",
            f"one {{when}} {active} {where}",
            f"one {{when}} {passive} {where}",
            f"{active} {where} in the {{when}}",
        ]
    wh["who"] = (f"Who {past} the {{what}}{to}?", f"By whom was the {{what}} {part}{to}?")
    wh["what"] = (f"What did {{who}} {base}{to}?",)
    yes_no["who"] = (
        f"Did {{x}} {base} the {{what}}{to}?",
        f"Was the {{what}} {part}{to} by {{x}}?",
    )
    if whom:
        preposition = whom.split()[0]
        wh["whom"] = (f"{preposition.capitalize()} whom did {{who}} {base} the {{what}}?",)
        yes_no["whom"] = (f"Did {{who}} {base} the {{what}} {preposition} {{x}}?",)
    denials = [
        f"{{who}} did not {base} the {{what}}{to}",
        f"the {{what}} was not {part}{to} by {{who}}",
        f"it was not true that {active}",
    ]
    refusals = [f"{{who}} {refusal} to {base} the {{what}}{to}"] if refusal else []
    noun = what if what in ("animal", "building") else "thing"
    descriptions = {
        "what": f"the {noun} that {{who}} {past}{to}",
        "who": f"the person who {past} the {{what}}{to}",
    }
    return Schema(
        roles,
        ("what",),
        _forms(statements, denials, refusals),
        wh,
        yes_no,
        descriptions,
        _COLOURED if what == "thing" else (),
    )


def _state_forms(statements: list[str], denial: str) -> tuple[Form, ...]:
    """The first statement also follows "everybody knew that" and the like."""
    first = statements[0]
    reported = [
        f"everybody in those days knew that {first}",
        f"it was quite clear to all of them that {first}",
        f"as everybody could see at once, {first}",
    ]
    denials = [
        denial,
        f"everybody in those days knew that {denial}",
        f"it was not true that {first}",
    ]
    return _forms([*statements, *reported], denials)


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
