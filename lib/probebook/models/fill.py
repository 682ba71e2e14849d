"""Fill a blank with any kind of language model: tokens and their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from probebook.base import UserError, check_choice
from probebook.models.decoding import Choices, Filled, generate, strip_space_mark
from probebook.models.embedding import embed, head_logits
from probebook.models.loading import Model, as_model, load
from probebook.models.server import Server


@dataclass(frozen=True)
class Prompt:
    """An instruction around a text: `template` holds {sentence}, in which `mask` marks the blank.

    UL2 expects its mode first: write "[S2S] " at the start of your template, and "[NLU] "
    before texts that have no prompt."""

    template: str
    mask: str

    def __post_init__(self) -> None:
        if "{sentence}" not in self.template or not self.mask:
            raise UserError(
                f"{self.template[:60]!r} is not a valid template: expected {{sentence}} in it, "
                "and a mask of at least one character"
            )

    def __call__(self, text: str) -> str:
        return self.template.replace("{sentence}", text.replace("[MASK]", self.mask))


PROMPTS = {  # McMilin, § D.2
    "A": Prompt(
        "Instructions: Please carefully read the following passage and fill-in the "
        "gendered pronoun indicated by a <mask>.\nPassage: {sentence}\nAnswer:",
        "<mask>",
    ),
    "B": Prompt("The gendered pronoun missing in this sentence: '{sentence}', is", "_"),
    "C": Prompt("In this sentence: '{sentence}', the missing gendered pronoun is", "_"),
}


def fill(
    texts: Sequence[str],
    model: str | Model | Server,
    prompt: str | Prompt | None = None,
    k: int = 5,
    steps: int = 20,
) -> list[Filled]:
    """Let a model fill the one [MASK] of each text (McMilin, § 4.1, appendices D, F, G).

    Masked models give one position, and so does BART, whose decoder gets the sentence up to the
    blank. T5 and UL2 give the span after <extra_id_0>, up to the next sentinel. A causal model
    gives one position, too: it reads the words before the blank, which is the book's way of asking
    it, not the paper's. With a prompt, causal models, servers and encoder–decoders give the greedy
    continuation. In bfloat16 a pronoun's share can change by two percentage points, and half a
    point matters here.

    Args:
        prompt: "A", "B", "C" (the paper's) or another `Prompt`.
        k: Number of most probable tokens to return at each position.
        steps: Largest number of positions. The end of the sequence is not one of them, so there
            may be none.

    UserError: a text without exactly one [MASK], a missing or superfluous prompt, or `k` or `steps`
    out of range."""
    if isinstance(model, str):
        model = load(model)
    texts = [texts] if isinstance(texts, str) else list(texts)
    wrong = [t for t in texts if not isinstance(t, str) or t.count("[MASK]") != 1]
    if not texts:
        raise UserError("no texts: give a list of texts with one [MASK] each")
    if wrong:
        raise UserError(f"{str(wrong[0])[:60]!r} is not a valid text: expected one [MASK] in it")
    if k < 1 or steps < 1 or isinstance(model, Model) and k > model.net.config.vocab_size:
        raise UserError(
            f"k={k}, steps={steps}: both at least 1, k at most the number of the model's tokens"
        )
    if prompt is None and isinstance(model, Server):
        raise UserError("a server needs a prompt: 'A', 'B', 'C' or a Prompt")
    if prompt is not None and isinstance(model, Model) and model.kind in ("masked", "encoder"):
        raise UserError(
            f"{model.name} is a masked model and fills the blank itself: leave the prompt out"
        )
    if isinstance(prompt, str):
        prompt = PROMPTS[check_choice(prompt, "name of a prompt", PROMPTS)]
    texts = texts if prompt is None else [prompt(t) for t in texts]
    if isinstance(model, Server):
        return model.complete(texts, k, steps)
    if model.kind in ("masked", "encoder") or prompt is None and model.kind == "causal":
        filled = _at_blank(texts, model, k)
    else:
        filled = generate(texts, model, prompt is not None, k, steps)
    word = cache(lambda i: model.tokenizer.decode([i]))

    def pairs(ids: list[int], probs: list[float]) -> tuple[str, list[tuple[str, float]]]:
        return word(ids[0]), [(word(i), p) for i, p in zip(ids, probs)]

    return [Filled.of(pairs(*position) for position in positions) for positions in filled]


def pieces(word: str, model: str | Model) -> list[str]:
    """Split a word into its tokens within a sentence: ["she"], or ["them", "##selves"].

    `fill` returns single tokens. A word of several tokens has no entry in `top`, and a sum over a
    list of words counts 0 for it, as the paper's does. Omit such a word, or choose another model.
    Raises UserError for a server."""
    if not isinstance(model, str | Model):
        raise UserError("a server does not show its tokens: give a model that can be loaded")
    tokenizer = as_model(model).tokenizer
    ids = [tokenizer.encode(t, add_special_tokens=False) for t in ("a", f"a {word}")]
    return [strip_space_mark(tokenizer.decode([i])) for i in ids[1][len(ids[0]) :]]


def _at_blank(texts: list[str], model: Model, k: int) -> list[Choices]:
    """The one position of each text."""
    filled = []
    for h in embed(texts, model).to(model.device).split(256):
        best = head_logits(h, model).softmax(1).topk(k)
        filled += [[pair] for pair in zip(best.indices.tolist(), best.values.tolist())]
    return filled
