"""The items as a model reads them: their states, and what the model chooses at its blank."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probebook.base import UserError
from probebook.corpora.chats import Chat
from probebook.corpora.words import find_word, single_tokens
from probebook.models import Model, carry, embed_layers, load, word_logits
from probebook.models.batches import PositionRule, UnreadText, longest, positions, tokenize
from probebook.models.chats import render
from probebook.models.passes import part_for
from probebook.models.twins import encoder
from probebook_audit.case import Case, check_division, test_rows
from probebook_audit.from_files import check_others, from_states, load_probe
from probebook_audit.labelled import Labelled

MASK = "[MASK]"
TOO_LONG = ("refuse", "cut", "drop")


def cases(
    data: Labelled,
    model: str,
    layers: Sequence[int],
    at: str = MASK,
    most: int = 1000,
    probe: str = "",
) -> list[Case]:
    """One case for each layer, in whatever way it is named: the data as a model reads them.

    `at`: a rule of `models.embed`, or "first" or "last" piece of the word in `data.spot`
    ("first word", "last word"). Behaviour is measured where words are given and the rule names one
    token, with the rest of the network run on the edited states. UserError as `embed` raises;
    `prepare_texts` keeps out of the data what this model cannot read."""
    lm, test, rule = load(model), test_rows(data, most), _rule(data, at)
    assert data.text is not None
    if data.pair is not None and len(data.classes) > 2:
        raise UserError(
            f"{data.name}: --pair needs a label with two values, since a rewritten "
            f"text has the other one; this label has {len(data.classes)}"
        )
    depths = [*dict.fromkeys(part_for(lm, rule).layer(layer) for layer in layers)]  # -1: one
    h = embed_in_shards(data.text, lm, depths, rule)
    base = embed_in_shards(data.text, encoder(f"random:{model}", seed=0), depths, rule)
    partner: dict[int, Tensor] = {}
    paired = None
    if data.pair is not None:
        paired = torch.tensor([bool(one) for one in data.pair])
        other = [pair or text for pair, text in zip(data.pair, data.text)]
        partner = embed_in_shards(other, lm, depths, rule)
    one_token = not at.endswith(("mean", "max"))
    chooses = data.words is not None and one_token and lm.kind != "encoder"
    true = None
    if chooses and paired is not None:
        last = embed_in_shards(other, lm, [lm.depth], _place(data))[lm.depth]
        true = _choose_words(data, lm, last, torch.arange(len(data.z)))
    keep = {name: torch.from_numpy(values) for name, values in data.keep.items()}
    z, k = torch.from_numpy(data.z), len(data.classes)
    items = (z, k, keep, data.group, test, data.text)
    return [
        Case(
            h[depth],
            *items,
            partner=partner.get(depth),
            paired=paired,
            twin=base[depth],
            probs=_behaviour(data, lm, depth, rule) if chooses else None,
            true=true,
            layer=depth,
            saved=load_probe(probe, lm.width, k) if probe else None,
            known=data.known,
        )
        for depth in depths
    ]


def default_place(data: Labelled) -> str:
    """The rule by which a text's state is read, if none is given: at its blank; else after its last
    word in chats and if the model is to choose words, and else the mean over its tokens."""
    if data.text and all(MASK in one for one in data.text):
        return MASK
    return "last" if data.words or isinstance((data.text or [""])[0], Chat) else "mean"


def prepare_texts(data: Labelled, model: str, at: str, too_long: str = "refuse") -> Labelled:
    """The data as a model can read them, messages through its chat template; their notes say what
    was cut, left out or assumed.

    Args:
        data: Labelled texts.
        model: A model's name or folder.
        at: As in `cases`.
        too_long: What becomes of items with more tokens than the model reads, in the text or the
            rewritten one: "refuse"; "drop"; or "cut", in whole words, to the beginning or, where a
            word, the blank or the last token is read, to what leads up to it.

    Raises:
        UserError: A text is too long and to be refused, half of the tokens are unknown, or a text
            has no such place; the message names the row."""
    if too_long not in TOO_LONG:
        raise UserError(f"--too-long {too_long} is not valid: expected {', '.join(TOO_LONG)}")
    rule = _rule(data, at)
    whole = load(model)
    lm, n = part_for(whole, rule), len(data.z)
    if at == MASK and lm.kind != "causal" and lm.blank_token is None:
        raise UserError(
            f"{model} has no mask token, so no state at [MASK]: give --at mean, last or a word's"
        )
    given = [*(data.text or []), *(data.pair or [])]
    try:
        texts = render(given, whole)
    except UnreadText as e:
        raise UserError(f"{_row(data, e.index)}: {e.why}") from None
    data = replace(data, text=texts[:n], pair=data.pair and texts[n:])
    ids = lm.tokenizer([lm.as_read(text) for text in texts])["input_ids"]
    if at == "[CLS]" and ids[0][0] != lm.tokenizer.cls_token_id:
        raise UserError(
            f"{model} has no [CLS] at the beginning of a text: give --at mean, last or a word's"
        )
    counts = Counter(chain.from_iterable(ids))
    unknown = counts[lm.unknown_id]
    total = sum(number for token, number in counts.items() if token not in lm.special)
    notes = [*data.notes, *whole.notes]
    if old := sum(isinstance(b, Chat) > isinstance(a, Chat) for a, b in zip(given, texts)):
        of = f"{old:,} of {len(texts):,} texts"
        notes.append(f"Left as the model's chat template has printed them before: {of}.")
    if unknown:
        said = f"{unknown:,} of {total:,} tokens ({unknown / total:.1%})"
        if unknown > total / 2:
            raise UserError(
                f"{data.name}: the tokenizer of {model} does not know {said}: give a model of the "
                "language and script of these texts"
            )
        notes.append(f"Unknown to the model's tokenizer: {said}.")
    limit = longest(lm)
    long = [i for i, row in enumerate(ids) if len(row) > limit]
    if long and too_long == "refuse":
        more = f", and {len(long) - 1} more texts are too long" if len(long) > 1 else ""
        raise UserError(
            f"{_row(data, long[0])}: {len(ids[long[0]])} tokens, {model} reads at most {limit}"
            f"{more}: shorten them, or give --too-long cut or --too-long drop"
        )
    if long and too_long == "drop":
        kept = np.setdiff1d(np.arange(n), np.array(long) % n)
        notes.append(f"Left out, with more than {limit} tokens: {n - len(kept):,} of {n:,} items.")
        data = _take(data, kept)
    elif long:
        if any(isinstance(texts[i], Chat) for i in long):
            raise UserError(f"{data.name}: chats are not cut: give --too-long drop or refuse")
        notes.append(f"Cut to {limit} tokens: {len(long):,} of {len(texts):,} texts.")
        rules = [rule, _place(data)] if data.words else [rule]
        for i in long:
            end = max(_end(texts[i], one, i % n) for one in rules)
            texts[i] = _shorten(texts[i], lm, limit, end)
        data = replace(data, text=texts[:n], pair=data.pair and texts[n:])
    assert data.text is not None
    places = _locate(data, lm, rule)
    if at not in ("mean", "max", "[CLS]") and (lm.kind != "seq2seq" or at != MASK):
        read = zip(tokenize(data.text[:3], lm)[1]["input_ids"], places)
        shown = [lm.tokenizer.decode([row[j] for j in place]).strip()[:90] for row, place in read]
        notes.append(f"Read in the first texts: {', '.join(map(repr, shown))}.")
    return replace(data, notes=tuple(notes))


def _rule(data: Labelled, at: str) -> PositionRule:
    """`at` as `embed` takes it. UserError: there are no texts, or no words to read at."""
    if not data.text:
        raise UserError(f"{data.name}: a model reads texts: name their column with --text")
    if not at.endswith(" word"):
        return at
    if data.spot is None:
        raise UserError(f"--at {at!r}: name the column that holds the word of each text: --spot")
    return at.split()[0], data.spot


def _row(data: Labelled, i: int) -> str:
    """Name the row of a text or, after all texts, of a rewritten one."""
    n = len(data.z)
    return f"{data.name}, row {data.rows[i % n] + 1}" + (", rewritten text" if i >= n else "")


def _locate(data: Labelled, lm: Model, rule: PositionRule) -> list[list[int]]:
    """The places at which each text and rewritten text is read. UserError: one has none."""
    texts = [*(data.text or []), *(data.pair or [])]
    rows = [i for i, text in enumerate(texts) if text]
    n = len(data.z)
    here = rule if isinstance(rule, str) else (rule[0], [rule[1][i % n] for i in rows])
    try:
        return positions([texts[i] for i in rows], lm, here)
    except UnreadText as e:
        raise UserError(f"{_row(data, rows[e.index])}: {e.why}") from None


def _end(text: str, rule: PositionRule, row: int) -> int:
    """How many characters of a text must stay when it is cut; 0: it is read from the beginning."""
    if rule == "last":
        return len(text)
    if rule == MASK:
        return text.find(MASK) + len(MASK)
    place = None if isinstance(rule, str) else find_word(text, rule[1][row])
    return place[1] if place else 0


def _shorten(text: str, lm: Model, limit: int, end: int) -> str:
    """As many whole words of a text as the model can read: from its beginning or, if the characters
    up to `end` must stay, those before them."""

    def fits(part: str) -> bool:
        return len(lm.tokenizer(lm.as_read(part))["input_ids"]) <= limit

    words = [match.span() for match in re.finditer(r"\S{1,20}", text)]  # not all have blanks
    stops = [stop for _, stop in words]
    fitting = bisect_left(stops, True, key=lambda stop: not fits(text[:stop]))
    if fitting and stops[fitting - 1] >= end:
        return text[: stops[fitting - 1]]
    starts = [start for start, _ in words if start < end]
    first = bisect_left(starts, True, key=lambda start: fits(text[start:end]))
    return text[starts[min(first, len(starts) - 1)] : end]


def _take(data: Labelled, rows: np.ndarray) -> Labelled:
    """The data with some items only."""
    parts: dict[str, Any] = {name: getattr(data, name)[rows] for name in ("z", "rows")}
    for name in ("text", "pair", "words", "id", "spot"):
        if values := getattr(data, name):
            parts[name] = [values[row] for row in rows]
    for name in ("keep", "known"):
        parts[name] = {one: values[rows] for one, values in getattr(data, name).items()}
    return replace(data, **parts, group=np.unique(data.group[rows], return_inverse=True)[1])


def check(
    data: Labelled,
    model: str,
    at: str,
    states: str = "",
    probe: str = "",
    stream: bool = False,
    seeds: int = 1,
    most: int = 1000,
    too_long: str = "refuse",
    key: str = "",
    layer: int | None = None,
) -> None:
    """UserError if an audit of these items would fail: the split, the texts as the model reads
    them, the words, or the files of states and of a probe."""
    if not states:
        data = prepare_texts(data, model, at, too_long)
    check_division(data.z, data.group, test_rows(data, most), seeds, data.name)
    if states:
        width = from_states(data, states, key=key, layer=layer).h.shape[1]
        if stream:
            check_others(data, states, key, layer)
    else:
        lm = load(model)
        if data.words is not None and lm.kind != "encoder":
            _check_words(data, lm)
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
    known = _single_token_rows(words, lm)
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


def _check_words(data: Labelled, lm: Model) -> None:
    """UserError if the model cannot choose among the words in these texts."""
    words = data.words or []
    if len(_single_token_rows(words, lm)) < len(words) / 2:
        single = single_tokens({word for row in words for word in row}, lm.tokenizer)
        unknown = sorted({word for row in words for word in row} - {*single})
        raise UserError(
            f"--words: {lm.name} has no single token for {', '.join(unknown[:5])}: "
            "choose words that it has"
        )
    if lm.kind == "causal":
        return
    if lm.blank_token is None:
        raise UserError(f"{lm.name} has no mask token, so it chooses no words: leave --words out")
    texts = [*(data.text or []), *filter(None, data.pair or [])]
    missing = next((one for one in texts if MASK not in one), None)
    if missing is not None:
        raise UserError(
            f"--words: {lm.name} chooses words at a blank, and {missing[:60]!r} has no "
            "[MASK]: put one into every text, or leave --words out"
        )
    _locate(data, lm, MASK)


def _single_token_rows(words: Sequence[Sequence[str]], lm: Model) -> list[int]:
    """Rows all of whose words are single tokens of the model."""
    single = single_tokens({word for row in words for word in row}, lm.tokenizer)
    return [i for i, row in enumerate(words) if all(word in single for word in row)]
