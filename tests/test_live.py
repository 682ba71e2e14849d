"""Boxes that compute on the page, in headless Chromium: Python's numbers on a grid of 500 values,
moved by keyboard, in light and dark, on a phone, without a request, and without scripts."""

from __future__ import annotations

import os
from math import comb

import numpy as np
import pytest
from scipy.stats import beta, norm
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from probebook import figures
from probebook.base import ROOT, UserError
from probebook.measures import reliability as scores
from probebook.measures import sample_size as size
from probebook_chapters import toy_world
from probebook_chapters.figures import causal_probing as plot
from test_browser import (  # noqa: F401
    PHONE,
    SCREEN,
    WIDER,
    _barriers,
    browser,
    problems,
    pytestmark,
)

ARITHMETIC, LOOK = (
    (ROOT / "book/_static" / name).read_text(encoding="utf-8")
    for name in ("arithmetic.js", "live.html")
)
GRID = 500
DRAWN = np.random.default_rng(0)
PERCENTS = list(range(101))
SIZES = np.geomspace(50, 6400, 29).round().astype(int).tolist()
BOXES = {
    "reliability": (
        {
            "edit": ("The edit is", ["a flip", "an erasure"], "a flip"),
            "reached": ("wanted number after, %", PERCENTS, 95),
            "before": ("plural before, %", PERCENTS, 90),
            "after": ("plural after, %", PERCENTS, 60),
        },
        {},
    ),
    "toy_world": (
        {
            "threshold": ("threshold θ", np.arange(-2, 3.1, 0.5).tolist(), 2),
            "gamma": ("γ", [0, 0.1, 0.3, 1, 2], 1),
            "alpha": ("α", [1, 5, 10], 10),
        },
        {"noise": DRAWN.standard_normal((3, 600)).round(2).tolist()},
    ),
    "least_differences": (
        {"width": ("D", [2, 768, 4096], 768), "points": ("points", [1, 5, 9], 5)},
        {"sets": [[100, 0.3], [1000, 0.1], [100_000, 0.01]], "fail": 1e-8},
    ),
    "windows": ({"windows": ("windows", [1, 2, 3, 4], 2)}, {}),
    "outcomes": (
        {
            "items": ("test items", SIZES, 200),
            "only_a": ("only A, %", [7, 11.5, 20], 11.5),
            "only_b": ("only B, %", [5, 7, 9], 7),
        },
        {"sizes": SIZES},
    ),
}
COMPUTED = "return arguments[1].map(given => arithmetic[arguments[0]](...given))"
SHOWN = "return getComputedStyle(document.querySelector(arguments[0])).display != 'none'"
# Milliseconds from a movement until all is drawn.
MOVED = """
const field = arguments[0], start = performance.now();
field.value = arguments[1];
field.dispatchEvent(new Event('input', {bubbles: true}));
document.body.getBoundingClientRect();
return performance.now() - start;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A page for each kind of box: a figure, and the box right after it, as in the built book."""
    folder = tmp_path_factory.mktemp("live")
    plot.panels(_curves(), {"C": ("x", "y"), "S": ("x", "y")}).savefig(folder / "figure.png")
    look = (ROOT / "book/_static/custom.css").read_text(encoding="utf-8")
    for kind, (settings, given) in BOXES.items():
        box = figures.live(kind, ARITHMETIC, LOOK, settings, given)
        (folder / f"{kind}.html").write_text(
            f"""<!doctype html><html lang="en"
            data-theme="light"><meta charset="utf-8"><title>A box</title>
            <meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
            <style>{look} html[data-theme=dark] body {{ background: #121212; color: #ced6dd }}
            </style><main class="bd-article"><h1>A box</h1><div class="cell tag_live"><div
            class="cell_output"><figure><img src="figure.png" alt="two panels" width="300"
            height="150"><figcaption>What it shows</figcaption></figure></div></div>
            <div class="cell">{box}</div></main></html>""",
            encoding="utf-8",
        )
    return folder


def _curves():
    import pandas as pd

    return pd.DataFrame(
        {"panel": ["C", "C", "S", "S"], "curve": "one", "x": [0, 1, 0, 1], "y": [0, 1, 1, 0]}
    )


@pytest.fixture
def computed(browser, folder):  # noqa: F811
    """Results of a function of arithmetic.js for a list of its arguments."""
    browser.get((folder / "reliability.html").as_uri())
    return lambda name, given: browser.execute_script(COMPUTED, name, given)


def test_scores_are_those_of_python(computed):
    rows = [DRAWN.dirichlet(np.ones(2 + i % 4), 2) for i in range(GRID)]
    to = [i % len(p[0]) for i, p in enumerate(rows)]
    right = {
        "flip": [float(scores.completeness(p[:1], to=[k])) for (p, k) in zip(rows, to)],
        "erasure": [float(scores.completeness(p[:1])) for p in rows],
        "kept": [float(scores.selectivity(p[:1], p[1:])) for p in rows],
    }
    found = {
        "flip": computed("completeness", [[p[0].tolist(), k] for (p, k) in zip(rows, to)]),
        "erasure": computed("completeness", [[p[0].tolist()] for p in rows]),
        "kept": computed("selectivity", [p.tolist() for p in rows]),
    }
    for name in right:
        np.testing.assert_allclose(found[name], right[name], rtol=0, atol=1e-12)
    both = [*zip(right["flip"], right["kept"]), (0, 0)]
    np.testing.assert_allclose(computed("reliability", both), scores.reliability(*zip(*both)))


def test_the_toy_world_is_that_of_python(computed):
    given = np.column_stack(
        [
            DRAWN.uniform(0.1, 20, GRID),
            DRAWN.uniform(0, 5, GRID),
            DRAWN.uniform(-3, 4, GRID),
            DRAWN.uniform(0, 3, GRID),
        ]
    ).tolist()
    found, right = computed("toyWorld", given), [toy_world.exact(*values) for values in given]
    for key in ("kept", "before", "after"):
        np.testing.assert_allclose(
            [world[key] for world in found],
            [getattr(world, key) for world in right],
            rtol=1e-9,
            atol=1e-9,
        )
    tails = np.linspace(-9, 30, GRID)
    np.testing.assert_allclose(
        computed("above", [[a] for a in tails.tolist()]), norm.sf(tails), rtol=1e-11
    )


def test_least_and_greatest_scores_are_those_of_scipy(computed):
    x, n = DRAWN.uniform(-4, 4, GRID), DRAWN.integers(1, 25, GRID)
    given = [[*values] for values in zip(x.tolist(), n.tolist())]
    for name, of in (("leastDensity", beta(1, n)), ("greatestDensity", beta(n, 1))):
        right = of.pdf(norm.cdf(x)) * norm.pdf(x)
        np.testing.assert_allclose(computed(name, given), right, rtol=1e-9, atol=1e-12)
    found = computed("allAbove", [[w] for w in range(1, 20)])
    np.testing.assert_allclose(found, [1 / comb(4 * w, w) for w in range(1, 20)])


def test_sample_sizes_are_those_of_python(computed):
    a, b = DRAWN.uniform(0, 0.5, (2, GRID)).round(3)
    b[:9], a[-9:] = 0, b[-9:]
    n, width = DRAWN.integers(1, 5000, GRID), DRAWN.integers(1, 8192, GRID)
    pairs = np.column_stack([a, b]).tolist()
    tables = [[*pair, items] for pair, items in zip(pairs, n.tolist())]
    right = [size.mcnemar_power(*table) for table in tables]
    np.testing.assert_allclose(computed("mcnemarPower", tables), right, rtol=0, atol=1e-9)
    some = a != b  # of equals there is no number
    needed = computed("itemsNeeded", np.column_stack([a, b])[some].tolist())
    np.testing.assert_allclose(needed, size.items_needed(a, b)[some], rtol=1e-11)
    found = computed("itemsForDifference", [[share] for share in (a + b).tolist()])
    np.testing.assert_allclose(found, size.items_for_difference(a + b), rtol=1e-11)
    for rule in ("paper", "correct"):
        given = [[share, dim, rule] for share, dim in zip((a + 0.001).tolist(), width.tolist())]
        assert computed("recommend", given) == [size.recommend(*values) for values in given]
        given = [[dim, rule, share] for share, dim, _ in given]
        np.testing.assert_allclose(
            computed("constant", given), [size.constant(*values) for values in given], rtol=1e-12
        )


def test_all_outcomes_add_up(computed):
    """To one, to the true lead and its variance, and to the power of the test."""
    a, b = DRAWN.uniform(0.005, 0.3, (2, GRID)).round(3)
    n = DRAWN.integers(10, 400, GRID)
    tables = [[*values] for values in zip(a.tolist(), b.tolist(), n.tolist())]
    found = [np.array(rows) for rows in computed("outcomes", tables)]
    lead, chance = [rows[:, 0] for rows in found], [rows[:, 1:].sum(1) for rows in found]
    np.testing.assert_allclose([p.sum() for p in chance], 1, atol=1e-9)
    mean = np.array([d @ p for d, p in zip(lead, chance)])
    np.testing.assert_allclose(mean, n * (a - b), atol=1e-7)
    variance = [d**2 @ p for d, p in zip(lead, chance)] - mean**2
    np.testing.assert_allclose(variance, n * (a + b - (a - b) ** 2), rtol=1e-7)
    better = [rows[:, 2 if x >= y else 3].sum() for rows, x, y in zip(found, a, b)]
    np.testing.assert_allclose(
        better,
        [
            size.mcnemar_power(*table) if table[0] != table[1] else size.mcnemar_power(*table) / 2
            for table in tables
        ],
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize("kind", BOXES)
def test_a_box_answers_the_keyboard_and_has_no_barrier(browser, folder, kind):  # noqa: F811
    """From a disk, on a screen and on a phone; fields have names, changes are announced."""
    for width in (PHONE, SCREEN):
        assert not problems(browser, width, (folder / f"{kind}.html").as_uri(), folder.as_uri())
        assert not browser.execute_script(WIDER, width[0])
        assert not _barriers(browser, "light")
        assert not _barriers(browser, "dark")
    said = browser.find_element(By.CSS_SELECTOR, ".live .said")
    assert said.get_attribute("aria-live") == "polite"
    fields = browser.find_elements(By.CSS_SELECTOR, ".live input")
    browser.execute_script("arguments[0].focus()", fields[0])
    for field in fields:
        assert browser.switch_to.active_element == field
        for key in (Keys.HOME, Keys.END):
            before = said.text, field.get_attribute("aria-valuetext")
            field.send_keys(key, Keys.ARROW_LEFT)
            assert said.text != before[0] and field.get_attribute("aria-valuetext") != before[1]
        field.send_keys(Keys.TAB)
    assert browser.execute_script(
        "return [...document.querySelectorAll('.live :is(input, select)')]"
        ".every(field => field.labels.length == 1)"
    )
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_an_erasure_is_scored_as_one(browser, folder):  # noqa: F811
    browser.get((folder / "reliability.html").as_uri())
    Select(browser.find_element(By.NAME, "edit")).select_by_visible_text("an erasure")
    said = browser.find_element(By.CSS_SELECTOR, ".live .said").text
    c, s = scores.completeness([[0.05, 0.95]]), scores.selectivity([[0.4, 0.6]], [[0.1, 0.9]])
    for score in (c, s, scores.reliability(c, s)):
        assert f"{float(score):.2f}" in said


@pytest.mark.parametrize("kind", BOXES)
def test_a_movement_is_drawn_in_50_ms(browser, folder, kind):  # noqa: F811
    """The quicker half of movements of every slider each way; on a machine that other programs
    share, as much longer."""
    browser.get((folder / f"{kind}.html").as_uri())
    slower = max(1, os.getloadavg()[0] / os.cpu_count())
    for field in browser.find_elements(By.CSS_SELECTOR, ".live input"):
        ends = [field.get_attribute(end) for end in ("min", "max")]
        taken = [browser.execute_script(MOVED, field, end) for end in 6 * ends]
        print(field.get_attribute("name"), f"{np.median(taken):.1f} ms")
        assert np.median(taken) < 50 * slower


@pytest.mark.parametrize("kind", BOXES)
def test_without_scripts_and_on_paper_a_figure_stands_for_it(browser, folder, kind):  # noqa: F811
    """With its caption; on screen the box takes the picture's place and keeps the caption."""
    page = (folder / f"{kind}.html").as_uri()

    def seen():
        return [
            browser.execute_script(SHOWN, place)
            for place in ("form.live", "figure img", ".live-still", "figcaption")
        ]

    browser.get(page)
    assert seen() == [True, False, False, True]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert seen() == [False, True, True, True]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(page)
    try:
        assert seen() == [False, True, True, True]
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_box_opens_at_one_of_its_values():
    with pytest.raises(UserError, match="points opens at 3: one of its values, 1 to 9"):
        figures.live("least_differences", "", "", {"points": ("points", [1, 5, 9], 3)})
