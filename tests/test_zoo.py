"""Fifteen architectures with tokenizers of their own: states, fillings and patches are those of the
model's own forward pass."""

from itertools import product

import pytest
import torch

import zoo
from probebook.base import UserError
from probebook.models import carry, embed, fill, head_logits, load, patch, word_logits
from probebook.models.loading import depth
from probebook.models.patching import Tail

pytestmark = pytest.mark.library

TEXTS = [
    "The keys [MASK] here.",
    "The key to the cabinets [MASK] on the table.",
    "In the morning the dogs near the gate [MASK] old.",
]
SUBJECTS = ["keys", "key", "dogs"]
BOTH = ["t5", "bart"]  # encoder–decoders
BERT = ("encoder.layer.{}", "attention.output.dense", "output.dense")
LLAMA = ("model.layers.{}", "self_attn.o_proj", "mlp.down_proj")
# a block, and the modules in it that write what its attention and its MLP add
WRITERS = {
    "bert": ("bert." + BERT[0], *BERT[1:]),
    "roberta": ("roberta." + BERT[0], *BERT[1:]),
    "distilbert": ("distilbert.transformer.layer.{}", "attention.out_lin", "ffn.lin2"),
    "albert": (
        "albert.encoder.albert_layer_groups.0",
        "albert_layers.0.attention.dense",
        "albert_layers.0.ffn_output",
    ),
    "electra": ("electra." + BERT[0], *BERT[1:]),
    "deberta": ("deberta." + BERT[0], *BERT[1:]),
    "modernbert": ("model.layers.{}", "attn.Wo", "mlp.Wo"),
    "xlnet": ("transformer.layer.{}", None, "ff.layer_2"),
    "gpt2": ("transformer.h.{}", "attn.c_proj", "mlp.c_proj"),
    "gpt_neox": ("gpt_neox.layers.{}", "attention.dense", "mlp.dense_4h_to_h"),
    "opt": ("model.decoder.layers.{}", "self_attn.out_proj", "fc2"),
    "llama": LLAMA,
    "qwen": LLAMA,
    "t5": ("encoder.block.{}", "layer.0.SelfAttention.o", "layer.1.DenseReluDense.wo"),
    "bart": ("model.encoder.layers.{}", "self_attn.out_proj", "fc2"),
    "pocket-english-gpt": LLAMA,
}
DECODERS = {
    "t5": (
        "decoder.block.{}",
        {
            "attention": "layer.0.SelfAttention.o",
            "cross-attention": "layer.1.EncDecAttention.o",
            "mlp": "layer.2.DenseReluDense.wo",
        },
    ),
    "bart": (
        "model.decoder.layers.{}",
        {
            "attention": "self_attn.out_proj",
            "cross-attention": "encoder_attn.out_proj",
            "mlp": "fc2",
        },
    ),
}


@pytest.fixture(scope="module")
def folders():
    return zoo.kept() | {"pocket-english-gpt": "pocket-english-gpt"}


def exact(folder):
    """A model in float64 (XLNet's network has parts in float32), since the random weights of T5
    enlarge a difference in the last bits."""
    return load(folder, "cpu", torch.float32 if folder.endswith("xlnet") else torch.float64)


def own_inputs(model, text):
    """What transformers' own network is given to predict a blank, and the place where it does."""
    tokenizer = model.tokenizer
    if model.kind == "causal":
        ids = tokenizer(text.split("[MASK]")[0].rstrip(), return_tensors="pt").input_ids
        ended = ids[0, -1].item() == tokenizer.sep_token_id  # pocket-english-gpt's texts
        return {"input_ids": ids}, ids.shape[1] - 1 - ended
    blank = tokenizer.mask_token or "<extra_id_0>"
    ids = tokenizer(text.replace("[MASK]", blank), return_tensors="pt").input_ids
    place = ids[0].tolist().index(tokenizer.convert_tokens_to_ids(blank))
    if model.kind == "masked":
        return {"input_ids": ids}, place
    before = ids[0, :place].tolist() if tokenizer.mask_token else [ids[0, place].item()]
    start = model.net.config.decoder_start_token_id
    return {"input_ids": ids, "decoder_input_ids": torch.tensor([[start, *before]])}, len(before)


@torch.no_grad()
def own_pass(model, text):
    """Hidden states of every layer [depth + 1, d] and logits [v] where the model predicts the
    blank, by transformers alone."""
    inputs, place = own_inputs(model, text)
    out = model.net(**inputs, output_hidden_states=True)
    states = out.decoder_hidden_states if model.kind == "seq2seq" else out.hidden_states
    states = [h[0, place] if h.shape[0] == 1 else h[place, 0] for h in states]
    return torch.stack(states).float(), out.logits[0, place].float()


@torch.no_grad()
def own_edit(model, text, path, turn, place, change, following=False):
    """The state that a module writes at a place, and logits [v] at the blank once a hook has
    changed it, when the module is called the `turn`-th time."""
    found, calls = [], []

    def hook(module, args, out):
        calls.append(module)
        if len(calls) == turn:
            states = (out if isinstance(out, torch.Tensor) else out[0]).view(-1, model.width)
            found.append(states[place].float().clone())
            end = None if following else place + 1
            states[place:end] = change(states[place:end].float())

    handle = model.net.get_submodule(path).register_forward_hook(hook)
    inputs, blank = own_inputs(model, text)
    logits = model.net(**inputs).logits[0, blank].float()
    handle.remove()
    return found[0], logits


def own_place(model, text, word):
    """The last token of a word in a text as the model reads it."""
    read = text.split("[MASK]")[0].rstrip()
    end = read.index(word) + len(word)
    spans = model.tokenizer(read, return_offsets_mapping=True)["offset_mapping"]
    return max(i for i, (a, b) in enumerate(spans) if a < end <= b)


def same(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", zoo.ZOO)
def test_the_own_network_is_given_what_predicts_the_blank(folders, name):
    model = exact(folders[name])
    for text in TEXTS:
        inputs, place = own_inputs(model, text)
        given = model.inputs(text)
        assert given.keys() == inputs.keys()
        assert all(torch.equal(given[key], ids) for key, ids in inputs.items())
        assert model.blank(given["input_ids"][0]) == place


@pytest.mark.parametrize("name", zoo.ZOO)
def test_states_and_logits_at_the_blank_are_those_of_the_own_pass(folders, name):
    model = exact(folders[name])
    own = [own_pass(model, text) for text in TEXTS]
    assert model.depth == 2
    for layer in range(model.depth):  # the last: before or after a final norm
        want = torch.stack([states[layer] for states, _ in own])
        torch.testing.assert_close(
            embed(TEXTS, model, layer, cache=False), want, rtol=1e-5, atol=1e-5
        )
    logits = torch.stack([logits for _, logits in own])
    last = embed(TEXTS, model, cache=False)
    torch.testing.assert_close(head_logits(last, model), logits, rtol=1e-5, atol=1e-5)
    for layer in range(model.depth + 1):
        h = embed(TEXTS, model, layer, cache=False)
        torch.testing.assert_close(
            patch(TEXTS, model, layer, "[MASK]", h), logits, rtol=1e-5, atol=1e-5
        )
    best = fill(TEXTS, model, k=1)
    probs = logits.softmax(1)
    assert [filled.tokens[0] for filled in best] == [
        model.tokenizer.decode([i]).strip() for i in probs.argmax(1)
    ]


@pytest.mark.parametrize("name", zoo.ZOO)
def test_several_edits_are_carried_as_each_alone(folders, name):
    model = exact(folders[name])
    for layer in range(model.depth + 1):
        h = embed(TEXTS, model, layer, cache=False)
        edits = torch.stack([h, 2 * h, h.flip(0)])
        alone = torch.stack([carry(TEXTS, model, layer, "[MASK]", edit) for edit in edits])
        torch.testing.assert_close(
            carry(TEXTS, model, layer, "[MASK]", edits), alone, rtol=1e-5, atol=1e-5
        )
        assert layer == 0 or (alone[0] - alone[1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", zoo.ZOO)
def test_a_verb_has_its_own_logit_after_a_space(folders, name):
    model = exact(folders[name])
    pair = word_logits(TEXTS, model, [["is", "are"]] * len(TEXTS))
    for word, logits in zip(("is", "are"), pair.T):
        ids = model.tokenizer(f"a {word}", add_special_tokens=False).input_ids
        want = torch.stack([own_pass(model, text)[1][ids[-1]] for text in TEXTS])
        torch.testing.assert_close(logits, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", BOTH)
def test_an_encoder_decoder_fills_the_blank_as_its_head_reads_the_decoder(folders, name):
    model = exact(folders[name])
    tokenizer = model.tokenizer
    probs = head_logits(embed(TEXTS, model, cache=False), model).softmax(1)
    ends = {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<extra_id_1>")}
    for row, filled in zip(probs, fill(TEXTS, model, k=1, steps=1)):
        if (best := row.argmax().item()) not in ends:
            word = tokenizer.decode([best]).strip()
            assert filled.tokens == [word]
            assert filled.top[0][word] == pytest.approx(row.max().item(), rel=1e-4)


@pytest.mark.parametrize("name", BOTH)
def test_of_an_encoder_decoder_every_rule_but_the_blanks_reads_the_encoder(folders, name):
    model = exact(folders[name])
    with torch.no_grad():
        own = [
            model.net.get_encoder()(
                own_inputs(model, text)[0]["input_ids"], output_hidden_states=True
            )
            for text in TEXTS
        ]
    places = [own_place(model, *pair) for pair in zip(TEXTS, SUBJECTS)]
    for layer in range(model.encoder.depth + 1):
        states = [
            out.last_hidden_state if layer == model.encoder.depth else out.hidden_states[layer]
            for out in own
        ]
        for at, wanted in (("[CLS]", [0] * len(TEXTS)), (("last", SUBJECTS), places)):
            same(
                embed(TEXTS, model, layer, at, cache=False),
                torch.stack([h[0, place] for h, place in zip(states, wanted)]).float(),
            )
    with pytest.raises(UserError, match="the encoder of .* does not read what its decoder"):
        carry(TEXTS, model, 1, "[MASK]", lambda h: h, read="[CLS]")


@pytest.mark.parametrize("name", BOTH)
def test_the_decoder_reads_what_was_edited_in_the_encoder(folders, name):
    """At its end, where no block of the encoder follows, and below."""
    model = exact(folders[name])
    at, last = (
        ("last", SUBJECTS),
        ("encoder.final_layer_norm" if name == "t5" else "model.encoder.layers.1"),
    )
    same(
        patch(TEXTS, model, -1, at, lambda h: 2 * h),
        torch.stack(
            [
                own_edit(model, text, last, 1, own_place(model, text, word), lambda h: 2 * h)[1]
                for text, word in zip(TEXTS, SUBJECTS)
            ]
        ),
    )
    for layer in range(3):
        h = embed(TEXTS, model, layer, at, cache=False)
        edits = torch.stack([h, 2 * h, h.flip(0)])
        same(
            carry(TEXTS, model, layer, at, edits),
            torch.stack([carry(TEXTS, model, layer, at, edit) for edit in edits]),
        )


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("name", WRITERS)
def test_an_edit_of_any_component_is_that_of_a_hook_on_the_own_pass(folders, name, layer):
    """At one position and at all that follow, whether the states are changed or given."""
    model = exact(folders[name])
    block, attention, mlp = WRITERS[name]
    paths = {
        "residual": block,
        "attention": attention and f"{block}.{attention}",
        "mlp": f"{block}.{mlp}",
    }
    turn = layer if name == "albert" else 1  # its blocks are the same module
    if layer == model.encoder.depth:  # a norm follows its last block
        del paths["residual"]
    push, at = torch.linspace(-1, 2, model.width), ("last", SUBJECTS)
    places = [own_place(model, *pair) for pair in zip(TEXTS, SUBJECTS)]
    for component, path in paths.items():
        if path is None:
            for call in (embed, lambda *given, **more: carry(*given, lambda h: h, **more)):
                with pytest.raises(UserError, match="there is no attention output"):
                    call(TEXTS, model, layer, at, component=component)
            continue
        path = path.format(layer - 1)
        for following in (False, True):
            own = [
                own_edit(model, text, path, turn, place, lambda h: 2 * h + push, following)
                for text, place in zip(TEXTS, places)
            ]
            if layer == 1 or following and model.kind != "causal":  # then it changes the blank
                assert (own[0][1] - own_pass(model, TEXTS[0])[1]).abs().max() > 1e-3
            same(
                embed(TEXTS, model, layer, at, cache=False, component=component),
                torch.stack([state for state, _ in own]),
            )
            positions = "following" if following else "one"
            same(
                patch(
                    TEXTS,
                    model,
                    layer,
                    at,
                    lambda h: 2 * h + push,
                    component=component,
                    positions=positions,
                ),
                torch.stack([logits for _, logits in own]),
            )
            given = [push, 3 * push]
            own = [
                torch.stack(
                    [
                        own_edit(model, text, path, turn, place, lambda h: state, following)[1]
                        for text, place in zip(TEXTS, places)
                    ]
                )
                for state in given
            ]
            edits = torch.stack([state.expand(len(TEXTS), -1) for state in given])
            carried = carry(
                TEXTS, model, layer, at, edits, component=component, positions=positions
            )
            same(torch.stack([head_logits(h, model) for h in carried]), torch.stack(own))


@pytest.mark.parametrize("name", BOTH)
def test_an_edit_of_any_component_at_the_blank_is_one_of_the_decoder(folders, name):
    model = exact(folders[name])
    block, components = DECODERS[name]
    for layer, (component, path) in product((1, 2), components.items()):
        own = [
            own_edit(
                model,
                text,
                f"{block}.{path}".format(layer - 1),
                1,
                own_inputs(model, text)[1],
                lambda h: 2 * h + 1,
            )
            for text in TEXTS
        ]
        same(
            embed(TEXTS, model, layer, cache=False, component=component),
            torch.stack([state for state, _ in own]),
        )
        same(
            patch(TEXTS, model, layer, "[MASK]", lambda h: 2 * h + 1, component=component),
            torch.stack([logits for _, logits in own]),
        )


def test_a_component_or_positions_that_there_are_not_are_named_in_one_line(folders):
    model = load(folders["bert"])
    for layer, component in ((0, "mlp"), (1, "cross-attention"), (1, "neurons")):
        with pytest.raises(UserError, match=f"there is no {component} output"):
            embed(TEXTS, model, layer, component=component)
    with pytest.raises(UserError, match="expected one, following"):
        patch(TEXTS, model, 1, "[MASK]", None, positions="all")


def test_the_depth_of_an_encoder_decoder_is_its_decoders(tmp_path, folders):
    config = load(folders["t5"]).net.config
    config = type(config)(**config.to_dict() | {"num_decoder_layers": 3})
    net = type(load(folders["t5"]).net)(config)
    net.save_pretrained(tmp_path)
    load(folders["t5"]).tokenizer.save_pretrained(tmp_path)
    model = load(str(tmp_path))
    assert (model.depth, model.encoder.depth, depth(str(tmp_path))) == (3, 2, 3)
    assert depth(folders["bart"]) == 2


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt"])
def test_a_blank_that_begins_the_text_is_predicted_from_the_first_token(folders, name):
    model = exact(folders[name])
    [h] = embed(["[MASK] is here."], model, cache=False)
    begin = model.tokenizer.bos_token_id
    with torch.no_grad():
        want = model.base(input_ids=torch.tensor([[begin]])).last_hidden_state[0, 0]
    torch.testing.assert_close(h, want.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*zoo.ZOO, "pocket-english-gpt"])
def test_the_differentiable_tail_is_carry(folders, name):
    """Same states, and in the direction of a gradient the sum of the states grows as it says."""
    model = load(folders[name], "cpu")
    at, rows = ("last", SUBJECTS), torch.tensor([2, 0])
    tail = Tail(TEXTS, model, 1, at)
    states = embed(TEXTS, model, 1, at)[rows].flip(0).requires_grad_()
    texts, words = [TEXTS[2], TEXTS[0]], [SUBJECTS[2], SUBJECTS[0]]
    out = tail(states, rows)
    there = carry(texts, model, 1, ("last", words), states.detach())
    torch.testing.assert_close(out.detach(), there, atol=2e-3, rtol=2e-3)
    weights = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
    (slope,) = torch.autograd.grad((out * weights).sum(), states)
    step = 1e-2 * slope / slope.norm()
    ends = [(tail(states.detach() + sign * step, rows) * weights).sum() for sign in (1, -1)]
    assert float(ends[0] - ends[1]) / 2e-2 == pytest.approx(float(slope.norm()), rel=0.05)
