"""Judges are judged before they score: planted states in which an oracle can or cannot judge."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

from probebook.base import UserError
from probebook.corpora import agreement
from probebook.interventions.serialization import load, save
from probebook.probes import MLPProbe
from probebook_chapters import causal_probing as cp

pytestmark = pytest.mark.library

SMALL = {"layers": [1], "widths": [16], "lrs": [1e-2]}


def planted(
    n: int = 4000, opposite: float = 0.5, reads: tuple[float, float] = (3, 3), seed: int = 0
) -> cp.AgreementSetting:
    """Sentences whose states hold Z_c and Z_e, each on a line of its own, `reads` times as clearly
    as the noise; the attractor has the opposite number in a share `opposite` of them."""
    rng = np.random.default_rng(seed)
    zc = rng.integers(2, size=n)
    ze = np.where(rng.random(n) < opposite, 1 - zc, zc)
    h = rng.normal(size=(n, 8))
    h[:, 0] += reads[0] * (2 * zc - 1)
    h[:, 1] += reads[1] * (2 * ze - 1)
    table = pd.DataFrame(
        {
            "text": [f"sentence {i}" for i in range(n)],
            "subject": "",
            "attractor": "",
            "group": "",
            "work": "",
        }
    )
    parts = {name: torch.tensor(rows) for name, rows in agreement.split(table, seed).items()}
    return cp.AgreementSetting(
        None,
        -1,
        table,
        torch.tensor(h, dtype=torch.float32),
        torch.tensor(zc),
        torch.tensor(ze),
        parts,
        seed,
    )


def unchanged(s: cp.AgreementSetting, judges: cp.Judges) -> dict[str, float]:
    """The scores of an edit that does nothing."""
    rows = s.parts["test"]
    return cp.means(*cp.score_edit(s, judges, s.h[rows], rows))


def test_oracles_that_read_both_numbers_can_judge():
    s = planted()
    judges = cp.oracles(s, **SMALL)
    assert judges.report.usable.all()
    assert str(judges) == "both oracles can judge"
    assert judges.report.accuracy.min() > 0.98
    assert unchanged(s, judges)["selectivity"] == pytest.approx(1)


def test_an_oracle_of_too_few_sentences_scores_nothing():
    """As in collections whose attractors nearly always have the other number."""
    s = planted(opposite=0.97)
    judges = cp.oracles(s, **SMALL)
    trained = judges.report.trained["ze"]
    assert trained < 200
    assert f"number of the attractor: {trained} training sentences, fewer than 500" in str(judges)
    assert not judges.usable("ze")
    assert np.isnan(unchanged(s, judges)["selectivity"])
    assert np.isnan(unchanged(s, judges)["reliability"])
    assert cp.oracles(s, **SMALL, fewest=20).usable("ze")


def test_with_fewest_0_every_oracle_judges():
    s = planted(reads=(3, 0))
    assert cp.oracles(s, **SMALL, fewest=0).usable("ze")


def test_an_oracle_that_reads_nothing_scores_nothing():
    s = planted(reads=(3, 0))
    judges = cp.oracles(s, **SMALL)
    assert judges.usable("zc")
    assert "a rule without it in" in judges.report.reason["ze"]
    assert not np.isnan(unchanged(s, judges)["completeness"])
    assert np.isnan(unchanged(s, judges)["selectivity"])


def test_an_oracle_that_reads_the_wrong_number_is_found_out():
    """It reads the subject instead: near 1 where the two agree, and at one half on uncorrelated
    sentences."""
    s = planted(opposite=0.03)
    wrong = cp.perceptron(s, s.zc, s.parts["oracle"], s.parts["oracle_valid"], **SMALL)
    rows = s.parts["test"]
    assert cp.accuracy(wrong, s.h[rows], s.ze[rows]) > 0.9
    examined = cp.evaluate_oracles(s, {"zc": wrong, "ze": wrong}, fewest=20)
    assert examined.usable.to_dict() == {"zc": True, "ze": False}
    assert examined.accuracy["ze"] < 0.7


def test_the_wrong_rules_are_at_chance_where_the_numbers_do_not_correlate():
    examined = cp.oracles(planted(opposite=0.8), **SMALL).report
    np.testing.assert_allclose(examined.wrong_rule, 0.5, atol=0.03)


def test_oracles_are_chosen_on_uncorrelated_sentences():
    s = planted(opposite=0.8)
    for name in ("zc", "ze"):
        for part in ("oracle", "oracle_valid", "test"):
            rows = cp.uncorrelated_rows(s, name, part)
            assert set(rows.tolist()) <= set(s.parts[part].tolist())
            cells = pd.crosstab(s.zc[rows].numpy(), s.ze[rows].numpy()).to_numpy()
            independent = np.outer(cells.sum(1), cells.sum(0)) / cells.sum()
            assert np.abs(cells - independent).max() < 1


def test_a_strength_that_no_judge_scored_is_not_chosen():
    scored = pd.DataFrame(
        {
            "oracle": ["a", "a", "b"],
            "method": "INLP",
            "strength": [1, 2, 1],
            "reliability": [0.2, 0.6, np.nan],
        }
    )
    assert cp.best_strengths(scored, scored).strength.tolist() == [2]


def test_one_number_alone_is_refused():
    with pytest.raises(UserError, match="always go together in the sentences of oracle"):
        cp.uncorrelated_rows(planted(opposite=1), "ze", "oracle")


def test_why_oracles_cannot_judge_is_one_line():
    s = planted(reads=(3, 0))
    assert cp.why_unusable({"with both": cp.oracles(planted(), **SMALL)}) == ""
    why = cp.why_unusable({"with one": cp.oracles(s, **SMALL)})
    assert re.fullmatch("no usable judge: number of the attractor: [^\\n]*", why)


# a panel of perceptrons


def test_a_score_is_the_mean_of_all_that_can_judge():
    """A rate of 1e-9 leaves its perceptron where it began: it reads nothing and does not judge."""
    s, grid = planted(), dict(layers=[1], widths=[8, 16], lrs=[1e-2, 1e-9])
    judges = cp.oracles(s, **grid)
    assert judges.report.tried.tolist() == [4, 4]
    assert judges.report.judges.tolist() == [2, 2]
    assert {one.cell.lr for one in judges.zc.members} == {1e-2}
    rows = s.parts["test"]
    edited, to = s.h[rows].roll(1, 0), 1 - s.zc[rows]
    c, kept = cp.score_edit(s, judges, edited, rows, to)
    assert c.shape == kept.shape == (2, len(rows))
    for i, (zc, ze) in enumerate(zip(judges.zc.members, judges.ze.members)):
        one = cp.Judges(zc, ze, judges.report)
        for mean, alone in zip((c[i], kept[i]), cp.score_edit(s, one, edited, rows, to)):
            torch.testing.assert_close(mean, alone[0])
    assert cp.means(c, kept)["completeness"] == pytest.approx(float(c.mean(1).mean()))


def test_the_best_perceptron_is_one_of_the_panel():
    s, grid = planted(), dict(layers=[1], widths=[4], lrs=[1e-2, 1e-9])
    rows, valid = s.parts["oracle"], s.parts["oracle_valid"]
    panel = cp.perceptrons(s, s.zc, rows, valid, **grid)
    best = cp.perceptron(s, s.zc, rows, valid, **grid)
    assert best.cell == panel.members[0].cell
    assert [cell for cell, _ in best.scores] == [one.cell for one in panel.members]
    alone = MLPProbe.grid([1], [4], [1e-2, 1e-9], [s.seed])
    alone = alone.fit(s.h[rows], s.zc[rows], s.h[valid], s.zc[valid])
    torch.testing.assert_close(best(s.h[:9]), alone(s.h[:9]), rtol=0, atol=0)


def test_a_panel_is_saved_and_read(tmp_path):
    s = planted(400)
    panel = cp.perceptrons(s, s.zc, s.parts["oracle"], s.parts["oracle_valid"], **SMALL)
    save(panel, tmp_path / "panel.safetensors")
    torch.testing.assert_close(
        load(tmp_path / "panel.safetensors")(s.h), panel(s.h), rtol=0, atol=0
    )


def test_intervals_hold_the_spread_of_the_judges():
    """Two judges that disagree about everything: the mean of two drawn is 0, .5 or 1."""
    torch.manual_seed(0)
    apart = torch.stack([torch.zeros(500), torch.ones(500)]).double()
    agreed = torch.rand(1, 500).double()
    ends = cp.intervals(apart, agreed, n=400)
    assert (ends["completeness_low"], ends["completeness_high"]) == (0, 1)
    half = 1.96 * float(agreed.std()) / 500**0.5
    width = ends["selectivity_high"] - ends["selectivity_low"]
    assert width == pytest.approx(2 * half, rel=0.15)


def test_rounding_hardly_moves_a_score():
    """As another processor would, noise of one part in ten million trains other perceptrons."""
    s, noise = planted(2000, reads=(1.5, 1.0)), torch.Generator().manual_seed(1)
    other = cp.replace(s, h=s.h * (1 + 1e-7 * torch.randn(s.h.shape, generator=noise)))
    rows = s.parts["test"]
    edited, to = s.h[rows].roll(1, 0), 1 - s.zc[rows]
    here, there = (
        cp.means(*cp.score_edit(s, cp.oracles(one), edited, rows, to)) for one in (s, other)
    )
    assert here == pytest.approx(there, abs=1e-4)
