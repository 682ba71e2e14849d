"""Chapter 7's experiment: everything that an audit of a reader's own model and labels measures.

A case holds states and labels. Test groups are fixed; each seed divides the other groups anew into
those that train the judges and those that fit probes and edits, so that the luck of both is inside
the intervals."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from probebook.base import UserError
from probebook.corpora import agreement
from probebook.corpora.labelled import Labelled
from probebook.corpora.planted import Planted
from probebook.corpora.words import single_tokens
from probebook.interventions import (
    FGSM,
    INLP,
    LEACE,
    PGD,
    RLACE,
    AffineSteering,
    AlterRep,
    MatchedDirection,
    MatchedSubspace,
    MeanShift,
    shuffled,
)
from probebook.interventions.serialization import load as load_fitted
from probebook.measures.reliability import completeness, selectivity
from probebook.models import Model, carry, embed_layers, load, word_logits
from probebook.models.batches import position_weights
from probebook.models.passes import part_read
from probebook.models.twins import encoder
from probebook.probes import LinearProbe, MLPProbe
from probebook.probes.checks import check_states

METHODS = ("LEACE", "INLP", "RLACE", "MeanShift", "AffineSteering", "AlterRep", "FGSM", "PGD")
ERASE = ("LEACE", "INLP", "RLACE")
JUDGES = ("linear", "perceptron")
ACTUAL, RANDOM, SHUFFLED = "edit", "random", "shuffled"
CONTROLS = (RANDOM, SHUFFLED)
TURNS = 4                   # random edits for each edit and seed
WIDE = 1024
MASK = "[MASK]"

Probe = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """Items to be audited at one layer.

    - `h` [n, d] float32, `z` [n] with `k` values, `keep`: property → [n] (−1: none)
    - `group` [n], `text`: as in `corpora.labelled`
    - `partner` [n, d]: states of the rewritten texts; `paired` [n]: which items have one
    - `twin` [n, d]: states of the same model with random weights
    - `probs(h, rows)` → [m, c]: the model's choice from states of `rows`; `true` [n, c]: for the
      rewritten texts
    - `test`: rows that nothing is fitted on; all groups are on one side
    - `saved`: a probe that a reader brought, judged in place of one fitted here"""

    h: Tensor
    z: Tensor
    k: int
    keep: Mapping[str, Tensor]
    group: np.ndarray
    test: Tensor
    text: list[str] | None = None
    partner: Tensor | None = None
    paired: Tensor | None = None
    twin: Tensor | None = None
    probs: Callable[[Tensor, Tensor], Tensor] | None = None
    true: Tensor | None = None
    layer: int = -1
    saved: Probe | None = None

    def wanted(self, rows: Tensor, seed: int = 0) -> Tensor:
        """Another label for each of the rows: that of the rewritten text if there are two."""
        step = np.random.default_rng([seed, 77]).integers(1, self.k, len(rows))
        return (self.z[rows] + torch.from_numpy(step)) % self.k


def test_rows(data: Labelled, most: int = 1000, share: float = .25) -> Tensor:
    """Rows of whole groups for the test: about `share` of the items and at most `most`; the same in
    every report on the same data. UserError: a class is missing on one side."""
    sizes = np.bincount(data.group)
    order = np.random.default_rng(0).permutation(len(sizes))
    wanted = min(most, share * len(data.z))
    chosen = order[np.cumsum(sizes[order]) <= wanted]
    inside = np.isin(data.group, chosen)
    for side in (inside, ~inside):
        if np.bincount(data.z[side], minlength=len(data.classes)).min() < 2:
            raise UserError(f"{data.name}: after the split by groups one side has fewer than 2 "
                            "items of a class: give more groups, or classes that are not one "
                            "group each")
    return torch.from_numpy(np.flatnonzero(inside))


def cases(data: Labelled, model: str, layers: Sequence[int], at: str = MASK, most: int = 1000,
          probe: str = "") -> list[Case]:
    """One case for each layer: the data as a model reads them.

    `at`: a rule of `models.embed`, or "first" or "last" piece of the word in `data.spot`
    ("first word", "last word"). Behaviour is measured where words are given and the rule names one
    token, with the rest of the network run on the edited states. UserError as `embed` raises."""
    if data.text is None:
        raise UserError(f"{data.name}: a model reads texts: name their column with --text")
    if data.pair is not None and len(data.classes) > 2:
        raise UserError(f"{data.name}: --pair needs a label with two values, since a rewritten "
                        f"text has the other one; this label has {len(data.classes)}")
    lm, test = load(model), test_rows(data, most)
    rule: Any = (at.split()[0], data.spot) if at.endswith(" word") else at
    if at.endswith(" word") and data.spot is None:
        raise UserError(f"--at {at!r}: name the column that holds the word of each text: --spot")
    depths = [lm.layer(layer) for layer in layers]
    h = embedded(data.text, lm, depths, rule)
    base = embedded(data.text, encoder(f"random:{model}", seed=0), depths, rule)
    partner: dict[int, Tensor] = {}
    paired = None
    if data.pair is not None:
        paired = torch.tensor([bool(one) for one in data.pair])
        other = [pair or own for pair, own in zip(data.pair, data.text)]
        partner = embedded(other, lm, depths, rule)
    some = {name: torch.from_numpy(values) for name, values in data.keep.items()}
    found = []
    for depth in depths:
        probs = true = None
        if data.words is not None and at not in ("mean", "max") and lm.kind != "encoder":
            probs = _behaviour(data, lm, depth, rule)
            if paired is not None:
                where = torch.arange(len(data.z))
                true = probs(partner[depth], where) if depth == lm.depth and at == MASK else (
                    _read(data, lm, embedded(other, lm, [lm.depth], _place(data))[lm.depth], where))
        found.append(Case(h[depth], torch.from_numpy(data.z), len(data.classes), some, data.group,
                          test, data.text, partner.get(depth), paired, base[depth], probs, true,
                          depth, saved_probe(probe, lm.width, len(data.classes)) if probe else
                          None))
    return found


def usual_place(data: Labelled) -> str:
    """The rule by which a text's state is read, if none is given: at its blank; else after its last
    word if the model is to choose words, and else the mean over its tokens."""
    if data.text and all(MASK in one for one in data.text):
        return MASK
    return "last" if data.words else "mean"


def check(data: Labelled, model: str, at: str, states: str = "", probe: str = "") -> None:
    """UserError if an audit of these items would fail: the split, the positions in every text, the
    words, or the files of states and of a probe."""
    if states:
        width = from_states(data, states).h.shape[1]
    else:
        test_rows(data)
        lm = load(model)
        texts = [*(data.text or []), *filter(None, data.pair or [])]
        spot = data.spot and [*data.spot, *(one for one, pair in zip(data.spot, data.pair or [])
                                            if pair)]
        if not data.text:
            raise UserError(f"{data.name}: a model reads texts: name their column with --text")
        place: Any = (at.split()[0], spot) if at.endswith(" word") and spot else at
        if at == MASK and lm.kind in ("masked", "encoder") and lm.blank_token is None:
            raise UserError(f"{model} has no mask token, so no state at [MASK]: give --at mean, "
                            "last, [CLS] or a word's")
        position_weights(texts, part_read(lm, place), place)
        if data.words is not None and lm.kind != "encoder":
            single = single_tokens({word for row in data.words for word in row}, lm.tokenizer)
            _told(data.words, single, lm.name)
        width = lm.width
    if probe:
        saved_probe(probe, width, len(data.classes))


def _told(words: Sequence[Sequence[str]], single: Mapping[str, int], name: str) -> list[int]:
    """Rows all of whose words are single tokens. UserError: fewer than half."""
    told = [i for i, row in enumerate(words) if all(word in single for word in row)]
    if len(told) < len(words) / 2:
        unknown = sorted({word for row in words for word in row} - {*single})
        raise UserError(f"--words: {name} has no single token for {', '.join(unknown[:5])}: "
                        "choose words that it has")
    return told


def from_states(data: Labelled, path: str, most: int = 1000, probe: str = "") -> Case:
    """The case of states that were saved elsewhere, in one safetensors file.

    Keys: `h` [n, d], a row for each row of the data; if wanted `pair` [n, d], the states of the
    rewritten texts, and `head` [c, d], one row for each of the model's choices: a choice's
    log-odds are `head @ h`. Blocks of rows are read, and only those of the data's items kept.
    UserError: no such file or key, other shapes, NaN."""
    h = _saved(path, "h", data.rows)
    if h is None:
        raise UserError(f"{path} has no tensor 'h' [n, d]: one state for each row of {data.name}")
    pair, head = _saved(path, "pair", data.rows), _saved(path, "head")
    for name, other in (("pair", pair), ("head", head)):
        if other is not None and other.shape[1] != h.shape[1]:
            raise UserError(f"{path}: {name} has {other.shape[1]} columns, h {h.shape[1]}")
    if pair is not None and len(data.classes) > 2:
        raise UserError(f"{path}: pair needs a label with two values; this one has "
                        f"{len(data.classes)}")
    probs = true = None
    if head is not None:
        probs = _choices(head)
        true = None if pair is None else probs(pair, torch.arange(0))
    keep = {name: torch.from_numpy(values) for name, values in data.keep.items()}
    paired = None if pair is None else torch.ones(len(h), dtype=torch.bool)
    return Case(h, torch.from_numpy(data.z), len(data.classes), keep, data.group,
                test_rows(data, most), data.text, pair, paired, None, probs, true,
                saved=saved_probe(probe, h.shape[1], len(data.classes)) if probe else None)


def from_planted(world: Planted) -> Case:
    """The case of a world whose truth is known; a quarter of the groups, drawn at random, are the
    test."""
    h, pair, head = map(torch.from_numpy, (world.h, world.pair, world.head))
    groups = int(world.group.max()) + 1
    chosen = np.random.default_rng(groups).permutation(groups)[:groups // 4]

    probs = _choices(head)
    return Case(h, torch.from_numpy(world.label), 2, {"other": torch.from_numpy(world.other)},
                world.group, torch.from_numpy(np.flatnonzero(np.isin(world.group, chosen))), None,
                pair, torch.ones(len(h), dtype=torch.bool), None, probs,
                probs(pair, torch.arange(0)))


def _choices(head: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Probabilities [m, c] of the choices from states, `head` [c, d] giving their log-odds."""
    return lambda h, rows: (h.double() @ head.double().T).softmax(1)


def _saved(path: str, name: str, rows: np.ndarray | None = None, block: int = 1 << 15
           ) -> Tensor | None:
    """A tensor of a safetensors file in float32, or only some of its rows; None if missing."""
    try:
        with safe_open(path, "pt") as file:
            if name not in file.keys():
                return None
            part = file.get_slice(name)
            shape = part.get_shape()
            if len(shape) != 2:
                raise UserError(f"{path}: {name} has the shape {shape}: [rows, columns] is needed")
            if rows is not None and len(rows) and shape[0] <= rows.max():
                raise UserError(f"{path}: {name} has {shape[0]:,} rows, the data at least "
                                f"{rows.max() + 1:,}: give one state for each row")
            wanted = np.arange(shape[0]) if rows is None else rows
            found = torch.empty(len(wanted), shape[1])
            for start in range(0, shape[0], block):
                here = np.flatnonzero((wanted >= start) & (wanted < start + block))
                if len(here):
                    states = part[start:start + block].float()
                    found[here] = states[torch.from_numpy(wanted[here] - start)]
    except (SafetensorError, OSError) as e:
        raise UserError(f"{path} is no safetensors file ({' '.join(str(e).split())})") from None
    return check_states(found)


def saved_probe(path: str, width: int, k: int) -> Probe:
    """A probe that a reader brings: what `interventions.serialization.save` wrote, or a safetensors
    file with `weight` [k, d] and `bias` [k]. UserError: it does not fit the states and classes."""
    weight = _saved(path, "weight")
    if weight is None:
        probe = load_fitted(path)
    else:
        with safe_open(path, "pt") as file:
            bias = file.get_tensor("bias").float() if "bias" in file.keys() else torch.zeros(k)

        def probe(h: Tensor) -> Tensor:
            return h @ weight.to(h).T + bias.to(h)
    try:
        shape = tuple(probe(torch.zeros(2, width)).shape)
    except (RuntimeError, TypeError, UserError) as e:
        raise UserError(f"{path} does not read states of {width} dimensions "
                        f"({str(e).splitlines()[0]})") from None
    if shape != (2, k):
        raise UserError(f"{path} gives {shape[-1]} logits for each state; the label has {k} "
                        "classes")
    return probe


def embedded(texts: Sequence[str], lm: Model, layers: Sequence[int], at: Any,
             shard: int = 4096) -> dict[int, Tensor]:
    """`embed_layers` by shards of texts. The cache keeps each shard, so that a killed audit goes on
    at the shard where it was; only the states of one shard are in memory twice."""
    found = {layer: torch.empty(len(texts), lm.width) for layer in layers}
    for start in range(0, len(texts), shard):
        rows = slice(start, start + shard)
        rule = (at[0], at[1][rows]) if isinstance(at, tuple) else at
        for layer, h in embed_layers(texts[rows], lm, layers, rule).items():
            found[layer][rows] = h
    return found


def _place(data: Labelled) -> str:
    """Where the model's words are predicted: at the blank, or after the last word."""
    assert data.text is not None
    return MASK if all(MASK in one for one in data.text) else "last"


def _read(data: Labelled, lm: Any, last: Tensor, rows: Tensor) -> Tensor:
    """The candidates' probabilities [m, c] from last-layer states; NaN where a candidate is not a
    single token of the model."""
    assert data.words is not None
    words = [data.words[int(r)] for r in rows]
    single = single_tokens({word for row in words for word in row}, lm.tokenizer)
    told = _told(words, single, lm.name)
    found = torch.full((len(words), len(words[0])), torch.nan, dtype=torch.float64)
    found[told] = word_logits([], lm, [words[i] for i in told], h=last[told]).double().softmax(1)
    return found


def _behaviour(data: Labelled, lm: Any, depth: int, rule: Any) -> Callable:
    def probs(h: Tensor, rows: Tensor) -> Tensor:
        if depth == lm.depth and rule == _place(data):
            return _read(data, lm, h, rows)
        texts = data.text or []
        here = (rule[0], [rule[1][int(r)] for r in rows]) if isinstance(rule, tuple) else rule
        last = carry([texts[int(r)] for r in rows], lm, depth, here, h, read=_place(data))
        return _read(data, lm, last, rows)
    return probs


@dataclass(frozen=True)
class Fit:
    """One seed's division and what it learned: rows by part, judges, edits by method and kind.

    `judges`: (kind, property) → probe, property "" for the label itself; `trained`: property →
    number of uncorrelated training items; `edits`: (method, kind of edit) → strength → functions of
    (h, to), whose scores are averaged; `fitted`: method → strength → the fitted edit of the true
    labels."""

    seed: int
    fit: Tensor
    valid: Tensor
    judges: dict[tuple[str, str], Probe]
    trained: dict[str, int]
    edits: dict[tuple[str, str], dict[float, list[Callable]]]
    fitted: dict[str, dict[float, Any]] = field(default_factory=dict)


def divided(case: Case, seed: int) -> dict[str, Tensor]:
    """The groups outside of the test in three parts: oracle (45 %), fit (40 %), valid (15 %)."""
    rest = np.setdiff1d(np.arange(len(case.z)), case.test.numpy())
    number = np.unique(case.group[rest], return_inverse=True)[1]
    sizes = np.bincount(number)
    order = np.random.default_rng([seed, 1]).permutation(len(sizes))
    part: Any = np.zeros(len(sizes), dtype=np.int64)
    begin = np.cumsum(sizes[order]) - sizes[order]              # of each group, in this order
    part[order] = np.searchsorted([.45 * len(rest), .85 * len(rest)], begin, side="right")
    part = part[number]
    return {name: torch.from_numpy(rest[part == i])
            for i, name in enumerate(("oracle", "fit", "valid"))}


def uncorrelated(case: Case, rows: Tensor, name: str) -> Tensor:
    """Rows in which the property `name` ("": the label) says nothing about the other: the label, or
    the property to keep that goes with it most. All rows where nothing should stay."""
    if not case.keep:
        return rows
    z = case.z[rows]
    if name:
        w = case.keep[name][rows]
        rows, z, w = rows[w >= 0], z[w >= 0], w[w >= 0]
        kept = agreement.decorrelate(w, z) if len(rows) else np.arange(0)
    else:
        closest = max(case.keep, key=lambda one: association(z, case.keep[one][rows]))
        kept = agreement.decorrelate(z, case.keep[closest][rows] + 1)
    return rows[torch.from_numpy(kept)]


def association(a: Tensor, b: Tensor) -> float:
    """Cramér's V of two properties [n], from 0 (independent) to 1; "none" (−1) counts as a
    value."""
    table = pd.crosstab(a.numpy(), b.numpy()).to_numpy(float)
    n, least = table.sum(), min(table.shape) - 1
    if least < 1:
        return 0.0
    expected = np.outer(table.sum(1), table.sum(0)) / n
    return float(np.sqrt(((table - expected) ** 2 / expected).sum() / n / least))


def rule(source: np.ndarray, z: np.ndarray, k: int, asked: np.ndarray) -> np.ndarray:
    """The label that goes most often with each value of a source [n], for the values in `asked`;
    values never seen get the most frequent label."""
    usual = np.bincount(z, minlength=k).argmax()
    best = {value: int(np.bincount(z[source == value], minlength=k).argmax())
            for value in np.unique(source)}
    return np.array([best.get(value, int(usual)) for value in asked])


def fit(case: Case, seed: int, methods: Sequence[str], doses: Sequence[float], ranks: Sequence[int]
        ) -> Fit:
    """Divide, train the judges, and fit every method on the labels and on shuffled ones.

    `doses` multiply each method's natural strength (`_of`). UserError: unknown methods."""
    for method in methods:
        if method not in METHODS:
            raise UserError(f"unknown method {method!r}: {', '.join(METHODS)}")
    parts = divided(case, seed)
    judges, trained = {}, {}
    for name in ("", *case.keep):
        rows = _enough(case, uncorrelated(case, parts["oracle"], name), name)
        trained[name] = len(rows)
        if len(rows):
            z = case.keep[name][rows] if name else case.z[rows]
            for kind in JUDGES:
                judges[kind, name] = _judge(kind, case.h[rows], z, seed)
    rows = parts["fit"]
    x, z = case.h[rows], case.z[rows]
    edits: dict[tuple[str, str], dict[float, list[Callable]]] = {}
    fitted = {method: _of(method, x, z, seed, doses, ranks) for method in methods}
    mixed = {method: _of(method, x, shuffled(z, seed=seed + 1), seed, doses, ranks)
             for method in methods}
    for method in methods:
        own = {s: _called(method, one) for s, one in fitted[method].items()}
        edits[method, ACTUAL] = {s: [edit] for s, edit in own.items()}
        edits[method, RANDOM] = {s: [_elsewhere(edit, seed * TURNS + turn, x.shape[1])
                                     for turn in range(TURNS)] for s, edit in own.items()}
        edits[method, SHUFFLED] = {s: [_called(method, one)] for s, one in mixed[method].items()}
    return Fit(seed, rows, parts["valid"], judges, trained, edits, fitted)


def _enough(case: Case, rows: Tensor, name: str) -> Tensor:
    """The rows, or none if a value has fewer than two."""
    z = (case.keep[name] if name else case.z)[rows]
    k = int(case.keep[name].max()) + 1 if name else case.k
    return rows if len(rows) and int(z.bincount(minlength=k).min()) >= 2 else rows[:0]


def _judge(kind: str, h: Tensor, z: Tensor, seed: int) -> Probe:
    if kind == "linear":
        return LinearProbe(C=.1).fit(h, z)
    return MLPProbe(width=64, lr=1e-3, seed=seed, epochs=12).fit(h, z)


def _of(method: str, x: Tensor, z: Tensor, seed: int, doses: Sequence[float],
        ranks: Sequence[int]) -> dict[float, Any]:
    """A fitted method at each strength: ranks for INLP, doses for what flips. A dose multiplies 1
    for MeanShift and AffineSteering, 2 for AlterRep, and for attacks the mean distance of the
    states from their mean."""
    if method == "INLP":
        inlp = INLP(max(ranks), C=.1).fit(x, z)
        return {float(rank): inlp.at(rank=rank) for rank in ranks}
    if method in ERASE:
        return {1.0: (LEACE() if method == "LEACE" else RLACE(seed=seed)).fit(x, z)}
    if method in ("FGSM", "PGD"):
        size = float((x - x.mean(0)).norm(dim=1).mean())
        probe = MLPProbe(width=64, lr=1e-3, seed=seed, epochs=12).fit(x, z)
        attack: Any = FGSM(probe, norm="l2") if method == "FGSM" else PGD(probe, norm="l2")
        return {dose: attack.at(eps=dose * size) for dose in doses}
    if method == "AlterRep":
        alter = AlterRep(max(ranks), C=.1).fit(x, z)
        return {dose: alter.at(2 * dose) for dose in doses}
    steer: Any = (MeanShift() if method == "MeanShift" else AffineSteering()).fit(x, z)
    return {dose: steer.at(dose) for dose in doses}


def _called(method: str, fitted: Any) -> Callable:
    """A fitted edit as a function of states and wanted labels."""
    return (lambda h, to: fitted(h)) if method in ERASE else (lambda h, to: fitted(h, to=to))


def _elsewhere(edit: Callable, seed: int, width: int) -> Callable:
    """States moved as far as by the edit, turned by a random rotation; of wide states, whose
    rotations take long to draw, along one random direction."""
    control = (MatchedSubspace if width <= WIDE else MatchedDirection)(edit, seed)
    return lambda h, to: control(h, to)


# what is measured on every item: tables [items], one column for each score


def reading(case: Case, fitted: Fit) -> pd.DataFrame:
    """Whether probes fitted on this seed's part are right on the test items: columns probe,
    majority, bag of words and random weights (where there are texts and a twin)."""
    rows, test, z = fitted.fit, case.test, case.z
    found = {"probe": _right(case.saved or _linear(case.h[rows], z[rows]), case.h[test], z[test]),
             "majority": (z[test] == z[rows].bincount().argmax()).double().numpy()}
    if case.text is not None:
        found["bag of words"] = _bag(case, rows, test)
    if case.twin is not None:
        found["random weights"] = _right(_linear(case.twin[rows], z[rows]), case.twin[test],
                                         z[test])
    return pd.DataFrame(found)


def _linear(h: Tensor, z: Tensor) -> Probe:
    return LinearProbe(C=.1).fit(h, z)


def _right(probe: Probe, h: Tensor, z: Tensor) -> np.ndarray:
    return (probe(h).argmax(1) == z).double().numpy()


def _bag(case: Case, rows: Tensor, asked: Tensor) -> np.ndarray:
    """Whether a logistic regression on the words that a text contains is right."""
    text = [one.replace(MASK, " ") for one in case.text or []]
    words = CountVectorizer(binary=True, token_pattern=r"(?u)\b\w+\b", max_features=20_000)
    try:
        x = words.fit_transform([text[int(r)] for r in rows])
    except ValueError:                                      # no word at all
        return np.zeros(len(asked))
    model = LogisticRegression(max_iter=300).fit(x, case.z[rows].numpy())
    return (model.predict(words.transform([text[int(r)] for r in asked]))
            == case.z[asked].numpy()).astype(float)


def control_task(case: Case, seed: int, share: float = .2) -> pd.DataFrame | None:
    """The label against random labels, one for each group, as control task (Hewitt & Liang 2019).

    Both are read on items whose groups were seen in training: a fifth of all items, the same for
    every seed. None where a group has hardly more than one item, so that nothing could be learned
    by heart."""
    n = len(case.z)
    if n < 2 * len(np.unique(case.group)):
        return None
    order = np.random.default_rng(0).permutation(n)
    asked, rest = torch.from_numpy(order[:int(share * n)]), order[int(share * n):]
    draws = np.random.default_rng([seed, 2])
    rows = torch.from_numpy(draws.permutation(rest)[:max(20, int(.4 * n))])
    known = np.isin(case.group[asked.numpy()], case.group[rows.numpy()])
    asked = asked[torch.from_numpy(known)]
    usual = (case.z.bincount(minlength=case.k).double() / n).numpy()
    types = torch.from_numpy(draws.choice(case.k, int(case.group.max()) + 1, p=usual)[case.group])
    if int(types[rows].bincount(minlength=case.k).min()) < 2:
        return None
    found = pd.DataFrame({name: pd.Series(_right(_linear(case.h[rows], z[rows]), case.h[asked],
                                                 z[asked]), asked.numpy())
                          for name, z in (("label", case.z), ("control task", types))})
    return found.reindex(order[:int(share * n)])


def examined(case: Case, fitted: Fit) -> dict[tuple[str, str], tuple[Tensor, np.ndarray, float]]:
    """(kind, property) → test rows on which the property does not go with the other, whether the
    judge is right there, and the accuracy of the best answer without states."""
    found = {}
    parts = divided(case, fitted.seed)
    for (kind, name), probe in fitted.judges.items():
        rows = uncorrelated(case, case.test, name)
        if not len(rows):
            continue
        z = (case.keep[name] if name else case.z)[rows]
        others = {"": case.z} if name else dict(case.keep)
        k, own = int(z.max()) + 1, case.keep[name] if name else case.z
        train = parts["oracle"][own[parts["oracle"]] >= 0]
        best = [float(z.bincount().max() / len(z))]
        for other in others.values():
            said = rule(other[train].numpy(), own[train].numpy(), k, other[rows].numpy())
            best.append(float((said == z.numpy()).mean()))
        found[kind, name] = rows, _right(probe, case.h[rows], z), max(best)
    return found


def complete(case: Case, fitted: Fit, kind: str, edited: Tensor, to: Tensor, method: str
             ) -> np.ndarray:
    """Completeness [m] of edited states by one kind of judge."""
    said = fitted.judges[kind, ""](edited).double().softmax(1)
    return completeness(said, None if method in ERASE else to).numpy()


def kept(case: Case, fitted: Fit, kind: str, name: str, edited: Tensor, rows: Tensor
         ) -> np.ndarray:
    """Selectivity [m] for one property, NaN where an item has none."""
    probe, some = fitted.judges[kind, name], (case.keep[name][rows] >= 0).numpy()
    found = np.full(len(rows), np.nan)
    before, after = probe(case.h[rows]), probe(edited)
    found[some] = selectivity(after.double().softmax(1), before.double().softmax(1)).numpy()[some]
    return found


def judged(case: Case, fitted: Fit, usable: Sequence[tuple[str, str]], rows: Tensor,
           strengths: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Scores of every method, kind of edit and strength on `rows`: one column each, named
    (method, kind of edit, strength, measure), measure "complete: JUDGE" or "kept: JUDGE:
    PROPERTY". `strengths`: only that of each method."""
    x, to, columns = case.h[rows], case.wanted(rows, fitted.seed), {}
    for (method, kind), by_strength in fitted.edits.items():
        for strength, edits in by_strength.items():
            if strengths is not None and strength != strengths[method]:
                continue
            edited = [edit(x, to).detach() for edit in edits]
            for judge, name in usable:
                column = (method, kind, strength, f"kept: {judge}: {name}" if name else
                          f"complete: {judge}")
                columns[column] = np.mean([
                    kept(case, fitted, judge, name, states, rows) if name else
                    complete(case, fitted, judge, states, to, method) for states in edited], axis=0)
    return pd.DataFrame(columns)


def consequences(case: Case, fitted: Fit, strengths: Mapping[str, float]) -> pd.DataFrame:
    """What edits at one strength do beyond the probes, on the test items; columns as in `judged`.

    "far": distance to the rewritten text's state, "way": that of the unedited state. "error": of
    the edit's effect on the model's probabilities, "effect": length of rewriting's effect;
    "follows": the model chooses as for the rewritten text; "moved": total variation by the edit,
    "rewriting": by rewriting the text."""
    rows = case.test
    x, to = case.h[rows], case.wanted(rows, fitted.seed)
    before = None if case.probs is None else case.probs(x, rows)
    columns = {}
    for (method, kind), by_strength in fitted.edits.items():
        strength = strengths[method]
        found = [_consequences(case, edit(x, to).detach(), before)
                 for edit in by_strength[strength]]
        for what in found[0]:
            columns[method, kind, strength, what] = np.mean([one[what] for one in found], axis=0)
    return pd.DataFrame(columns)


def _consequences(case: Case, edited: Tensor, before: Tensor | None) -> dict[str, np.ndarray]:
    """The scores of `consequences` for one edit's states of the test items."""
    rows, found = case.test, {}
    some = None if case.paired is None else case.paired[rows].numpy()
    if case.partner is not None and some is not None:
        there = case.partner[rows]
        found["far"] = _where(some, (edited - there).norm(dim=1))
        found["way"] = _where(some, (case.h[rows] - there).norm(dim=1))
    if case.probs is None or before is None:
        return found
    after = case.probs(edited, rows)
    found["moved"] = ((after - before).abs().sum(1) / 2).numpy()
    if case.true is not None and some is not None:
        true = case.true[rows]
        told = some & ~true.isnan().any(1).numpy()
        found["rewriting"] = _where(some, (true - before).abs().sum(1) / 2)
        found["error"] = _where(some, (after - true).norm(dim=1))
        found["effect"] = _where(some, (before - true).norm(dim=1))
        found["follows"] = _where(told, (after.argmax(1) == true.argmax(1)).double())
    return found


def _where(some: np.ndarray, values: Tensor) -> np.ndarray:
    return np.where(some, values.double().numpy(), np.nan)


def conflicts(case: Case, fitted: Fit) -> dict[str, pd.DataFrame]:
    """Source of a shortcut → test items: does a rule that knows only this source give the label,
    and is the probe right? Sources: the properties to keep, the number of words, the words."""
    rows, test, z = fitted.fit, case.test, case.z.numpy()
    probe = _right(case.saved or _linear(case.h[rows], case.z[rows]), case.h[test], case.z[test])
    sources = {name: values.numpy() for name, values in case.keep.items()}
    found = {}
    if case.text is not None:
        length = np.array([len(one.split()) for one in case.text])
        quarters = np.quantile(length, [.25, .5, .75])
        sources["number of words"] = np.asarray(np.searchsorted(quarters, length))
        found["bag of words"] = pd.DataFrame({"rule": _bag(case, rows, test), "probe": probe})
    for name, values in sources.items():
        said = rule(values[rows.numpy()], z[rows.numpy()], case.k, values[test.numpy()])
        found[name] = pd.DataFrame({"rule": (said == z[test.numpy()]).astype(float),
                                    "probe": probe})
    return found
