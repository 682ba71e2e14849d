"""Sentences in plain English for probing tasks: 5 to 28 words, one clause or two, past or present, offline.

A clause has a person or a thing as its subject and a verb with words that fit it; an adverb, manner, place, time,
purpose and circumstances (with or without a verb) come on top until the sentence is as long as drawn. A second clause
often takes up the first one's subject. `[was|is]`: past and present; `{my}`, `{him}`: the subject's pronouns."""
from __future__ import annotations

import random
import re

from probebook.base import UserError

SHORTEST, LONGEST = 5, 28                               # words
_PAIR = re.compile(r"\[(\w+)\|(\w+)\]")
_PRONOUNS = {name: dict(zip(("he", "him", "my"), words.split())) for name, words in {
    "I": "I me my", "you": "you you your", "he": "he him his", "she": "she her her", "we": "we us our",
    "they": "they them their"}.items()}


def _list(text: str) -> list[str]:
    return [" ".join(phrase.split()) for phrase in text.split(";")]


def _verbs(text: str) -> list[tuple[str, str, str, list[str]]]:
    """Base, third person, past and what may follow, of each line."""
    return [(*forms.split(), _list(rest)) for forms, rest in (line.split(":") for line in text.strip().splitlines())]


_PERSONS = {pronoun: words.split() for pronoun, words in {
    "he": "farmer baker boy sailor soldier doctor uncle priest miller gardener",
    "she": "woman girl nurse widow teacher aunt cook dancer singer actress",
    "they": "children neighbours students workers women men sisters"}.items()}
_ADJECTIVES = "old young tall poor rich quiet clever cheerful stubborn lonely kind proud lazy careful brave".split()
_ADVERBS = "often always sometimes never still seldom slowly gladly secretly usually quietly finally".split()

ACTS = _verbs("""
sell sells sold: {my} old horse; the last apples; a basket of eggs; the little house; two goats
buy buys bought: a pound of butter; a new hat; some flowers; the cheapest coat; {my} bread
bring brings brought: a bottle of wine; the wrong key; {my} best chair; some good news
carry carries carried: a heavy basket; the water; two chairs; {my} lantern
write writes wrote: a long letter; {my} name; a short poem; the whole report; some postcards
send sends sent: a parcel; the bill; {my} best wishes; the money
choose chooses chose: a blue dress; the smallest cake; some ripe pears; {my} words
build builds built: a low wall; the bridge; a small boat; {my} own table
teach teaches taught: a class of forty; the younger pupils; {my} nephew
learn learns learned: a new song; the whole poem; some French; {my} lines
bake bakes baked: a cake; the bread; some rolls; an apple pie
eat eats ate: an apple; the soup; some cold meat; {my} supper; a slice of cake
drink drinks drank: a glass of milk; the hot tea; some water; {my} coffee
wash washes washed: the dishes; {my} hands; the floor; some shirts
clean cleans cleaned: the windows; {my} boots; the stove; every room
open opens opened: the window; a tin of fish; {my} umbrella; the gate
close closes closed: the shutters; {my} eyes; the heavy door; a thick book
paint paints painted: the fence; a portrait; {my} bedroom; some eggs
mend mends mended: a torn sleeve; the roof; {my} shoes; an old clock
borrow borrows borrowed: a ladder; the newspaper; some money; a spade
steal steals stole: a chicken; the silver spoons; some plums; {my} ideas
hide hides hid: the letter; {my} money; a present; some sweets
lose loses lost: {my} gloves; the game; a silver ring; some coins
find finds found: a purse; the missing cat; some mushrooms; {my} glasses
forget forgets forgot: {my} keys; an old promise; the name of the street; the rest
explain explains explained: the plan; a difficult word; {my} reasons; the rules of the game
praise praises praised: the soup; {my} pupils; the new teacher; every singer
greet greets greeted: the guests; an old friend; {my} neighbours; every stranger
invite invites invited: the whole family; {my} cousins; some friends; a famous poet
follow follows followed: the river; a narrow path; {my} brother; the other guests
collect collects collected: some wood; the tickets; {my} letters; a few shells
sing sings sang: a sad song; the old hymns; a lullaby; {my} favourite tune
wear wears wore: a red scarf; {my} best suit; the heavy boots; a paper crown
draw draws drew: a map; the horse; {my} face; some water
throw throws threw: a stone; the ball; some bread to the birds; {my} hat in the air
break breaks broke: a plate; the window; {my} promise; an old cup
take takes took: a photograph; the dog for a walk; {my} medicine; some bread
give gives gave: a speech; some bread to the birds; {my} seat to a stranger; the key to the nurse
make makes made: a fire; some jam; a paper boat; {my} bed
see sees saw: a strange light; the doctor; two foxes; {my} mistake
hear hears heard: a loud noise; the church bells; {my} own name; some music
meet meets met: an old friend; the new priest; {my} cousin; some strangers
keep keeps kept: a diary; {my} coins in a jar; three hens; the change
catch catches caught: a fish; the thief; a butterfly; {my} breath
feed feeds fed: the pigs; a stray cat; {my} rabbits; some ducks
count counts counted: the money; {my} sheep; the stars; every step
watch watches watched: the birds; a film; {my} son; the boats
visit visits visited: {my} aunt; the museum; a sick friend; the graves
help helps helped: the blind man; {my} father; a lost child; some tourists
play plays played: the piano; a game of chess; {my} old records; some cards
pull pulls pulled: a cart; the rope; {my} sledge; some weeds
pour pours poured: the tea; a cup of milk; {my} wine; some sand
finish finishes finished: the work; {my} letter; a bowl of rice; the lesson
begin begins began: the lesson; a new book; {my} work; some strange game
hold holds held: a candle; {my} hat; the baby; some flags
fill fills filled: the buckets; a glass; {my} pockets with nuts; every basket
lift lifts lifted: a stone; the lid; {my} bag; some boxes
cook cooks cooked: the rice; a goose; {my} dinner; some beans
burn burns burned: the old letters; a pile of leaves; {my} fingers; some wood""")
STATES = _verbs("""
know knows knew: the answer; {my} neighbours; a good doctor; every street
understand understands understood: the question; {my} mother; a little Greek; every word
remember remembers remembered: the war; {my} first day at school; a long journey; every name
love loves loved: the sea; {my} garden; a good joke; every animal
hate hates hated: the noise; {my} new job; a cold bath; all the fuss
need needs needed: the money; {my} sleep; a new pair of shoes; some rest
want wants wanted: the truth; {my} share; a quiet life; some peace
own owns owned: the mill; a piano; {my} own boat; some land
fear fears feared: the dark; {my} teacher; a storm; the worst
trust trusts trusted: the captain; {my} friends; a stranger; no one
admire admires admired: the painter; {my} sister; a brave man; every dancer
believe believes believed: the story; {my} friends; a liar; every word of it""")
MOVES = _verbs("""
go goes went: to church; home by bus; into the woods; to the dentist
come comes came: home too late; from the north; with the others; back from the war
run runs ran: across the bridge; for the bus; after the dog; down the hill
walk walks walked: along the shore; to school; round the lake; through the rain
ride rides rode: to market; on a white donkey; through the valley; into the town
return returns returned: from the city; with empty hands; to the village; by boat
arrive arrives arrived: by train; with a big suitcase; at the hotel; before the others
travel travels travelled: to the coast; without any luggage; by night; through the desert
swim swims swam: across the river; in the cold lake; to the island
climb climbs climbed: over the wall; up the ladder; into the attic
sit sits sat: on the bench; by the fire; in the front row; at the window
stand stands stood: in the doorway; at the corner; behind the curtain; under a tree
wait waits waited: for the bus; at the station; in the hall; for an answer
sleep sleeps slept: in the barn; on the floor; for ten hours; under the stars
work works worked: in the mine; at the post office; for a tailor; in the fields
laugh laughs laughed: at the clown; with the others; about it
smile smiles smiled: at the baby; like a cat; into the mirror
listen listens listened: to the radio; at the door; to every word
speak speaks spoke: with a soft voice; to the crowd; about the harvest
live lives lived: near the harbour; with a cousin; on an island; in two small rooms""")
_THINGS = [line.split(": ") for line in """
the wind; a cold wind: blow blows blew hard; blow blows blew from the north; shake shakes shook the trees
the rain; the snow: fall falls fell on the roofs; stop stops stopped at last; cover covers covered the road
the bell; the old clock: ring rings rang in the tower; wake wakes woke the whole village; stop stops stopped
the river; the stream: freeze freezes froze; rise rises rose a little; flow flows flowed past the mill
the train; the last bus: leave leaves left without a sound; arrive arrives arrived; stop stops stopped on the bridge
the dog; the black cat: sleep sleeps slept by the door; lose loses lost a tooth; chase chases chased the hens
the baby; the little girl: cry cries cried a little; fall falls fell asleep; drop drops dropped a cup
the shop; the inn: close closes closed; open opens opened; smell smells smelled of bread; lose loses lost its guests
the sun; the moon: shine shines shone; rise rises rose over the hills; disappear disappears disappeared
the fire; the candle: burn burns burned; give gives gave a little light; grow grows grew brighter
+the birds; +two crows: sing sings sang; leave leaves left the island; build builds built a nest; fly flies flew south
+the horses; +the cows: stand stands stood in the shade; eat eats ate the hay; drink drinks drank from the pond
""".strip().splitlines()]                               # "+": a plural
THINGS = [(_list(subjects), [(*phrase.split()[:3], " ".join(phrase.split()[3:])) for phrase in _list(verbs)])
          for subjects, verbs in _THINGS]

_MANNERS = _list("""without a word; with great care; for the first time; with a smile; in spite of the cold; with the
    help of a friend; in a great hurry; like a child; as well as possible; with cold hands; in complete silence""")
_PLACES = _list("""in the village; near the church; behind the house; at the market; in the next town; under the
    trees; in the yard; on the farm; by the river; in front of the school; on the other side of the street""")
_TIMES = _list("""in the morning; after dinner; before noon; on Sunday; in winter; at night; during the holidays; at
    noon; after the long journey; in the evening; before the first snow; once more; in the spring; for an hour""")
_PURPOSES = _list("""to please {my} mother; to pass the time; for a few coins; because of the weather; for the sake of
    peace; instead of going to bed; out of pure habit; to make the day a little brighter; for no good reason""")
_CIRCUMSTANCES = _list("""because the night [was|is] cold; when the bell [rang|rings]; before the others [came|come];
    while the rest of the family [slept|sleeps]; although nobody [asked|asks] {him} to; as the old doctor
    [advised|advises]; so that the neighbours [could|can] sleep; until the lamp [went|goes] out; which
    [surprised|surprises] nobody; after the guests [left|leave]; where the river [met|meets] the sea; since the roads
    [were|are] empty; if the weather [was|is] good enough; as soon as the others [were|are] ready; unless a friend
    [needed|needs] help; despite all the old stories about it; without a thought for the others; like everybody else
    in the valley; in spite of {my} bad knee; for lack of anything better; against the wishes of the whole family;
    because of an old quarrel; thanks to a lucky accident; without asking anyone; instead of resting; long before the
    others; except for a short break""")
_REACTIONS = _list("""nobody [noticed|notices] {him}; {my} mother [thanked|thanks] {him}; everybody [knew|knows] it;
    the others [laughed|laugh] at {him}; it [made|makes] no difference; {my} friends [stayed|stay] at home; nobody
    [believed|believes] {him}; it [took|takes] a whole day; the neighbours [helped|help] {him}; that [was|is] the end
    of it; it [seemed|seems] too late; {my} brother [paid|pays] for it; the rest [came|comes] later; it [cost|costs]
    too much; no one else [did|does]; a stranger [answered|answers] instead; the others [had|have] no time for it;
    {my} sister [did|does] the same""")
_OPENINGS = _list("in the end; as usual; for once; of course; as a rule; at first; by chance; on the whole; after all")
_PARTS = {"m": _MANNERS, "p": _PLACES, "t": _TIMES, "u": _PURPOSES, "s": _CIRCUMSTANCES}
_VERBS = [(slots, verb) for slots, verbs in (("mptu", ACTS), ("t", STATES), ("mtu", MOVES)) for verb in verbs]


def generate(n: int, seed: int = 0) -> list[str]:
    """`n` different sentences: by chance half of them in the past, and more than half with two clauses.

    10,000 take less than a second. Raises UserError for n < 1."""
    if n < 1:
        raise UserError(f"n = {n}: at least 1 sentence")
    rng, found = random.Random(seed), {}
    while len(found) < n:
        text = _sentence(rng)
        if SHORTEST <= text.count(" ") + 1 <= LONGEST:
            found[f"{text[0].upper()}{text[1:]}."] = None
    return list(found)


def _sentence(rng: random.Random) -> str:
    past, length = rng.random() < .5, rng.randint(SHORTEST, LONGEST + 5)
    opening = rng.choice(_OPENINGS) + ", " if rng.random() < .1 else ""
    if length < 9 or rng.random() < (.5 if length < 17 else .25):
        return opening + _clause(rng, past, length, None, "s")[0]
    share, kind = rng.uniform(.3, .7), rng.random()
    first, pronoun = _clause(rng, past, round(length * share), None, "")
    left = round(length * (1 - share))
    if kind < .3 and pronoun:
        second = _extended(rng, _told(rng.choice(_REACTIONS), past, pronoun), past, left, pronoun, "t")
    else:
        second = _clause(rng, past, left, pronoun if kind < .75 else None, "s")[0]
    link = rng.choice(("and", "and", "but", "or") if pronoun and .3 <= kind < .75 else ("and", "and", "but"))
    return f"{opening}{first}, {link} {second}"


def _clause(rng: random.Random, past: bool, length: int, pronoun: str | None, late: str) -> tuple[str, str | None]:
    """A clause of about `length` words, and the pronoun of its subject (None: a thing).

    `pronoun`: the subject, None for a new one; `late`: "s" if circumstances may follow."""
    if pronoun is None and rng.random() < .15:
        words, (base, third, did, rest) = (rng.choice(pack) for pack in rng.choice(THINGS))
        verb = did if past else base if words.startswith("+") else third
        return _extended(rng, f"{words.lstrip('+')} {verb} {rest}".strip(), past, length, None, "t" + late), None
    words, pronoun = (pronoun, pronoun) if pronoun else _subject(rng)
    slots, (base, third, did, rest) = rng.choice(_VERBS)
    verb = did if past else third if pronoun in ("he", "she") else base
    if rng.random() < .06:
        verb = f"{rng.choice(('could', 'would', 'did not') if past else ('can', 'must', 'will'))} {base}"
    elif rng.random() < .2:
        verb = f"{rng.choice(_ADVERBS)} {verb}"
    text = _told(f"{words} {verb} {rng.choice(rest)}", past, pronoun)
    return _extended(rng, text, past, length, pronoun, slots + late), pronoun


def _subject(rng: random.Random) -> tuple[str, str]:
    """Words and pronoun of a person or persons: the pronoun alone, or a noun."""
    pronoun = rng.choice(("I", "he", "she", "we", "they", "you", "he", "she", "they"))
    if pronoun not in _PERSONS or rng.random() < .25:
        return pronoun, pronoun
    noun = (rng.choice(_ADJECTIVES) + " " if rng.random() < .4 else "") + rng.choice(_PERSONS[pronoun])
    first = rng.choice(("the", "the", "the", "our", *(("these", "some") if pronoun == "they" else ("a", "this"))))
    return f"{'an' if first == 'a' and noun[0] in 'aeiou' else first} {noun}", pronoun


def _extended(rng: random.Random, text: str, past: bool, length: int, pronoun: str | None, slots: str) -> str:
    """The clause with as many of _PARTS, of those in `slots`, as `length` asks for, in their order."""
    parts, missing = dict.fromkeys(_PARTS, ""), length - text.count(" ") - 1
    for slot in rng.sample(slots, len(slots)):
        words = rng.choice(_PARTS[slot])
        if missing >= 2 and (pronoun or "{" not in words):
            parts[slot] = _told(words, past, pronoun)
            missing -= parts[slot].count(" ") + 1
    return " ".join([text, *filter(None, parts.values())]).replace(" which", ", which")


def _told(words: str, past: bool, pronoun: str | None) -> str:
    """The words in their tense, with the pronouns put in."""
    words = _PAIR.sub(r"\1" if past else r"\2", words)
    return words.format(**_PRONOUNS[pronoun]) if pronoun else words
