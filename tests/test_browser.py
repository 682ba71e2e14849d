"""The built book in headless Chromium: it is whole without a network, over file:// and http://, on
a screen and on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from contextlib import suppress
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from operator import ne
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from conftest import contents, digest_of, once
from probebook.base import ROOT
from probebook_book.pdf import chromium

CHROMIUM = chromium()
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium: install chromium and chromium-driver"
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    # a request is seen, and goes nowhere
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
SCREEN, PHONE = (1300, 900), (390, 844)
PAGES = [*contents(), "genindex", "search"]
KINDS = (
    "book/introduction",
    "book/audit",
    "book/paper_1",
    "book/run_table",
    "methods/inlp",
    "api/explainers",
    "1_causal_probing/03",
    "3_data_requirements/07",
)
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # what the dark may change

# How far parts of a page move after they are first shown (Layout Instability score, 0: not at all).
WATCHED = """
window.moved = 0;
new PerformanceObserver(list => list.getEntries().forEach(e => { window.moved += e.value; }))
  .observe({type: 'layout-shift', buffered: true});
"""

# Why a page is not finished: it is loading or redirecting, formulas are not typeset, widgets are
# not drawn.
WAITING = """
const all = selector => [...document.querySelectorAll(selector)];
const raw = all('span.math, div.math').filter(m => !m.querySelector('mjx-container'));
const views = all('script[type="application/vnd.jupyter.widget-view+json"]');
const undrawn = views
  .filter(v => !v.parentElement.querySelector('.widget-subarea')?.childElementCount);
const moving = document.readyState != 'complete'
  || document.querySelector('meta[http-equiv="refresh"]');
return [...raw.map(m => 'formula not typeset: ' + m.textContent.slice(0, 60)),
        ...undrawn.map(_ => 'widget not drawn'), ...(moving ? ['not loaded'] : [])];
"""
BROKEN = """
const all = selector => [...document.querySelectorAll(selector)];
const images = [...document.images]
  .filter(i => !i.complete || !i.naturalWidth)
  .map(i => 'broken image: ' + i.src);
const figures = all('figure')
  .filter(f => !f.querySelector('img, svg, table, .widget-subarea'))
  .map(f => 'empty figure: ' + f.textContent.trim().slice(0, 60));
const errors = all('[data-mjx-error]').map(e => 'formula: ' + e.dataset.mjxError);
const roles = all('p, li, td')
  .map(p => p.textContent.match(/\\{(glue|doc|cite|ref|numref|eq|term|index)[:}][^ ]*/))
  .filter(m => m).map(m => 'left as written: ' + m[0]);
const lines = (text, word) => {
  const range = document.createRange();
  range.setStart(text, word.index);
  range.setEnd(text, word.index + word[0].length);
  const tops = [...range.getClientRects()].filter(r => r.width).map(r => Math.round(r.top));
  return new Set(tops).size;
};
const heads = all('table:not(.breaking) thead th, table:not(.breaking) thead th *');
const split = heads.flatMap(head => [...head.childNodes]).filter(node => node.nodeType == 3)
  .flatMap(text => [...text.data.matchAll(/[^\\s–-]+/g)].filter(word => lines(text, word) > 1))
  .map(word => 'head broken inside a word: ' + word[0]);
const kept = w => getComputedStyle(w.parentElement).minHeight;
const room = all('.widget-subarea')
  .filter(w => Math.abs(parseFloat(kept(w)) - w.offsetHeight) > 8)
  .map(w => 'room for a widget: ' + kept(w) + ', not ' + w.offsetHeight);
const moved = window.moved > .02 ? ['moves while it loads: ' + window.moved] : [];
return [...images, ...figures, ...errors, ...roles, ...split, ...room, ...moved];
"""
WIDER = """
const page = document.documentElement, width = Math.max(page.clientWidth, page.scrollWidth);
return width > arguments[0] ? [`${width} px wide, not ${arguments[0]}`] : [];
"""
# nothing glides to its new place or colour: each step would be laid out
STILL = """
const style = "<style>* {transition: none !important}</style>";
document.head.insertAdjacentHTML("beforeend", style);
"""
TO_VIEW = "arguments[0].scrollIntoView({block: arguments[1], behavior: 'instant'});"
OUTSIDE = """
const {left, right, top, bottom} = arguments[0].getBoundingClientRect();
const inside = left >= 0 && top >= 0 && bottom <= innerHeight
  && right <= document.documentElement.clientWidth;
return inside ? [] : [left, right, top, bottom];
"""


def _changed() -> set[str]:
    """Pages that the last commit changed; none where its parent is not there."""
    command = ["git", "diff", "--name-only", "HEAD~", "--", "book", "notebooks"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    return {line.removesuffix(".md") for line in done.stdout.splitlines()}


ONE_OF_EACH = [page for page in PAGES if any(kind in page for kind in KINDS)]
LOOKED_AT = {*ONE_OF_EACH, *_changed()}  # the others in make verify


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)) as driver:
        driver.set_script_timeout(120)  # axe-core on a machine that is busy
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCHED})
        # a window in the background hears of no focus
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        yield driver


@pytest.fixture(scope="module")
def served(built_book):
    """The book's address over http://."""
    with _served(built_book) as address:
        yield address


@pytest.fixture(params=["file", "http"])
def address(request, built_book, served):
    """The book's address, over both protocols."""
    return built_book.as_uri() if request.param == "file" else served


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class _served:
    """Serve a folder on the loopback device while the block runs."""

    def __init__(self, folder: Path):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def resize(browser, size: tuple[int, int]) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE},
    )


def problems(
    browser, size: tuple[int, int], url: str, within: str, seconds: float = 15
) -> list[str]:
    """Load a page in a window of this size and return what is wrong with it after at most `seconds`.

    Its requests may go to addresses `within`."""
    # the page before asks for nothing any more, and is not laid out anew
    browser.get("about:blank")
    resize(browser, size)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(url)
    waiting = _settled(browser, WAITING, seconds)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requested = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    external = [
        f"external request: {u}"
        for u in requested
        if not u.startswith((within, "data:", "blob:", "about:"))
    ]
    console = [
        f"console: {e['message']}" for e in browser.get_log("browser") if e["level"] == "SEVERE"
    ]
    return waiting + external + console + browser.execute_script(BROKEN)


def _settled(browser, script: str, seconds: float, *given) -> list[str]:
    """What `script` still reports after at most `seconds`."""
    with suppress(TimeoutException):
        wait = WebDriverWait(browser, seconds, poll_frequency=0.05)
        wait.until_not(lambda b: b.execute_script(script, *given))
    return browser.execute_script(script, *given)


def test_the_checks_see_what_is_wrong(browser, tmp_path):
    """Negative control: each fault planted in a page is reported."""
    (tmp_path / "bad.html").write_text("""<!doctype html>
        <div style="width: 900px">wide</div><img src="gone.png">
        <figure><figcaption>nothing here</figcaption></figure><script src="http://example.org/x.js"></script>
        <script>undefinedFunction()</script><p id="low">pushed down</p>
        <script>const late = '<p style="height: 40vh">late';
        setTimeout(() => low.insertAdjacentHTML('beforebegin', late), 100)</script>
        <p><span class="math">x^2</span></p>
        <p>The share is <code>{glue:text}</code>share.</p>
        <table style="width: 3em; table-layout: fixed; overflow-wrap: anywhere"><thead>
        <tr><th>completeness</th></tr></thead></table>
        <div><script type="application/vnd.jupyter.widget-view+json">{}</script></div>""")
    page = (tmp_path / "bad.html").as_uri()
    found = "\n".join(problems(browser, PHONE, page, tmp_path.as_uri(), seconds=1))
    for fault in (
        "broken image",
        "empty figure: nothing here",
        "external request: http://example.org/x.js",
        "undefinedFunction is not defined",
        "formula not typeset: x^2",
        "widget not drawn",
        "moves while it loads: 0.",
        "left as written: {glue:text}share",
        "head broken inside a word: completeness",
    ):
        assert fault in found
    assert browser.execute_script(WIDER, PHONE[0])


def test_the_book_has_these_pages(built_book):
    built = {
        p.relative_to(built_book).with_suffix("").as_posix()
        for p in built_book.rglob("*.html")
        if "_static" not in p.parts
    }
    assert built - {"index"} == set(PAGES)


def files_of(book: Path, page: str) -> list[str]:
    """Digests of everything that decides how the browser shows a page of the book."""
    path = book / f"{page}.html"
    images = sorted(set(re.findall(r'_images/[^"?]+', path.read_text(encoding="utf-8"))))
    return [page, digest_of(path, *(book / image for image in images)), _surroundings(book)]


@cache
def _surroundings(book: Path) -> str:
    """Styles and scripts, these tests, and the browser."""
    version = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=False)
    return digest_of(book / "_static", Path(__file__)) + version.stdout


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_whole(browser, built_book, page):
    """From the disk, without a network: on a phone nothing fails, overflows or moves while the page
    loads, and nothing is wrong when the same page is then shown on a screen."""

    def check():
        within = built_book.as_uri()
        faults = problems(browser, PHONE, f"{within}/{page}.html", within)
        faults += browser.execute_script(WIDER, PHONE[0])
        browser.execute_script(STILL)
        resize(browser, SCREEN)
        faults += browser.execute_script(WIDER, SCREEN[0])
        faults += [fault for fault in browser.execute_script(BROKEN) if "moves while" not in fault]
        assert not faults

    once(["whole", *files_of(built_book, page)], check)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page in LOOKED_AT else pytest.mark.verify) for page in PAGES],
)
def test_a_page_is_whole_on_a_screen_and_has_no_serious_barrier(browser, built_book, served, page):
    """From a server: no request to another; axe-core's rules on contrast, names and texts hold, and
    for one page of each kind those on colours in the dark as well."""

    def check():
        assert not problems(browser, SCREEN, f"{served}/{page}.html", served)
        assert not _barriers(browser, "light")
        assert page not in ONE_OF_EACH or not _barriers(browser, "dark", COLOURS)

    once(["screen", *files_of(built_book, page)], check)


def test_search_finds_a_word(browser, address):
    """Each page once, with an excerpt, read from files and over http."""
    faults = problems(browser, SCREEN, f"{address}/search.html?q=completeness", address)
    assert not [fault for fault in faults if not fault.startswith("moves")]  # as results come
    script = """const links = document.querySelectorAll('#search-results li a');
        return [...links].map(a => a.getAttribute('href'));"""
    WebDriverWait(browser, 15).until(
        lambda b: any("notation" in href for href in b.execute_script(script))
    )
    titles = browser.find_elements(By.CSS_SELECTOR, "#search-results li > a")
    assert len({title.text for title in titles}) == len(titles) >= 5
    bare = """return [...document.querySelectorAll('#search-results li')].filter(
        li => !li.querySelector('p.context') && !li.querySelector('a + span')).length"""
    WebDriverWait(browser, 15).until_not(lambda b: b.execute_script(bare))  # functions have none
    texts = browser.find_elements(By.CSS_SELECTOR, "#search-results li p.context")
    assert len(texts) >= 5
    assert not [text.text for text in texts if "</" in text.text]
    browser.execute_script("localStorage.clear()")  # else later pages mark the word
    assert not [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"]


@pytest.mark.parametrize("size", [SCREEN, PHONE])
def test_a_term_shows_its_definition(browser, address, size):
    """On focus and under the pointer, inside the window; it stays while the pointer is on it, and
    Escape closes it."""
    assert not problems(browser, size, f"{address}/book/introduction.html", address)
    links = browser.find_elements(By.CSS_SELECTOR, "a[aria-describedby^='tip-term-']")
    assert len(links) >= 5
    for link in links:
        tip = browser.find_element(By.ID, link.get_attribute("aria-describedby"))
        assert not tip.is_displayed()
        browser.execute_script(TO_VIEW + "arguments[0].focus()", link, "end")
        WebDriverWait(browser, 5).until(lambda _: tip.is_displayed())
        assert tip.text.strip()
        assert _settled(browser, OUTSIDE, 5, tip) == []
        assert len(browser.find_elements(By.CSS_SELECTOR, ".definition:not([hidden])")) == 1
        ActionChains(browser).send_keys(Keys.ESCAPE).perform()
        assert not tip.is_displayed()
    browser.execute_script(TO_VIEW + "document.activeElement.blur()", link, "center")
    ActionChains(browser).move_to_element(link).perform()
    WebDriverWait(browser, 5).until(lambda _: tip.is_displayed())
    ActionChains(browser).move_to_element(tip).pause(0.5).perform()
    assert tip.is_displayed()
    away = browser.find_element(By.CSS_SELECTOR, ".bd-article p")
    ActionChains(browser).move_to_element(away).perform()
    WebDriverWait(browser, 5).until_not(lambda _: tip.is_displayed())


def test_a_slider_moves_its_picture_without_a_kernel(browser, built_book):
    """With the focus on the handle one arrow key shows another picture, the other the first."""
    resize(browser, SCREEN)
    browser.get(f"{built_book.as_uri()}/notebooks/1_causal_probing/04_nullifying.html")
    assert not _settled(browser, WAITING, seconds=15)
    (handle,) = browser.find_elements(By.CSS_SELECTOR, ".noUi-handle")
    first = _shown(browser)
    for key, reached in (
        (Keys.ARROW_RIGHT, lambda b: _moved(_shown(b), first)),
        (Keys.ARROW_LEFT, lambda b: _shown(b) == first),
    ):
        browser.execute_script("arguments[0].focus()", handle)
        assert browser.switch_to.active_element == handle
        browser.switch_to.active_element.send_keys(key)
        WebDriverWait(browser, 15).until(reached)


def _moved(now: tuple, before: tuple) -> tuple | None:
    """What is shown now, once it is one picture, another than before, at another position."""
    return now if all(map(ne, now, before)) and len(now[1]) == 1 else None


def _shown(browser) -> tuple[str, list[str]]:
    """The position of a page's only slider, and the pixels of its visible pictures."""
    position = browser.find_element(By.CSS_SELECTOR, ".widget-readout").text
    return position, browser.execute_script("""
        const seen = image => image.offsetParent && image.complete && image.naturalWidth
        return [...document.querySelectorAll("img.widget-image")].filter(seen).map(image => {
            const canvas = document.createElement("canvas")
            canvas.width = image.naturalWidth, canvas.height = image.naturalHeight
            canvas.getContext("2d").drawImage(image, 0, 0)
            return canvas.toDataURL()
        })""")


def test_the_barriers_are_seen(browser, tmp_path):
    """Negative control: a picture without a text, a field without a name, grey on grey."""
    (tmp_path / "bad.html").write_text("""<!doctype html><html lang="en"><title>x</title>
        <main><h1>x</h1><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><input type="text">
        <p style="color: #999; background: #aaa">hard to read</p></main></html>""")
    browser.get((tmp_path / "bad.html").as_uri())
    assert {"image-alt", "label", "color-contrast"} <= set(_barriers(browser, "light"))
    assert set(_barriers(browser, "dark", COLOURS)) == {"color-contrast"}


def _barriers(browser, mode: str, rules: dict | None = None) -> dict[str, list[str]]:
    """Rules that the page breaks seriously, with the first places; all rules, or `rules`."""
    browser.execute_script(f"{STILL} document.documentElement.dataset.theme = arguments[0];", mode)
    context = {"exclude": [[".citation-list"]]}  # its items' role is younger than these rules
    options = {"resultTypes": ["violations"]} | (rules or {})
    broken = Axe().run(browser, context, options)["violations"]
    return {
        rule["id"]: [node["html"][:150] for node in rule["nodes"][:3]]
        for rule in broken
        if rule["impact"] in ("serious", "critical")
    }
