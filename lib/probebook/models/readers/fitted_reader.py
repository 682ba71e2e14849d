"""A trained reader: its answers to a table of questions, and the states behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import Tensor

from probebook.base import atomic_write, to_numpy
from probebook.models.cache import load_or_compute
from probebook.models.readers.heads import answer_words, best_spans, decide
from probebook.models.readers.network import Network
from probebook.models.readers.windows import Windows

if TYPE_CHECKING:
    from probebook.models.readers.reader import Reader


@dataclass(frozen=True, eq=False)
class FittedReader:
    """`reader(table)` → its answers; `reader.states(table)` → its last states. `answers`: those
    given so far, by story, question and the last two turns."""

    recipe: Reader  # how it was trained
    net: Network  # whose weights no longer change
    answers: dict[tuple, tuple] = field(default_factory=dict)

    def __call__(self, table: pd.DataFrame, see: Callable | None = None) -> pd.DataFrame:
        """A row for each question, with the table's index.

        `said`: the answer; `form`: yes, no, unknown, span, …; `start`, `end`: characters of a
        span, −1 for none; then the score of each form.
        The same question after the same two turns about the same story is read once, and answers
        are stored in the cache folder. With `see` every row is read, and each batch is passed to
        `see(windows, rows, batch, output)`: the windows of the table, which of them are in the
        batch, the network's input and the encoder's output with the states of all layers."""
        keys = [
            (story, question, tuple(map(tuple, history[-2:])))
            for story, question, history in zip(table.story, table.question, table.history)
        ]
        first = {key: i for i, key in reversed([*enumerate(keys)])}
        new = sorted(i for key, i in first.items() if key not in self.answers)
        if see:
            self._remember(keys, self._answer(table, see))
        elif new:
            asked = [keys[i] for i in new]
            cache_key = [self.fingerprint, asdict(self.recipe), asked]
            self._remember(
                asked, load_or_compute("answers", cache_key, lambda: self._answer(table.iloc[new]))
            )
        choices, spans, values, scores = zip(*(self.answers[key] for key in keys))
        forms = self.net.heads.forms
        texts = []
        for (story, question, _), choice, span, value in zip(keys, choices, spans, values):
            form = forms[choice]
            words = story[slice(*span)] if form == "span" else answer_words(form, value, question)
            texts.append(words)
        columns = {
            "said": texts,
            "start": [a for a, _ in spans],
            "end": [b for _, b in spans],
            "form": [forms[choice] for choice in choices],
        }
        return pd.DataFrame(columns | dict(zip(forms, zip(*scores))), table.index)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights, computed once."""
        return self.net.fingerprint

    def windows(self, table: pd.DataFrame) -> Windows:
        """The windows that the network reads of a table."""
        return self.net.windows(table)

    def states(self, table: pd.DataFrame) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """For the first window of each row: the row's place in the table, token ids [t], last
        states [t, d], and the place of the [CLS] token."""
        cut = self.windows(table)
        for rows, batch in self.batches(cut, first=True):
            with torch.inference_mode():  # not while the caller has its turn
                h, _ = self.net(batch)
            for i, row in enumerate(rows):
                ids = np.array(cut.ids[row])
                yield int(cut.item[row]), ids, to_numpy(h[i, : len(ids)]), int(cut.cls[row])

    def save(self, folder: Path) -> None:
        """Write the trained weights (float16) and the recipe, which names the encoder."""
        folder.mkdir(parents=True, exist_ok=True)
        trained = self.net.trained_parameters().items()
        with atomic_write(folder / "reader.safetensors") as part:
            save_file({k: v.detach().cpu().half().contiguous() for k, v in trained}, part)
        (folder / "reader.json").write_text(json.dumps(asdict(self.recipe), indent=1) + "\n")

    def batches(self, cut: Windows, first: bool = False) -> Iterator[tuple[np.ndarray, dict]]:
        """Rows of windows and the network's input for them.

        `first`: only the first window of each item."""
        wanted: Collection[int] = range(len(cut.item))
        if first:
            wanted = {*np.unique(cut.item, return_index=True)[1].tolist()}
        self.net.eval()
        cpu = self.net.body.device.type == "cpu"
        tokens = 1_024 if cpu else self.recipe.tokens * 4  # what fits into a core's cache
        for rows in cut.batches(tokens):
            rows = np.array([row for row in rows if row in wanted], int)
            if len(rows):
                yield rows, self.net.batch(cut, rows)

    def _remember(self, keys: list[tuple], results: dict[str, Tensor]) -> None:
        parts = (results[name].tolist() for name in ("choice", "spans", "value", "best"))
        self.answers.update(zip(keys, zip(*parts)))

    def _answer(self, table: pd.DataFrame, see: Callable | None = None) -> dict[str, Tensor]:
        """Of each row: the place of its form, its span's characters, its value [2], its scores."""
        cut = self.windows(table)
        scored = self._score(cut, see)
        choice, window, best = decide(to_numpy(scored["scores"]), cut.item)
        is_span = choice == best.shape[1] - 1
        first, last = (
            to_numpy(scored[end])[window] - cut.story[window, 0] for end in ("first", "last")
        )
        spans = []
        for offsets, wanted, a, b in zip((cut.offsets[w] for w in window), is_span, first, last):
            has_span = wanted and len(offsets)
            spans.append((offsets[a, 0], offsets[b, 1]) if has_span else (-1, -1))
        return {
            "choice": torch.from_numpy(choice),
            "spans": torch.tensor(spans),
            "value": scored["value"][window],
            "best": torch.from_numpy(best),
        }

    @torch.inference_mode()
    def _score(self, cut: Windows, see: Callable | None = None) -> dict[str, Tensor]:
        """Of each window: the scores of all forms, the best span's ends, and the value [2]."""
        n, forms = len(cut.item), len(self.net.heads.forms)
        scores, value = torch.zeros(n, forms), torch.zeros(n, 2, dtype=torch.long)
        first, last = torch.zeros(2, n, dtype=torch.long)
        for rows, batch in self.batches(cut):
            encoded = self.net.encode(batch, layers=see is not None)
            out = self.net.heads(encoded.last_hidden_state.float(), batch)
            if see:
                see(cut, rows, batch, encoded)
            ends = best_spans(out["start"], out["end"])
            span, first[rows], last[rows] = (x.cpu() for x in ends)
            kinds = self.net.heads.scores(out).cpu()
            scores[rows] = torch.cat([kinds, span[:, None]], 1)[:, :forms]
            if "number" in out:
                best = [out[name].argmax(1) for name in ("number", "option")]
                value[rows] = torch.stack(best, 1).cpu()
        return {"scores": scores, "first": first, "last": last, "value": value}
