"""A network cut in two computes what the whole one does, and reads a text below the cut once."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from probebook.models import embed, load
from probebook.models.cut import Below, cut, upper_parameters
from probebook.models.loading import load_anew
from probebook.models.training.finetune import Trainer, trained_weights, with_weights
from tiny_encoders import save

pytestmark = pytest.mark.library

TEXTS = ["the food was good", "food", "the soup was cold and the waiters were kind", "good food"]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut")
    folders = save(folder, sorted({word for text in TEXTS for word in text.split()}))
    GPT2LMHeadModel(
        GPT2Config(
            vocab_size=200,
            n_embd=32,
            n_layer=2,
            n_head=2,
            n_positions=64,
            bos_token_id=2,
            eos_token_id=3,
        )
    ).save_pretrained(folder / "gpt2")
    load(folders["bert"]).tokenizer.save_pretrained(folder / "gpt2")
    return folders | {"gpt2": str(folder / "gpt2")}


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_states_are_those_of_the_whole_network_and_so_are_the_gradients_above_the_cut(
    encoders, name
):
    model = load(encoders[name], "cpu")
    part = cut(model, 1)
    for at in ("mean", "last"):
        found, whole = (embed(TEXTS, m, at=at, cache=False) for m in (part, model))
        torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)
    assert (part.depth, model.depth) == (1, 2)
    grads = []
    for body in (part, cut(model, 2)):  # the second has the whole network above it
        trained = upper_parameters(body, body.base)
        for p in trained.values():
            p.requires_grad_(True)
        batch = model.tokenizer(TEXTS, padding=True, return_tensors="pt")
        h = body.base(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).last_hidden_state
        h[batch["attention_mask"] == 1].square().sum().backward()
        grads.append({key: p.grad for key, p in trained.items() if p.grad is not None})
    blocks = {key: key.replace(".0.", ".1.") for key in grads[0] if ".0." in key}
    assert blocks
    for a, b in blocks.items():
        torch.testing.assert_close(grads[0][a], grads[1][b], rtol=1e-5, atol=1e-4)


def test_a_text_is_read_once_below_the_cut_whoever_asks_and_nothing_below_is_trained(
    encoders, monkeypatch
):
    model, read = load_anew(encoders["bert"], "cpu"), []
    model.net.double()  # its rounding lies far below the bounds
    below = Below._read
    monkeypatch.setattr(
        Below,
        "_read",
        lambda self, ids, mask: (read.extend(ids.tolist()), below(self, ids, mask))[1],
    )
    texts = [f"{text} was kind" for text in TEXTS]
    one, other = cut(model, 1), cut(model, 1)
    before = {key: p.clone() for key, p in one.base.named_parameters()}
    trainer = Trainer(one, texts, "mean", upper_parameters(one, one.base).values(), 3, 2, 1e-2, 0)
    trainer.fit(lambda rows, h, hidden: h.square().sum())
    embed(texts, other, at="mean", cache=False)
    assert len(read) == len(texts)
    moved = {key for key, p in one.base.named_parameters() if not torch.equal(p, before[key])}
    assert moved
    assert moved <= upper_parameters(one, one.base).keys()
    assert not any("embeddings" in key for key in upper_parameters(one, one.base))
    again = with_weights(cut(model, 1), trained_weights(one))
    found, kept = (embed(texts, m, at="mean", cache=False) for m in (again, one))
    torch.testing.assert_close(found, kept, rtol=1e-5, atol=1e-8)
    assert len({model.fingerprint, other.fingerprint, one.fingerprint}) == 3


def test_a_mask_makes_another_sequence(encoders):
    model = load(encoders["bert"], "cpu")
    below, ids = Below(model, 1), torch.tensor([[2, 9, 10, 3]])
    masked = ids.clone()
    masked[0, 1] = model.tokenizer.mask_token_id
    assert not torch.allclose(below(ids), below(masked))
    assert len(below.known) == 2
    padded = below(
        torch.tensor([[2, 9, 10, 3, 0], [2, 9, 9, 10, 3]]), torch.tensor([[1, 1, 1, 1, 0], [1] * 5])
    )
    assert torch.equal(padded[0, :4], below(ids)[0])
    assert not padded[0, 4].any()
