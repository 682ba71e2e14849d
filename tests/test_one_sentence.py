"""The story's sentence: what the pages say of it, and the moving picture."""

import re

import pandas as pd
import pytest
import torch

from probebook.base import ROOT
from probebook_chapters.figures.front import HEIGHT, MARGIN, WIDTH, moving_state
from probebook_chapters.one_sentence import trace_sentence

PLURAL, SINGULAR = (f"The {word} to the cabinet [MASK] on the table." for word in ("keys", "key"))


@pytest.fixture(scope="module")
def trace():
    return trace_sentence(PLURAL, SINGULAR, ("is", "are"))


def test_the_verb_follows_the_flip_and_no_random_push(trace):
    share = trace.verbs().pivot(index="state", columns="verb", values="probability")
    assert share.sum(axis=1).to_numpy() == pytest.approx(1)
    assert share["is"]["as it is"] < 0.1
    assert share["is"]["pushed at random"] < 0.1
    assert share["is"]["flipped"] > 0.9
    assert share["is"]["erased"] > 0.5  # "falls back to is"
    assert share["is"]["the other sentence"] > 0.9


def test_the_random_push_is_as_long_as_the_flip(trace):
    h = trace.states["as it is"]
    lengths = [(trace.states[name] - h).norm() for name in ("flipped", "pushed at random")]
    torch.testing.assert_close(*lengths)


def test_the_judges_read_the_flip_and_still_the_cabinet(trace):
    plural = trace.readings().pivot(index="noun", columns="state", values="plural")
    assert plural.loc["subject", "as it is"] > 0.9
    assert plural.loc["subject", "flipped"] < 0.1
    assert (plural.loc["attractor"] < 0.5).all()


def test_the_flip_goes_towards_singular_subjects(trace):
    places = trace.places()
    assert places.x["flipped"] < places.x["as it is"]
    path = trace.path([0, 0.5, 1])
    assert path.singular.is_monotonic_increasing
    cloud = trace.cloud(100)
    middle = cloud.groupby("label").x.mean()
    assert middle["singular subject"] < middle["plural subject"]


def test_the_likeliest_words_come_first(trace):
    words = trace.words(["as it is"], most=4)
    assert words.word[0] == "are"
    assert words.probability.is_monotonic_decreasing


def test_the_picture_begins_and_ends_where_the_path_does():
    cloud = pd.DataFrame({"x": [0.0, 10.0], "y": [0.0, 5.0], "label": ["b", "a"]})
    path = pd.DataFrame({"x": [0.0, 5.0, 10.0], "y": [0.0, 0.0, 5.0], "singular": [0.0, 0.25, 1.0]})
    svg = moving_state(cloud, path, ("The <keys>", "there."), ("is", "are"))
    frames = re.search(r"@keyframes ms-state \{ (.*?) \}\n", svg)[1]
    places = re.findall(r"translate\(([\d.]+)px, ([\d.]+)px\)", frames)
    assert places[0] == places[-1] == ("14.0", f"{HEIGHT - MARGIN:.1f}")
    assert (f"{WIDTH - MARGIN:.1f}", "14.0") in places
    assert "The &lt;keys&gt;" in svg
    style = (ROOT / "book/_static/custom.css").read_text(encoding="utf-8")
    assert "(prefers-reduced-motion: reduce) { .moving-state" in style
    assert svg.count("<circle") == 3
