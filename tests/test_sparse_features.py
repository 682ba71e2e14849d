"""Sparse autoencoders find a planted dictionary; an edit moves along chosen features only."""

import pytest
import torch
from torch.nn import functional as F

from probebook.base import UserError, must_agree
from probebook.interventions import SparseAutoencoder, SparseFeatures
from probebook.probes import LinearProbe

pytestmark = pytest.mark.library

N, D, M, ACTIVE = 3000, 24, 40, 2
G = torch.Generator().manual_seed(0)
DICTIONARY = F.normalize(torch.randn(M, D, generator=G, dtype=torch.float64), dim=1)
PLACES = torch.rand(N, M, generator=G).argsort(1)[:, :ACTIVE]
PLANTED = torch.zeros(N, M, dtype=torch.float64).scatter(
    1, PLACES, 1 + torch.rand(N, ACTIVE, generator=G, dtype=torch.float64)
)
H = PLANTED @ DICTIONARY + 3 * torch.randn(D, generator=G, dtype=torch.float64)
Z = (PLANTED[:, 5] > 0).long()  # the classes: feature 5 is active or not
SETTINGS = SparseAutoencoder(width=2 * M, active=ACTIVE, steps=600)


@pytest.fixture(scope="module")
def trained():
    return SETTINGS.fit(H)


@pytest.fixture(scope="module")
def edit(trained):
    return SparseFeatures(n_features=3, autoencoder=trained).fit(H, Z)


def test_a_planted_dictionary_is_found_up_to_the_order(trained):
    cosines, found = (DICTIONARY @ trained.decoder.T).max(1)
    assert (cosines >= 0.95).double().mean() > 0.9
    assert len(found.unique()) == M
    quality = trained.quality(H)
    assert quality.unexplained < 0.05
    assert quality.l0 <= ACTIVE
    a = trained.encode(H)
    assert quality.dead == pytest.approx(1 - float((a > 0).any(0).double().mean()))
    active = F.cosine_similarity(a[:, found], PLANTED, dim=0)
    assert (active >= 0.9).double().mean() > 0.8


def test_random_directions_rebuild_much_less(trained):
    random = SparseAutoencoder(2 * M, ACTIVE, steps=1, lr=0.0).fit(H)
    assert random.quality(H).unexplained > 5 * trained.quality(H).unexplained


def test_at_most_so_many_activations_are_left_none_negative_and_directions_have_length_1(trained):
    a = trained.encode(H)
    assert (a >= 0).all()
    assert ((a > 0).sum(1) <= ACTIVE).all()
    must_agree(trained.decoder.norm(dim=1), torch.ones(2 * M), "lengths", atol=1e-6)
    rebuilt = a @ trained.decoder + trained.centre
    must_agree(trained.decode(a), rebuilt, "rebuilt states")
    lost = (H - rebuilt).square().sum() / (H - H.mean(0)).square().sum()
    assert trained.quality(H).unexplained == pytest.approx(float(lost))


def test_states_in_other_units_get_the_same_features():
    few = SparseAutoencoder(width=2 * M, active=ACTIVE, steps=20)
    first, then = few.fit(H), few.fit(4 * H + 1)
    must_agree(then.decoder, first.decoder, "directions", atol=1e-3)
    must_agree(then.encode(4 * H + 1), 4 * first.encode(H), "activations", atol=0.05)


def test_a_seed_fixes_everything():
    few = SparseAutoencoder(width=12, active=2, steps=20, seed=1)
    a, b = (SparseFeatures(n_features=2, autoencoder=few).fit(H, Z) for _ in range(2))
    assert torch.equal(a.autoencoder.encoder, b.autoencoder.encoder)
    assert torch.equal(a(H, to=1 - Z), b(H, to=1 - Z))
    other = SparseAutoencoder(width=12, active=2, steps=20, seed=2).fit(H)
    assert not torch.allclose(other.decoder, a.autoencoder.decoder)


def test_the_best_feature_is_the_planted_one(trained, edit):
    best = trained.decoder[edit.chosen[0]]
    assert (DICTIONARY @ best).argmax() == 5
    assert (edit.scores.diff() <= 0).all()
    a = trained.encode(H)[:, edit.chosen]
    within = torch.stack([a[Z == c].var(0, correction=0) for c in (0, 1)])
    shares = Z.bincount().double() / N
    gap = (edit.means[1] - edit.means[0]).abs() / (shares @ within).sqrt()
    must_agree(edit.scores, shares.prod().sqrt() * gap, "scores of two classes")


def test_strength_0_changes_nothing_and_the_rest_is_in_proportion(edit):
    assert torch.equal(edit.at(0)(H, to=1 - Z), H)
    must_agree(edit.at(2.5)(H, to=1 - Z) - H, 2.5 * (edit(H, to=1 - Z) - H), "moves", atol=1e-10)


def test_only_the_chosen_features_move_and_what_was_not_rebuilt_stays(trained, edit):
    edited, a = edit(H, to=1 - Z), trained.encode(H)
    directions = trained.decoder[edit.chosen]
    inside = torch.linalg.lstsq(directions.T, (edited - H).T).solution
    must_agree(directions.T @ inside, (edited - H).T, "moves", atol=1e-10)
    wanted = a.clone()
    wanted[:, edit.chosen] = edit.means[1 - Z]
    must_agree(edited - trained.decode(wanted), H - trained.decode(a), "errors", atol=1e-10)


def test_the_edit_turns_a_probe_and_says_which_rows_it_did_not_turn(trained, edit):
    probe = LinearProbe().fit(H, Z)
    assert (probe(H).argmax(1) == Z).double().mean() > 0.95
    ones = SparseFeatures(n_features=1, autoencoder=trained).fit(H, Z)
    edited = ones(H, to=1 - Z)
    assert (probe(edited).argmax(1) == 1 - Z).double().mean() > 0.95
    assert ones.failed(edited, 1 - Z)[Z == 1].double().mean() < 0.05
    assert edit.failed(edit.at(0)(H, to=1 - Z), 1 - Z).double().mean() > 0.95
    assert edit(H.float(), to=1 - Z).dtype == torch.float32


def test_loss_recovered_is_1_for_all_features_and_0_for_none(trained):
    weight = torch.randn(7, D, generator=G, dtype=torch.float64)

    def head(h):
        return (h - H.mean(0)) @ weight.T

    words = head(H).argmax(1)
    some = trained.loss_recovered(H, words, head)
    losses = [
        F.cross_entropy(head(x), words)
        for x in (H, trained.decode(trained.encode(H)), H.mean(0).expand_as(H))
    ]
    assert some == pytest.approx(float((losses[2] - losses[1]) / (losses[2] - losses[0])))
    assert 0.5 < some < 1
    eye = torch.cat([torch.eye(D), -torch.eye(D)]).double()
    whole = type(trained)(eye, eye, torch.zeros(2 * D).double(), H.mean(0), D)
    assert whole.loss_recovered(H, words, head) == pytest.approx(1)
    silent = type(trained)(eye, eye, torch.full((2 * D,), -1e3).double(), H.mean(0), D)
    assert silent.loss_recovered(H, words, head) == pytest.approx(0, abs=1e-6)


def test_more_than_two_classes():
    z = PLANTED[:, :3].argmax(1) + (PLANTED[:, :3] > 0).any(1).long()
    few = SparseAutoencoder(width=2 * M, active=ACTIVE, steps=20)
    edit = SparseFeatures(n_features=4, autoencoder=few).fit(H, z)
    assert edit.means.shape == (4, 4)
    assert edit(H, to=(z + 1) % 4).shape == H.shape


def test_bad_input_is_said_in_a_line(trained, edit):
    for message, wrong in (
        ("give a number of features ≥ 1", lambda: SparseFeatures(n_features=0)),
        ("choose 1 … 8, the width", lambda: SparseAutoencoder(width=8, active=9)),
        ("must be at least 1", lambda: SparseAutoencoder(steps=0)),
        (
            "the autoencoder has 80 features",
            lambda: SparseFeatures(n_features=81, autoencoder=trained).fit(H, Z),
        ),
        ("fitted on 24", lambda: SparseFeatures(autoencoder=trained).fit(H[:, 1:], Z)),
        ("states are the same", lambda: SparseAutoencoder().fit(torch.ones(9, 3))),
        ("one label per row", lambda: SparseFeatures(autoencoder=trained).fit(H, Z[1:])),
        ("must be ≥ 0", lambda: edit.at(-1)),
        ("beyond the 2 classes", lambda: edit(H, to=Z + 1)),
        (
            "there is no loss to recover",
            lambda: trained.loss_recovered(H, Z, lambda h: torch.zeros(len(h), 2)),
        ),
    ):
        with pytest.raises(UserError, match=message) as said:
            wrong()
        assert "\n" not in str(said.value)
