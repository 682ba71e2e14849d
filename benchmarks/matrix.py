"""Which pages run with a model of which architecture: fifteen random ones on every page, in smoke.

    .venv/bin/python benchmarks/matrix.py [PAGE …] [ARCHITECTURE …]

data/records/benchmarks/matrix.csv gets a row for each page and architecture; the book's page *Which
models fit which pages* shows it. With pages (1_causal_probing/03, 5_) or architectures (t5 bart)
only their rows are made again. About 40 minutes on two cores. tests/test_matrix.py runs the same,
and fails where a page does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from probebook.base import DATA
from probebook.hub import kind
from probebook_runs.execute import kernel_environment, server_of
from probebook_runs.pages import pages

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import zoo  # noqa: E402

TABLE = DATA / "records" / "benchmarks" / "matrix.csv"
KEY = ["page", "architecture"]


def main() -> None:
    order = [*zoo.ZOO]
    names = [word for word in sys.argv[1:] if word in order] or order
    begins = tuple(word for word in sys.argv[1:] if word not in order) or ("",)
    chosen = [page for page in pages() if zoo.takes(page) and page.name.startswith(begins)]
    folders = {name: folder for name, folder in zoo.kept().items() if name in names}
    with server_of(chosen) as server, kernel_environment(1, "smoke"):
        for page in chosen:
            rows = []
            for name, folder in folders.items():
                what, why, seconds = zoo.outcome(page, folder, server)
                why = why.replace(folder, name).replace("\n", " ")
                rows.append((page.name, name, kind(folder), what, seconds, why))
                print(*rows[-1], sep="\t", flush=True)
            made = pd.DataFrame(rows, columns=[*KEY, "kind", "outcome", "seconds", "why"])
            kept = [pd.read_csv(TABLE, keep_default_na=False)] if TABLE.exists() else []
            together = pd.concat([*kept, made]).drop_duplicates(KEY, keep="last")
            together = together.sort_values("architecture", key=lambda x: x.map(order.index))
            together.sort_values("page", kind="stable").to_csv(TABLE, index=False)


if __name__ == "__main__":
    main()
