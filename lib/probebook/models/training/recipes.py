"""How the shipped pocket models are made: `train("pocket-english")`, its twin, then `train("pocket-agreement")`.

The text is the project's public-domain prose (`corpora.english`) and its agreement generator; nothing else.
Training state lies in the cache folder, so a killed run goes on where it stopped."""
from __future__ import annotations

import json
import platform
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import torch
from safetensors.numpy import load_file, save_file

from probebook import hub
from probebook.base import UserError, cache_dir, written_whole
from probebook.corpora import agreement, biographies, english, stories
from probebook.corpora.stories.versions import REGIMES, training
from probebook.models import static
from probebook.models.loading import POCKET, load
from probebook.models.readers import Reader
from probebook.models.training import pretrain, text
from probebook.models.training.pretrain import Recipe
from probebook.models.training.text import MASK

RECIPES = {
    "pocket-english": Recipe(),
    "pocket-english-gpt": Recipe(arch="causal", steps=8_000),
    "pocket-agreement": Recipe(steps=1_000, lr=1e-3, rows=32, warmup=50, decay=.7),
}
SELECTED = {f"pocket-biographies-s{100 * s:02.0f}": (s, False) for s in (0, .25, .5, .75, 1)}   # strength, reweighted
SELECTED["pocket-biographies-s75-reweighted"] = (.75, True)
UNASKED = "pocket-biographies-s50-unasked"                    # its pronouns are masked as often as any word, no more
SELECTED[UNASKED] = (.5, False)
RECIPES |= dict.fromkeys(SELECTED, Recipe(vocab=len(text.SPECIAL) + len(biographies.words()), layers=3, width=96,
                                          max_length=48, steps=5_500, warmup=100))
RECIPES[UNASKED] = replace(RECIPES[UNASKED], steps=4_000)

READERS = {"pocket-stories": Reader(tokens=1_024, lr=2e-3, max_length=256)}            # of short stories, from which
READERS |= {f"pocket-stories-{regime}": Reader(start="pocket-stories", tokens=1_024, lr=1e-3, max_length=256)
            for regime in REGIMES}                                                       # all but one begin
READERS["pocket-stories-ot-answered"] = READERS["pocket-stories"]
UNANSWERED = {"ot": .01, "ot-answered": 0, "ot-unknown": .2}      # share of questions without an answer: as in CoQA,
                                                                  # none, many; other readers as "ot"

def train(name: str, steps: int | None = None, out: Path | None = None) -> Path:
    """Train a pocket model and export it to `out` (default data/models/<name>); returns the folder.

    `steps`: another length than the recipe's. Given the vocabulary (kept in the cache) deterministic for one thread
    count; resumes after a kill. Raises UserError for an unknown name."""
    hub.check_recipe(name)
    if name == "pocket-vectors":
        if steps:
            raise UserError("pocket-vectors are computed, not trained in steps: leave --steps out")
        static.export(static.fit(english.paragraphs(), name=name), Path(out or POCKET / name))
        return Path(out or POCKET / name)
    if name in READERS:
        return _reader(name, steps, Path(out or POCKET / name))
    recipe = replace(RECIPES[name], **({"steps": steps} if steps else {}))
    work = cache_dir() / "training" / name
    work.mkdir(parents=True, exist_ok=True)
    tokenizer, prose, valid, cloze = _biographies(*SELECTED[name]) if name in SELECTED else (*_prose(recipe), None)
    torch.manual_seed(recipe.seed)
    if name == "pocket-agreement":
        model = load.__wrapped__("pocket-english", "cpu").net.requires_grad_(True)     # a copy of its own, in float32
        cloze = _agreement_rows(tokenizer)
    else:
        model = pretrain.build(recipe)
    cloze = None if name == UNASKED else cloze
    if torch.cuda.is_available():
        model.cuda()
    records = pretrain.train(model, *prose, recipe, work / "checkpoint.safetensors", valid=valid, cloze=cloze)
    out = Path(out or POCKET / name)
    export(model, tokenizer, recipe, records, out)
    return out


def export(model, tokenizer, recipe: Recipe, records: list[dict], out: Path) -> None:
    """Write float16 safetensors, configuration, tokenizer and the training record to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    model.to("cpu", torch.float16).save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)                  # says what config.json says
    tokenizer.save_pretrained(out)
    last = records[-1]
    record = {"recipe": asdict(recipe), "parameters": sum(p.numel() for p in model.parameters()),
              "tokens": last["tokens"], "seconds": round(last["seconds"]), "loss": last["loss"],
              "valid_loss": last["valid_loss"], "torch": torch.__version__.split("+")[0],
              "device": _device(), "records": records}
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")


def told(regime: str, n: int = 3_000) -> pd.DataFrame:
    """The `n` stories from which a regime's reader is trained, seed 1; `UNANSWERED` questions have no answer."""
    return stories.generate(n, seed=1, unknown=UNANSWERED.get(regime, UNANSWERED["ot"]))


def by_regime(recipe: Reader, regime: str, table: pd.DataFrame, deleted: str = "TS-R") -> tuple[Reader, pd.DataFrame]:
    """The recipe and the rows with which a regime trains on a table of whole stories (`stories.versions.training`).

    "ot-matched" sees the stories of OT as often as it takes for as many updates as IBT has."""
    if regime == "ot-matched":
        recipe = replace(recipe, updates=recipe.count(training(table, "ibt", deleted)))
    return recipe, training(table, regime, deleted)


def _reader(name, updates, out):
    """Fit a reader of chapter 5 on generated stories (`updates`: another number than the recipe's), and save it."""
    regime, recipe = name.removeprefix("pocket-stories-"), READERS[name]
    tables = []
    if regime != name:
        recipe, rows = by_regime(recipe, regime, told(regime))
        tables = [rows]
    if recipe.start is None:
        short = UNANSWERED.get(regime, UNANSWERED["ot"])
        tables = [stories.generate(40_000, seed=0, length=(1, 4), unknown=short), *tables]
    table = pd.concat(tables, ignore_index=True)
    recipe = replace(recipe, updates=updates or recipe.updates)
    reader = recipe.fit(table)
    reader.save(out)
    record = {"questions": len(table), "updates": recipe.count(table), "device": _device(),
              "parameters": sum(p.numel() for p in reader.net.trained().values()),
              "torch": torch.__version__.split("+")[0]}
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    return out


def _device():
    cpu = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else cpu


def _prose(recipe):
    """Tokenizer, training text and validation text (the last half per cent of the paragraphs), kept in the cache."""
    from transformers import BertTokenizerFast

    folder = cache_dir() / "training" / f"prose-{recipe.vocab}"
    if not (folder / "valid.safetensors").exists():
        paragraphs = list(english.paragraphs())
        tokenizer = text.train_vocabulary(paragraphs, recipe.vocab)
        tokenizer.save_pretrained(folder)
        held = len(paragraphs) // 200
        for part, texts in (("train", paragraphs[:-held]), ("valid", paragraphs[-held:])):
            ids, starts = text.encode(text.sentences(texts), tokenizer)
            with written_whole(folder / f"{part}.safetensors") as path:
                save_file({"ids": ids, "starts": starts}, path)
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    train, valid = (load_file(folder / f"{part}.safetensors") for part in ("train", "valid"))
    return tokenizer, (train["ids"], train["starts"]), (valid["ids"], valid["starts"])


def _biographies(s, reweighted, n=200_000):
    """Tokenizer of the world's words, training text, validation text, and the same texts with [MASK] for the pronoun.

    Without the last the models learn all but what little a pronoun depends on w (s = .5: slope 0 after 4,000 steps)."""
    from transformers import BertTokenizerFast

    vocabulary = [*text.SPECIAL, *biographies.words()]
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(vocabulary)}, do_lower_case=True)
    tables = [biographies.generate(size, s, seed, reweighted) for seed, size in ((0, n), (1, n // 50))]
    inputs = tokenizer(tables[0].masked.tolist(), padding=True, return_tensors="pt")["input_ids"]
    pronouns = torch.tensor(tokenizer.convert_tokens_to_ids(tables[0].pronoun.tolist()))
    cloze = inputs, torch.where(inputs == MASK, pronouns[:, None], inputs)
    return tokenizer, *(text.encode(table.text, tokenizer) for table in tables), cloze


def _agreement_rows(tokenizer, n: int = 60_000):
    """Agreement sentences with the training nouns, six cells alike: input ids with [MASK] at the verb, and labels.

    Every third sentence ends right after the verb, so that what follows it is not needed."""
    table = agreement.generate(n, seed=1, contingency=[[1, 1, 1], [1, 1, 1]], nouns="train")
    texts = [t if i % 3 else t.partition("[MASK]")[0] + "[MASK]." for i, t in enumerate(table["text"])]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    verbs = torch.tensor(tokenizer.convert_tokens_to_ids(list(table["verb"])))
    return inputs, torch.where(inputs == MASK, verbs[:, None], inputs)
