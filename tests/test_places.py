"""Edits at every layer and word: what nothing, the true state and a rewritten word must explain."""

import pandas as pd
import pytest
import torch

from probebook.base import UserError, must_agree
from probebook_chapters import across, places
from probebook_chapters.causal_probing import prepare

pytestmark = pytest.mark.library

MODELS = ["pocket-english", "pocket-english-gpt"]


@pytest.fixture(scope="module", params=MODELS)
def everywhere(request):
    s = places.keep_separable(prepare(request.param, n=2000))
    return places.at_places(s, range(s.lm.depth + 1))


def test_the_places_are_those_that_a_block_still_reads(everywhere):
    depth = next(iter(everywhere.values())).s.lm.depth
    assert {key for key in everywhere} == (
        {("blank", k) for k in range(depth + 1)} | {("subject", k) for k in range(depth)}
    )


def test_states_that_stay_explain_nothing_and_an_exchanged_word_everything(everywhere):
    """The rewritten sentence differs in one word, so its embedding makes the whole effect; at the
    last layer the blank's state does."""
    last = max(k for word, k in everywhere if word == "blank")
    whole = {("subject", 0), ("blank", last)}
    for key, place in everywhere.items():
        rows = across.some_rows(place.s, "test", 40)
        nothing, true = place.probs(torch.stack([place.h[rows], place.partner[rows]]), rows)
        effect = place.true[rows] - place.before[rows]
        must_agree(nothing, place.before[rows], f"{key}: states that stay", atol=2e-3)
        share = across.share_explained(effect, true - place.before[rows])
        if key in whole:
            assert share > 0.99, key
        elif key == ("blank", 0):
            assert abs(share) < 0.01, "the blank's embedding is that of any other sentence"
        else:
            assert -0.1 < share < 0.99, key


def test_das_learns_through_the_rest_of_the_network(everywhere):
    """Below the last layer, too, the learned direction beats a random one of the same length."""
    place = everywhere["subject", 1]
    das = [
        edit
        for edit in places.fit_at(place, strengths=[1, 2], alphas=[1], radii=[1], das_steps=30)
        if edit.method == "DAS"
    ]
    scores = places.score_edits(place, das, n_valid=40, n=100)
    assert scores.explained["DAS"] > scores.random["DAS"] + 0.3
    assert isinstance(scores, pd.DataFrame) and [*scores.index] == ["DAS", "true state"]


def test_separable_sentences_keep_their_split():
    """The two versions have as many tokens and differ in one, which does not stand before the
    blank; no sentence changes its part."""
    s = prepare("pocket-english", n=1000)
    one = places.keep_separable(s)
    assert 0 < len(one.table) < len(s.table)
    for name, rows in one.parts.items():
        assert {*one.table.text.iloc[rows.numpy()]} <= {*s.table.text.iloc[s.parts[name].numpy()]}
    ids, other = (
        s.lm.tokenizer(one.table[c].tolist())["input_ids"] for c in ("text", "subject_flipped")
    )
    for x, y in zip(ids, other):
        differ = [i for i, (a, b) in enumerate(zip(x, y, strict=True)) if a != b]
        assert len(differ) == 1 and differ[0] + 1 < s.lm.blank(x)
    assert torch.equal(one.zc, torch.tensor(one.table.zc.to_numpy()))


def test_sentences_without_a_rewritten_subject_are_refused():
    s = prepare("pocket-english", n=600)
    s.table["subject_flipped"] = ""
    with pytest.raises(UserError, match="no version with a rewritten subject"):
        places.at_places(s, [1])
    with pytest.raises(UserError, match="expected blank, subject"):
        places.at_places(s, [1], ["verb"])
