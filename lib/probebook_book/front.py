"""The front page's table: what became of the five papers, on what evidence."""

from __future__ import annotations

import html
from collections import Counter

from probebook_book.findings import Outcome, html_table, page_link, verdicts

COUNTED: dict[Outcome, tuple[str, str]] = {  # of one claim, of several
    "holds": ("holds", "hold"),
    "partly": ("holds in part", "hold in part"),
    "open": ("is open", "are open"),
    "not": ("does not hold", "do not hold"),
}


def verdict_table() -> str:
    """One row per paper as HTML: its question, what became of its claims, the kinds of evidence."""
    rows = []
    for paper in verdicts():
        found = Counter(claim.verdict for claim in paper.claims)
        counts = ", ".join(
            f"{found[outcome]} {words[found[outcome] > 1]}"
            for outcome, words in COUNTED.items()
            if found[outcome]
        )
        kinds = dict.fromkeys(claim.kind for claim in paper.claims)
        link = page_link(f"book/paper_{paper.paper}", paper.title)
        rows.append(
            [
                f"{paper.paper} · {link}",
                html.escape(paper.question),
                f"of {len(paper.claims)} claims: {counts}",
                ", ".join(kinds),
            ]
        )
    return html_table(("paper", "its question", "in this book", "nearest evidence"), rows)
