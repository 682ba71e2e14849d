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
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import chain
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
SOME = 5  # of many names that a line lists
CUT = 900  # characters; Inspect's summaries cut texts, its samples do not
WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # Inspect: correct, incorrect, partial, none
WORDS |= {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
TIME = r"_\d{4}-\d\d-\d\dT.*"  # that ends the name of a harness's log


class Suite(NamedTuple):
    """Two runs, joined by task and item; the names of the tasks that only one of them has.

    `tasks`, a row for each task that both have:

    - a, b [n]: scores on the items that both logs have; items_a, items_b: how many each log has
    - clusters [n]: to which cluster an item belongs; None where the task has no such column
    - metric: of the scores, with the filter; epochs: the most answers that an item has in a log; an
      item's score is their mean; unscored: answers without a score that were given one
    - invalidated, swapped: names of what was left out: answers that somebody marked as invalid in
      Inspect; items with another text or target in B
    - unfinished: of which logs the run did not come to its end, and how it ended"""

    tasks: pd.DataFrame
    only_a: list[str]
    only_b: list[str]

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores [n] of A and B on the items of all tasks."""
        return np.concatenate([*self.tasks.a]), np.concatenate([*self.tasks.b])

    def lines(self) -> dict[str, str]:
        """What was compared, as names and texts, one line each."""
        tasks = self.tasks
        ends = [f"{task}: {end}" for task, end in tasks.unfinished.items() if end]
        items = len(self.scores()[0]), tasks.items_a.sum(), tasks.items_b.sum()
        epochs, unscored = tasks.epochs.max(), tasks.unscored.sum()
        lines = {
            "metric": f"{', '.join(tasks.metric.unique())}; the higher, the better",
            "items in both, in A, in B": ", ".join(map("{:,}".format, items)),
            "epochs": epochs > 1 and f"up to {epochs} for each item; their mean is its score",
            "answers without a score": unscored and f"{unscored:,}, which got the one given",
            "answers marked as invalid": _say_left_out(tasks.invalidated.sum()),
            "items with another text or target": _say_left_out(tasks.swapped.sum()),
            "not run to the end": ends and f"{', '.join(ends)}; only the items it reached count",
            "tasks that only A has": ", ".join(self.only_a),
            "tasks that only B has": ", ".join(self.only_b),
        }
        return {name: text for name, text in lines.items() if text}


def is_log(path: str | Path) -> bool:
    """Whether the file's name is that of a log (.jsonl, .eval or .json), or it is a folder."""
    return Path(path).suffix.lower() in KINDS or Path(path).is_dir()


def read(
    path_a: str | Path,
    path_b: str | Path,
    metrics: Sequence[str] = (),
    filters: Sequence[str] = (),
    unscored: float | None = None,
    cluster: str | None = None,
) -> Suite:
    """Two logs of one task, whatever they are called, or two folders of logs, one of each task. The
    harness's items are joined by the document's hash (or its number, where a log has no hashes),
    Inspect's by the sample's id.

    Of a task's `metrics` (or scorers) the first counts that both logs have, else the only one that
    both have; so do `filters`. `unscored`: the score of answers that have none, as those that
    failed; without it they are refused. `cluster`: a field of the harness's `doc`, or of Inspect's
    metadata. UserError: another format, no common task or item, a choice that is open or not there,
    a task all of whose items differ although they are called the same."""
    paths = [Path(path_a), Path(path_b)]
    logs = [_find_logs(path) for path in paths]
    kinds = [{KINDS.get(log.suffix.lower()) for log in found} for found in logs]
    if not kinds[0] & kinds[1] or None in kinds[0] | kinds[1]:
        raise UserError(
            f"{path_a}, {path_b}: give two logs of one tool, samples_*.jsonl of "
            f"{HARNESS}, or .eval or .json of {INSPECT}"
        )
    runs = [_read_logs(path, found, cluster) for path, found in zip(paths, logs)]
    if len(runs[0]) == len(runs[1]) == 1:
        runs[1] = dict(zip(runs[0], runs[1].values()))
    both = {task: [run[task] for run in runs] for task in runs[0] if task in runs[1]}
    if not both:
        names = " and ".join(f"{path} ({', '.join(run)})" for path, run in zip(paths, runs))
        raise UserError(f"{names} have no task in common")
    wanted = {"filter": filters, "metric": metrics, "column": [cluster] if cluster else []}
    for path, run in zip(paths, runs):
        whole = pd.concat(run.values())
        known = {"filter": whole["filter"], "metric": chain(*whole.scores)}
        for what, names in (known | {"column": chain(*whole.fields)}).items():
            there = dict.fromkeys(names)
            for name in wanted[what]:
                if name not in there:
                    raise UserError(
                        f"{path} has no {what} {name!r} but {', '.join(there) or 'none'}"
                    )
    rows = [_join(task, both[task], paths, metrics, filters, unscored, cluster) for task in both]
    only = [[task for task in run if task not in both] for run in runs]
    return Suite(pd.DataFrame(rows, [*both]).rename_axis("task"), *only)


def _find_logs(path: Path) -> list[Path]:
    """The logs of a folder and the folders in it; of a file itself."""
    if not path.exists():
        raise UserError(f"{path}: No such file or directory")
    if not path.is_dir():
        return [path]
    for forms in (("samples_*.jsonl", "*.eval"), ("*.json",)):
        found = [one.relative_to(path) for form in forms for one in sorted(path.rglob(form))]
        seen = [path / one for one in found if not any(part[0] == "." for part in one.parts)]
        if seen:
            return seen
    raise UserError(
        f"{path} is a folder without a log: expected samples_*.jsonl of {HARNESS} "
        f"(--log_samples), or .eval or .json of {INSPECT}"
    )


def _read_logs(path: Path, logs: list[Path], cluster: str | None) -> dict[str, pd.DataFrame]:
    """`_read_log` of each log of a path, by task."""
    tables = [_read_log(log, cluster) for log in logs]
    tasks = [str(table.task.iloc[0]) for table in tables]
    twice = next((task for task in tasks if tasks.count(task) > 1), None)
    if twice is not None:
        names = [str(log.relative_to(path)) for log, task in zip(logs, tasks) if task == twice]
        raise UserError(f"{path} has {len(names)} logs of {twice}: give one, as {names[-1]}")
    return dict(zip(tasks, tables))


def _choose(what: str, names: Sequence[Iterable[str]], wanted: Sequence[str], where: str) -> str:
    """The first name wanted that both logs have, else the only one that both have."""
    a, b = (list(dict.fromkeys(one)) for one in names)
    common = [name for name in a if name in b]
    first = [name for name in wanted if name in common]
    if not common:
        each = f"A has {', '.join(a) or 'none'}, B {', '.join(b) or 'none'}"
        raise UserError(f"{where}no {what} is in both: {each}")
    if not first and len(common) > 1:
        raise UserError(f"{where}give one of the {what}s {', '.join(common)} by --{what}")
    return (first or common)[0]


def _say_left_out(names: Sequence[str]) -> str:
    some = ", ".join(names[:SOME]) + ", …" * (len(names) > SOME)
    return f"{len(names):,}, which were left out: {some}" if names else ""


def _read_log(path: Path, cluster: str | None) -> pd.DataFrame:
    """Rows of a log: id, epoch, filter, about (what the item is), scores (metric → what stands
    there), fields (of the item, if clusters are asked for), invalid, task, status (how the run
    ended)."""
    about = {"status": "success", "task": re.sub(TIME, "", path.stem).removeprefix("samples_")}
    try:
        if path.suffix.lower() == ".jsonl":
            rows = _read_harness(path, cluster)
        else:
            header, rows = _read_inspect(path, cluster)
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
    twice = table["id"][table.duplicated(["id", "epoch", "filter"])]
    if len(twice):
        raise UserError(f"{path}: item {twice.iloc[0]} is there twice; give the log of one run")
    return table


def _read_harness(path: Path, cluster: str | None) -> list[dict[str, Any]]:
    rows = []
    for sample in _read_lines(path):
        scores = {key: sample[key] for key in sample.get("metrics", sample.keys() - NO_METRICS)}
        row = {
            "id": str(sample["doc_id"]),
            "epoch": 1,
            "about": _fingerprint(sample["target"]),
            "invalid": False,
            "filter": sample.get("filter", "none"),
            "scores": scores,
            "fields": dict(sample.get("doc") or {}) if cluster else {},
        }
        rows.append(row | ({"hash": str(sample["doc_hash"])} if "doc_hash" in sample else {}))
    return rows


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(check_readable(path, LARGEST_LOG), "rb") as file:
        while line := file.readline(LARGEST_READ):
            if line.strip():
                yield json.loads(line)


def _read_inspect(path: Path, cluster: str | None) -> tuple[dict[str, str], list[dict[str, Any]]]:
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
            names = archive.namelist()
            about = [name for name in ("header.json", "_journal/start.json") if name in names]
            header = json.loads(_unpack(archive, about[0])) if about else {}
            if "header.json" not in about:  # it is written when a run ends
                header["status"] = "killed"
            samples = list(_read_archive(archive, header.get("invalidated", False)))
    status = {"status": header.get("status", "success")}
    task = header.get("eval", {}).get("task")
    return status | ({"task": task} if task else {}), [
        {
            "id": str(sample["id"]),
            "epoch": sample["epoch"],
            "about": _fingerprint([_shorten(sample["target"]), _shorten(sample["input"])]),
            "filter": "none",
            "scores": dict(_by_scorer(sample.get("scores") or {})),
            "fields": dict(sample.get("metadata") or {}) if cluster else {},
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
            fields = ("id", "epoch", "input", "target", "scores", "metadata", "invalidation")
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


def _join(
    task: str,
    tables: Sequence[pd.DataFrame],
    paths: Sequence[Path],
    metrics: Sequence[str],
    filters: Sequence[str],
    unscored: float | None,
    cluster: str | None,
) -> dict[str, Any]:
    """A row of `Suite.tasks`."""
    names = f"{paths[0]}, {paths[1]}: in {task}, "
    filter = _choose("filter", [table["filter"] for table in tables], filters, names)
    tables = [table[table["filter"] == filter] for table in tables]
    metric = _choose("metric", [chain(*table.scores) for table in tables], metrics, names)
    key = "hash" if all("hash" in table for table in tables) else "id"
    a, b = (
        _score_items(table[~table.invalid], f"{path}, {task}", key, metric, unscored)
        for table, path in zip(tables, paths)
    )
    common = a.index.intersection(b.index, sort=False)
    if common.empty:
        raise UserError(f"{names}no item is in both; give two logs of the same task")
    other = (a.about[common] != b.about[common]).to_numpy()
    if other.all():
        raise UserError(
            f"{names}{len(common):,} of {len(common):,} common items have another text or target; "
            "give two logs of the same task and version"
        )
    renamed = a["id"].drop(common)  # of texts that the other log lacks
    swapped = [*a["id"][common[other]], *renamed[renamed.isin(b["id"].drop(common))]]
    common = common[~other]
    clusters = [json.dumps(one.get(cluster), sort_keys=True) for one in a.fields[common]]
    lacking = clusters.count("null")
    if 0 < lacking < len(common):
        raise UserError(f"{names}{lacking:,} of {len(common):,} items have no {cluster!r}")
    if len(common if lacking else {*clusters}) < 2:
        raise UserError(f"{names}there are fewer than two items or clusters to compare")
    runs = dict(zip("AB", tables))
    ends = [f"{run} ({end})" for run in runs for end in runs[run].status[:1] if end != "success"]
    return {
        "a": a.score[common].to_numpy(),
        "b": b.score[common].to_numpy(),
        "clusters": None if lacking else np.array(clusters),
        "items_a": len(a),
        "items_b": len(b),
        "epochs": max(a.n.max(), b.n.max()),
        "unscored": a.missing.sum() + b.missing.sum(),
        "invalidated": [
            f"{task} {name} in {run}" for run in runs for name in runs[run]["id"][runs[run].invalid]
        ],
        "swapped": [f"{task} {name}" for name in swapped],
        "unfinished": ", ".join(ends),
        "metric": metric + f",{filter}" * (filter != "none"),
    }


def _score_items(
    table: pd.DataFrame, where: str, key: str, metric: str, unscored: float | None
) -> pd.DataFrame:
    """By item: score, n (answers), missing (answers without a score), about, id, fields."""
    score = [_number(scores.get(metric), where, metric) for scores in table.scores]
    table = table.assign(score=np.array(score, float), missing=np.isnan(score))
    missing = table.missing.sum()
    if missing and unscored is None:
        have, them = ("has", "it") if missing == 1 else ("have", "them")
        raise UserError(
            f"{where}: {missing:,} of {len(table):,} answers {have} no {metric}; "
            f"--unscored 0 counts {them} as wrong"
        )
    table["score"] = table.score.fillna(unscored or 0.0)
    if key == "hash":  # texts that stand twice in a data set
        again = table.sort_values("id").groupby("hash").cumcount().astype(str)
        table["hash"] += "#" + again
    items = table.groupby(key, sort=False)
    first = {name: (name, "first") for name in ("about", "id", "fields")}
    return items.agg(
        score=("score", "mean"), n=("score", "size"), missing=("missing", "sum"), **first
    )


def _number(value: Any, where: str, metric: str) -> float:
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
        f"{where}: {metric} is {str(value)[:40]!r} for an item: one number for each item is needed"
    )
