"""The main verb of an English sentence and its two clauses, by rule with closed lists: sure rather than complete."""
from __future__ import annotations

import re

WORD = re.compile(r"\w+(?:[-'’]\w+|[.,]\d+)*")


def main_verb(sentence: str) -> tuple[str, str, str] | None:
    """Form, lemma and tense ("past", "present") of the main verb, or None where the rule is not sure.

    [preposition …,] subject [adverbs] verb: the subject is a pronoun, or up to four words of which none is in a closed
    list or looks like a verb; the verb is one of `FORMS` that agrees with it. Behind a noun a form that can also be
    a participle or a noun needs an object (an article, possessive or pronoun). Not be, have, do, modals, verbs whose
    past and present look alike; no questions or quotations."""
    if re.search(r"[\"“”‘?]", sentence):
        return None
    clause = _Clause(sentence)
    verb = clause.verb(clause.start())
    return None if verb is None or verb in _AUXILIARIES else (verb, FORMS[verb][0], FORMS[verb][1])


def inverted(sentence: str) -> tuple[str, int] | None:
    """The sentence with its two clauses exchanged, and the sign of their difference in words; None if not two.

    One and, but or or; both sides have three words and start with a subject (an article or the like and a noun, or a
    pronoun; without a comma only I, he, she, we or they) and its verb, auxiliaries too."""
    clause = _Clause(sentence)
    links = [i for i, word in enumerate(clause.lower) if word in ("and", "but", "or")]
    if len(links) != 1 or re.search(r"[\"“”‘?;:()]", sentence):
        return None
    at, spans = links[0], clause.spans
    left, right = at, len(spans) - at - 1
    if left < 3 or right < 3 or sentence[spans[at - 1][1]:spans[at][0]] not in (" ", ", ", " , "):
        return None
    comma = "," in sentence[spans[at - 1][1]:spans[at][0]]
    starts = _STARTS - {"that"} if comma else _NOMINATIVE
    known = clause.lower[0] in _STARTS and clause.lower[at + 1] in starts
    if not (known and clause.joined[at] and clause.verb(0, at) and clause.verb(at + 1)):
        return None
    first, link = sentence[:spans[at - 1][1]], sentence[spans[at - 1][1]:spans[at + 1][0]]
    second, end = sentence[spans[at + 1][0]:spans[-1][1]], sentence[spans[-1][1]:]
    first = first if clause.lower[0].split("'")[0] == "i" else first[0].lower() + first[1:]
    return second[0].upper() + second[1:] + link + first + end, (left > right) - (left < right)


class _Clause:
    """A sentence's words: `spans`, `lower` and whether nothing but space is behind each (`joined`)."""

    def __init__(self, text: str):
        self.spans = [match.span() for match in WORD.finditer(text)]
        self.words = [text[a:b] for a, b in self.spans]
        self.lower = [word.lower().replace("’", "'") for word in self.words]
        self.gaps = [text[a[1]:b[0]].strip() for a, b in zip(self.spans, self.spans[1:])]
        self.joined = [gap == "" for gap in self.gaps] + [False]

    def start(self) -> int:
        """Where the subject starts: at the first word, or behind an opening without a verb ("In winter, …")."""
        if self.lower and self.lower[0] in _OPENERS and "," in self.gaps[:8]:
            comma = self.gaps.index(",")
            if not any(word in FORMS or word in _AUXILIARIES | _NOMINATIVE for word in self.lower[:comma + 1]):
                return comma + 1
        return 0

    def verb(self, i: int, end: int | None = None) -> str | None:
        """The finite verb of the clause whose subject starts at word `i` (before word `end`), if it is sure."""
        words, end = self.lower, len(self.lower) if end is None else end
        j, noun = i, False
        if i < end and words[i] in _PRONOUNS:
            j, plural = i + 1, words[i] in _PLURAL
        else:
            while j < end and words[j] in _DETERMINERS:
                j += 1
            first = j
            if j == i and (j >= end or not self.words[j][0].isupper()):
                return None
            while j < end and j < first + 4 and (_nominal(words[j]) or j == first > i and words[j] in _ALSO_NOUNS):
                j += 1
            if j == first:
                return None
            noun, plural = True, words[j - 1] in _PLURALS or words[j - 1].endswith("s") and words[j - 1][-2:] != "ss"
        while j < end and _adverb(words[j]):
            j += 1
        if j >= end or not all(self.joined[i:j]):
            return None
        if words[j] in _AUXILIARIES:
            return words[j]
        lemma, tense, kind = FORMS.get(words[j], ("", "", ""))
        if not lemma or not self.words[j].islower() or tense == "present" and plural != (kind == "base"):
            return None
        if noun and words[j] in _UNSURE:
            named = j + 1 < end and self.joined[j] and words[j + 1] in _NAMED
            if not named or tense == "past" and (lemma in _RETAINED or _DATES & set(words[j + 1:j + 4])):
                return None
        return words[j]


def _nominal(word: str) -> bool:
    """Whether a word may be part of a noun phrase: in no closed list, and nothing like a verb or an adverb."""
    own = word.removesuffix("'s")
    return not (word in _CLOSED or word in FORMS or _adverb(word) or word.endswith("ed") or "'" in own
                or own in _OWNERS)


def _adverb(word: str) -> bool:
    return word in _ADVERBS or word.endswith("ly") and word not in _NOT_ADVERBS


# Verbs: base, past, and the participle if it is another; "*" doubles the last letter, "~": the present is a noun or
# adjective as well, "-": the past is no passive participle.

_IRREGULAR = """arise arose arisen; awake awoke awoken; become became become; begin began begun; bend~ bent; bite~
    bit bitten; blow~ blew blown; break~ broke broken; bring brought; build built; buy~ bought; catch~ caught; choose
    chose chosen; cling- clung; come came come; creep- crept; deal~- dealt; dig~ dug; draw~ drew drawn; drink~ drank
    drunk; drive~ drove driven; eat ate eaten; fall~ fell fallen; feed~ fed; feel~ felt; fight~ fought; find~ found;
    flee- fled; fly~ flew flown; forget forgot forgotten; forgive forgave forgiven; freeze~ froze frozen; get got;
    give gave given; go went gone; grow grew grown; hang~ hung; hear heard; hide~ hid hidden; hold~ held; keep~ kept;
    kneel- knelt; know knew known; lead~ led; leave~ left; lend lent; lose lost; make~ made; mean~ meant; meet~ met;
    pay~ paid; ride~ rode ridden; ring~ rang rung; rise~ rose risen; run~ ran run; say~ said; see saw seen; seek
    sought; sell sold; send sent; shake~ shook shaken; shine~ shone shone; shoot~ shot; shrink~ shrank shrunk; sing
    sang sung; sink~ sank sunk; sit- sat; sleep~- slept; slide~ slid; speak spoke spoken; spend spent; spring~ sprang
    sprung; stand~- stood; steal~ stole stolen; stick~ stuck; strike~ struck; swear swore sworn; sweep~ swept; swim~
    swam swum; swing~ swung; take~ took taken; teach taught; tear~ tore torn; tell told; think~ thought; throw~ threw
    thrown; undergo underwent undergone; understand understood; wake~ woke woken; wear~ wore worn; weep- wept; win~
    won; write wrote written"""
_REGULAR = """accept accompany achieve acquire add admire admit* adopt advise agree- allow announce answer~ appear-
    apply appoint approach~ argue arrange arrive- ask assume attack~ attempt~ attend attract avoid bake~ bark~-
    believe belong- blame~ boil~ borrow burn~ bury call~ capture~ carry cause~ celebrate change~ chase~ claim~ clean~
    climb~ close~ collect compare complete~ compose consider consist- contain continue contribute cook~ count~ cover~
    create cross~ cry~- dance~ decide declare defeat~ defend deliver demand~ deny depend- describe deserve desire~
    destroy develop die- direct~ disappear- discover discuss display~ divide~ drag~* dream~- drop~* earn employ~
    enable encourage end~ enjoy enter escape~ establish exist- expect explain explore express~ face~ fail~ fear~
    fill~ finish~ flow~- follow force~ form~ gain~ gather glance~- greet guard~ guess~ handle~ happen- hate~ help~
    hire~ hope~- hunt~ hurry~ imagine improve include increase~ indicate influence~ inform inhabit insist- inspire
    intend introduce invent invite~ join~ jump~- kick~ kill~ kiss~ knit* knock~ lack~ last~- laugh~- learn lift~
    like~ listen- live~- look~- love~ manage mark~ marry measure~ mend mention~ miss~ move~ murmur~ need~ nod~*-
    note~ notice~ obey object~- observe obtain occupy occur*- offer~ open~ oppose order~ own~ paint~ pass~ perform
    persuade place~ plan~* plant~ play~ point~ polish~ possess pour praise~ prefer* prepare present~ prevent produce~
    promise~ promote protect prove provide publish pull~ push~ raise~ reach~ realize receive recall~ recognize
    recommend record~ refer*- reflect refuse~ regard~ regret~* reject~ release~ remain~- remember remind remove
    repair~ repeat~ replace reply~- report~ represent require rescue~ respond- rest~- retain retire- return~- reveal
    roll~ rule~ rush~ save~ scream~- seem- separate~ serve~ settle share~ shout~ show~ sign~ smell~ smile~- spoil~
    stare~- start~ state~ stay~- step~*- stop~* stretch~ study~ succeed suffer- suggest supply~ support~ suppose
    surprise~ surround~ survive suspect~ talk~- taste~ tend- thank~ touch~ train~ travel~*- treat~ trust~ try~ turn~
    visit~ wait~- walk~- wander- want~ warm~ warn wash~ waste~ watch~ weigh whisper~ wish~ wonder~- work~- worry~
    yield~"""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SINGULAR = _set("he she it nobody everybody somebody everyone someone")
_PLURAL = _set("i you we they")                         # pronouns whose verb has no s
_NOMINATIVE = _set("i he she we they")
_OBJECTS = _set("me him her us them it himself herself themselves everything nothing something")
_DETERMINERS = _set("""the a an this that these those my your his her its our their some many most several both all
    each every another no two three four five six seven eight nine ten""")
_ADVERBS = _set("""also then soon never always often still just once later first again now seldom sometimes even
    almost only ever thus therefore instead twice today""")
_NOT_ADVERBS = _set("family july italy assembly butterfly early elderly friendly lonely lovely holy ugly ally bully")
_OPENERS = _set("in on at after before during since by for from with within under despite throughout of as")
_AUXILIARIES = _set("""am is are was were be been being have has had having do does did will would shall should can
    could may might must cannot isn't aren't wasn't weren't haven't hasn't hadn't don't doesn't didn't won't wouldn't
    couldn't can't shouldn't mustn't ought dare""")
_FUNCTION = _OPENERS | _OBJECTS | _set("""and but or nor so yet if because although though while when where who whom
    whose which what how why whether than to into onto upon over above below through across against among between
    towards toward without about around behind beside beyond near off out up down along inside outside until till
    like unlike not there here either neither such much more less born got put cut set let hit hurt cost read shut
    split spread burst cast bid bet quit lie lies lay laid wound bind bound grind use uses used lit""")
_PRONOUNS, _NAMED, _OWNERS = _SINGULAR | _PLURAL, _DETERMINERS | _OBJECTS, _SINGULAR | _FUNCTION
_STARTS = _PRONOUNS | _DETERMINERS
_CLOSED = _FUNCTION | _AUXILIARIES | _STARTS
_PLURALS = _set("people children men women police mice geese sheep fish cattle these those many several both two three")
_NOUN_LIKE = _set("saw rose spoke bore stole")          # of the past
_RETAINED = _set("tell send pay lend teach offer ask show promise deny serve call name consider declare appoint")
_DATES = _set("day days night week weeks month months year years morning evening following next same previous time")


def _tables() -> tuple[dict[str, tuple[str, str, str]], set[str], set[str]]:
    """form → lemma, tense, kind; forms of the present that may be nouns; forms that need an object behind a noun."""
    forms, nouns, unsure = {}, set(), set(_NOUN_LIKE)
    verbs = re.findall(r"(\w+)([~-]*) (\w+)(?: (\w+))?(?:;|$)", " ".join(_IRREGULAR.split()))
    for base, marks in re.findall(r"(\w+)([*~-]*)", _REGULAR):
        stem = base + base[-1] if "*" in marks else re.sub("([^aeiou])y$", r"\1i", base)
        verbs.append((base, marks, stem + ("d" if base.endswith("e") else "ed"), ""))
    for base, marks, past, participle in verbs:
        third = re.sub("([^aeiou])y$", r"\1ie", base) + ("es" if re.search("(s|sh|ch|x|z|[^e]o)$", base) else "s")
        forms |= {base: (base, "present", "base"), third: (base, "present", "third"), past: (base, "past", "past")}
        nouns |= {base, third} if "~" in marks else set()
        unsure |= {past} if participle in ("", past) and "-" not in marks else set()
    return forms, nouns, unsure | nouns


FORMS, _ALSO_NOUNS, _UNSURE = _tables()                 # "found" is of find, "saw" of see
