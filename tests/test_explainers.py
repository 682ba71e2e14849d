"""Explainers against theorems, in a world of 81 texts where N is known; what they may see."""

import itertools
from math import factorial

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from scipy.linalg import null_space
from sklearn.linear_model import SGDClassifier
from torch.nn import functional as F
from torch.testing import assert_close

from probebook import explainers as ex
from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.causalm import control_concept, reverse
from probebook.explainers.concept_shap import Coalitions, members, shapley
from probebook.explainers.interventions import svm_directions
from probebook.interventions import INLP
from probebook.interventions.inlp import project_out
from probebook.models import Model, embed, load
from probebook.models.batches import Batch
from probebook.models.classifier import Classifier
from probebook.models.cut import Below
from probebook.models.training.finetune import Cloze, Head
from probebook_training.text import SPECIAL

pytestmark = pytest.mark.library

LABELS = [f"{a}_aspect_majority" for a in ASPECTS]
COMBOS = np.array(list(itertools.product(range(3), repeat=4)))
WORDS = {"Negative": "bad", "Positive": "good", "unknown": ""}
# CausaLM has tests of its own.
ALL = [
    ex.Random,
    ex.Zero,
    ex.Approx,
    ex.CONEXP,
    ex.SLearner,
    ex.TCAV,
    ex.ConceptSHAP,
    ex.INLPExplainer,
    ex.AlterRepExplainer,
    ex.PGDExplainer,
    ex.LEACEExplainer,
]
# Table 2.
MAY_SEE = (
    {
        "Approx": {"concept", "target", "text", *ASPECTS},
        "CONEXP": {"concept", "source", "target"},
        "SLearner": {"concept", "source", "target", *ASPECTS},
        "Random": {"concept"},
        "Zero": {"concept"},
    }
    | dict.fromkeys(["TCAV", "ConceptSHAP", "INLPExplainer", "CausaLM"], {"concept", "text"})
    | dict.fromkeys(
        ["AlterRepExplainer", "PGDExplainer", "LEACEExplainer"], {"concept", "text", "target"}
    )
)


def write(combo):
    return " ".join(
        ["we came here ."]
        + [f"the {a} was {WORDS[VALUES[v]]} ." for a, v in zip(ASPECTS, combo) if WORDS[VALUES[v]]]
    )


def read(text):
    return [
        next(
            (i for i, v in enumerate(VALUES) if WORDS[v] and f"the {a} was {WORDS[v]} ." in text), 2
        )
        for a in ASPECTS
    ]


def reviews(times=1, seed=0):
    """Each of the 81 combinations of labels `times` times; more stars for more that is good."""
    combos = np.tile(COMBOS, (times, 1))
    signs = np.array([-1, 1, 0])[combos]
    noise = 0.3 * np.random.default_rng(seed).normal(size=len(combos))
    stars = (
        np.clip(np.round(3 + signs @ [1.0, 0.7, 0.4, 0.2] + noise), 1, 5).astype(int).astype(str)
    )
    return pd.DataFrame(
        {"description": [write(c) for c in combos], "review_majority": stars}
        | {name: np.array(VALUES)[combos[:, i]] for i, name in enumerate(LABELS)}
    )


def pairs(table):
    """All ordered changes of one aspect between the first 81 rows."""
    rows = []
    for s, t in itertools.permutations(range(81), 2):
        changed = np.flatnonzero(COMBOS[s] != COMBOS[t])
        if len(changed) == 1:
            i = changed[0]
            rows.append(
                {
                    "concept": ASPECTS[i],
                    "source": VALUES[COMBOS[s, i]],
                    "target": VALUES[COMBOS[t, i]],
                    "source_row": s,
                    "target_row": t,
                    "target_stars": 5.0,
                }
            )
    return pd.DataFrame(rows)


class World:
    """N(φ(x)) with φ(x) the labels' indicators, turned at random, and a head on them; k classes."""

    def __init__(self, k=5, head=None, task="5-way"):
        g = torch.Generator().manual_seed(1)
        self.k, self.task = k, task
        self.turn = torch.linalg.qr(torch.randn(16, 16, generator=g))[0]
        self.weight = torch.randn(12, k, generator=g, dtype=torch.float64)
        self.head = head or Head(
            torch.eye(16), torch.zeros(16), 3 * torch.randn(k, 16, generator=g), torch.zeros(k)
        )

    def phi(self, texts):
        x = F.one_hot(torch.tensor([read(t) for t in texts]), 3).flatten(1).float()
        length = torch.tensor([[len(t) / 100] for t in texts])
        return torch.cat([x, length, length**2, torch.ones(len(x), 2)], 1) @ self.turn

    def __call__(self, texts):
        return self.head(self.phi(texts).double()).softmax(1)


class Additive(World):
    """An additive logit model of the labels, with no φ in it."""

    def __call__(self, texts):
        return (
            F.one_hot(torch.tensor([read(t) for t in texts]), 3).flatten(1).double() @ self.weight
        ).softmax(1)


def truth(model, table, asked_pairs):
    p = model(table.description)
    return p[list(asked_pairs.target_row)] - p[list(asked_pairs.source_row)]


@pytest.fixture(scope="module")
def table():
    return reviews()


@pytest.fixture(scope="module")
def changes(table):
    return pairs(table)


# --- the black-box explainers ---------------------------------------------------------------------


def test_the_floor_and_the_ceiling(table, changes):
    """Zero errs by the lengths of the true effects; Approx is right if N depends on labels only."""
    model = Additive()
    want, question = truth(model, table, changes), ex.questions(table, changes)
    error = {
        e: (getattr(ex, e)().fit(table, model).effect(question) - want).norm(dim=1)
        for e in ("Zero", "Approx", "Random", "SLearner", "CONEXP")
    }
    assert torch.equal(error["Zero"], want.norm(dim=1))
    assert error["Approx"].max() < 1e-12
    means = [float(error[e].mean()) for e in ("SLearner", "CONEXP", "Zero", "Random")]
    assert means == sorted(means)
    assert means[0] > 0


def test_s_learner_recovers_an_additive_logit_model(table, changes):
    model = Additive()
    want = truth(model, table, changes)
    learnt = ex.SLearner(C=1e9).fit(table, model)
    assert want.abs().max() > 0.3
    assert (learnt.effect(ex.questions(table, changes)) - want).abs().max() < 1e-4


def test_the_released_s_learner_learns_the_most_probable_class_and_guesses_the_base_label(
    table, changes
):
    model, question = Additive(), ex.questions(table, changes)
    sharp = lambda texts: F.one_hot(model(texts).argmax(1), 5).double()
    released, paper = ex.SLearner("released").fit(table, model), ex.SLearner().fit(table, sharp)
    # All labels are right.
    assert_close(released.effect(question), paper.effect(question), atol=1e-6, rtol=0)

    class Blind:
        """An aspect model to which everything is unknown."""

        def aspects(self, texts):
            return np.full((len(texts), 4), 2)

    to_unknown = question[question.target == "unknown"]
    known, guessed = (
        ex.SLearner(variant).fit(table, model, Blind()).effect(to_unknown)
        for variant in ("paper", "released")
    )
    assert guessed.abs().max() == 0  # unknown → unknown: no change
    assert (known.abs().sum(1) > 0.01).any()


@pytest.mark.parametrize(
    "explainer",
    [
        ex.Zero(),
        ex.Approx(),
        ex.CONEXP(),
        ex.SLearner(),
        ex.SLearner("released"),
        ex.TCAV(),
        ex.TCAV("released"),
        ex.ConceptSHAP(epochs=1),
        ex.INLPExplainer(epochs=0),
        ex.AlterRepExplainer(),
        ex.PGDExplainer(),
        ex.LEACEExplainer(),
    ],
    ids=lambda e: f"{type(e).__name__} {getattr(e, 'variant', '')}",
)
def test_nothing_changes_what_a_constant_black_box_says(table, changes, explainer):
    """True of all that ask N itself; CausaLM, and INLP after training, ask another head."""
    weights = torch.eye(16), torch.zeros(16), torch.zeros(5, 16)
    question = ex.questions(table, changes.iloc[::9])
    for bias in (torch.zeros(5), torch.tensor([0.5, 0, 2, 0, 1])):
        constant = World(head=Head(*weights, bias))
        assert truth(constant, table, changes).abs().max() == 0
        assert explainer.fit(table, constant).effect(question).abs().max() < 1e-6


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_an_s_learner_of_a_single_class_finds_no_effect(table, changes, variant):
    certain = lambda texts: torch.eye(5)[[2] * len(texts)]
    learnt = ex.SLearner(variant).fit(table, certain)
    assert learnt.effect(ex.questions(table, changes)).abs().max() == 0


def test_a_released_s_learner_sees_no_effect_on_a_class_that_always_loses(table, changes):
    """Probabilities that move, but one class first in each review: zero in the released form."""
    leads = lambda texts: (Additive()(texts) + 2 * torch.eye(5)[0]) / 3
    question = ex.questions(table, changes)
    assert truth(leads, table, changes).abs().max() > 0.1
    assert ex.SLearner("released").fit(table, leads).effect(question).abs().max() == 0
    assert ex.SLearner().fit(table, leads).effect(question).abs().max() > 0.1


def test_conexp_is_the_difference_of_the_means_of_labelled_reviews(table, changes):
    model = Additive()
    train = pd.concat(
        [table, table.assign(food_aspect_majority=["no majority", "", None] * 27)],
        ignore_index=True,
    )
    p = pd.DataFrame(model(train.description).numpy())
    found = ex.CONEXP().fit(train, model).effect(ex.questions(table, changes)).numpy()
    for i in (0, 100, 500):
        c = changes.iloc[i]
        means = p.groupby(train[f"{c.concept}_aspect_majority"]).mean()
        np.testing.assert_allclose(
            found[i], means.loc[c.target] - means.loc[c.source], atol=1e-12, rtol=1e-5
        )


def test_approx_takes_the_nearest_where_nothing_fits(table, changes):
    """Without the wanted combinations the changed aspect comes first, then most other labels."""
    pool = table.iloc[[0, 1, 3, 40]].reset_index(drop=True)  # 0000, 0001, 0010, 1111
    questions = ex.questions(
        table,
        pd.DataFrame(
            {
                "concept": ["noise", "food", "food"],
                "source": "Positive",
                "source_row": [1, 3, 54],
                "target": ["Negative", "Positive", "Negative"],
            }
        ),
    )
    learnt = ex.Approx().fit(pool, Additive())
    p, base = Additive()(pool.description), Additive()(questions.description)
    wanted = p[[0, 3]] - base[:2]  # 0001 → 0000 is there; 0010 → 1010 is not
    found = learnt.effect(questions)
    assert_close(found[:2], wanted, atol=1e-8, rtol=1e-5)  # 2000 → 0000
    assert_close(found[2], p[0] - base[2], atol=1e-8, rtol=1e-5)
    assert torch.equal(found, ex.Approx().fit(pool, Additive()).effect(questions))


def test_predicted_labels_take_the_place_of_the_tables_at_test_time_and_of_lacking_ones_in_training(
    table, changes
):
    class Reader:
        def aspects(self, texts):
            return np.array([read(t) for t in texts])

    model, question = Additive(), ex.questions(table, changes)
    lied = question.assign(**{name: "unknown" for name in LABELS})
    gaps = table.copy()
    gaps.loc[::2, LABELS[1]] = ""
    for explainer in (ex.Approx, ex.SLearner):
        want = explainer().fit(table, model).effect(question)
        assert_close(explainer().fit(gaps, model, Reader()).effect(lied), want, atol=1e-6, rtol=0)
        assert not torch.allclose(explainer().fit(table, model).effect(lied), want, atol=1e-2)


# --- what they may see ----------------------------------------------------------------------------


@pytest.mark.parametrize("explainer", ALL, ids=lambda e: e.__name__)
def test_an_explainer_is_shown_what_it_may_see_and_no_more(explainer, table, changes, monkeypatch):
    model, question = World(), ex.questions(table, changes.iloc[::9])
    few = {"epochs": 1} if explainer is ex.ConceptSHAP else {}
    learnt = explainer(**few).fit(table, model)
    want = learnt.effect(question)
    assert want.dtype == torch.float64
    assert want.shape == (len(question), 5)
    assert torch.isfinite(want).all()
    allowed, rng = MAY_SEE[explainer.__name__], np.random.default_rng(0)
    spoilt = question.assign(
        target_text="secret", target_stars=5, target_row=3, source_stars=1, review_majority="5"
    )
    if "text" not in allowed:
        spoilt["description"] = rng.permutation(spoilt.description)
    for name in {"source", "target"} - allowed:
        spoilt[name] = rng.permutation(spoilt[name])
    if "food" not in allowed:
        spoilt[LABELS] = "unknown"
    assert torch.equal(learnt.effect(spoilt), want)
    shown = []
    monkeypatch.setattr(explainer, "_effect", lambda self, pairs: shown.append(set(pairs)) or want)
    learnt.effect(spoilt)
    assert shown == [allowed]


def test_training_shows_texts_labels_and_stars_only(table, monkeypatch):
    shown = []
    monkeypatch.setattr(ex.Zero, "_fit", lambda self, train: shown.append(set(train)))
    ex.Zero().fit(table.assign(edit_goal="Positive", id="x"), Additive())
    assert shown == [{"text", "stars", *ASPECTS}]


def test_asked_is_the_base_side(table, changes):
    question = ex.questions(table, changes.iloc[::-1])
    assert (
        question.description == table.description.iloc[changes.source_row[::-1]].to_numpy()
    ).all()
    assert list(question) == ["concept", "source", "target", "description", *LABELS]
    food = question[question.concept == "food"]
    assert (food.food_aspect_majority == food.source).all()


# --- Shapley values -------------------------------------------------------------------------------


def test_shapley_values_are_the_mean_gain_over_all_orders():
    values = torch.randn(16, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    want = torch.zeros(4, 3, 2, dtype=torch.float64)
    for order in itertools.permutations(range(4)):
        inside = 0
        for i in order:
            want[i] += (values[inside | 1 << i] - values[inside]) / factorial(4)
            inside |= 1 << i
    found = shapley(values)
    assert_close(found, want, atol=1e-12, rtol=1e-5)
    assert_close(found.sum(0), values[15] - values[0], atol=1e-12, rtol=1e-5)  # efficiency


def test_shapley_values_of_equal_players_are_equal_and_of_a_player_without_gain_zero():
    size = members(4)[:, :3].sum(1).double()  # player 3 adds nothing, 0 to 2 are alike
    found = shapley(size**2)
    assert found[3] == 0
    assert_close(found[:3], torch.full((3,), 3.0, dtype=torch.float64), atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("released", [False, True])
def test_coalitions_side_by_side_are_the_perceptrons_that_each_would_be_alone(released):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(90, 4, generator=g, dtype=torch.float64)
    z = torch.randint(3, (90,), generator=g)
    head = Head.initial(6, 3, 0)
    start = Coalitions.random(4, 10, 6, 0, released)
    together = start.train(x, z, head, 3, 32, 1e-2, 0)(x)
    assert together.shape == (16, 90, 6)
    assert together.dtype == torch.float64
    for s in (0, 4, 11, 15):
        seen = members(4)[s].bool()
        tensors = [
            start.first[s][seen],
            start.first_bias[s],
            start.second[s],
            start.second_bias[s],
        ]
        w, b, v, c = (t.double().requires_grad_() for t in tensors)
        optimizer, draws = torch.optim.Adam([w, b, v, c], 1e-2), np.random.default_rng(0)
        inner = torch.nn.Identity() if released else torch.nn.ReLU()
        for _ in range(3):
            order = np.arange(90) if released else draws.permutation(90)
            for rows in torch.from_numpy(order).split(32):
                optimizer.zero_grad()
                logits = head(inner(x[rows][:, seen] @ w + b) @ v + c)
                loss = (
                    F.binary_cross_entropy_with_logits(logits, F.one_hot(z[rows], 3).double())
                    if released
                    else F.cross_entropy(logits, z[rows])
                )
                loss.backward()
                optimizer.step()
        alone = inner(x[:, seen] @ w + b) @ v + c
        assert_close(together[s], alone, atol=1e-9, rtol=0)
        assert not torch.allclose(
            together[s], start.train(x, z, head, 0, 32, 1e-2, 0)(x)[s], atol=1e-3
        )


def test_concept_shap_shares_out_what_all_concepts_together_change(table):
    model = World()
    question = ex.questions(
        table,
        pd.DataFrame(
            {"concept": ASPECTS, "source": "Positive", "target": "unknown", "source_row": 40}
        ),
    )
    learnt = ex.ConceptSHAP(epochs=20, batch=27).fit(table, model)
    eta = learnt._eta(model.phi(question.description)).double()
    assert_close(learnt.effect(question).sum(0), eta[15, 0] - eta[0, 0], atol=1e-6, rtol=0)
    released = ex.ConceptSHAP("released", epochs=1).fit(table, model)
    wanted = torch.full((4,), 1 - 5 / 2, dtype=torch.float64)
    assert_close(released.effect(question).sum(1), wanted, atol=1e-8, rtol=1e-5)
    assert_close(released.directions.norm(dim=1), torch.ones(4), atol=1e-8, rtol=1e-5)  # logits
    assert not torch.allclose(
        released._eta(model.phi(question.description)).sum(2), torch.ones(()), atol=0.1
    )
    on_scored = ex.ConceptSHAP("released", epochs=1, scored=table[:40]).fit(table, model)
    assert torch.equal(on_scored.directions, released.directions)
    assert not torch.allclose(on_scored.effect(question), released.effect(question))
    with pytest.raises(UserError, match="scored= is for variant='released'"):
        ex.ConceptSHAP(scored=table)
    h = model.phi(table.description)
    z = torch.tensor(table.review_majority.astype(int).to_numpy() - 1)
    for fitted, n in ((learnt, 81), (released, 1)):  # equation 25 on rates; as released, on counts
        hits = [int((p.argmax(1) == z).sum()) for p in (fitted._eta(h)[15], model.head(h))]
        assert fitted.completeness == pytest.approx((hits[0] / n - 0.2) / (hits[1] / n - 0.2))


# --- the explainers that look inside --------------------------------------------------------------


def test_tcav_of_a_linear_head_is_its_weights_along_the_separator(table, changes):
    g = torch.Generator().manual_seed(0)
    weight = torch.randn(5, 16, dtype=torch.float64, generator=g) / 50
    model = World(head=lambda h: h @ weight.to(h).T)
    learnt = ex.TCAV().fit(table, model)
    want = (learnt.directions @ weight.T).tanh()[list(changes.concept.map(ASPECTS.index))]
    assert_close(learnt.effect(ex.questions(table, changes)), want, atol=1e-12, rtol=0)
    released = ex.TCAV("released").fit(table, model)
    summed = (released.directions @ weight.T).cumsum(1).tanh()
    summed = summed[list(changes.concept.map(ASPECTS.index))]
    assert_close(released.effect(ex.questions(table, changes)), summed, atol=1e-12, rtol=0)


def test_tcav_of_a_curved_head_is_the_slope_of_its_logits(table, changes):
    model, question = World(), ex.questions(table, changes.iloc[::31])
    learnt = ex.TCAV().fit(table, model)
    h = model.phi(question.description).double()
    v = learnt.directions[list(question.concept.map(ASPECTS.index))]
    slope = (model.head(h + 1e-5 * v) - model.head(h - 1e-5 * v)) / 2e-5
    assert_close(learnt.effect(question), slope.tanh(), atol=1e-6, rtol=0)


def test_tcavs_separator_is_of_present_from_unknown_and_the_released_one_drops_the_negative(table):
    model = World()
    h, present = model.phi(table.description).double(), torch.tensor(COMBOS[:, 0] != 2)
    v = ex.TCAV().fit(table, model).directions[0]
    assert (h[present] @ v).min() > (h[~present] @ v).max()
    spoilt = table.copy()
    negative = table.food_aspect_majority == "Negative"
    spoilt.loc[negative, "description"] = "we came here . the food was bad . the noise was good ."
    positive = table.food_aspect_majority.to_numpy() == "Positive"
    change = h[positive].mean(0) - h[~present].mean(0)
    toward = {
        v: float(change @ ex.TCAV(v).fit(table, model).directions[0]) for v in ("paper", "released")
    }
    assert toward["paper"] > 0 > toward["released"]  # as released it points away, length 1
    lengths = ex.TCAV("released").fit(table, model).directions.norm(dim=1)
    assert_close(lengths, torch.ones(4).double(), atol=1e-8, rtol=1e-5)
    moved = {
        v: not torch.equal(*(ex.TCAV(v).fit(t, model).directions[0] for t in (table, spoilt)))
        for v in ("paper", "released")
    }
    assert moved == {"paper": True, "released": False}


def test_inlp_without_rounds_has_no_effect_and_after_one_no_label_is_left(table, changes):
    model, question = World(), ex.questions(table, changes)
    h, z = model.phi(table.description), torch.tensor(COMBOS[:, 0])

    def spread(x):
        means = torch.stack([x[z == v].mean(0) for v in range(3)])
        return (means - means[0]).norm()

    for variant in ("paper", "logistic"):
        untouched = ex.INLPExplainer(variant, rounds=0, epochs=0).fit(table, model)
        assert untouched.effect(question).abs().max() == 0
        # N′ learns a little.
        trained = ex.INLPExplainer(variant, rounds=0).fit(table, model)
        assert 0 < trained.effect(question).abs().max() < 0.05
        once = ex.INLPExplainer(variant, rounds=1, epochs=0).fit(table, model)
        assert spread(once.edits["food"](h)) < 0.1 * spread(h), variant
        assert once.effect(question).abs().max() > 0.1


def test_inlp_projects_as_printed_onto_the_null_spaces_of_svms(table):
    """§ F.2, written out: fit, project onto the null space of all weights, again. Three rounds: each
    multiplies the rounding of the one before."""
    rng = np.random.default_rng(0)
    h, z = rng.normal(size=(200, 40)), rng.integers(0, 3, 200)
    h[:, :5] += 2 * np.eye(3, 5)[z]
    projection = np.eye(40)
    for _ in range(3):
        svm = SGDClassifier(loss="hinge", alpha=0.01, tol=1e-3, max_iter=1000, random_state=7)
        kernel = null_space(svm.fit(h @ projection, z).coef_)
        projection = projection @ kernel @ kernel.T
    basis = svm_directions(torch.tensor(h), z, rounds=3, seed=7)
    assert basis.shape == (40, 9)  # three classes: three directions a round
    assert_close(basis.T @ basis, torch.eye(9).double())
    expected = torch.tensor(h @ projection)
    assert_close(project_out(torch.tensor(h), basis), expected, atol=1e-8, rtol=0)
    found = ex.INLPExplainer(rounds=3, seed=7).fit(table, World())
    states = World().phi(table.description)
    own = svm_directions(states, COMBOS[:, 2], rounds=3, seed=7)
    assert torch.equal(found.edits[ASPECTS[2]](states), project_out(states, own))


def test_inlp_erases_as_printed_where_it_is_released_and_its_logistic_form_is_named(table):
    h = World().phi(table.description)
    edited = {
        variant: ex.INLPExplainer(variant, seed=3).fit(table, World()).edits["noise"](h)
        for variant in ("paper", "released", "logistic")
    }
    assert torch.equal(edited["paper"], edited["released"])
    logistic = INLP(20, C=0.01).fit(h, COMBOS[:, 3])
    assert torch.equal(edited["logistic"], logistic(h))
    assert not torch.allclose(edited["paper"], edited["logistic"], atol=1e-3)


def test_the_released_inlp_takes_one_step_an_epoch(table, monkeypatch):
    batches = []
    monkeypatch.setattr(
        "probebook.explainers.interventions.train_head",
        lambda h, z, start, epochs, batch, lr, seed: batches.append((len(h), batch)) or start,
    )
    ex.INLPExplainer("released").fit(table.assign(review_majority="4"), World())
    ex.INLPExplainer().fit(table, World())
    assert batches == [(81, 81)] * 4 + [(81, 32)] * 4


def test_leace_with_a_label_put_in_gives_all_reviews_that_labels_mean(table):
    model = World()
    learnt = ex.LEACEExplainer().fit(table, model)
    h, z = model.phi(table.description).double(), torch.tensor(COMBOS[:, 1])
    for to in range(3):
        edited = learnt.edits["service"](h) + learnt.shifts["service"][to]
        for source in range(3):
            assert_close(edited[z == source].mean(0), h[z == to].mean(0), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "explainer",
    [ex.AlterRepExplainer(alpha=4), ex.PGDExplainer(), ex.LEACEExplainer()],
    ids=lambda e: type(e).__name__,
)
def test_the_extensions_know_which_way(explainer, table, changes):
    """Nearer to the truth for the change that is asked than for the opposite one."""
    model, question = World(), ex.questions(table, changes)
    learnt, want = explainer.fit(table, model), truth(model, table, changes)
    turned = learnt.effect(question.assign(target=question.source))
    found = learnt.effect(question)
    cosine = lambda e: F.cosine_similarity(e, want).mean()
    assert cosine(found) > 0.6
    assert cosine(found) > cosine(turned) + 0.5


def test_a_pgd_counterfactual_stays_in_its_ball_and_no_radius_is_no_effect(table, changes):
    model, question = World(), ex.questions(table, changes)
    assert ex.PGDExplainer(eps=0).fit(table, model).effect(question).abs().max() < 1e-12
    h = model.phi(table.description)
    learnt = ex.PGDExplainer(eps=0.3).fit(table, model)
    radius = 0.3 * (h - h.mean(0)).norm(dim=1).mean()
    moved = learnt.attack("noise")(h, to=torch.ones(81, dtype=torch.long)) - h
    assert moved.norm(dim=1).max() <= radius * (1 + 1e-4)
    assert moved.norm(dim=1).max() > 0.5 * radius


@pytest.mark.parametrize(
    "method, strengths", [(ex.AlterRepExplainer, (1, 8)), (ex.PGDExplainer, (0.5, 0.1))]
)
def test_another_strength_needs_no_other_fit(table, changes, method, strengths):
    model, question = World(), ex.questions(table, changes)
    first, other = (method(strength).fit(table, model) for strength in strengths)
    assert torch.equal(first.at(strengths[1]).effect(question), other.effect(question))
    assert not torch.allclose(first.effect(question), other.effect(question))


# --- CausaLM --------------------------------------------------------------------------------------


def save_bert(folder, tokenizer, **settings):
    """A small masked BERT with random weights, and its tokenizer."""
    config = hf.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        **settings,
    )
    hf.BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    words = SPECIAL + sorted({word for text in reviews().description for word in text.split()})
    tokenizer = hf.BertTokenizerFast(vocab={w: i for i, w in enumerate(words)})
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    save_bert(
        folder,
        tokenizer,
        num_hidden_layers=1,
        max_position_embeddings=64,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )
    return str(folder)


@pytest.mark.parametrize("variant, of_head", [("paper", 1.0), ("released", -0.1)])
def test_the_encoder_climbs_the_treated_concepts_loss_and_only_the_papers_head_descends_it(
    variant, of_head
):
    h, labels, head = (
        torch.randn(6, 4, requires_grad=True),
        torch.tensor([0, 1, 2, -1, 1, 0]),
        torch.nn.Linear(4, 3),
    )
    assert_close(reverse(h, 0.1), h, atol=1e-8, rtol=1e-5)
    plain = torch.autograd.grad(
        F.cross_entropy(head(h)[labels >= 0], labels[labels >= 0]), [h, head.weight]
    )
    found = torch.autograd.grad(ex.CausaLM(variant)._against(head, h, labels), [h, head.weight])
    assert_close(found[0], -0.1 * plain[0], atol=1e-8, rtol=1e-5)
    assert_close(found[1], of_head * plain[1], atol=1e-8, rtol=1e-5)
    assert plain[0].abs().max() > 0.01


def test_the_control_concept_is_the_one_that_goes_most_with_the_treated():
    rng = np.random.default_rng(0)
    train = pd.DataFrame({a: rng.integers(3, size=200) for a in ASPECTS})
    train["noise"] = np.where(rng.random(200) < 0.7, (train.food + 1) % 3, train.noise)
    train.loc[:20, "food"] = -1
    assert control_concept(train, "food") == "noise"
    assert control_concept(train, "noise") == "food"
    train["service"] = -1  # never labelled: no control
    assert control_concept(train, "service") == "food"
    assert control_concept(train, "ambiance") != "service"


def test_the_cloze_masks_words_only_and_asks_for_those(folder):
    body = Classifier(encoder=folder).body()
    texts = list(reviews(3).description)
    ids = body.tokenizer(texts)["input_ids"]
    batch = Batch(
        list(range(len(ids))),
        ids,
        body.tokenizer.pad_token_id,
        [("mean", [[*range(len(i))] for i in ids])],
    )
    cloze = Cloze(body)
    torch.manual_seed(0)
    changed = cloze.change(batch)
    chosen = cloze.labels != -100
    assert (changed != batch.ids)[~chosen].sum() == 0
    assert torch.equal(cloze.labels[chosen], batch.ids[chosen])
    assert not np.isin(batch.ids[chosen], body.tokenizer.all_special_ids).any()
    assert 0.1 < chosen.sum() / batch.mask.sum() < 0.2
    assert (changed[chosen] == body.tokenizer.mask_token_id).double().mean() > 0.7
    decoder = Cloze(Model("", body.net, body.tokenizer, "causal"))
    assert torch.equal(decoder.change(batch), batch.ids)
    last = int(batch.mask[0].sum()) - 1
    assert torch.equal(decoder.labels[0, :last], batch.ids[0, 1 : last + 1])
    assert (decoder.labels[0, last:] == -100).all()


def test_the_encoder_learns_the_control_concept_and_by_a_negative_lambda_the_treated_one(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    few = np.tile(COMBOS[8::9], (12, 1))  # ambiance and noise are never mentioned
    train = pd.DataFrame(few, columns=ASPECTS).assign(text=[write(c) for c in few])

    def readable(adversary):
        """Shares of the variance between the labels of food, and of service, the control."""
        learnt = ex.CausaLM(epochs=12, batch=27, lr=3e-3, adversary=adversary)
        learnt.model = Classifier("ternary", folder, at="mean", epochs=1).fit(reviews())
        h = embed(list(train.text), learnt._encoder(train, "food"), at="mean").double()
        h = h - h.mean(0)
        means = [
            torch.stack([h[z == v].mean(0) for v in range(3)]) for z in (train.food, train.service)
        ]
        return [float(m.square().sum(1).mean() / h.square().sum(1).mean()) for m in means]

    plain, taught = readable(0.0), readable(-1.0)
    assert control_concept(train, "food") == "service"
    assert plain[1] > 2 * plain[0]
    assert taught[0] > 1.5 * plain[0]


def test_causalms_effect_is_the_new_heads_less_the_models(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    table = reviews()
    model, question = (
        Classifier("ternary", folder, epochs=4, lr=3e-3).fit(table),
        ex.questions(table, pairs(table)[::20]),
    )
    settings = dict(epochs=1, head_epochs=5)
    learnt = ex.CausaLM(**settings).fit(table, model)
    found, food = (
        learnt.effect(question),
        torch.tensor([concept == "food" for concept in question.concept]),
    )
    after = learnt.counterfactual["food"](question.description)
    assert_close(found[food], (after - model(question.description))[food], atol=1e-6, rtol=0)
    spoilt = question.assign(
        target=question.source, source=question.target, **{name: "unknown" for name in LABELS}
    )
    assert torch.equal(learnt.effect(spoilt), found)
    assert set(ex.CausaLM.sees) == MAY_SEE["CausaLM"]
    released = ex.CausaLM("released", **settings).fit(table, model)
    plain = model.recipe.body()
    before = released.factual.head(
        embed(list(question.description), plain, at="[CLS]").double()
    ).softmax(1)
    after = released.counterfactual["food"](question.description)
    assert_close(released.effect(question)[food], (after - before)[food], atol=1e-6, rtol=0)
    monkeypatch.setattr(ex.CausaLM, "_unlearn", lambda *_: pytest.fail("trained again"))
    assert torch.equal(ex.CausaLM(**settings).fit(table, model).effect(question), found)


def test_twins_of_a_cut_encoder_read_the_same_masked_reviews_and_each_once_below_the_cut(
    tmp_path, folder, monkeypatch
):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    tokenizer, table, read, below = load(folder).tokenizer, reviews(), [], Below._read
    save_bert(tmp_path, tokenizer, num_hidden_layers=2)
    model = Classifier("ternary", str(tmp_path), epochs=1, trained_layers=1).fit(table)
    monkeypatch.setattr(
        Below, "_read", lambda self, ids, mask: read.extend(ids.tolist()) or below(self, ids, mask)
    )
    learnt = ex.CausaLM(epochs=2, head_epochs=1).fit(table, model)
    assert len(table) < len(read) <= 2 * len(table)
    food, noise = (
        dict(learnt.counterfactual[aspect].body.base.named_parameters())
        for aspect in ("food", "noise")
    )
    apart = {key for key in food if not torch.equal(food[key], noise[key])}
    assert apart  # of two layers the upper one
    assert all(".layer.0." in key for key in apart)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda t, q: ex.Zero().effect(q), "Zero has not learnt anything yet"),
        (
            lambda t, q: ex.Zero().fit(t, Additive()).effect(q.drop(columns="description")),
            "no column description",
        ),
        (
            lambda t, q: ex.Zero().fit(t, Additive()).effect(q.assign(concept="price")),
            "'price' is not a valid concept: expected one of food, serv",
        ),
        (
            lambda t, q: ex.Zero().fit(t, Additive()).effect(q.assign(target="positive")),
            "'positive' is not a valid target: expected one of Neg",
        ),
        (
            lambda t, q: (
                ex.Approx().fit(t, Additive()).effect(q.assign(food_aspect_majority="fine"))
            ),
            "'fine' is not a valid food_",
        ),
        (
            lambda t, q: ex.Zero().fit(t.drop(columns="review_majority"), Additive()),
            "no column review_majority",
        ),
        (
            lambda t, q: ex.Zero().fit(t.assign(noise_aspect_majority="loud"), Additive()),
            "'loud' is not a valid noise_.*: expected ",
        ),
        (
            lambda t, q: ex.CONEXP().fit(t[t[LABELS[0]] != "Positive"], Additive()).effect(q),
            "food .*'Positive'",
        ),
        (
            lambda t, q: ex.TCAV().fit(t.assign(noise_aspect_majority="unknown"), World()),
            "0 .* have noise 'Negative'",
        ),
        (
            lambda t, q: ex.INLPExplainer().fit(
                t.assign(noise_aspect_majority="Negative"), World()
            ),
            "noise 'Positive'",
        ),
        (
            lambda t, q: ex.TCAV().fit(t, lambda texts: Additive()(texts)),
            "needs a model with phi and head",
        ),
        (lambda t, q: ex.CausaLM().fit(t, World()), "needs a fitted Classifier"),
        *[
            (lambda t, q, e=e: e("publish"), "'publish' is not a valid variant")
            for e in (ex.SLearner, ex.TCAV, ex.ConceptSHAP, ex.INLPExplainer, ex.CausaLM)
        ],
    ],
)
def test_bad_input_gets_one_line(table, changes, call, says):
    with pytest.raises(UserError, match=says) as error:
        call(table, ex.questions(table, changes))
    assert "\n" not in str(error.value)


def test_perceptrons_come_back_from_their_tensors():
    start = Coalitions.random(2, 5, 3, seed=1, released=True)
    again = Coalitions(**start.tensors(), released=True)
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    assert again.released
    assert torch.equal(start(x), again(x))
