"""An audit reads saved states in every form in which other programs write them, and no pickle."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import probebook_audit as audit
from probebook.base import UserError
from probebook_audit import from_files, labelled
from probebook_cli import app

N, D, LAYERS = 120, 6, 3
Z = torch.arange(N) % 2
H = torch.randn(N, LAYERS, D, generator=torch.Generator().manual_seed(0))
H[:, 1, 0] += 4 * Z  # the layer that is meant
MEANT = H[:, 1].contiguous()
TOKENS = [torch.cat([torch.zeros(i % 4, LAYERS, D), H[i : i + 1]]) for i in range(N)]


def numpy_file(path, **arrays):
    np.savez(path, **{name: one.numpy() for name, one in arrays.items()})


def files(folder, write, name="{}"):
    """A file for each row, and one that is none of them."""
    folder.mkdir()
    for i in range(N):
        write(folder / name.format(i), i)
    (folder / "0.safetensors.lock").touch()


def vllm(path, i):  # as vLLM's ExampleHiddenStatesConnector does
    ids = torch.zeros(len(TOKENS[i]), dtype=torch.int64)
    save_file({"hidden_states": TOKENS[i].bfloat16(), "token_ids": ids}, path)


FORMS = {  # name → (what writes it, key, layer)
    "h": (lambda path: save_file({"h": MEANT}, path), "", None),
    "any key": (
        lambda path: save_file({"resid_post": MEANT, "w": H[:9, 0].clone()}, path),
        "",
        None,
    ),
    "key": (lambda path: save_file({"a": MEANT, "b": H[:, 0].clone()}, path), "a", None),
    "layers": (lambda path: save_file({"acts": H}, path), "", 1),
    "from the end": (lambda path: save_file({"acts": H}, path), "", -2),
    "single layer": (lambda path: save_file({"acts": H[:, 1:2].clone()}, path), "", None),
    ".npz": (lambda path: numpy_file(path, acts=H, label=Z), "", 1),
    ".npy": (lambda path: np.save(path, MEANT.numpy()), "", None),
    ".npy of layers": (lambda path: np.save(path, H.numpy().astype(">f4")), "", 1),
    "vectors": (
        lambda path: files(path, lambda file, i: np.save(file, MEANT[i].numpy()), "text{}.npy"),
        "",
        None,
    ),
    "rows": (
        lambda path: files(
            path, lambda file, i: save_file({"x": MEANT[i : i + 1].clone()}, file), "{}.safetensors"
        ),
        "",
        None,
    ),
    "tokens": (
        lambda path: files(
            path,
            lambda file, i: save_file({"h": TOKENS[i][:, 1].clone()}, file),
            "layer12_{}-0a1b.safetensors",
        ),
        "h",
        None,
    ),
    "vLLM": (lambda path: files(path, vllm, "{}.safetensors"), "", 1),
}


def put(form, folder):
    write, *place = FORMS[form]
    path = folder / f"states{form.split()[0] if form[0] == '.' else ''}"
    write(path)
    return str(path), *place


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "t.csv"
    pd.DataFrame({"label": Z}).to_csv(path, index=False)
    return labelled.read(str(path), label="label")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_states_of_the_rows_in_their_order(form, tmp_path, data, monkeypatch):
    monkeypatch.setattr(from_files, "BLOCK", 8 * D * 7)  # 7 states
    path, key, layer = put(form, tmp_path)
    case = audit.from_states(data, path, key=key, layer=layer)
    right = MEANT.bfloat16().float() if form == "vLLM" else MEANT
    assert torch.equal(case.h.cpu(), right[torch.from_numpy(data.rows)])
    assert bool(case.notes) == (form in ("vectors", "rows", "tokens", "vLLM"))
    rows = np.array([N - 1, 0, 50])
    name = from_files._choose(path, key, N)
    assert torch.equal(from_files.read_tensor(path, name, rows, layer), right[rows])
    assert from_files.fitting_items(path, key) is None
    monkeypatch.setattr(from_files, "IN_MEMORY", 4 * D * 30)
    assert from_files.fitting_items(path, key) == 30


def test_pairs_come_from_the_layer_of_the_states(tmp_path, data):
    numpy_file(tmp_path / "s.npz", states=H, pair=H.flip(0), head=torch.eye(2, D))
    case = audit.from_states(data, str(tmp_path / "s.npz"), layer=1)
    assert torch.equal(case.partner.cpu(), MEANT.flip(0)[torch.from_numpy(data.rows)])


def one(**arrays):
    return lambda path: save_file(arrays, path)


def numbered(names, state=MEANT[:1]):
    def write(path):
        path.mkdir()
        for name in names:
            save_file({"x": state.clone()}, path / name)

    return write


def uneven(path):
    numbered([f"{i}.safetensors" for i in range(N)])(path)
    save_file({"x": torch.zeros(2, D + 1)}, path / "7.safetensors")


REFUSED = {
    "rows": (one(x=MEANT[:99]), {}, "x has 99 rows, "),
    "several": (
        one(a=MEANT, b=H[:, 0].clone()),
        {},
        "holds a [120, 6], b [120, 6]: name the states [120, columns] by --states-key",
    ),
    "no key": (one(a=MEANT), {"key": "b"}, "holds a [120, 6], no 'b': name the states"),
    "layers": (one(a=H), {}, "a has the shape [120, 3, 6]: one layer, by --states-layer 0 … 2, is"),
    "no layer": (one(a=H), {"layer": 3}, "one layer, by --states-layer 0 … 2, is needed"),
    "no layers": (one(h=MEANT), {"layer": 1}, "[rows, layers, columns] for --states-layer is"),
    "NaN": (one(x=MEANT / 0 * 0), {}, "row 1 of x holds NaN"),
    "a row too few": (
        numbered([f"{i}.safetensors" for i in range(N - 1)]),
        {},
        "x has 119 rows, ",
    ),
    "a gap": (
        numbered([f"{i}.safetensors" for i in range(N + 1) if i != 5]),
        {},
        "numbered without gaps: 0.safetensors",
    ),
    "names": (
        numbered(["cmpl-3f.safetensors", "cmpl-9a.safetensors"]),
        {},
        "a folder with cmpl-3f.safetensors, cmpl-9a.safetensors: expected a file for each row",
    ),
    "empty": (numbered([]), {}, "a folder with nothing in it: expected a file for each row"),
    "uneven": (uneven, {}, "7.safetensors holds x [2, 7]: expected x [tokens, 6]"),
    "no token": (
        numbered([f"{i}.safetensors" for i in range(N)], torch.zeros(0, D)),
        {},
        "holds x [0, 6]: expected x [tokens, 6]",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(what, tmp_path, data):
    write, place, right = REFUSED[what]
    write(tmp_path / "s")
    with pytest.raises(UserError) as e:
        audit.from_states(data, str(tmp_path / "s"), **place)
    assert right in str(e.value) and "\n" not in str(e.value)


class Trap:
    def __reduce__(self):
        return (open, ("/nowhere/opened", "w"))


@pytest.mark.parametrize("name", ["s.npy", "s.npz", "s.pt", "s.pkl"])
def test_no_pickle_is_opened(name, tmp_path):
    path = tmp_path / name
    trap = np.array([Trap()], dtype=object)
    if name == "s.pt":
        torch.save({"h": MEANT}, path)
    elif name == "s.npz":
        np.savez(path, h=trap)
    else:
        with open(path, "wb") as file:
            np.save(file, trap, allow_pickle=True)
    with pytest.raises(UserError) as e:
        from_files.fitting_items(str(path))
    kind = name[1:] if name.startswith("s.np") else "safetensors"
    assert f"is not a valid {kind} file (" in str(e.value) and "\n" not in str(e.value)
    if name.startswith("s.np"):
        assert "pickle" in str(e.value)
    if name == "s.pt":
        assert "a zip with" in str(e.value)


def test_damaged_and_missing_files(tmp_path):
    for name, right in [
        ("none.npy", "not a valid .npy file"),
        ("none.safetensors", "No such file"),
        ("cut.npz", "not a valid .npz file"),
    ]:
        if name == "cut.npz":
            numpy_file(tmp_path / name, h=MEANT)
            (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:200])
        with pytest.raises(UserError) as e:
            from_files.fitting_items(str(tmp_path / name))
        assert right in str(e.value) and "\n" not in str(e.value)


def command(folder, path, *more):
    table = pd.DataFrame({"label": np.where(Z == 1, "yes", "no")})
    table.to_csv(folder / "t.csv", index=False)
    return CliRunner().invoke(
        app,
        ["audit", str(folder / "t.csv"), "--states", path, "--label", "label"]
        + [*more, "--profile", "smoke", "--methods", "MeanShift", "--out", str(folder / "r")],
    )


@pytest.mark.usefixtures("kernels")
def test_the_audit_is_the_same_whatever_the_form(tmp_path):
    """One file with h, and a folder of files as vLLM writes them."""
    reports = []
    for form, rounded in (("h", MEANT.bfloat16().float()), ("vLLM", None)):
        folder = tmp_path / form
        folder.mkdir()
        path, _, layer = put(form, folder)
        if rounded is not None:
            save_file({"h": rounded}, path)
        done = command(folder, path, *([] if layer is None else ["--states-layer", str(layer)]))
        assert done.exit_code == 0, done.output
        reports.append(json.loads((folder / "r" / "report.json").read_text()))
    one, other = ({key: report[key] for key in ("answers", "edits", "items")} for report in reports)
    assert one == other and one["edits"]
    note = f"The last token in each file of {tmp_path / 'vLLM' / 'states'} was read."
    assert [*map(len, (reports[0]["notes"], reports[1]["notes"]))] == [0, 1]
    assert reports[1]["notes"] == [note]


def test_options_that_do_not_go_together(tmp_path):
    save_file({"h": MEANT}, tmp_path / "s.safetensors")
    done = command(tmp_path, str(tmp_path / "s.safetensors"), "--layers", "3")
    assert done.exit_code == 2 and "see --states-layer" in done.output
    done = CliRunner().invoke(
        app, ["audit", "m", "d", "--states-layer", "3", "--out", str(tmp_path / "r")]
    )
    assert done.exit_code == 2 and "go with --states" in done.output
