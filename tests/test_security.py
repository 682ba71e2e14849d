"""Nothing that is read can run code: no pickle, no code of a model's author, no `eval`; names stay
in their folder."""

from __future__ import annotations

import ast
import json
import pickle
import re
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers as hf

from conftest import probebook
from probebook.base import ROOT, UserError, check_name
from probebook.models import depth, load
from probebook_book.build import _book_notebooks
from probebook_runs import archive, write_table
from probebook_runs.execute import run_all
from probebook_runs.pages import find, pages
from probebook_runs.store import plan

MODULES = {"pickle", "_pickle", "cPickle", "shelve", "marshal", "dill", "cloudpickle"}
CALLS = {
    "joblib.dump",
    "joblib.load",
    "torch.load",
    "torch.save",
    "numpy.savez",
    "numpy.savez_compressed",
    "pandas.read_pickle",
    "eval",
    "exec",
    "os.system",
    "os.popen",
    "yaml.unsafe_load",
    "yaml.full_load",
}
SETTINGS = {"trust_remote_code", "shell", "allow_pickle"}  # of any call: False, or not given
LOADERS = {"SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"}
UNSAFE = [
    "import pickle",
    "from pickle import loads",
    "import _pickle as fast",
    "import shelve",
    "import marshal",
    "import dill",
    "import joblib\njoblib.load('x')",
    "from joblib import dump\ndump(1, 'x')",
    "import torch\ntorch.load(p)",
    "from torch import save as keep\nkeep(1, p)",
    "import numpy as np\nnp.load(p, allow_pickle=True)",
    "import numpy as np\nnp.savez(p, a=1)",
    "import pandas as pd\npd.read_pickle(p)",
    "frame.to_pickle(p)",
    "eval(text)",
    "def f():\n    exec(text)",
    "import builtins\nbuiltins.eval(text)",
    "load(name, trust_remote_code=True)",
    "load(name, trust_remote_code=trust)",
    "from subprocess import run\nrun(line, shell=True)",
    "import os\nos.system(x)",
    "import yaml\nyaml.load(text)",
    "import yaml\nyaml.load(text, Loader=yaml.Loader)",
    "yaml.unsafe_load(text)",
    "hf.AutoModel.from_pretrained(name)",
    "hf.AutoModel.from_pretrained(name, **NO_CODE)",
    "hf.AutoModel.from_pretrained(name, use_safetensors=False)",
]
SAFE = [
    "frame.eval('a + b')",
    "net.eval()",
    "import joblib\njoblib.cpu_count()",
    "load(name, trust_remote_code=False)",
    "from safetensors.torch import load\nload(data)",
    "import numpy as np\nnp.load(p)",
    "from json import load\nload(f)",
    "import yaml\nyaml.safe_load(text)\nyaml.load(text, Loader=yaml.BaseLoader)",
    "hf.AutoTokenizer.from_pretrained(p)",
    "hf.AutoModel.from_pretrained(name, **NO_PICKLE)",
    "import subprocess\nsubprocess.run(['ls'])",
]


def unsafe(source: str) -> list[str]:
    """Imports and calls in a source that could run what they read, with their lines."""
    tree, full = ast.parse(source), {}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            full |= {alias.asname or alias.name: module + alias.name for alias in node.names}
            found += [
                (node, name)
                for alias in node.names
                if (name := module + alias.name).split(".")[0] in MODULES
            ]
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        first, dot, rest = ast.unparse(node.func).partition(".")
        name = (full.get(first, first) + dot + rest).removeprefix("builtins.")
        given = {k.arg: ast.unparse(k.value) for k in node.keywords}
        if (
            name in CALLS
            or name.endswith(".to_pickle")
            or any(given.get(s, "False") != "False" for s in SETTINGS)
            or (name == "yaml.load" and given.get("Loader", "").rpartition(".")[2] not in LOADERS)
            or (name.endswith("Model.from_pretrained") or name == "auto.from_pretrained")
            and not any(
                k.arg is None and ast.unparse(k.value) == "NO_PICKLE" for k in node.keywords
            )
        ):
            found.append((node, name))
    return [f"line {node.lineno}: {name}" for node, name in found]


@pytest.mark.parametrize("source", UNSAFE)
def test_the_scan_finds_what_is_unsafe(source):
    assert len(unsafe(source)) == 1


@pytest.mark.parametrize("source", SAFE)
def test_the_scan_lets_pass_what_is_safe(source):
    assert unsafe(source) == []


def test_no_code_of_the_project_is_unsafe(monkeypatch):
    monkeypatch.delenv("PROBEBOOK_HOME", raising=False)
    paths = [*(ROOT / "lib").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths
    }
    for page in [*pages(), *_book_notebooks()]:
        code = [cell.source for cell in page.notebook.cells if cell.cell_type == "code"]
        sources[page.name] = re.sub(r"^[%!].*", "pass", "\n".join(code), flags=re.MULTILINE)
    assert len(sources) > 100
    assert {name: found for name, source in sources.items() if (found := unsafe(source))} == {}


class Planted:
    """A pickle that writes a file when it is read."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture
def folder(tmp_path):
    """A tiny model without weights, and the file that is written if it runs code."""
    path = tmp_path / "model"
    config = hf.BertConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        architectures=["BertForMaskedLM"],
    )
    config.save_pretrained(path)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
    hf.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(path)
    return path, tmp_path / "marker"


def _refused(call) -> str:
    with pytest.raises(UserError, match="^[^\n]+$") as e:
        call()
    return str(e.value)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00001.bin"])
def test_a_pickled_model_is_refused_unread(folder, name):
    path, marker = folder
    (path / name).write_bytes(pickle.dumps(Planted(marker)))
    if "-" in name:
        (path / "pytorch_model.bin.index.json").write_text(
            json.dumps({"weight_map": {"bert": name}, "metadata": {}})
        )
    assert "convert them to safetensors" in _refused(lambda: load(str(path)))
    assert not marker.exists()
    pickle.loads((path / name).read_bytes())
    assert marker.exists()  # the pickle is what it should be


@pytest.mark.parametrize("part", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("known", [True, False])
def test_code_of_a_model_is_not_run(folder, part, known):
    """Where transformers has a class of its own, that is taken; where it has none, the model is
    refused."""
    path, marker = folder
    hf.BertForMaskedLM(hf.BertConfig.from_pretrained(path)).save_pretrained(path)
    (path / "planted.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Own: pass\n")
    about = json.loads((path / part).read_text())
    own = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForMaskedLM"), "planted.Own")
    about |= {"auto_map": own | {"AutoTokenizer": ["planted.Own", "planted.Own"]}}
    about |= {} if known else {"model_type": "planted", "tokenizer_class": "PlantedTokenizer"}
    (path / part).write_text(json.dumps(about))
    if known or part == "tokenizer_config.json":
        assert load(str(path)).depth == depth(str(path)) == 1
        assert not marker.exists()
        return
    for call in (load, depth):
        assert "needs code from its repository, which is never run" in _refused(
            lambda: call(str(path))
        )
    assert not marker.exists()
    with suppress(AttributeError):  # no configuration; but it has run by then
        hf.AutoConfig.from_pretrained(path, trust_remote_code=True)
    assert marker.exists()


def test_a_whole_model_is_read(folder):
    path, _ = folder
    net = hf.BertForMaskedLM(hf.BertConfig.from_pretrained(path))
    net.save_pretrained(path)
    assert torch.equal(
        load(str(path)).net.bert.embeddings.word_embeddings.weight,
        net.bert.embeddings.word_embeddings.weight,
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/x",
        "a\\b",
        ".hidden",
        "-x",
        "a b",
        "a\n",
        "é",
        "a\0b",
        "x" * 101,
    ],
)
def test_a_name_that_is_no_plain_name_is_refused(name):
    assert "letters, digits" in _refused(lambda: check_name(name))


def test_plain_names_are_kept():
    for name in ("pocket", "H200-2026.1", "a", "x_y", "7", "x" * 100):
        assert check_name(name) == name


def test_a_stored_run_stays_in_its_folder(tiny):
    home = tiny("import pandas as pd", "write_table(pd.DataFrame({'x': [1]}), 't')")
    assert run_all([run := plan(find("1_demo"))]) == []
    for name in ("../../x", "/x", ".x"):
        assert "letters, digits" in _refused(lambda: archive.add(run, name))
    assert sorted(p.name for p in home.iterdir()) == ["_build", "notebooks"]
    done = probebook("run", "1_demo", "--archive", "--name=../x")
    assert done.returncode == 2
    assert "letters, digits" in done.stderr
    assert done.stderr.count("\n") == 1
    assert archive.add(run, "x") == home / "data/records/1_demo/01_first/x"
    assert "letters, digits" in _refused(lambda: write_table(pd.DataFrame({"x": [1]}), "../t"))
