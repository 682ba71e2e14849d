"""Chapter 6's experiment: every intervention in four worlds whose truth is known.

A world is a model, texts that can be rewritten so that one property changes, and the states of both
versions. So an edit of a state can be compared with what the rewritten text does to the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import to_numpy
from probebook.corpora import biographies, cebab, mgc, stories
from probebook.corpora.stories.edits import delete_rationale
from probebook.corpora.stories.versions import versions
from probebook.corpora.words import single_tokens
from probebook.devices import on_states, place_states
from probebook.interventions import DAS, MatchedSubspace, SparseAutoencoder, shuffled
from probebook.interventions.das import FittedDAS
from probebook.interventions.table import INTERVENTIONS, FitData, Intervention
from probebook.measures.concept_effects import icace_error
from probebook.measures.counterfactual import relative_distance
from probebook.models import embed, load, word_logits
from probebook.models.cache import load_or_compute
from probebook.models.classifier import FittedClassifier
from probebook.models.readers import load_reader
from probebook.models.readers.fitted_reader import FittedReader
from probebook_chapters import concept_effects
from probebook_chapters.causal_probing import AgreementSetting, Edit
from probebook_chapters.semantic_faithfulness import reader_states

FIT, VALID, TEST = "fit", "valid", "test"
SHUFFLED = "MeanShift, shuffled labels"  # a control


@dataclass(frozen=True)
class World:
    """States of texts, and of the same texts rewritten so that a property with two values changes.

    - `probs(h, rows)` → [m, k] float64: how probable the model's choices are at states of `rows`
    - `aside`: states [m, d] whose behaviour must stay if they are set to values [m]; by default
      those of "test", set to the value that they have
    - `judged(edited, rows, to)`: reliability by usable oracles, if there are any; `to` None: of an
      edit that erases"""

    h: Tensor  # [n, d] float32, states of a text
    partner: Tensor  # [n, d] float32, states of its rewritten partner
    z: Tensor  # [n], the property's value in the text; its partner has the other one
    probs: Callable[[Tensor, Tensor], Tensor]
    true: Tensor  # [n, k], `probs` of the partner as the model reads it
    logits: Callable[[Tensor], Tensor]  # of states → [m, v], differentiable
    choices: Tensor  # [n, 2], which column the model takes if the property has the value 0 or 1
    parts: dict[str, Tensor]  # "fit", "valid" and "test" → rows; no group is in two
    aside: tuple[Tensor, Tensor] | None = None
    t: Tensor | None = None  # [n], what the property is a half of, if it is (years)
    judged: Callable[[Tensor, Tensor, Tensor | None], float] | None = None

    def explained(self, edited: Tensor, rows: Tensor, before: Tensor | None = None) -> float:
        """Share of the partners' effect that the edit has: 1 − mean L2 error / mean effect.

        The error is that of an explanation (Abraham et al., definition 3): 1 for an edit that does
        to the model what rewriting does, 0 for doing nothing, below 0 for something worse.
        `before`: probabilities of the unedited states, where they are at hand."""
        before = self.probs(self.h[rows], rows) if before is None else before
        effect = self.true[rows] - before
        return share_explained(effect, self.probs(edited, rows) - before)

    def follows(self, edited: Tensor, rows: Tensor) -> Tensor:
        """bool [m]: whether the model makes the choice that it makes for the partner."""
        return self.probs(edited, rows).argmax(1) == self.true[rows].argmax(1)

    def kept(self, edit: Edit) -> float:
        """1 − mean total variation between behaviour after and before an edit that should change
        nothing."""
        rows = self.parts[TEST]
        h, to = self.aside or (self.h[rows], self.z[rows])
        moved = self.probs(edit.apply(h, to), rows) - self.probs(h, rows)
        return float(1 - moved.abs().sum(1).mean() / 2)


def share_explained(effect: Tensor, estimate: Tensor) -> float:
    """The share of the effects [m, k] that their estimates [m, k] explain: 1 − mean L2 error / mean
    L2 effect."""
    error = icace_error(effect, estimate, "l2")
    return float(1 - error.mean() / effect.norm(dim=1).mean())


def _parts(groups: Iterable, seed: int, device: torch.device) -> dict[str, Tensor]:
    """Rows by part (60/20/20 % of the groups); every group is in one of them."""
    codes, names = pd.factorize(pd.Series(list(groups)))
    place = np.random.default_rng(seed).permutation(len(names)) / len(names)
    part = np.searchsorted([0.6, 0.8], place[codes], side="right")
    return {
        name: torch.from_numpy(np.flatnonzero(part == i)).to(device)
        for i, name in enumerate((FIT, VALID, TEST))
    }


def choices(z: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """Choices by the property's value [n, 2] from a text's own and its partner's [n]."""
    return torch.where(
        z[:, None].bool(), torch.stack([other, own], 1), torch.stack([own, other], 1)
    )


def agreement(s: AgreementSetting, n: int = 1000) -> World:
    """Chapter 1's sentences: the subject's number, and which of its two verb forms the model
    prefers.

    Rows are those of the setting; `n`: test sentences, at most. Rows that are in no part (those of
    the judges) have no partner: NaN."""
    parts = {
        FIT: s.parts["intervention"],
        VALID: s.parts["intervention_valid"],
        TEST: some_rows(s, "test", n),
    }
    rows, probs = torch.cat([*parts.values()]), partial(verb_probs, s)
    partner = torch.full_like(s.h, torch.nan)
    flipped = s.table.subject_flipped.iloc[to_numpy(rows)]
    partner[rows] = embed(flipped, s.lm, layer=s.layer).to(partner)
    return World(
        s.h,
        partner,
        s.zc,
        probs,
        probs(partner, torch.arange(len(s.h))),
        s.lm.head,
        verb_choices(s),
        parts,
    )


def some_rows(s: AgreementSetting, part: str, n: int) -> Tensor:
    """At most `n` rows of a part, drawn with the setting's seed."""
    g = torch.Generator().manual_seed(s.seed)
    return s.parts[part][torch.randperm(len(s.parts[part]), generator=g)[:n]]


def verb_probs(s: AgreementSetting, h: Tensor, rows: Tensor) -> Tensor:
    """Probabilities [r, 2] float64 of the verb's own and other form from the blank's last
    states."""
    forms = s.table[["verb", "other_verb"]].iloc[to_numpy(rows)].to_numpy().tolist()
    return word_logits([], s.lm, forms, h=h).double().softmax(1)


def verb_choices(s: AgreementSetting) -> Tensor:
    """Tokens [n, 2] of the verb's form after a singular and after a plural subject."""
    forms = s.table[["verb", "other_verb"]]
    ids = single_tokens({*forms.to_numpy().flat}, s.lm.tokenizer)
    own, other = torch.tensor(forms.map(ids.get).to_numpy(), device=s.zc.device).T
    return choices(s.zc, own, other)


def reviews(s: concept_effects.ReviewSetting, box: FittedClassifier, concept: str) -> World:
    """Chapter 2's pairs of reviews that differ in one aspect, Negative against Positive, and the
    stars that a black box gives them. Its training reviews are those to fit on."""
    splits = {FIT: cebab.SPLITS[0], VALID: "dev", TEST: "test"}
    parts_of = (
        cebab.icace_pairs(s.table, split, s.task).assign(part=name)
        for name, split in splits.items()
    )
    pairs = pd.concat(parts_of, ignore_index=True)
    known = pairs.concept.eq(concept) & ~pairs[["source", "target"]].eq("unknown").any(axis=1)
    pairs = pairs[known].reset_index(drop=True)
    texts = s.table.description.to_numpy()
    h, partner = (box.phi(texts[pairs[f"{side}_row"]].tolist()) for side in ("source", "target"))
    z = torch.tensor(pairs.source.eq("Positive").to_numpy(), dtype=torch.long, device=h.device)
    parts = {
        name: torch.from_numpy(np.flatnonzero(pairs.part == name)).to(h.device) for name in splits
    }

    def probs(h: Tensor, rows: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            return box.head(h.double()).softmax(1)

    true = probs(partner)
    return World(
        h, partner, z, probs, true, box.head, choices(z, probs(h).argmax(1), true.argmax(1)), parts
    )


def biographies_world(model: str, stages: int = 6, n: int = 1000, seed: int = 0) -> World:
    """Chapter 4's texts on nobody: an early or a late year, and *she* against *he*.

    A text's partner names the year at the same distance from the other end. Aside: texts that name
    the woman or the man, whose pronoun must not depend on the year."""
    lm = load(model)
    table = mgc.texts("time", stages)
    times = mgc.TIMES
    mirrored = [
        text.replace(w, times[len(times) - 1 - i])
        for text, w, i in zip(table.text, table.w, table.w_index)
    ]
    h = place_states(embed(table.text, lm))
    partner = embed(mirrored, lm).to(h)
    z = (torch.tensor(table.w_index.to_numpy(), device=h.device) >= len(times) // 2).long()
    pronouns = torch.tensor(lm.tokenizer.convert_tokens_to_ids(["she", "he"]), device=h.device)
    clear = biographies.generate(n, 0, seed)
    clear = clear[clear.specified & clear.gender.ne("neutral") & clear.kind.eq("time")]

    def probs(h: Tensor, rows: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            return lm.head(h.float())[:, pronouns].double().softmax(1)

    true = probs(partner)
    taken = choices(z, pronouns[probs(h).argmax(1)], pronouns[true.argmax(1)])
    other_half = (torch.tensor(clear.t.to_numpy(), device=h.device) < 0.5).long()
    return World(
        h,
        partner,
        z,
        probs,
        true,
        lm.head,
        taken,
        _parts(table.verb + table.stage, seed, h.device),
        (embed(clear.masked, lm).to(h), other_half),
        torch.tensor(table.w_index.to_numpy(), dtype=torch.float64, device=h.device),
    )


def mean_effect(world: World) -> float:
    """What is explained by adding, to the probabilities themselves, the mean effect of the texts in
    "fit" with the same value of the property: no edit takes part, and no text is looked at."""
    rows, test = world.parts[FIT], world.parts[TEST]
    effect = world.true[rows] - world.probs(world.h[rows], rows)
    mean = torch.stack([effect[world.z[rows] == z].mean(0) for z in (0, 1)])
    true = world.true[test] - world.probs(world.h[test], test)
    return share_explained(true, mean[world.z[test]])


def share_of_slope_removed(world: World, edit: Edit, rows: Tensor) -> float:
    """Share of a selection that an edit removes: 1 minus the ratio of the slopes after and before,
    without its sign.

    The slope is that of the first choice's probability over `world.t`. An edit that flips sets all
    texts to the value 1."""

    def slope(h: Tensor) -> Tensor:
        assert world.t is not None
        y, t = world.probs(h, rows)[:, 0], world.t[rows]
        return torch.cov(torch.stack([t, y]))[0, 1] / t.var()

    x = world.h[rows]
    return float(1 - (slope(edit.apply(x, torch.ones_like(world.z[rows]))) / slope(x)).abs())


def stories_world(reader_name: str, n: int = 200, seed: int = 5) -> World:
    """Chapter 5's questions: the story with its rationale (0), and without it and all that follows
    (1).

    States are [h_CLS; q], from which the reader says yes, no or unknown. Its best span keeps the
    score that it has in the unedited text. Validation and test edit whole stories alone."""
    reader = load_reader(reader_name)
    tables = versions(stories.generate(n, seed), ["TS"])
    tables["TS-R0"] = delete_rationale(tables["TS"], put=False)
    item = ["story_id", "turn"]
    whole = tables["TS"].merge(tables["TS-R0"][[*item, "answer"]], on=item, suffixes=("", "_cut"))
    whole = whole[whole.answer.ne("unknown") & whole.answer_cut.eq("unknown")]
    cut = whole[item].merge(tables["TS-R0"], on=item)
    (h, scores), (other, others) = (_read(reader, part) for part in (whole, cut))
    m = len(whole)
    both = place_states(torch.cat([h, other]))
    span = torch.cat([scores, others])[:, -1].to(both.device)

    spoken: Any = reader.net.heads.spoken
    says = on_states(spoken, spoken.weight)

    def words(h: Tensor) -> Tensor:
        return 2 * says(h.float())

    def probs(h: Tensor, rows: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([words(h).double(), span[rows, None]], 1).softmax(1)

    def logits(h: Tensor) -> Tensor:
        return torch.cat([words(h), span.mean().float().expand(len(h), 1)], 1)

    parts = _parts([*whole.story_id, *cut.story_id], seed, both.device)
    parts |= {name: parts[name][parts[name] < m] for name in (VALID, TEST)}
    true = torch.cat([others, scores]).softmax(1).to(both.device)
    z = torch.arange(2 * m, device=both.device) // m
    return World(
        both,
        both.roll(m, 0),
        z,
        probs,
        true,
        logits,
        choices(z, true.roll(m, 0).argmax(1), true.argmax(1)),
        parts,
    )


def _read(reader: FittedReader, table: pd.DataFrame) -> tuple[Tensor, Tensor]:
    """A reader's states [h_CLS; q] of a table's questions, and the scores of its forms of answers;
    the cache folder keeps them."""

    def make() -> dict[str, Tensor]:
        read = reader_states(reader, table.reset_index(drop=True))
        return {
            "h": torch.from_numpy(np.concatenate([read.cls[-1], read.q], 1)),
            "scores": torch.tensor(read.said[[*reader.net.heads.forms]].to_numpy(float)),
        }

    asked = table[["story", "question", "history"]].to_numpy().tolist()
    read = load_or_compute("readings", [reader.fingerprint, asdict(reader.recipe), asked], make)
    return read["h"], read["scores"]


def edits(
    world: World,
    seed: int = 0,
    ranks: Sequence[int] = (1, 2, 4, 8),
    alphas: Sequence[float] = (1, 4, 16, 64),
    strengths: Sequence[float] = (0.5, 1, 2, 4),
    radii: Sequence[float] = (0.25, 0.5, 1, 2),
    queries: int = 50,
    sae_steps: int = 300,
) -> list[Edit]:
    """Every intervention at every strength, fitted on the world's part "fit", and MeanShift fitted
    on shuffled labels; QLEACE only where a class has more states than dimensions.

    `ranks`, `alphas`, `strengths`, `radii`: by the scale of a method's strength (`fit_edits`).
    `queries`: of AutoAttack's Square. `sae_steps`: of the sparse autoencoder's training."""
    rows = world.parts[FIT]
    x, z = world.h[rows], world.z[rows]

    def das() -> FittedDAS:
        return DAS(seed=seed).fit(
            x, world.partner[rows], 1 - z, world.logits, world.choices[rows], judged=False
        )

    data = FitData(
        x,
        z,
        seed,
        max(ranks),
        queries=queries,
        autoencoder=SparseAutoencoder(steps=sae_steps, seed=seed),
        fit_das=das,
    )
    enough = min(z.bincount()) > x.shape[1]
    methods = [row for row in INTERVENTIONS.values() if row.needs != "labels" or enough]
    attacks = [row for row in methods if row.needs == "probe"]
    others = [row for row in methods if row.needs != "probe"]
    control = replace(INTERVENTIONS["MeanShift"], title=SHUFFLED)
    by_scale = {"rank": ranks, "α": alphas, "s": strengths, "ε": radii}
    return [
        *fit_edits(data, others, by_scale),
        *fit_edits(replace(data, z=shuffled(z, seed=seed)), [control], by_scale),
        *fit_edits(data, attacks, by_scale),
    ]


def fit_edits(
    data: FitData, methods: Iterable[Intervention], by_scale: Mapping[str, Sequence[float]]
) -> list[Edit]:
    """Methods at every strength of their scale: ranks of INLP, AlterRep's α, strengths of steering
    edits, and radii of attacks, as shares of the mean distance of the states from their mean."""
    edits = []
    for row in methods:
        fitted = row.fit(data)
        edits += [
            Edit(
                row.title or row.name,
                row.scale or "rank",
                strength,
                row.apply(row.at(fitted, strength, data), data),
                row.flips,
            )
            for strength in (by_scale[row.scale] if row.scale else [1])
        ]
    return edits


def choose_edits(world: World, tried: Sequence[Edit]) -> dict[str, Edit]:
    """Of each method the weakest edit that explains, on the part "valid", nearly as much as its
    best one (`weakest_within`)."""
    rows = world.parts[VALID]
    x, to = world.h[rows], 1 - world.z[rows]
    before = world.probs(x, rows)
    scores = [world.explained(edit.apply(x, to), rows, before) for edit in tried]
    return weakest_within(tried, scores)


def weakest_within(tried: Sequence[Edit], scores: Sequence[float]) -> dict[str, Edit]:
    """Of each method the weakest edit whose score is at least the best one's minus .01."""
    scored = pd.DataFrame(
        {"method": edit.method, "strength": edit.strength, "edit": edit, "score": score}
        for edit, score in zip(tried, scores)
    )
    best = scored.groupby("method").score.transform("max")
    good = scored[scored.score >= best - 0.01].sort_values("strength", kind="stable")
    weakest = good.drop_duplicates("method").set_index("method").edit
    return {name: weakest[name] for name in scored.method.unique()}


def random_edit_of_same_length(h: Tensor, edited: Tensor, seed: int) -> Tensor:
    """States [n, d] moved as far as the edited ones, in another direction."""
    return MatchedSubspace(lambda x: edited, seed)(h)


def score_edits(world: World, best: dict[str, Edit], seed: int = 0, draws: int = 8) -> pd.DataFrame:
    """Scores of chosen edits on the part "test", one row for each method.

    - explained, kept: as the methods of `World`; removed: `share_of_slope_removed`
    - follows: share of the texts for which the model chooses as it does for the partner
    - closeness: 1 − mean relative distance from the partner's state
    - random: what an edit explains that moves every state as far, but elsewhere; mean over `draws`
      rotations"""
    rows = world.parts[TEST]
    x, to, there = world.h[rows], 1 - world.z[rows], world.partner[rows]
    before = world.probs(x, rows)
    after = {name: edit.apply(x, to) for name, edit in best.items()}
    random = pd.DataFrame(
        [
            {
                name: world.explained(
                    random_edit_of_same_length(x, states, seed * draws + i), rows, before
                )
                for name, states in after.items()
            }
            for i in range(draws)
        ]
    ).mean()
    scores = {}
    for name, edit in best.items():
        edited = after[name]
        far = relative_distance(edited, x, there)
        scores[name] = {
            "flips": edit.flips,
            "strength": float(edit.strength),
            "explained": world.explained(edited, rows, before),
            "random": random[name],
            "follows": float(world.follows(edited, rows).double().mean()),
            "closeness": 1 - float(far.nanmean()),
            "kept": world.kept(edit),
        }
        if world.t is not None:
            scores[name]["removed"] = share_of_slope_removed(world, edit, rows)
    return pd.DataFrame(scores).T.infer_objects().rename_axis("method")
