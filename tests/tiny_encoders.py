"""Tiny encoders of the three kinds in chapter 5's paper, with random weights, saved as folders."""

import torch
import transformers as hf

from probebook_training.text import SPECIAL

LONGEST = 512
SIZE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
ENCODERS = {
    "bert": lambda v: hf.BertForMaskedLM(
        hf.BertConfig(vocab_size=v, max_position_embeddings=LONGEST, **SIZE)
    ),
    "roberta": lambda v: hf.RobertaForMaskedLM(
        hf.RobertaConfig(
            vocab_size=v,
            max_position_embeddings=LONGEST + 2,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            **SIZE,
        )
    ),
    "xlnet": lambda v: hf.XLNetLMHeadModel(
        hf.XLNetConfig(
            vocab_size=v,
            d_model=32,
            n_layer=2,
            n_head=4,
            d_inner=64,
            pad_token_id=5,
            bos_token_id=1,
            eos_token_id=2,
        )
    ),
}


def save(folder, words) -> dict[str, str]:
    """A folder for each kind of encoder, whose vocabulary has the words (for BERT also letters)."""
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789.,?'-"]  # training would not always give
    entries = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *words]  # the same
    vocabulary = {entry: i for i, entry in enumerate(dict.fromkeys(entries))}
    made, pieces = {}, hf.BertTokenizerFast(vocab=vocabulary, do_lower_case=True)
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]
    unigram = hf.XLNetTokenizerFast(
        vocab=[
            (w, 0.0 if w in special else -1.0)
            for w in [*special, *(f"▁{w}" for w in [*words, ".", "?"])]
        ]
    )
    torch.manual_seed(0)
    for name, make in ENCODERS.items():
        tokenizer = unigram if name == "xlnet" else pieces
        make(len(tokenizer)).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        made[name] = str(folder / name)
    return made
