"""Scores of single items, read from the logs of two evaluation tools.

- lm-evaluation-harness, `samples_TASK_TIME.jsonl` (`--log_samples`): one JSON object for each item
  and filter, with doc_id, doc_hash, target, filter, metrics, and a field for each metric
- Inspect, `.eval` (a zip of JSON files: header.json, summaries.json, samples/ID_epoch_N.json; of a
  run that was killed only _journal/summaries/N.json) or one `.json`: samples with id, epoch, input,
  target, and scores, one for each scorer"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow

from probebook.base import LARGEST_READ, UserError, check_readable

LARGEST_LOG = 1 << 31  # bytes of a log that is read piece by piece
ZSTD = 93  # of a zip's ways to compress; Python's own reads it from 3.14 on
HARNESS, INSPECT = "lm-evaluation-harness", "Inspect"
KINDS = {".jsonl": HARNESS, ".eval": INSPECT, ".json": INSPECT}
NO_METRICS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter"}
NO_METRICS |= {"metrics", "doc_hash", "prompt_hash", "target_hash"}  # fields of the harness
CUT = 900  # characters; Inspect's summaries cut texts, its samples do not
WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # Inspect: correct, incorrect, partial, none
WORDS |= {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
TIME = r"_\d{4}-\d\d-\d\dT.*"  # that ends the name of a harness's log


class JoinedScores(NamedTuple):
    """Scores [n] of A and B on the items that both logs have, and what was done to get them.

    - `metric`: what they are; `items_a`, `items_b`: how many items each log has
    - `epochs`: the most answers that an item has in a log; an item's score is their mean
    - `unscored`: answers without a score that were given one
    - `invalidated`: answers that somebody marked as invalid in Inspect, which are left out
    - `unfinished`: of which logs the run did not come to its end, and how it ended"""

    a: np.ndarray
    b: np.ndarray
    metric: str
    items_a: int
    items_b: int
    epochs: int
    unscored: int
    invalidated: int
    unfinished: str

    def lines(self) -> dict[str, str]:
        """What was compared, as names and texts, one line each."""
        lines = {
            "metric": f"{self.metric}; the higher, the better",
            "items in both, in A, in B": f"{len(self.a):,}, {self.items_a:,}, {self.items_b:,}",
        }
        if self.epochs > 1:
            lines["epochs"] = f"up to {self.epochs} for each item; their mean is its score"
        if self.unscored:
            lines["answers without a score"] = f"{self.unscored:,}, which got the one given"
        if self.invalidated:
            lines["answers marked as invalid"] = f"{self.invalidated:,}, which were left out"
        if self.unfinished:
            lines["not run to the end"] = f"{self.unfinished}; only the items it reached count"
        return lines


def is_log(path: str | Path) -> bool:
    """Whether the file's name is that of a log (.jsonl, .eval or .json), or it is a folder."""
    return Path(path).suffix.lower() in KINDS or Path(path).is_dir()


def read(
    path_a: str | Path,
    path_b: str | Path,
    metric: str | None = None,
    filter: str | None = None,
    unscored: float | None = None,
) -> JoinedScores:
    """Two logs of one tool, joined by item: the harness's by the document's hash (or its number,
    where a log has no hashes), Inspect's by the sample's id. A folder stands for its logs, one of
    each task.

    `metric` (or scorer) and `filter` must be given if a log has several. `unscored`: the score of
    answers that have none, as those that failed; without it they are refused. UserError: another
    format, no common item, items that differ although they are called the same."""
    paths = [Path(path_a), Path(path_b)]
    logs = [_find_logs(path) for path in paths]
    kinds = [{KINDS.get(log.suffix.lower()) for log in found} for found in logs]
    if kinds[0] != kinds[1] or kinds[0] - {*KINDS.values()}:
        raise UserError(
            f"{path_a}, {path_b}: give two logs of one tool, samples_*.jsonl of "
            f"{HARNESS}, or .eval or .json of {INSPECT}"
        )
    several = max(map(len, logs)) > 1
    tables = [_read_logs(*both, several, filter) for both in zip(paths, logs)]
    ends = [(one, end) for one, table in zip("AB", tables) for end in dict.fromkeys(table.status)]
    invalidated = sum(int(table.invalid.sum()) for table in tables)
    tables = [table[~table.invalid] for table in tables]
    name = _choose_metric(tables, paths, metric)
    if all("hash" in table for table in tables):
        keyed = []
        for table in tables:  # texts that stand twice in a data set
            again = table.sort_values("item").groupby(["task", "hash"]).cumcount().astype(str)
            keyed.append(table.assign(item=table.task + table["hash"] + "#" + again))
        tables = keyed
    items, missing = zip(
        *(_score_items(table, path, name, unscored) for table, path in zip(tables, paths))
    )
    a, b = items
    common = a.index.intersection(b.index, sort=False)
    if common.empty:
        raise UserError(f"{path_a}, {path_b}: no item is in both; give two logs of the same task")
    other = int((a.about[common] != b.about[common]).sum())
    if other:
        raise UserError(
            f"{path_a}, {path_b}: {other:,} of {len(common):,} common items have "
            "another text or target; give two logs of the same task and version"
        )
    unfinished = ", ".join(f"{one} ({end})" for one, end in ends if end != "success")
    scores = a.score[common].to_numpy(), b.score[common].to_numpy()
    epochs = int(max(a.n.max(), b.n.max()))
    return JoinedScores(
        *scores, name, len(a), len(b), epochs, sum(missing), invalidated, unfinished
    )


def _find_logs(path: Path) -> list[Path]:
    """The logs of a folder and the folders in it; of a file itself."""
    if not path.is_dir():
        return [path]
    for form in ("samples_*.jsonl", "*.eval", "*.json"):
        found = [one.relative_to(path) for one in sorted(path.rglob(form))]
        seen = [path / one for one in found if not any(part[0] == "." for part in one.parts)]
        if seen:
            return seen
    raise UserError(
        f"{path} is a folder without a log: expected samples_*.jsonl of {HARNESS} "
        f"(--log_samples), or .eval or .json of {INSPECT}"
    )


def _read_logs(path: Path, logs: list[Path], several: bool, filter: str | None) -> pd.DataFrame:
    """`_read_log` of each log of a path; items are named by their task, too, if there are
    `several` logs."""
    tables = [_read_log(log, filter) for log in logs]
    tasks = [str(table.task.iloc[0]) for table in tables]
    twice = next((task for task in tasks if tasks.count(task) > 1), None)
    if twice is not None:
        names = [str(log.relative_to(path)) for log, task in zip(logs, tasks) if task == twice]
        raise UserError(f"{path} has {len(names)} logs of {twice}: give one, as {names[-1]}")
    whole = pd.concat(tables, ignore_index=True)
    task = whole.task + ": " if several else ""
    return whole.assign(task=task, item=task + whole["item"])


def _read_log(path: Path, filter: str | None) -> pd.DataFrame:
    """Rows of a log: item, epoch, about (what the item is), scores (metric → what stands there),
    invalid, task, status (how the run ended)."""
    about = {"status": "success", "task": re.sub(TIME, "", path.stem).removeprefix("samples_")}
    try:
        if path.suffix.lower() == ".jsonl":
            rows = _read_harness(path, filter)
        elif filter is not None:
            raise UserError(f"--filter {filter}: only logs of {HARNESS} have filters")
        else:
            header, rows = _read_inspect(path)
            about |= header
        table = pd.DataFrame(rows).assign(**about)
    except (
        *(OSError, RecursionError, KeyError, TypeError, AttributeError, ValueError),
        *(zlib.error, zipfile.BadZipFile, NotImplementedError),
    ) as e:
        if isinstance(e, UserError):
            raise
        tool = KINDS[path.suffix.lower()]
        what = f"no field {e}" if isinstance(e, KeyError) else " ".join(str(e).split())[:200]
        raise UserError(f"{path} is not a valid log of {tool} ({what})") from None
    if table.empty:
        raise UserError(f"{path}: no sample in it")
    if table.duplicated(["item", "epoch"]).any():
        twice = table.item[table.duplicated(["item", "epoch"])].iloc[0]
        raise UserError(f"{path}: item {twice} is there twice; give the log of one run")
    return table


def _read_harness(path: Path, filter: str | None) -> list[dict[str, Any]]:
    rows = []
    for sample in _read_lines(path):
        scores = {key: sample[key] for key in sample.get("metrics", sample.keys() - NO_METRICS)}
        row = {
            "item": str(sample["doc_id"]),
            "epoch": 1,
            "about": _fingerprint(sample["target"]),
            "invalid": False,
            "filter": sample.get("filter", "none"),
            "scores": scores,
        }
        rows.append(row | ({"hash": str(sample["doc_hash"])} if "doc_hash" in sample else {}))
    filters = list(dict.fromkeys(row["filter"] for row in rows))
    if filter is None and len(filters) > 1 or filter is not None and filter not in filters:
        raise UserError(
            f"{path} has the filter{'s' * (len(filters) > 1)} {', '.join(filters)}: "
            "give one by --filter"
        )
    return [row for row in rows if filter is None or row["filter"] == filter]


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(check_readable(path, LARGEST_LOG), "rb") as file:
        while line := file.readline(LARGEST_READ):
            if line.strip():
                yield json.loads(line)


def _read_inspect(path: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    if path.suffix.lower() == ".json":
        log = json.loads(check_readable(path).read_bytes())
        if "samples" not in log:
            raise UserError(
                f"{path}: no samples in it; give a log of {INSPECT} that was written "
                f"with them, or the samples_*.jsonl of {HARNESS}"
            )
        header = log
        samples: Iterable[dict[str, Any]] = log["samples"] or []
    else:
        with zipfile.ZipFile(check_readable(path, LARGEST_LOG)) as archive:
            ended = "header.json" in archive.namelist()  # written when a run ends
            header = json.loads(_unpack(archive, "header.json")) if ended else {"status": "killed"}
            samples = list(_read_archive(archive, header.get("invalidated", False)))
    about = {"status": header.get("status", "success")}
    task = header.get("eval", {}).get("task")
    return about | ({"task": task} if task else {}), [
        {
            "item": str(sample["id"]),
            "epoch": sample["epoch"],
            "about": _fingerprint([_shorten(sample["target"]), _shorten(sample["input"])]),
            "scores": dict(_by_scorer(sample.get("scores") or {})),
            "invalid": bool(sample.get("invalidation")),
        }
        for sample in samples
    ]


def _shorten(text: Any) -> Any:
    """The beginning of a text or of several; of messages nothing."""
    if isinstance(text, str):
        return " ".join(text.split())[:CUT]
    return [_shorten(one) for one in text if isinstance(one, str)]


def _read_archive(archive: zipfile.ZipFile, invalidated: bool) -> Iterator[dict[str, Any]]:
    """The samples' summaries, else (of a run that was killed) those of its parts, else the
    samples themselves, which alone tell that they are `invalidated`. Of each file only what is
    needed is kept."""
    names = archive.namelist()
    whole = [name for name in ("summaries.json", "summary.json") if name in names]
    parts = [name for name in names if name.removeprefix("_journal/").startswith("summaries/")]
    single = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    for name in (invalidated and single) or whole[:1] or parts or single:
        content = json.loads(_unpack(archive, name))
        for sample in content if isinstance(content, list) else [content]:
            fields = ("id", "epoch", "input", "target", "scores", "invalidation")
            yield {key: sample[key] for key in fields if key in sample}


def _unpack(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of the zip, also one packed by Zstandard, as Inspect writes them now."""
    packed = archive.getinfo(name)
    if packed.file_size > LARGEST_READ:
        raise UserError(
            f"{archive.filename}: {name} in it has {packed.file_size / 1e6:,.0f} MB: "
            f"at most {LARGEST_READ / 1e6:,.0f} are read"
        )
    if packed.compress_type != ZSTD:
        return archive.read(name)
    packed_only = copy(packed)
    packed_only.compress_type, packed_only.file_size = zipfile.ZIP_STORED, packed.compress_size
    del packed_only.CRC  # it is that of what comes out
    with (
        archive.open(packed_only) as file,
        pyarrow.input_stream(file, compression="zstd") as unpacked,
    ):
        content = unpacked.read(packed.file_size)
    if zlib.crc32(content) != packed.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {name!r}")
    return content


def _by_scorer(scores: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Name and value of each score; a scorer with several values gives one name for each."""
    for scorer, score in scores.items():
        value = score["value"]
        if isinstance(value, dict):
            yield from ((f"{scorer}.{key}", one) for key, one in value.items())
        else:
            yield scorer, value


def _fingerprint(value: Any) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())


def _choose_metric(tables: list[pd.DataFrame], paths: list[Path], wanted: str | None) -> str:
    """The one metric of both logs, or the one asked for."""
    names = [list(Counter(name for scores in table.scores for name in scores)) for table in tables]
    for path, metrics in zip(paths, names):
        if not metrics:
            raise UserError(f"{path}: none of its samples has a score")
        if wanted is not None and wanted not in metrics:
            raise UserError(f"{path} has no metric {wanted!r} but {', '.join(metrics)}")
    common = [name for name in names[0] if name in names[1]]
    if wanted is None and len(common) != 1:
        raise UserError(
            f"{paths[0]} has the metrics {', '.join(names[0])}, {paths[1]} "
            f"{', '.join(names[1])}: give one that both have by --metric"
        )
    return wanted or common[0]


def _score_items(
    table: pd.DataFrame, path: Path, metric: str, unscored: float | None
) -> tuple[pd.DataFrame, int]:
    """Score, n and about by item, and how many answers had no score."""
    score = pd.Series(
        [_number(scores.get(metric), path, metric) for scores in table.scores], table.index
    )
    missing = int(score.isna().sum())
    if missing and unscored is None:
        have, them = ("has", "it") if missing == 1 else ("have", "them")
        raise UserError(
            f"{path}: {missing:,} of {len(score):,} answers {have} no {metric}; "
            f"--unscored 0 counts {them} as wrong"
        )
    filled = table.assign(score=score.fillna(0.0 if unscored is None else unscored))
    items = filled.groupby("item", sort=False)
    means = items.agg(score=("score", "mean"), n=("score", "size"), about=("about", "first"))
    return means, missing


def _number(value: Any, path: Path, metric: str) -> float:
    """A score as a number, NaN where there is none."""
    if value is None or isinstance(value, int | float):
        return np.nan if value is None else float(value)
    if isinstance(value, str):
        word = value if value in WORDS else value.lower()
        try:
            return WORDS[word] if word in WORDS else float(value)
        except ValueError:
            pass
    raise UserError(
        f"{path}: {metric} is {str(value)[:40]!r} for an item: one number for each item is needed"
    )
