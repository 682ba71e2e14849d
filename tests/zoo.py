"""Fifteen architectures with random weights, tiny widths and tokenizers of their own kind."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import chain
from pathlib import Path

import torch
import transformers as hf
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from conftest import KEPT
from probebook.base import UserError
from probebook.corpora import agreement, mgc, predicate_argument, reviews, stories, winogender
from probebook_runs import model_checks
from probebook_runs.execute import PageFailed, ended_early, execute
from probebook_runs.pages import Page
from probebook_runs.records import read_record
from probebook_runs.store import plan
from probebook_runs.warm import ForkServer

WIDTH, LONGEST, VOCABULARY = 48, 512, 1_500
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,?!'-:;"
SIZE = dict(
    hidden_size=WIDTH,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    initializer_range=0.3,
)
LONG = dict(max_position_embeddings=LONGEST)
SIDES = {
    f"{side}_{what}": n
    for side in ("encoder", "decoder")
    for what, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
}
BERT = dict(
    pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
)
ROBERTA = dict(
    bos_token="<s>",
    pad_token="<pad>",
    eos_token="</s>",
    unk_token="<unk>",
    cls_token="<s>",
    sep_token="</s>",
    mask_token="<mask>",
)
PIECES = dict(
    pad_token="<pad>", unk_token="<unk>", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
)


def texts() -> Iterable[str]:
    """Text of all chapters, from which the tokenizers learn their words."""
    return chain(
        (
            row.text.replace("[MASK]", verb)
            for row in agreement.generate(1_500).itertuples()
            for verb in (row.verb, row.other_verb)
        ),
        reviews.generate(300).description,
        stories.generate(100, 1).story,
        winogender.simplified().text,
        mgc.texts("time").text.head(200),
        predicate_argument.questions("original").story,
        ["she he her him his hers they them their woman man girl boy yes no unknown"] * 50,
    )


@cache
def _words(lowercase: bool) -> list[str]:
    """The most frequent words of the texts."""
    found = Counter(
        word
        for text in texts()
        for word in re.findall(r"\w+|[^\w\s]", text.lower() if lowercase else text)
    )
    return [word for word, _ in found.most_common(VOCABULARY - 200)]


def _word_piece(lowercase: bool) -> Tokenizer:
    pieces = [*BERT.values(), *LETTERS, *(f"##{letter}" for letter in LETTERS), *_words(lowercase)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.add_special_tokens([*BERT.values()])
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return _between(made, "[CLS]", "[SEP]")


def _bytes(special: dict[str, str], first: str = "", last: str = "") -> Tokenizer:
    """Pairs of bytes, joined until every subject and verb of the agreement world is one token."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2 * VOCABULARY,
        special_tokens=[*dict.fromkeys(special.values())],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts(), trainer)
    return _between(made, first, last)


def _unigram(
    special: dict[str, str],
    first: str = "",
    last: str = "",
    lowercase: bool = False,
    more: Iterable[str] = (),
) -> Tokenizer:
    tokens = [*dict.fromkeys([*special.values(), *more])]
    pieces = [
        *((token, 0.0) for token in tokens),
        *((f"▁{word}", -5.0) for word in _words(lowercase)),
        *((letter, -9.0) for letter in f"▁{LETTERS}"),
    ]
    made = Tokenizer(models.Unigram(pieces, tokens.index(special["unk_token"])))
    made.add_special_tokens(tokens)
    if lowercase:
        made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return _between(made, first, last)


def _between(made: Tokenizer, first: str, last: str) -> Tokenizer:
    """A tokenizer that puts special tokens around a text."""
    if first or last:
        ends = [(token, made.token_to_id(token)) for token in (first, last) if token]
        words = [word for word in (first, "$A", last) if word]
        more = [word for word in ("$B", last) if word]
        made.post_processor = processors.TemplateProcessing(
            single=" ".join(words), pair=" ".join([*words, *more]), special_tokens=ends
        )
    return made


def _sentinels(n: int = 100) -> list[str]:
    return [f"<extra_id_{i}>" for i in range(n)]


ENDS = dict(pad_token_id=0, bos_token_id=0, eos_token_id=0)
# name → special tokens, tokenizer, network of a vocabulary v
ZOO = {
    "bert": (
        BERT,
        lambda: _word_piece(True),
        lambda v: hf.BertForMaskedLM(hf.BertConfig(vocab_size=v, **LONG, **SIZE)),
    ),
    "roberta": (
        ROBERTA,
        lambda: _bytes(ROBERTA, "<s>", "</s>"),
        lambda v: hf.RobertaForMaskedLM(
            hf.RobertaConfig(
                vocab_size=v,
                max_position_embeddings=LONGEST + 2,
                pad_token_id=1,
                bos_token_id=0,
                eos_token_id=2,
                **SIZE,
            )
        ),
    ),
    "distilbert": (
        BERT,
        lambda: _word_piece(False),
        lambda v: hf.DistilBertForMaskedLM(
            hf.DistilBertConfig(
                vocab_size=v,
                dim=WIDTH,
                n_layers=2,
                n_heads=4,
                hidden_dim=64,
                initializer_range=0.3,
                **LONG,
            )
        ),
    ),
    "albert": (
        PIECES,
        lambda: _unigram(PIECES, "[CLS]", "[SEP]", lowercase=True),
        lambda v: hf.AlbertForMaskedLM(
            hf.AlbertConfig(
                vocab_size=v,
                embedding_size=24,
                pad_token_id=0,
                bos_token_id=2,
                eos_token_id=3,
                **LONG,
                **SIZE,
            )
        ),
    ),
    "electra": (
        BERT,
        lambda: _word_piece(True),
        lambda v: hf.ElectraForMaskedLM(
            hf.ElectraConfig(vocab_size=v, embedding_size=24, **LONG, **SIZE)
        ),
    ),
    "deberta": (
        PIECES,
        lambda: _unigram(PIECES, "[CLS]", "[SEP]"),
        lambda v: hf.DebertaV2ForMaskedLM(
            hf.DebertaV2Config(
                vocab_size=v,
                relative_attention=True,
                position_buckets=32,
                pos_att_type=["p2c", "c2p"],
                norm_rel_ebd="layer_norm",
                share_att_key=True,
                position_biased_input=False,
                pad_token_id=0,
                **LONG,
                **SIZE,
            )
        ),
    ),
    "modernbert": (
        BERT,
        lambda: _bytes(BERT, "[CLS]", "[SEP]"),
        lambda v: hf.ModernBertForMaskedLM(
            hf.ModernBertConfig(
                vocab_size=v,
                pad_token_id=0,
                bos_token_id=2,
                eos_token_id=3,
                cls_token_id=2,
                sep_token_id=3,
                **LONG,
                **SIZE,
            )
        ),
    ),
    "xlnet": (
        dict(
            unk_token="<unk>",
            bos_token="<s>",
            eos_token="</s>",
            cls_token="<cls>",
            sep_token="<sep>",
            pad_token="<pad>",
            mask_token="<mask>",
        ),
        None,
        lambda v: hf.XLNetLMHeadModel(
            hf.XLNetConfig(
                vocab_size=v,
                d_model=WIDTH,
                n_layer=2,
                n_head=4,
                d_inner=64,
                pad_token_id=5,
                bos_token_id=1,
                eos_token_id=2,
                initializer_range=0.3,
            )
        ),
    ),
    "gpt2": (
        dict(eos_token="<|endoftext|>", bos_token="<|endoftext|>"),
        lambda: _bytes({"eos": "<|endoftext|>"}),
        lambda v: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=v,
                n_embd=WIDTH,
                n_layer=2,
                n_head=4,
                n_positions=LONGEST,
                initializer_range=0.3,
                **ENDS,
            )
        ),
    ),
    "gpt_neox": (
        dict(eos_token="<|endoftext|>", bos_token="<|endoftext|>"),
        lambda: _bytes({"eos": "<|endoftext|>"}),
        lambda v: hf.GPTNeoXForCausalLM(
            hf.GPTNeoXConfig(vocab_size=v, bos_token_id=0, eos_token_id=0, **LONG, **SIZE)
        ),
    ),
    "opt": (
        dict(bos_token="</s>", eos_token="</s>", pad_token="<pad>", unk_token="</s>"),
        lambda: _bytes({"pad": "<pad>", "eos": "</s>"}, "</s>"),
        lambda v: hf.OPTForCausalLM(
            hf.OPTConfig(
                vocab_size=v,
                hidden_size=WIDTH,
                word_embed_proj_dim=WIDTH,
                num_hidden_layers=2,
                num_attention_heads=4,
                ffn_dim=64,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
                init_std=0.3,
                **LONG,
            )
        ),
    ),
    "llama": (
        dict(unk_token="<unk>", bos_token="<s>", eos_token="</s>"),
        lambda: _unigram(dict(unk_token="<unk>", bos="<s>", eos="</s>"), "<s>"),
        lambda v: hf.LlamaForCausalLM(
            hf.LlamaConfig(vocab_size=v, bos_token_id=1, eos_token_id=2, **LONG, **SIZE)
        ),
    ),
    "qwen": (
        dict(eos_token="<|im_end|>", pad_token="<|endoftext|>"),
        lambda: _bytes({"pad": "<|endoftext|>", "eos": "<|im_end|>"}),
        lambda v: hf.Qwen2ForCausalLM(
            hf.Qwen2Config(
                vocab_size=v, num_key_value_heads=2, bos_token_id=0, eos_token_id=1, **LONG, **SIZE
            )
        ),
    ),
    "t5": (
        dict(pad_token="<pad>", eos_token="</s>", unk_token="<unk>"),
        lambda: _unigram(
            dict(pad="<pad>", eos="</s>", unk_token="<unk>"), last="</s>", more=_sentinels()
        ),
        lambda v: hf.T5ForConditionalGeneration(
            hf.T5Config(
                vocab_size=v,
                d_model=WIDTH,
                d_kv=12,
                d_ff=64,
                num_layers=2,
                num_heads=4,
                feed_forward_proj="gated-gelu",
                decoder_start_token_id=0,
                pad_token_id=0,
                eos_token_id=1,
                initializer_factor=2.0,
                tie_word_embeddings=False,
            )
        ),
    ),
    "bart": (
        ROBERTA,
        lambda: _bytes(ROBERTA, "<s>", "</s>"),
        lambda v: hf.BartForConditionalGeneration(
            hf.BartConfig(
                vocab_size=v,
                d_model=WIDTH,
                pad_token_id=1,
                bos_token_id=0,
                eos_token_id=2,
                decoder_start_token_id=2,
                forced_eos_token_id=None,
                init_std=0.3,
                **LONG,
                **SIDES,
            )
        ),
    ),
}


def _xlnet(special: dict[str, str]) -> hf.PreTrainedTokenizerFast:
    """XLNet's own class, which puts its special tokens at a text's end and pads on the left."""
    pieces = json.loads(_unigram(special).to_str())["model"]["vocab"]
    return hf.XLNetTokenizerFast(vocab=[(piece, score) for piece, score in pieces], **special)


def save(folder: Path) -> None:
    """A folder for each architecture."""
    for name, (special, words, build) in ZOO.items():
        if words and special.get("mask_token") in ("<mask>", "[MASK]") and special is not BERT:
            # as the original tokenizers do, it takes the space before it
            special = special | {"mask_token": AddedToken(special["mask_token"], lstrip=True)}
        tokenizer = (
            _xlnet(special)
            if words is None
            else hf.PreTrainedTokenizerFast(
                tokenizer_object=words(), model_max_length=LONGEST, **special
            )
        )
        torch.manual_seed(0)
        build(len(tokenizer)).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


def kept() -> dict[str, str]:
    """The fifteen at a place of their own, where finished runs are found again. Several of pytest's
    workers ask for them at once: the first to finish puts its whole folder there."""
    made = hashlib.sha256(Path(__file__).read_bytes() + hf.__version__.encode()).hexdigest()
    folder = KEPT / "zoo" / made[:12]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=folder.parent))
        save(new)
        try:
            new.rename(folder)
        except OSError:  # another worker was first
            shutil.rmtree(new)
    return {name: str(folder / name) for name in ZOO}


def takes(page: Page) -> bool:
    """Whether a page can be given a model."""
    return any(True for _ in model_checks.named_models(page.types, plan(page, "smoke").values))


def values(page: Page, model: str) -> dict:
    """The smoke profile's parameters, where they name a model, with this one in its place; oracles
    judge though they know nothing, so that a page runs on."""
    types, found = page.types, {"fewest": 0}
    if "model" in types:
        found["model"] = model
    elif "models" in types:
        found["models"] = [model]
    if "encoder" in types:
        found |= {"encoder": model, "train": 4}
    if "encoders" in types:
        found["encoders"] = [f"{model} mean", "pocket-vectors mean"]
    if "twins" in types:
        found |= {
            "twins": [f"corrupted-1:{model}"],
            "others": [f"random:{model} mean", "pocket-vectors mean"],
        }
    return {name: value for name, value in found.items() if name in types}


def outcome(page: Page, model: str, server: ForkServer | None = None) -> tuple[str, str, float]:
    """What becomes of a page, in smoke, with a model: "runs"; "ends early", and why; "refused"
    before a kernel starts, and why; or "fails", and where. Then the run's seconds."""
    try:
        run = plan(page, "smoke", values(page, model))
        model_checks.check_models(page.types, run.values)
    except UserError as e:
        return "refused", str(e), 0.0
    try:
        execute(run, server=server)
    except PageFailed as e:
        return "fails", str(e), 0.0
    why = ended_early(run.read())
    return "ends early" if why else "runs", why, read_record(run.folder).seconds
