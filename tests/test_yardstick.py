"""A reader's own method in fresh worlds: an honest one keeps its score, one with a memory falls."""

import re
import textwrap
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from probebook.base import UserError, must_agree
from probebook.interventions import MeanShift
from probebook_audit import yardstick
from probebook_chapters import across
from probebook_chapters.causal_probing import Edit
from probebook_cli import app

pytestmark = pytest.mark.library

HONEST = """
    class Shift:
        def fit(self, h, z):
            return Moved(h[z == 1].mean(0) - h[z == 0].mean(0))


    class Moved:
        def __init__(self, step):
            self.step = step

        def __call__(self, h, to):
            return h + (2 * to[:, None] - 1) * self.step
    """
SELF = """
    class Shift:
        strength = 1.0

        def fit(self, h, z):
            self.step = h[z == 1].mean(0) - h[z == 0].mean(0)
            return self

        def at(self, strength):
            self.strength *= strength
            return self

        def __call__(self, h, to):
            return h + self.strength * (2 * to[:, None] - 1) * self.step
    """
CHEAT = """
    import torch
    from safetensors.torch import load_file

    class Memory:
        def fit(self, h, z):
            self.seen = load_file({path!r})
            return self

        def __call__(self, h, to):
            far, nearest = torch.cdist(h, self.seen["h"]).min(1)
            return torch.where(far[:, None] < .1, self.seen["partner"][nearest], h)
    """
SIZES = {"n": 700, "n_judged": 60, "n_reviews": 60, "n_stories": 12}


def written(path, code):
    path.write_text(textwrap.dedent(code))
    return path


@pytest.fixture
def quick(monkeypatch):
    """Few methods at one strength, and worlds as small as they can be."""

    def few(world, seed, **grid):
        rows = world.parts["fit"]
        fitted = MeanShift().fit(world.h[rows], world.z[rows])
        return [
            Edit(name, "s", 1.0, fitted.at(s), True)
            for name, s in (("MeanShift", 1.0), ("weak", 0.3), (across.SHUFFLED, 0.0))
        ]

    made = {}
    whole = yardstick.make_world

    def small(name, seed):
        if (name, seed) not in made:
            made[name, seed] = whole(name, seed, **SIZES)
        return made[name, seed]

    monkeypatch.setattr(across, "edits", few)
    monkeypatch.setattr(yardstick, "make_world", small)
    return small


def test_an_honest_method_keeps_its_score_and_one_that_remembers_falls(tmp_path, quick):
    """The cheat knows every state of the book's worlds and its true partner. Of the biographies
    all states are the same whatever the seed: there only the coordinates give it away."""
    for name in ("agreement", "biographies"):
        book = quick(name, yardstick.BOOK_SEED)
        seen = tmp_path / f"{name}.safetensors"
        save_file({"h": book.h.contiguous(), "partner": book.partner.contiguous()}, seen)
        cheat = written(tmp_path / "cheat.py", CHEAT.format(path=str(seen)))
        honest = written(tmp_path / "honest.py", HONEST)
        for file in (cheat, honest):
            scores = yardstick.run(yardstick.load(file), file, [name], [71, 72], lambda what: None)
            found = yardstick.summarize(scores, file.name)
            mine = found.loc[name].loc[file.name]
            (said,) = yardstick.verdicts(found, file.name)
            if file == cheat:
                assert mine.book > 0.99
                assert abs(mine.explained) < 0.01
                assert "do not trust it" in said
                assert "knows that world, not the property" in said
            else:
                shift = found.loc[name].loc["MeanShift"]
                assert mine.explained == pytest.approx(shift.explained, abs=0.02)
                assert "trust" not in said
                assert said.startswith(f"{name}: it explains {mine.explained:.0%} of the effect")


def test_the_command_prints_a_table_and_a_sentence(tmp_path, quick):
    honest = written(tmp_path / "honest.py", HONEST)
    done = CliRunner().invoke(
        app,
        [
            "yardstick",
            str(honest),
            "--worlds",
            "biographies",
            "--seeds",
            "2",
            "--seed",
            "71",
            "--out",
            str(tmp_path / "all.csv"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert re.search(r"honest.py +\d+ +\d+ +\d+ +\d+", done.output)
    assert "honest.py, shuffled labels" in done.output
    shown, said, end = done.stdout.partition("\nbiographies: it explains")
    assert said and end
    assert max(map(len, shown.splitlines())) <= 100
    assert "removed:   of" in shown
    assert "reliable:" not in shown  # that is the agreement sentences'
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 5  # the book's world and two, five methods


def test_papers_1_and_4_have_their_say(tmp_path, quick):
    """What selection is left is `across.share_of_slope_removed`; oracles that cannot judge give no
    score; what they say does not depend on the coordinates."""
    honest = written(tmp_path / "honest.py", HONEST)
    method = yardstick.load(honest)
    time = yardstick.rotate(quick("biographies", 71), 71)
    scores = yardstick.score(method, honest, time, 71)
    edit = Edit(
        "shift",
        "s",
        1.0,
        yardstick._fit(method, honest, time.h[time.parts["fit"]], time.z[time.parts["fit"]])[1.0],
        True,
    )
    assert scores.removed["honest.py"] == pytest.approx(
        across.share_of_slope_removed(time, edit, time.parts["test"])
    )
    assert scores.reliable.isna().all()
    few = quick("agreement", 71)
    assert few.judged is None  # 700 sentences: fewer than 300 to train on

    def judge(edited, rows, to):
        return -float((edited - few.partner[rows]).norm(dim=1).mean())

    plain = replace(few, judged=judge)
    one, other = (
        yardstick.score(method, honest, world, 71).reliable["honest.py"]
        for world in (plain, yardstick.rotate(plain, 5))
    )
    must_agree(one, other, "the oracles' score in two systems of coordinates", atol=1e-3)


def test_a_rotation_changes_coordinates_and_nothing_else(quick):
    world = quick("biographies", 71)
    turned, rows = yardstick.rotate(world, 5), world.parts["test"]
    must_agree(
        turned.probs(turned.h[rows], rows), world.probs(world.h[rows], rows), "behaviour", atol=1e-5
    )
    must_agree(turned.logits(turned.h[rows]), world.logits(world.h[rows]), "logits", atol=1e-3)
    assert turned.explained(turned.partner[rows], rows) == pytest.approx(1, abs=1e-4)
    assert (turned.h - world.h).norm() > world.h.norm() / 2
    stay = Edit("none", "", 1.0, lambda h, to: h, True)
    assert turned.kept(stay) == 1


@pytest.mark.parametrize(
    "code, says",
    [
        (None, "give a Python file"),
        ("x = (", "line 1: SyntaxError"),
        ("import no_such_library", "line 1: ModuleNotFoundError"),
        ("x = 1", "has 0 classes with fit"),
        ("class A:\n def fit(self, h, z): pass\nclass B(A): pass", "has 2 classes"),
        ("class A:\n def __init__(self, x): pass\n def fit(self, h, z): pass", "TypeError"),
        ("method = 3", "classes with fit"),
    ],
)
def test_a_file_without_a_method_is_refused_in_one_line(tmp_path, code, says):
    path = tmp_path / "own.py"
    if code is not None:
        path.write_text(code)
    done = CliRunner().invoke(app, ["yardstick", str(path)])
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert says in done.output
    assert str(path) in done.output


@pytest.mark.parametrize(
    "body, says",
    [
        ("def fit(self, h, z): raise ValueError('no\\nway')", "line 2: ValueError: no way"),
        ("def fit(self, h, z): return 3", "int, which cannot be called"),
        ("def fit(self, h, z): return lambda h: h", "TypeError"),
        ("def fit(self, h, z): return lambda h, to: h[:, 1:]", "the shape"),
        ("def fit(self, h, z): return lambda h, to: h / 0", "not finite"),
        ("def fit(self, h, z): return lambda h, to: None", "own.py: "),
    ],
)
def test_an_edit_that_breaks_the_contract_is_refused_in_one_line(tmp_path, body, says):
    path = written(tmp_path / "own.py", f"class A:\n    {body}\n")
    h, z = torch.zeros(4, 3), torch.tensor([0, 1, 0, 1])
    with pytest.raises(UserError, match=re.escape(says)) as said:
        for edit in yardstick._fit(yardstick.load(path), path, h, z).values():
            edit(h, z)
    assert "\n" not in str(said.value)


def test_a_method_gets_copies_numpy_is_taken_and_strengths_are_tried(tmp_path):
    path = written(
        tmp_path / "own.py",
        """
        import dataclasses
        import numpy as np

        class Own:
            def fit(self, h, z):
                h.zero_()
                return Fitted()

        @dataclasses.dataclass
        class Fitted:
            strength: float = 1.
            def at(self, strength):
                return Fitted(strength)
            def __call__(self, h, to):
                return np.asarray(h) + self.strength
        """,
    )
    h, z = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])
    edits = yardstick._fit(yardstick.load(path), path, h, z)
    assert {s: float(edit(h, z).mean()) for s, edit in edits.items()} == {
        s: 1 + s for s in yardstick.STRENGTHS
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda code: code,
        lambda code: code.replace("- h[z == 0].mean(0)", "- h[z == 0].mean(0).requires_grad_()"),
        lambda code: code.replace("class Shift:", "class Shift(BaseEstimator):").replace(
            "    class", "    from sklearn.base import BaseEstimator\n\n    class", 1
        ),
    ],
    ids=["plain", "with a graph, which cannot be copied", "an estimator of scikit-learn"],
)
def test_a_method_that_returns_itself_is_fitted_anew_for_labels_and_strengths(tmp_path, change):
    """`fit` and `at` may return the object: each fit and each strength is its own."""
    path = written(tmp_path / "own.py", change(SELF))
    method = yardstick.load(path)
    h, z = torch.tensor([[0.0], [0.0], [3.0], [3.0]]), torch.tensor([0, 0, 1, 1])
    first = yardstick._fit(method, path, h, z)
    second = yardstick._fit(method, path, -h, z)
    zero, to = torch.zeros(1, 1), torch.ones(1, dtype=torch.int64)
    assert {s: float(edit(zero, to)) for s, edit in first.items()} == {
        s: 3 * s for s in yardstick.STRENGTHS
    }
    assert float(second[1.0](zero, to)) == -3


def test_a_method_that_returns_itself_scores_as_one_that_does_not(tmp_path, quick):
    world = quick("biographies", 71)
    honest, own = written(tmp_path / "honest.py", HONEST), written(tmp_path / "own.py", SELF)
    one, other = (
        yardstick.score(yardstick.load(file), file, world, 71).explained for file in (honest, own)
    )
    assert one["honest.py"] > 0.3
    assert other["own.py"] >= one["honest.py"] - 0.02  # which is strength 1 of 4
    assert other["own.py, shuffled labels"] < 0.2


def test_unknown_worlds_are_refused(tmp_path):
    path = written(tmp_path / "own.py", HONEST)
    done = CliRunner().invoke(app, ["yardstick", str(path), "--worlds", "heaven"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "some of agreement,reviews,biographies,stories" in done.output


def test_no_share_is_minus_zero():
    assert [yardstick._percent(share) for share in (-0.004, 0.004, -0.006)] == ["0%", "0%", "-1%"]
