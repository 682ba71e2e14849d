"""How long the pages' own runs took: smoke and pocket, from the records of the runs that are here.

    .venv/bin/python benchmarks/durations.py

data/durations.csv orders the runs of a build and tells its time left. Runs with other values are
left aside; of several runs the newest counts, and a page without any keeps its row.
"""

from __future__ import annotations

import pandas as pd

from probebook.base import DATA
from probebook_book.build import _book_notebooks
from probebook_runs.pages import Page, pages
from probebook_runs.records import read_record
from probebook_runs.store import plan

TABLE = DATA / "durations.csv"
KEY = ["page", "profile"]


def seconds(page: Page, profile: str) -> float | None:
    """Seconds of the newest run of a page with its profile's values; None: there is none."""
    run = plan(page, profile)
    records = [
        record
        for path in run.folder.parent.glob("*")
        if (record := read_record(path))
        and (record.profile, record.parameters) == (profile, run.values)
    ]
    return max(records, key=lambda record: record.finished).seconds if records else None


def main() -> None:
    before = pd.read_csv(TABLE).set_index(KEY).seconds
    now = {
        (page.name, profile): seconds(page, profile) or before.get((page.name, profile))
        for page in [*pages(), *_book_notebooks()]
        for profile in ("pocket", "smoke")
    }
    rows = [(*key, found) for key, found in sorted(now.items()) if found]
    pd.DataFrame(rows, columns=[*KEY, "seconds"]).to_csv(TABLE, index=False)
    print(f"{TABLE.name}: {len(rows)} rows")


if __name__ == "__main__":
    main()
