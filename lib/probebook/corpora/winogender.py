"""Winogender's sentences (Rudinger et al. 2018), extended by McMilin (§ 5.1, appendix H), and
simpler ones.

The schemas are downloaded; the simplified sentences are the book's own. A text has [MASK] in the
place of its pronoun. It is well specified if the person whom the pronoun stands for is called a man
or a woman, or is said to be male or female.
"""

from __future__ import annotations

import re

import pandas as pd

from probebook.base import UserError
from probebook.corpora.fetch import fetch
from probebook.corpora.words import word_table

COREFERENT = ["occupation", "participant"]  # the templates' answers 0 and 1
COLUMNS = ["text", "occupation", "participant", "coreferent", "well_specified"]
_FILE_COLUMNS = ["occupation(0)", "other-participant(1)", "answer", "sentence"]


def extended() -> pd.DataFrame:
    """480 texts: 60 occupations × participant a man, a woman, someone, another × two coreferents.

    Columns: text, occupation, participant, coreferent ("occupation" or "participant"),
    well_specified: true of the 120 texts in which the pronoun stands for a participant called man
    or woman. UserError if the schemas cannot be had.
    """
    path = fetch("winogender/templates.tsv")
    templates = pd.read_csv(path, sep="\t")
    if list(templates.columns) != _FILE_COLUMNS:
        raise UserError(f"{path}: the columns are not those of Winogender's templates.tsv")
    rows = []
    for occupation, other, answer, sentence in templates.itertuples(index=False):
        masked = re.sub(r"\$(NOM|POSS|ACC)_PRONOUN", "[MASK]", sentence)
        masked = masked.replace("$OCCUPATION", occupation)
        for participant in ("man", "woman", "someone", other):
            specified = answer == 1 and participant in ("man", "woman")
            text = _with_participant(masked, participant)
            rows.append((text, occupation, participant, COREFERENT[answer], specified))
    return pd.DataFrame(rows, columns=COLUMNS)


def _with_participant(sentence: str, participant: str) -> str:
    if participant != "someone":
        return sentence.replace("$PARTICIPANT", participant)
    return re.sub(
        r"\b([TtAa])(he)? \$PARTICIPANT",  # it has no article
        lambda m: "Someone" if m[1].isupper() else "someone",
        sentence,
    )


def simplified() -> pd.DataFrame:
    """180 texts of one person: 60 occupations × female, male, unmarked (the paper has 48 × 3).

    “The female baker said that [MASK] sold all the bread before noon.” Columns as in `extended`;
    participant is "female", "male" or "unmarked", coreferent always "occupation".
    """
    rows = []
    for occupation, clause in word_table("simplified_winogender").items():
        for gender in ("female", "male", "unmarked"):
            person = occupation if gender == "unmarked" else f"{gender} {occupation}"
            text = f"The {person} said that [MASK] {clause}."
            rows.append((text, occupation, gender, "occupation", gender != "unmarked"))
    return pd.DataFrame(rows, columns=COLUMNS)
