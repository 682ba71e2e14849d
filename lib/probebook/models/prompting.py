"""Questions put to a model that goes from left to right: as a prompt, in its own words, and by scores of given answers.

Chaturvedi et al., § 5 to § 7, ask InstructGPT: the story, on CoQA the two questions before with their answers, and the
question (figure 5 shows "Q:" and "A:")."""
from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

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
    ids = [[model.tokenizer(f" {o.strip()}", add_special_tokens=False)["input_ids"] for o in some] for some in options]

    def scores():
        rows, out = _plain(prompts, model, max(len(i) for some in ids for i in some)), [None] * len(prompts)
        groups = defaultdict(list)                                      # as many tokens: read together, without padding
        for r, row in enumerate(rows):
            groups[len(row)].append(r)
        for size, group in groups.items():
            most = max(1, (1_024 if model.device.type == "cpu" else 16_384) // size)
            for part in (group[i:i + most] for i in range(0, len(group), most)):
                for r, found in zip(part, _scores([rows[r] for r in part], [ids[r] for r in part], model)):
                    out[r] = found
        return {"scores": torch.cat(out)}

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
def _scores(prompts, options, model):
    """[k] of each prompt: it is read once, its options go on from its keys and values."""
    device, which = model.device, [r for r, some in enumerate(options) for _ in some]
    flat, longest = [ids for some in options for ids in some], max(len(ids) for some in options for ids in some)
    read = model.base(torch.tensor(prompts, device=device), use_cache=True)
    first = model.head(read.last_hidden_state[:, -1]).float().log_softmax(-1)
    total = first[which, [ids[0] for ids in flat]]
    if longest > 1:
        past = read.past_key_values
        past.batch_select_indices(torch.tensor(which, device=device))
        x = torch.tensor([ids[:-1] + [0] * (longest - len(ids)) for ids in flat], device=device)
        after = model.head(model.base(x, past_key_values=past).last_hidden_state).float().log_softmax(-1)
        for i, ids in enumerate(flat):
            total[i] += sum(after[i, j, token] for j, token in enumerate(ids[1:]))
    return total.cpu().split([len(some) for some in options])


def _line(text):
    return _NEXT.split(text.strip(), maxsplit=1)[0].strip()
