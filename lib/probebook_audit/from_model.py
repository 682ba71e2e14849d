"""The items as a model reads them: their states, and what the model chooses at its blank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from probebook.base import UserError
from probebook.corpora.words import single_tokens
from probebook.models import Model, carry, embed_layers, load, word_logits
from probebook.models.batches import positions
from probebook.models.passes import part_for
from probebook.models.twins import encoder
from probebook_audit.case import Case, check_division, test_rows
from probebook_audit.from_files import check_others, from_states, load_probe
from probebook_audit.labelled import Labelled

MASK = "[MASK]"


def cases(
    data: Labelled,
    model: str,
    layers: Sequence[int],
    at: str = MASK,
    most: int = 1000,
    probe: str = "",
) -> list[Case]:
    """One case for each layer: the data as a model reads them.

    `at`: a rule of `models.embed`, or "first" or "last" piece of the word in `data.spot`
    ("first word", "last word"). Behaviour is measured where words are given and the rule names one
    token, with the rest of the network run on the edited states. UserError as `embed` raises."""
    if data.text is None:
        raise UserError(f"{data.name}: a model reads texts: name their column with --text")
    if data.pair is not None and len(data.classes) > 2:
        raise UserError(
            f"{data.name}: --pair needs a label with two values, since a rewritten "
            f"text has the other one; this label has {len(data.classes)}"
        )
    lm, test = load(model), test_rows(data, most)
    rule: Any = (at.split()[0], data.spot) if at.endswith(" word") else at
    if at.endswith(" word") and data.spot is None:
        raise UserError(f"--at {at!r}: name the column that holds the word of each text: --spot")
    depths = [part_for(lm, rule).layer(layer) for layer in layers]
    h = embed_in_shards(data.text, lm, depths, rule)
    base = embed_in_shards(data.text, encoder(f"random:{model}", seed=0), depths, rule)
    partner: dict[int, Tensor] = {}
    paired = None
    if data.pair is not None:
        paired = torch.tensor([bool(one) for one in data.pair])
        other = [pair or text for pair, text in zip(data.pair, data.text)]
        partner = embed_in_shards(other, lm, depths, rule)
    keep = {name: torch.from_numpy(values) for name, values in data.keep.items()}
    by_layer = []
    for depth in depths:
        probs = true = None
        if data.words is not None and at not in ("mean", "max") and lm.kind != "encoder":
            probs = _behaviour(data, lm, depth, rule)
            if paired is not None:
                where = torch.arange(len(data.z))
                true = (
                    probs(partner[depth], where)
                    if depth == lm.depth and at == MASK
                    else (
                        _choose_words(
                            data,
                            lm,
                            embed_in_shards(other, lm, [lm.depth], _place(data))[lm.depth],
                            where,
                        )
                    )
                )
        by_layer.append(
            Case(
                h[depth],
                torch.from_numpy(data.z),
                len(data.classes),
                keep,
                data.group,
                test,
                data.text,
                partner.get(depth),
                paired,
                base[depth],
                probs,
                true,
                depth,
                load_probe(probe, lm.width, len(data.classes)) if probe else None,
                known=data.known,
            )
        )
    return by_layer


def default_place(data: Labelled) -> str:
    """The rule by which a text's state is read, if none is given: at its blank; else after its last
    word if the model is to choose words, and else the mean over its tokens."""
    if data.text and all(MASK in one for one in data.text):
        return MASK
    return "last" if data.words else "mean"


def check(
    data: Labelled,
    model: str,
    at: str,
    states: str = "",
    probe: str = "",
    stream: bool = False,
    seeds: int = 1,
    most: int = 1000,
) -> None:
    """UserError if an audit of these items would fail: the split, the positions in every text, the
    words, or the files of states and of a probe."""
    check_division(data.z, data.group, test_rows(data, most), seeds, data.name)
    if states:
        width = from_states(data, states).h.shape[1]
        if stream:
            check_others(data, states)
    else:
        lm = load(model)
        texts = [*(data.text or []), *filter(None, data.pair or [])]
        spot = data.spot and [
            *data.spot,
            *(one for one, pair in zip(data.spot, data.pair or []) if pair),
        ]
        if not data.text:
            raise UserError(f"{data.name}: a model reads texts: name their column with --text")
        place: Any = (at.split()[0], spot) if at.endswith(" word") and spot else at
        if at == MASK and lm.kind != "causal" and lm.blank_token is None:
            raise UserError(
                f"{model} has no mask token, so no state at [MASK]: give --at mean, "
                "last or a word's"
            )
        if at == "[CLS]" and lm.tokenizer(texts[0])["input_ids"][0] != lm.tokenizer.cls_token_id:
            raise UserError(
                f"{model} has no [CLS] at the beginning of a text: give --at mean, last or a word's"
            )
        positions(texts, part_for(lm, place), place)
        if data.words is not None and lm.kind != "encoder":
            _check_words(data.words, texts, lm)
        width = lm.width
    if probe:
        load_probe(probe, width, len(data.classes))


def embed_in_shards(
    texts: Sequence[str], lm: Model, layers: Sequence[int], at: Any, shard: int = 4096
) -> dict[int, Tensor]:
    """`embed_layers` by shards of texts. The cache keeps each shard, so that a killed audit goes on
    at the shard where it was; only the states of one shard are in memory twice."""
    states = {layer: torch.empty(len(texts), lm.width) for layer in layers}
    for start in range(0, len(texts), shard):
        rows = slice(start, start + shard)
        rule = (at[0], at[1][rows]) if isinstance(at, tuple) else at
        for layer, h in embed_layers(texts[rows], lm, layers, rule).items():
            states[layer][rows] = h
    return states


def _behaviour(data: Labelled, lm: Any, depth: int, rule: Any) -> Callable:
    texts, read = data.text or [], _place(data)

    def probs(h: Tensor, rows: Tensor) -> Tensor:
        if depth == lm.depth and rule == read:
            return _choose_words(data, lm, h, rows)
        here = (rule[0], [rule[1][int(r)] for r in rows]) if isinstance(rule, tuple) else rule
        last = carry([texts[int(r)] for r in rows], lm, depth, here, h, read=read)
        return _choose_words(data, lm, last, rows)

    return probs


def _choose_words(data: Labelled, lm: Any, last: Tensor, rows: Tensor) -> Tensor:
    """The candidates' probabilities [m, c] from last-layer states; NaN where a candidate is not a
    single token of the model."""
    assert data.words is not None
    words = [data.words[int(r)] for r in rows]
    single = single_tokens({word for row in words for word in row}, lm.tokenizer)
    known = _single_token_rows(words, single, lm.name)
    probs = torch.full(
        (len(words), len(words[0])), torch.nan, dtype=torch.float64, device=last.device
    )
    logits = word_logits([], lm, [words[i] for i in known], h=last[known])
    probs[known] = logits.double().softmax(1)
    return probs


def _place(data: Labelled) -> str:
    """Where the model's words are predicted: at the blank, or after the last word."""
    assert data.text is not None
    return MASK if all(MASK in one for one in data.text) else "last"


def _check_words(words: Sequence[Sequence[str]], texts: Sequence[str], lm: Model) -> None:
    """UserError if the model cannot choose among these words in these texts."""
    _single_token_rows(
        words, single_tokens({word for row in words for word in row}, lm.tokenizer), lm.name
    )
    if lm.kind == "causal":
        return
    if lm.blank_token is None:
        raise UserError(f"{lm.name} has no mask token, so it chooses no words: leave --words out")
    missing = next((one for one in texts if MASK not in one), None)
    if missing is not None:
        raise UserError(
            f"--words: {lm.name} chooses words at a blank, and {missing[:60]!r} has no "
            "[MASK]: put one into every text, or leave --words out"
        )
    positions(texts, lm, MASK)


def _single_token_rows(
    words: Sequence[Sequence[str]], single: Mapping[str, int], name: str
) -> list[int]:
    """Rows all of whose words are single tokens. UserError: fewer than half."""
    rows = [i for i, row in enumerate(words) if all(word in single for word in row)]
    if len(rows) < len(words) / 2:
        unknown = sorted({word for row in words for word in row} - {*single})
        raise UserError(
            f"--words: {name} has no single token for {', '.join(unknown[:5])}: "
            "choose words that it has"
        )
    return rows
