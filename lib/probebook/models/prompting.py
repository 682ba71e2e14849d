"""Questions put to a model that goes from left to right: as a prompt, in its own words, and by scores of given answers.

Chaturvedi et al., § 5 to § 7, ask InstructGPT: the story, on CoQA the two questions before with their answers, and the
question (figure 5 shows "Q:" and "A:")."""
from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from os.path import commonprefix

import numpy as np
import pandas as pd
import torch

from probebook.base import UserError
from probebook.models.batches import longest, tokenized
from probebook.models.cache import cached
from probebook.models.decoding import generated
from probebook.models.loading import Model
from probebook.models.server import Server

_NEXT = re.compile(r"\n|\bq ?:", re.IGNORECASE)             # the end of an answer: its line's, or the next question's


def question_prompts(table: pd.DataFrame) -> list[str]:
    """Story, the last two questions with their answers, question: one prompt a row, which ends with "A:"."""
    return ["\n".join([row.story, *(f"Q: {q}\nA: {a}" for q, a in row.history[-2:]), f"Q: {row.question}\nA:"]).lstrip()
            for row in table.itertuples()]


def fits(prompts: Sequence[str], model: Model | Server, room: int = 12) -> np.ndarray:
    """Which prompts leave room for so many tokens in what the model reads, bool [n]; a server is not asked: all."""
    if model.kind == "server":
        return np.ones(len(prompts), bool)
    return np.array([len(ids) <= longest(model) - room for ids in model.tokenizer(list(prompts))["input_ids"]], bool)


def says(prompts: Sequence[str], model: Model | Server, steps: int = 12, chat: bool = False) -> list[str]:
    """What the model says after each prompt, greedily: its first line, at most `steps` tokens, as it came.

    A loaded model's answers are kept in the cache folder, like a server's. UserError for a model that does not go from
    left to right, a prompt that is too long."""
    if model.kind == "server":
        return [_line(text) for text in model.say(prompts, steps, chat)]
    _check(model)
    prompts, out = list(prompts), []

    def ids():
        found = [[position[0][0] for position in row] for row in generated(prompts, model, True, 1, steps)]
        return {"ids": torch.tensor([row + [-1] * (steps - len(row)) for row in found])}

    for row in cached("said", [model.fingerprint, prompts, steps], ids)["ids"].tolist():
        out.append(_line(model.tokenizer.decode([i for i in row if i >= 0])))
    return out


def option_scores(prompts: Sequence[str], options: Sequence[Sequence[str]], model: Model) -> list[np.ndarray]:
    """Log-probability (nats) of each of a prompt's options as what follows it, the sum over its tokens: a list of [k].

    What comes after an option does not count, so of "the barn" and "the" the second is at least as probable. Kept in
    the cache folder. UserError for a server (which does not score given text), no options, too long a prompt."""
    _check(model)
    prompts, options = list(prompts), [list(some) for some in options]
    if len(prompts) != len(options) or not all(options) or not all(o.strip() for some in options for o in some):
        raise UserError(f"{len(prompts)} prompts, {len(options)} lists of options: one list, not empty, for each")
    words = dict.fromkeys(f" {o.strip()}" for some in options for o in some)

    def scores():
        ids = dict(zip(words, model.tokenizer([*words], add_special_tokens=False)["input_ids"]))
        rows = _plain(prompts, model, max(map(len, ids.values())))
        paths = [[(*row, *ids[f" {o.strip()}"]) for o in some] for row, some in zip(rows, options)]
        wanted = defaultdict(dict)                                      # text read so far → next tokens → log p
        for row, some in zip(rows, paths):
            for path in some:
                for i in range(len(row), len(path)):
                    wanted[path[:i]][path[i]] = 0.0
        _read(wanted, model)
        found = [sum(wanted[path[:i]][path[i]] for i in range(len(row), len(path)))
                 for row, some in zip(rows, paths) for path in some]
        return {"scores": torch.tensor(found)}

    if not prompts:
        return []
    found = cached("options", [model.fingerprint, prompts, options], scores)["scores"].numpy()
    return np.split(found, np.cumsum([len(some) for some in options])[:-1])


def _check(model):
    if model.kind != "causal":
        raise UserError(f"a {model.kind} model cannot be read here: load a left-to-right one (pocket-english-gpt)")


def _plain(prompts, model, room):
    """Token ids without those that would close a text."""
    special = set(model.tokenizer.all_special_ids) - {model.tokenizer.unk_token_id}
    rows = tokenized(prompts, model, room)[1]["input_ids"]
    for row in rows:
        while row and row[-1] in special:
            row.pop()
    return rows


@torch.inference_mode()
def _read(wanted, model):
    """Fill in the log-probabilities of {text (token ids): {next token: log p}}. What texts have in common is read once,
    where the model can read a tree."""
    most = (512 if model.device.type == "cpu" else 4_096) if _reads_trees(model) else 1
    for texts in _packs(sorted(wanted), most):
        states, ends = _tree(texts, model)
        logp = model.head(states[ends]).float().log_softmax(-1).cpu()
        for text, row in zip(texts, logp):
            wanted[text] = {token: row[token].item() for token in wanted[text]}


def _packs(texts, most):
    """Sorted texts in groups whose trees have at most `most` tokens (one text at least)."""
    pack, size = [], 0
    for text in texts:
        more = len(text) - (len(commonprefix([pack[-1], text])) if pack else 0)
        if pack and size + more > most:
            yield pack
            pack, size, more = [], 0, len(text)
        pack, size = [*pack, text], size + more
    yield pack


def _tree(texts, model):
    """Last states [m, d] of the m tokens of the texts' tree, a common beginning being there once, and each text's last
    token [n]: a token sees those on the way to it."""
    place, ends, above, depth = {}, [], [], []
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
    seen = np.eye(len(place), dtype=bool)
    for i, at in enumerate(above):
        if at >= 0:
            seen[i] |= seen[at]
    dtype = next(model.net.parameters()).dtype
    hidden = torch.zeros(seen.shape, dtype=dtype).masked_fill(torch.from_numpy(~seen), torch.finfo(dtype).min)
    return model.base(x, attention_mask=hidden[None, None].to(model.device),
                      position_ids=torch.tensor([depth], device=model.device)).last_hidden_state[0], ends


@lru_cache(maxsize=4)
def _reads_trees(model):
    """Whether the model takes a mask and places: two texts with one beginning are the same read together and alone."""
    texts = [(5, 6, 7, 8), (5, 6, 9, 10)]
    try:
        states, ends = _tree(texts, model)
    except (TypeError, ValueError, RuntimeError):
        return False
    alone = torch.stack([_tree([text], model)[0][-1] for text in texts])
    return bool((states[ends] - alone).float().norm() < .02 * alone.float().norm())


def _line(text):
    return _NEXT.split(text.strip(), maxsplit=1)[0].strip()
