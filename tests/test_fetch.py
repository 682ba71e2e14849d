"""Files of others: where they are found, what is verified, and what a failed download leaves behind."""
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from probebook.base import UserError
from probebook.corpora import fetch as room

GOOD = b"the keys to the cabinet are on the table\n" * 100


class _Server(BaseHTTPRequestHandler):
    def do_GET(self):
        body = {"/good": GOOD, "/truncated": GOOD[:1_000], "/wrong": GOOD.upper()}.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(GOOD)))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = HTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Write a registry of one entry, "text", in a world with an empty cache and no PROBEBOOK_DATA."""
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROBEBOOK_DATA", raising=False)
    monkeypatch.setattr(room, "REGISTRY", tmp_path / "registry.yaml")

    def write(**fields):
        entry = {"file": "folder/text.txt", "url": None, "source": "https://example.org", "how": "ask for it",
                 "sha256": hashlib.sha256(GOOD).hexdigest(), "licence": "CC BY 4.0", "citation": "Author (2020), Title",
                 "description": "a text"} | fields
        room.REGISTRY.write_text(yaml.safe_dump({"text": entry}), encoding="utf-8")
    return write


def _refused() -> str:
    with pytest.raises(UserError) as e:
        room.fetch("text")
    assert "\n" not in str(e.value)
    return str(e.value)


def _files(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_download_is_verified_kept_and_cited_once(registry, address, tmp_path, capsys):
    registry(url=f"{address}/good")
    path = room.fetch("text")
    assert path == tmp_path / "cache" / "data" / "folder" / "text.txt" and path.read_bytes() == GOOD
    assert "CC BY 4.0 · Author (2020), Title" in capsys.readouterr().err
    registry(url="http://127.0.0.1:9/gone")                     # now from the cache, and quietly
    assert room.fetch("text") == path
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("page", ["truncated", "wrong", "missing"])
def test_a_bad_download_never_counts(registry, address, tmp_path, page):
    registry(url=f"{address}/{page}")
    message = _refused()
    assert f"{address}/{page}" in message and "text: " in message and "folder/text.txt under PROBEBOOK_DATA" in message
    assert _files(tmp_path / "cache") == []


def test_a_truncated_download_without_checksum_never_counts(registry, address, tmp_path):
    registry(url=f"{address}/truncated", sha256=None)
    assert "cannot be reached" in _refused()
    assert _files(tmp_path / "cache") == []


def test_unknown_checksum_is_said(registry, address, capsys):
    registry(url=f"{address}/good", sha256=None)
    room.fetch("text")
    assert "not verified" in capsys.readouterr().err


def test_unreachable(registry):
    registry(url="http://127.0.0.1:9/text")                     # nothing listens there
    assert "cannot be reached" in _refused()


def test_own_folder_comes_first_and_needs_no_cache(registry, tmp_path, monkeypatch, capsys):
    registry()
    own = tmp_path / "own" / "folder" / "text.txt"
    own.parent.mkdir(parents=True)
    own.write_bytes(GOOD)
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROBEBOOK_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "file" / "cache"))     # cannot be made
    assert room.fetch("text") == own
    assert "CC BY 4.0" in capsys.readouterr().err
    own.write_bytes(GOOD[:-1])
    assert "wrong checksum" in _refused() and str(own) in _refused()


def test_no_file_and_no_address_says_how(registry):
    registry()
    assert _refused().startswith("text is not at hand: ask for it (https://example.org)")


def test_unwritable_cache_is_one_line(registry, tmp_path, monkeypatch):
    registry()
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "file" / "cache"))
    assert "PROBEBOOK_CACHE" in _refused()


def test_check_reports_missing_wrong_and_right(registry, tmp_path):
    registry()
    assert room.check()[["found", "ok"]].values.tolist() == [["", False]]
    path = tmp_path / "cache" / "data" / "folder" / "text.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(GOOD)
    assert room.check()[["found", "ok"]].values.tolist() == [[str(path), True]]
    path.write_bytes(b"other")
    assert room.check()["ok"].tolist() == [False]


def test_unknown_name_and_broken_registry(registry):
    registry()
    with pytest.raises(UserError, match="unknown data file 'texts': one of text"):
        room.fetch("texts")
    registry(colour="red")
    with pytest.raises(UserError, match="colour"):
        room.entries()


def test_shipped_registry_names_source_licence_and_citation():
    for name, entry in room.entries().items():
        assert entry.file.endswith(name) and (entry.url or entry.how), name
        assert entry.source.startswith("https://") and entry.licence and entry.citation and entry.description, name
        assert entry.sha256 is None or len(bytes.fromhex(entry.sha256)) == 32, name
