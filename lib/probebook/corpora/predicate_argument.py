"""One sentence with two things of two colours, and who has which: 130 stories, 520 questions of each wording
(Chaturvedi et al., § 7: five schemes; the paper names neither its colours nor its pairs)."""
from __future__ import annotations

import pandas as pd

from probebook.base import UserError

SCHEMES = {                                                             # story: its two things
    "The {} car was standing in front of a {} house.": ("car", "house"),
    "They played with a {} ball and {} bat.": ("ball", "bat"),
    "The man was wearing a {} shirt and a {} jacket.": ("shirt", "jacket"),
    "The house had a {} window and a {} door.": ("window", "door"),
    "A {} glass was placed on a {} table.": ("glass", "table"),
}
WORDINGS = {"original": "Was the {thing} {colour}?", "there": "Was there a {colour} {thing}?",
            "the": "Was the a {colour} {thing}?"}
COLOURS = "red green scarlet blue pink black golden white yellow brown silver purple grey".split()


def questions(wording: str = "original") -> pd.DataFrame:
    """The 520 questions in one wording: "original" (Was the car blue?), "there" (Was there a blue car?), "the" (as
    that, with "the" for "there").

    The pairs: 13 colours stand in a ring, like ones apart; each goes with its neighbour, in both orders. That makes 26
    stories a scheme, as in the paper, where each colour is twice the first and twice the second. Each thing is asked
    about with both colours of its story: two answers are yes, two no, and neither the question nor the colours of the
    story tell which. Columns: scheme (0 to 4), colours (of the first and the second thing), and those of
    `stories.generate` but for its facts; edit = wording. UserError for another wording."""
    if wording not in WORDINGS:
        raise UserError(f"wording {wording!r}: one of {', '.join(WORDINGS)}")
    neighbours = list(zip(COLOURS, COLOURS[1:] + COLOURS[:1]))
    rows = []
    for scheme, (text, things) in enumerate(SCHEMES.items()):
        for number, colours in enumerate(neighbours + [(two, one) for one, two in neighbours]):
            story = text.format(*colours)
            asked = [(thing, colour) for thing in things for colour in colours]
            for turn, (thing, colour) in enumerate(asked):
                answer = "yes" if colour == colours[things.index(thing)] else "no"
                rows.append({"story_id": 26 * scheme + number, "turn": turn, "story": story,
                             "question": WORDINGS[wording].format(thing=thing, colour=colour), "history": [],
                             "answer": answer, "gold": answer, "kind": "yes/no", "start": -1, "end": -1,
                             "rationale": [(0, len(story))], "sentences": [(0, len(story))], "edit": wording,
                             "scheme": scheme, "colours": colours})
    return pd.DataFrame(rows)
