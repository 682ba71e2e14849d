"""The toy world: drawing and exact moments agree, graphs say what covariances say, limits are
known."""

import itertools

import networkx as nx
import numpy as np
import pytest

from probebook.base import UserError
from probebook_chapters import toy_world as toy

pytestmark = pytest.mark.library


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"gamma": 0},
        {"alpha": 2, "gamma": 0.5, "threshold": 0, "noise": 3},
        {"threshold": -1, "noise": 0},
    ],
)
def test_drawn_and_exact_agree(changed):
    drawn, world = toy.simulate(400_000, **changed), toy.exact(**changed)
    kept = drawn[drawn.s]
    error = (world.kept * (1 - world.kept) / len(drawn)) ** 0.5
    assert abs(len(kept) / len(drawn) - world.kept) < 5 * error
    for selected, part in ((False, drawn), (True, kept)):
        wanted = world.after if selected else world.before
        scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        assert np.abs((np.cov(part[toy.NAMES].T) - wanted) / scale).max() < 8 / len(part) ** 0.5
        assert toy.NAMES == ["w", "g", "x", "y"]
        np.testing.assert_allclose(
            world.slope("y", ["x", "g"], selected),
            [changed.get("gamma", 1), 1],
            rtol=1e-5,
            atol=1e-8,
        )


def test_the_papers_parameters():
    well, un = toy.exact(), toy.exact(gamma=0)
    assert round(well.kept, 3) == round(un.kept, 3) == 0.037
    assert [round(well.corr(*pair), 3) for pair in ("wg", "xy")] == [-0.685, 0.848]
    assert [round(un.corr(*pair), 3) for pair in ("wg", "xy")] == [-0.685, -0.659]
    assert round(well.corr("x", "y", False), 3) == 0.974
    assert un.corr("x", "y", False) == 0 == un.corr("w", "g", False)


def test_limits():
    """All kept: nothing changes. Cut at the mean without noise: Var(T | T > 0) = (1 − 2/π) Var T.
    Far tail: finite."""
    everything = toy.exact(threshold=-50)
    np.testing.assert_allclose(everything.after, everything.before, rtol=1e-5, atol=1e-8)
    half = toy.exact(threshold=0, noise=0)
    total = [1, 1, 0, 0]
    assert half.kept == 0.5
    np.testing.assert_allclose(
        total @ half.after @ total, (1 - 2 / np.pi) * (total @ half.before @ total), rtol=1e-5
    )
    assert -1 < toy.exact(threshold=30).corr("w", "g") < -0.97
    drawn = toy.simulate(200_000, noise=5, threshold=0.5)
    assert abs(toy.chance(drawn.w, drawn.g, 10, 0.5, 5).mean() - drawn.s.mean()) < 0.005


@pytest.mark.parametrize("task, gamma", [("well-specified", 1), ("unspecified", 0)])
def test_graph_and_covariances_agree(task, gamma):
    """Among the selected, two variables are d-separated by S and a set exactly if their partial
    correlation is 0."""
    world = toy.exact(gamma=gamma)
    for a, b in itertools.combinations(toy.NAMES, 2):
        rest = [name for name in toy.NAMES if name not in (a, b)]
        for given in [some for k in range(3) for some in itertools.combinations(rest, k)]:
            last = world.slope(b, [a, *given])[0]
            apart = nx.is_d_separator(
                toy.graph(task), a.upper(), b.upper(), {"S", *map(str.upper, given)}
            )
            # γ − γ: the two noises are equally large
            cancels = (a, b, given) == ("g", "x", ("w", "y")) and gamma
            assert (apart or bool(cancels)) == (abs(last) < 1e-9), (a, b, given)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: toy.graph("both"), "expected well-specified, unspecified"),
        (lambda: toy.simulate(0), "at least 1"),
        (lambda: toy.exact(alpha=0), "above 0"),
        (lambda: toy.chance(0, 0, noise=0), "above 0"),
    ],
)
def test_bad_input_gets_one_line(call, says):
    with pytest.raises(UserError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
