"""Rubrics of the written answers, as `book/rubrics.yaml` holds them: what is worth how much.

rubrics(find("1_causal_probing/01"))        # {4: "2 points: Names both …\n1 point: …"}
"""

from __future__ import annotations

from probebook.base import UserError, read_yaml
from probebook_runs.labs.exercises import exercises
from probebook_runs.pages import Page, home

POINTS = {"full": "2 points", "partial": "1 point", "wrong": "0 points"}


def rubrics(page: Page) -> dict[int, str]:
    """How to mark the interpretations of a page: by exercise, a line for 2, 1 and 0 points.

    UserError: the page's entry in the file lacks one of the three."""
    path = home() / "book" / "rubrics.yaml"
    given = read_yaml(path).get(page.name) if path.exists() else None
    if given is None:
        return {}
    if set(given) != set(POINTS):
        raise UserError(f"{path.name}: {page.name} should have {', '.join(POINTS)}")
    lines = "\n".join(f"{points}: {given[kind]}" for kind, points in POINTS.items())
    return {
        exercise.number: lines
        for exercise in exercises(page.notebook, page.name)
        if exercise.kind == "interpretation"
    }
