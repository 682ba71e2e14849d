"""Readers: windows, targets, the paper's heads, training that resumes, decisions over windows."""

import numpy as np
import pandas as pd
import pytest
import torch

import tiny_encoders
from probebook.base import UserError
from probebook.models.loading import load
from probebook.models.readers import FittedReader, Network, Reader, load_reader, windows
from probebook.models.readers import heads as qa_heads

pytestmark = pytest.mark.library

COLOURS, THINGS = ("red", "blue", "green"), ("hat", "coat", "door")
WORDS = (
    f"the was what colour of {' '.join(COLOURS)} {' '.join(THINGS)} yes no unknown or two".split()
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tiny_encoders.save(tmp_path_factory.mktemp("encoders"), WORDS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def row(story, question, answer, rationale=None, history=(), kind="span"):
    start = -1 if answer in windows.WORD_ANSWERS else story.index(answer)
    return {
        "story_id": 0,
        "story": story,
        "question": question,
        "answer": answer,
        "history": list(history),
        "kind": kind,
        "start": start,
        "end": start + len(answer) if start >= 0 else -1,
        "rationale": []
        if rationale is None
        else [(a := story.index(rationale), a + len(rationale))],
    }


def stories(n, seed=0):
    """Three things with three colours; asked what colour, or whether a thing has one."""
    draws, rows = np.random.default_rng(seed), []
    for _ in range(n):
        things, colours = draws.permutation(THINGS), draws.permutation(COLOURS)
        told = [f"the {t} was {c} ." for t, c in zip(things, colours)]
        rows.append(row(" ".join(told), f"what colour was the {things[0]} ?", colours[0], told[0]))
    return pd.DataFrame(rows)


STORY = "the hat was red . the coat was blue . the door was green ."
TABLE = pd.DataFrame(
    [
        row(STORY, "what colour was the coat ?", "blue", "the coat was blue ."),
        row(STORY, "was the hat blue ?", "no", "the hat was red .", [("what colour ?", "red")]),
        row(STORY, "what colour was the two ?", "unknown"),
    ]
)


@pytest.mark.parametrize("name", tiny_encoders.ENCODERS)
def test_windows_hold_what_the_paper_puts_into_them(folders, name):
    tokenizer = load(folders[name], "cpu").tokenizer
    asked = windows.cut(TABLE, tokenizer, context=16, max_length=48, stride=4)
    assert asked.item.tolist() == [0, 1, 2]
    text = tokenizer.convert_ids_to_tokens(asked.ids[1])
    begin, end = asked.story[1]
    plain = [t.replace("▁", "") for t in text]
    assert " ".join(p for p in plain[begin:end] if p) == STORY
    assert text[asked.cls[1]] == tokenizer.cls_token
    context = "what colour ? red was the hat blue ?"
    around = [p for p in plain[:begin] + plain[end:] if p and p not in tokenizer.all_special_tokens]
    assert " ".join(around) == context
    assert (begin == 0) == (name == "xlnet") == (asked.cls[1] == len(text) - 1)
    assert [STORY[a:b] for a, b in asked.offsets[1] if b > a] == STORY.split()


@pytest.mark.parametrize("name", tiny_encoders.ENCODERS)
def test_every_token_of_a_long_story_is_in_a_window_and_targets_follow_the_characters(
    folders, name
):
    tokenizer = load(folders[name], "cpu").tokenizer
    asked = windows.cut(TABLE, tokenizer, context=8, max_length=20, stride=4)
    want = windows.targets(TABLE, asked)
    for item in range(3):
        mine = np.flatnonzero(asked.item == item)
        assert len(mine) > 1
        assert {tuple(o) for w in mine for o in asked.offsets[w] if o[1] > o[0]} == {
            (i, i + len(t))
            for i, t in zip(np.cumsum([0] + [len(t) + 1 for t in STORY.split()]), STORY.split())
        }
        for w in mine:
            words = [STORY[a:b] for a, b in asked.offsets[w]]
            carried = {
                STORY[a:b]
                for i in want["tags"][w]
                for a, b in [asked.offsets[w][i - asked.story[w, 0]]]
            }
            if item == 0 and "blue" in words:
                at = asked.offsets[w][want["start"][w] - asked.story[w, 0]]
                assert want["answer"][w] == -1
                assert STORY[slice(*at)] == "blue"
                assert want["end"][w] == want["start"][w]
            elif item == 1 and carried:
                assert want["answer"][w] == 1
                assert carried <= set("the hat was red .".split())
            else:
                assert want["answer"][w] == 2
    assert {2, -1} <= set(want["answer"].tolist())
    assert 1 in want["answer"]


def test_context_is_cut_from_the_left(folders):
    tokenizer = load(folders["bert"], "cpu").tokenizer
    long = pd.DataFrame(
        [row(STORY, "was the hat red ?", "yes", history=[("what colour ?", "red")] * 5)]
    )
    full = "what colour ? red what colour ? red was the hat red ?"
    assert windows.question_contexts(long, tokenizer, 64) == [full]
    assert windows.question_contexts(long, tokenizer, 7) == ["? red was the hat red ?"]
    with pytest.raises(UserError, match="question of 5 tokens, at most 4"):
        windows.question_contexts(long, tokenizer, 4)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"story": " "}, "story 0 is empty"),
        ({"start": 50, "end": 70}, "is not a span of its story"),
        ({"start": -1, "end": -1}, "'blue' at -1:-1 is not a span"),
        ({"end": 3}, "is not a span"),
    ],
)
def test_bad_rows_are_refused_in_a_line(folders, change, message):
    table = TABLE.copy()
    for name, value in change.items():
        table.loc[0, name] = value
    with pytest.raises(UserError, match=message):
        Reader(folders["bert"], max_length=48, context=16, stride=8).fit(table)


def test_bad_settings_are_refused(folders):
    with pytest.raises(UserError, match="expected tagging, typed"):
        Reader(heads="other")
    with pytest.raises(UserError, match="must be ≥ 1"):
        Reader(updates=-1)
    with pytest.raises(UserError, match="more than the stride of 40"):
        Reader(folders["bert"], max_length=48, context=16, stride=40).fit(TABLE)


def test_batches_have_every_window_once_and_keep_to_their_size(folders):
    table = pd.concat([stories(200), TABLE.assign(story=STORY * 2)], ignore_index=True)
    asked = windows.cut(table, load(folders["bert"], "cpu").tokenizer, 16, 60, 8)
    size = np.array([len(ids) for ids in asked.ids])
    for draws in (None, np.random.default_rng(0)):
        rows = list(asked.batches(300, draws))
        assert sorted(np.concatenate(rows).tolist()) == list(range(len(size)))
        assert all(size[r].max() * len(r) <= 300 for r in rows)
        assert max(len(r) for r in rows) > 5
    assert [len(r) for r in asked.batches(1)] == [1] * len(size)


def test_the_tagging_head_is_the_papers_equations():
    torch.manual_seed(0)
    head, h = qa_heads.Tagging(8).double(), torch.randn(2, 5, 8, dtype=torch.double)
    story = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]]).bool()
    out = head(h, {"story": story, "cls": torch.tensor([0, 4])})
    v, u, w2, w1 = (m.weight for m in (head.tag[0], head.tag[2], head.attend[0], head.attend[2]))
    for i, cls in enumerate([0, 4]):
        places = story[i].nonzero()[:, 0].tolist()
        p = {t: torch.sigmoid(u[0] @ torch.relu(v @ h[i, t])) for t in places}  # (3)
        marked = {t: p[t] * h[i, t] for t in places}  # (4)
        e = {t: torch.exp(w1[0] @ torch.relu(w2 @ marked[t])) for t in places}
        q = sum(e[t] / sum(e.values()) * marked[t] for t in places)  # (5), (6)
        torch.testing.assert_close(
            out["kinds"][i], head.spoken(torch.cat([h[i, cls], q])), rtol=1e-5, atol=1e-8
        )
        torch.testing.assert_close(
            out["tags"][i, places].sigmoid(),
            torch.stack([p[t] for t in places]),
            rtol=1e-5,
            atol=1e-8,
        )
        others = (~story[i]).nonzero()[:, 0]
        assert (out["start"][i, others] < -1e3).all()
        assert (out["end"][i, others] < -1e3).all()
    want = {
        "answer": torch.tensor([-1, 2]),
        "start": torch.tensor([3, 0]),
        "end": torch.tensor([4, 0]),
        "tags": torch.tensor([[0, 0, 1.0, 1, 0], [0, 0, 0, 0, 0]], dtype=torch.double),
    }
    z = [torch.cat([out["kinds"], out[part]], 1).log_softmax(1) for part in ("start", "end")]
    spans = -(z[0][0, 3 + 3] + z[1][0, 3 + 4] + z[0][1, 2] + z[1][1, 2]) / 4
    p = out["tags"].sigmoid()
    tags = -torch.where(want["tags"] == 1, p, 1 - p).log()[story].mean()
    torch.testing.assert_close(
        head.loss(out, {"story": story}, want), spans + 5 * tags, rtol=1e-5, atol=1e-8
    )


def test_the_typed_head_reads_the_first_token_and_the_weighted_story():
    torch.manual_seed(0)
    head, h = qa_heads.Typed(8).double(), torch.randn(1, 4, 8, dtype=torch.double)
    out = head(h, {"story": torch.tensor([[0, 1, 1, 0]]).bool(), "cls": torch.tensor([3])})
    a = head.span(h)[0, 1:3, 0].softmax(0)
    read = torch.cat([h[0, 3], a[0] * h[0, 1] + a[1] * h[0, 2]])
    for name, layer in (("kinds", head.kind), ("number", head.number), ("option", head.option)):
        torch.testing.assert_close(out[name][0], layer(read), rtol=1e-5, atol=1e-8)
    table = pd.DataFrame(
        [
            row("the hat was red .", "was the hat red or blue ?", "red", kind="option"),
            row("the two was red .", "what ?", "two", kind="number"),
            row("the hat was red .", "what ?", "hat"),
            row("the hat .", "the ?", "no", kind="yes/no"),
        ]
    )
    want = qa_heads.typed_targets(
        table, torch.tensor([-1, -1, -1, 1, 2]), np.array([0, 1, 2, 3, 3])
    )
    assert want["kind"].tolist() == [4, 3, 5, 1, 2]
    assert want["value"].tolist() == [0, 2, 0, 0, 0]
    assert [
        qa_heads.answer_words(f, np.array([2, 1]), "was it red, or the blue ?")
        for f in ("number", "option", "no")
    ] == ["two", "blue", "no"]


def test_the_best_span_is_that_of_all_pairs():
    torch.manual_seed(0)
    start, end = torch.randn(2, 50, 12)
    score, first, last = qa_heads.best_spans(start, end, longest=4)
    for i in range(50):
        pairs = {
            (a, b): start[i, a] + end[i, b] for a in range(12) for b in range(a, min(12, a + 4))
        }
        assert (first[i].item(), last[i].item()) == max(pairs, key=pairs.get)
        assert score[i] == max(pairs.values())


def test_decisions_take_the_best_of_every_form_and_the_least_unknown():
    draws = np.random.default_rng(0)
    item = np.repeat(np.arange(40), draws.integers(1, 5, 40))
    scores = draws.normal(size=(len(item), 4))
    choice, window, found = qa_heads.decide(scores, item)
    for i in range(40):
        mine = scores[item == i]
        best = [mine[:, 0].max(), mine[:, 1].max(), mine[:, 2].min(), mine[:, 3].max()]
        assert found[i].tolist() == best
        assert choice[i] == np.argmax(best)
        assert item[window[i]] == i
        assert scores[window[i], choice[i]] == max(best)


@pytest.mark.parametrize(
    "name, heads",
    [("bert", "tagging"), ("roberta", "tagging"), ("xlnet", "typed"), ("xlnet", "tagging")],
)
def test_a_reader_learns_to_find_a_colour(folders, name, heads):
    recipe = Reader(
        folders[name],
        heads=heads,
        updates=60,
        tokens=500,
        lr=1e-2,
        embeddings=True,
        context=16,
        max_length=48,
        stride=8,
    )
    reader = recipe.fit(stories(60))
    asked = stories(40, seed=1)
    found = reader(asked)
    assert (found.said == asked.answer).mean() > 0.9  # chance: 1 of 3 colours
    assert set(found.form) == {"span"}
    assert all(
        s[a:b] == said for s, a, b, said in zip(asked.story, found.start, found.end, found.said)
    )
    assert found.equals(reader(asked))  # from the cache


def test_windows_of_other_lengths_do_not_change_what_a_reader_says(folders):
    reader = FittedReader(
        r := Reader(folders["bert"], context=16, max_length=48, stride=8, tokens=64), Network(r)
    )
    one = pd.concat([reader(TABLE.iloc[[i]]) for i in range(3)])
    together = FittedReader(
        r2 := Reader(folders["bert"], context=16, max_length=48, stride=8), Network(r2)
    )(TABLE)
    np.testing.assert_allclose(
        one[["yes", "no", "unknown", "span"]],
        together[["yes", "no", "unknown", "span"]],
        rtol=1e-5,
        atol=0.05,
    )
    for place, ids, h, cls in reader.states(TABLE):
        assert h.shape == (len(ids), 32)
        assert ids[cls] == reader.net.body.tokenizer.cls_token_id
        assert place in (0, 1, 2)


def test_a_row_is_read_once_and_says_what_it_says_alone(folders, monkeypatch):
    recipe = Reader(folders["bert"], context=8, max_length=20, stride=4)
    reader = FittedReader(recipe, Network(recipe))
    read, batch = [], Network.batch
    monkeypatch.setattr(
        Network, "batch", lambda net, asked, rows: read.extend(rows) or batch(net, asked, rows)
    )
    one, others = (len(reader.windows(TABLE.iloc[rows]).item) for rows in ([1], [0, 2]))
    twice = TABLE.iloc[[2, 0, 0, 2]]
    twice = twice.assign(answer="red", start=0, end=3)  # the right answers are not read
    found = reader(twice)
    assert found.index.tolist() == [2, 0, 0, 2]
    assert len(read) == others > 2
    found = pd.concat([found, reader(TABLE)])
    assert len(read) == others + one
    three, four = (TABLE.iloc[[1]].assign(history=[[("what ?", "two")] * n]) for n in (3, 4))
    assert reader(three).equals(reader(four))  # two turns are read
    assert len(read) == others + 2 * one
    again = FittedReader(recipe, reader.net)  # from the cache
    assert again(twice).equals(reader(twice))
    assert again(TABLE).equals(reader(TABLE))
    assert len(read) == others + 2 * one
    alone = pd.concat([FittedReader(recipe, reader.net)(TABLE.iloc[[i]]) for i in range(3)])
    np.testing.assert_allclose(
        found.iloc[:, 4:], alone.loc[found.index].iloc[:, 4:], rtol=1e-5, atol=1e-4
    )
    assert found.iloc[:, :4].equals(alone.loc[found.index].iloc[:, :4])


def test_a_killed_training_goes_on_to_the_same_weights(folders, cache, monkeypatch):
    recipe = Reader(folders["bert"], updates=12, tokens=200, context=16, max_length=48, stride=8)
    table = stories(30)
    whole = {k: v.clone() for k, v in recipe.fit(table).net.trained_parameters().items()}
    for file in (cache / "readers").glob("*"):
        file.unlink()
    calls, plain = [], torch.nn.utils.clip_grad_norm_

    def dying(*a):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return plain(*a)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", dying)
    with pytest.raises(KeyboardInterrupt):
        recipe.fit(table, every=5)
    calls.clear()
    again = recipe.fit(table, every=5).net.trained_parameters()
    assert len(calls) == 7  # from the fifth update on
    assert not list((cache / "training").glob("*"))
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[k], again[k]) for k in whole)


def test_updates_take_the_place_of_epochs():
    ten = np.arange(10)
    asked = windows.Windows(
        ten, [[1] * 10] * 10, [[0] * 10] * 10, np.zeros((10, 2), int), [], ten, 0
    )
    assert sorted(np.concatenate(Reader(tokens=30, epochs=2).batches(asked)).tolist()) == sorted(
        [*range(10)] * 2
    )
    order = Reader(tokens=30, updates=11).batches(asked)
    assert len(order) == 11
    assert sorted(np.concatenate(order[:4]).tolist()) == list(range(10))


def test_updates_are_counted_without_training(folders):
    recipe = Reader(folders["bert"], tokens=200, context=16, max_length=48, stride=8, epochs=2)
    size = np.sort(
        [
            len(load(folders["bert"], "cpu").tokenizer(q, s)["input_ids"])
            for q, s in zip(stories(30).question, stories(30).story)
        ]
    )
    assert len(set(size)) == 1
    assert recipe.count_updates(stories(30)) == 2 * -(-30 // (200 // size[0]))


def test_a_saved_reader_says_the_same(folders, tmp_path):
    reader = Reader(
        folders["bert"], updates=5, tokens=200, context=16, max_length=48, stride=8
    ).fit(stories(20))
    reader.save(tmp_path / "reader")
    other = load_reader(tmp_path / "reader")
    np.testing.assert_allclose(
        other(TABLE)[["yes", "no", "unknown"]],
        reader(TABLE)[["yes", "no", "unknown"]],
        rtol=1e-5,
        atol=0.05,
    )
    again = Network(
        Reader(folders["bert"], start=str(tmp_path / "reader"), context=16, max_length=48, stride=8)
    )
    assert (
        again.fingerprint == other.net.fingerprint != Network(Reader(folders["bert"])).fingerprint
    )
    with pytest.raises(UserError, match="'nowhere' is not a reader"):
        load_reader("nowhere")
    assert (
        sum(f.stat().st_size for f in (tmp_path / "reader").iterdir())
        < 2.2 * sum(p.numel() for p in reader.net.trained_parameters().values()) + 5_000
    )
