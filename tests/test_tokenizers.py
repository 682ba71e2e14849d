"""Which token of a text is read: tokenizers without padding, offsets or all of their positions, chats
that bring their own special tokens, and texts that end with a blank."""

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from probebook.base import UserError
from probebook.models import embed
from probebook.models.batches import longest, positions, tokenize
from probebook.models.loading import load_anew

pytestmark = pytest.mark.library

SIZE = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))


def characters(*special, **named):
    """A tokenizer of single characters; `special` tokens are parts of texts as they stand."""
    signs = {sign: i for i, sign in enumerate([*special, *"abc \n"])}
    made = Tokenizer(models.WordLevel(signs, unk_token=special[0]))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **named)


def llama(folder, tokenizer):
    torch.manual_seed(0)
    net = hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=len(tokenizer), **SIZE))
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return load_anew(str(folder))


def read(model, text, at):
    """The tokens at which a text is read."""
    ids = tokenize([text], model)[1]["input_ids"][0]
    return [model.tokenizer.decode([ids[j]]) for j in positions([text], model, at)[0]]


def test_a_tokenizer_without_a_padding_token_pads_what_is_masked(tmp_path):
    model = llama(tmp_path, characters("?", unk_token="?"))
    assert model.tokenizer.pad_token is None
    texts = ["a b", "a b c a b c"]
    together = embed(texts, model, at="mean", cache=False)
    for text, h in zip(texts, together):
        alone = embed([text], model, at="mean", cache=False)[0]
        torch.testing.assert_close(h, alone, rtol=1e-5, atol=1e-6)


def test_last_reads_neither_a_blank_nor_a_line_break_nor_a_special_token(tmp_path):
    chat = characters("<|pad|>", "<|end|>", pad_token="<|pad|>", eos_token="<|end|>")
    model = llama(tmp_path, chat)
    for end in ("", " ", "\n", "<|end|>", "<|end|>\n", "\n\n<|end|> \n", "  <|end|><|end|>"):
        assert read(model, f"a b c{end}", "last") == ["c"]
    with pytest.raises(UserError, match=r"a token of a word is not in the text .* \(text 0\)"):
        positions(["<|end|>\n"], model, "last")
    same = embed(["a b c", "a b c<|end|>\n"], model, at="last")
    torch.testing.assert_close(same[0], same[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
def test_last_knows_the_signs_for_blanks_of_every_kind_of_tokenizer(tmp_path, kind):
    if kind == "bytes":
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        made = Tokenizer(models.BPE({"<pad>": 0} | {c: i + 1 for i, c in enumerate(alphabet)}, []))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
    else:
        made = Tokenizer(models.Unigram([("<pad>", 0.0), *((c, -1.0) for c in "▁abc猫à\n")], 0))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
    model = llama(tmp_path, hf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>"))
    for text in ("a b", "a \u00e0", "a 猫"):
        ids = tokenize([text], model)[1]["input_ids"][0]
        for end in ("", " ", "  ", "\n"):
            assert positions([text + end], model, "last")[0] == [len(ids) - 1]


def test_the_first_token_of_a_chat_is_there_once(tmp_path):
    tokenizer = characters("<s>", "</s>", "?", bos_token="<s>", eos_token="</s>", unk_token="?")
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    model = llama(tmp_path, tokenizer)
    plain = tokenize(["ab"], model)[1]["input_ids"]
    assert plain[0][0] == 0
    assert plain[0][-1] == 1
    for text in ("<s>ab", "<s>ab</s>", "<s><s>ab</s></s>\n", " <s>ab"):
        assert tokenize([text], model)[1]["input_ids"] == plain
    assert model.inputs("<s>ab")["input_ids"].tolist() == plain
    assert torch.equal(embed(["<s>ab"], model, at="last"), embed(["ab"], model, at="last"))


def test_a_tokenizer_that_adds_nothing_leaves_the_texts_special_tokens(tmp_path):
    model = llama(tmp_path, characters("<s>", "?", bos_token="<s>", unk_token="?"))
    assert tokenize(["<s>ab"], model)[1]["input_ids"] == [[0, 2, 3]]


@pytest.mark.parametrize(
    "text, word, rule, want",
    [
        ("b c", "c", "last", ["c"]),
        ("the dogs saw a dog.", "dog", "mean", ["d", "o", "g"]),
        ("the dogs saw a dog.", "dog", "first", ["d"]),
        ("Dog", "dog", "last", ["g"]),
    ],
)
def test_a_word_is_found_without_offsets(tmp_path, text, word, rule, want):
    t5 = hf.T5Config(
        vocab_size=384, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    hf.T5ForConditionalGeneration(t5).save_pretrained(tmp_path)
    hf.ByT5Tokenizer().save_pretrained(tmp_path)
    model = load_anew(str(tmp_path))
    assert not model.tokenizer.is_fast
    assert read(model, text, (rule, [word])) == want
    (places,) = positions([text], model, (rule, [word]))
    assert places[-1] == text.lower().replace("dogs", "    ").index(word) + len(want) - 1 or (
        rule == "last"
    )
    assert read(model, "a à\n", "last") == read(model, "a à", "last")


@pytest.mark.parametrize("kind", ["Roberta", "MPNet"])
def test_positions_before_paddings_are_not_counted(tmp_path, kind):
    tokenizer = characters("<s>", "?", bos_token="<s>", unk_token="?", pad_token="?")
    config = getattr(hf, f"{kind}Config")(
        vocab_size=len(tokenizer), max_position_embeddings=66, pad_token_id=1, **SIZE
    )
    getattr(hf, f"{kind}ForMaskedLM")(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load_anew(str(tmp_path))
    assert longest(model) == 64
    assert embed(["a" * 64], model, at="mean", cache=False).isfinite().all()
    with pytest.raises(UserError, match=r"65 tokens, .* reads at most 64.*\(text 1\)"):
        embed(["a", "a" * 65], model, at="mean", cache=False)
