"""What can happen in a story and how it is told and asked: schemas of events and states, and the words that fill them.

A template has roles in braces; in a question {x} is the value asked about. A schema's `key` names the roles that pick
out one event or one bearer of a state: for it each other role has one value. Words of a list are drawn alike for all.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

WOMEN = """Mary Alice Emma Ellen Jane Kate Lucy Helen Martha Amy Fanny Rachel Clara Susan Margaret Elizabeth Sarah Laura
    Julia Maria Charlotte Agnes Dora Edith Ursula Sylvia Amelia Harriet Louisa Polly Betty""".split()
MEN = """John Tom Peter Henry George James William Robert Arthur Edward Philip Richard Ralph Harry Jack Joseph David
    Charles Thomas Stephen Martin Oliver Walter Hugh Roger Paul Alfred Arnold Vincent Ned Bob""".split()
VALUES = {                                                              # type → its words
    "person": WOMEN + MEN,
    "thing": """hat coat box book ring clock lamp basket bottle chair table picture sword knife watch purse cup plate
        pipe key gun rope candle bag stick cloak bell drum flag pen map pistol trunk mirror carpet dress bonnet shirt
        brush ball doll coin diamond desk cart pillow curtain net crown whip""".split(),
    "animal": "dog cat horse bird cow sheep fox pig rat wolf bear lion duck hen pony bull raven".split(),
    "garment": "hat coat cloak dress bonnet shirt".split(),
    "fixture": "door gate window wall chair table cart desk box trunk boat".split(),
    "opening": "door gate window shop box trunk".split(),
    "building": "house barn bridge mill cottage tower church school stable chapel".split(),
    "work": "letter poem song story book play".split(),
    "food": "bread meat cake pie fruit ham butter honey apple pear".split(),
    "drink": "milk wine tea coffee beer water brandy".split(),
    "plural": """horses sheep birds books chairs dogs children trees boats soldiers boxes candles letters flowers roses
        cats pictures sailors boys girls lamps servants bells beds tables priests""".split(),
    "place": """garden kitchen church market village forest shop street house barn stable library castle tower hall park
        field yard school station mill cottage inn palace prison hospital theatre hotel office valley cave tent camp
        chapel farm square""".split(),
    "town": "London Paris Rome York Oxford Boston Florence India Egypt Spain Italy France Germany Africa".split(),
    "month": "March April June July August September October November".split(),
    "when": "morning evening afternoon night spring summer autumn winter".split(),
    "colour": "red blue green white black brown grey yellow purple pink".split(),
    "material": "wood gold silver iron stone leather paper brass copper steel clay marble bone velvet".split(),
    "number": "two three four five six seven eight nine ten eleven twelve twenty".split(),
    "job": "doctor lawyer teacher soldier sailor farmer nurse clerk painter cook servant poet merchant judge".split(),
    "skill": "music drawing dancing history poetry science law religion painting singing".split(),
}

NOUNS = dict.fromkeys(["person", "town", "month", "skill", "material", "plural"], "") | dict.fromkeys(
    ["thing", "animal", "garment", "fixture", "opening", "building", "work", "food", "drink", "place", "when"], "the ")


@dataclass(frozen=True)
class Form:
    """A way to tell a fact (holds), or to deny it: by "not", or by another verb ("refused to", lexical)."""
    text: str
    holds: bool = True
    lexical: bool = False
    parts: tuple[str, ...] = ()                 # literal, role, literal, …
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """One kind of fact: who and what take part, how it is told and denied, how it is asked for, and what it implies."""
    roles: dict[str, str]                       # role → type; opposites are a type of their own
    key: tuple[str, ...]
    forms: tuple[Form, ...]
    wh: dict[str, tuple[str, ...]]              # role asked about → questions
    yes_no: dict[str, tuple[str, ...]]
    described: dict[str, str] = field(default_factory=dict)             # role → "the thing that {who} bought"
    implied: tuple[tuple[str, dict[str, str]], ...] = ()                # schema, its role → the role here
    complement: str = ""                        # role whose two values exclude each other and leave no third
    pair: bool = False                          # "older than": {who} and {whom} cannot change places


SCHEMAS: dict[str, Schema] = {}


def _form(text: str, holds: bool = True, lexical: bool = False) -> Form:
    text = f"{text[0].upper()}{text[1:]}."
    parts = tuple(re.split(r"\{(\w+)\}", text))
    return Form(text, holds, lexical, parts, parts[1::2])


def _schema(name: str, roles: dict[str, str], says: list[str], denies: list[str], wh: dict, yes_no: dict,
            lexical: tuple[str, ...] = (), key: tuple[str, ...] = (), **rest) -> None:
    forms = [*map(_form, says), *(_form(text, False) for text in denies),
             *(_form(text, False, True) for text in lexical)]
    wh, yes_no = ({role: tuple(t.split(" | ")) for role, t in d.items()} for d in (wh, yes_no))
    SCHEMAS[name] = Schema(roles, key or (next(iter(roles)),), tuple(forms), wh, yes_no, **rest)


def _event(verb: str, kind: str, refused: str, where: str = "in the {where}", whom: str = "") -> None:
    """Somebody does something to a thing, once: it has one doer, one place and one time.

    `verb`: base, past and participle. `refused`: what goes before "to buy" when it did not happen."""
    base, past, part = verb.split()
    roles = {"what": kind, "who": "person"} | ({"whom": "person"} if whom else {})
    roles |= ({"where": "place"} if where else {}) | {"when": "when"}
    to = f" {whom}" if whom else ""
    active, passive = f"{{who}} {past} the {{what}}{to}", f"the {{what}} was {part}{to} by {{who}}"
    says, wh, yes_no = [active, passive], {}, {}
    if kind == "thing":
        roles |= {"colour": "colour"}
        shown = f"{{who}} {past} a {{colour}} {{what}}{to}"
        says += [f"{shown} {where}", f"one {{when}} {shown}"] if where else [f"in the {{when}} {shown}"]
    if where:
        says += [f"{active} {where}", f"{passive} {where}", f"it was {{who}} who {past} the {{what}}{to} {where}"]
        wh["where"] = f"Where did {{who}} {base} the {{what}}? | Where was the {{what}} {part}?"
        at = where.replace("{where}", "{x}")
        yes_no["where"] = f"Did {{who}} {base} the {{what}} {at}? | Was the {{what}} {part} {at}?"
    says += [f"in the {{when}} {active}", f"in the {{when}} {passive}", f"{active} in the {{when}}"]
    wh["when"] = f"When did {{who}} {base} the {{what}}? | When was the {{what}} {part}?"
    yes_no["when"] = f"Did {{who}} {base} the {{what}} in the {{x}}? | Was the {{what}} {part} in the {{x}}?"
    if where:
        says += [f"in the {{when}} {active} {where}", f"one {{when}} {active} {where}",
                 f"one {{when}} {passive} {where}", f"{active} {where} in the {{when}}"]
    wh["who"] = f"Who {past} the {{what}}{to}? | By whom was the {{what}} {part}{to}?"
    wh["what"] = f"What did {{who}} {base}{to}?"
    yes_no["who"] = f"Did {{x}} {base} the {{what}}{to}? | Was the {{what}} {part}{to} by {{x}}?"
    if whom:
        preposition = whom.split()[0]
        wh["whom"] = f"{preposition.capitalize()} whom did {{who}} {base} the {{what}}?"
        yes_no["whom"] = f"Did {{who}} {base} the {{what}} {preposition} {{x}}?"
    noun = kind if kind in ("animal", "building") else "thing"
    denies = [f"{{who}} did not {base} the {{what}}{to}", f"the {{what}} was not {part}{to} by {{who}}",
              f"it was not true that {active}"]
    lexical = (f"{{who}} {refused} to {base} the {{what}}{to}",) if refused else ()
    _schema(base, roles, says, denies, wh, yes_no, lexical, described={
        "what": f"the {noun} that {{who}} {past}{to}", "who": f"the person who {past} the {{what}}{to}"},
        implied=(("colour", {"what": "what", "colour": "colour"}),) if kind == "thing" else ())


def _state(name: str, roles: dict[str, str], says: list[str], denied: str, wh: dict, yes_no: dict, **rest) -> None:
    """The first way to say it also goes behind "everybody knew that" and the like."""
    told = [*says, f"everybody in those days knew that {says[0]}", f"it was quite clear to all of them that {says[0]}",
            f"as everybody could see at once, {says[0]}"]
    denies = [denied, f"everybody in those days knew that {denied}", f"it was not true that {says[0]}"]
    _schema(name, roles, told, denies, wh, yes_no, **rest)


def _opposites(one: str, other: str, kind: str, complement: bool = False) -> None:
    """Two states of which a bearer has one: not the other, and if `complement` surely one of them."""
    name, subject, role = f"{one}/{other}", *(("{who}", "who") if kind == "person" else ("the {what}", "what"))
    VALUES[name] = [one, other]
    _state(name, {role: kind, "state": name}, [f"{subject} was {{state}}", f"{subject} was quite {{state}}"],
           f"{subject} was not {{state}}", {}, {"state": f"Was {subject} {{x}}?"},
           complement="state" if complement else "")


for _verb, _kind, _refused in [
        ("buy bought bought", "thing", "refused"), ("find found found", "thing", "failed"),
        ("lose lost lost", "thing", ""), ("hide hid hidden", "thing", "refused"),
        ("break broke broken", "thing", "refused"),
        ("steal stole stolen", "thing", "refused"), ("burn burned burned", "thing", "refused"),
        ("drop dropped dropped", "thing", ""), ("leave left left", "thing", "refused"),
        ("eat ate eaten", "food", "refused"), ("drink drank drunk", "drink", "refused"),
        ("catch caught caught", "animal", "failed"), ("kill killed killed", "animal", "refused"),
        ("write wrote written", "work", "refused")]:
    _event(_verb, _kind, _refused)
_event("carry carried carried", "thing", "refused", where="to the {where}")
_event("throw threw thrown", "thing", "refused", where="into the {where}")
_event("give gave given", "thing", "refused", whom="to {whom}")
_event("send sent sent", "thing", "forgot", where="", whom="to {whom}")
_event("lend lent lent", "thing", "refused", where="", whom="to {whom}")
_event("build built built", "building", "refused", where="")

for _one, _other in ["happy sad".split(), "rich poor".split(), "kind cruel".split(), "strong weak".split(),
                     "wise foolish".split()]:
    _opposites(_one, _other, "person")
_opposites("awake", "asleep", "person", True)
_opposites("guilty", "innocent", "person", True)
_opposites("absent", "present", "person", True)
for _one, _other in ["full empty".split(), "new old".split(), "clean dirty".split(), "wet dry".split(),
                     "heavy light".split()]:
    _opposites(_one, _other, "thing")
_opposites("fierce", "gentle", "animal")
_opposites("warm", "cold", "place")
_opposites("open", "shut", "opening", True)

_state("colour", {"what": "thing", "colour": "colour"},
       ["the {what} was {colour}", "the colour of the {what} was {colour}"],
       "the {what} was not {colour}",
       {"colour": "What colour was the {what}? | What was the colour of the {what}?"},
       {"colour": "Was the {what} {x}?"})
_state("wear", {"who": "person", "what": "garment", "colour": "colour"},
       ["{who} wore a {colour} {what}", "{who} went about in a {colour} {what}"],
       "{who} did not wear a {colour} {what}",
       {"what": "What did {who} wear?"}, {},
       implied=(("colour", {"what": "what", "colour": "colour"}),))
_state("lie", {"what": "thing", "colour": "colour", "other": "thing", "other_colour": "colour"},
       ["a {colour} {what} lay on a {other_colour} {other}", "on a {other_colour} {other} there was a {colour} {what}"],
       "there was no {colour} {what} on a {other_colour} {other}",
       {"what": "What lay on the {other}? | What was on the {other}?"}, {},
       implied=(("colour", {"what": "what", "colour": "colour"}),
                ("colour", {"what": "other", "colour": "other_colour"})))
_state("paint", {"what": "fixture", "who": "person", "colour": "colour"},
       ["{who} painted the {what} {colour}", "the {what} was painted {colour} by {who}"],
       "{who} did not paint the {what} {colour}",
       {"who": "Who painted the {what}? | By whom was the {what} painted?", "what": "What did {who} paint?"},
       {"who": "Did {x} paint the {what}? | Was the {what} painted by {x}?"},
       implied=(("colour", {"what": "what", "colour": "colour"}),))
_state("material", {"what": "thing", "material": "material"},
       ["the {what} was made of {material}", "they had made the {what} of {material}"],
       "the {what} was not made of {material}",
       {"material": "What was the {what} made of? | Of what was the {what} made?"},
       {"material": "Was the {what} made of {x}?"})
_state("cost", {"what": "thing", "number": "number"},
       ["the {what} cost {number} shillings", "the price of the {what} was {number} shillings"],
       "the {what} did not cost {number} shillings",
       {"number": "How many shillings did the {what} cost? | How much did the {what} cost?"},
       {"number": "Did the {what} cost {x} shillings?"})
_state("count", {"what": "plural", "where": "place", "number": "number"},
       ["there were {number} {what} in the {where}", "in the {where} they counted {number} {what}"],
       "there were not {number} {what} in the {where}",
       {"number": "How many {what} were in the {where}? | How many {what} were there in the {where}?"},
       {"number": "Were there {x} {what} in the {where}?"}, key=("what", "where"))
for _who in ("sons", "daughters", "brothers", "sisters"):
    _state(_who, {"who": "person", "number": "number"},
           [f"{{who}} had {{number}} {_who}", f"the {_who} of {{who}} were {{number}}"],
           f"{{who}} did not have {{number}} {_who}",
           {"number": f"How many {_who} did {{who}} have?"},
           {"number": f"Did {{who}} have {{x}} {_who}?"})
_state("job", {"who": "person", "job": "job"},
       ["{who} was a {job}", "{who} worked as a {job}"],
       "{who} was not a {job}",
       {"job": "What did {who} do for a living? | In what profession was {who}?"},
       {"job": "Was {who} a {x}?"})
_state("live", {"who": "person", "town": "town"},
       ["{who} lived in {town}", "{who} had a house in {town}"],
       "{who} did not live in {town}",
       {"town": "Where did {who} live? | In what place did {who} live?"},
       {"town": "Did {who} live in {x}?"})
_state("born", {"who": "person", "town": "town", "month": "month"},
       ["{who} was born in {town} in {month}", "it was in {month} that {who} was born in {town}"],
       "{who} was not born in {town}",
       {"town": "Where was {who} born?", "month": "When was {who} born?"},
       {"town": "Was {who} born in {x}?", "month": "Was {who} born in {x}?"})
_state("go", {"who": "person", "town": "town", "month": "month"},
       ["{who} went to {town} in {month}", "in {month} {who} set out for {town} and went there"],
       "{who} did not go to {town}",
       {"town": "Where did {who} go?", "month": "When did {who} go to {town}?"},
       {"town": "Did {who} go to {x}?", "month": "Did {who} go to {town} in {x}?"})
_state("learn", {"who": "person", "skill": "skill"},
       ["{who} loved {skill} best", "{who} liked nothing so well as {skill}"],
       "{who} did not love {skill} best",
       {"skill": "What did {who} love best?"},
       {"skill": "Did {who} love {x} best?"})
_state("like", {"who": "person", "food": "food"},
       ["the food that {who} liked best was {food}", "for {who} the best food was {food}"],
       "the food that {who} liked best was not {food}",
       {"food": "What food did {who} like best?"},
       {"food": "Was {x} the food that {who} liked best?"})
_state("fear", {"who": "person", "what": "animal"},
       ["{who} feared the {what} most", "the {what} was what {who} feared most"],
       "{who} did not fear the {what} most",
       {"what": "Which animal did {who} fear most?"},
       {"what": "Did {who} fear the {x} most?"})
_state("own", {"what": "animal", "who": "person"},
       ["the {what} belonged to {who}", "{who} was the owner of the {what}"],
       "the {what} did not belong to {who}",
       {"who": "Who owned the {what}? | To whom did the {what} belong?"},
       {"who": "Did {x} own the {what}? | Did the {what} belong to {x}?"},
       described={"what": "the animal that {who} owned", "who": "the person who owned the {what}"})
_state("wait", {"who": "person", "number": "number", "whom": "person"},
       ["{who} waited {number} hours for {whom}", "for {number} hours {who} waited for {whom}"],
       "{who} did not wait {number} hours",
       {"number": "How many hours did {who} wait?", "whom": "For whom did {who} wait?"},
       {"number": "Did {who} wait {x} hours?", "whom": "Did {who} wait for {x}?"})
_state("walk", {"who": "person", "number": "number", "where": "place"},
       ["{who} walked {number} miles to the {where}", "to reach the {where} {who} walked {number} miles"],
       "{who} did not walk {number} miles",
       {"number": "How many miles did {who} walk?", "where": "Where did {who} walk?"},
       {"number": "Did {who} walk {x} miles?", "where": "Did {who} walk to the {x}?"})
_state("stay", {"who": "person", "number": "number", "where": "place"},
       ["{who} stayed at the {where} for {number} days", "for {number} days {who} stayed at the {where}"],
       "{who} did not stay {number} days",
       {"number": "How many days did {who} stay?", "where": "Where did {who} stay?"},
       {"number": "Did {who} stay {x} days?", "where": "Did {who} stay at the {x}?"})
_state("arrive", {"who": "person", "where": "place", "when": "when"},
       ["{who} reached the {where} in the {when}", "in the {when} {who} reached the {where}"],
       "{who} did not reach the {where}",
       {"where": "Where did {who} arrive?", "when": "When did {who} reach the {where}?"},
       {"where": "Did {who} reach the {x}?", "when": "Did {who} reach the {where} in the {x}?"})
_state("sleep", {"what": "animal", "where": "place"},
       ["the {what} slept in the {where}", "in the {where} the {what} slept"],
       "the {what} did not sleep in the {where}",
       {"where": "Where did the {what} sleep?"},
       {"where": "Did the {what} sleep in the {x}?"})
for _how, _kind in (("older", "person"), ("faster", "animal"), ("larger", "thing")):
    _one, _two = ("who", "whom") if _kind == "person" else ("what", "other")
    _the, _asked = ("", "Who") if _kind == "person" else ("the ", "What")
    _state(_how, {_one: _kind, _two: _kind},
           [f"{_the}{{{_one}}} was {much}{_how} than {_the}{{{_two}}}" for much in ("", "much ")],
           f"{_the}{{{_one}}} was not {_how} than {_the}{{{_two}}}",
           {_one: f"{_asked} was {_how} than {_the}{{{_two}}}?"},
           {_one: f"Was {_the}{{x}} {_how} than {_the}{{{_two}}}?"}, pair=True)
