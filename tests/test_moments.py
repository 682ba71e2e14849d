"""States that do not fit in memory: closed forms from blocks equal those from all at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from typer.testing import CliRunner

import probebook_audit as audit
from probebook.interventions import LEACE, MeanShift, shuffled
from probebook.probes import LinearDiscriminant
from probebook.probes.moments import moments
from probebook_audit import fitting, from_files, labelled, report
from probebook_cli import app


@pytest.fixture
def states():
    """3,000 states far from 0, of very unequal spreads, with three classes."""
    draws = torch.Generator().manual_seed(0)
    z = torch.randint(0, 3, (3_000,), generator=draws)
    h = torch.randn(3_000, 24, generator=draws, dtype=torch.float64) * torch.logspace(-2, 2, 24)
    return h + 50 + torch.randn(3, 24, generator=draws, dtype=torch.float64)[z], z


def close(a, b):
    assert torch.allclose(a, b, rtol=1e-8, atol=1e-8 * float(b.abs().max()))


@pytest.mark.parametrize("size", [1, 700, 5_000])
def test_blocks_give_what_all_states_at_once_give(states, size):
    h, z = states
    two = torch.stack([z, shuffled(z, seed=1)], 1)
    blocks = zip(h.split(size), two.split(size))
    for labels, found in zip(two.T, moments(blocks, 3, h[:50].mean(0))):
        for method in (LEACE(), MeanShift()):
            whole, parts = method.fit(h, labels), method.fit_moments(found)
            move = (
                (lambda edit: edit(h))
                if isinstance(method, LEACE)
                else (lambda edit: edit(h, to=(labels + 1) % 3))
            )
            close(move(parts), move(whole))
    shift = MeanShift().fit(h, z)
    first = moments([(h, z[:, None])], 3, h[0])[0]
    close(first.means, shift.means)
    close(first.mean, h.mean(0))


def test_the_linear_discriminant_is_that_of_scikit_learn(states):
    h, z = states
    own = LinearDiscriminant(ridge=1e-14).fit(h, z)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(h.numpy(), z.numpy())
    close(own(h).softmax(1), torch.from_numpy(theirs.predict_proba(h.numpy())))
    blocks = zip(h.split(700), z[:, None].split(700))
    found = LinearDiscriminant(ridge=1e-14).fit_moments(moments(blocks, 3, h[:50].mean(0))[0])
    close(found(h), own(h))


def test_of_gaussian_classes_with_one_covariance_it_knows_the_probabilities():
    """Two classes N(±m, Σ), one twice as frequent: log-odds 2 mᵀΣ⁻¹h + log 2."""
    draws = torch.Generator().manual_seed(0)
    z = (torch.rand(200_000, generator=draws) < 2 / 3).long()
    mix = torch.tensor([[1.0, 0, 0], [0.8, 0.5, 0], [-0.3, 0.2, 2]], dtype=torch.float64)
    m = torch.tensor([0.4, -0.1, 0.5], dtype=torch.float64)
    noise = torch.randn(len(z), 3, generator=draws, dtype=torch.float64)
    logits = LinearDiscriminant().fit(noise @ mix.T + (2.0 * z - 1)[:, None] * m, z)(
        torch.eye(3, dtype=torch.float64)
    )
    true = 2 * torch.linalg.solve(mix @ mix.T, m) + torch.tensor(2.0).log()
    assert (logits[:, 1] - logits[:, 0] - true).abs().max() < 0.05


def test_a_constant_dimension_says_nothing(states):
    h, z = states
    h = torch.cat([h, torch.full((len(h), 1), 7.0)], 1)
    close(LinearDiscriminant().fit(h, z)(h), LinearDiscriminant().fit(h[:, :-1], z)(h[:, :-1]))


def test_moments_of_parts_add_up(states):
    h, z = states
    one, two, both = (
        moments([(h[part], z[part, None])], 3, h[0])[0]
        for part in (slice(0, 900), slice(900, None), slice(None))
    )
    close(LEACE().fit_moments(one + two)(h), LEACE().fit_moments(both)(h))


@pytest.fixture
def planted(tmp_path):
    """A file of 4,000 states in float16, in which two properties are read, and its labels."""
    draws = np.random.default_rng(0)
    z, other = draws.integers(0, 2, (2, 4_000))
    h = torch.from_numpy(draws.normal(size=(4_000, 16))).half()
    h[:, 0] += torch.from_numpy(3.0 * z - 1.5).half()
    h[:, 1] += torch.from_numpy(3.0 * other - 1.5).half()
    save_file({"h": h}, tmp_path / "s.safetensors")
    pd.DataFrame({"z": z, "other": other, "group": np.arange(4_000) // 4}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    return tmp_path / "s.safetensors", tmp_path / "labels.csv", h.float(), torch.from_numpy(z)


def test_an_audit_streams_what_was_not_drawn(planted, monkeypatch):
    """LEACE of a seed is that of its part in memory and all other states together."""
    path, labels, h, z = planted
    monkeypatch.setattr(from_files, "BLOCK", 8 * 16 * 300)  # 300 states
    data = labelled.read(str(labels), "", "z", ["other"], group="group", n=1_000)
    assert len(data.z) + len(data.other_z) == 4_000
    drawn, rest = ({*np.asarray(rows) // 4} for rows in (data.rows, data.other_rows))
    assert not drawn & rest  # no group is on both sides
    case = audit.from_states(data, str(path), 250, stream=True)
    others = fitting.of_others(case, 2)
    for seed in (0, 1):
        found = audit.fit(case, seed, ["LEACE", "MeanShift"], [1], [1], others[seed])
        rows = np.concatenate([data.other_rows, data.rows[found.fit.numpy()]])
        whole = LEACE().fit(h[rows], z[rows])
        close(found.fitted["LEACE"][1.0](h[:99].double()), whole(h[:99].double()))
        mixed = torch.cat(
            [
                shuffled(torch.from_numpy(data.other_z), seed=seed + 1),
                shuffled(case.z[found.fit], seed=seed + 1),
            ]
        )
        (control,) = found.edits["MeanShift", "shuffled"][1]
        wanted = 1 - z[:99]
        close(
            control(h[:99].double(), wanted),
            MeanShift().fit(h[rows], mixed)(h[:99].double(), to=wanted),
        )


@pytest.mark.parametrize("skewed", [False, True])
def test_the_probe_is_that_of_all_states_where_it_is_right_more_often(tmp_path, skewed):
    """400 of 12,000 states in 120 dimensions: the discriminant of all is nearly the best. Where
    some states lie far out, which moves their mean, logistic regression of the few is better."""
    draws = np.random.default_rng(0)
    z = draws.integers(0, 2, 12_000)
    h = draws.normal(size=(12_000, 3 if skewed else 120))
    h[:, 0] += 2.0 * z - 1
    if skewed:
        h[:, 0] = np.where((z == 1) & (draws.random(len(z)) < 0.02), 300, 3 * h[:, 0])
    h = torch.from_numpy(h).float()
    save_file({"h": h}, tmp_path / "s.safetensors")
    pd.DataFrame({"z": z, "group": np.arange(len(z)) // 4}).to_csv(tmp_path / "z.csv", index=False)
    data = labelled.read(str(tmp_path / "z.csv"), "", "z", group="group", n=400)
    case = audit.from_states(data, str(tmp_path / "s.safetensors"), 100, stream=True)
    (others,) = fitting.of_others(case, 1)
    found = audit.fit(case, 0, ["LEACE"], [1], [1], others).probe
    drawn = audit.fit(case, 0, ["LEACE"], [1], [1])
    alone, rows = drawn.probe, np.concatenate([data.other_rows, data.rows[drawn.fit.numpy()]])
    whole = LinearDiscriminant().fit(h[rows], z[rows])
    close(found(h[:99].double()), (alone if skewed else whole)(h[:99].double()))
    new = torch.from_numpy(data.other_z)
    of_new = [
        (probe(h[torch.from_numpy(data.other_rows)]).argmax(1) == new).double().mean()
        for probe in (alone, whole)
    ]
    assert (of_new[0] > of_new[1] + 0.05) if skewed else (of_new[1] > of_new[0] + 0.05)


@pytest.mark.usefixtures("kernels")
def test_the_command_draws_what_fits_in_memory_and_says_so(planted, monkeypatch, tmp_path):
    path, labels, _, _ = planted
    monkeypatch.setattr(from_files, "IN_MEMORY", 4 * 16 * 1_000)  # 1,000 states
    done = CliRunner().invoke(
        app,
        [
            "audit",
            str(labels),
            "--states",
            str(path),
            "--label",
            "z",
            "--keep",
            "other",
            "--group",
            "group",
            "--profile",
            "smoke",
            "-p",
            "n_judged=250",
            "--out",
            str(tmp_path / "report"),
        ],
    )
    assert done.exit_code == 0, done.output
    read = report.Report.model_validate_json((tmp_path / "report" / "report.json").read_bytes())
    assert read.parameters["n"] == 1_000 and read.parameters["stream"]
    assert "(1,000 items in 250 groups" in read.methods
    assert "LEACE and MeanShift learned from 3,000 further states as well" in read.methods
    assert from_files.fitting_items(str(path)) == 1_000


def test_nan_beyond_the_drawn_states_is_refused_before_a_kernel(planted, monkeypatch, tmp_path):
    path, labels, h, _ = planted
    data = labelled.read(str(labels), "", "z", ["other"], group="group", n=1_000)
    h[int(data.other_rows[7]), 3] = torch.nan
    save_file({"h": h}, path)
    monkeypatch.setattr(from_files, "IN_MEMORY", 4 * 16 * 1_000)
    done = CliRunner().invoke(
        app,
        [
            "audit",
            str(labels),
            "--states",
            str(path),
            "--label",
            "z",
            "--group",
            "group",
            "--profile",
            "smoke",
            "--out",
            str(tmp_path / "report"),
        ],
    )
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert f"row {int(data.other_rows[7]) + 1:,} of h holds NaN" in done.output
    assert not (tmp_path / "report").exists()
