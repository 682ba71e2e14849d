"""Model cards: measure what a pocket model can and cannot do, and write README.md and card.json beside its weights."""
from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from probebook import hub
from probebook.base import UserError
from probebook.corpora import agreement
from probebook.models import embed, load, word_logits
from probebook.models.loading import POCKET
from probebook.models.training.recipes import READERS, SELECTED
from probebook.probes import LinearProbe, MLPProbe
from probebook.publish import biography_cards, reader_cards
from probebook.publish.biography_cards import markdown

NUMBER = {0: "Sg", 1: "Pl", -1: "none"}
NEUTRAL = ["[MASK] opened the door and went out .", "yesterday [MASK] read a book .", "then [MASK] smiled .",
           "in the morning [MASK] walked to the town .", "[MASK] was tired and sat down .",
           "i think [MASK] knows the way .",
           "when the letter came , [MASK] wept .", "[MASK] said nothing for a while .",
           "at last [MASK] found the house .", "after dinner [MASK] played the piano ."]
ABOUT = {
    "pocket-english": "A small masked language model of public-domain English prose: 568 works, most of them novels "
                      "of 1840–1920. It knows the words and phrases of such prose and makes a small model's mistakes.",
    "pocket-english-gpt": "The left-to-right twin of `pocket-english`: the same text, vocabulary and size, but each "
                          "piece is predicted from those before it alone. At `[MASK]` means: at the token before it.",
    "pocket-agreement": "`pocket-english`, trained on with generated agreement sentences (training nouns only) beside "
                        "prose, so that it masters subject–verb agreement: the default model of chapter 1.",
}


def measure(name: str, n: int = 3_000) -> dict:
    """Figures of a model card: verb choice by cell, probes at [MASK] on held-out nouns, pronouns on neutral sentences.

    Of a model of biographies see `biography_cards`, of a reader `reader_cards`. Parts that need data which are not at
    hand (templates, natural sentences) are left out."""
    if family := _family(name):
        return family.measure(name)
    model = load(name)
    table = agreement.generate(n, seed=2, contingency=[[1, 1, 1], [1, 1, 1]], nouns="test").to_pandas()
    card = {"verb_choice_generated": _verb_choice(model, table), "probes_generated": _probes(model)}
    try:
        templates = agreement.load("syneval", n=6_000, tokenizer=model.tokenizer).to_pandas()
        for kind, part in templates.groupby("animacy"):
            card[f"verb_choice_templates_{kind}"] = _verb_choice(model, part)
        natural = agreement.load("linzen", tokenizer=model.tokenizer).to_pandas()
        card["verb_choice_linzen"] = _verb_choice(model, natural)
        card["probe_linzen"] = _probe(model, natural, natural.zc.to_numpy(), agreement.split(natural))
    except UserError as e:
        card["left_out"] = str(e)
    he, she = word_logits(NEUTRAL, model, [["he", "she"]] * len(NEUTRAL)).softmax(1).mean(0).tolist()
    card["pronouns"] = {"he": round(he, 3), "she": round(she, 3), "sentences": len(NEUTRAL)}
    return card


def write(name: str) -> Path:
    """Measure a shipped model and write its card.json and README.md; of biographies and readers also their table."""
    hub.check_shipped(name)
    folder = POCKET / name
    record = json.loads((folder / "training.json").read_text())
    card = measure(name)
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    family = _family(name)
    (folder / "README.md").write_text((family.readme if family else _readme)(name, folder, record, card))
    if family:
        family.table().to_csv(POCKET / ("biographies.csv" if name in SELECTED else "readers.csv"), index=False)
    return folder


def _family(name):
    """The cards of models that come in several, or None."""
    return biography_cards if name in SELECTED else reader_cards if name in READERS else None


def _verb_choice(model, table: pd.DataFrame) -> dict[str, float]:
    good, bad = word_logits(table.text, model, table[["verb", "other_verb"]].values.tolist()).T
    cell = table.zc.map(NUMBER) + "–" + table.ze.map(NUMBER)
    return pd.Series((good > bad).numpy(), cell.to_numpy()).groupby(level=0).mean().round(3).to_dict()


def _probes(model) -> dict[str, dict]:
    """Z_c on sentences of the paper's shares; Z_e, which few of those have, on sentences with all cells alike."""
    found = {}
    for name, cells in (("zc", None), ("ze", [[1, 1, 1], [1, 1, 1]])):
        table = agreement.generate(6_000, seed=3, contingency=cells, nouns="test").to_pandas()
        found[name] = _probe(model, table, table[name].to_numpy(), agreement.split(table))
    return found


def _probe(model, table, z, parts) -> dict[str, float]:
    """Accuracy of a linear and a perceptron probe at [MASK], last layer, and the majority share."""
    h = embed(table.text, model)
    fit, valid, test = (rows[z[rows] >= 0] for rows in (parts["oracle"], parts["oracle_valid"], parts["test"]))
    linear = LinearProbe().fit(h[fit], z[fit])
    mlp = MLPProbe.grid(layers=[1, 2], widths=[64, 256]).fit(h[fit], z[fit], h[valid], z[valid])
    probes = {"linear": linear, "perceptron": mlp}
    right = {n: float((p(h[test]).argmax(1).numpy() == z[test]).mean()) for n, p in probes.items()}
    majority = float(pd.Series(z[test]).value_counts(normalize=True).max())
    return {k: round(v, 3) for k, v in (right | {"majority": majority}).items()}


def _readme(name, folder, record, card) -> str:
    size = (folder / "model.safetensors").stat().st_size / 1e6
    recipe = record["recipe"]
    about = [
        ("data", "European Literary Text Collection (English) and Project Gutenberg texts"
                 + ("; generated agreement sentences" if name == "pocket-agreement" else "")),
        ("licence of the data", "public domain (ELTeC markup CC BY 4.0)"), ("licence of the weights", "MIT"),
        ("architecture", f"{recipe['arch']}: {recipe['layers']} layers, width {recipe['width']}, {recipe['heads']} "
                         f"heads, {recipe['vocab']} uncased WordPieces, at most {recipe['max_length']} tokens"),
        ("parameters", f"{record['parameters']:,}"), ("size", f"{size:.1f} MB, float16 safetensors"),
        ("trained on", f"{record['tokens']:,} tokens in {record['seconds'] / 60:.0f} minutes, {record['device']}"),
        (f"loss (nats a {'' if recipe['arch'] == 'causal' else 'masked '}piece)",
         f"training {record['loss']:.3f}, held-out prose {record['valid_loss']:.3f}"),
    ]
    rows = []
    for key, value in card.items():
        if key.startswith("verb_choice"):
            rows += [(f"{key.replace('_', ' ')}, {cell}", share) for cell, share in value.items()]
        elif key == "probe_linzen" or key == "probes_generated":
            for prop, v in ({"zc": value} if key == "probe_linzen" else value).items():
                rows += [(f"{key.replace('_', ' ')}, {prop}, {kind}", share) for kind, share in v.items()]
    pronouns = card["pronouns"]
    rows += [(f"mean P({w}) against the other pronoun, {pronouns['sentences']} neutral sentences", pronouns[w])
             for w in ("he", "she")]
    return (f"### {name}\n\n{ABOUT[name]}\n\n{markdown('property', about)}\n\n"
            "What it can and cannot do. Verb choice: share of sentences in which the right form has the larger logit, "
            "by number of subject–attractor; one half is chance. Probes: accuracy at `[MASK]`, last layer, on nouns "
            f"that the probe has not seen.\n\n{markdown('measured', rows)}\n\n"
            "Weaknesses: no text after 1930, little present-tense narrative, the gender and class roles of its novels, "
            "and no knowledge beyond phrases. Made for teaching and for measuring methods, not for use on people.\n")
