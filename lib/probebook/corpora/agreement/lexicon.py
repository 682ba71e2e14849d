"""Words of the agreement generator: nouns by kind, verbs with number-neutral continuations, and what may stand between.

No noun and no lexical verb of the crossed templates (Marvin & Linzen 2018) is in here. Kinds: `person`, `animal`,
`area` (one can be in it), `spot` (one can be near it), `thing`, `text`.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A countable noun. `split` is "test" for the nouns held out from the training of `pocket-agreement`."""
    singular: str
    plural: str
    kind: str
    split: str

    def form(self, number: int) -> str:
        """0: singular, 1: plural."""
        return self.plural if number else self.singular


_NOUNS = {  # singular[:plural]
    "person": """man:men boy lady sister captain prisoner king soldier poet visitor child:children girl stranger knight
        daughter gentleman:gentlemen servant friend prince writer woman:women brother priest sailor lover wife:wives son
        neighbour peasant guest lad policeman:policemen companion princess messenger clergyman:clergymen father citizen
        hero reader baby enemy witch doctor nurse aunt uncle judge lawyer queen mother student clerk husband""",
    "animal": "dog lion horse cow beast cat rat bird wolf:wolves creature pig fox hen animal bee",
    "area": """house village castle city hotel garden town valley room temple school forest church park cottage shop
        palace field tent cave street tower chamber country island building office prison yard""",
    "spot": """hill gate statue rock door river tree table path wall mountain bridge corner bed road window bank grave
        bench tomb""",
    "thing": """chair ship lamp key stone clock sword bell leaf:leaves gun candle box boat knife:knives card hat cup
        weapon foot:feet coat wheel plate flower gift bottle tooth:teeth curtain glass dress cap basket boot machine
        shell vessel branch seed root bone flag""",
    "text": """letter story word idea law question tale paper rule principle message page newspaper theory lesson
        article argument prayer report chapter opinion speech passage volume""",
}


def plural(noun: str) -> str:
    """The regular plural."""
    if noun.endswith(("s", "sh", "ch", "x", "z")) or noun == "hero":
        return noun + "es"
    return noun[:-1] + "ies" if noun[-1] == "y" and noun[-2] not in "aeiou" else noun + "s"


def _noun(entry: str, kind: str, place: int) -> Noun:
    singular, _, irregular = entry.partition(":")
    return Noun(singular, irregular or plural(singular), kind, "test" if place % 5 in (1, 3) else "train")


NOUNS = [_noun(entry, kind, i) for kind, words in _NOUNS.items() for i, entry in enumerate(words.split())]

# plural form, singular form, kinds (P person, A animal, L area and spot, T thing, X text): continuations
_VERBS = """
are is P: very tired; afraid of the dark; in great danger; ready to go; always welcome; far from home; quite wrong
are is A: hungry; very large; afraid of the dark; in great pain; fast asleep; quite wild
are is L: quite empty; very beautiful; far away; hidden in mist; covered with snow; known to us all
are is T: very heavy; made of gold; on the floor; of no use; covered with dust; lost
are is X: very long; hard to understand; not true; of great importance; full of wisdom; well known
were was P: very happy then; ill for days; in great danger; at home; among the first to arrive
were was A: very thin; afraid of the noise; out in the rain; easy to see
were was L: quite dark; famous once; far away; hard to find
were was T: very curious; under the snow; hard to find; made of silver
were was X: hard to believe; of no use to us; well received; soon forgotten
have has P: a great deal of money; no time to lose; nothing to say; lost all hope; gone away
have has A: nothing to eat; gone away; long hair; no fear of us
have has L: a strange charm; changed a great deal; nothing to offer; been there for ages
have has T: very little value; been there for years; fallen down; lost all colour
have has X: no meaning; a great influence; caused much trouble; been lost
do does P: all the work; nothing wrong; not know the truth; not wish to stay; very little
do does A: no harm; not like the rain; not want to move
do does L: not look the same; not seem so far away; not please everybody
do does T: not seem to move; not look safe; no harm
do does X: no harm; not seem true; not explain anything; much mischief
seem seems P: to be in trouble; very proud; much too late
seem seems A: to be in pain; rather quiet; quite mad
seem seems L: deserted; very near; much too small
seem seems T: to be broken; very cheap; much too heavy
seem seems X: to be of some importance; rather dull; quite false
look looks PA: very sad; rather tired; almost dead
look looks LT: rather strange; very large from here; quite ordinary
look looks X: rather strange; quite simple; very learned
appear appears PA: to be asleep; at last; to be in great haste
appear appears L: in the distance; to be empty
appear appears T: to be missing; to be of great value
appear appears X: to be false; to be the work of years
remain remains PA: silent; out of sight; calm
remain remains LT: in the shade; just as before
remain remains X: unknown; a mystery
become becomes PA: angry; more and more restless; silent
become becomes LT: quite useless; very hot in summer
become becomes X: clear; more and more famous
begin begins PA: to run; to grow weary; to feel the cold
begin begins LTX: to look familiar; to please us
happen happens PA: to be near; to be alone
happen happens LTX: to be quite unusual; to please us
belong belongs LT: to us; to nobody; to the past
belong belongs X: to the past; to another age
cause causes PATX: a great deal of trouble; much pain; no alarm
stand stands PA: in the rain; quite still; apart from the rest
stand stands LT: in the shade; there all day
lie lies PA: in the grass; awake all night
lie lies LT: far to the north; under the snow; in the sun
fall falls PA: ill; asleep at once; to the ground
fall falls LT: to the ground; into decay
grow grows PA: weak; very fat; bold
grow grows LT: dark; cold at night
turn turns PA: back at once; round in surprise
turn turns LT: to dust; dark in the evening
shake shakes PAT: all over; in the storm
give gives P: nothing away; money to the poor
give gives LT: us great pleasure; no comfort
give gives X: great comfort; us much to think about
make makes PA: a great noise; no sound
make makes X: no sense; everything clear
take takes P: no notice; great care; too much time
take takes TX: too much time; some getting used to
hold holds P: very still; the same view; on with both arms
hold holds LT: nothing at all; some water
matter matters TX: a great deal; very little
mean means P: no harm; to go away; very well
mean means X: nothing to us; a great deal
tell tells P: the truth; everybody; us nothing
tell tells X: us nothing; us what happened
trouble troubles AX: us all; nobody
lead leads P: the way; the others
lead leads X: to nothing; to a great deal of confusion
end ends X: well; in sadness; too soon
sound sounds P: tired; very angry; like an american
sound sounds X: rather strange; like music; quite simple
work works P: very hard; for very little money; all day
work works X: well in practice; against us
change changes P: very slowly; with time
change changes LX: nothing; very slowly
depend depends P: on us; on the weather
depend depends X: on the weather; on nothing else
face faces L: the north; the sunset
face faces P: great danger; the truth
mark marks LX: the beginning of another age; the end of the journey
go goes PA: away in winter; hungry; to sleep early
come comes PA: back in the evening; every morning; very slowly
run runs PA: very fast; away in terror
walk walks PA: up and down; very slowly
sit sits PA: in the shade; still for a long time
live lives PA: in peace; far away; alone
keep keeps PA: very quiet; out of sight; away from us
get gets PA: very angry; enough to eat
find finds PA: nothing to eat; some water
see sees PA: nothing in the dark; everything
feel feels PA: the cold; quite safe; very tired
want wants PA: more food; something to eat; to be free
need needs PA: more sleep; something warm; more exercise
like likes PA: the warm weather; to be left alone
love loves PA: music; to be alone; warm milk
fear fears PA: the cold; nothing; the storm
play plays PA: in the snow; all day long
cry cries PA: out in pain; in the dark
follow follows PA: at a distance; us everywhere
pass passes PA: by without a sound; in the dark
leave leaves PA: before noon; at once; without a sound
think thinks P: about the past; of nothing else; that it is too late
know knows P: the truth; nothing about it; what to do
say says P: nothing; that it will rain; very little
speak speaks P: in a whisper; about the weather; the truth
ask asks P: for more time; what has happened; for help
answer answers P: without delay; in anger; at once
hope hopes P: for the best; to return soon
wish wishes P: for peace; to know more
care cares P: for nothing; a great deal
doubt doubts P: it very much; the truth of it
dream dreams P: of better times; every night
call calls P: for help; out in the dark
act acts P: with great courage; in haste
drop drops P: everything at once; the matter
note notes P: the difference; that it is late
plan plans P: to travel; everything with care
point points P: to the north; at us
remark remarks P: that it is late; on the weather
study studies P: medicine; all night
thank thanks P: us for the help; heaven
visit visits P: us in winter; the sick
wave waves P: to us from afar; in farewell
write writes P: very well; home every month
step steps P: back in alarm; into the light
put puts P: everything in order; on a brave face
order orders P: more wine; everything at once
attempt attempts P: to escape; the impossible
claim claims P: to know the truth; to be rich
mind minds P: the noise; very much
state states P: the truth; that it is false
"""
_LETTERS = {"P": ["person"], "A": ["animal"], "L": ["area", "spot"], "T": ["thing"], "X": ["text"]}
KINDS = list(_NOUNS)

# kind of the subject → [(plural form, singular form, continuation)]
PREDICATES: dict[str, list[tuple[str, str, str]]] = {kind: [] for kind in KINDS}
for _line in _VERBS.strip().splitlines():
    _head, _, _tail = _line.partition(": ")
    _pl, _sg, _codes = _head.split()
    for _code in _codes:
        for _kind in _LETTERS[_code]:
            PREDICATES[_kind] += [(_pl, _sg, continuation) for continuation in _tail.split("; ")]

_WHERE = ["near", "behind", "beside", "by", "next to", "in front of", "not far from"]
_ABOUT = ["about", "from", "by"]
PREPOSITIONS = {  # (kind of the subject, kind of the attractor) → prepositions; a pair that is missing is not made
    ("person", "person"): [*_WHERE, "with", "from among"], ("person", "animal"): [*_WHERE, "with"],
    ("person", "area"): [*_WHERE, "from", "in", "inside"], ("person", "spot"): [*_WHERE, "beyond"],
    ("person", "thing"): [*_WHERE, "with", "without"], ("person", "text"): ["with"],
    ("animal", "person"): [*_WHERE, "of", "with"], ("animal", "animal"): [*_WHERE, "with"],
    ("animal", "area"): [*_WHERE, "from", "in", "inside"], ("animal", "spot"): [*_WHERE, "beyond"],
    ("animal", "thing"): [*_WHERE, "with"],
    ("area", "person"): [*_WHERE, "of"], ("area", "area"): [*_WHERE, "beyond", "above"],
    ("area", "spot"): [*_WHERE, "beyond", "across from"], ("area", "thing"): [*_WHERE, "with"],
    ("spot", "person"): [*_WHERE, "of"], ("spot", "area"): [*_WHERE, "of", "in"],
    ("spot", "spot"): [*_WHERE, "beyond", "across from"], ("spot", "thing"): [*_WHERE, "with"],
    ("thing", "person"): [*_WHERE, "of", "from"], ("thing", "animal"): [*_WHERE, "of"],
    ("thing", "area"): [*_WHERE, "in", "from"], ("thing", "spot"): [*_WHERE, "on", "under"],
    ("thing", "thing"): [*_WHERE, "under", "with", "among"],
    ("text", "person"): [*_ABOUT, "of", "for"], ("text", "animal"): ["about"], ("text", "area"): ["about", "from"],
    ("text", "spot"): ["about"], ("text", "thing"): ["about", "on"], ("text", "text"): ["about"],
}

# the rest depends on the subject's kind alone; all of it is in the past tense, so that it agrees with either number
ADJECTIVES = {
    "person": "poor rich kind quiet strange honest clever famous happy proud english french".split(),
    "animal": "little large brown black white hungry strange wild".split(),
    "area": "small large quiet beautiful dark little strange great".split(),
    "spot": "little large white broken beautiful dark distant low".split(),
    "thing": "small heavy black white beautiful little strange broken red".split(),
    "text": "long strange famous little first last beautiful simple".split(),
}
RELATIVES = {       # relative clauses that end in no noun
    "person": ["who came yesterday", "who lost everything", "whom everybody admired", "that we saw"],
    "animal": ["that we saw", "that escaped yesterday", "that everybody admired"],
    "area": ["that stood empty for years", "that we saw", "that everybody admired"],
    "spot": ["that we saw", "that everybody admired", "that we passed yesterday"],
    "thing": ["that we lost", "that fell down", "that everybody admired", "that we found yesterday"],
    "text": ["that we heard", "that everybody knew", "that we forgot", "that pleased everybody"],
}
RELATIVES_OF_PERSON = {     # object relatives: … that the PERSON saw [MASK]
    "person": ["saw", "loved", "called", "knew", "helped"], "animal": ["saw", "loved", "found", "fed"],
    "area": ["saw", "loved", "knew", "left"], "spot": ["saw", "knew", "reached", "loved"],
    "thing": ["saw", "lost", "found", "wanted"], "text": ["heard", "knew", "wanted", "forgot"],
}
STANDING = {        # relative clauses that a prepositional phrase of place completes
    "person": ["who stood", "who waited"], "animal": ["that stood", "that slept"], "area": ["that stood"],
    "spot": ["that we saw"], "thing": ["that we found", "that lay"],
}
PLACES = _WHERE
ADVERBS = "often always still now sometimes certainly also usually".split()     # no "never": it would meet "nothing"
OPENINGS = ["i think that", "everybody knows that", "of course", "after all", "in truth", "we are told that"]
DETERMINERS = ["the"] * 7 + ["my", "his", "her", "our", "their"]
