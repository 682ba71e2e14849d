"""Chapter 6's experiment on places: the same edits at every layer, at the blank and at the subject.

    s = prepare("pocket-english-gpt", n=8_000)
    places = at_places(s, range(1, 5))               # (word, layer) → Place
    score_edits(places["subject", 2], fit_at(places["subject", 2]))

The sentences are those of chapter 1. An edit made below the last layer goes on through the rest of
the network, and what the model then makes of the blank is compared with what it makes of it after
the subject's number was rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError, check_choice, to_numpy
from probebook.interventions import DAS
from probebook.interventions.das import FittedDAS
from probebook.interventions.table import INTERVENTIONS, FitData
from probebook.measures.counterfactual import relative_distance
from probebook.models import carry, embed_layers
from probebook.models.batches import PositionRule, positions
from probebook.models.patching import Tail
from probebook.probes import LinearProbe
from probebook_chapters.across import (
    fit_edits,
    random_edit_of_same_length,
    share_explained,
    some_rows,
    verb_choices,
    verb_probs,
    weakest_within,
)
from probebook_chapters.causal_probing import AgreementSetting, Edit, accuracy

BLANK, SUBJECT = WORDS = "blank", "subject"


@dataclass(frozen=True)
class Place:
    """States of agreement sentences at one word and layer, before and after the subject is
    rewritten."""

    s: AgreementSetting  # the sentences; its model's last layer is where the verb is read
    word: str
    layer: int
    at: PositionRule  # of the word, one for all rows; `rule(rows)` for some of them
    h: Tensor  # [n, d] float32, the word's states in a sentence
    partner: Tensor  # [n, d] float32, its states in the rewritten one
    before: Tensor  # [n, 2] float64, probabilities of the verb's own and other form
    true: Tensor  # [n, 2] float64, the same in the rewritten one

    def rule(self, rows: Tensor) -> PositionRule:
        """The position rule for some of the rows."""
        if isinstance(self.at, str):
            return self.at
        return self.at[0], [self.at[1][i] for i in rows.tolist()]

    def probs(self, edited: Tensor, rows: Tensor) -> Tensor:
        """Probabilities [m, r, 2] of the verb's own and other form after each of m edits
        [m, r, d]."""
        texts = self.s.table.text.iloc[to_numpy(rows)].tolist()
        arrived = carry(texts, self.s.lm, self.layer, self.rule(rows), edited)
        return verb_probs(self.s, arrived.flatten(0, 1), rows.repeat(len(edited))).unflatten(
            0, (len(edited), -1)
        )

    def logits(self, rows: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """Differentiable, from states [b, d] of some of the chosen rows, and which of them these
        are [b], to the logits of all tokens at the blank."""
        texts = self.s.table.text.iloc[to_numpy(rows)].tolist()
        tail = Tail(texts, self.s.lm, self.layer, self.rule(rows))
        return lambda states, some: self.s.lm.head(tail(states, some))


def subjects(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The subject as it stands in each sentence, and in the rewritten one. UserError: sentences
    that have no rewritten version."""
    if not all(table.subject_flipped):
        raise UserError(
            "these sentences have no version with a rewritten subject: take "
            "data='generated' or 'syneval'"
        )
    pairs = [
        next(pair for pair in zip(a.split(), b.split()) if pair[0] != pair[1])
        for a, b in zip(table.text, table.subject_flipped)
    ]
    return [a for a, _ in pairs], [b for _, b in pairs]


def keep_separable(s: AgreementSetting) -> AgreementSetting:
    """The sentences whose subject is one token of the model, before and after it is rewritten, and
    not the last one before the blank; without those of the judges.

    So a sentence and the rewritten one differ in one token, one state can make the whole
    difference, and it is not the one from which a left-to-right model predicts the verb."""
    words, others = subjects(s.table)
    parts = {name: rows for name, rows in s.parts.items() if not name.startswith("oracle")}
    kept = torch.zeros(len(s.table), dtype=torch.bool, device=s.h.device)
    kept[torch.cat([*parts.values()])] = True
    kept &= torch.tensor(
        [f"{word} [MASK]" not in text for word, text in zip(words, s.table.text)], device=s.h.device
    )
    for names, column in ((words, "text"), (others, "subject_flipped")):
        tokens = positions(s.table[column].tolist(), s.lm.encoder, ("mean", names))
        kept &= torch.tensor([len(places) == 1 for places in tokens], device=s.h.device)
    place = kept.cumsum(0) - 1
    parts = {name: place[rows[kept[rows]]] for name, rows in parts.items()}
    if min(len(rows) for rows in parts.values()) < 2:
        raise UserError(
            f"{s.lm.name} splits nearly every subject into several tokens: give more "
            "sentences, or a model with a larger vocabulary"
        )
    return replace(
        s,
        table=s.table[to_numpy(kept)].reset_index(drop=True),
        h=s.h[kept],
        zc=s.zc[kept],
        ze=s.ze[kept],
        parts=parts,
    )


def at_places(
    s: AgreementSetting, layers: Iterable[int], words: Sequence[str] = WORDS
) -> dict[tuple[str, int], Place]:
    """The places at some layers: (word, layer) → place. The subject is left out at the last layer,
    from which no block reads it any more. UserError: an unknown word."""
    for word in words:
        check_choice(word, "word", WORDS)
    texts, other = s.table.text.tolist(), s.table.subject_flipped.tolist()
    here, there = subjects(s.table)
    rules: dict[str, tuple[PositionRule, PositionRule]] = {
        BLANK: ("[MASK]", "[MASK]"),
        SUBJECT: (("last", here), ("last", there)),
    }
    end, every = s.lm.depth, torch.arange(len(texts))
    depths = [s.lm.layer(layer) for layer in layers]
    # one pass for all layers at the blank, which the loop below finds in the cache
    before, true = (
        verb_probs(s, embed_layers(which, s.lm, [*depths, end])[end].to(s.h), every)
        for which in (texts, other)
    )
    places: dict[tuple[str, int], Place] = {}
    for word in words:
        deepest = end if word == BLANK else s.lm.encoder.depth - (s.lm.kind != "seq2seq")
        read = [layer for layer in depths if layer <= deepest]
        h, partner = (
            embed_layers(which, s.lm, read, rule)
            for which, rule in zip((texts, other), rules[word])
        )
        places |= {
            (word, k): Place(
                s, word, k, rules[word][0], h[k].to(s.h), partner[k].to(s.h), before, true
            )
            for k in read
        }
    return places


def fit_at(
    place: Place,
    alphas: Sequence[float] = (1, 4, 16, 64),
    strengths: Sequence[float] = (0.5, 1, 2, 4),
    radii: Sequence[float] = (0.5, 1, 2, 4),
    das_steps: int = 0,
    seed: int = 0,
) -> list[Edit]:
    """Every fast method at every strength (`across.fit_edits`), fitted on the intervention part at
    a place.

    INLP and AlterRep have rank 4. `das_steps`: of DAS, which takes 16 of 400 sentences forth and
    back through the rest of the network in each; 0 leaves it out."""
    rows = place.s.parts["intervention"]

    def das() -> FittedDAS:
        some = some_rows(place.s, "intervention", 400)
        return DAS(steps=das_steps, batch=16, seed=seed).fit(
            place.h[some],
            place.partner[some],
            1 - place.s.zc[some],
            place.logits(some),
            verb_choices(place.s)[some],
            by_row=True,
            judged=False,
        )

    data = FitData(place.h[rows], place.s.zc[rows], seed, max_rank=4, fit_das=das)
    methods = [
        row
        for row in INTERVENTIONS.values()
        if row.speed == "fast" and (row.needs != "pairs" or das_steps)
    ]
    by_scale = {"rank": [4], "α": alphas, "s": strengths, "ε": radii}
    return fit_edits(data, methods, by_scale)


def score_edits(
    place: Place, tried: Sequence[Edit], n_valid: int = 100, n: int = 300
) -> pd.DataFrame:
    """Scores of every method at a place on `n` test sentences, at the weakest strength that is
    nearly its best on `n_valid` others. One row for each method, and "true state".

    - explained: share of the effect of rewriting (`across.share_explained`)
    - random: the same of one random edit of the same lengths
    - follows: share of the sentences in which the model prefers the form that it prefers in the
      rewritten one
    - distance: mean distance from the rewritten sentence's state; 1: as far as the unedited one"""
    valid, rows = (
        some_rows(place.s, part, k) for part, k in (("intervention_valid", n_valid), ("test", n))
    )
    x, to, effect = place.h[valid], 1 - place.s.zc[valid], place.true[valid] - place.before[valid]
    after = place.probs(torch.stack([edit.apply(x, to) for edit in tried]), valid)
    scores = [share_explained(effect, p - place.before[valid]) for p in after]
    best = weakest_within(tried, scores)
    x, to, there = place.h[rows], 1 - place.s.zc[rows], place.partner[rows]
    states = {name: edit.apply(x, to) for name, edit in best.items()} | {"true state": there}
    random = [random_edit_of_same_length(x, edited, place.s.seed) for edited in states.values()]
    after = place.probs(torch.stack([*states.values(), *random]), rows)
    effect = place.true[rows] - place.before[rows]
    choice, by_method = place.true[rows].argmax(1), {}
    for name, edited, p, by_chance in zip(states, states.values(), after, after[len(states) :]):
        by_method[name] = {
            "strength": float(best[name].strength) if name in best else 1.0,
            "explained": share_explained(effect, p - place.before[rows]),
            "random": share_explained(effect, by_chance - place.before[rows]),
            "follows": float((p.argmax(1) == choice).double().mean()),
            "distance": float(relative_distance(edited, x, there).nanmean()),
        }
    return pd.DataFrame(by_method).T.rename_axis("method")


def probe_accuracy(place: Place) -> float:
    """How often a linear probe at a place is right about the subject's number, on test
    sentences."""
    rows, test = place.s.parts["intervention"], place.s.parts["test"]
    probe = LinearProbe(C=0.1).fit(place.h[rows], place.s.zc[rows])
    return accuracy(probe, place.h[test], place.s.zc[test])
