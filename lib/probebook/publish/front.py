"""The front page's table: what became of the five papers, on what evidence."""
from __future__ import annotations

import html
from collections import Counter

from probebook.publish.findings import SAID, html_table, verdicts


def verdict_table() -> str:
    """One row per paper as HTML: its question, what became of its claims, the kinds of evidence."""
    rows = []
    for paper in verdicts():
        found = Counter(claim.verdict for claim in paper.claims)
        counts = "; ".join(f"{count} {SAID[outcome]}" for outcome, count in found.items())
        kinds = dict.fromkeys(claim.kind for claim in paper.claims)
        link = f'<a href="paper_{paper.paper}.html">{html.escape(paper.title)}</a>'
        rows.append([f"{paper.paper} · {link}", html.escape(paper.question),
                     f"of {len(paper.claims)} claims: {counts}", ", ".join(kinds)])
    return html_table(("paper", "its question", "in this book", "nearest evidence"), rows)
