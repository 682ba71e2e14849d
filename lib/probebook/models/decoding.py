"""What fills a blank, position by position; and greedy decoding that keeps the best tokens of every one."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from probebook.base import UserError
from probebook.models.batches import tokenized
from probebook.models.loading import Model

SENTINELS = ["<extra_id_0>", "<extra_id_1>"]               # T5 and UL2: the blank, and what ends its filling
Positions = list[tuple[list[int], list[float]]]            # the k best tokens at each, and their probabilities


@dataclass(frozen=True)
class Filled:
    """The filled positions of one text: the token of each, and its k most probable tokens with their probabilities.

    Probabilities fall and are not normalised over the k. Tokens are without the mark of a space before them; those
    that then read alike (`▁he` and `he`) are one entry, their sum. A piece inside a word keeps WordPiece's "##"."""

    tokens: list[str]
    top: list[dict[str, float]]

    @staticmethod
    def of(positions: Iterable[tuple[str, Iterable[tuple[str, float]]]]) -> Filled:
        """From (token, [(token, probability), …]) of each position."""
        tokens, top = [], []
        for token, pairs in positions:
            sums = defaultdict(float)
            for other, p in pairs:
                sums[bare(other)] += p
            tokens.append(bare(token))
            top.append(dict(sorted(sums.items(), key=lambda pair: -pair[1])))
        return Filled(tokens, top)


def bare(token: str) -> str:
    """A token without the mark of a space before it."""
    return token.strip(" Ġ▁")


def generated(texts: Sequence[str], model: Model, prompted: bool, k: int, steps: int) -> list[Positions]:
    """What a causal model or an encoder–decoder adds to each text, or puts into its blank where it is not `prompted`.

    Rows with as many tokens as each other are decoded together, so that nothing is padded. UserError for a text that
    is too long, an encoder–decoder that knows no blanks."""
    ids, given, stop, steps = _starts(texts, model, prompted, steps)
    groups, out = defaultdict(list), [None] * len(texts)
    for r in range(len(texts)):
        groups[len(ids[r]), len(given[r])].append(r)
    most = 2_048 if model.device.type == "cpu" else 16_384              # tokens of a batch
    for lengths, rows in groups.items():
        size = max(1, most // (sum(lengths) + steps))
        for part in (rows[i:i + size] for i in range(0, len(rows), size)):
            found = _decode(model, [ids[r] for r in part], [given[r] for r in part], stop, k, steps)
            for r, positions in zip(part, found):
                out[r] = positions
    return out


def _starts(texts, model, prompted, steps):
    """What is read, what the decoder is given of its own output, the tokens that end it, how many it may add."""
    tokenizer, config, settings = model.tokenizer, model.net.config, model.net.generation_config
    ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else [settings.eos_token_id]
    stop = {tokenizer.eos_token_id, *ends}
    if model.kind == "causal":
        ids, special = tokenized(texts, model, steps)[1]["input_ids"], set(tokenizer.all_special_ids)
        special -= {tokenizer.unk_token_id, tokenizer.mask_token_id}
        for row in ids:
            while row[-1] in special:                                   # a [SEP] that would close the prompt
                row.pop()
        return ids, [[] for _ in ids], stop, steps
    sentinels = tokenizer.convert_tokens_to_ids(SENTINELS)
    begin, blank = [config.decoder_start_token_id], "[MASK]"
    if not prompted and tokenizer.mask_token:
        stop, steps = set(), 1
    elif not prompted:
        if None in sentinels or tokenizer.unk_token_id in sentinels:
            raise UserError(f"{model.name} has neither a mask token nor {SENTINELS[0]}: give a prompt")
        begin, blank, stop = begin + sentinels[:1], SENTINELS[0], stop | {sentinels[1]}
    ids = tokenized([t.replace("[MASK]", blank) for t in texts], model, steps)[1]["input_ids"]
    if not prompted and tokenizer.mask_token:
        return ids, [begin + row[:row.index(tokenizer.mask_token_id)] for row in ids], stop, steps
    return ids, [begin] * len(ids), stop, steps


@torch.inference_mode()
def _decode(model, ids, given, stop, k, steps):
    """Positions of each row, decoded greedily with cached keys and values."""
    name, fixed, x = "input_ids", {}, torch.tensor(ids, device=model.device)
    if model.kind == "seq2seq":
        name, fixed, x = "decoder_input_ids", {"encoder_outputs": model.base(x)}, torch.tensor(given, device=x.device)
    past, found, going = None, [[] for _ in ids], set(range(len(ids)))
    for _ in range(steps):
        out = model.net(**{name: x}, **fixed, past_key_values=past, use_cache=True)
        best = out.logits[:, -1].float().softmax(-1).topk(k)
        past, x = out.past_key_values, best.indices[:, :1]
        best = list(zip(best.indices.tolist(), best.values.tolist()))
        going -= {r for r in going if best[r][0][0] in stop}
        for r in going:
            found[r].append(best[r])
        if not going:
            break
    return found
