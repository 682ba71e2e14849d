"""Files of others: where they are found, what is verified, and what a failed download leaves
behind."""

import hashlib
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from probebook.base import UserError
from probebook.corpora import fetch as room

pytestmark = pytest.mark.library

GOOD = b"the keys to the cabinet are on the table\n" * 100


class _Server(BaseHTTPRequestHandler):
    elsewhere = {}  # path → where it has moved to
    asked = []  # paths

    def do_GET(self):
        self.asked.append(self.path)
        if self.path in self.elsewhere:
            self.send_response(302)
            self.send_header("Location", self.elsewhere[self.path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        body = {"/good": GOOD, "/truncated": GOOD[:1_000], "/wrong": GOOD.upper()}.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(GOOD)))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class _served:
    """Serve the files on the loopback device while the block runs."""

    def __init__(self, context: ssl.SSLContext | None = None):
        self.server = HTTPServer(("127.0.0.1", 0), _Server)
        self.scheme = "https" if context else "http"
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a server with TLS, whose certificate is the only one trusted here."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl, which makes the server's certificate")
    key, certificate = (
        tmp_path_factory.mktemp("tls") / name for name in ("key.pem", "certificate.pem")
    )
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=test",
            "-days",
            "2",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with pytest.MonkeyPatch.context() as patch, _served(context) as address:
        patch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        yield address


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Write a registry of one entry, "text", in a world with an empty cache and no
    PROBEBOOK_DATA."""
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROBEBOOK_DATA", raising=False)
    monkeypatch.setattr(room, "REGISTRY", tmp_path / "registry.yaml")

    def write(**fields):
        entry = {
            "file": "folder/text.txt",
            "url": None,
            "source": "https://example.org",
            "how": "ask for it",
            "sha256": hashlib.sha256(GOOD).hexdigest(),
            "licence": "CC BY 4.0",
            "citation": "Author (2020), Title",
            "description": "a text",
        } | fields
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
    assert path == tmp_path / "cache" / "data" / "folder" / "text.txt"
    assert path.read_bytes() == GOOD
    assert "CC BY 4.0 · Author (2020), Title" in capsys.readouterr().err
    registry(url="https://127.0.0.1:9/gone")  # now from the cache, and quietly
    assert room.fetch("text") == path
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("page", ["truncated", "wrong", "missing"])
def test_a_bad_download_never_counts(registry, address, tmp_path, page):
    registry(url=f"{address}/{page}")
    message = _refused()
    assert f"{address}/{page}" in message
    assert "text: " in message
    assert "folder/text.txt under PROBEBOOK_DATA" in message
    assert _files(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"url": "http://127.0.0.1:9/text"}, "url should begin with https://"),
        ({"url": "ftp://example.org/text"}, "url should begin with https://"),
        ({"url": "https://example.org/text", "sha256": None}, "a download needs a sha256"),
        ({"how": None}, "needs `how`"),
    ],
)
def test_a_download_without_tls_or_checksum_is_no_entry(registry, fields, says):
    registry(**fields)
    assert says in _refused()
    assert _refused().startswith("registry.yaml: text: ")


def test_a_registry_that_is_no_yaml_is_one_line(registry):
    registry()
    room.REGISTRY.write_text(
        room.REGISTRY.read_text() + "  citation: Author (2020): Title: again\n", encoding="utf-8"
    )
    last = len(room.REGISTRY.read_text().splitlines())
    problem = "mapping values are not allowed in this context"
    assert f"registry.yaml, line {last}: {problem}" in _refused()


def test_a_redirect_is_followed_under_tls_only(registry, address, tmp_path, monkeypatch):
    registry(url=f"{address}/moved")
    with _served() as plain:
        monkeypatch.setattr(_Server, "elsewhere", {"/moved": "/again", "/again": f"{plain}/good"})
        monkeypatch.setattr(_Server, "asked", [])
        assert "leads to an address that is not https" in _refused()
        assert _Server.asked == ["/moved", "/again"]
        assert _files(tmp_path / "cache") == []
    monkeypatch.setattr(_Server, "elsewhere", {"/moved": "/again", "/again": f"{address}/good"})
    assert room.fetch("text").read_bytes() == GOOD


def test_an_unknown_certificate_is_refused(registry, address, tmp_path, monkeypatch):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    registry(url=f"{address}/good")
    assert "cannot be reached (SSLError)" in _refused()
    assert _files(tmp_path / "cache") == []


def test_unknown_checksum_of_a_file_at_hand_is_said(registry, tmp_path, capsys):
    registry(sha256=None)
    path = tmp_path / "cache" / "data" / "folder" / "text.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(GOOD)
    assert room.fetch("text") == path
    assert "not verified" in capsys.readouterr().err


def test_unreachable(registry):
    registry(url="https://127.0.0.1:9/text")  # nothing listens there
    assert "cannot be reached" in _refused()


def test_own_folder_comes_first_and_needs_no_cache(registry, tmp_path, monkeypatch, capsys):
    registry()
    own = tmp_path / "own" / "folder" / "text.txt"
    own.parent.mkdir(parents=True)
    own.write_bytes(GOOD)
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROBEBOOK_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "file" / "cache"))  # cannot be made
    assert room.fetch("text") == own
    assert "CC BY 4.0" in capsys.readouterr().err
    own.write_bytes(GOOD[:-1])
    assert "wrong checksum" in _refused()
    assert str(own) in _refused()


def test_no_file_and_no_address_says_how(registry):
    registry()
    assert _refused().startswith("text is not at hand: ask for it (https://example.org)")


def test_unwritable_cache_is_one_line(registry, tmp_path, monkeypatch):
    registry(url="https://127.0.0.1:9/text")
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
    with pytest.raises(UserError, match="'texts' is not a valid data file: expected text"):
        room.fetch("texts")
    registry(colour="red")
    with pytest.raises(UserError, match="colour"):
        room.entries()


def test_shipped_registry_names_source_licence_and_citation():
    for name, entry in room.entries().items():
        assert entry.file.endswith(name), name
        assert entry.url or entry.how, name
        assert entry.source.startswith("https://"), name
        assert entry.licence, name
        assert entry.citation, name
        assert entry.description, name
        assert entry.sha256 is None or len(bytes.fromhex(entry.sha256)) == 32, name
        assert entry.sha256 or not entry.url, name
