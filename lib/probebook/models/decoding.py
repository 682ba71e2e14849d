"""Greedy decoding that keeps the most probable tokens at each position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch

from probebook.models.batches import tokenize
from probebook.models.loading import Model

NEXT_SENTINEL = "<extra_id_1>"  # ends what T5 and UL2 write into the blank
Choices = list[tuple[list[int], list[float]]]  # at each position: the k best ids, probabilities


@dataclass(frozen=True)
class Filled:
    """The filled positions of one text.

    `tokens`: the token at each position; `top`: its k most probable tokens with their
    probabilities, falling, not normalised over the k. Tokens have no mark of a space before them;
    those that then look the same (`▁he` and `he`) are added up. A piece inside a word keeps
    WordPiece's "##"."""

    tokens: list[str]
    top: list[dict[str, float]]

    @staticmethod
    def of(positions: Iterable[tuple[str, Iterable[tuple[str, float]]]]) -> Filled:
        """From (token, [(token, probability), …]) at each position."""
        tokens, top = [], []
        for token, pairs in positions:
            sums: defaultdict[str, float] = defaultdict(float)
            for other, p in pairs:
                sums[strip_space_mark(other)] += p
            tokens.append(strip_space_mark(token))
            top.append(dict(sorted(sums.items(), key=lambda pair: -pair[1])))
        return Filled(tokens, top)


def strip_space_mark(token: str) -> str:
    """Remove the mark of a space before a token."""
    return token.strip(" Ġ▁")


def generate(
    texts: Sequence[str], model: Model, prompted: bool, k: int, steps: int
) -> list[Choices]:
    """Continue each text greedily with a causal model or an encoder–decoder.

    The k best tokens at each of at most `steps` positions. `prompted`: whether the texts are
    prompts; if not, an encoder–decoder fills their blank. Rows of equal length are decoded
    together, so nothing is padded. UserError: a text is too long, or an encoder–decoder knows no
    blanks."""
    ids, prefixes, stop, steps = _starts(texts, model, prompted, steps)
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    out: list[Choices] = [[] for _ in texts]
    for r in range(len(texts)):
        groups[len(ids[r]), len(prefixes[r])].append(r)
    most = 2_048 if model.device.type == "cpu" else 16_384  # tokens of a batch
    for lengths, rows in groups.items():
        size = max(1, most // (sum(lengths) + steps))
        for part in (rows[i : i + size] for i in range(0, len(rows), size)):
            filled = _decode(
                model, [ids[r] for r in part], [prefixes[r] for r in part], stop, k, steps
            )
            for r, positions in zip(part, filled):
                out[r] = positions
    return out


def _starts(
    texts: Sequence[str], model: Model, prompted: bool, steps: int
) -> tuple[list[list[int]], list[list[int]], set[int | None], int]:
    """Prepare decoding: input ids, start of the decoder's output, end tokens, number of tokens."""
    tokenizer, settings = model.tokenizer, model.net.generation_config
    ends = settings.eos_token_id
    stop = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
    if model.kind == "causal":
        ids = strip_end(tokenize(texts, model, steps)[1]["input_ids"], model)
        return ids, [[] for _ in ids], stop, steps
    if prompted:
        ids = tokenize(texts, model, steps)[1]["input_ids"]
        return ids, [[model.net.config.decoder_start_token_id]] * len(ids), stop, steps
    if tokenizer.mask_token:
        stop, steps = set(), 1
    else:
        stop = stop | {tokenizer.convert_tokens_to_ids(NEXT_SENTINEL)}
    ids = tokenize(texts, model, steps)[1]["input_ids"]
    return ids, [model.decoder_ids(row) for row in ids], stop, steps


def strip_end(ids: list[list[int]], model: Model) -> list[list[int]]:
    """Remove the special tokens that would end prompts from their ids."""
    for row in ids:
        while len(row) > 1 and row[-1] in model.special:
            row.pop()
    return ids


@torch.inference_mode()
def _decode(
    model: Model,
    ids: list[list[int]],
    prefixes: list[list[int]],
    stop: set[int | None],
    k: int,
    steps: int,
) -> list[Choices]:
    """The positions of each row, decoded greedily with cached keys and values."""
    name, x = "input_ids", torch.tensor(ids, device=model.device)
    fixed: dict[str, Any] = {}
    if model.kind == "seq2seq":
        name, fixed = "decoder_input_ids", {"encoder_outputs": model.encoder.base(x)}
        x = torch.tensor(prefixes, device=x.device)
    elif "logits_to_keep" in signature(model.net.forward).parameters:
        fixed = {"logits_to_keep": 1}  # a head of 262,144 pieces costs more than all layers
    past, active = None, set(range(len(ids)))
    filled: list[Choices] = [[] for _ in ids]
    for _ in range(steps):
        out = model.net(**{name: x}, **fixed, past_key_values=past, use_cache=True)
        best = out.logits[:, -1].float().softmax(-1).topk(k)
        past, x = out.past_key_values, best.indices[:, :1]
        best = list(zip(best.indices.tolist(), best.values.tolist()))
        active -= {r for r in active if best[r][0][0] in stop}
        for r in active:
            filled[r].append(best[r])
        if not active:
            break
    return filled
