"""The form of pages 3/01 and 3/07 in headless Chromium: Python's numbers, one line for bad
input, no mouse, a phone's width."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from probebook.base import ROOT
from probebook.corpora.published import published
from probebook.measures import pilots
from probebook.measures import sample_size as size
from probebook_chapters.figures.calculator import FIELDS, calculator
from test_browser import PHONE, SCREEN, WIDER, browser, pytestmark, resize  # noqa: F401

LINE = "return document.querySelector('form[data-from=%s] [role=alert]').textContent"
TABLE3 = pd.DataFrame(
    {
        "test_items": [64, 256, 1024, 4096, 16_384],
        "exact": np.divide([11, 63, 182, 187, 2625], [320, 1280, 5120, 20_480, 81_920]),
    }
)
VALUES = {"acc_a": 0.9, "acc_b": 0.865625, "dim": 768, "items": 64}


def written(folder, **settings):
    """Address of an HTML file that holds the calculator and nothing else."""
    arithmetic, form, look = (
        (ROOT / "book/_static" / name).read_text(encoding="utf-8")
        for name in ("arithmetic.js", "sample_size.js", "sample_size.html")
    )
    path = folder / "form.html"
    head = (
        '<!doctype html><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><html lang="en">'
    )
    body = calculator(arithmetic + form, look, VALUES, **settings)
    path.write_text(f"{head}<body>{body}", encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The calculator with both forms, the examples of page 3/07 and all answers."""
    examples = {"this page’s parameters": (0.9, 0.865625, 768, 64)} | {
        f"Table 3, {n:,} test items": (0.9, round(0.9 - d, 9), 768, n)
        for n, d in zip(TABLE3.test_items, TABLE3.exact)
    }
    return written(
        tmp_path_factory.mktemp("form"), examples=examples, forms=["accuracies", "files"]
    )


@pytest.fixture
def form(browser, page):  # noqa: F811
    browser.get_log("browser")
    resize(browser, SCREEN)
    browser.get(page)
    yield browser
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def typed(form, *values):
    """Put values into the fields of the first form and read the answer: {name: (text, numbers)}, or
    its one line."""
    script = """
        const fields = document.querySelector('form[data-from=accuracies]').elements;
        arguments[0].forEach((name, i) => { fields[name].value = arguments[1][i]; });
        fields.acc_a.dispatchEvent(new Event('change', {bubbles: true}))"""
    form.execute_script(script, FIELDS, [str(v) for v in values])
    return answer(form, "accuracies")


def percent(share):
    """A share as the form's fields want it."""
    return f"{100 * share:.10g}"


def answer(form, kind):
    """Wait until the form has answered; what it says."""
    ready = (
        f"const f = document.querySelector('form[data-from={kind}]');"
        "const line = f.querySelector('[role=alert]').textContent;"
        "return line != '' || !f.querySelector('dl').hidden"
    )
    form.execute_async_script("setTimeout(arguments[0], 30)")
    WebDriverWait(form, 10, poll_frequency=0.02).until(lambda b: b.execute_script(ready))
    line = form.execute_script(LINE % kind)
    return line or form.execute_script(
        f"""return Object.fromEntries([...document.querySelectorAll('form[data-from={kind}] dd')]
        .map(d => [d.className, [d.textContent, JSON.parse(d.dataset.numbers)]]))"""
    )


def files(form, a, b):
    form.find_element("name", "file_a").send_keys(str(a))
    assert "Choose both files" in answer(form, "files")
    form.execute_script((LINE % "files").removeprefix("return ") + " = ''")
    form.find_element("name", "file_b").send_keys(str(b))
    return answer(form, "files")


@pytest.mark.parametrize(
    "a, b, dim",
    [
        (0.71, 0.68, 768),
        (0.9, 0.865625, 768),
        (0.865625, 0.9, 768),
        (0.5, 0.9, 300),
        (1, 0, 1),
        (0.813, 0.812, 4096),
        (0, 0.02, 1024),
        (0.99, 0.98, 50),
        (0.6, 0.55, 100_000),
    ],
)
def test_two_accuracies_give_the_numbers_of_python(form, a, b, dim):
    found = typed(form, percent(a), percent(b), dim, "", "")
    right = size.from_accuracies(a, b, dim)
    assert found["paper"] == [
        right["training items, the paper's bound"],
        size.recommend(a - b, dim),
    ]
    assert found["correct"] == [
        right["training items, probes counted rightly"],
        size.recommend(a - b, dim, "correct"),
    ]
    assert found["train"][0] == right["training items for power .8"]
    assert found["delta"][0] == f"{100 * (a - b):+.2f}"
    assert found["verdict"][0].startswith("none without the number")


@pytest.mark.parametrize(
    "a, b, n, differ, word",
    [
        (0.71, 0.68, 400, 0.2, "need N"),
        (0.75, 0.65, 2000, 0.2, "enough"),
        (0.3, 0.301, 20_000, 0.1, "collapsed"),
        (0.9, 0.6, 60, 0.3, "enough"),
        (0.5, 0.52, 7, 0.02, "need N"),
        (0.6, 0.59, 100_000, 0.79, "enough"),
        (1, 0.9, 25, 0.1, "need N"),
        (0.6, 0.4, 300, 1, "enough"),
        (0.55, 0.45, 30, 1, "need N"),
    ],
)
def test_with_disagreement_and_items_verdict_and_power_are_those_of_python(
    form, a, b, n, differ, word
):
    found = typed(form, percent(a), percent(b), 768, n, percent(differ))
    only_a, only_b = (differ + a - b) / 2, max(0, differ - a + b) / 2
    assert found["verdict"][0].startswith(word)
    assert found["power"][1] == [pytest.approx(size.mcnemar_power(only_a, only_b, n), abs=1e-6)]
    assert found["test"][1] == [pytest.approx(float(size.items_needed(only_a, only_b)))]


def test_accuracies_without_disagreement_say_what_they_cannot_tell(form):
    found = typed(form, 75, 70, 768, 300, "")
    ends = [size.mcnemar_power(0.05, 0, 300), size.mcnemar_power(0.75 * 0.3, 0.7 * 0.25, 300)]
    assert found["power"][1] == pytest.approx(ends, abs=1e-6)
    assert ends[0] > 0.8 > ends[1]
    assert found["verdict"][0] == (
        "enough or need N: it depends on how often both err on the same items"
    )


def draw(folder, n, shares, seeds=1, seed=0):
    """Files of 0 and 1 of a pilot, one column a seed: both right, only A, only B, none."""
    kind = np.random.default_rng(seed).choice(4, (n, seeds), p=shares)
    for name, right in {"a": kind < 2, "b": kind % 2 == 0}.items():
        table = pd.DataFrame(right.astype(int)).add_prefix("seed ")
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder / "a.csv", folder / "b.csv"


@pytest.mark.parametrize(
    "n, shares, seeds",
    [
        (400, [0.6, 0.12, 0.08, 0.2], 1),
        (2000, [0.6, 0.15, 0.05, 0.2], 1),
        (64, [0.7, 0.1, 0.1, 0.1], 5),
        (20_000, [0.9, 0.02, 0.02, 0.06], 1),
    ],
)
def test_two_files_give_the_verdict_of_python(form, tmp_path, n, shares, seeds):
    paths = draw(tmp_path, n, shares, seeds)
    found, right = files(form, *paths), size.judge_pilot(*pilots.read(*paths), dim=768)
    assert found["verdict"][0].startswith(right.word)
    assert found["items"][1] == n
    assert found["only"][1][0] == pytest.approx([right.only_a, right.only_b], abs=1e-12)
    assert found["power"][1] == [pytest.approx(right.power, abs=1e-6)]
    assert [found["paper"][1], found["correct"][1]] == [right.paper, right.correct]
    assert found["train"][0].split(" [")[0] == f"{right.by_power:,.0f}"
    assert found["cared"][0] == f"{right.cared:,.0f}"
    assert found["delta"][1] == pytest.approx(
        [right.low, right.high], abs=0.03 * (right.high - right.low)
    )
    low, high = (np.inf if v is None else v for v in found["train"][1])
    assert low == pytest.approx(right.power_low, rel=0.15)
    assert np.isinf(high) == np.isinf(right.power_high)


def test_predictions_are_matched_by_id_and_may_be_quoted(form, tmp_path):
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    lines = ["\ufeffid,text,prediction,label", '1,"so, it ""was""",x,x', "2,b,y,x", "3,c,x,y", ""]
    a.write_text("\r\n".join(lines), encoding="utf-8")
    b.write_text("id,prediction,label\n3,y,y\n1,y,x\n2,,x\n\n")
    right = size.judge_pilot(*pilots.read(a, b), dim=768)
    found = files(form, a, b)
    assert found["only"][1] == [[right.only_a, right.only_b]] == [[1 / 3, 1 / 3]]
    assert found["paper"][0] == "no number"
    assert "no difference" in found["verdict"][0]


@pytest.mark.parametrize(
    "values, says",
    [
        ((710, 60, 768, "", ""), "Accuracy of A, %: a number between 0 and 100"),
        ((70, "", 768, "", ""), "Accuracy of B, %: a number"),
        ((70, -1, 768, "", ""), "Accuracy of B, %: a number"),
        ((0.71, 0.6, 768, "", ""), "type percent, such as 71, not .71"),
        ((70, 70, 768, 10, ""), "Equal accuracies: no number of items"),
        ((70, 60, 0.5, "", ""), "Width of the states: a whole number"),
        ((70, 60, 768, 2.5, ""), "Items in the pilot"),
        ((70, 60, 768, "", 5), "disagree on 10 % to 70 % of the items"),
        ((90, 80, 768, "", 0.2), "disagree on 10 % to 30 % of the items"),
    ],
)
def test_bad_numbers_get_one_line(form, values, says):
    line = typed(form, *values)
    assert says in line
    assert "\n" not in line
    assert form.execute_script("return document.querySelector('dl').hidden")
    assert isinstance(typed(form, 70, 60, 768, "", ""), dict)


@pytest.mark.parametrize(
    "text, says",
    [
        ("word\nyes\nno\n", "b.csv: give a CSV file with columns prediction and label, or 0 and 1"),
        ("s\n1\n", "A has 2 items, B 1"),
        ("", "b.csv: give a CSV file"),
        ("s,t\n1,0\n1,1\n", "as many columns"),
        ("s\n1,0\n1\n", "b.csv: give"),
        ("id,s\n1,0\n1,1\n", "each once"),
        ("id,s\n1,0\n3,1\n", "the same items"),
    ],
)
def test_bad_files_get_one_line(form, tmp_path, text, says):
    (tmp_path / "a.csv").write_text("id,s\n1,1\n2,0\n" if text.startswith("id") else "s\n1\n0\n")
    (tmp_path / "b.csv").write_text(text)
    assert says in files(form, tmp_path / "a.csv", tmp_path / "b.csv")


def test_the_examples_are_those_of_table_3(form):
    for row, printed in enumerate(published("data_requirements_table3").recommended):
        Select(form.find_element("name", "example")).select_by_index(row + 1)
        found = answer(form, "accuracies")
        assert found["paper"][1] == printed
        assert found["items"][1] == TABLE3.test_items[row]


def test_it_is_filled_in_by_keyboard_and_every_field_has_a_label(form):
    first = form.find_element("css selector", "form[data-from=accuracies] select")
    form.execute_script("arguments[0].focus()", first)
    first.send_keys("T")  # the first example of Table 3
    assert Select(first).first_selected_option.text == "Table 3, 64 test items"
    assert answer(form, "accuracies")["paper"][0] == "324,563"
    for value in ("75", "70", "20", "100", "768"):
        form.switch_to.active_element.send_keys(Keys.TAB)
        form.switch_to.active_element.send_keys(Keys.CONTROL, "a")
        form.switch_to.active_element.send_keys(value)
    form.switch_to.active_element.send_keys(Keys.ENTER)
    assert answer(form, "accuracies")["power"][1] == [
        pytest.approx(size.mcnemar_power(0.125, 0.075, 100), abs=1e-6)
    ]
    form.switch_to.active_element.send_keys(Keys.TAB)
    assert form.switch_to.active_element.text == "Compute"
    fields = "[...document.querySelectorAll('input, select')]"
    assert form.execute_script(f"return {fields}.every(field => field.labels.length == 1)")
    spoken = "document.querySelectorAll('dl[aria-live=polite], p[role=alert]')"
    assert form.execute_script(f"return {spoken}.length") == 4


def test_it_fits_a_phone(form):
    resize(form, PHONE)
    typed(form, 80, 79.99, 4096, 1_000_000, "")
    assert not form.execute_script(WIDER, PHONE[0])
    if "SHOT" in os.environ:
        form.save_screenshot(os.environ["SHOT"])


def test_a_short_form_shows_the_lines_asked_for(browser, tmp_path):  # noqa: F811
    asked = ["cared", "train", "paper"]
    browser.get(written(tmp_path, answers=asked))
    found = answer(browser, "accuracies")
    assert set(found) == set(asked)
    assert found["paper"][1] == size.recommend(0.9 - 0.865625, 768)
    assert browser.execute_script("return document.forms.length") == 1
    assert not browser.find_elements("name", "example")
