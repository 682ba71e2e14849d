"""What each box of the directive `try-it` shows on paper and without JavaScript: one figure of the
answers to the sentence at which it opens, drawn by the library."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from probebook import figures
from probebook.base import atomic_write
from probebook.models import embed, head_logits, word_logits
from probebook_book.boxes import Box
from probebook_chapters.every_layer import FittedLayer, over_strength

PANELS = {"verb": "verb", "subject": "judge: subject", "attractor": "judge: attractor"}


def write(
    folder: Path,
    box: Box,
    layers: dict[int, FittedLayer],
    nouns: Sequence[Sequence[str]],
    verbs: Sequence[tuple[str, str]],
) -> None:
    """Write KEY.png of a box, and KEY.json: its caption, in MyST, and a text for who does not see
    it. `nouns`, `verbs`: pairs of singular and plural that the boxes know."""
    figures.style()
    forms = likeliest_forms(box.text, layers, verbs)
    figure, caption, alt = (
        _edit_figure(box, layers, nouns, forms)
        if box.methods
        else _probe_figure(box, layers, forms)
    )
    with atomic_write(folder / f"{box.key}.png") as path:
        figure.savefig(path, format="png")
    with atomic_write(folder / f"{box.key}.json") as path:
        path.write_text(json.dumps({"caption": caption, "alt": alt}), encoding="utf-8")


def flip_number(text: str, nouns: Sequence[Sequence[str]]) -> str:
    """A sentence whose first noun has the other number."""
    other = {word: turned for pair in nouns for word, turned in (pair, pair[::-1])}
    word = next(word for word in re.findall(r"\w+", text) if word in other)
    return re.sub(rf"\b{word}\b", other[word], text, count=1)


def likeliest_forms(
    text: str, layers: dict[int, FittedLayer], verbs: Sequence[tuple[str, str]]
) -> tuple[str, str]:
    """The pair of a verb's forms to which the model gives the most probability."""
    scores = word_logits([text], layers[1].s.lm, [[form for pair in verbs for form in pair]])
    return verbs[int(scores.reshape(-1, 2).logsumexp(1).argmax())]


def _edit_figure(
    box: Box, layers: dict[int, FittedLayer], nouns: Sequence[Sequence[str]], forms: tuple[str, str]
) -> tuple[Figure, str, str]:
    """Curves over strength at the layer at which the box opens."""
    layer, lm = int((box.layers or str(max(layers))).split()[-1]), layers[1].s.lm
    plural = float(word_logits([box.text], lm, [forms]).softmax(1)[0, 1]) > 0.5
    table = over_strength(layers, box.text, forms, layer, 1 - plural, box.methods.split())
    towards, flip = f" Flips go towards *{forms[1 - plural]}*.", ""
    if box.flip:
        text, at = flip_number(box.text, nouns), layers[layer]
        h = embed([text], lm, layer=layer)
        read = word_logits([text], lm, [forms]), at.oracle.zc(h), at.oracle.ze(h)
        truth = [float(logits.softmax(1)[0, 1]) for logits in read]
        for strength in (0.0, 1.0):
            table.loc[len(table)] = ["flipped", strength, *truth]
        flip = f" Grey: {_quoted(text)}, the true counterfactual."
    asked = box.show.split()
    shown = [name for name in PANELS if ("verb" if name == "verb" else "oracle") in asked]
    tidy = table.melt(["method", "strength"], shown, "panel", "plural").replace({"panel": PANELS})
    figure = figures.lines(
        tidy,
        "strength",
        "plural",
        "method",
        col="panel",
        panel_width=3.1,
        xlabel="share of largest strength",
        ylabel="chance of the plural",
        limits=(-0.03, 1.03),
    )
    end = table[table.strength == 1].set_index("method")[shown]
    values = "; ".join(
        f"{method} {', '.join(map(_percent, row))}" for method, *row in end.itertuples()
    )
    return (
        figure,
        (
            f"{_quoted(box.text)}: the preference for *{forms[1]}* to *{forms[0]}*, and the chance "
            "of the plural that the two judges read, while the strength of an edit after layer "
            f"{layer} grows from 0 to the end of its slider.{towards}{flip}"
        ),
        (
            f"Curves over strength in the panels {', '.join(PANELS[name] for name in shown)}. "
            f"Chance of the plural at the largest strength, in this order: {values}."
        ),
    )


def _probe_figure(
    box: Box, layers: dict[int, FittedLayer], forms: tuple[str, str]
) -> tuple[Figure, str, str]:
    """What linear probes read at each layer; the verb, which the last layer decides, is a line."""
    lm, rows, no_judges = layers[1].s.lm, [], []
    for layer, at in layers.items():
        h = embed([box.text], lm, layer=layer)
        for noun, probe, usable in zip(
            ("subject", "attractor"), (at.linear.zc, at.linear.ze), at.linear.report.usable
        ):
            rows.append((layer, noun, float(probe(h).softmax(1)[0, 1])))
            no_judges += [] if usable else [f"{noun} at layer {layer}"]
    table = pd.DataFrame(rows, columns=["layer", "noun", "plural"])
    last = embed([box.text], lm)
    verb = float(word_logits([box.text], lm, [forms], h=last).softmax(1)[0, 1])
    top = head_logits(last, lm).softmax(1)[0].topk(3)
    words = ", ".join(
        f"*{lm.tokenizer.convert_ids_to_tokens(i)}* ({_percent(p)})"
        for p, i in zip(top.values.tolist(), top.indices.tolist())
    )
    values = "; ".join(
        f"{noun} {', '.join(map(_percent, part.plural))}"
        for noun, part in table.groupby("noun", sort=False)
    )
    return (
        figures.lines(
            table,
            "layer",
            "plural",
            "noun",
            verb,
            f"verb: {forms[1]}",
            ylabel="chance of the plural",
            limits=(-0.03, 1.03),
        ),
        (
            f"{_quoted(box.text)}: the chance of the plural that linear probes read after each "
            f"layer. No judges: {', '.join(no_judges) or 'none'}. Dashed: the preference for "
            f"*{forms[1]}* to *{forms[0]}*. The model's likeliest words: {words}."
        ),
        (
            f"Two curves over layers 1 to {max(layers)}, the chance that a noun is plural: "
            f"{values}. "
            f"A dashed line, the preference for {forms[1]}: {_percent(verb)}."
        ),
    )


def _quoted(text: str) -> str:
    return f"*{text.replace('[MASK]', '…').rstrip('.')}*"


def _percent(p: float) -> str:
    return f"{100 * p:.0f} %"
