"""Embedding and patching on a tiny random model of each architecture, against transformers."""

import os
import shutil
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from probebook import hub
from probebook.base import UserError
from probebook.corpora.words import single_tokens
from probebook.models import (
    carry,
    depth,
    embed,
    embed_layers,
    embedding,
    head_logits,
    load,
    patch,
    word_logits,
)
from probebook.models.batches import batches
from probebook.models.embedding import embed_poolings
from probebook.models.loading import load_anew
from probebook.models.twins import corrupted_twin
from probebook_training.text import train_vocabulary

pytestmark = pytest.mark.library

TEXTS = [
    "the cat near the dogs [MASK] on the mat .",
    "dogs [MASK] .",
    "a very old cat that saw the tall dogs often [MASK] the mat here .",
    "cats [MASK] dogs .",
    "the mat [MASK] the cat near the old dogs and the tall cats that saw it .",
]
SIZE = dict(
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)
SPECIAL = dict(pad_token_id=0, bos_token_id=2, eos_token_id=3)
ARCHITECTURES = {
    "bert": lambda v: hf.BertForMaskedLM(hf.BertConfig(vocab_size=v, **SIZE)),
    "roberta": lambda v: hf.RobertaForMaskedLM(hf.RobertaConfig(vocab_size=v, **SIZE, **SPECIAL)),
    "distilbert": lambda v: hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(
            vocab_size=v, dim=32, n_layers=3, n_heads=4, hidden_dim=64, max_position_embeddings=64
        )
    ),
    "prelayernorm": lambda v: hf.RobertaPreLayerNormForMaskedLM(
        hf.RobertaPreLayerNormConfig(vocab_size=v, **SIZE, **SPECIAL)
    ),
    "modernbert": lambda v: hf.ModernBertForMaskedLM(
        hf.ModernBertConfig(
            vocab_size=v,
            **SIZE,
            global_attn_every_n_layers=1,
            cls_token_id=2,
            sep_token_id=3,
            **SPECIAL,
        )
    ),
    "gpt2": lambda v: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=v,
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_positions=64,
            bos_token_id=2,
            eos_token_id=3,
        )
    ),
    "llama": lambda v: hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=v,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            bos_token_id=2,
            eos_token_id=3,
        )
    ),
    "encoder": lambda v: hf.BertModel(hf.BertConfig(vocab_size=v, **SIZE)),
}


def test_a_folder_without_its_tokenizer_is_refused(folders, tmp_path):
    """transformers makes a tokenizer of special tokens alone, to which every word is unknown."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(f"{folders['bert']}/{name}", tmp_path)
    with pytest.raises(
        UserError, match="has no vocabulary: save its tokenizer into the same folder"
    ):
        load_anew(str(tmp_path))


WITH_HEAD = [a for a in ARCHITECTURES if a != "encoder"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    tokenizer = train_vocabulary([t.replace("[MASK]", "sees") for t in TEXTS] * 20, 120)
    torch.manual_seed(0)
    made = {}
    for name, make in ARCHITECTURES.items():
        folder = tmp_path_factory.mktemp(name)
        net = make(len(tokenizer))
        for p in net.parameters():  # far from the near-linear start, so that mistakes show
            p.data.add_(0.1 * torch.randn_like(p))
        net.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        made[name] = str(folder)
    return made


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@torch.no_grad()
def reference(model, text):
    """(hidden states of every layer at [MASK], logits there) of one text, from transformers itself.

    For a decoder at the token before, from which it predicts the token in place of [MASK]."""
    ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
    at = (ids[0] == model.tokenizer.mask_token_id).nonzero()[0, 0] - int(model.kind == "causal")
    base = model.base(input_ids=ids, output_hidden_states=True)
    states = [h[0, at] for h in base.hidden_states[:-1]] + [base.last_hidden_state[0, at]]
    return torch.stack(states), None if model.kind == "encoder" else model.net(
        input_ids=ids
    ).logits[0, at]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_embed_equals_transformers_at_every_layer_in_the_callers_order(folders, name):
    model = load(folders[name])
    assert depth(folders[name]) == model.depth == 3
    want = torch.stack([reference(model, t)[0] for t in TEXTS])
    for layer in range(4):
        h = embed(TEXTS, model, layer)
        assert h.dtype == torch.float32
        torch.testing.assert_close(h, want[:, layer], rtol=1e-5, atol=1e-5)
        assert torch.equal(h, embed(TEXTS, model, layer - 4, cache=False))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_layers_of_one_pass_are_those_of_their_own(folders, name, cache, monkeypatch):
    model = load(folders[name])
    found = embed_layers(TEXTS, model, [-1, 0, 2])
    assert list(found) == [0, 2, 3]
    monkeypatch.setattr(
        "probebook.models.embedding.forward", lambda *a: pytest.fail("computed again")
    )
    assert all(torch.equal(embed(TEXTS, model, layer), h) for layer, h in found.items())
    monkeypatch.undo()
    assert all(
        torch.equal(embed(TEXTS, model, layer, cache=False), h) for layer, h in found.items()
    )


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("read", ["[MASK]", "last"])
def test_several_edits_are_carried_as_each_alone(folders, name, read):
    """Also in a batch with padding, whose mask the upper blocks read."""
    model = load(folders[name])
    for layer in range(model.depth + 1):
        h = embed(TEXTS, model, layer)
        edits = torch.stack([h, 2 * h, h.flip(0)])
        alone = torch.stack([carry(TEXTS, model, layer, "[MASK]", edit, read) for edit in edits])
        torch.testing.assert_close(
            carry(TEXTS, model, layer, "[MASK]", edits, read), alone, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", WITH_HEAD)
def test_patching_nothing_changes_nothing_and_the_head_reads_the_last_layer(folders, name):
    model = load(folders[name])
    logits = torch.stack([reference(model, t)[1] for t in TEXTS])
    for layer in range(4):
        torch.testing.assert_close(
            patch(TEXTS, model, layer, "[MASK]", None), logits, rtol=1e-5, atol=1e-4
        )
        torch.testing.assert_close(
            patch(TEXTS, model, layer, "[MASK]", lambda h: h), logits, rtol=1e-5, atol=1e-4
        )
    h = embed(TEXTS, model)
    torch.testing.assert_close(head_logits(h, model), logits, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(
        patch(TEXTS, model, -1, "[MASK]", 2 * h), head_logits(2 * h, model), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("name", WITH_HEAD)
def test_a_patched_embedding_acts_like_the_other_word(folders, name):
    """Swapping layer-0 states of one word for another's is the same as swapping the word."""
    model = load(folders[name])
    a, b = ["the old cat saw it , [MASK] ."], ["the old mat saw it , [MASK] ."]
    new = embed(b, model, 0, ("last", ["mat"]))
    got = patch(a, model, 0, ("last", ["cat"]), new)
    torch.testing.assert_close(got[0], reference(model, b[0])[1], rtol=1e-5, atol=1e-4)
    assert not torch.allclose(got[0], reference(model, a[0])[1], atol=1e-3)


def test_positions(folders):
    model = load(folders["bert"])
    text = ["dogs saw the mat [MASK] ."]
    ids = model.tokenizer(text[0])["input_ids"]
    with torch.no_grad():
        h = model.base(input_ids=torch.tensor([ids])).last_hidden_state[0]
    torch.testing.assert_close(embed(text, model, at="[CLS]")[0], h[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(embed(text, model, at="last")[0], h[-2], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        embed(text, model, at="mean")[0], h[1:-1].mean(0), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(
        embed([text[0], "a longer " * 3 + text[0]], model, at="max")[0],
        h[1:-1].amax(0),
        rtol=1e-5,
        atol=1e-5,
    )
    tokens = model.tokenizer.convert_ids_to_tokens(ids)
    torch.testing.assert_close(
        embed(text, model, at=("first", ["mat"]))[0], h[tokens.index("mat")], rtol=1e-5, atol=1e-5
    )
    unseen = ["catdog [MASK] ."]
    pieces = len(model.tokenizer.tokenize("catdog"))
    with torch.no_grad():
        h = model.base(
            input_ids=torch.tensor([model.tokenizer(unseen[0])["input_ids"]])
        ).last_hidden_state[0]
    assert pieces > 1
    for rule, want in (("first", h[1]), ("last", h[pieces]), ("mean", h[1 : pieces + 1].mean(0))):
        torch.testing.assert_close(
            embed(unseen, model, at=(rule, ["catdog"]))[0], want, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_several_poolings_from_one_pass_are_those_of_a_pass_each_and_kept(
    folders, kind, monkeypatch
):
    model, passes, forward = load(folders[kind]), [], embedding.forward
    texts = ["dogs saw the mat .", "a cat", "the mat saw a longer longer dog ."] * 3
    alone = {
        at: embed(texts, model, -1, at, cache=False) for at in ("mean", "[CLS]", "max", "last")
    }
    monkeypatch.setattr(embedding, "forward", lambda *args: passes.append(1) or forward(*args))
    embed(texts, model, -1, "mean")
    single = len(passes)
    found = embed_poolings(texts, model)
    assert len(passes) == 2 * single
    assert all(torch.equal(found[at], h) for at, h in alone.items())
    assert all(torch.equal(embed(texts, model, -1, at), h) for at, h in alone.items())
    assert embed_poolings(texts, model).keys() == alone.keys()
    assert len(passes) == 2 * single
    with pytest.raises(UserError, match="nothing to embed"):
        embed_poolings(["a cat", " "], model)


def test_batches_of_several_rules_are_those_of_each(folders):
    model = load(folders["bert"])
    for several, *alone in zip(
        *(batches(TEXTS, model, *at) for at in (("mean", "[CLS]"), ("mean",), ("[CLS]",)))
    ):
        assert all(several.rows == one.rows and torch.equal(several.ids, one.ids) for one in alone)
        assert all(
            torch.equal(of, one.weights)
            for of, one in zip((several.weights, *several.others), alone)
        )


def test_the_pooler_is_the_checkpoints_else_the_masked_heads_first_part(folders, tmp_path):
    h = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    both = hf.BertForPreTraining(hf.BertConfig(vocab_size=40, **SIZE)).eval()
    both.save_pretrained(tmp_path)
    load(folders["bert"]).tokenizer.save_pretrained(tmp_path)
    model = load_anew(str(tmp_path))
    assert model.kind == "masked"
    with torch.no_grad():
        torch.testing.assert_close(
            model.pooler(h), both.bert.pooler(h[:, None]), rtol=1e-5, atol=1e-8
        )
        encoder = load_anew(folders["encoder"])
        torch.testing.assert_close(
            encoder.pooler(h), torch.tanh(encoder.net.pooler.dense(h)), rtol=1e-5, atol=1e-8
        )
        for name, last in (
            ("bert", lambda net: net.cls.predictions.decoder),
            ("modernbert", lambda net: net.decoder),
            ("distilbert", lambda net: net.vocab_projector),
            ("roberta", lambda net: net.lm_head.decoder),
        ):
            model = load(folders[name])
            torch.testing.assert_close(
                last(model.net)(model.pooler(h)),
                head_logits(h, model),
                rtol=1e-5,
                atol=1e-5,
                msg=lambda text: f"{name}: {text}",
            )
    with pytest.raises(UserError, match="has no pooler"):
        print(load(folders["gpt2"]).pooler)


def test_a_twin_goes_on_with_shuffled_words_and_leaves_the_model_as_it_was(folders, cache):
    texts = [t.replace("[MASK]", "sees") for t in TEXTS]
    before = load_anew(folders["bert"], "cpu").fingerprint
    twins = {
        steps: corrupted_twin(folders["bert"], texts, steps, batch=2, lr=1e-2) for steps in (1, 40)
    }
    assert (
        load(folders["bert"], "cpu").fingerprint
        == before
        != twins[1].fingerprint
        != twins[40].fingerprint
    )
    shuffled = [" ".join(reversed(t.split())) for t in texts]

    def surprise(model):
        tokens = model.tokenizer(shuffled, return_tensors="pt", padding=True)
        with torch.no_grad():
            logits = model.net(**tokens).logits
        return torch.nn.functional.cross_entropy(
            logits[tokens.attention_mask == 1], tokens.input_ids[tokens.attention_mask == 1]
        ).item()

    assert surprise(twins[40]) < surprise(load(folders["bert"], "cpu")) - 0.5
    (file, other) = sorted((cache / "corrupted").glob("*.safetensors"))
    assert (
        corrupted_twin(folders["bert"], texts, 40, batch=2, lr=1e-2).fingerprint
        == twins[40].fingerprint
    )
    for path in (file, other):
        path.unlink()
    assert (
        corrupted_twin(folders["bert"], texts, 40, batch=2, lr=1e-2).fingerprint
        == twins[40].fingerprint
    )
    for name, steps in (("gpt2", 5), ("bert", 0)):
        with pytest.raises(UserError, match="a masked language model, 1 step or more"):
            corrupted_twin(folders[name], texts, steps)


@pytest.mark.parametrize("name", WITH_HEAD)
def test_word_logits_are_the_heads(folders, name):
    model = load(folders[name])
    got = word_logits(TEXTS[:2], model, [["cat", "mat"], ["the", "cat"]])
    logits = torch.stack([reference(model, t)[1] for t in TEXTS[:2]])
    ids = [single_tokens([word], model.tokenizer)[word] for word in ("cat", "mat", "the")]
    want = torch.stack([logits[0, ids[:2]], logits[1, [ids[2], ids[0]]]])
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)


def test_cache_is_used_and_keyed_by_weights_layer_position_and_texts(folders, cache, monkeypatch):
    model = load(folders["bert"])
    h = embed(TEXTS, model)
    monkeypatch.setattr(
        "probebook.models.embedding._states", lambda *a: pytest.fail("computed again")
    )
    assert torch.equal(embed(TEXTS, model), h)
    for other in (
        dict(model=model, layer=1),
        dict(model=model, at="[CLS]"),
        dict(model=load(folders["roberta"])),
    ):
        with pytest.raises(pytest.fail.Exception):
            embed(TEXTS, **other)
    with pytest.raises(pytest.fail.Exception):
        embed(TEXTS[::-1], model)


@pytest.mark.parametrize("spoil", ["truncate", "flip"])
def test_a_corrupt_cache_entry_is_computed_again_with_a_warning(folders, cache, spoil):
    model = load(folders["bert"])
    h = embed(TEXTS, model)
    (path,) = (cache / "embeddings").glob("*.safetensors")
    if spoil == "truncate":
        path.write_bytes(path.read_bytes()[:-40])
    else:
        with_other_numbers = {"h": load_file(path)["h"] + 1}
        save_file(with_other_numbers, path, metadata={"sha256": "0"})
    with pytest.warns(UserWarning, match="corrupt"):
        assert torch.equal(embed(TEXTS, model), h)
    assert torch.equal(embed(TEXTS, model), h)


def test_an_interrupted_write_leaves_nothing(folders, cache, monkeypatch):
    def broken(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("probebook.models.cache.save_file", broken)
    with pytest.raises(KeyboardInterrupt):
        embed(TEXTS, load(folders["bert"]))
    assert not list((cache / "embeddings").glob("*.safetensors"))


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda m: embed([], m), "nothing to embed"),
        (lambda m: embed(["a cat [MASK]", "  "], m), "nothing to embed"),
        (lambda m: embed(TEXTS, m, layer=99), "layer 99: .* has layers 0 … 3"),
        (lambda m: embed(["no mask here"], m), "'no mask here'"),
        (
            lambda m: embed(["a cat [MASK]"], m, at=("last", ["dog"])),
            "'dog' is not in the text 'a cat",
        ),
        (lambda m: embed(["a cat [MASK]"], m, at="[SEP]"), "not a known position"),
        (lambda m: embed(["a cat [MASK]"], m, at=("last", [])), "one word per text"),
        (lambda m: embed(["cat " * 100 + "[MASK]"], m), "reads at most 64"),
        (lambda m: patch(TEXTS, m, 1, "mean", lambda h: h), "patch one token"),
        (lambda m: word_logits(TEXTS[:1], m, [["zebra", "cat"]]), "not a single token .* zebra"),
        (lambda m: load("no/such-model"), "'no/such-model' is not a known model"),
    ],
)
def test_bad_input_gets_one_line(folders, call, says, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match=says) as error:
        call(load(folders["bert"]))
    assert "\n" not in str(error.value)


def test_a_pocket_models_depth_is_its_configurations():
    names = [path.parent.name for path in hub.POCKET.glob("*/config.json")]
    assert len(names) > 5
    assert all(hub.pocket_depth(name) == depth(name) for name in names)


@pytest.mark.parametrize(
    "error", [ConnectionError("no network"), TimeoutError(), ValueError("no name")]
)
def test_the_hub_is_asked_once(monkeypatch, tmp_path, error):
    """Without a cached copy: refused. With one: read, and the hub's client does not retry."""
    asked = []
    monkeypatch.setattr(
        "huggingface_hub.get_hf_file_metadata", lambda url: asked.append(url) or raised(error)
    )
    with pytest.raises(UserError, match="'no/such' is not a known model: expected a pocket model"):
        hub.is_local.__wrapped__("no/such")
    assert len(asked) == 1
    assert asked[0].endswith("no/such/resolve/main/config.json")
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache", lambda name, file: str(tmp_path / file)
    )
    assert hub.is_local.__wrapped__("no/such")
    assert len(asked) == 2
    assert hub.is_local.__wrapped__(str(tmp_path))
    assert hub.is_local.__wrapped__("pocket-english")
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("status", "local"), [(429, False), (503, False), (404, None), (401, None)]
)
def test_a_hub_in_trouble_is_asked_by_its_own_client(monkeypatch, status, local):
    error = OSError()
    error.response = SimpleNamespace(status_code=status)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda url: raised(error))
    if local is None:
        with pytest.raises(UserError, match="'no/such' is not a known model"):
            hub.is_local.__wrapped__("no/such")
    else:
        assert hub.is_local.__wrapped__("no/such") is local


def raised(error):
    raise error


def test_a_model_without_a_head_gives_no_logits(folders):
    with pytest.raises(UserError, match="no language-model head"):
        head_logits(torch.zeros(1, 32), folders["encoder"])


@pytest.mark.skipif(os.name != "posix", reason="POSIX paths")
def test_an_unwritable_cache_is_one_line(folders, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match="PROBEBOOK_CACHE"):
        embed(TEXTS, load(folders["bert"]))
