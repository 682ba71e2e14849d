"""Files of others: in `PROBEBOOK_DATA`, in the cache, or downloaded over HTTPS and verified."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from probebook.base import DATA, UserError, cache_dir, cache_path, check_choice, read_yaml, sha256

if TYPE_CHECKING:  # the command line lists files without them
    import pandas as pd
    import requests

REGISTRY = DATA / "registry.yaml"


class Entry(BaseModel):
    """A file of `data/registry.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str  # path under PROBEBOOK_DATA and under the cache's folder "data"
    url: str | None  # https; none: `how` says how to get the file by hand from `source`
    source: str
    how: str | None = None
    sha256: str | None  # none: unknown; such a file is got by hand and not verified
    licence: str
    citation: str
    description: str

    @model_validator(mode="after")
    def _downloads_are_verified(self) -> Entry:
        otherwise = "otherwise url should be null, and `how` say how to get the file by hand"
        if self.url and not self.url.startswith("https://"):
            raise ValueError(f"url should begin with https://; {otherwise}")
        if self.url and not self.sha256:
            raise ValueError(f"a download needs a sha256; {otherwise}")
        if not self.url and not self.how:
            raise ValueError("a file without url needs `how` to get it by hand")
        return self


def entries() -> dict[str, Entry]:
    """name → entry, in the registry's order. UserError for a registry that is not as it should
    be."""
    try:
        return TypeAdapter(dict[str, Entry]).validate_python(read_yaml(REGISTRY))
    except ValidationError as e:
        first = e.errors()[0]
        raise UserError(
            f"{REGISTRY.name}: {' '.join(map(str, first['loc']))}: "
            f"{first['msg'].removeprefix('Value error, ')}"
        ) from None


def fetch(name: str) -> Path:
    """Path of a registered file, verified by its sha256.

    Licence and citation go to standard error when the file is first used. UserError: an unknown
    name, a file that cannot be had, or a wrong checksum.
    """
    known = entries()
    entry = known[check_choice(name, "data file", known)]
    path = _local_path(entry) or _download(name, entry)
    if entry.sha256 is None:
        print(f"{name}: its checksum is unknown, it was not verified", file=sys.stderr)
    elif sha256(path) != entry.sha256:
        origin = entry.url or entry.source
        raise UserError(f"{path}: wrong checksum: delete it and get it again from {origin}")
    _show_licence(name, entry)
    return path


def check() -> pd.DataFrame:
    """Which registered files are at hand.

    Columns: `name`, `file`, `found` (path, or ""), `ok` (False: missing or wrong, NA: checksum
    unknown).
    """
    import pandas as pd

    rows = []
    for name, entry in entries().items():
        path = _local_path(entry)
        if path is None:
            ok = False
        else:
            ok = pd.NA if entry.sha256 is None else sha256(path) == entry.sha256
        rows.append({"name": name, "file": entry.file, "found": str(path or ""), "ok": ok})
    return pd.DataFrame(rows).astype({"ok": "boolean"})


def _local_path(entry: Entry) -> Path | None:
    own = os.environ.get("PROBEBOOK_DATA")
    folders = [*([Path(own)] if own else []), cache_path() / "data"]
    return next((file for folder in folders if (file := folder / entry.file).is_file()), None)


def _download(name: str, entry: Entry) -> Path:
    if entry.url is None:
        raise UserError(
            f"{name} is not at hand: {entry.how} ({entry.source}), as {entry.file} "
            "under PROBEBOOK_DATA"
        )
    import pooch
    import requests

    target = cache_dir() / "data" / entry.file
    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(), timeout=30, hooks={"response": _only_https}
    )
    try:  # pooch downloads under another name and renames what has the right checksum
        return Path(
            pooch.retrieve(
                entry.url,
                f"sha256:{entry.sha256}",
                target.name,
                target.parent,
                downloader=downloader,
            )
        )
    except InsecureRedirect:
        problem = "leads to an address that is not https"
    except ValueError:
        problem = "gave a file with a wrong checksum"
    except (requests.RequestException, OSError) as e:
        problem = f"cannot be reached ({type(e).__name__})"
    raise UserError(
        f"{name}: {entry.url} {problem}: try again, or get it by hand from "
        f"{entry.source} and save it as {entry.file} under PROBEBOOK_DATA"
    )


class InsecureRedirect(Exception):
    """A server redirected us to an address without TLS."""


def _only_https(response: requests.Response, **_) -> None:
    """Called with every response, before a redirect is followed."""
    target = urljoin(response.url, response.headers.get("location", ""))
    if not target.startswith("https://"):
        raise InsecureRedirect


def _show_licence(name: str, entry: Entry) -> None:
    """Licence and citation on standard error, once per cache; files that share them share the
    notice."""
    notice = f"{entry.licence} · {entry.citation}"
    try:
        folder = cache_dir() / "licences_shown"
        shown = folder / hashlib.sha256(notice.encode()).hexdigest()[:16]
        if shown.exists():
            return
        folder.mkdir(exist_ok=True)
        shown.touch()
    except (UserError, OSError):
        pass  # without a cache folder the notice comes every time
    print(f"{name}: {notice}", file=sys.stderr)
