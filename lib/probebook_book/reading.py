"""How long a page takes: to read, to do its exercises, to run.

minutes(find("1_causal_probing/03"))                # 40
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probebook_runs.labs.exercises import exercises
from probebook_runs.pages import Page

if TYPE_CHECKING:
    from nbformat import NotebookNode

WORDS, LINES = 105, 15  # of text, of code in a minute; over 44 readings right on the whole
FIGURE, TABLE = 1.5, 2  # minutes
FOLDED = {"hide-cell", "hide-input", "remove-cell", "remove-input"}
FOLDED |= {"parameters", "injected-parameters"}
FOLD = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?:dropdown|admonition|try-it)\}.*?^(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Amount:
    """What there is to read on a page before its exercises, outside of folds."""

    words: int
    lines: int  # of code
    figures: int
    tables: int

    @property
    def minutes(self) -> int:
        shown = self.figures * FIGURE + self.tables * TABLE
        return round(self.words / WORDS + self.lines / LINES + shown)


def amount(page: Page) -> Amount:
    """Words, lines of code, figures and tables before the exercises of a page, outside of folds."""
    if "```{code-cell}" not in page.source:
        return Amount(_words(page.source), 0, 0, 0)
    return _amount(page.notebook)


def _amount(notebook: NotebookNode) -> Amount:
    words = lines = figures = tables = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text, exercise, _ = cell.source.partition("## Exercises\n")
            words += _words(text)
            if exercise:
                break
        else:
            folded = FOLDED & set(cell.metadata.get("tags", []))
            lines += 0 if folded else len(cell.source.splitlines())
            about = cell.metadata.get("mystnb", {})
            figures, tables = figures + ("figure" in about), tables + ("table" in about)
    return Amount(words, lines, figures, tables)


def _words(text: str) -> int:
    return len(re.findall(r"[A-Za-z]\S*", re.sub(r"\{[\w:]+\}", "", FOLD.sub("", text))))


def minutes(page: Page) -> int:
    """The minutes that reading a page takes, without its exercises."""
    return amount(page).minutes


def exercise_minutes(page: Page) -> int:
    """The minutes that the exercises of a page take, as estimated for each."""
    return sum(exercise.minutes for exercise in exercises(page.notebook, page.name))


def add_times(text: str, executed: NotebookNode, seconds: float) -> str:
    """A page's first text with its times, at the head of its box `needs`.

    There is a switch for all code, and one for all numbers where a fold holds a table."""
    ran = "a minute" if seconds < 90 else f"{seconds / 60:.0f} minutes"
    work = sum(exercise.minutes for exercise in exercises(executed))
    times = (
        f"**{_amount(executed).minutes} minutes to read**, about {work} more for the "
        f"exercises; the page runs in {ran if seconds > 45 else 'under a minute'}. "
        f"{' '.join(map(_switch, _folds(executed)))} "
        "{doc}`How to read intervals </book/statistics>`"
    )
    return text.replace(":::{div} needs\n", f":::{{div}} needs\n{times}\n\n", 1)


def _folds(executed: NotebookNode) -> list[str]:
    code = numbers = False
    for cell in executed.cells:
        tags = set(cell.metadata.get("tags", []))
        code |= "hide-input" in tags
        tables = (
            "<table" in output.get("data", {}).get("text/html", "")
            for output in cell.get("outputs", [])
        )
        numbers |= bool(tags & {"hide-cell", "hide-output"}) and any(tables)
    return ["code"] * code + ["numbers"] * numbers


def _switch(folds: str) -> str:
    """A button that opens and closes all of a page's folds of a kind (`folds.js`)."""
    return (
        f'<button class="fold-switch" data-folds="{folds}" type="button">Show all {folds}</button>'
    )
