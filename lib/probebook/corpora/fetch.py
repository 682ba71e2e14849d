"""Files of others: in `PROBEBOOK_DATA`, else in the cache, else downloaded over HTTPS and verified."""
from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from probebook.base import DATA, UserError, cache_dir, cache_path, read_yaml, sha256

if TYPE_CHECKING:              # the command line lists files without them
    import pandas as pd
    import requests

REGISTRY = DATA / "registry.yaml"


class Entry(BaseModel):
    """A file of `data/registry.yaml`."""
    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str               # path under PROBEBOOK_DATA and under the cache's folder "data"
    url: str | None         # of the original, https; none: `how` says how to get it by hand from `source`
    source: str
    how: str | None = None
    sha256: str | None      # none: unknown; such a file is got by hand and not verified
    licence: str
    citation: str
    description: str

    @model_validator(mode="after")
    def _downloads_are_verified(self) -> Entry:
        if self.url and not self.url.startswith("https://"):
            raise ValueError("url should begin with https://; else null, and `how` to get the file by hand")
        if self.url and not self.sha256:
            raise ValueError("a download needs a sha256; else url should be null, and `how` to get the file by hand")
        if not self.url and not self.how:
            raise ValueError("a file without url needs `how` to get it by hand")
        return self


def entries() -> dict[str, Entry]:
    """name → entry, in the registry's order."""
    try:
        return TypeAdapter(dict[str, Entry]).validate_python(read_yaml(REGISTRY))
    except ValidationError as e:
        first = e.errors()[0]
        raise UserError(f"{REGISTRY.name}: {' '.join(map(str, first['loc']))}: "
                        f"{first['msg'].removeprefix('Value error, ')}") from None


def fetch(name: str) -> Path:
    """Path of a registered file, verified by its sha256. Shows licence and citation when first used."""
    known = entries()
    if name not in known:
        raise UserError(f"unknown data file {name!r}: one of {', '.join(known)}")
    entry = known[name]
    path = next((place for place in _places(entry) if place.is_file()), None) or _download(name, entry)
    if entry.sha256 is None:
        print(f"{name}: its checksum is unknown, it was not verified", file=sys.stderr)
    elif sha256(path) != entry.sha256:
        raise UserError(f"{path}: wrong checksum: delete it and get it again from {entry.url or entry.source}")
    _show_licence(name, entry)
    return path


def check() -> pd.DataFrame:
    """Columns `name`, `file`, `found` (path, "" if nowhere), `ok` (False: missing or wrong, NA: checksum unknown)."""
    import pandas as pd
    rows = []
    for name, entry in entries().items():
        path = next((place for place in _places(entry) if place.is_file()), None)
        ok = False if path is None else pd.NA if entry.sha256 is None else sha256(path) == entry.sha256
        rows.append({"name": name, "file": entry.file, "found": str(path or ""), "ok": ok})
    return pd.DataFrame(rows).astype({"ok": "boolean"})


def _places(entry: Entry) -> Iterator[Path]:
    if folder := os.environ.get("PROBEBOOK_DATA"):
        yield Path(folder) / entry.file
    yield cache_path() / "data" / entry.file


def _download(name: str, entry: Entry) -> Path:
    if entry.url is None:
        raise UserError(f"{name} is not at hand: {entry.how} ({entry.source}), as {entry.file} under PROBEBOOK_DATA")
    import pooch
    import requests
    target = cache_dir() / "data" / entry.file
    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30, hooks={"response": _only_https})
    try:                    # pooch downloads under another name and renames what has the right checksum
        return Path(pooch.retrieve(entry.url, f"sha256:{entry.sha256}", target.name, target.parent,
                                   downloader=downloader))
    except InsecureRedirect:
        problem = "leads to an address that is not https"
    except ValueError:
        problem = "what came has a wrong checksum"
    except (requests.RequestException, OSError) as e:
        problem = f"cannot be reached ({type(e).__name__})"
    raise UserError(f"{name}: {entry.url} {problem}: try again, or get it by hand from {entry.source} "
                    f"and save it as {entry.file} under PROBEBOOK_DATA")


class InsecureRedirect(Exception):
    """A server sent us on to an address without TLS."""


def _only_https(response: requests.Response, **_) -> None:
    """Called with every response, before a redirect is followed."""
    if not urljoin(response.url, response.headers.get("location", "")).startswith("https://"):
        raise InsecureRedirect


def _show_licence(name: str, entry: Entry) -> None:
    """Licence and citation on standard error, once per cache (files with the same ones together)."""
    notice = f"{entry.licence} · {entry.citation}"
    try:
        seen = cache_dir() / "licences_shown" / hashlib.sha256(notice.encode()).hexdigest()[:16]
        if seen.exists():
            return
        seen.parent.mkdir(exist_ok=True)
        seen.touch()
    except (UserError, OSError):
        pass                # a folder of data is enough to read it; then the notice comes each time
    print(f"{name}: {notice}", file=sys.stderr)
