"""Train a small language model from text, masked or left to right, on packed rows of WordPieces.

A run is a function of text and recipe. Rows are drawn from `(seed, step)`, so a run that was killed
and resumed from its checkpoint sees the same batches. Bits are equal for one thread count and one
kind of processor only: sums depend on how they are split, and products are in bfloat16 where the
device has units for it (`bfloat16_units`), otherwise in float32.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from probebook.models.loading import Model
from probebook.models.training import loop
from probebook.models.training.finetune import plain_attention
from probebook_training.text import CLS, PAD, SEP, draw_rows, mask_rows, next_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Task = tuple[Tensor, Tensor, Tensor]  # input ids, labels, chosen places: each [rows, length]


@dataclass(frozen=True)
class Recipe:
    """Every number that decides a training run (stored on the model's card)."""

    arch: str = "rotary"  # "bert": norm after each block; "prenorm": before it; "rotary":
    # ModernBERT (norm before it, rotary positions, gated units);
    # "causal": the same from left to right
    vocab: int = 8192
    layers: int = 4
    width: int = 256
    heads: int = 4
    max_length: int = 128
    rows: int = 64  # per step, of max_length/2; every fourth: rows/2 of max_length
    sentence_start: bool = True  # rows begin with a sentence (else anywhere in the text)
    mask_rate: float = 0.2
    optimizer: str = "muon"  # "adamw", or Muon for the matrices of the blocks
    lr: float = 2e-3
    warmup: int = 300
    decay: float = 0.3  # the last share of the steps, over which lr falls linearly to 0
    steps: int = 26_000
    seed: int = 0


def build(recipe: Recipe) -> PreTrainedModel:
    """Build a randomly initialised language model of the recipe's architecture and size."""
    import transformers as hf

    torch.manual_seed(recipe.seed)
    length = recipe.max_length
    common = dict(
        vocab_size=recipe.vocab,
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        pad_token_id=PAD,
        bos_token_id=CLS,
        eos_token_id=SEP,
    )
    gated = dict(intermediate_size=8 * recipe.width // 3, max_position_embeddings=length, **common)
    plain = dict(
        intermediate_size=4 * recipe.width,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **common,
    )
    if recipe.arch == "rotary":
        return hf.ModernBertForMaskedLM(
            hf.ModernBertConfig(
                global_attn_every_n_layers=1, cls_token_id=CLS, sep_token_id=SEP, **gated
            )
        )
    if recipe.arch == "causal":
        return hf.LlamaForCausalLM(hf.LlamaConfig(tie_word_embeddings=True, **gated))
    if recipe.arch == "prenorm":  # its positions begin at pad + 1
        return hf.RobertaPreLayerNormForMaskedLM(
            hf.RobertaPreLayerNormConfig(max_position_embeddings=length + 1, **plain)
        )
    return hf.BertForMaskedLM(hf.BertConfig(max_position_embeddings=length, **plain))


def schedule(step: int, recipe: Recipe) -> float:
    """Share of the learning rate at a step: linear rise, plateau, linear fall to 0."""
    left = (recipe.steps - step) / max(1, recipe.decay * recipe.steps)
    return min(1.0, (step + 1) / recipe.warmup, left)


def cloze_loss(model: PreTrainedModel, inputs: Tensor, labels: Tensor, chosen: Tensor) -> Tensor:
    """Mean cross-entropy (nats) at the chosen places, the only ones at which the head runs."""
    device = next(model.parameters()).device
    inputs, labels, chosen = inputs.to(device), labels.to(device), chosen.to(device)
    attention = (inputs != PAD) if (inputs == PAD).any() else None
    with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16_units(device)):
        hidden = model.base_model(input_ids=inputs, attention_mask=attention).last_hidden_state
        logits = Model("", model, None, "masked").head(hidden[chosen])
    return F.cross_entropy(logits.float(), labels[chosen])


def bfloat16_units(device: torch.device) -> bool:
    """Whether a device multiplies in bfloat16: a GPU, or a processor with AMX or AVX-512 BF16."""
    able = torch.cpu.get_capabilities()
    return device.type != "cpu" or bool(able.get("amx_bf16") or able.get("avx512_bf16"))


def gradients(model: PreTrainedModel, tasks: list[Task], pool: ThreadPoolExecutor) -> Tensor:
    """Set the gradients of the sum of the tasks' cloze losses; return the first task's loss.

    On a CPU four threads of one core each compute a quarter of the rows: on a shared machine this
    is twice as fast as threads inside each product. The parts are added in a fixed order, so the
    sum is always the same."""
    parts = 4 if next(model.parameters()).device.type == "cpu" else 1
    parameters = list(model.parameters())

    def run(job: tuple[Task, int]) -> tuple[Tensor, tuple[Tensor, ...]]:
        (inputs, labels, chosen), part = job
        inputs, labels, mine = inputs[part::parts], labels[part::parts], chosen[part::parts]
        loss = cloze_loss(model, inputs, labels, mine) * (mine.sum() / chosen.sum())
        return loss.detach(), torch.autograd.grad(loss, parameters)

    done = list(pool.map(run, [(task, part) for task in tasks for part in range(parts)]))
    for i, parameter in enumerate(parameters):
        first, *others = (grads[i] for _, grads in done)
        parameter.grad = sum(others) + first if others else first
    loss, *more = (loss for loss, _ in done[:parts])
    return sum(more, loss)


def train(
    model: PreTrainedModel,
    ids: np.ndarray,
    starts: np.ndarray,
    recipe: Recipe,
    checkpoint: Path | None = None,
    every: int = 500,
    valid: tuple[np.ndarray, np.ndarray] | None = None,
    cloze: tuple[Tensor, Tensor] | None = None,
    measure: Callable[[PreTrainedModel], dict[str, float]] | None = None,
) -> list[dict]:
    """Train a language model in place; return a record of every so many steps.

    Args:
        ids: Token ids of the text, end to end.
        starts: The places where sentences begin.
        checkpoint: File from which the run resumes, if it exists.
        valid: ids and starts of another text, for the validation loss.
        cloze: A second task, (inputs, labels) [n, t] that differ at the places to fill; each step
            adds the loss of `2 · recipe.rows` of its rows.
        measure: Called with the model, in evaluation mode, when a record is made."""
    opts = loop.optimizers(model, recipe.optimizer, recipe.lr)
    step = 0
    records: list[dict] = []
    if checkpoint and Path(checkpoint).exists():
        step, records = loop.restore_checkpoint(Path(checkpoint), model, opts, _resume_key(recipe))
    model.train()
    began, done = time.perf_counter(), (records[-1]["seconds"] if records else 0.0)
    losses, tokens = [], (records[-1]["tokens"] if records else 0)
    pool = ThreadPoolExecutor(
        torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)
    )
    with loop.TrainingBar("train", recipe.steps, step) as bar, plain_attention(model):
        while step < recipe.steps:
            rng = np.random.default_rng((recipe.seed, step))
            generator = Generator().manual_seed(int(rng.integers(2**62)))
            halves = 1 if step % 4 == 3 else 2  # every fourth step has long rows
            size = recipe.rows * halves // 2, recipe.max_length // halves
            rows = draw_rows(ids, starts, *size, rng, recipe.sentence_start)
            loop.set_rate(opts, recipe.lr * schedule(step, recipe))
            tasks = [_task(rows, recipe, recipe.mask_rate, generator)]
            if cloze is not None:
                pick = torch.randint(len(cloze[0]), (2 * recipe.rows,), generator=generator)
                inputs, labels = cloze[0][pick], cloze[1][pick]
                tasks.append((inputs, labels, inputs != labels))
            losses.append(gradients(model, tasks, pool))
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in opts:
                optimizer.step()
            step, tokens = step + 1, tokens + rows.numel()
            bar.advance()
            if step % every == 0 or step == recipe.steps:
                record = {
                    "step": step,
                    "tokens": tokens,
                    "loss": float(torch.stack(losses).mean()),
                    "seconds": done + time.perf_counter() - began,
                }
                if valid is not None:
                    record["valid_loss"] = evaluate(model, *valid, recipe)
                if measure is not None:
                    model.eval()
                    record |= measure(model)
                    model.train()
                losses, records = [], [*records, record]
                bar.show_loss(record["loss"])
                if checkpoint:
                    key = _resume_key(recipe)
                    loop.save_checkpoint(Path(checkpoint), model, opts, step, records, key)
    pool.shutdown()
    model.eval()
    return records


@torch.no_grad()
def evaluate(
    model: PreTrainedModel, ids: np.ndarray, starts: np.ndarray, recipe: Recipe, n: int = 512
) -> float:
    """Loss (nats) on `n` fixed rows: of 15 % masked pieces, or of each next piece."""
    rows = draw_rows(ids, starts, n, recipe.max_length // 2, np.random.default_rng(0), True)
    return float(cloze_loss(model, *_task(rows, recipe, 0.15, Generator().manual_seed(0))))


def _task(rows: Tensor, recipe: Recipe, rate: float, generator: Generator) -> Task:
    if recipe.arch == "causal":
        return next_rows(rows)
    inputs, chosen = mask_rows(rows, rate, recipe.vocab, generator)
    return inputs, rows, chosen


def _resume_key(recipe: Recipe) -> str:
    """Write down what a run must share with its checkpoint: all but the run's length."""
    return json.dumps({k: v for k, v in asdict(recipe).items() if k not in ("steps", "decay")})
