"""A fitted edit as a steering vector: read back by the programs that define the formats, where they
are installed (`pip install --no-deps repeng steering-vectors`; repeng 0.4 wants NumPy 1), and added
by them to a model."""

import gguf
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from probebook.base import UserError
from probebook.interventions import DAS, INLP, AlterRep, MeanShift
from probebook.interventions.export import save_vectors, steering_vector
from probebook.interventions.serialization import load as load_edit
from probebook.interventions.table import INTERVENTIONS, FitData
from probebook.models import embed, load
from probebook_cli import app

transformers = pytest.importorskip("transformers")
D, DEPTH, LAYER = 16, 4, 3
Z = torch.arange(300) % 2
H = torch.randn(300, D, generator=torch.Generator().manual_seed(0)) + 2 * Z[:, None]
EDIT = MeanShift().fit(H, Z).at(1.5)
SHIFT = 1.5 * (H[Z == 1].double().mean(0) - H[Z == 0].double().mean(0))
IDS = torch.arange(10)[None]  # repeng 0.4 takes one text at a time


@pytest.fixture
def model():
    torch.manual_seed(0)
    ends = {"bos_token_id": 1, "eos_token_id": 1}
    config = transformers.GPT2Config(vocab_size=20, n_embd=D, n_layer=DEPTH, n_head=2, **ends)
    return transformers.GPT2LMHeadModel(config).eval()


def states(model):
    """States [layers, b, t, d] of a pass; layer L is what block L is given, counted from 0."""
    found = []
    handles = [
        module.register_forward_pre_hook(lambda module, given: found.append(given[0].clone()))
        for module in (*model.transformer.h, model.transformer.ln_f)
    ]
    with torch.no_grad():
        model(IDS)
    for handle in handles:
        handle.remove()
    return torch.stack(found)


def must_move(before, after):
    """Layers below are as they were; the layer has moved by the edit's shift, at every token."""
    assert torch.equal(before[:LAYER], after[:LAYER])
    moved = EDIT(before[LAYER].reshape(-1, D), to=torch.ones(10)).reshape(1, 10, D)
    torch.testing.assert_close(after[LAYER], moved, rtol=0, atol=1e-6)
    assert not torch.allclose(after[LAYER + 1], before[LAYER + 1])


def test_the_vector_is_the_shift():
    torch.testing.assert_close(steering_vector(EDIT), SHIFT)
    torch.testing.assert_close(steering_vector(EDIT, to=0), -SHIFT)
    torch.testing.assert_close(steering_vector(EDIT, 1, H), SHIFT)
    with pytest.raises(UserError, match="beyond the 2 classes"):
        steering_vector(EDIT, to=2)


def test_an_edit_along_one_line_gives_its_mean_move():
    for edit in (
        AlterRep(max_rank=1).fit(H, Z).at(2.0),
        DAS(rank=1, steps=2).fit(H, H.flip(0), Z, head),
    ):
        vector = steering_vector(edit, 1, H)
        moves = edit(H.double(), to=torch.ones(300)) - H
        torch.testing.assert_close(vector, moves.mean(0))
        assert torch.linalg.matrix_rank(torch.stack([vector, *moves]), rtol=1e-6) == 1
        with pytest.raises(UserError, match="by different lengths: give states"):
            steering_vector(edit)


def head(h):
    return h[:, :2]


def test_other_edits_are_refused():
    data = FitData(H, Z, max_rank=3)
    for name in ("AffineSteering", "AlterRep", "FGSM"):
        row = INTERVENTIONS[name]
        with pytest.raises(UserError, match="along several lines"):
            steering_vector(row.at(row.fit(data), 1.0, data), 1, H)
    for edit in (INTERVENTIONS["LEACE"].fit(data), INLP(1).fit(H, Z)):
        with pytest.raises(UserError, match="erases what states have"):
            steering_vector(edit, 1, H)


def test_a_control_vector_is_llama_cpps(tmp_path, model):
    """`direction.N` goes to the output of block N, counted from 0; metadata as repeng writes."""
    save_vectors({LAYER: steering_vector(EDIT)}, tmp_path / "v.gguf", "gpt2")
    reader = gguf.GGUFReader(tmp_path / "v.gguf")
    fields = {
        name: reader.get_field(f"controlvector.{name}") for name in ("model_hint", "layer_count")
    }
    assert reader.get_field("general.architecture").contents() == "controlvector"
    assert {name: field.contents() for name, field in fields.items()} == {
        "model_hint": "gpt2",
        "layer_count": 1,
    }
    (tensor,) = reader.tensors
    assert (tensor.name, tensor.tensor_type.name, [*tensor.shape]) == ("direction.2", "F32", [D])
    vector = torch.tensor(tensor.data)
    torch.testing.assert_close(vector.double(), SHIFT, rtol=0, atol=1e-6)
    before = states(model)
    block = model.transformer.h[int(tensor.name.split(".")[1])]
    block.register_forward_hook(lambda block, given, out: add(out, vector))
    must_move(before, states(model))


def add(out, vector):
    return (out[0] + vector, *out[1:]) if isinstance(out, tuple) else out + vector


def test_repeng_reads_and_adds_it(tmp_path, model):
    repeng = pytest.importorskip("repeng")
    save_vectors({LAYER: steering_vector(EDIT)}, tmp_path / "v.gguf", "gpt2")
    control = repeng.ControlVector.import_gguf(tmp_path / "v.gguf")
    assert (control.model_type, [*control.directions]) == ("gpt2", [LAYER - 1])
    before = states(model)
    steered = repeng.ControlModel(model, [LAYER - 1])
    steered.set_control(control)
    must_move(before, states(model))


def test_steering_vectors_adds_it(tmp_path, model):
    steering_vectors = pytest.importorskip("steering_vectors")
    save_vectors({LAYER: steering_vector(EDIT)}, tmp_path / "v.safetensors")
    read = load_file(tmp_path / "v.safetensors")
    before = states(model)
    vector = steering_vectors.SteeringVector({int(n): v for n, v in read.items()})
    with vector.apply(model):
        must_move(before, states(model))


def test_the_same_file_as_tensors_by_block(tmp_path):
    save_vectors({1: torch.ones(D), LAYER: SHIFT}, tmp_path / "v.safetensors")
    read = load_file(tmp_path / "v.safetensors")
    assert sorted(read) == ["0", "2"] and read["2"].dtype == torch.float32
    torch.testing.assert_close(read["2"].double(), SHIFT, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "layers", "right"),
    [
        ("v.gguf", [1, 2], "expected vectors of layers from 2 on"),
        ("v.gguf", [0], "expected vectors of layers from 2 on"),
        ("v.safetensors", [0], "expected vectors of layers from 1 on"),
        ("v.gguf", [], "expected vectors of layers from 2 on"),
        ("v.pt", [3], "expected a name with .gguf or .safetensors"),
    ],
)
def test_what_no_program_could_add_is_refused(tmp_path, name, layers, right):
    with pytest.raises(UserError) as e:
        save_vectors(dict.fromkeys(layers, SHIFT), tmp_path / name)
    assert right in str(e.value) and "\n" not in str(e.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("kernels")
def test_an_audit_writes_the_vectors_of_a_causal_model(tmp_path):
    """Where llama.cpp adds one; added there, it does to the library's states what the edit does."""
    name = "pocket-english-gpt"
    nouns = ["dog", "tree", "house", "king", "river", "ship", "boy", "girl", "book", "horse"]
    rows = [(f"At {i % 20} they saw the {noun}", noun) for i in range(20) for noun in nouns]
    table = pd.DataFrame(rows, columns=["text", "noun"]).assign(label=["one", "many"] * 100)
    table.text += table.label.map({"one": "", "many": "s"})
    table.to_csv(tmp_path / "t.csv", index=False)
    done = CliRunner().invoke(
        app,
        ["audit", name, str(tmp_path / "t.csv"), "--text", "text", "--label", "label"]
        + ["--at", "last", "--layers", "1,2,-1", "--methods", "LEACE,MeanShift"]
        + [
            "--profile",
            "smoke",
            "-p",
            "draws=500",
            "-p",
            "fewest=20",
            "--out",
            str(tmp_path / "r"),
        ],
    )
    assert done.exit_code == 0, done.output
    found = sorted(path.name for path in (tmp_path / "r" / "edits").glob("*MeanShift*"))
    lm = load(name)
    assert found == [
        "layer1_MeanShift.safetensors",
        "layer1_MeanShift.vector.safetensors",
        "layer2_MeanShift.gguf",
        "layer2_MeanShift.safetensors",
        "layer2_MeanShift.vector.safetensors",
        f"layer{lm.depth}_MeanShift.safetensors",
    ]
    assert len([*(tmp_path / "r" / "edits").glob("*LEACE*")]) == 3
    edit = load_edit(tmp_path / "r" / "edits" / found[3])
    (tensor,) = gguf.GGUFReader(tmp_path / "r" / "edits" / found[2]).tensors
    (vector,) = load_file(tmp_path / "r" / "edits" / found[4]).values()
    assert torch.equal(vector, torch.tensor(tensor.data))
    texts = ["The old house near the river was empty.", "They went home."]
    before = embed(texts, lm, 2, "last", cache=False)
    block = lm.blocks[int(tensor.name.split(".")[1])]
    handle = block.register_forward_hook(lambda block, given, out: add(out, vector))
    after = embed(texts, lm, 2, "last", cache=False)
    handle.remove()
    torch.testing.assert_close(after, edit(before, to=[1, 1]), rtol=0, atol=1e-5)
