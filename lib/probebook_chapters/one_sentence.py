"""Trace one sentence from text to verdict, for the pictures of the story and the front page.

trace = trace_sentence("The keys [MASK] here.", "The key [MASK] here.", ("is", "are"))
trace.verbs()                        # P(is) and P(are) before and after each edit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import to_numpy
from probebook.interventions import LEACE, AlterRep
from probebook.interventions.alterrep import FittedAlterRep
from probebook.models import embed, word_logits
from probebook.models.embedding import head_logits
from probebook_chapters.causal_probing import (
    AgreementSetting,
    Judges,
    number_axes,
    oracles,
    prepare,
)

NUMBERS = np.array(["singular subject", "plural subject"])


@dataclass(frozen=True)
class SentenceTrace:
    """A sentence with a plural subject, its states before and after edits, and what reads them.

    `states`: name → [1, d]: as the model made it, erased (LEACE), flipped (AlterRep), pushed at
    random as far as the flip, and that of the sentence whose subject is singular. `axes` [d, 2]:
    `number_axes`. `forms`: the verb for a singular and for a plural subject."""

    s: AgreementSetting
    judges: Judges
    axes: Tensor
    text: str
    forms: tuple[str, str]
    states: dict[str, Tensor]
    flip: FittedAlterRep

    def words(self, names: Sequence[str], most: int = 5) -> pd.DataFrame:
        """The likeliest words at the blank for some of the states: state, word, probability."""
        rows = []
        for name in names:
            best = head_logits(self.states[name], self.s.lm).softmax(1)[0].topk(most)
            words = self.s.lm.tokenizer.convert_ids_to_tokens(best.indices.tolist())
            rows += [(name, word, p) for word, p in zip(words, best.values.tolist())]
        return pd.DataFrame(rows, columns=["state", "word", "probability"])

    def verbs(self) -> pd.DataFrame:
        """For each state: the probability of each of the two forms against the other."""
        probs = self._forms(torch.cat(list(self.states.values())))
        table = pd.DataFrame(to_numpy(probs), columns=list(self.forms))
        return table.assign(state=list(self.states)).melt(
            "state", var_name="verb", value_name="probability"
        )

    def readings(self) -> pd.DataFrame:
        """For each state: the oracles' mean probability that subject and attractor are plural."""
        h = torch.cat(list(self.states.values()))
        read = {"subject": self.judges.zc, "attractor": self.judges.ze}
        tables = []
        for noun, probe in read.items():
            plural = to_numpy(probe(h).softmax(-1)[..., 1].mean(0))
            tables.append(pd.DataFrame({"state": [*self.states], "noun": noun, "plural": plural}))
        return pd.concat(tables, ignore_index=True)

    def cloud(self, n: int = 300) -> pd.DataFrame:
        """States of test sentences on the axes: x, y, label. A fixed draw of at most `n`."""
        rows = self.s.parts["test"]
        rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:n]]
        table = pd.DataFrame(to_numpy(self.s.h[rows] @ self.axes), columns=["x", "y"])
        return table.assign(label=NUMBERS[to_numpy(self.s.zc[rows])])

    def places(self) -> pd.DataFrame:
        """The states on the axes: x, y, by name."""
        points = torch.cat(list(self.states.values())) @ self.axes
        return pd.DataFrame(to_numpy(points), columns=["x", "y"], index=list(self.states))

    def path(self, alphas: Sequence[float]) -> pd.DataFrame:
        """The flip at growing strengths: strength, x, y, and the probability of the singular form
        against the plural one."""
        h, to = self.states["as it is"], torch.tensor([0])
        edited = h
        for alpha in alphas:
            edited = torch.cat([edited, self.flip.at(alpha=alpha)(h, to=to)])
        table = pd.DataFrame(to_numpy(edited @ self.axes), columns=["x", "y"])
        singular = to_numpy(self._forms(edited)[:, 0])
        return table.assign(strength=[np.nan, *alphas], singular=singular)

    def _forms(self, h: Tensor) -> Tensor:
        """Probabilities [n, 2] of the two forms, of states [n, d]."""
        return word_logits([self.text] * len(h), self.s.lm, [self.forms] * len(h), h=h).softmax(1)


def trace_sentence(text: str, flipped: str, forms: tuple[str, str]) -> SentenceTrace:
    """Fit probes and edits on generated sentences and apply them to one more: `text`, with a plural
    subject and [MASK] for its verb. `flipped`: the same with a singular subject; `forms`: the verb
    for a singular and for a plural subject."""
    s = prepare("pocket-agreement", n=6_000)
    fit = s.parts["intervention"]
    flip = AlterRep(max_rank=8, C=0.1).fit(s.h[fit], s.zc[fit])
    h, truth = embed([text, flipped], s.lm, layer=-1, at="[MASK]").to(s.h.device).split(1)
    turned = flip.at(alpha=1.0)(h, to=torch.tensor([0]))
    random = torch.randn(h.shape, generator=torch.Generator().manual_seed(0)).to(h)
    push = h + random * (turned - h).norm() / random.norm()
    states = {
        "as it is": h,
        "erased": LEACE().fit(s.h[fit], s.zc[fit])(h),
        "flipped": turned,
        "pushed at random": push,
        "the other sentence": truth,
    }
    return SentenceTrace(s, oracles(s), number_axes(s), text, forms, states, flip)
