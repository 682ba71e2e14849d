"""A model's folder is checked before a kernel starts: whole ones pass, and of each other one a line
says what does not fit."""

import json
import shutil
import struct

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from conftest import probebook
from probebook.base import UserError
from probebook.hub import check_folder
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


FAULTS = {
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
