"""Stand-ins for what the papers' own sweeps need: tiny random models of the same architectures, and
a few lines of every corpus in its own format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import torch
import transformers as hf

import tiny_encoders
from probebook.corpora import probing_tasks, stories
from probebook.measures.specification import LISTS
from probebook.models import load
from test_paper_profile import _corpus
from test_paper_readers import as_coqa

WIDTH, LONGEST = 48, 512  # ranks go to 40
SIZE = dict(
    hidden_size=WIDTH,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    initializer_range=0.3,
)
SIDES = {
    f"{side}_{what}": n
    for side in ("encoder", "decoder")
    for what, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
}
SPECIAL = dict(pad_token_id=0, bos_token_id=2, eos_token_id=3)
ARCHITECTURES = {
    "bert": lambda v: hf.BertForMaskedLM(
        hf.BertConfig(vocab_size=v, max_position_embeddings=LONGEST, **SIZE)
    ),
    "roberta": lambda v: hf.RobertaForMaskedLM(
        hf.RobertaConfig(vocab_size=v, max_position_embeddings=LONGEST + 2, **SPECIAL, **SIZE)
    ),
    "gpt2": lambda v: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=v,
            n_embd=WIDTH,
            n_layer=2,
            n_head=4,
            n_positions=LONGEST,
            bos_token_id=2,
            eos_token_id=3,
        )
    ),
    "bart": lambda v: hf.BartForConditionalGeneration(
        hf.BartConfig(
            vocab_size=v,
            d_model=WIDTH,
            max_position_embeddings=LONGEST,
            decoder_start_token_id=3,
            forced_eos_token_id=None,
            **SIDES,
            **SPECIAL,
        )
    ),
    "t5": lambda v: hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=v,
            d_model=WIDTH,
            d_kv=12,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            feed_forward_proj="gated-gelu",
            pad_token_id=0,
            eos_token_id=3,
            decoder_start_token_id=0,
            tie_word_embeddings=False,
        )
    ),
}
MODELS = {  # model: architecture
    "bert-base-uncased": "bert",
    "bert-large-uncased": "bert",
    "bert-base-multilingual-cased": "bert",
    "roberta-base": "roberta",
    "roberta-large": "roberta",
    "gpt2": "gpt2",
    "gpt2-xl": "gpt2",
    "facebook/bart-base": "bart",
    "facebook/bart-large": "bart",
    "google/ul2": "t5",
    "google/flan-ul2": "t5",
    "xlnet-base-cased": "xlnet",
    "xlnet-large-cased": "xlnet",
}
TASKS = "past_present", "bigram_shift", "coordination_inversion", "sentence_length"
SIXTHS = dict(enumerate(["tr", "tr", "tr", "tr", "va", "te"]))


def save_models(folder: Path, words: list[str]) -> dict[str, str]:
    """A folder for each model; `words` make the vocabulary of XLNet's."""
    made = {}
    for i, (name, kind) in enumerate(MODELS.items()):
        place = folder / name.replace("/", "-")
        made[name] = str(place)
        if kind == "xlnet":
            made[name] = tiny_encoders.save(place, words)["xlnet"]
            continue
        tokenizer = load("pocket-english").tokenizer
        if kind == "t5":
            tokenizer = hf.AutoTokenizer.from_pretrained(tokenizer.name_or_path)
            tokenizer.mask_token = None
            tokenizer.add_tokens(["<extra_id_0>", "<extra_id_1>"], special_tokens=True)
        torch.manual_seed(i)
        net = ARCHITECTURES[kind](len(tokenizer))
        with torch.no_grad():  # pronouns are often among the best tokens
            rows = tokenizer.convert_tokens_to_ids([w for ws in LISTS.values() for w in ws])
            net.get_output_embeddings().weight[rows] *= 8
        net.save_pretrained(place)
        tokenizer.save_pretrained(place)
    return made


def as_hotpotqa(table: pd.DataFrame) -> list[dict]:
    """Generated stories in HotpotQA's format: one paragraph, its rationale as supporting facts."""
    found = []
    for i, row in enumerate(table.itertuples()):
        sentences = [row.story[start:end] for start, end in row.sentences]
        facts = [["story", row.sentences.index(span)] for span in row.rationale]
        if facts:
            found.append(
                {
                    "_id": str(i),
                    "question": row.question,
                    "answer": row.answer,
                    "context": [["story", sentences]],
                    "supporting_facts": facts,
                }
            )
    return found


def write_data(folder: Path, per_class: int = 200) -> list[str]:
    """Every corpus of the sweeps; returns the words of the stories."""
    words: set[str] = set()
    for part, seed in (("dev", 5), ("train", 6)):
        table = stories.generate(4, seed, length=(4, 6))
        (folder / f"coqa-{part}.json").write_text(json.dumps(as_coqa(table, part == "dev")))
        (folder / f"hotpotqa-{part}.json").write_text(json.dumps(as_hotpotqa(table)[:40]))
        for text in (*table.story, *table.question):
            words |= {*re.findall(r"\w+", text.lower())}
    (folder / "agreement").mkdir(exist_ok=True)
    _corpus(folder / "agreement")
    senteval, sentences = folder / "senteval", probing_tasks.sentences("plain", 6_000)
    senteval.mkdir(exist_ok=True)
    for task in TASKS:
        table = probing_tasks.generate(task, sentences)
        table = table.groupby("z").head(per_class).reset_index(drop=True)
        labels = probing_tasks._LABELS.get(task, ["O", "I"])
        parts = table.groupby("z").cumcount().mod(6).map(SIXTHS)
        lines = (
            "\t".join((part, labels[z], text)) for part, z, text in zip(parts, table.z, table.text)
        )
        (senteval / f"{task}.txt").write_text("\n".join(lines) + "\n")
    draws = torch.Generator().manual_seed(0)
    known = sorted({word.lower() for text in sentences[:500] for word in text.split()})
    vectors = torch.randn(len(known), WIDTH, generator=draws).tolist()
    (folder / "glove.txt").write_text(
        "\n".join(
            " ".join((word, *(f"{x:.3f}" for x in vector))) for word, vector in zip(known, vectors)
        )
    )
    return sorted(words)
