"""Worlds whose truth is known: what the scores say of the truth, of nothing, of flat states."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from probebook.base import must_agree
from probebook_chapters import across, causal_probing, concept_effects
from probebook_chapters.causal_probing import Edit

pytestmark = pytest.mark.library


def edit(change, flips: bool = True) -> Edit:
    return Edit("a test's", "", 1.0, change, flips)


@pytest.fixture(scope="module")
def worlds():
    s = causal_probing.prepare("pocket-agreement", n=2000)
    reviews = concept_effects.prepare("reviews", 100)
    box = concept_effects.black_boxes(
        reviews, "pocket-english", [0], epochs=1, lr=2e-3, trained_layers=2
    )[0]
    return {
        "agreement": across.agreement(s, 50),
        "reviews": across.reviews(reviews, box, "food"),
        "biographies": across.biographies_world("pocket-biographies-s75", stages=2, n=200),
        "stories": across.stories_world("pocket-stories-ibt", 12),
    }


NAMES = ["agreement", "reviews", "biographies", "stories"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_explains_nothing(worlds, name):
    world = worlds[name]
    rows = world.parts["test"]
    assert world.explained(world.h[rows], rows) == 0
    assert world.kept(edit(lambda h, to: h)) == 1


@pytest.mark.parametrize("name", NAMES[:3])
def test_the_partners_state_explains_everything(worlds, name):
    """Not in the story world, where the deletion also changes the words that may be the answer."""
    world = worlds[name]
    rows = world.parts["test"]
    assert world.explained(world.partner[rows], rows) == pytest.approx(1, abs=1e-6)
    assert world.follows(world.partner[rows], rows).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_partner_has_the_other_value_and_the_texts_own_choice(worlds, name):
    """The columns of `choices` are those that the model's own logits prefer, text by text."""
    world = worlds[name]
    rows = torch.cat([*world.parts.values()])
    with torch.no_grad():
        logits = world.logits(world.h[rows]).double()
    own, other = (
        world.choices[rows].gather(1, z[:, None]) for z in (world.z[rows], 1 - world.z[rows])
    )
    preferred = logits.gather(1, own) >= logits.gather(1, other)
    assert preferred.double().mean() > 0.9
    assert set(world.z[rows].tolist()) == {0, 1}


def test_no_text_of_biographies_is_in_two_parts(worlds):
    parts = [set(rows.tolist()) for rows in worlds["biographies"].parts.values()]
    assert len(set.union(*parts)) == sum(map(len, parts)) == len(worlds["biographies"].h)


def test_the_story_states_say_what_the_reader_says(worlds):
    """probs(h) are the reader's own scores of each question; those of its partner are `true`."""
    world = worlds["stories"]
    m = len(world.h) // 2
    every = torch.arange(2 * m)
    must_agree(world.probs(world.h, every), world.true.roll(m, 0), "the reader's scores", atol=1e-4)


def test_the_mean_effect_explains_an_effect_that_is_always_the_same(worlds):
    world = worlds["stories"]
    every = torch.arange(len(world.h))
    shift = torch.tensor([[0.1, -0.1, 0, 0]], dtype=torch.float64) * (1 - 2 * world.z[:, None])
    same = replace(world, true=world.probs(world.h, every) + shift)
    assert across.mean_effect(same) == pytest.approx(1)
    assert across.mean_effect(world) < 0.999


def test_flat_states_remove_a_selection_and_whole_ones_none(worlds):
    world = worlds["biographies"]
    rows = world.parts["test"]
    mean = world.h.mean(0)
    assert across.share_of_slope_removed(world, edit(lambda h, to: mean.expand_as(h)), rows) == 1
    assert across.share_of_slope_removed(world, edit(lambda h, to: h), rows) == 0


def test_every_method_is_measured_and_shuffled_labels_do_nothing(worlds):
    """Also: of the strengths tried, the weakest of the best is chosen on validation texts."""
    world = worlds["agreement"]
    tried = across.edits(
        world, ranks=(1, 2), alphas=(1, 4), strengths=(1, 2), radii=(0.5, 1), queries=2
    )
    best = across.choose_edits(world, tried)
    assert {*best} == {e.method for e in tried}
    rows = world.parts["valid"]
    for one in tried:
        score, top = (
            world.explained(e.apply(world.h[rows], 1 - world.z[rows]), rows)
            for e in (one, best[one.method])
        )
        limit = top if one.strength < best[one.method].strength else top + 0.01
        assert score <= limit
    found = across.score_edits(world, best)
    assert abs(found.explained[across.SHUFFLED]) < 0.1 < found.explained["MeanShift"]
    assert found.explained["MeanShift"] > found.random["MeanShift"] + 0.3
    assert np.isfinite(
        found[["explained", "random", "follows", "closeness", "kept"]].to_numpy(float)
    ).all()
