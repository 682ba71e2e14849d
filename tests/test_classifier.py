"""Classifiers on tiny random networks: they learn, twice the same, and N is the head of φ(x)."""

import gc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.models import classifier
from probebook.models.classifier import Classifier, labels, shorten
from probebook.models.training.finetune import LSTM, Head, Trainer, torch_seed, train_head
from probebook_training.text import SPECIAL

pytestmark = pytest.mark.library

WORDS = {"Negative": "bad", "Positive": "good", "unknown": ""}
QUICK = dict(epochs=12, lr=3e-3, batch=16)


def reviews(n=96, seed=0):
    """Reviews that name an aspect only if it has a polarity; the first two decide the stars."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        found = dict(zip(ASPECTS, rng.choice(VALUES, size=4)))
        parts = [f"the {a} was {WORDS[v]} ." for a, v in found.items() if WORDS[v]]
        score = sum({"Positive": 1, "Negative": -1}.get(found[a], 0) for a in ("food", "service"))
        rows.append(
            {
                "id": i,
                "description": " ".join(["we came here ."] + parts),
                "review_majority": str(score + 3),
            }
            | {f"{a}_aspect_majority": v for a, v in found.items()}
        )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    words = SPECIAL + sorted({word for text in reviews().description for word in text.split()})
    tokenizer = hf.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})
    torch.manual_seed(0)
    size = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    made = {
        "bert": hf.BertForMaskedLM(
            hf.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **size)
        ),
        "gpt2": hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=len(tokenizer),
                n_embd=32,
                n_layer=2,
                n_head=2,
                n_positions=64,
                bos_token_id=2,
                eos_token_id=3,
            )
        ),
        "bart": hf.BartForConditionalGeneration(
            hf.BartConfig(
                vocab_size=len(tokenizer),
                d_model=16,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=16,
                decoder_ffn_dim=16,
                pad_token_id=0,
                bos_token_id=2,
                eos_token_id=3,
                decoder_start_token_id=2,
                forced_eos_token_id=3,
            )
        ),
    }
    folders = {}
    for name, net in made.items():
        folders[name] = str(tmp_path_factory.mktemp(name))
        for p in net.parameters():  # so that random states tell texts apart
            p.data.add_(0.05 * torch.randn_like(p))
        net.save_pretrained(folders[name])
        tokenizer.save_pretrained(folders[name])
    return folders


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def accuracy(model, table):
    texts, z = model.recipe.examples(table, model.body)
    return float((model(texts).argmax(1) == z).double().mean())


@pytest.mark.parametrize(
    "encoder, settings, least",
    [
        ("bert", {}, 0.95),
        ("gpt2", {}, 0.95),
        ("bert", dict(trained_layers=1), 0.95),
        (
            "bert",
            dict(lstm=True, epochs=40, lr=1e-3),
            0.95,
        ),  # at 3e-3 one seed of ten learns nothing
        ("bert", dict(frozen=True, at="mean", epochs=60, lr=1e-2), 0.8),
    ],
)  # of a random encoder
def test_it_learns_stars_that_words_tell_and_its_probabilities_are_the_heads(
    encoders, encoder, settings, least
):
    recipe = Classifier("binary", encoders[encoder], **QUICK | settings)
    model, held_out = recipe.fit(reviews(200)), reviews(100, seed=1)
    assert accuracy(model, held_out) > least
    texts = list(held_out.description)
    p, h = model(texts), model.phi(texts)
    assert p.dtype == torch.float64
    assert p.shape == (100, 2) == (len(h), recipe.k)
    torch.testing.assert_close(p, model.head(h).double().softmax(1), rtol=1e-5, atol=1e-5)


def test_of_a_cut_encoder_the_upper_layers_alone_are_kept_and_a_cut_below_the_first_layer_is_none(
    encoders, cache
):
    recipe, train = Classifier("binary", encoders["bert"], **QUICK | {"epochs": 2}), reviews(40)
    whole, part, same = (replace(recipe, trained_layers=k).fit(train) for k in (None, 1, 2))
    texts = list(reviews(10, seed=1).description)
    assert torch.equal(whole(texts), same(texts))
    assert not torch.allclose(whole(texts), part(texts), atol=1e-3)
    kept = min(
        (load_file(path).keys() for path in (cache / "classifiers").glob("*.safetensors")), key=len
    )
    layers = {key for key in kept if key.startswith("body.")}
    assert layers
    assert all("layer.0." in key or "pooler" in key for key in layers)  # not the embeddings
    again = replace(recipe, trained_layers=1).fit(train)
    assert torch.equal(again(texts), part(texts))


def test_phi_is_the_first_tokens_state_of_an_encoder_and_the_last_words_of_a_decoder(encoders):
    texts = list(reviews(5).description)
    for name, place in (("bert", 0), ("gpt2", -2)):  # the tokenizer ends with [SEP]
        model = Classifier("binary", encoders[name], epochs=1).fit(reviews())
        for text, h in zip(texts, model.phi(texts)):
            with torch.no_grad():
                ids = model.body.tokenizer(text, return_tensors="pt")["input_ids"].to(
                    model.body.device
                )
                torch.testing.assert_close(
                    model.body.base(ids).last_hidden_state[0, place].cpu(), h, rtol=1e-5, atol=1e-5
                )


def test_of_an_encoder_decoder_the_encoder_reads(encoders):
    model = Classifier(encoder=encoders["bart"], epochs=1, frozen=True).fit(reviews())
    text = reviews().description.iloc[0]
    ids = model.body.tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        states = model.body.net(input_ids=ids).last_hidden_state[0]
    place = 0 if model.body.tokenizer.cls_token else -1
    torch.testing.assert_close(model.phi([text])[0], states[place], rtol=1e-5, atol=1e-5)


def test_a_text_is_embedded_once_whatever_it_is_asked_with(encoders, monkeypatch):
    texts, read = list(reviews(12).description), []
    texts = [f"{text} {'food ' * i}" for i, text in enumerate(texts)]
    model = Classifier("binary", encoders["bert"], epochs=1).fit(reviews())
    embed = classifier.embed
    monkeypatch.setattr(
        classifier, "embed", lambda new, *args, **kw: read.extend(new) or embed(new, *args, **kw)
    )
    some = model.phi([texts[3], texts[1], texts[3]])
    whole = model.phi(texts)
    assert len(read) == len(texts)
    assert torch.equal(some, whole[[3, 1, 3]])
    torch.testing.assert_close(whole, embed(texts, model.body, at="[CLS]"), rtol=1e-5, atol=1e-5)


def test_the_head_is_differentiable_in_the_state():
    head, h = Head.initial(6, 3, 0), torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda h: Head(*(20 * t for t in head.tensors().values()))(h), h
    )
    net = head.net(0.5).eval()
    torch.testing.assert_close(net(h.float()), head(h.float()), rtol=1e-5, atol=1e-8)
    assert torch.equal(Head.from_module(net).dense, head.dense)


def test_the_same_fit_gives_the_same_numbers_and_another_seed_others(
    encoders, monkeypatch, tmp_path
):
    recipe = Classifier("ternary", encoders["bert"], **QUICK | {"epochs": 2})
    texts, found = list(reviews(20).description), []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / folder))
        drawn = torch.rand(1)
        found.append(Classifier(**vars(recipe) | {"seed": seed}).fit(reviews())(texts))
        assert not torch.equal(drawn, torch.rand(1))  # torch's own numbers go on
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2], atol=1e-3)


def test_a_finished_fit_is_not_done_again_and_a_damaged_one_is(encoders, cache, monkeypatch):
    recipe = Classifier("binary", encoders["bert"], epochs=1)
    first = recipe.fit(reviews())
    with monkeypatch.context() as patched:
        patched.setattr(Classifier, "_train", lambda *_: pytest.fail("trained again"))
        texts = list(reviews(20).description)  # as read after training, to the bit
        assert torch.equal(recipe.fit(reviews()).phi(texts), first.phi(texts))
        for name, epochs in (("bert", 2), ("gpt2", 1)):
            with pytest.raises(pytest.fail.Exception):
                Classifier("binary", encoders[name], epochs=epochs).fit(reviews())
        with pytest.raises(pytest.fail.Exception):
            recipe.fit(reviews(95))
    (path,) = (cache / "classifiers").glob("*.safetensors")
    tensors = load_file(path)
    save_file(tensors | {"head.out": tensors["head.out"] + 1}, path, metadata={"sha256": "0"})
    with pytest.warns(UserWarning, match="corrupt"):
        assert torch.equal(recipe.fit(reviews()).head.out, first.head.out)


def test_tasks_leave_out_what_has_no_class(encoders):
    stars = ["1", "2", "3", "4", "5", "no majority", None]
    table = pd.DataFrame({"description": list("abcdefg"), "review_majority": stars})
    for task, want in (
        ("binary", [0, 0, 1, 1]),
        ("ternary", [0, 0, 1, 2, 2]),
        ("5-way", [0, 1, 2, 3, 4]),
    ):
        recipe = Classifier(task, encoders["bert"])
        texts, z = recipe.examples(table, recipe.body())
        assert z.tolist() == want
        assert len(texts) == len(want)
        assert recipe.k == max(want) + 1
        assert ("c" in texts) == (task != "binary")


def test_the_aspect_model_reads_text_and_aspect(encoders):
    train, held_out = reviews(200), reviews(40, seed=1)
    recipe = Classifier("aspect", encoders["bert"], lstm=True, epochs=16, lr=8e-3, batch=16)
    texts, z = recipe.examples(train.assign(food_aspect_majority=""), recipe.body())
    assert len(texts) == 600
    assert texts[0] == f"{train.description[0]} [SEP] service"
    assert z[0] == VALUES.index(train.service_aspect_majority[0])
    model = recipe.fit(train)
    found = model.aspects(held_out.description)
    assert found.shape == (40, 4)
    assert (found == labels(held_out)).mean() > 0.9
    with pytest.raises(UserError, match="knows no aspects"):
        Classifier("binary", encoders["bert"], epochs=1).fit(train).aspects(["we came"])


def test_long_texts_are_cut_and_short_ones_are_left(encoders):
    body = Classifier(encoder=encoders["bert"]).body()
    long, short = "the food was good . " * 40, "the food was bad ."
    cut = shorten([long, short], body, 16)
    assert cut[1] == short
    assert long.startswith(cut[0])
    assert len(body.tokenizer(cut[0])["input_ids"]) == 16
    recipe = Classifier("aspect", encoders["bert"], max_length=16)
    asked = recipe.aspect_texts([long], body)
    assert all(
        len(body.tokenizer(text)["input_ids"]) <= 16 and text.endswith(a)
        for text, a in zip(asked, ASPECTS)
    )


def test_the_lstm_attends_as_its_formula_says_and_not_to_padding():
    net = LSTM(torch.randn(20, 8))
    ids = torch.tensor([[3, 4, 5, 0, 0]])
    with torch.no_grad():
        h = net.layers[0](net.embeddings(ids[:, :3]))[0][0]
        context = (h @ h.T).softmax(1) @ h
        want = torch.cat([context, h], 1) @ net.join.weight.T
        got = net(ids, (ids != 0).long()).last_hidden_state[0, :3]
    torch.testing.assert_close(got, want.tanh(), rtol=1e-5, atol=1e-6)


def test_an_epoch_reads_every_text_once_with_its_like(encoders):
    body = Classifier(encoder=encoders["bert"]).body()
    texts = list(reviews(100).description)
    trainer = Trainer(body, texts, "[CLS]", body.base.parameters(), 3, 8, 1e-3, 0)
    per_epoch = len(trainer.orders) // 3
    for i in range(3):
        assert sorted(
            r for rows in trainer.orders[i * per_epoch : (i + 1) * per_epoch] for r in rows
        ) == list(range(100))
    spread = np.mean([np.ptp([len(trainer.ids[r]) for r in rows]) for rows in trainer.orders])
    assert spread < 0.3 * np.ptp([len(ids) for ids in trainer.ids])
    assert trainer.orders[0] != trainer.orders[per_epoch]


def test_a_training_that_is_broken_off_leaves_torch_as_it_was(encoders):
    """Even while its exception is alive, and when that is collected."""
    body = Classifier(encoder=encoders["bert"]).body()
    trainer = Trainer(
        body, list(reviews(100).description), "[CLS]", body.base.parameters(), 1, 8, 1e-3, 0
    )

    def loss(rows, h, hidden):
        torch.rand(1)
        assert body.net.config._attn_implementation == "eager"
        raise KeyboardInterrupt

    assert body.net.config._attn_implementation == "sdpa"
    state = torch.random.get_rng_state()
    with torch.no_grad():
        with pytest.raises(KeyboardInterrupt) as kept:
            trainer.fit(loss)
        assert not torch.is_grad_enabled()
        assert torch.equal(torch.random.get_rng_state(), state)
        assert body.net.config._attn_implementation == "sdpa"
        del kept
        gc.collect()
        assert not torch.is_grad_enabled()
        assert torch.equal(torch.random.get_rng_state(), state)


def test_a_head_trained_alone_fits_what_a_head_can_and_zero_epochs_are_no_training():
    g = torch.Generator().manual_seed(0)
    z = torch.randint(3, (300,), generator=g)
    h = torch.randn(3, 8, generator=g)[z] + 0.3 * torch.randn(300, 8, generator=g)
    start = Head.initial(8, 3, 0)
    assert train_head(h, z, start, 0, 32, 1e-2, 0) is start
    trained = train_head(h, z, start, 20, 32, 1e-2, 0)
    assert (
        (trained(h).argmax(1) == z).double().mean()
        > 0.95
        > (start(h).argmax(1) == z).double().mean()
    )


def test_seeded_numbers_do_not_disturb_others():
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    with torch_seed(1):
        torch.rand(7)
    assert torch.equal(torch.rand(3), want)


@pytest.mark.parametrize(
    "call, says",
    [
        (
            lambda e: Classifier("4-way"),
            "'4-way' is not a valid task: expected binary, ternary, 5-way, aspect",
        ),
        (lambda e: Classifier(epochs=0), "epochs and batch must be ≥ 1"),
        (lambda e: Classifier(lr=-1), "lr > 0"),
        (
            lambda e: Classifier(at="last"),
            "'last' is not a valid value of at: expected token, mean",
        ),
        (lambda e: Classifier(trained_layers=0), "trained_layers=0: at least 1, or None for all"),
        (
            lambda e: Classifier(encoder=e["bert"]).fit(reviews().query("review_majority != '5'")),
            "class 4 has no example",
        ),
        (
            lambda e: Classifier(encoder=e["bert"]).fit(reviews().assign(review_majority="")),
            "class 0 has no example",
        ),
        (
            lambda e: Classifier(encoder=e["bert"]).fit(reviews().drop(columns="review_majority")),
            "no column review_maj",
        ),
        (
            lambda e: Classifier("aspect", e["bert"]).fit(
                reviews().drop(columns="noise_aspect_majority")
            ),
            "no column noise",
        ),
        (
            lambda e: Classifier("aspect", e["bert"]).fit(
                reviews().replace("Positive", "positive")
            ),
            "'positive' is not a valid food_aspect_majority: expected Negative, Positive, unknown",
        ),
    ],
)
def test_bad_input_gets_one_line(encoders, call, says):
    with pytest.raises(UserError, match=says) as error:
        call(encoders)
    assert "\n" not in str(error.value)
