"""A fitted edit that was saved and loaded does exactly what it did."""

import pytest
import torch
from safetensors.torch import save_file

from probebook.base import UserError
from probebook.interventions import (
    DAS,
    FGSM,
    INLP,
    LEACE,
    PGD,
    QLEACE,
    RLACE,
    AffineSteering,
    AlterRep,
    AutoAttack,
    MatchedDirection,
    MatchedSubspace,
    MeanShift,
    SparseAutoencoder,
    SparseFeatures,
)
from probebook.interventions.serialization import load, save
from probebook.probes import LinearProbe, MLPProbe

G = torch.Generator().manual_seed(0)
Z = torch.randint(2, (300,), generator=G)
H = torch.randn(300, 6, generator=G) + 2 * Z[:, None]
SPARSE = SparseAutoencoder(width=12, active=2, steps=20)


def fitted(h=H, z=Z):
    """Every method, fitted on states h [n, 6] and labels z [n]: name → edit or probe."""
    mlp, linear = MLPProbe(width=8).fit(h, z), LinearProbe().fit(h, z)
    return {
        "inlp": INLP(max_rank=3).fit(h, z).at(rank=2),
        "rlace": RLACE(rank=1, steps=200).fit(h, z),
        "leace": LEACE().fit(h, z),
        "alterrep": AlterRep(max_rank=2).fit(h, z).at(alpha=3.0),
        "shift": MeanShift().fit(h, z).at(0.5),
        "affine": AffineSteering().fit(h, z).at(1.5),
        "das": DAS(steps=2).fit(h, h.flip(0), z, linear).at(0.5),
        "direction": MatchedDirection(MeanShift().fit(h, z), seed=3).at(0.5),
        "subspace": MatchedSubspace(AlterRep(max_rank=2).fit(h, z), seed=3).at(2.0),
        "sparse": SparseFeatures(n_features=3, autoencoder=SPARSE).fit(h, z).at(0.5),
        "qleace": QLEACE().fit(h, z).at(0.5),
        "fgsm": FGSM(mlp).at(eps=0.3),
        "pgd": PGD(linear, steps=5).at(eps=0.2),
        "auto": AutoAttack(mlp).at(eps=0.3),
        "mlp": mlp,
        "linear": linear,
    }


@pytest.mark.parametrize("name", fitted())
def test_saved_and_loaded_edits_agree_to_the_bit(name, tmp_path):
    thing = fitted()[name]
    save(thing, tmp_path / "edit.safetensors")
    again = load(tmp_path / "edit.safetensors")
    assert type(again) is type(thing)
    assert [p.name for p in tmp_path.iterdir()] == ["edit.safetensors"]
    if name not in ("inlp", "rlace", "leace", "qleace", "mlp", "linear"):  # it takes a target
        assert torch.equal(thing(H, to=1 - Z), again(H, to=1 - Z))
    elif name == "qleace":
        assert torch.equal(thing(H, Z), again(H, Z))
    else:
        assert torch.equal(thing(H), again(H))


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
