"""Where tensors live. What a GPU does is tried on a simulated one (`card/`), with its values; with
PROBEBOOK_DEVICE=cuda on a real one.

A GPU adds in another order, so float32 agrees to about 1e-5, and what was trained to about 1e-4."""

import ast
import itertools
import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import DEVICE, ROOT, linked_home
from probebook import base, devices
from probebook import explainers as ex
from probebook.base import PACKAGE, UserError, to_numpy
from probebook.devices import choose_device, choose_dtype, place_states
from probebook.interventions import (
    DAS,
    FGSM,
    LEACE,
    PGD,
    MeanShift,
)
from probebook.interventions.attack import CHUNK
from probebook.interventions.controls import Matched
from probebook.interventions.fab import FAB
from probebook.models import embed, fill, head_logits, load, patch, word_logits
from probebook.models.cache import load_or_compute
from probebook.models.classifier import Classifier
from probebook.models.embedding import embed_poolings
from probebook.models.patching import Tail
from probebook.probes import MLPProbe
from probebook.probes.description_length import online_code
from probebook.probes.discriminant import LinearDiscriminant
from probebook.probes.variational import variational_code
from probebook_chapters.across import stories_world
from probebook_chapters.concept_effects import prepare
from probebook_runs.execute import ended_early, execute
from probebook_runs.pages import find, pages
from probebook_runs.store import plan
from test_serialization import TAKE_STATES_ALONE, fitted

CPU = torch.device("cpu")
SIMULATED = DEVICE == "cpu"
if SIMULATED:
    from card import simulated_card
TEXTS = [
    f"the {noun} {'near the barn ' * i}[MASK] green"
    for noun in ("dog", "cats", "old farmer")
    for i in range(4)
]
G = torch.Generator().manual_seed(0)


@pytest.fixture
def card(monkeypatch):
    """The GPU, chosen by default, with states of any size."""
    monkeypatch.setattr(devices, "WORTH", 0)
    monkeypatch.setenv("PROBEBOOK_DEVICE", "card" if SIMULATED else DEVICE)
    if SIMULATED:
        monkeypatch.setattr(base, "DEVICE", simulated_card.CARD_TOO)
    with simulated_card.card() if SIMULATED else nullcontext():
        yield choose_device()


@pytest.fixture
def data():
    z = torch.randint(2, (300,), generator=G)
    return torch.randn(300, 6, generator=G) + 2 * z[:, None], z


def test_the_card_refuses_what_a_gpu_refuses(card):
    here, there = torch.ones(3), torch.ones(3, device=card)
    assert there.device == card != CPU
    assert torch.equal((2 * there + 1).cpu(), 2 * here + 1)
    for mixed in (
        lambda: here + there,
        lambda: here[there.long()],
        lambda: there.numpy(),
        lambda: np.asarray(there),
        lambda: torch.randn(3, generator=torch.Generator(), device=card),
    ):
        with pytest.raises((RuntimeError, TypeError)):
            mixed()
    assert torch.equal(there[torch.tensor([0, 2])].cpu(), torch.ones(2))  # as a GPU allows


@pytest.mark.parametrize(("name", "found"), [(None, "cpu"), ("cpu", "cpu"), ("cpu:0", "cpu")])
def test_the_device_is_the_one_asked_for(monkeypatch, name, found):
    monkeypatch.delenv("PROBEBOOK_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(name) == torch.device(found)
    monkeypatch.setenv("PROBEBOOK_DEVICE", name or "")
    assert choose_device() == torch.device(found)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpu", "'gpu' is not a valid device: expected cpu, cuda, cuda:1 or mps"),
        ("cuda:x", "'cuda:x' is not a valid device"),
        ("cuda:99", "'cuda:99' is not there"),
    ],
)
def test_a_device_that_is_not_there_gets_a_line(monkeypatch, name, says):
    monkeypatch.setenv("PROBEBOOK_DEVICE", name)
    with pytest.raises(UserError, match=says):
        load("pocket-agreement")


def test_a_gpu_that_is_there_is_the_default(monkeypatch):
    monkeypatch.delenv("PROBEBOOK_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device() == torch.device("cuda", 0)


def test_the_precision_is_float32_unless_another_is_asked_for(monkeypatch):
    monkeypatch.delenv("PROBEBOOK_DTYPE", raising=False)
    assert choose_dtype() == torch.float32
    monkeypatch.setenv("PROBEBOOK_DTYPE", "bfloat16")
    assert choose_dtype() == torch.bfloat16
    assert next(load("pocket-agreement").net.parameters()).dtype == torch.bfloat16
    assert choose_dtype("float64") == torch.float64
    monkeypatch.setenv("PROBEBOOK_DTYPE", "int8")
    with pytest.raises(UserError, match="'int8' is not a valid precision: expected float32, bfl"):
        load("pocket-agreement")


def test_what_was_computed_in_another_precision_is_kept_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    for name, value in (("", 1.0), ("bfloat16", 2.0), ("", 3.0), ("bfloat16", 4.0)):
        monkeypatch.setenv("PROBEBOOK_DTYPE", name)
        found = load_or_compute("things", ["key"], lambda value=value: {"h": torch.tensor([value])})
        assert found["h"] == (2.0 if name else 1.0)


def test_float32_is_the_default_on_a_gpu_too(card):
    weights = next(load("pocket-agreement").net.parameters())
    assert (weights.device, weights.dtype) == (card, torch.float32)


def test_states_go_to_a_gpu_if_they_are_many_and_fit(card, monkeypatch):
    h = torch.ones(100, 10)
    assert place_states(h).device == card
    monkeypatch.setattr(devices, "WORTH", 1001)
    assert place_states(h) is h
    monkeypatch.setattr(devices, "WORTH", 1000)
    monkeypatch.setattr(devices, "free_memory", lambda device: 6 * h.nbytes - 1)
    assert place_states(h) is h
    monkeypatch.setattr(devices, "free_memory", lambda device: 6 * h.nbytes)
    assert place_states(h).device == card


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_numpy_takes_a_tensor_of_any_device_and_precision(card, dtype):
    x = torch.arange(4).to(dtype)
    wanted = np.arange(4.0)
    assert (to_numpy(x) == wanted).all()
    assert (to_numpy(x.to(card)) == wanted).all()
    if dtype.is_floating_point:
        assert (to_numpy(x.to(card).requires_grad_()) == wanted).all()


def methods(h, z):
    """Every method that can be saved, and two more."""
    found = fitted(h, z)
    short = replace(found["AutoAttack"], steps=9)
    return found | {
        "AutoAttack": short,
        "AutoAttack, linf": replace(short, norm="linf"),
        "discriminant": LinearDiscriminant().fit(h, z),
    }


ERASE_OR_READ = {*TAKE_STATES_ALONE, "discriminant"}


def test_every_method_gives_the_same_on_a_gpu_and_for_states_that_live_elsewhere(card, data):
    """Fitted on the card or on the CPU, applied to states of either: the answer is where the states
    are, and equals the CPU's."""
    h, z = data
    there = h.to(card), z.to(card)
    fitted = {CPU: methods(h, z), card: methods(*there)}
    for name, edit in fitted[CPU].items():
        given = () if name in ERASE_OR_READ else (1 - z,)
        wanted = edit(h, *given)
        for on in (CPU, card):
            for states, labels in (
                (h, given),
                (there[0], [x.to(card) for x in given]),
                (there[0], given),
            ):
                found = fitted[on][name](states, *labels)
                assert found.device == states.device, (name, on)
                assert found.dtype == states.dtype
                torch.testing.assert_close(
                    found.detach().cpu(),
                    wanted,
                    rtol=1e-5,
                    atol=1e-5,
                    msg=lambda m, name=name, on=on: f"{name} {on}: {m}",
                )


def test_states_that_do_not_fit_on_a_gpu_go_there_block_by_block(card, data, monkeypatch):
    monkeypatch.setattr(devices, "free_memory", lambda device: 0)
    monkeypatch.setitem(CHUNK, card.type, 70)
    h, z = data
    assert place_states(h) is h
    probe, seen = MLPProbe(width=8).fit(h, z), []

    def watched(states):
        seen.append((states.device, len(states)))
        return probe(states)

    for attack in (FGSM, PGD, partial(FAB, steps=20)):
        wanted = attack(probe, 0.3)(h.to(card), to=1 - z).cpu()
        found = attack(watched, 0.3)(h, to=1 - z)
        assert found.device == attack(watched, 0.3).failed(found, 1 - z).device == CPU
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert {size for on, size in seen if on == card} == {70, 300 % 70}
    assert {size for on, size in seen if on == CPU} == {2}  # what it gives at all
    for method in (LEACE, LinearDiscriminant):
        torch.testing.assert_close(
            method().fit(h, z)(h), method().fit(h.to(card), z)(h), rtol=1e-5, atol=1e-5
        )


def test_which_rows_failed_is_the_same_on_a_gpu(card, data):
    h, z = data
    for name, edit in methods(h, z).items():
        if name in ("mlp", "linear", "discriminant", "QLEACE"):
            continue
        if isinstance(edit, Matched):
            continue
        erases = name in ERASE_OR_READ
        there = h.to(card)
        wanted, failed = (
            edit.failed(edit(states), states) if erases else edit.failed(edit(states, 1 - z), 1 - z)
            for states in (h, there)
        )
        assert failed.device == card
        assert torch.equal(failed.cpu(), wanted), name


def test_description_lengths_are_the_same_on_a_gpu(card, data):
    h, z = data
    for code in (online_code, partial(variational_code, steps=30, draws=2)):
        assert code(h.to(card), z).bits == pytest.approx(code(h, z).bits, rel=1e-5)


def test_a_grid_trains_alike_on_a_gpu(card, data):
    h, z = data
    grid = MLPProbe.grid((1, 2), (8, 16), (1e-3, 1e-2), (0, 1), epochs=2, patience=1)
    here, there = grid.fit_seeds(h, z), grid.fit_seeds(h.to(card), z)
    for seed in here:
        assert here[seed].cell == there[seed].cell
        assert there[seed].weights[0].device == card
        torch.testing.assert_close(there[seed](h), here[seed](h), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["pocket-agreement", "pocket-english-gpt"])
def test_a_model_on_a_gpu_reads_and_answers_as_on_the_cpu(card, name):
    here, there = load(name, "cpu"), load(name)
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-4)
    for at in ("[MASK]", "last", "mean", "max", ("first", ["the"] * len(TEXTS))):
        h = embed(TEXTS, there, 2, at, cache=False)
        assert h.device == CPU
        close(h, embed(TEXTS, here, 2, at, cache=False))
    poolings = embed_poolings(TEXTS, there, rules=("mean", "last"))
    assert {one.device for one in poolings.values()} == {CPU}
    h = embed(TEXTS, here)
    logits = head_logits(h, here)
    for states in (h, h.double(), h.to(card)):  # the head goes to no states: they go
        found = head_logits(states, there)
        assert found.device == states.device
        close(found.cpu(), logits)
        assert there.head(states).dtype == states.dtype
    words = [["is", "are"]] * len(TEXTS)
    close(word_logits(TEXTS, there, words), word_logits(TEXTS, here, words))
    assert word_logits([], there, words, h.to(card)).device == card
    filled = [[*one.top[0]] for one in fill(TEXTS, there)]
    assert filled == [[*one.top[0]] for one in fill(TEXTS, here)]

    def edit(states):
        return states + 1

    for new in (edit, edit(embed(TEXTS, here, 2)), edit(embed(TEXTS, here, 2)).to(card)):
        found = patch(TEXTS, there, 2, "[MASK]", new)
        assert found.device == (CPU if callable(new) else new.device)
        close(found.cpu(), patch(TEXTS, here, 2, "[MASK]", edit))
    rows = torch.arange(3)
    for on in (CPU, card):
        states = embed(TEXTS, here, 2)[:3].to(on).requires_grad_()
        after = Tail(TEXTS, there, 2, "[MASK]")(states, rows)
        (gradient,) = torch.autograd.grad(after.sum(), states)
        assert after.device == gradient.device == on


def test_das_learns_through_the_head_of_a_model_that_lives_elsewhere(card):
    h = embed(TEXTS, load("pocket-agreement", "cpu"))
    to = torch.arange(len(h)) % 2
    fits = [
        DAS(steps=5).fit(states, states.flip(0), to, load("pocket-agreement", on).head, [7, 8])
        for states in (h, h.to(card))
        for on in (CPU, card)
    ]
    for fit in fits[1:]:
        torch.testing.assert_close(fit.basis.cpu().abs(), fits[0].basis.abs(), rtol=1e-4, atol=1e-4)


def test_explainers_fitted_on_a_gpu_are_asked_on_the_cpu_and_the_other_way_round(
    card, monkeypatch, tmp_path
):
    """Of many texts the states lie on a GPU, of few on the CPU: the effects are the same."""
    s = prepare("reviews", 60, seed=0)
    box = Classifier(s.task, "pocket-english", frozen=True, epochs=2, lr=1e-2).fit(s.train)
    questions = s.parts["test"].questions.iloc[:20]
    fits = {
        "TCAV": ex.TCAV(),
        "TCAV as released": ex.TCAV("released"),
        "ConceptSHAP": ex.ConceptSHAP(epochs=1, hidden=8),
        "INLP": ex.INLPExplainer(rounds=1),
        "LEACE": ex.LEACEExplainer(),
        "AlterRep": ex.AlterRepExplainer(),
        "PGD": ex.PGDExplainer(steps=3),
        "S-Learner": ex.SLearner(),
        "CONEXP": ex.CONEXP(),
    }
    for name, explainer in fits.items():
        found = []
        for at_fit, asked in itertools.product((10**9, 0), repeat=2):  # `WORTH` of either
            monkeypatch.setattr(devices, "WORTH", at_fit)
            monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / str(len(found))))
            explainer.fit(s.train, box)
            monkeypatch.setattr(devices, "WORTH", asked)
            found.append(explainer.effect(questions))
        for effects in found[1:]:
            torch.testing.assert_close(effects, found[0], rtol=1e-5, atol=1e-5, msg=name)


def test_a_readers_head_on_a_gpu_reads_states_of_the_cpu(card, monkeypatch, tmp_path):
    """Page 6/02: edits work on the states of a story, and the reader's own head judges them."""
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    found = {}
    for worth in (10**9, 0):  # the states on the CPU, and on the GPU
        monkeypatch.setattr(devices, "WORTH", worth)
        world = stories_world("pocket-stories-ibt", n=6)
        rows = world.parts["test"]
        shift = MeanShift().fit(world.h, world.z)(world.h[rows], to=1 - world.z[rows])
        das = DAS(steps=3).fit(world.h, world.partner, 1 - world.z, world.logits, world.choices)
        found[world.h.device] = [
            world.true,
            world.probs(shift, rows),
            world.logits(shift),
            das(world.h[rows], to=1 - world.z[rows]),
        ]
        assert {one.device for one in found[world.h.device]} == {world.h.device}
    for here, there in zip(found[CPU], found[card]):
        torch.testing.assert_close(there.cpu(), here, rtol=1e-5, atol=1e-4)


def test_batches_of_a_gpu_are_tokenized_ahead_and_keep_their_rows(card, monkeypatch):
    from probebook.models import batches

    monkeypatch.setattr(batches, "AHEAD", 5)
    model = load("pocket-agreement")
    words = [text.split()[1] for text in TEXTS]
    found = list(batches.batches(TEXTS, model, ("first", words), "mean"))
    assert sorted(row for batch in found for row in batch.rows) == [*range(len(TEXTS))]
    for batch in found:
        for i, row in enumerate(batch.rows):
            ids = model.tokenizer(TEXTS[row])["input_ids"]
            assert batch.ids[i, : len(ids)].tolist() == ids
            place = int(batch.weights[i].argmax())
            assert model.tokenizer.decode([ids[place]]).strip("#") in words[row]
    wanted = embed(TEXTS, load("pocket-agreement", "cpu"), 1, ("first", words), cache=False)
    torch.testing.assert_close(
        embed(TEXTS, model, 1, ("first", words), cache=False), wanted, rtol=1e-5, atol=1e-4
    )


GPU = {  # what the card holds
    "models": {"PROBEBOOK_DEVICE": "card"},
    "models and states": {"PROBEBOOK_DEVICE": "card", "CARD_HOLDS": "states"},
}
ALWAYS = [
    ("1_causal_probing/07_layers", "models and states"),
    ("5_semantic_faithfulness/03_inside", "models and states"),
    ("6_across_papers/03_layers_and_architectures", "models"),
    ("1_causal_probing/01_agreement_and_embeddings", "bfloat16"),
    ("3_data_requirements/03_encoders_and_probes", "bfloat16"),
]


def every_page(ways) -> list:
    return [
        pytest.param(page.name, way, marks=[] if (page.name, way) in ALWAYS else pytest.mark.verify)
        for page in pages()
        for way in ways
    ]


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home of its own, since a run's id does not say on which device it was made."""
    monkeypatch.setenv("PROBEBOOK_HOME", str(tmp_path))
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    return linked_home(tmp_path)


def said(home: Path) -> dict:
    """The record of the only run there."""
    [run] = (home / "_build" / "runs").rglob("record.json")
    return json.loads(run.read_text("utf-8"))


@pytest.mark.parametrize(("name", "holds"), every_page(GPU))
def test_a_page_runs_on_a_gpu(home, forks, monkeypatch, name, holds):
    for variable, value in GPU[holds].items():
        monkeypatch.setenv(variable, value)
    if SIMULATED:
        monkeypatch.setattr(base, "DEVICE", simulated_card.CARD_TOO)
        first = home / "ipython" / "profile_default" / "startup" / "card.py"
        first.parent.mkdir(parents=True)
        folder = str(ROOT / "tests" / "card")
        first.write_text(f"import sys; sys.path.append({folder!r}); import in_a_kernel")
        monkeypatch.setenv("IPYTHONDIR", str(home / "ipython"))
    else:
        monkeypatch.setenv("PROBEBOOK_DEVICE", DEVICE)
    run = plan(find(name), "smoke")
    execute(run, server=forks)
    assert not ended_early(run.read())
    assert said(home)["dtype"] == "float32"
    assert said(home)["device"].startswith("simulated card") == SIMULATED


@pytest.mark.parametrize(("name", "dtype"), every_page(("bfloat16", "float64")))
def test_a_page_runs_in_another_precision(home, forks, monkeypatch, name, dtype):
    monkeypatch.setenv("PROBEBOOK_DTYPE", dtype)
    run = plan(find(name), "smoke")
    execute(run, server=forks)
    assert not ended_early(run.read())
    assert said(home)["dtype"] == dtype


def test_numpy_is_met_through_to_numpy_alone():
    """No tensor's own `.numpy()` in the library or on a page: it fails on a GPU and in bfloat16.

    Allowed: where it is converted, where bytes are hashed, and in what a submission's kernel
    runs."""
    allowed = {"probebook/base.py", "probebook/models/cache.py", "probebook_runs/labs/values.py"}
    files = {
        path.relative_to(PACKAGE.parent).as_posix(): path.read_text("utf-8")
        for path in PACKAGE.parent.glob("probebook*/**/*.py")
    }
    cells = {
        page.name: "\n".join(
            cell.source for cell in page.notebook.cells if cell.cell_type == "code"
        )
        for page in pages()
    }
    found = {
        name
        for name, source in (files | cells).items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "numpy"
    }
    assert found == allowed
