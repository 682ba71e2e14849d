"""Fifteen architectures with tokenizers of their own: states, fillings and patches are those of the
model's own forward pass."""
import pytest
import torch

import zoo
from probebook.models import carry, embed, fill, head_logits, load, patch, word_logits

TEXTS = ["The keys [MASK] here.", "The key to the cabinets [MASK] on the table.",
         "In the morning the dogs near the gate [MASK] old."]
WITH_HEAD = [name for name in zoo.ZOO if name not in ("t5", "bart")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return zoo.save(tmp_path_factory.mktemp("zoo"))


@torch.no_grad()
def own_pass(model, text):
    """Hidden states of every layer [depth + 1, d] and logits [v] where the model predicts the
    blank, by transformers alone."""
    tokenizer = model.tokenizer
    if model.kind == "causal":
        ids = tokenizer(text.split("[MASK]")[0].rstrip(), return_tensors="pt").input_ids
        place = ids.shape[1] - 1
    else:
        ids = tokenizer(text.replace("[MASK]", tokenizer.mask_token),
                        return_tensors="pt").input_ids
        place = ids[0].tolist().index(tokenizer.mask_token_id)
    out = model.net(input_ids=ids, output_hidden_states=True)
    states = [h[0, place] if h.shape[0] == 1 else h[place, 0] for h in out.hidden_states]
    return torch.stack(states), out.logits[0, place]


@pytest.mark.parametrize("name", WITH_HEAD)
def test_states_and_logits_at_the_blank_are_those_of_the_own_pass(folders, name):
    model = load(folders[name])
    own = [own_pass(model, text) for text in TEXTS]
    assert model.depth == 2
    for layer in range(model.depth):                # the last: before or after a final norm
        want = torch.stack([states[layer] for states, _ in own])
        torch.testing.assert_close(embed(TEXTS, model, layer, cache=False), want, rtol=1e-5,
                                   atol=1e-5)
    logits = torch.stack([logits for _, logits in own])
    last = embed(TEXTS, model, cache=False)
    torch.testing.assert_close(head_logits(last, model), logits, rtol=1e-5, atol=1e-5)
    for layer in range(model.depth + 1):
        h = embed(TEXTS, model, layer, cache=False)
        torch.testing.assert_close(patch(TEXTS, model, layer, "[MASK]", h), logits, rtol=1e-5,
                                   atol=1e-5)
    best = fill(TEXTS, model, k=1)
    probs = logits.softmax(1)
    assert [filled.tokens[0] for filled in best] == [
        model.tokenizer.decode([i]).strip() for i in probs.argmax(1)]


@pytest.mark.parametrize("name", WITH_HEAD)
def test_several_edits_are_carried_as_each_alone(folders, name):
    model = load(folders[name])
    for layer in range(model.depth + 1):
        h = embed(TEXTS, model, layer, cache=False)
        edits = torch.stack([h, 2 * h, h.flip(0)])
        alone = torch.stack([carry(TEXTS, model, layer, "[MASK]", edit) for edit in edits])
        torch.testing.assert_close(carry(TEXTS, model, layer, "[MASK]", edits), alone, rtol=1e-5,
                                   atol=1e-5)
        assert layer == 0 or (alone[0] - alone[1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", WITH_HEAD)
def test_a_verb_has_its_own_logit_after_a_space(folders, name):
    model = load(folders[name])
    pair = word_logits(TEXTS, model, [["is", "are"]] * len(TEXTS))
    for word, logits in zip(("is", "are"), pair.T):
        ids = model.tokenizer(f"a {word}", add_special_tokens=False).input_ids
        want = torch.stack([own_pass(model, text)[1][ids[-1]] for text in TEXTS])
        torch.testing.assert_close(logits, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["t5", "bart"])
@torch.no_grad()
def test_an_encoder_decoder_fills_the_blank_as_its_own_pass_does(folders, name):
    model = load(folders[name])
    tokenizer, start = model.tokenizer, model.net.config.decoder_start_token_id
    blank = tokenizer.mask_token or "<extra_id_0>"
    for text, filled in zip(TEXTS, fill(TEXTS, model, k=1, steps=1)):
        ids = tokenizer(text.replace("[MASK]", blank), return_tensors="pt").input_ids
        place = ids[0].tolist().index(tokenizer.convert_tokens_to_ids(blank))
        before = ids[0, :place].tolist() if name == "bart" else [ids[0, place].item()]
        out = model.net(input_ids=ids, decoder_input_ids=torch.tensor([[start, *before]]))
        best = out.logits[0, -1].softmax(0).max(0)
        ends = {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<extra_id_1>")}
        if best.indices.item() not in ends:
            word = tokenizer.decode([best.indices.item()]).strip()
            assert filled.tokens == [word]
            assert filled.top[0][word] == pytest.approx(best.values.item(), rel=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt"])
def test_a_blank_that_begins_the_text_is_predicted_from_the_first_token(folders, name):
    model = load(folders[name])
    [h] = embed(["[MASK] is here."], model, cache=False)
    begin = model.tokenizer.bos_token_id
    with torch.no_grad():
        want = model.base(input_ids=torch.tensor([[begin]])).last_hidden_state[0, 0]
    torch.testing.assert_close(h, want, rtol=1e-5, atol=1e-5)
