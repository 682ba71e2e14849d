"""The plan of a four-week course: pages to read, labs, and the minutes of their exercises."""
from __future__ import annotations

import html

from probebook.labs.exercises import exercises
from probebook.publish.findings import html_table, page_link
from probebook.runs.pages import find

WEEKS = {
    "1 · Probing and intervening": (
        ["1_causal_probing/01", "1_causal_probing/02", "1_causal_probing/04"],
        ["1_causal_probing/03", "1_causal_probing/06"]),
    "2 · How much data": (
        ["3_data_requirements/01", "3_data_requirements/06"],
        ["3_data_requirements/02", "3_data_requirements/07"]),
    "3 · Effects of concepts": (
        ["2_concept_effects/01", "2_concept_effects/04"],
        ["2_concept_effects/03", "2_concept_effects/06"]),
    "4 · What a text does not say": (
        ["4_underspecification/02", "5_semantic_faithfulness/01"],
        ["4_underspecification/01", "5_semantic_faithfulness/02"]),
}                               # week: (reading, labs)


def minutes(name: str) -> int:
    """The minutes that the exercises of a page take, as estimated for each exercise."""
    page = find(name)
    return sum(exercise.minutes for exercise in exercises(page.notebook, page.name))


def table() -> str:
    """The plan as an HTML table, one row per week: reading, labs, minutes of the exercises."""
    def linked(names: list[str]) -> str:
        return "<br>".join(page_link(page.name, page.title) for page in map(find, names))

    rows = [(html.escape(week), linked(reading), linked(labs), str(sum(map(minutes, labs))))
            for week, (reading, labs) in WEEKS.items()]
    return html_table(("week", "reading", "labs", "minutes of exercises"), rows)
