"""The training loop on a tiny text: deterministic, resumable, and it learns."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from probebook import hub
from probebook.base import UserError
from probebook.corpora import agreement
from probebook_training import pretrain, recipes, text
from probebook_training.pretrain import Recipe
from probebook_training.text import CLS, MASK, SEP, SPECIAL

pytestmark = pytest.mark.library

TEXTS = list(agreement.generate(400, seed=0)["text"])
TINY = Recipe(
    vocab=400, layers=1, width=32, heads=2, max_length=32, rows=8, steps=6, warmup=2, seed=3
)


@pytest.fixture(scope="module")
def prose():
    tokenizer = text.train_vocabulary(TEXTS, TINY.vocab)
    return tokenizer, *text.encode(TEXTS, tokenizer)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_command_line_knows_every_recipe():
    assert hub.RECIPES == [*recipes.RECIPES, *recipes.READERS, "pocket-vectors"]


def test_vocabulary_is_sorted_uncased_and_the_same_but_for_ties(prose):
    tokenizer = prose[0]
    again = text.train_vocabulary(TEXTS, TINY.vocab).get_vocab()
    assert len(again.keys() ^ tokenizer.get_vocab().keys()) <= 0.04 * TINY.vocab
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert pieces[:5] == SPECIAL
    assert pieces[5:] == sorted(pieces[5:])
    assert tokenizer("The [MASK]")["input_ids"] == tokenizer("the [MASK]")["input_ids"]
    assert tokenizer("the [MASK]")["input_ids"][2] == MASK


def test_encoding_keeps_every_text(prose):
    tokenizer, ids, starts = prose
    assert len(starts) == len(TEXTS) + 1
    assert starts[-1] == len(ids)
    assert (
        ids[starts[7] : starts[8]].tolist()
        == tokenizer(TEXTS[7], add_special_tokens=False)["input_ids"]
    )


def test_rows_begin_with_a_sentence_and_are_full(prose):
    _, ids, starts = prose
    rows = text.draw_rows(ids, starts, 50, 16, np.random.default_rng(0), True)
    firsts = {tuple(ids[s : s + 14].tolist()) for s in starts[:-1]}
    assert (rows[:, 0] == CLS).all()
    assert (rows[:, -1] == SEP).all()
    assert all(tuple(row[1:-1].tolist()) in firsts for row in rows)
    anywhere = text.draw_rows(ids, starts, 50, 16, np.random.default_rng(0), False)
    assert not all(tuple(row[1:-1].tolist()) in firsts for row in anywhere)


def test_masking_has_berts_shares_and_spares_special_tokens():
    rows = torch.randint(5, 400, (400, 100), generator=torch.Generator().manual_seed(0))
    rows[:, 0], rows[:, -1] = CLS, SEP
    inputs, chosen = text.mask_rows(rows, 0.2, 400, torch.Generator().manual_seed(1))
    assert not chosen[:, [0, -1]].any()
    assert torch.equal(inputs[~chosen], rows[~chosen])
    assert chosen[:, 1:-1].float().mean() == pytest.approx(0.2, abs=0.01)
    assert (inputs[chosen] == MASK).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (inputs[chosen] == rows[chosen]).float().mean() == pytest.approx(0.1, abs=0.02)


def test_schedule_rises_stays_and_falls_to_zero():
    recipe = Recipe(steps=100, warmup=10, decay=0.3)
    rates = [pretrain.schedule(s, recipe) for s in range(101)]
    assert rates[0] == 0.1
    assert rates[9:71] == [1.0] * 62
    assert rates[85] == pytest.approx(0.5)
    assert rates[100] == 0


def test_four_parts_have_the_gradient_of_the_whole(prose):
    _, ids, starts = prose
    model = pretrain.build(TINY)
    rows = text.draw_rows(ids, starts, 8, 16, np.random.default_rng(0), True)
    inputs, chosen = text.mask_rows(rows, 0.3, TINY.vocab, torch.Generator().manual_seed(0))
    pretrain.cloze_loss(model, inputs, rows, chosen).backward()
    whole = [p.grad.clone() for p in model.parameters()]
    with pretrain.ThreadPoolExecutor(2) as pool:
        pretrain.gradients(model, [(inputs, rows, chosen)], pool)
    for p, g in zip(model.parameters(), whole):
        assert (p.grad - g).norm() <= 0.02 * g.norm() + 1e-6  # bfloat16 products


def test_a_killed_run_goes_on_to_the_same_weights(prose, tmp_path, monkeypatch):
    _, ids, starts = prose
    straight = pretrain.build(TINY)
    records = pretrain.train(straight, ids, starts, TINY, every=2)
    calls, gradients = [], pretrain.gradients

    def killed(*args):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return gradients(*args)

    monkeypatch.setattr(pretrain, "gradients", killed)
    with pytest.raises(KeyboardInterrupt):
        pretrain.train(pretrain.build(TINY), ids, starts, TINY, tmp_path / "c.safetensors", every=2)
    monkeypatch.undo()
    resumed = pretrain.build(replace(TINY, seed=99))  # its weights come from the checkpoint
    again = pretrain.train(resumed, ids, starts, TINY, tmp_path / "c.safetensors", every=2)
    assert torch.equal(weights(straight), weights(resumed))
    assert [r["step"] for r in again] == [2, 4, 6]
    assert again[-1]["tokens"] == records[-1]["tokens"]


def test_another_recipes_checkpoint_is_refused(prose, tmp_path):
    _, ids, starts = prose
    pretrain.train(pretrain.build(TINY), ids, starts, TINY, tmp_path / "c.safetensors", every=6)
    other = replace(TINY, lr=0.5)
    with pytest.raises(UserError, match="another recipe"):
        pretrain.train(pretrain.build(other), ids, starts, other, tmp_path / "c.safetensors")


def test_left_to_right_loss_is_the_models_own_but_for_the_cut(prose):
    _, ids, starts = prose
    recipe = replace(TINY, arch="causal")
    model = pretrain.build(recipe).eval()
    rows = text.draw_rows(ids, starts, 8, 16, np.random.default_rng(0), True)
    inputs, labels, chosen = text.next_rows(rows)
    words = rows >= len(SPECIAL)  # unknown pieces are not to be learnt
    assert words.sum() > 8 * 10
    assert torch.equal(labels[chosen], rows[words])
    own = model(input_ids=rows, labels=rows.masked_fill(~words, -100)).loss
    loss = pretrain.cloze_loss(model, inputs, labels, chosen)
    assert loss.item() == pytest.approx(own.item(), rel=0.01)  # bfloat16
    later = rows.clone()
    later[:, 9:] = rows.flip(0)[:, 9:]
    seen = [model.base_model(input_ids=x).last_hidden_state[:, :9] for x in (rows, later)]
    torch.testing.assert_close(*seen, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("arch", ["rotary", "causal", "prenorm", "bert"])
def test_training_learns_the_text(prose, arch):
    _, ids, starts = prose
    recipe = replace(TINY, arch=arch, steps=80, warmup=10, rows=16, lr=1e-2)
    model = pretrain.build(recipe)
    before = pretrain.evaluate(model, ids, starts, recipe, n=64)
    records = pretrain.train(model, ids, starts, recipe, every=80, valid=(ids, starts))
    assert before > 5.5
    assert records[-1]["valid_loss"] < before - 0.8


def test_a_second_task_is_learned_beside_the_text(prose):
    tokenizer, ids, starts = prose
    table = agreement.generate(200, seed=0, contingency=[[1, 0, 0], [1, 0, 0]])
    inputs = tokenizer(list(table["text"]), padding=True, return_tensors="pt")["input_ids"]
    words = torch.tensor(table["zc"])[:, None] + 10  # ids 10 and 11
    labels = torch.where(inputs == MASK, words, inputs)
    recipe = replace(TINY, steps=60, warmup=5, lr=1e-2)
    model = pretrain.build(recipe)
    chosen = inputs != labels
    before = pretrain.cloze_loss(model, inputs, labels, chosen).item()
    pretrain.train(model, ids, starts, recipe, cloze=(inputs, labels))
    assert pretrain.cloze_loss(model, inputs, labels, chosen).item() < before - 3


def test_encoded_prose_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    monkeypatch.setattr(recipes.english, "paragraphs", lambda: iter(TEXTS))
    made = recipes._prose(TINY, new=True)
    monkeypatch.setattr(recipes.english, "paragraphs", None)  # not asked again
    kept = recipes._prose(TINY, new=True)
    for one, two in zip(made[1] + made[2], kept[1] + kept[2], strict=True):
        assert one.dtype == two.dtype
        assert len(one)
        assert (one == two).all()
    assert len(kept[2][1]) < len(kept[1][1])
    assert kept[0].get_vocab() == made[0].get_vocab()


def test_another_seed_gives_another_model_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(recipes.english, "paragraphs", lambda: iter(TEXTS))
    monkeypatch.setitem(recipes.RECIPES, "pocket-english", replace(TINY, seed=0))
    made = {
        (seed, k): recipes.train("pocket-english", seed=seed, out=tmp_path / f"{seed}-{k}")
        for seed, k in ((0, 0), (1, 0), (1, 1))
    }  # the third is resumed at its end
    assert json.loads((made[1, 0] / "training.json").read_text())["recipe"]["seed"] == 1
    net = {key: load_file(folder / "model.safetensors") for key, folder in made.items()}
    layer = "model.layers.0.mlp.Wi.weight"
    assert (net[1, 0][layer] == net[1, 1][layer]).all()
    assert (net[0, 0][layer] != net[1, 0][layer]).any()
    with pytest.raises(UserError, match="say where with --out"):
        recipes.train("pocket-english", seed=1)
