"""DAS: what an interchange in a subspace does, as theorems; a planted subspace is found; pyvene."""

import pytest
import torch
from scipy.linalg import subspace_angles

from probebook.base import UserError, must_agree
from probebook.interventions import DAS
from probebook.interventions.das import FittedDAS
from probebook.models import embed, load, patch

pytestmark = pytest.mark.library

G = torch.Generator().manual_seed(7)  # another seed than the default of DAS
N, D = 400, 12


def normal(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=G, dtype=torch.float64)


def orthonormal(d: int, rank: int) -> torch.Tensor:
    return torch.linalg.qr(normal(d, rank)).Q


def edit_along(basis: torch.Tensor, means: torch.Tensor | None = None) -> FittedDAS:
    return FittedDAS(basis, normal(2, len(basis)) if means is None else means, 0.0, 1.0)


def planted(k: int) -> tuple[torch.Tensor, ...]:
    """Pairs of states whose class lies in a subspace of rank k − 1 alone, labels of the sources,
    and the subspace.

    Within it a state is one of k points; all else is noise, which each pair has with both signs, so
    that no direction of it helps even by chance."""
    plane = orthonormal(D, k - 1)
    points = torch.eye(k, dtype=torch.float64) - 1 / k
    code = points @ torch.linalg.svd(points)[2][: k - 1].T @ plane.T
    z, to = torch.randint(k, (2, N), generator=G)
    aside = torch.eye(D, dtype=torch.float64) - plane @ plane.T
    noise, other = 0.7 * normal(2, N, D) @ aside
    h = torch.cat([code[z] + noise, code[z] - noise])
    source = torch.cat([code[to] + other, code[to] - other])
    return h, source, to.repeat(2), plane, code


def angle(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest principal angle, in degrees."""
    return float(subspace_angles(a.numpy(), b.numpy()).max()) * 57.29578


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_planted_subspace_is_found(k):
    h, source, to, plane, code = planted(k)

    def head(states):
        return 2 * states @ code.T

    start = DAS(rank=k - 1, steps=1, lr=1e-9, batch=2 * N).fit(h, source, to, head)
    edit = DAS(rank=k - 1, batch=2 * N).fit(h, source, to, head)
    assert angle(start.basis, plane) > 45
    assert angle(edit.basis, plane) < 0.1
    assert start.accuracy < edit.accuracy == 1
    assert edit.loss < start.loss
    answers = head(edit(h, to=to.flip(0))).argmax(1)
    assert torch.equal(answers, to.flip(0))  # the means set a class, too


def test_the_head_chooses_among_the_columns_of_each_row():
    """One column per class for all rows, or other ones in each row: the same fit."""
    h, source, to, _, code = planted(2)

    def small(states):
        return 2 * states @ code.T

    def large(states):
        return torch.cat([small(states).flip(1), small(states)], 1) + torch.tensor([9.0, 9.0, 0, 0])

    short = DAS(steps=20)
    alone = short.fit(h, source, to, small)
    for choices in ([2, 3], [1, 0]):
        must_agree(short.fit(h, source, to, large, choices).basis, alone.basis, "bases", 1e-9)
    rows = torch.where(
        torch.arange(2 * N)[:, None] % 2 > 0, torch.tensor([2, 3]), torch.tensor([1, 0])
    )
    must_agree(short.fit(h, source, to, large, rows).basis, alone.basis, "bases", 1e-9)


@pytest.mark.parametrize("rank", [1, 3, D])
def test_an_interchange_takes_the_part_in_the_subspace_and_leaves_the_rest(rank):
    h, source, basis = normal(N, D), normal(N, D), orthonormal(D, rank)
    edited = edit_along(basis)(h, source=source)
    must_agree(edited @ basis, source @ basis, "the part in the subspace", atol=1e-12)
    aside = torch.eye(D, dtype=torch.float64) - basis @ basis.T
    must_agree(edited @ aside, h @ aside, "the rest", atol=1e-12)
    if rank == D:
        must_agree(edited, source, "the whole state", atol=1e-12)


def test_an_interchange_with_itself_is_the_identity_to_the_bit():
    h, edit = normal(N, D), edit_along(orthonormal(D, 3))
    assert torch.equal(edit(h, source=h), h)
    assert torch.equal(edit.at(0)(h, source=normal(N, D)), h)


def test_twice_is_once_and_the_way_back_returns_the_state():
    h, source, edit = normal(N, D), normal(N, D), edit_along(orthonormal(D, 3))
    once = edit(h, source=source)
    must_agree(edit(once, source=source), once, "twice", atol=1e-12)
    must_agree(edit(once, source=h), h, "there and back", atol=1e-12)
    must_agree(edit.at(2.5)(h, source=source) - h, 2.5 * (once - h), "moves", atol=1e-12)


def test_only_the_subspace_counts_not_its_basis():
    h, source, basis = normal(N, D), normal(N, D), orthonormal(D, 3)
    turned = edit_along(basis @ orthonormal(3, 3))
    must_agree(turned(h, source=source), edit_along(basis)(h, source=source), "edits", atol=1e-12)


def test_edits_turn_with_the_coordinates():
    h, source, means = normal(N, D), normal(N, D), normal(2, D)
    basis, turn, to = orthonormal(D, 3), orthonormal(D, D), torch.arange(N) % 2
    edit, turned = edit_along(basis, means), edit_along(turn.T @ basis, means @ turn)
    must_agree(
        turned(h @ turn, source=source @ turn),
        edit(h, source=source) @ turn,
        "by source",
        atol=1e-12,
    )
    must_agree(turned(h @ turn, to=to), edit(h, to=to) @ turn, "by class", atol=1e-12)


def test_without_a_source_the_coordinates_are_the_class_means_of_the_fit():
    h, source, to, _, code = planted(3)
    edit = DAS(rank=2, steps=5).fit(h, source, to, lambda states: states @ code.T)
    wanted = torch.stack([source[to == c].mean(0) for c in range(3)])[to] @ edit.basis
    edited = edit(h, to=to)
    must_agree(edited @ edit.basis, wanted, "coordinates", atol=1e-12)
    assert not edit.failed(edited, to).any()
    assert edit.failed(edit.at(0)(h, to=to), to).any()


def test_the_seed_decides_and_the_states_stay_as_they_are():
    h, source, to, _, code = planted(2)
    before, head = h.clone(), torch.nn.Linear(D, 2, dtype=torch.float64)
    fits = [DAS(steps=5, seed=seed).fit(h, source, to, head).basis for seed in (0, 0, 1)]
    assert torch.equal(fits[0], fits[1])
    assert not torch.equal(fits[0], fits[2])
    assert torch.equal(h, before)
    assert head.weight.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtype_is_kept(dtype):
    h, source, to, _, code = planted(2)
    h, source, code = h.to(dtype), source.to(dtype), code.to(dtype)
    edit = DAS(steps=3).fit(h, source, to, lambda states: states @ code.T)
    assert edit(h, to=to).dtype == dtype
    assert edit(h, source=source).dtype == dtype


def test_bad_input_is_refused_in_one_line():
    h, source, to, _, code = planted(2)

    def head(states):
        return states @ code.T

    for wrong, match in [
        (lambda: DAS(rank=0), "at least 1"),
        (lambda: DAS(rank=D + 1).fit(h, source, to, head), f"1 … {D}"),
        (lambda: DAS().fit(h, source[:9], to, head), "9 sources"),
        (lambda: DAS().fit(h, source, to, head, [0, 1, 2]), "from 0 to 2: the head has 2"),
        (lambda: DAS().fit(h, source, to, head, [0]), "columns of 2 classes"),
        (lambda: DAS().fit(h, source, to, lambda x: head(x).detach()), "not differentiable"),
        (lambda: DAS().fit(h, source, to, lambda x: x @ code), "cannot take float64"),
        (lambda: edit_along(orthonormal(D, 1))(h), "give `to`"),
        (lambda: edit_along(orthonormal(D, 1))(h, to=to, source=h), "give `to`"),
        (lambda: edit_along(orthonormal(D, 1)).at(-1), "must be ≥ 0"),
    ]:
        with pytest.raises(UserError, match=match) as found:
            wrong()
        assert "\n" not in str(found.value)


def test_pyvene_interchanges_the_same():
    """The same rotation in the middle of the shipped causal model, to five digits of the logits."""
    pyvene = pytest.importorskip("pyvene")
    lm, layer = load("pocket-english-gpt"), 2
    texts = ["The key to the cabinets", "The boy saw the dogs"]
    sources = ["The keys to the cabinet", "The girls heard a cat"]
    basis = orthonormal(lm.width, 3)
    edit = edit_along(basis)
    taken = embed(sources, lm, layer, "last", cache=False)
    ours = patch(texts, lm, layer, "last", lambda h: edit(h, source=taken), read="last")
    assert (ours - patch(texts, lm, layer, "last", None, read="last")).abs().max() > 0.1
    place = {
        "layer": layer - 1,
        "component": "block_output",
        "low_rank_dimension": 3,
        "intervention_type": pyvene.LowRankRotatedSpaceIntervention,
    }
    theirs = pyvene.IntervenableModel(pyvene.IntervenableConfig(place), lm.net)
    [intervention] = theirs.interventions.values()
    intervention.rotate_layer.weight = basis.float()
    for text, source, logits in zip(texts, sources, ours):
        base, other = (lm.tokenizer(words, return_tensors="pt") for words in (text, source))
        last, end = (tokens.input_ids.shape[1] - 2 for tokens in (other, base))  # then comes EOS
        found = theirs(base, [other], {"sources->base": (last, end)})[1].logits[0, end]
        must_agree(logits, found, "logits", atol=1e-5, rtol=1e-5)
