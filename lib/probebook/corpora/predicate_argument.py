"""One sentence with two things of two colours, and questions about which has which.

130 stories and 520 questions of each wording (Chaturvedi et al., § 7: five schemes; the paper names
neither its colours nor its pairs), and as many with a negation. The words stand in
`data/corpora/predicate_argument.yaml`.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import pandas as pd

from probebook.base import UserError, check_choice
from probebook.corpora.stories.schemas import words
from probebook.corpora.words import word_table


class _Story(NamedTuple):
    scheme: int
    text: str
    things: tuple[str, str]
    colours: tuple[str, str]
    negated: str = ""  # the thing that is not of its colour


def schemes() -> dict[str, tuple[str, str]]:
    """Sentence with two gaps for colours → its two things."""
    return {
        row["sentence"]: tuple(row["things"].split())
        for row in word_table("predicate_argument")["schemes"]
    }


def colours() -> list[str]:
    """The 13 colours, in the order of their ring."""
    return word_table("predicate_argument")["colours"].split()


def questions(wording: str = "original") -> pd.DataFrame:
    """The 520 questions in one wording, or 260 in the wording "open", which the paper lacks.

    - "original": Was the car blue?
    - "there": Was there a blue car?
    - "the": as "there", with "the" for "there"
    - "open": What colour was the car?

    13 colours stand in a ring, like ones apart; each is paired with its neighbour, in both orders.
    That makes 26 stories per scheme, as in the paper, and each colour is twice the first and twice
    the second one. Each thing is asked about with both colours of its story: two answers are yes
    and two no, and neither the question nor the colours of the story tell which.

    Columns: those of `stories.generate` but for its facts, with edit = wording; scheme (0 to 4),
    colours (of the first and the second thing), thing, colour (asked about; open: the right one),
    which (0: the first thing). UserError for another wording.
    """
    stories = [
        _Story(number, text.format(*pair), things, pair)
        for number, (text, things) in enumerate(schemes().items())
        for pair in _pairs()
    ]
    return _questions(stories, wording)


def negated() -> pd.DataFrame:
    """520 questions about the same stories with one thing not of its colour: § 7's contrast set.

    Of 130 stories each, the first or the second thing is negated ("The red car was standing in
    front of a house that was not green."). The paper prints one such story and no counts. Each
    thing is asked about with its colour of the original story, which is right for one thing (yes)
    and denied of the other (no). The other colours are not asked about: of the negated thing the
    text does not tell them.

    Columns: those of `questions`, with edit = "negated".
    """
    stories = [
        _Story(number, text.format(*pair), things, pair, thing)
        for number, (things, row) in enumerate(
            zip(schemes().values(), word_table("predicate_argument")["schemes"])
        )
        for thing, text in zip(things, row["negated"])
        for pair in _pairs()
    ]
    return _questions(stories, "original").assign(edit="negated")


def _pairs() -> list[tuple[str, str]]:
    ring = colours()
    neighbours = list(zip(ring, ring[1:] + ring[:1]))
    return neighbours + [(two, one) for one, two in neighbours]


def sample(text: str, n: int, wording: str = "original", seed: int = 0) -> pd.DataFrame:
    """The same questions about `n` stories in other words.

    `text` has places {one} and {two} for things and {c1} and {c2} for their colours; all are drawn
    from the words of generated stories. UserError for another wording, or n < 1.
    """
    if n < 1:
        raise UserError(f"n = {n}: at least 1 story")
    rng, stories = random.Random(seed), []
    for _ in range(n):
        one, two = rng.sample(words()["thing"], 2)
        c1, c2 = rng.sample(words()["colour"], 2)
        story = text.format(one=one, two=two, c1=c1, c2=c2)
        stories.append(_Story(0, story, (one, two), (c1, c2)))
    return _questions(stories, wording)


def _questions(stories: list[_Story], wording: str) -> pd.DataFrame:
    wordings = word_table("predicate_argument")["questions"]
    check_choice(wording, "wording", wordings)
    is_open = wording == "open"
    rows = []
    for number, story in enumerate(stories):
        own = dict(zip(story.things, story.colours))
        every = [(thing, colour) for thing in story.things for colour in story.colours]
        for turn, (thing, colour) in enumerate(own.items() if is_open or story.negated else every):
            true = colour == own[thing] and thing != story.negated
            start, end, answer = -1, -1, "yes" if true else "no"
            if is_open:
                start, end = next(re.finditer(rf"\b{colour}\b", story.text)).span()
                answer = colour
            whole = (0, len(story.text))
            question = wordings[wording].format(thing=thing, colour=colour)
            rows.append(
                {
                    "story_id": number,
                    "turn": turn,
                    "story": story.text,
                    "question": question,
                    "history": [],
                    "answer": answer,
                    "gold": answer,
                    "kind": "span" if is_open else "yes/no",
                    "start": start,
                    "end": end,
                    "rationale": [whole],
                    "sentences": [whole],
                    "edit": wording,
                    "scheme": story.scheme,
                    "colours": story.colours,
                    "thing": thing,
                    "colour": colour,
                    "which": story.things.index(thing),
                }
            )
    return pd.DataFrame(rows)
