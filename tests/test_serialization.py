"""A fitted edit that was saved and loaded does exactly what it did."""

from functools import cache

import pytest
import torch
from safetensors.torch import save_file

from probebook.base import UserError
from probebook.interventions import DAS, FGSM, MatchedDirection, MatchedSubspace, SparseAutoencoder
from probebook.interventions.serialization import load, save
from probebook.interventions.table import INTERVENTIONS, FitData
from probebook.probes import LinearProbe, MLPProbe

pytestmark = pytest.mark.library

G = torch.Generator().manual_seed(0)
Z = torch.randint(2, (300,), generator=G)
H = torch.randn(300, 6, generator=G) + 2 * Z[:, None]


def fitted(h=H, z=Z):
    """Every method, fitted on states h [n, 6] and labels z [n]: name → edit or probe."""
    linear = LinearProbe().fit(h, z)
    data = FitData(
        h,
        z,
        max_rank=3,
        perceptron=MLPProbe(width=8),
        autoencoder=SparseAutoencoder(width=12, active=2, steps=20),
        fit_das=lambda: DAS(steps=2).fit(h, h.flip(0), z, linear),
    )
    edits = {
        name: row.at(row.fit(data), 2 if row.scale == "rank" else 0.5, data)
        for name, row in INTERVENTIONS.items()
    }
    return edits | {
        "direction": MatchedDirection(edits["MeanShift"], seed=3),
        "subspace": MatchedSubspace(edits["AlterRep"], seed=3).at(2.0),
        "mlp": data.probe,
        "linear": linear,
    }


everything = cache(fitted)
TAKE_STATES_ALONE = {
    "mlp",
    "linear",
    *(name for name, row in INTERVENTIONS.items() if not row.flips and row.needs != "labels"),
}


@pytest.mark.parametrize("name", [*INTERVENTIONS, "direction", "subspace", "mlp", "linear"])
def test_saved_and_loaded_edits_agree_to_the_bit(name, tmp_path):
    thing = everything()[name]
    save(thing, tmp_path / "edit.safetensors")
    again = load(tmp_path / "edit.safetensors")
    assert type(again) is type(thing)
    assert [p.name for p in tmp_path.iterdir()] == ["edit.safetensors"]
    given = [H] if name in TAKE_STATES_ALONE else [H, 1 - Z]
    assert torch.equal(thing(*given), again(*given))


def test_what_cannot_be_saved_or_loaded_says_so(tmp_path):
    with pytest.raises(UserError, match="Linear cannot be saved"):
        save(FGSM(torch.nn.Linear(6, 2)), tmp_path / "a")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="give a file that `save` wrote"):
        load(tmp_path / "missing")
    (tmp_path / "b").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="give a file that `save` wrote"):
        load(tmp_path / "b")
    save_file({"h": H}, tmp_path / "c")
    with pytest.raises(UserError, match="no fitted edit"):
        load(tmp_path / "c")


def test_a_flipped_bit_is_seen(tmp_path):
    path = tmp_path / "probe.safetensors"
    save(LinearProbe().fit(H, Z), path)
    content = path.read_bytes()
    for i in (10, len(content) // 2, len(content) - 4):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        with pytest.raises(UserError, match="is damaged|cannot be read|holds no fitted"):
            load(path)
    path.write_bytes(content)
    assert load(path)
