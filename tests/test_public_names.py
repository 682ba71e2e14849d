"""The names that notebooks of others import: each is called as it is documented."""

from __future__ import annotations

import inspect
import os

import numpy as np
import pandas as pd
import pytest
import torch

from probebook import explainers, interventions
from probebook.corpora import (
    agreement,
    biographies,
    cebab,
    mgc,
    predicate_argument,
    probing_tasks,
    reviews,
    statements,
    stories,
    winogender,
)
from probebook.interventions import FGSM, INLP, LEACE, PGD, RLACE, AlterRep, AutoAttack
from probebook.measures.answers import exact_match, f1
from probebook.measures.concept_effects import ate, icace_error
from probebook.measures.reliability import completeness, reliability, selectivity
from probebook.measures.sample_size import mcnemar_power, recommend
from probebook.models import embed, load, patch
from probebook.probes import LinearProbe, MLPProbe

AGREEMENT = {"text", "zc", "ze", "verb", "other_verb", "subject_flipped", "attractor_flipped"}
WINOGENDER = {"text", "occupation", "participant", "coreferent", "well_specified"}
PAIRS = {"concept", "source", "target", "source_stars", "target_stars"}


def test_text_to_reliability():
    table = agreement.generate(400, seed=0)
    assert set(table) >= AGREEMENT
    model = load("pocket-agreement")
    h, z = embed(table.text, model, layer=-1, at="[MASK]"), torch.tensor(table.zc.to_numpy())
    assert h.shape == (400, 256)
    assert h.dtype == torch.float32
    rows = agreement.decorrelate(table.zc, table.ze)
    assert len(rows)
    assert max(rows) < 400
    probe, oracle = MLPProbe(width=16).fit(h, z), LinearProbe().fit(h, z)
    assert probe(h).shape == (400, 2)
    to, p = 1 - z, oracle(h).softmax(1)
    edits = {
        "INLP": INLP(max_rank=40).fit(h, z).at(rank=8)(h),
        "RLACE": RLACE(rank=1, steps=50).fit(h, z)(h),
        "LEACE": LEACE().fit(h, z)(h),
        "AlterRep": AlterRep(max_rank=8).fit(h, z).at(alpha=4.0)(h, to=to),
        "FGSM": FGSM(probe).at(eps=0.1)(h, to=to),
        "PGD": PGD(probe, steps=5).at(eps=0.1)(h, to=to),
        "AutoAttack": AutoAttack(probe, steps=5, queries=5).at(eps=0.1)(h, to=to),
    }
    for name, edited in edits.items():
        assert edited.shape == h.shape, name
        p_hat = oracle(edited).softmax(1)
        c, s = completeness(p_hat, to=to), selectivity(p_hat, p)
        assert c.shape == s.shape == reliability(c, s).shape == (400,), name
    erased = completeness(oracle(edits["INLP"]).softmax(1))
    assert erased.mean() > completeness(p).mean()
    logits = patch(table.text[:5], model, -1, "[MASK]", edits["AlterRep"][:5])
    assert logits.shape == (5, len(model.tokenizer))


@pytest.mark.parametrize(
    "table, columns",
    [
        (lambda: winogender.simplified(), WINOGENDER),
        (lambda: mgc.texts("time"), {"text", "w", "w_index", "verb", "stage"}),
        (lambda: mgc.texts("place"), {"text", "w", "w_index", "verb", "stage"}),
        (lambda: predicate_argument.questions("original"), {"story", "question", "answer"}),
        (lambda: predicate_argument.questions("there"), {"story", "question", "answer"}),
        (lambda: predicate_argument.questions("the"), {"story", "question", "answer"}),
        (lambda: biographies.generate(20, 0.5, seed=1), {"text"}),
        (lambda: statements.generate(n=8), {"text", "topic", "true", "affirmed", "fact"}),
        (lambda: stories.generate(2, seed=1), {"story", "question", "answer"}),
        (
            lambda: probing_tasks.generate("bigram_shift", probing_tasks.sentences("plain", 50)),
            {"text", "z"},
        ),
    ],
)
def test_worlds_are_tables(table, columns):
    found = table()
    assert isinstance(found, pd.DataFrame)
    assert set(found) >= columns
    assert len(found)


def test_pairs_of_reviews_and_their_effects():
    table = reviews.generate(200, seed=0)
    pairs = cebab.edit_pairs(table, ids="corrected", originals=False)
    assert set(pairs) >= PAIRS | {"source_id", "target_id"}
    assert set(ate(pairs)) == {"concept", "source", "target", "effect", "n"}
    ordered = cebab.icace_pairs(table, split="test")
    assert set(ordered) >= PAIRS
    true, estimated = torch.eye(3), torch.ones(3, 3)
    for distance in ("cosine", "l2", "normdiff"):
        assert icace_error(true, estimated, distance=distance).shape == (3,)


def test_sample_sizes_and_answers():
    assert isinstance(recommend(0.05, 768, rule="paper"), int)
    assert isinstance(recommend(0.05, 768, rule="correct"), int)
    exact = mcnemar_power(0.1, 0.05, 200, alpha=0.05, method="exact")
    drawn = mcnemar_power(0.1, 0.05, 200, alpha=0.05, method="simulate", seed=0)
    assert abs(exact - drawn) < 0.05
    np.testing.assert_array_equal(exact_match(["a house", "no"], ["house", ["yes", "no"]]), [1, 1])
    np.testing.assert_array_equal(f1(["red house"], ["house"]), [2 / 3])


@pytest.mark.parametrize(
    "name",
    [
        "Random",
        "Zero",
        "Approx",
        "CONEXP",
        "SLearner",
        "TCAV",
        "ConceptSHAP",
        "CausaLM",
        "INLPExplainer",
    ],
)
def test_explainers_fit_and_estimate(name):
    explainer = getattr(explainers, name)()
    assert list(inspect.signature(explainer.fit).parameters)[:2] == ["train", "model"]
    assert list(inspect.signature(explainer.effect).parameters) == ["pairs"]


def test_interventions_are_exported():
    assert {
        "INLP",
        "RLACE",
        "LEACE",
        "AlterRep",
        "FGSM",
        "PGD",
        "AutoAttack",
        "MeanShift",
        "AffineSteering",
        "DAS",
        "MatchedDirection",
        "MatchedSubspace",
        "shuffled",
    } <= vars(interventions).keys()


@pytest.mark.skipif("PROBEBOOK_DATA" not in os.environ, reason="PROBEBOOK_DATA is not set")
def test_real_data_have_the_same_columns():
    assert set(agreement.load("natural", n=100, seed=0)) >= {"text", "zc", "ze", "verb"}
    assert set(winogender.extended()) >= WINOGENDER
    assert set(cebab.load(source="1.1")) >= {"split", "description", "review_majority"}
