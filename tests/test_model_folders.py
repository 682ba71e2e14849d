"""A model's folder is checked before a kernel starts: whole ones pass, and of each other one a line
says what does not fit."""

import json
import shutil
import struct

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel

from conftest import probebook
from probebook import hub
from probebook.base import UserError
from probebook.hub import check_folder
from probebook.models import depth, embed, head_logits
from probebook.models.loading import load_anew
from probebook_training.text import SPECIAL
from test_models import ARCHITECTURES

WORDS = [*SPECIAL, "the", "cat", "dogs", "saw"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a BERT and its tokenizer."""
    folder = tmp_path_factory.mktemp("whole")
    tokenizer = hf.BertTokenizerFast(vocab={word: i for i, word in enumerate(WORDS)})
    torch.manual_seed(0)
    ARCHITECTURES["bert"](len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "model")


def config(folder, **changed):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors", metadata={"format": "pt"})


def with_value(value, dtype):
    def change(tensors):
        made = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        for tensor in made.values():
            tensor.view(-1)[0] = value
        return made

    return change


def cut(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])


def add_token(folder):
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["model"]["vocab"]["unheard"] = len(WORDS)
    path.write_text(json.dumps(tokenizer))


def shards(folder):
    """The model in two shards with an index, in place of one file."""
    net = hf.BertForMaskedLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    net.save_pretrained(folder, max_shard_size="80KB")
    return sorted(folder.glob("model-*.safetensors"))


def index(folder, change):
    shards(folder)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def swapped(value):
    first, last = min(value["weight_map"].values()), max(value["weight_map"].values())
    return {"weight_map": dict.fromkeys(value["weight_map"], first) | {"more": last}}


def rename(folder, name):
    (folder / "model.safetensors").rename(folder / name)


def adapt(folder, kind="LORA"):
    settings = {"peft_type": kind, "base_model_name_or_path": "some/base", "r": 4}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    save_file({"lora_A.weight": torch.zeros(4, 32)}, folder / "adapter_model.safetensors")


def only(folder, *kept):
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()


FAULTS = {
    "a missing shard": (lambda f: shards(f)[-1].unlink(), "which model.safetensors.index.json"),
    "shards without their index": (
        lambda f: (shards(f), (f / "model.safetensors.index.json").unlink()),
        "shards with model.safetensors.index.json.*it has model-00001-of-",
    ),
    "another model's index": (lambda f: index(f, swapped), "is not the index of these shards"),
    "an index without a map": (lambda f: index(f, lambda value: {}), "has no weight_map"),
    "an index that leaves the folder": (
        lambda f: index(f, lambda value: {"weight_map": {"a": "../model.safetensors"}}),
        "has no weight_map",
    ),
    "a pickle": (lambda f: rename(f, "pytorch_model.bin"), "convert them to safetensors"),
    "Mistral's own file": (
        lambda f: rename(f, "consolidated.safetensors"),
        "it has consolidated.safetensors",
    ),
    "no file of llama.cpp": (
        lambda f: (rename(f, "model-q4.gguf"), (f / "config.json").unlink()),
        "model-q4.gguf is not a valid .gguf file: copy it again",
    ),
    "what an optimizer needs": (
        lambda f: (rename(f, "optimizer.pt"), only(f, "optimizer.pt")),
        "no config.json.*it has optimizer.pt",
    ),
    "checkpoints in it": (
        lambda f: (
            (shutil.copytree(f, f.parent / "c"), [p.unlink() for p in f.iterdir()])
            and shutil.copytree(f.parent / "c", f / "checkpoint-7")
        ),
        "give a folder in it: checkpoint-7",
    ),
    "a pointer of Git LFS": (
        lambda f: (f / "model.safetensors").write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n"
        ),
        "git lfs pull",
    ),
    "an adapter beside its base": (adapt, "is an adapter .* of some/base.*merge_and_unload"),
    "an adapter": (
        lambda f: (adapt(f), only(f, "adapter_config.json", "adapter_model.safetensors")),
        "is an adapter .* of some/base.*merge_and_unload",
    ),
    "quantised weights": (
        lambda f: config(f, quantization_config={"quant_method": "gptq", "bits": 4}),
        r"quantised \(gptq\)",
    ),
    "a quantised text model in it": (
        lambda f: config(f, text_config={"quantization_config": {"quant_method": "awq"}}),
        r"quantised \(awq\)",
    ),
    "no configuration": (lambda f: (f / "config.json").unlink(), "config.json"),
    "a configuration that is no JSON": (
        lambda f: (f / "config.json").write_text("{"),
        "not valid JSON",
    ),
    "a configuration that is a list": (lambda f: (f / "config.json").write_text("[]"), "object"),
    "10¹² dimensions": (lambda f: config(f, hidden_size=10**12), "hidden_size 1,000,000,000,000"),
    "another vocabulary": (lambda f: config(f, vocab_size=30_522), "vocab_size 30,522"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no safetensors"),
    "empty weights": (lambda f: cut(f, 0), "not a valid safetensors file"),
    "weights cut in the header": (lambda f: cut(f, 100), "not a valid safetensors file"),
    "weights cut in the data": (lambda f: cut(f, -8), "copy it again"),
    "a header without end": (
        lambda f: (f / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}"),
        "not a valid safetensors file",
    ),
    "mis-shaped weights": (
        lambda f: weights(f, lambda t: {n: v.flatten().clone() for n, v in t.items()}),
        "no matrix of the safetensors has that size",
    ),
    **{
        f"{value} in {str(dtype)[6:]}": (
            lambda f, value=value, dtype=dtype: weights(f, with_value(value, dtype)),
            "NaN or infinity",
        )
        for value in (torch.nan, torch.inf)
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
    },
    "no tokenizer": (
        lambda f: [p.unlink() for p in f.iterdir() if "token" in p.name or "vocab" in p.name],
        "no tokenizer",
    ),
    "a tokenizer with a token too many": (add_token, f"has {len(WORDS) + 1} tokens"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_is_said_in_a_line(folder, fault):
    damage, said = FAULTS[fault]
    assert check_folder(str(folder)) is None
    damage(folder)
    with pytest.raises(UserError, match=said) as error:
        check_folder(str(folder))
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize(
    "fault", [name for name in FAULTS if not name.startswith(("a tokenizer", "nan", "inf"))]
)
def test_what_cannot_be_loaded_is_said_in_a_line(folder, fault):
    FAULTS[fault][0](folder)
    with pytest.raises(UserError) as error:
        load_anew(str(folder))
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert "not a known model" not in str(error.value)


def states(folder, **more):
    model = load_anew(str(folder), **more)
    return embed(["the cat saw dogs"], model, at="mean", cache=False), model.notes


def test_shards_are_read_as_the_index_says_and_an_older_file_beside_them_is_not(folder):
    whole, notes = states(folder)
    assert notes == ()
    assert len(shards(folder)) > 1
    assert torch.equal(states(folder)[0], whole)
    torch.manual_seed(1)
    ARCHITECTURES["bert"](len(WORDS)).save_pretrained(folder.parent / "stale")
    shutil.move(folder.parent / "stale" / "model.safetensors", folder)
    assert check_folder(str(folder)) is None
    h, (note,) = states(folder)
    assert torch.equal(h, whole)
    assert note.startswith("model.safetensors was not read")
    for shard in folder.glob("model-*.safetensors"):  # then the index is the older one
        shard.unlink()
    assert check_folder(str(folder)) is None
    h, notes = states(folder)
    assert not torch.equal(h, whole)
    assert notes == ()


def test_a_masked_model_whose_head_was_not_saved_is_an_encoder(folder):
    """As in most folders of sentence encoders. A part of a head is none."""
    head = {key for key in load_file(folder / "model.safetensors") if key.startswith("cls.")}
    masked = load_anew(str(folder))
    weights(folder, lambda all_of: {k: all_of[k] for k in all_of if k not in head})
    encoder = load_anew(str(folder))
    assert (masked.kind, encoder.kind, hub.kind(str(folder))) == ("masked", *["encoder"] * 2)
    assert "not saved" in encoder.notes[0]
    assert torch.equal(
        embed(["the cat"], masked, -1, "mean"), embed(["the cat"], encoder, -1, "mean")
    )
    weights(folder, lambda some: some | {"cls.predictions.bias": torch.zeros(len(WORDS))})
    with pytest.raises(UserError, match="lacks weights for"):
        load_anew(str(folder))


def test_how_a_folder_pools_and_what_is_not_used_is_noted(folder):
    weights(folder, lambda tensors: tensors | {"head.weight": torch.zeros(2, 2)})
    (folder / "1_Pooling").mkdir()
    settings = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert states(folder)[1] == (
        "1 of the model's tensors were not used, such as head.weight.",
        "The model's author pools its states by pooling_mode_cls_token (1_Pooling/config.json).",
    )


TEXT = dict(
    vocab_size=len(WORDS),
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
)
TOWER = dict(
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=4,
    num_attention_heads=2,
    image_size=28,
    patch_size=14,
)
GROUPED = dict(TEXT, num_key_value_heads=2, head_dim=8)
ROTATED = dict(GROUPED, rope_scaling={"rope_type": "default", "mrope_section": [1, 1, 2]})
WITH_TOWERS = {
    "gemma3": lambda: hf.Gemma3ForConditionalGeneration(
        hf.Gemma3Config(text_config=GROUPED, vision_config=TOWER)
    ),
    "gemma4": lambda: hf.Gemma4ForConditionalGeneration(
        hf.Gemma4Config(text_config=GROUPED, vision_config=TOWER)
    ),
    "llava": lambda: hf.LlavaForConditionalGeneration(
        hf.LlavaConfig(
            text_config=dict(GROUPED, model_type="llama"),
            vision_config=dict(TOWER, model_type="clip_vision_model"),
        )
    ),
    "qwen2_vl": lambda: hf.Qwen2VLForConditionalGeneration(
        hf.Qwen2VLConfig(
            text_config=ROTATED,
            vision_config=dict(depth=4, embed_dim=16, hidden_size=32, num_heads=2, patch_size=14),
        )
    ),
    "qwen2_audio": lambda: hf.Qwen2AudioForConditionalGeneration(
        hf.Qwen2AudioConfig(
            text_config=dict(GROUPED, model_type="qwen2"),
            audio_config=dict(d_model=16, encoder_layers=4, encoder_attention_heads=2),
        )
    ),
    "clip": lambda: hf.CLIPModel(hf.CLIPConfig(text_config=TEXT, vision_config=TOWER)),
    "siglip": lambda: hf.SiglipModel(hf.SiglipConfig(text_config=TEXT, vision_config=TOWER)),
}


@pytest.fixture
def towers(whole, tmp_path):
    def save(net):
        net.save_pretrained(tmp_path / "towers")
        for file in whole.glob("*token*"):
            shutil.copy(file, tmp_path / "towers")
        return str(tmp_path / "towers")

    return save


@pytest.mark.parametrize("kind", WITH_TOWERS)
def test_of_a_model_with_a_tower_the_part_that_reads_texts_is_taken(towers, kind):
    torch.manual_seed(0)
    folder = towers(WITH_TOWERS[kind]())
    assert check_folder(folder) is None
    model = load_anew(folder)
    assert (model.width, model.depth, depth(folder)) == (32, 2, 2)
    assert model.kind == hub.kind(folder) == ("encoder" if kind in ("clip", "siglip") else "causal")
    ids = torch.tensor([model.tokenizer("the cat saw")["input_ids"]])
    with torch.no_grad():
        out = model.net.get_decoder()(input_ids=ids, output_hidden_states=True)
    h = embed(["the cat saw"], model, 1, "last", cache=False)[0]
    torch.testing.assert_close(h, out.hidden_states[1][0, -2], rtol=1e-5, atol=1e-5)
    if model.kind == "causal":
        with torch.no_grad():
            logits = model.net(input_ids=ids).logits[0, -2]
        h = embed(["the cat saw [MASK]"], model, cache=False)
        torch.testing.assert_close(head_logits(h, model)[0], logits, rtol=1e-4, atol=1e-5)


def test_a_model_that_reads_no_text_without_a_picture_is_refused(towers):
    text = dict(TEXT, encoder_hidden_size=16)
    folder = towers(
        hf.BlipForConditionalGeneration(hf.BlipConfig(text_config=text, vision_config=TOWER))
    )
    with pytest.raises(UserError, match="no decoder that reads a text without pictures"):
        load_anew(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_large_numbers_of_every_dtype_are_numbers(folder, dtype):
    largest = torch.finfo(dtype).max
    weights(folder, with_value(largest, dtype))
    assert check_folder(str(folder)) is None


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture_that_is_saved_whole_passes(tmp_path, whole, kind):
    ARCHITECTURES[kind](len(WORDS)).save_pretrained(tmp_path)
    shutil.copy(whole / "tokenizer.json", tmp_path)
    assert check_folder(str(tmp_path)) is None


def test_a_folder_that_does_not_fit_is_refused_before_a_kernel_starts(folder):
    cut(folder, -8)
    done = probebook("run", "1_causal_probing/01", "--profile", "smoke", "-p", f"model={folder}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"probebook: {folder}")
    assert done.stderr.count("\n") == 1


GGUF_NAMES = {  # of llama.cpp, by the names of transformers
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture(scope="module")
def llama_cpp(tmp_path_factory):
    """A Qwen2 with random weights, as a folder of transformers and as a `.gguf` file."""
    import gguf

    folder = tmp_path_factory.mktemp("qwen")
    words = [*sorted(ByteLevel.alphabet()), "he", "<end>"]
    config = hf.Qwen2Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    net = hf.Qwen2ForCausalLM(config)
    (folder / "file").mkdir()
    writer = gguf.GGUFWriter(folder / "file" / "qwen-F32.gguf", "qwen2")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([1] * (len(words) - 1) + [3])
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(len(words) - 1)
    writer.add_eos_token_id(len(words) - 1)
    for name, tensor in net.state_dict().items():
        for theirs, ours in GGUF_NAMES.items():
            name = name.replace(theirs, ours)
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    net.save_pretrained(folder / "whole")
    tokenizer = hf.AutoTokenizer.from_pretrained(folder / "file", gguf_file="qwen-F32.gguf")
    tokenizer.save_pretrained(folder / "whole")
    return folder


def test_a_gguf_file_is_read_as_the_model_that_it_holds(llama_cpp, tmp_path, monkeypatch):
    one, other = load_anew(str(llama_cpp / "file")), load_anew(str(llama_cpp / "whole"))
    assert one.kind == hub.kind(str(llama_cpp / "file")) == "causal"
    assert one.notes and "qwen-F32.gguf" in one.notes[0] and not other.notes
    assert depth(str(llama_cpp / "file")) == 2
    texts = ["The keys [MASK] here.", "A dog"]
    states = [embed(texts, model, at="last", cache=False) for model in (one, other)]
    torch.testing.assert_close(*states)
    check_folder(str(llama_cpp / "file"))

    shutil.copytree(llama_cpp / "file", tmp_path / "named")
    monkeypatch.setenv("PROBEBOOK_MODELS", str(tmp_path))
    assert hub.source("named") == str(tmp_path / "named")
    shutil.copy(tmp_path / "named" / "qwen-F32.gguf", tmp_path / "named" / "qwen-Q8_0.gguf")
    with pytest.raises(UserError, match="2 .gguf files .*: which is the model"):
        hub.source("named")
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"install gguf and accelerate: pip install .*\[gguf\]"):
        check_folder(str(llama_cpp / "file"))
