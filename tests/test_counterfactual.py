"""Measures against the true counterfactual, and the experiment of chapter 1 that uses them."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from probebook.base import UserError
from probebook.interventions import INLP, PGD, AlterRep
from probebook.interventions.apgd import APGD
from probebook.measures.counterfactual import (
    behavioural_completeness,
    behavioural_selectivity,
    progress,
    relative_distance,
)
from probebook.measures.reliability import completeness
from probebook.models import carry, embed
from probebook_chapters import causal_probing as cp

pytestmark = pytest.mark.library


def test_the_truth_is_at_distance_zero_and_doing_nothing_at_one():
    g = torch.Generator().manual_seed(0)
    h, true = torch.randn(50, 8, generator=g), torch.randn(50, 8, generator=g)
    assert relative_distance(true, h, true).abs().max() == 0
    assert (relative_distance(h, h, true) - 1).abs().max() < 1e-12
    half = h + 0.5 * (true - h)
    assert (relative_distance(half, h, true) - 0.5).abs().max() < 1e-6
    assert (progress(half, h, true) - 0.5).abs().max() < 1e-6
    q = torch.linalg.qr(torch.randn(8, 8, generator=g, dtype=torch.float64))[0].float()
    turned = relative_distance(half @ q, h @ q, true @ q)
    assert_close(turned, relative_distance(half, h, true), atol=1e-5, rtol=0)
    with pytest.raises(UserError, match="same rows"):
        relative_distance(h[:3], h, true)


def test_moving_mass_within_a_lemma_costs_no_behavioural_selectivity():
    groups = [0, 0, 1, 1, -1]
    before = torch.log(torch.tensor([[0.5, 0.1, 0.3, 0.1, 0.9]]))
    within = torch.log(torch.tensor([[0.1, 0.5, 0.05, 0.35, 0.1]]))
    between = torch.log(torch.tensor([[0.2, 0.1, 0.6, 0.1, 0.9]]))
    assert behavioural_selectivity(within, before, groups).item() == pytest.approx(1, abs=1e-6)
    assert behavioural_selectivity(between, before, groups).item() == pytest.approx(0.7, abs=1e-6)
    assert behavioural_completeness(within[:, :2], before[:, :2]).item() == 0
    with pytest.raises(UserError, match="left out"):
        behavioural_selectivity(within, before, [-1] * 5)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBEBOOK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield cp.prepare("pocket-agreement", n=1500)


def test_linear_oracles_see_alterrep_flip_and_nothing_else_where_there_is_nothing_else(setting):
    s = setting
    judges = {"linear": cp.oracles(s, cp.linear_probe, fewest=0)}
    fit = s.parts["intervention"]
    alter = AlterRep(max_rank=2).fit(s.h[fit], s.zc[fit])
    edits = cp.flips("AlterRep", "α", {a: alter.at(alpha=a) for a in (0.0, 8.0)}) + cp.erasures(
        "INLP", {0: INLP(max_rank=1).fit(s.h[fit], s.zc[fit]).at(rank=0)}
    )
    table = cp.sweep(s, judges, edits)
    assert list(table.strength) == [0, 8, 0]
    assert table.completeness[1] > 0.9 > table.completeness[0]
    assert table.selectivity[2] == pytest.approx(1, abs=1e-6)  # rank 0 changes nothing
    rows = s.parts["test"]
    p = judges["linear"].zc(s.h[rows]).softmax(1)
    assert table.completeness[2] == pytest.approx(float(completeness(p).mean()), abs=1e-6)
    chosen = cp.best_strengths(cp.sweep(s, judges, edits, "intervention_valid"), table)
    assert set(chosen.method) == {"AlterRep", "INLP"}
    assert (chosen.oracle == "linear").all()


def test_an_oracle_is_trained_once_and_trained_again_if_its_file_is_damaged(
    setting, monkeypatch, tmp_path
):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    tiny = dict(layers=[1], widths=[8], lrs=[1e-2])
    first = cp.target(setting, **tiny)
    (file,) = (tmp_path / "probes").glob("*.safetensors")
    assert torch.equal(cp.target(setting, **tiny)(setting.h), first(setting.h))
    written = file.stat().st_mtime_ns
    file.write_bytes(b"damaged")
    assert torch.equal(cp.target(setting, **tiny)(setting.h), first(setting.h))
    assert file.stat().st_mtime_ns > written
    assert len(list((tmp_path / "probes").glob("*.safetensors"))) == 1


def test_a_kept_attack_equals_the_attack_and_is_searched_once(setting, monkeypatch, tmp_path):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    s, tiny = setting, dict(layers=[1], widths=[8], lrs=[1e-2])
    h, to = s.h[:50], 1 - s.zc[:50]
    probe = cp.target(s, **tiny)
    other = cp.perceptron(s, s.ze, s.parts["oracle"], s.parts["oracle_valid"], **tiny)
    attack = PGD(probe, steps=3)
    for _ in range(2):  # searched, then read
        kept = cp.CachedAttack(attack).at(eps=0.3)
        edited = kept(h, to)
        assert torch.equal(edited, attack.at(eps=0.3)(h, to))
        assert torch.equal(edited, cp.CachedAttack(attack).at(eps=0.3)(h, to))
        assert torch.equal(kept.failed(edited, to), probe(edited).argmax(1) != to)
    assert len(list((tmp_path / "attacks").glob("*.safetensors"))) == 1
    for changed, x, wanted in (
        (PGD(probe, 0.4, steps=3), h, to),
        (PGD(probe, 0.3, steps=4), h, to),
        (PGD(other, 0.3, steps=3), h, to),
        (PGD(probe, 0.3, steps=3), 2 * h, to),
        (PGD(probe, 0.3, steps=3), h, 1 - to),
        (APGD(probe, 0.3, steps=3), h, to),
    ):
        assert torch.equal(cp.CachedAttack(changed)(x, wanted), changed(x, wanted))
    assert len(list((tmp_path / "attacks").glob("*.safetensors"))) == 7


def test_intervals_cover_the_mean_and_shrink_with_n():
    g = torch.Generator().manual_seed(0)
    widths = []
    for n in (200, 3200):
        c, s = torch.rand(n, generator=g).double(), torch.rand(n, generator=g).double()
        s[::3] = torch.nan
        low_high, mean = cp.intervals(c, s), cp.means(c, s)
        for m, v in mean.items():
            assert low_high[f"{m}_low"] < v < low_high[f"{m}_high"]
        widths.append(low_high["completeness_high"] - low_high["completeness_low"])
        assert widths[-1] == pytest.approx(2 * 1.96 * float(c.std()) / np.sqrt(n), rel=0.12)
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.2)


def test_an_edit_carried_to_the_last_layer_equals_the_state_there(setting):
    s, rows = setting, setting.parts["test"][:40].numpy()
    texts = list(s.table.text.iloc[rows])
    carried = carry(texts, s.lm, 2, "[MASK]", lambda h: h)
    assert_close(carried, embed(texts, s.lm), atol=1e-4, rtol=0)
    other = list(s.table.subject_flipped.iloc[rows])
    # [MASK] is the same in both at layer 0.
    moved = carry(texts, s.lm, 0, "[MASK]", embed(other, s.lm, layer=0))
    assert_close(moved, embed(texts, s.lm), atol=1e-4, rtol=0)
    assert isinstance(s.table, pd.DataFrame)
    assert torch.equal(s.at_layers([2])[2].h, embed(s.table.text, s.lm, 2))


def test_what_follows_an_edit_of_the_last_layer_and_of_none(setting):
    s, rows = setting, setting.parts["test"][:60]
    at = s.at_layers([0, s.lm.depth])
    judges = {k: cp.oracles(one, cp.linear_probe, fewest=0) for k, one in at.items()}
    flipped = embed(list(s.table.subject_flipped.iloc[rows.numpy()]), s.lm)
    nothing = cp.Edit("nothing", "", 1, lambda x, to: x, True)
    truth = cp.Edit("truth", "", 1, lambda x, to: flipped, True)
    found = cp.follow(at, judges, s.lm.depth, [nothing, truth], rows).set_index("method")
    still = cp.follow(at, judges, 0, [nothing], rows)
    table = s.table.iloc[rows.numpy()]
    chosen = cp.verb_choice(table, s.lm)
    wrong = 1 - (chosen.share * chosen.n).sum() / chosen.n.sum()
    assert found["other verb"]["nothing"].tolist() == pytest.approx([wrong, wrong])
    assert still["other verb"].tolist() == pytest.approx([wrong, wrong])
    assert found["other verb"]["truth"].min() > 0.8 > 0.2 > wrong
    assert found.selectivity["nothing"].tolist() == pytest.approx([1, 1])
    assert found.completeness["truth"].nunique() == 1  # made where it arrives
    c, kept = cp.score_edit(at[s.lm.depth], judges[s.lm.depth], s.h[rows], rows, 1 - s.zc[rows])
    assert still.completeness.iloc[1] == pytest.approx(float(c.mean()), abs=1e-3)
    zero = cp.follow(at, judges, s.lm.depth, [truth], rows, lambda x, edited: torch.zeros_like(x))
    assert set(zero.directions) == {"random"} and zero["other verb"].max() < 0.8


def test_axes_of_both_numbers_are_at_a_right_angle_and_point_to_the_plural(setting):
    s, fit = setting, setting.parts["intervention"]
    axes = cp.number_axes(s)
    assert_close(axes.T @ axes, torch.eye(2), atol=1e-5, rtol=0)
    x = s.h[fit] @ axes
    assert x[s.zc[fit] == 1, 0].mean() > x[s.zc[fit] == 0, 0].mean()
    assert x[s.ze[fit] == 1, 1].mean() > x[s.ze[fit] == 0, 1].mean()
    plane = cp.on_axes(s, axes, fit[:10], s.h[fit[:10]] + axes[:, 0])
    before, after = plane[plane.when == "before"], plane[plane.when == "after"]
    assert (after.x.to_numpy() - before.x.to_numpy()) == pytest.approx(1, abs=1e-4)
    assert (after.y.to_numpy() - before.y.to_numpy()) == pytest.approx(0, abs=1e-4)
