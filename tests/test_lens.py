"""The logit lens on a tiny random model of each architecture: theorems, and what it refuses."""

import pytest
import torch
import transformers as hf
from sklearn.linear_model import Ridge

from probebook.base import UserError
from probebook.models import embed, embed_layers, lens_logits, load, word_logits
from test_models import TEXTS, WITH_HEAD
from test_models import cache as cache
from test_models import folders as folders

pytestmark = pytest.mark.library

PAIRS = [["cat", "dogs"]] * len(TEXTS)


def after_last_block(model, texts):
    """The states of every text at its blank as the last block leaves them, before any norm."""
    states = []
    handle = model.blocks[-1].register_forward_hook(
        lambda module, args, out: states.append(out[0] if isinstance(out, tuple) else out)
    )
    for text in texts:
        with torch.no_grad():
            model.base(**model.inputs(text))
    handle.remove()
    at = [model.blank(model.inputs(text)["input_ids"][0]) for text in texts]
    return torch.stack([state.reshape(-1, model.width)[i] for state, i in zip(states, at)])


@pytest.mark.parametrize("name", WITH_HEAD)
def test_at_the_last_layer_the_lens_is_the_model(folders, name):
    """Also where it starts from what the last block leaves, so that the final norm is the right
    one."""
    model = load(folders[name])
    said = word_logits(TEXTS, model, PAIRS)
    h = embed_layers(TEXTS, model, range(model.depth + 1))
    for last in (-1, model.depth):
        assert torch.equal(lens_logits(h[model.depth], model, last, PAIRS), said)
    left = model.final_norm(after_last_block(model, TEXTS))
    torch.testing.assert_close(left, h[model.depth], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", WITH_HEAD)
def test_below_it_is_the_head_on_normed_states(folders, name):
    model = load(folders[name])
    for layer in range(model.depth):
        h = embed(TEXTS, model, layer)
        with torch.no_grad():
            every = model.head(model.final_norm(h))
        ids = model.tokenizer.convert_tokens_to_ids(PAIRS[0])
        torch.testing.assert_close(
            lens_logits(h, model, layer, PAIRS), every[:, ids], rtol=1e-5, atol=1e-4
        )


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_a_model_whose_blocks_end_with_a_norm_has_no_other(folders, name):
    model = load(folders[name])
    h = torch.randn(7, model.width, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.final_norm(h), h)
    assert torch.equal(
        lens_logits(h, model, 1, PAIRS[:1] * 7), word_logits([], model, PAIRS[:1] * 7, h=h)
    )


def test_the_scale_of_a_state_is_of_no_matter_before_an_rms_norm(folders):
    """So without its weights such a norm changes no choice between two words."""
    model = load(folders["llama"])
    h = 100 * torch.randn(7, model.width, generator=torch.Generator().manual_seed(0))
    one, other = (lens_logits(scale * h, model, 1, PAIRS[:1] * 7) for scale in (1, 3))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_translated_lens_of_states_that_need_no_translation_is_the_lens(folders):
    """Ridge regression of the last layer's states on themselves is the identity."""
    model = load(folders["gpt2"])
    h = torch.randn(200, model.width, generator=torch.Generator().manual_seed(0)).double()
    same = torch.from_numpy(Ridge(alpha=1e-8).fit(h, h).predict(h))
    words = PAIRS[:1] * len(h)
    torch.testing.assert_close(
        lens_logits(same, model, -1, words),
        lens_logits(h, model, -1, words),
        rtol=1e-4,
        atol=1e-4,
    )


def test_what_it_refuses(folders, tmp_path):
    h = torch.zeros(1, 32)
    with pytest.raises(UserError, match="has no language-model head"):
        lens_logits(h, folders["encoder"], 1, PAIRS[:1])
    with pytest.raises(UserError, match="layer 9: .* has layers 0 … 3"):
        lens_logits(h, folders["bert"], 9, PAIRS[:1])
    with pytest.raises(UserError, match="not a single token of .*: thecat"):
        lens_logits(h, folders["bert"], 1, [["cat", "thecat"]])


def test_a_model_with_more_than_a_norm_before_its_head_is_refused(folders, tmp_path):
    """OPT's largest states go through a norm and a matrix."""
    tokenizer = load(folders["gpt2"]).tokenizer
    config = hf.OPTConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        word_embed_proj_dim=16,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    hf.OPTForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="no single norm between its last block and its head"):
        lens_logits(torch.zeros(1, 32), load(str(tmp_path)), 1, PAIRS[:1])
