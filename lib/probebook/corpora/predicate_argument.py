"""One sentence with two things of two colours, and who has which: 130 stories, 520 questions of each wording
(Chaturvedi et al., § 7: five schemes; the paper names neither its colours nor its pairs)."""
from __future__ import annotations

import random
import re

import pandas as pd

from probebook.base import UserError
from probebook.corpora.stories.schemas import VALUES

SCHEMES = {                                                             # story: its two things
    "The {} car was standing in front of a {} house.": ("car", "house"),
    "They played with a {} ball and {} bat.": ("ball", "bat"),
    "The man was wearing a {} shirt and a {} jacket.": ("shirt", "jacket"),
    "The house had a {} window and a {} door.": ("window", "door"),
    "A {} glass was placed on a {} table.": ("glass", "table"),
}
WORDINGS = {"original": "Was the {thing} {colour}?", "there": "Was there a {colour} {thing}?",
            "the": "Was the a {colour} {thing}?", "open": "What colour was the {thing}?"}
COLOURS = "red green scarlet blue pink black golden white yellow brown silver purple grey".split()


def questions(wording: str = "original") -> pd.DataFrame:
    """The 520 questions in one wording: "original" (Was the car blue?), "there" (Was there a blue car?), "the" (as
    that, with "the" for "there"); or 260 in the wording "open" (What colour was the car?), which the paper lacks.

    The pairs: 13 colours stand in a ring, like ones apart; each goes with its neighbour, in both orders. That makes 26
    stories a scheme, as in the paper, where each colour is twice the first and twice the second. Each thing is asked
    about with both colours of its story: two answers are yes, two no, and neither the question nor the colours of the
    story tell which. Columns: scheme (0 to 4), colours (of the first and the second thing), thing, colour (asked about;
    open: that is right), which (0: the first thing), and those of `stories.generate` but for its facts; edit = wording.
    UserError for another wording."""
    neighbours = list(zip(COLOURS, COLOURS[1:] + COLOURS[:1]))
    told = [(scheme, text.format(*colours), things, colours) for scheme, (text, things) in enumerate(SCHEMES.items())
            for colours in neighbours + [(two, one) for one, two in neighbours]]
    return _asked(told, wording)


def drawn(text: str, n: int, wording: str = "original", seed: int = 0) -> pd.DataFrame:
    """The same questions about `n` stories in other words: `text` has places {one} and {two} for things, {c1} and {c2}
    for their colours, all drawn from the words of generated stories. UserError for another wording, or n < 1."""
    if n < 1:
        raise UserError(f"n = {n}: at least 1 story")
    rng, told = random.Random(seed), []
    for _ in range(n):
        things, colours = (tuple(rng.sample(VALUES[kind], 2)) for kind in ("thing", "colour"))
        told.append((0, text.format(one=things[0], two=things[1], c1=colours[0], c2=colours[1]), things, colours))
    return _asked(told, wording)


def _asked(told: list[tuple], wording: str) -> pd.DataFrame:
    if wording not in WORDINGS:
        raise UserError(f"wording {wording!r}: one of {', '.join(WORDINGS)}")
    rows = []
    for number, (scheme, story, things, colours) in enumerate(told):
        own = dict(zip(things, colours))
        asked = own.items() if wording == "open" else [(thing, colour) for thing in things for colour in colours]
        for turn, (thing, colour) in enumerate(asked):
            start, end = re.search(rf"\b{colour}\b", story).span() if wording == "open" else (-1, -1)
            answer = colour if wording == "open" else "yes" if colour == own[thing] else "no"
            rows.append({"story_id": number, "turn": turn, "story": story,
                         "question": WORDINGS[wording].format(thing=thing, colour=colour), "history": [],
                         "answer": answer, "gold": answer, "kind": "span" if wording == "open" else "yes/no",
                         "start": start, "end": end, "rationale": [(0, len(story))], "sentences": [(0, len(story))],
                         "edit": wording, "scheme": scheme, "colours": colours, "thing": thing, "colour": colour,
                         "which": things.index(thing)})
    return pd.DataFrame(rows)
