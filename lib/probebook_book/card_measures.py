"""What the models' cards measure: models of prose, models of biographies, readers of stories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from probebook.base import DATA, UserError, read_yaml, to_numpy
from probebook.corpora import agreement, biographies, mgc, stories
from probebook.corpora.stories.versions import versions
from probebook.measures.answers import exact_match
from probebook.measures.specification import gender_mass
from probebook.models import embed, load, word_logits
from probebook.models.fill import fill
from probebook.models.loading import Model
from probebook.models.readers import load_reader
from probebook.probes import LinearProbe, MLPProbe
from probebook_chapters.causal_probing import verb_choice
from probebook_training.recipes import BIOGRAPHIES

NUMBER = {0: "Sg", 1: "Pl", -1: "none"}
CROSSED = [[1, 1, 1], [1, 1, 1]]  # as many sentences in each cell of z_c × z_e
WORDS = read_yaml(DATA / "models" / "cards.yaml")


def prose(name: str) -> dict[str, Any]:
    """Verb choice by cell, probes at [MASK] on held-out nouns, pronouns on neutral sentences.

    Parts that need data which this machine lacks (templates, natural sentences) are left out."""
    model = load(name)
    table = agreement.generate(3_000, seed=2, contingency=CROSSED, nouns="test")
    card = {"verb_choice_generated": _verb_choice(model, table), "probes_generated": _probes(model)}
    for name, share in (("prose", "seen"), ("addresses", "unseen")):
        mined = agreement.load(name, n=4_000, tokenizer=model.tokenizer)
        card[f"verb_choice_{name}_({share})"] = _verb_choice(model, mined)
    try:
        templates = agreement.load("syneval", n=6_000, tokenizer=model.tokenizer)
        for kind, part in templates.groupby("animacy"):
            card[f"verb_choice_templates_{kind}"] = _verb_choice(model, part)
        natural = agreement.load("linzen", tokenizer=model.tokenizer)
        card["verb_choice_linzen"] = _verb_choice(model, natural)
        zc, parts = natural.zc.to_numpy(), agreement.split(natural)
        card["probe_linzen"] = _probe(model, natural, zc, parts)
    except UserError as e:
        card["left_out"] = str(e)
    sentences = WORDS["prose"]["sentences"]
    pronouns = word_logits(sentences, model, [["he", "she"]] * len(sentences))
    he, she = pronouns.softmax(1).mean(0).tolist()
    card["pronouns"] = {"he": round(he, 3), "she": round(she, 3), "sentences": len(sentences)}
    return card


def _verb_choice(model: Model, table: pd.DataFrame) -> dict[str, float]:
    """The share of sentences in which the right verb form has the larger logit, by cell."""
    choices = verb_choice(table, model)
    cell = choices.zc.map(NUMBER) + "–" + choices.ze.map(NUMBER)
    return choices.share.set_axis(cell).sort_index().round(3).to_dict()


def _probes(model: Model) -> dict[str, dict[str, float]]:
    """Z_c on sentences of the paper's shares; Z_e, rare in those, on sentences with equal cells."""
    shares = {}
    for name, cells in (("zc", None), ("ze", CROSSED)):
        table = agreement.generate(24_000, seed=3, contingency=cells, nouns="test")
        shares[name] = _probe(model, table, table[name].to_numpy(), agreement.split(table))
    return shares


def _probe(
    model: Model, table: pd.DataFrame, z: np.ndarray, parts: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Accuracy of a linear and a perceptron probe at [MASK], last layer, and the majority share."""
    h = embed(table.text, model)
    names = ("oracle", "oracle_valid", "test")
    fit, valid, test = (rows[z[rows] >= 0] for rows in (parts[name] for name in names))
    linear = LinearProbe().fit(h[fit], z[fit])
    mlp = MLPProbe.grid(layers=[1, 2], widths=[64, 256]).fit(h[fit], z[fit], h[valid], z[valid])
    shares = {
        name: (to_numpy(probe(h[test]).argmax(1)) == z[test]).mean()
        for name, probe in (("linear", linear), ("perceptron", mlp))
    }
    shares["majority"] = pd.Series(z[test]).value_counts(normalize=True).max()
    return {name: round(float(share), 3) for name, share in shares.items()}


def biography(name: str) -> dict[str, dict[str, float]]:
    """Slopes of the female share among she and he, and the share of named texts that are right.

    Slopes are per unit t: of the model's text, and of its means at each time or place of the Masked
    Gender Challenge. Named texts are fresh."""
    strength, reweighted = BIOGRAPHIES[name]
    slopes = {"text": 0 if reweighted else strength}
    # + 0: of -0 that is 0
    slopes |= {kind: round(slope, 3) + 0.0 for kind, slope in female_slopes(name).items()}
    table = biographies.generate(4_000, 0, seed=2)
    named = table.query("form == 'named' and gender != 'neutral'")
    answers = np.array(biographies.GENDERS)[gender_mass(fill(named.masked, name)).argmax(1)]
    return {"slope": slopes, "named": {"right": round(float((answers == named.gender).mean()), 3)}}


def female_slopes(model: str | Model) -> dict[str, float]:
    """Slope per unit t of the share of she among she and he: the challenge's "time" and "place"."""
    slopes = {}
    for kind in ("time", "place"):
        table = mgc.texts(kind)
        female, male, _ = gender_mass(fill(table.text, model)).T
        means = pd.Series(female / (female + male)).groupby(biographies.ranks(table.w)).mean()
        slopes[kind] = float(np.polyfit(means.index, means, 1)[0])
    return slopes


def reader(name: str, n: int = 200) -> dict[str, dict[str, float]]:
    """Shares of right answers on `n` fresh stories of 4 to 12 sentences.

    "answered": questions with an answer; "yes/no": those alone; "deleted": the share of *unknown*
    after the rationale is deleted (TS-R) and the answer no longer follows."""
    answer, table = load_reader(name), stories.generate(n, seed=9)
    deleted = versions(table, ["TS-R"])["TS-R"].query("answer == 'unknown'")
    right = exact_match(answer(table).said, table.answer)
    shares = {
        "answered": right[table.answer != "unknown"],
        "yes/no": right[table.kind == "yes/no"],
        "deleted": exact_match(answer(deleted).said, ["unknown"] * len(deleted)),
    }
    return {"right": {part: round(float(hits.mean()), 3) for part, hits in shares.items()}}
