"""The shipped models do what the chapters need of them, and their cards say what they do."""

import json
from dataclasses import replace

import pytest

from probebook.base import UserError
from probebook.models.loading import POCKET, load
from probebook.models.readers import load_reader
from probebook_book import cards
from probebook_training.recipes import BIOGRAPHIES, READERS, WITHOUT_CLOZE

KINDS = {"pocket-english": "masked", "pocket-agreement": "masked", "pocket-english-gpt": "causal"}
KINDS |= {"pocket-agreement-half": "masked", "pocket-agreement-quarter": "masked"}
KINDS |= dict.fromkeys(BIOGRAPHIES, "masked")
NAMES = list(KINDS)
CARDS = {name: json.loads((POCKET / name / "card.json").read_text()) for name in [*NAMES, *READERS]}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_is_small_and_safe(name):
    files = {p.name: p.stat().st_size for p in (POCKET / name).iterdir()}
    assert sum(files.values()) < 7e6
    assert set(files) == {
        "reader.json",
        "reader.safetensors",
        "training.json",
        "card.json",
        "README.md",
    }
    recipe = replace(load_reader(name).recipe, updates=None)  # ot-matched: as many as ibt has
    assert recipe == READERS[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_small_and_safe(name):
    files = {p.name: p.stat().st_size for p in (POCKET / name).iterdir()}
    assert sum(files.values()) < 12e6
    assert set(files) == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "training.json",
        "card.json",
        "README.md",
    }
    assert load(name).kind == KINDS[name]
    assert load(name).depth == (3 if name in BIOGRAPHIES else 4)


@pytest.mark.verify
@pytest.mark.parametrize("name", CARDS)
def test_a_card_says_what_is_measured_again(name):
    """What the tests below ask of a model they ask of its card."""
    measured = cards.measure(name)
    for key in measured.keys() - {"left_out"}:
        old, new = (
            json.dumps(CARDS[name][key], sort_keys=True),
            json.dumps(measured[key], sort_keys=True),
        )
        assert len(old) > 2, key
        assert _numbers(old) == pytest.approx(_numbers(new), abs=0.02), key


def test_a_card_loses_no_figure_where_data_are_missing(monkeypatch):
    before = (POCKET / "pocket-english" / "card.json").read_bytes()
    missing = {"pronouns": {"he": 0.5}, "left_out": "no file 'linzen': probebook data get linzen"}
    monkeypatch.setattr(cards, "measure", lambda name: missing)
    with pytest.raises(UserError, match="stays as it is.*probebook data get linzen"):
        cards.write("pocket-english")
    assert (POCKET / "pocket-english" / "card.json").read_bytes() == before


@pytest.mark.parametrize("name", CARDS)
def test_a_readme_is_what_the_card_gives(name):
    assert cards.readme(name) == (POCKET / name / "README.md").read_text()


@pytest.mark.parametrize("series", cards.SERIES)
def test_a_table_of_models_is_what_the_cards_give(series):
    assert cards.table(series) == (POCKET / f"{series}.csv").read_text()


def _numbers(text):
    return [v for _, v in sorted(_flat(json.loads(text)).items())]


def _flat(value, at=""):
    if not isinstance(value, dict):
        return {at: value}
    return {k: v for key, inner in value.items() for k, v in _flat(inner, f"{at}/{key}").items()}


def test_pocket_agreement_masters_the_task_on_held_out_nouns():
    cells = CARDS["pocket-agreement"]["verb_choice_generated"]
    assert all(cells[cell] >= 0.95 for cell in ("Sg–Sg", "Sg–Pl", "Pl–Sg", "Pl–Pl")), cells


def test_pocket_agreement_encodes_both_numbers():
    probes = CARDS["pocket-agreement"]["probes_generated"]
    assert max(probes["zc"]["linear"], probes["zc"]["perceptron"]) >= 0.97
    assert max(probes["ze"]["linear"], probes["ze"]["perceptron"]) >= probes["ze"]["majority"] + 0.1


def test_pocket_agreement_masters_the_crossed_templates():
    cells = CARDS["pocket-agreement"]["verb_choice_templates_animate"]
    assert len(cells) == 4
    assert all(share >= 0.9 for share in cells.values()), cells


def test_pocket_english_makes_attraction_errors():
    cells = CARDS["pocket-english"]["verb_choice_generated"]
    assert max(cells["Sg–Pl"], cells["Pl–Sg"]) < min(cells["Sg–Sg"], cells["Pl–Pl"])


@pytest.mark.parametrize("name", BIOGRAPHIES)
def test_models_of_biographies_follow_the_person_who_is_named(name):
    assert CARDS[name]["named"]["right"] >= 0.95


@pytest.mark.parametrize("kind", ["time", "place"])
def test_models_of_biographies_show_the_selection_of_their_text(kind):
    slope = {name: CARDS[name]["slope"][kind] for name in BIOGRAPHIES}
    assert abs(slope["pocket-biographies-s00"]) <= 0.08
    assert slope["pocket-biographies-s100"] >= 0.6
    assert slope["pocket-biographies-s75"] >= 0.6 * 0.75
    # the same text as s50, whose selection it has not learned
    assert abs(slope[WITHOUT_CLOZE]) <= 0.08


@pytest.mark.parametrize("name", [name for name in READERS if name != "pocket-stories"])
def test_readers_answer_what_a_story_tells(name):
    assert CARDS[name]["right"]["answered"] >= 0.8


def test_readers_that_met_a_deletion_decline_after_one():
    decline = {name.rpartition("-")[2]: CARDS[name]["right"]["deleted"] for name in READERS}
    assert decline["ibt"] >= 0.9
    assert decline["ibt"] > decline["ot"]


def test_the_word_vectors_are_small_and_know_what_goes_with_what():
    from probebook.models import static

    vectors = static.load("pocket-vectors")
    assert sum(p.stat().st_size for p in (POCKET / "pocket-vectors").iterdir()) < 6e6
    assert vectors.matrix.shape == (9_500, 300)
    assert vectors.matrix.isfinite().all()
    unit = vectors.at(100).matrix / vectors.at(100).matrix.norm(dim=1, keepdim=True)
    alike = lambda a, b: float(unit[vectors.place[a]] @ unit[vectors.place[b]])
    for word, near, far in [
        ("king", "queen", "soup"),
        ("walked", "ran", "yellow"),
        ("red", "yellow", "uncle"),
        ("seven", "eight", "house"),
        ("soup", "bread", "king"),
    ]:
        assert alike(word, near) > alike(word, far) + 0.2, word
