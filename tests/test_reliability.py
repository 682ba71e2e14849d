"""Equations 1–4 against closed forms and the published audit points."""

import pytest
import torch

from probebook.base import UserError
from probebook.measures.reliability import completeness, reliability, selectivity, total_variation

pytestmark = pytest.mark.library


def simplex(n, k, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(2 * torch.randn(n, k, generator=generator, dtype=torch.float64), 1)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_counterfactual_completeness_is_the_wanted_probability(k):
    p, to = simplex(50, k), torch.arange(50) % k
    torch.testing.assert_close(completeness(p, to=to), p[range(50), to])


@pytest.mark.parametrize("k", [2, 3, 7])
def test_nullifying_completeness_runs_from_a_vertex_to_the_centre(k):
    torch.testing.assert_close(
        completeness(torch.eye(k)), torch.zeros(k, dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert float(completeness(torch.full((1, k), 1 / k, dtype=torch.float64))) == pytest.approx(1)


def test_a_know_nothing_oracle_scores_the_papers_ceiling():
    """The label mix of the agreement corpus, 69.8/30.2: C = 1 − 2·|.698 − .5|."""
    assert float(completeness([[0.698, 0.302]])) == pytest.approx(0.604)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_selectivity_is_one_unchanged_and_zero_at_the_farthest_point(k):
    p = simplex(40, k)
    torch.testing.assert_close(selectivity(p, p), torch.ones(40, dtype=torch.float64))
    vertices = torch.eye(k, dtype=torch.float64)
    scores = torch.stack([selectivity(v.expand(40, k), p) for v in vertices])
    torch.testing.assert_close(
        scores.min(0).values, torch.zeros(40, dtype=torch.float64), rtol=0, atol=1e-12
    )
    found = selectivity(simplex(40, k, 1), p)
    assert (found >= 0).all()
    assert (found <= 1).all()


def test_total_variation_is_a_metric():
    a, b, c = (simplex(100, 4, s) for s in range(3))
    torch.testing.assert_close(total_variation(a, b), total_variation(b, a), rtol=0, atol=0)
    assert (total_variation(a, c) <= total_variation(a, b) + total_variation(b, c) + 1e-12).all()
    assert float(total_variation(a, a).abs().max()) == 0


def test_reliability_is_the_harmonic_mean_with_zero_for_zero():
    # the paper's FGSM row
    assert float(reliability(0.8923, 0.3994)) == pytest.approx(0.5518, abs=1e-4)
    assert float(reliability(0.0, 0.0)) == 0
    assert float(reliability(1.0, 1.0)) == 1


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: completeness([[0.5, 0.6]]), "summing to 1"),
        (lambda: completeness([[float("nan"), 1.0]]), "probabilities"),
        (lambda: completeness([[1.0]]), "k ≥ 2"),
        (lambda: completeness([[0.5, 0.5]], to=[2]), r"0 … 1"),
        (lambda: selectivity([[0.5, 0.5]], [[0.2, 0.3, 0.5]]), "same rows"),
    ],
)
def test_bad_input_gets_one_line(call, says):
    with pytest.raises(UserError, match=says):
        call()
