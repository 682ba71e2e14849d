"""Filled blanks on a tiny random model of each architecture, against transformers' generation."""

import json

import pytest
import torch
import transformers as hf
from tokenizers import ByteLevelBPETokenizer

from probebook.base import UserError
from probebook.models import PROMPTS, Filled, Prompt, fill, load, pieces
from probebook_training.text import train_vocabulary

pytestmark = pytest.mark.library

TEXTS = [
    "In 1921, [MASK] was a child.",
    "In Mali, [MASK] will be an adult, and the old man knew it.",
    "[MASK] became a teenager.",
    "In 2016, [MASK] has been a kid.",
    "In 1801, [MASK] was a child.",
]
PLAIN = [t.replace("[MASK]", word) for t in TEXTS for word in ("she", "he", "they")]
PLAIN += [p.template.replace("{sentence}", t) for p in PROMPTS.values() for t in PLAIN[:3]]
SIZE = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=160,
)
BERT_IDS = dict(pad_token_id=0, bos_token_id=2, eos_token_id=3)
BYTE_IDS = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2)
HALF = dict(
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    max_position_embeddings=160,
    forced_eos_token_id=None,
    tie_word_embeddings=False,
)
ARCHITECTURES = {  # name: tokenizer, network
    "bert": ("pieces", lambda v: hf.BertForMaskedLM(hf.BertConfig(vocab_size=v, **SIZE))),
    "modernbert": (
        "pieces",
        lambda v: hf.ModernBertForMaskedLM(
            hf.ModernBertConfig(
                vocab_size=v,
                **SIZE,
                global_attn_every_n_layers=1,
                cls_token_id=2,
                sep_token_id=3,
                **BERT_IDS,
            )
        ),
    ),
    "roberta": (
        "bytes",
        lambda v: hf.RobertaForMaskedLM(hf.RobertaConfig(vocab_size=v, **SIZE, **BYTE_IDS)),
    ),
    "gpt2": (
        "gpt",
        lambda v: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=v,
                n_embd=32,
                n_layer=2,
                n_head=4,
                n_positions=160,
                tie_word_embeddings=False,
                bos_token_id=0,
                eos_token_id=0,
            )
        ),
    ),
    "llama": (
        "pieces",
        lambda v: hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=v, **SIZE, **BERT_IDS)),
    ),
    "bart": (
        "bytes",
        lambda v: hf.BartForConditionalGeneration(
            hf.BartConfig(vocab_size=v, **HALF, decoder_start_token_id=2, **BYTE_IDS)
        ),
    ),
    "t5": (
        "unigram",
        lambda v: hf.T5ForConditionalGeneration(
            hf.T5Config(
                vocab_size=v,
                d_model=32,
                d_kv=8,
                d_ff=64,
                num_layers=2,
                num_heads=4,
                pad_token_id=0,
                eos_token_id=1,
                decoder_start_token_id=0,
                tie_word_embeddings=False,
            )
        ),
    ),
}
MASKED, CAUSAL = ["bert", "modernbert", "roberta"], ["gpt2", "llama"]


def tokenizers():
    texts = 20 * PLAIN
    bytes_ = ByteLevelBPETokenizer()
    bytes_.train_from_iterator(
        texts,
        vocab_size=500,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    )
    made = {}
    for name, make in (("bytes", hf.RobertaTokenizer), ("gpt", hf.GPT2Tokenizer)):
        names = (
            {} if name == "bytes" else dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<s>")
        )
        state = json.loads(bytes_.to_str())["model"]
        made[name] = make(vocab=state["vocab"], merges=[tuple(m) for m in state["merges"]], **names)
    words = sorted({"▁" + w for w in " ".join(PLAIN).split()} | set("".join(PLAIN)) - {" "})
    made["unigram"] = hf.T5Tokenizer(
        vocab=[("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -9.0), ("▁", -4.0)]
        + [(w, -3.0 if w.startswith("▁") else -6.0) for w in words],
        extra_ids=3,
    )
    return made | {"pieces": train_vocabulary(texts, 200)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made, kinds = {}, tokenizers()
    for name, (kind, make) in ARCHITECTURES.items():
        folder = tmp_path_factory.mktemp(name)
        torch.manual_seed(0)
        net = make(len(kinds[kind]))
        for p in net.parameters():  # far from the near-uniform start, so that mistakes show
            p.data.add_(0.1 * torch.randn_like(p))
        if name == "t5":  # or a token is always followed by itself
            net.shared.weight.data.mul_(0.05)
        net.save_pretrained(folder)
        kinds[kind].save_pretrained(folder)
        made[name] = str(folder)
    return made


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))


def plain(model, rows):
    """The Filled that logits [positions, vocabulary] make, with k = 5."""
    tokens, top = [], []
    for p in rows.softmax(-1):
        best = p.argsort(descending=True)[:5].tolist()
        words = [model.tokenizer.decode([i]).strip(" ") for i in best]
        tokens.append(words[0])
        top.append(
            {w: sum(p[i].item() for i, other in zip(best, words) if other == w) for w in words}
        )
    return Filled(tokens, top)


def same(got, want):
    assert got.tokens == want.tokens
    assert len(got.top) == len(want.top)
    for a, b in zip(got.top, want.top):
        assert a == pytest.approx(b, abs=1e-5)
        assert list(a.values()) == sorted(a.values(), reverse=True)
        assert sum(a.values()) < 1


def start(model, text):
    ids = model.tokenizer(text)["input_ids"]
    return torch.tensor([ids[:-1] if ids[-1] == model.tokenizer.sep_token_id else ids])


@torch.no_grad()
def greedy(model, text, steps):
    """Logits [steps, vocabulary] of one text by repeated argmax, without cached keys or an end."""
    ids, rows = start(model, text), []
    for _ in range(steps):
        rows.append(model.net(input_ids=ids).logits[0, -1])
        ids = torch.cat([ids, rows[-1].argmax().reshape(1, 1)], 1)
    return torch.stack(rows)


def until(logits, ends):
    """The rows before the first whose argmax is an end."""
    return logits[
        : next((i for i, row in enumerate(logits) if int(row.argmax()) in ends), len(logits))
    ]


@pytest.mark.parametrize("name", MASKED)
def test_masked_is_the_softmax_at_the_mask(folders, name):
    model = load(folders[name])
    for text, got in zip(TEXTS, fill(TEXTS, model)):
        ids = model.tokenizer(
            text.replace("[MASK]", model.tokenizer.mask_token), return_tensors="pt"
        )["input_ids"]
        with torch.no_grad():
            same(
                got,
                plain(model, model.net(input_ids=ids).logits[ids == model.tokenizer.mask_token_id]),
            )


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("prompt", "ABC")
def test_causal_is_argmax_after_argmax(folders, name, prompt):
    model = load(folders[name])
    for text, got in zip(TEXTS, fill(TEXTS, model, prompt, steps=6)):
        same(
            got,
            plain(
                model,
                until(greedy(model, PROMPTS[prompt](text), 6), [model.net.config.eos_token_id]),
            ),
        )


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_is_what_transformers_generates(folders, name):
    model = load(folders[name])
    ids = start(model, PROMPTS["A"](TEXTS[1]))
    out = model.net.generate(
        ids,
        max_new_tokens=6,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=0,
    )
    want = until(torch.cat(out.logits), [model.net.config.eos_token_id])
    same(fill(TEXTS[1:2], model, "A", steps=6)[0], plain(model, want))


@pytest.mark.parametrize("name", CAUSAL)
def test_the_end_of_the_sequence_ends_it_and_is_no_position(folders, name, monkeypatch):
    model = load(folders[name])
    free = [greedy(model, PROMPTS["B"](t), 8) for t in TEXTS]
    first, third = (int(free[0][i].argmax()) for i in (0, 2))
    for ends in (third, [9999, first]):
        monkeypatch.setattr(model.net.generation_config, "eos_token_id", ends)
        found, ends = fill(TEXTS, model, "B", steps=8), [ends] if isinstance(ends, int) else ends
        for row, got in zip(free, found):
            same(got, plain(model, until(row, [*ends, model.tokenizer.eos_token_id])))
        assert len(found[0].tokens) < 3
    assert found[0] == Filled([], [])


def test_barts_blank_is_what_its_decoder_says_after_the_words_before_it(folders):
    model = load(folders["bart"])
    for text, got in zip(TEXTS, fill(TEXTS, model)):
        ids = model.tokenizer(text.replace("[MASK]", "<mask>"), return_tensors="pt")["input_ids"]
        at = ids[0].tolist().index(model.tokenizer.mask_token_id)
        with torch.no_grad():  # the paper's way: the masked sentence, shifted, to the decoder
            same(got, plain(model, model.net(input_ids=ids).logits[0, at : at + 1]))
        begin = torch.cat([torch.tensor([[2]]), ids[:, :at]], 1)
        out = model.net.generate(
            ids,
            decoder_input_ids=begin,
            do_sample=False,
            max_new_tokens=1,
            num_beams=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
        same(got, plain(model, out.logits[0]))


@pytest.mark.parametrize("name, prompt", [("t5", None), ("t5", "A"), ("bart", "B")])
def test_encoder_decoders_are_what_transformers_generates(folders, name, prompt):
    model = load(folders[name])
    begin = [model.net.config.decoder_start_token_id]
    if prompt is None:
        begin += [model.tokenizer.convert_tokens_to_ids("<extra_id_0>")]
    for text, got in zip(TEXTS, fill(TEXTS, model, prompt, steps=6)):
        asked = PROMPTS[prompt](text) if prompt else text.replace("[MASK]", "<extra_id_0>")
        ids = model.tokenizer(asked, return_tensors="pt")["input_ids"]
        out = model.net.generate(
            ids,
            decoder_input_ids=torch.tensor([begin]),
            max_new_tokens=6,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            num_beams=1,
        )
        ends = [model.tokenizer.eos_token_id, model.tokenizer.convert_tokens_to_ids("<extra_id_1>")]
        same(got, plain(model, until(torch.cat(out.logits), ends[: 1 if prompt else 2])))


def test_the_next_sentinel_ends_a_span(folders, monkeypatch):
    model = load(folders["t5"])
    whole = [f.tokens for f in fill(TEXTS, model, steps=6)]
    assert {len(row) for row in whole} == {6}
    end = next(t for t in model.tokenizer.get_vocab() if t.strip("▁") == whole[0][2])
    monkeypatch.setattr("probebook.models.decoding.NEXT_SENTINEL", end)
    cut = [f.tokens for f in fill(TEXTS, model, steps=6)]
    assert cut == [row[: row.index(whole[0][2])] if whole[0][2] in row else row for row in whole]
    assert cut != whole


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_together_is_one_by_one(folders, name):
    model, prompt = load(folders[name]), "C" if name in CAUSAL else None
    together = fill(TEXTS, model, prompt, k=5, steps=5)
    for text, got in zip(TEXTS, together):
        same(got, fill([text], model, prompt, k=5, steps=5)[0])
    assert [f.tokens for f in fill(TEXTS, model, prompt, k=1, steps=5)] == [
        f.tokens for f in together
    ]


def test_tokens_read_as_words():
    marked = Filled.of(
        [(" she", [(" she", 0.5), ("he", 0.1), ("▁he", 0.2), ("Ġshe", 0.05), ("##he", 0.01)])]
    )
    assert marked.tokens == ["she"]
    assert marked.top[0] == pytest.approx({"she": 0.55, "he": 0.3, "##he": 0.01})
    swapped = Filled.of([("a", [("a", 0.4), ("he", 0.3), (" he", 0.2)])])
    assert swapped.tokens == ["a"]
    assert list(swapped.top[0]) == ["he", "a"]


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "t5"])
def test_pieces_tell_what_fill_can_show(folders, name):
    model = load(folders[name])
    every = fill(
        TEXTS[:1], model, "A" if name == "gpt2" else None, k=len(model.tokenizer), steps=1
    )[0].top[0]
    assert sum(every.values()) == pytest.approx(1, abs=1e-4)
    for word in ("she", "they", "shethey", "theyshe"):
        assert (word in every) == (pieces(word, model) == [word]) == (len(word) < 5)


def test_the_prompts_of_a_caller_and_of_the_paper():
    text = "In 1921, [MASK] was {a} child."
    assert PROMPTS["A"](text).endswith(
        "indicated by a <mask>.\nPassage: In 1921, <mask> was {a} child.\nAnswer:"
    )
    assert (
        PROMPTS["B"](text)
        == "The gendered pronoun missing in this sentence: 'In 1921, _ was {a} child.', is"
    )
    assert (
        PROMPTS["C"](text)
        == "In this sentence: 'In 1921, _ was {a} child.', the missing gendered pronoun is"
    )
    assert Prompt("{sentence} =", "?")(text) == "In 1921, ? was {a} child. ="


@pytest.mark.parametrize(
    "name, call, says",
    [
        ("bert", lambda m: fill(TEXTS, m, "A"), "leave the prompt out"),
        (
            "gpt2",
            lambda m: fill(TEXTS, m, "D"),
            "'D' is not a valid name of a prompt: expected A, B, C",
        ),
        ("gpt2", lambda m: fill(TEXTS, m, Prompt("no place", "_")), "expected {sentence}"),
        (
            "bert",
            lambda m: fill(["no blank here"], m),
            "'no blank here' is not a valid text: expected one .MASK. in it",
        ),
        ("bert", lambda m: fill(["[MASK] and [MASK]"], m), "expected one .MASK. in it"),
        ("bert", lambda m: fill([], m), "no texts"),
        ("bert", lambda m: fill(TEXTS, m, k=0), "k=0"),
        ("bert", lambda m: fill(TEXTS, m, k=9999), "k=9999"),
        ("gpt2", lambda m: fill(TEXTS, m, "A", steps=0), "steps=0"),
        (
            "gpt2",
            lambda m: fill([130 * "he " + "[MASK]"], m, "A"),
            "reads at most 140 when 20 are to follow",
        ),
        ("bart", lambda m: fill([200 * "he " + "[MASK]"], m), "reads at most 159 when 1"),
    ],
)
def test_bad_input_gets_one_line(folders, name, call, says):
    with pytest.raises(UserError, match=says) as error:
        call(load(folders[name]))
    assert "\n" not in str(error.value)


def test_a_model_is_read_in_the_precision_asked_for(folders):
    rough, exact = (load(folders["bert"], dtype=dtype) for dtype in (torch.bfloat16, None))
    assert next(rough.net.parameters()).dtype == torch.bfloat16
    a, b = (list(fill(TEXTS[:1], m)[0].top[0].values()) for m in (rough, exact))
    assert a != b
    assert a == pytest.approx(b, rel=0.1)
    assert list(fill(TEXTS[:1], folders["bert"])[0].top[0].values()) == pytest.approx(b, abs=1e-5)


def test_an_encoder_decoder_without_blanks_needs_a_prompt(folders, tmp_path):
    load(folders["t5"]).net.save_pretrained(tmp_path)
    load(folders["gpt2"]).tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="neither a mask token nor <extra_id_0>: give a prompt"):
        fill(TEXTS, str(tmp_path))
