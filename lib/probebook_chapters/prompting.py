"""Questions for a left-to-right model, answered freely or by scores of given answers.

Chaturvedi et al. (§ 5 to § 7) prompt InstructGPT with the story, for CoQA also with the last two
questions and their answers, and with the question (figure 5 shows "Q:" and "A:")."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from os.path import commonprefix

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.models.batches import longest, tokenize
from probebook.models.cache import load_or_compute
from probebook.models.decoding import generate, strip_end
from probebook.models.loading import Model
from probebook.models.server import Server

Text = tuple[int, ...]  # token ids
_END = re.compile(r"\n|\bq ?:", re.IGNORECASE)  # an answer ends with its line, or at "Q:"


def question_prompts(table: pd.DataFrame) -> list[str]:
    """One prompt per row: story, last two questions with answers, question, and "A:"."""
    prompts = []
    for row in table.itertuples():
        turns = [f"Q: {question}\nA: {answer}" for question, answer in row.history[-2:]]
        prompts.append("\n".join([row.story, *turns, f"Q: {row.question}\nA:"]).lstrip())
    return prompts


def fits_context(prompts: Sequence[str], model: Model | Server) -> np.ndarray:
    """Check which prompts a model can read with 12 more tokens, a server all: bool [n]."""
    if isinstance(model, Server):
        return np.ones(len(prompts), bool)
    lengths = np.array([len(ids) for ids in model.tokenizer(list(prompts))["input_ids"]], int)
    return lengths <= longest(model) - 12


def answer_prompts(
    prompts: Sequence[str], model: Model | Server, steps: int = 12, chat: bool = False
) -> list[str]:
    """Let a left-to-right model, or a server, answer each prompt greedily: the first line of each
    answer. The answers are cached.

    `steps`: largest number of tokens of an answer; `chat`: ask a server as in a chat
    (`Server.answer`). UserError: the model is not left-to-right, or a prompt is too long."""
    if isinstance(model, Server):
        return [_first_line(text) for text in model.answer(prompts, steps, chat)]
    _check(model)
    prompts = list(prompts)

    def ids() -> dict[str, Tensor]:
        rows = torch.full((len(prompts), steps), -1)
        for row, positions in zip(rows, generate(prompts, model, True, 1, steps)):
            best = [ids[0] for ids, _ in positions]
            row[: len(best)] = torch.tensor(best, dtype=torch.long)
        return {"ids": rows}

    tokens = load_or_compute("said", [model.fingerprint, prompts, steps], ids)["ids"]
    return [_first_line(model.tokenizer.decode(row[row >= 0].tolist())) for row in tokens]


def option_scores(
    prompts: Sequence[str], options: Sequence[Sequence[str]], model: Model
) -> list[np.ndarray]:
    """Score options by their log-probability (nats) as continuations of a prompt: a list of [k].

    It is the sum over the option's tokens and ignores what follows, so "the" is at least as
    probable as "the barn". The scores are cached. Raises UserError for a server (which does not
    score given text), for missing options, or for a prompt that is too long."""
    _check(model)
    prompts, options = list(prompts), [list(some) for some in options]
    words = [f" {option.strip()}" for some in options for option in some]
    if len(prompts) != len(options) or not all(options) or not all(word.strip() for word in words):
        raise UserError(
            f"{len(prompts)} prompts, {len(options)} lists of options: one list, not "
            "empty, for each"
        )
    if not prompts:
        return []

    def scores() -> dict[str, Tensor]:
        distinct = [*dict.fromkeys(words)]
        encoded = model.tokenizer(distinct, add_special_tokens=False)["input_ids"]
        ids = dict(zip(distinct, encoded))
        rows = tokenize(prompts, model, max(map(len, encoded)))[1]["input_ids"]
        rows = strip_end(rows, model)
        starts = [row for row, some in zip(rows, options) for _ in some]
        steps = [  # (text so far, next token) for each token that continues a start
            [((*start, *ids[word][:i]), token) for i, token in enumerate(ids[word])]
            for start, word in zip(starts, words)
        ]
        # text → next token → log p
        wanted: defaultdict[Text, dict[int, float]] = defaultdict(dict)
        for path in steps:
            for text, token in path:
                wanted[text][token] = 0.0
        _read(wanted, model)
        return {
            "scores": torch.tensor(
                [sum(wanted[text][token] for text, token in path) for path in steps]
            )
        }

    totals = to_numpy(
        load_or_compute("options", [model.fingerprint, prompts, options], scores)["scores"]
    )
    return np.split(totals, np.cumsum([len(some) for some in options])[:-1])


def _check(model: Model | Server) -> None:
    if model.kind != "causal":
        raise UserError(
            f"a {model.kind} model cannot be read here: load a left-to-right one "
            "(pocket-english-gpt)"
        )


@torch.inference_mode()
def _read(wanted: dict[Text, dict[int, float]], model: Model) -> None:
    """Fill in the log-probabilities of {text: {next token: log p}}.

    Common beginnings of texts are read once if the model can read a tree."""
    most = (512 if model.device.type == "cpu" else 4_096) if _reads_trees(model) else 1
    for texts in _packs(sorted(wanted), most):
        states, ends = _tree(texts, model)
        logp = model.head(states[ends]).float().log_softmax(-1).cpu()
        for text, row in zip(texts, logp):
            wanted[text] = {token: row[token].item() for token in wanted[text]}


def _packs(texts: list[Text], most: int) -> Iterator[list[Text]]:
    """Sorted texts in groups of at least one, whose trees have at most `most` tokens."""
    pack: list[Text] = []
    size = 0
    for text in texts:
        more = len(text) - (len(commonprefix([pack[-1], text])) if pack else 0)
        if pack and size + more > most:
            yield pack
            pack, size, more = [], 0, len(text)
        pack, size = [*pack, text], size + more
    yield pack


def _tree(texts: list[Text], model: Model) -> tuple[Tensor, list[int]]:
    """Last states [m, d] of the m tokens of the texts' tree, and the last token [n] of each text.

    Common beginnings are in the tree once; a token sees only the tokens on the path to it."""
    place: dict[tuple[int, int], int] = {}
    ends, above, depth = [], [], []
    for text in texts:
        at = -1
        for i, token in enumerate(text):
            if (at, token) not in place:
                place[at, token] = len(place)
                above.append(at)
                depth.append(i)
            at = place[at, token]
        ends.append(at)
    x = torch.tensor([[token for _, token in place]], device=model.device)
    if len(texts) == 1:
        return model.base(x).last_hidden_state[0], ends
    visible: np.ndarray = np.eye(len(place), dtype=bool)
    for i, at in enumerate(above):
        if at >= 0:
            visible[i] |= visible[at]
    dtype = model.dtype
    mask = torch.zeros(visible.shape, dtype=dtype)
    mask = mask.masked_fill(torch.from_numpy(~visible), torch.finfo(dtype).min)[None, None]
    positions = torch.tensor([depth], device=model.device)
    out = model.base(x, attention_mask=mask.to(model.device), position_ids=positions)
    return out.last_hidden_state[0], ends


@lru_cache(maxsize=4)
def _reads_trees(model: Model) -> bool:
    """Whether two texts with one beginning have the same states in a tree and alone.

    This needs a model that accepts a mask [t, t] and positions."""
    texts: list[Text] = [(5, 6, 7, 8), (5, 6, 9, 10)]
    try:
        states, ends = _tree(texts, model)
    except (TypeError, ValueError, RuntimeError):
        return False
    alone = torch.stack([_tree([text], model)[0][-1] for text in texts])
    return bool((states[ends] - alone).float().norm() < 0.02 * alone.float().norm())


def _first_line(text: str) -> str:
    return _END.split(text.strip(), maxsplit=1)[0].strip()
