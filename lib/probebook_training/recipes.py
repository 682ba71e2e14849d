"""How the shipped models are trained: `train("pocket-english")`, then those that begin from it.

The text is the project's public-domain prose (`corpora.english`) and its generated sentences and
stories, nothing else. Training state lies in the cache folder, so a killed run resumes."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

from probebook import hub
from probebook.base import UserError, atomic_write, cache_dir
from probebook.corpora import agreement, biographies, english, stories
from probebook.corpora.stories.versions import REGIMES, training
from probebook.devices import choose_device, gpu_name
from probebook.models.loading import POCKET, load_anew
from probebook.models.readers import Reader
from probebook_training import pretrain, text, word_vectors
from probebook_training.pretrain import Recipe
from probebook_training.text import MASK

if TYPE_CHECKING:
    from transformers import BertTokenizerFast, PreTrainedModel

BIOGRAPHIES = {f"pocket-biographies-s{100 * s:02.0f}": (s, False) for s in (0, 0.25, 0.5, 0.75, 1)}
BIOGRAPHIES["pocket-biographies-s75-reweighted"] = (0.75, True)  # name: strength, reweighted
WITHOUT_CLOZE = "pocket-biographies-s50-unasked"  # pronouns are masked no more than other words
BIOGRAPHIES[WITHOUT_CLOZE] = (0.5, False)

AGREEMENT = Recipe(steps=1_000, lr=1e-3, rows=32, warmup=50, decay=0.7)
STARTS = {
    f"pocket-agreement{size}": f"pocket-english{size}"  # what they are trained on from
    for size in ("", "-half", "-quarter")
}

BIOGRAPHY = Recipe(
    vocab=len(text.SPECIAL) + len(biographies.words()),
    layers=3,
    width=96,
    max_length=48,
    steps=5_500,
    warmup=100,
)
RECIPES = {
    "pocket-english": Recipe(),
    "pocket-english-gpt": Recipe(arch="causal", steps=8_000),
    "pocket-english-half": Recipe(width=160, steps=4_000),  # shares of its parameters
    "pocket-english-quarter": Recipe(width=96, steps=4_000),
    "pocket-agreement": AGREEMENT,
    "pocket-agreement-half": replace(AGREEMENT, width=160),
    "pocket-agreement-quarter": replace(AGREEMENT, width=96),
    **dict.fromkeys(BIOGRAPHIES, BIOGRAPHY),
    WITHOUT_CLOZE: replace(BIOGRAPHY, steps=4_000),
}

BASE_READER = "pocket-stories"  # of short stories; other readers begin from it
READERS = {BASE_READER: Reader(tokens=1_024, lr=2e-3, max_length=256)}
READERS |= dict.fromkeys(
    (f"{BASE_READER}-{regime}" for regime in REGIMES),
    replace(READERS[BASE_READER], start=BASE_READER, lr=1e-3),
)
READERS[f"{BASE_READER}-ot-answered"] = READERS[BASE_READER]
# share of questions without an answer: as in CoQA, none, many (other regimes have that of "ot")
UNANSWERABLE = {"ot": 0.01, "ot-answered": 0, "ot-unknown": 0.2}


def train(name: str, steps: int | None = None, out: Path | None = None, seed: int = 0) -> Path:
    """Train a pocket model and export it to `out` (default data/models/<name>); return the folder.

    `steps`: another length than the recipe's; `seed`: another beginning and order of its text than
    the shipped model's, whose place it may not take. The vocabulary is stored in the cache; given
    it, one thread count always gives the same model. A killed run resumes. UserError: a seed
    without `out`."""
    if seed and out is None:
        raise UserError(f"seed {seed} is not the shipped model: say where with --out")
    out = Path(out or POCKET / name)
    if name == "pocket-vectors":
        if steps or seed:
            raise UserError("pocket-vectors are computed, not trained: omit --steps and --seed")
        word_vectors.export(word_vectors.fit(english.paragraphs(), name=name), out)
        return out
    if name in READERS:
        return _reader(name, steps, out, seed)
    recipe = replace(RECIPES[name], steps=steps or RECIPES[name].steps, seed=seed)
    work = cache_dir() / "training" / (f"{name}-{seed}" if seed else name)
    work.mkdir(parents=True, exist_ok=True)
    cloze: tuple[Tensor, Tensor] | None
    if name in BIOGRAPHIES:
        tokenizer, prose, valid, cloze = biography_texts(*BIOGRAPHIES[name])
        cloze = None if name == WITHOUT_CLOZE else cloze
    else:
        tokenizer, prose, valid = _prose(recipe, new=name == "pocket-english")
        cloze = _agreement_rows(tokenizer) if name in STARTS else None
    torch.manual_seed(recipe.seed)
    if name in STARTS:  # begins with its own copy, in float32
        model = load_anew(_ensure_trained(STARTS[name]), "cpu", "float32").net.requires_grad_(True)
    else:
        model = pretrain.build(recipe)
    model.to(choose_device())
    ids, starts = prose
    records = pretrain.train(
        model, ids, starts, recipe, work / "checkpoint.safetensors", valid=valid, cloze=cloze
    )
    export(model, tokenizer, recipe, records, out)
    return out


def _ensure_trained(name: str) -> str:
    """The shipped model of a name; of one that is not shipped, its folder in the cache, trained if
    need be."""
    if hub.source(name) != name:
        return name
    folder = cache_dir() / "training" / name / "model"
    return str(folder if (folder / "training.json").exists() else train(name, out=folder))


def export(
    model: PreTrainedModel,
    tokenizer: BertTokenizerFast,
    recipe: Recipe,
    records: list[dict],
    out: Path,
) -> None:
    """Write float16 safetensors, configuration, tokenizer and training record to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    model.to("cpu", torch.float16).save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)  # repeats config.json
    tokenizer.save_pretrained(out)
    last = records[-1]
    _write_record(
        out,
        {
            "recipe": asdict(recipe),
            "parameters": sum(p.numel() for p in model.parameters()),
            "tokens": last["tokens"],
            "seconds": round(last["seconds"]),
            "loss": last["loss"],
            "valid_loss": last["valid_loss"],
            "torch": torch.__version__.split("+")[0],
            "device": _device(),
            "records": records,
        },
    )


def training_stories(regime: str, n: int = 3_000) -> pd.DataFrame:
    """The `n` stories (seed 1) that train a regime's reader, with its share of UNANSWERABLE."""
    unknown = UNANSWERABLE.get(regime, UNANSWERABLE["ot"])
    return stories.generate(n, seed=1, unknown=unknown)


def regime_training(
    recipe: Reader, regime: str, table: pd.DataFrame, deleted: str = "TS-R"
) -> tuple[Reader, pd.DataFrame]:
    """The recipe and the rows with which a regime trains on whole stories
    (`stories.versions.training`).

    "ot-matched" reads the stories of OT again until it has as many updates as IBT."""
    if regime == "ot-matched":
        updates = recipe.count_updates(training(table, "ibt", deleted))
        recipe = replace(recipe, updates=updates)
    return recipe, training(table, regime, deleted)


def _reader(name: str, updates: int | None, out: Path, seed: int) -> Path:
    """Train a reader of chapter 5 on generated stories, and save it."""
    regime, recipe = name.removeprefix(f"{BASE_READER}-"), READERS[name]
    tables = []
    if name != BASE_READER:
        recipe, rows = regime_training(recipe, regime, training_stories(regime))
        tables = [rows]
    if recipe.start is None:
        unknown = UNANSWERABLE.get(regime, UNANSWERABLE["ot"])
        short = stories.generate(40_000, seed=0, length=(1, 4), unknown=unknown)
        tables = [short, *tables]
    table = pd.concat(tables, ignore_index=True)
    recipe = replace(recipe, updates=updates or recipe.updates, seed=seed)
    reader = recipe.fit(table)
    reader.save(out)
    parameters = sum(p.numel() for p in reader.net.trained_parameters().values())
    _write_record(
        out,
        {
            "questions": len(table),
            "updates": recipe.count_updates(table),
            "device": _device(),
            "parameters": parameters,
            "torch": torch.__version__.split("+")[0],
        },
    )
    return out


def _write_record(folder: Path, record: dict) -> None:
    (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")


def _device() -> str:
    device = choose_device()
    if device.type == "cpu":
        return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    return gpu_name(device)


def _prose(recipe: Recipe, new: bool) -> tuple[BertTokenizerFast, tuple, tuple]:
    """Tokenizer, training text and validation text, stored in the cache.

    The validation text is the last half per cent of the paragraphs. The tokenizer is that of
    `pocket-english`, or a `new` one."""
    from transformers import BertTokenizerFast

    folder = cache_dir() / "training" / f"prose-{recipe.vocab}"
    if not (folder / "valid.safetensors").exists():
        paragraphs = list(english.paragraphs())
        tokenizer = (
            text.train_vocabulary(paragraphs, recipe.vocab)
            if new
            else BertTokenizerFast.from_pretrained(hub.source("pocket-english"))
        )
        tokenizer.save_pretrained(folder)
        held_out = len(paragraphs) // english.HELD_OUT
        for part, texts in (("train", paragraphs[:-held_out]), ("valid", paragraphs[-held_out:])):
            ids, starts = text.encode(text.sentences(texts), tokenizer)
            with atomic_write(folder / f"{part}.safetensors") as path:
                save_file({"ids": ids, "starts": starts}, path)
    train, valid = (load_file(folder / f"{part}.safetensors") for part in ("train", "valid"))
    return (
        BertTokenizerFast.from_pretrained(folder),
        (train["ids"], train["starts"]),
        (valid["ids"], valid["starts"]),
    )


def biography_texts(
    s: float, reweighted: bool, seed: int = 0, n: int = 200_000
) -> tuple[BertTokenizerFast, tuple, tuple, tuple[Tensor, Tensor]]:
    """Tokenizer of the world's words, training text, validation text, and a second task.

    The second task is to fill in the pronouns of the same texts. `benchmarks/selection.py` measures
    what the models learn without it. `seed` draws the texts; the shipped models have 0."""
    from transformers import BertTokenizerFast

    words = [*text.SPECIAL, *biographies.words()]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=True)
    train, valid = (
        biographies.generate(size, s, part, reweighted)
        for part, size in ((2 * seed, n), (2 * seed + 1, n // 50))
    )
    cloze = _fill_rows(tokenizer, train.masked.tolist(), train.pronoun.tolist())
    return tokenizer, *(text.encode(table.text, tokenizer) for table in (train, valid)), cloze


def _agreement_rows(tokenizer: BertTokenizerFast) -> tuple[Tensor, Tensor]:
    """Agreement sentences with the training nouns, six cells of equal size, to fill in the verb.

    Every third sentence ends right after the verb, so the model does not depend on what follows."""
    table = agreement.generate(60_000, seed=1, contingency=[[1, 1, 1], [1, 1, 1]], nouns="train")
    texts = [
        t if i % 3 else t.partition("[MASK]")[0] + "[MASK]." for i, t in enumerate(table["text"])
    ]
    return _fill_rows(tokenizer, texts, list(table["verb"]))


def _fill_rows(
    tokenizer: BertTokenizerFast, texts: list[str], words: list[str]
) -> tuple[Tensor, Tensor]:
    """Input ids [n, t] of texts with a [MASK], and labels with each text's word in its place."""
    inputs = tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    ids = torch.tensor(tokenizer.convert_tokens_to_ids(words))
    return inputs, torch.where(inputs == MASK, ids[:, None], inputs)
