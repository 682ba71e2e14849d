"""Questions for a left-to-right model: prompts, scores of given answers, rules for free answers."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf

from probebook.base import UserError
from probebook.corpora import stories
from probebook.models import load
from probebook_chapters import prompting
from probebook_chapters.free_answers import RULES, contains_gold, interpret
from probebook_chapters.prompting import (
    answer_prompts,
    fits_context,
    option_scores,
    question_prompts,
)
from probebook_chapters.semantic_faithfulness import choices, read_hand_edits
from probebook_training.text import train_vocabulary

pytestmark = pytest.mark.library


@pytest.fixture(scope="module")
def table():
    table = stories.generate(6, seed=3, length=(2, 4))
    return table[table.kind != "unknown"].reset_index(drop=True)


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model(request, table, tmp_path_factory):
    tokenizer = train_vocabulary(question_prompts(table) * 5, 300)
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    net = (
        hf.LlamaForCausalLM(
            hf.LlamaConfig(
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=64,
                max_position_embeddings=160,
                **sizes,
            )
        )
        if request.param == "llama"
        else hf.GPT2LMHeadModel(
            hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=160, **sizes)
        )
    )
    for p in net.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    folder = tmp_path_factory.mktemp(request.param)
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return load(str(folder))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))


def test_a_prompt_is_story_two_questions_back_and_question():
    rows = pd.DataFrame(
        {
            "story": ["Ann sat.", ""],
            "question": ["Where?", "Who?"],
            "history": [[("a?", "b"), ("Who sat?", "Ann"), ("Why?", "unknown")], []],
        }
    )
    assert question_prompts(rows) == [
        "Ann sat.\nQ: Who sat?\nA: Ann\nQ: Why?\nA: unknown\nQ: Where?\nA:",
        "Q: Who?\nA:",
    ]


def test_option_scores_are_the_models_log_probabilities(model, table):
    prompts = question_prompts(table)
    options = [
        ["yes", "no", "in the big garden"][: 1 + i % 3] + ["unknown"] for i in range(len(table))
    ]
    found = option_scores(prompts, options, model)
    assert [len(f) for f in found] == [len(o) for o in options]
    for prompt, some, scores in zip(prompts, options, found):
        begin = model.tokenizer(prompt)["input_ids"][:-1]  # without [SEP]
        for option, score in zip(some, scores):
            more = model.tokenizer(option, add_special_tokens=False)["input_ids"]
            with torch.no_grad():
                p = model.net(torch.tensor([begin + more])).logits[0].log_softmax(-1)
            assert score == pytest.approx(
                sum(p[len(begin) - 1 + i, t].item() for i, t in enumerate(more)), abs=1e-4
            )
    again = option_scores(prompts, options, model)  # from the cache
    assert all(np.array_equal(a, b) for a, b in zip(found, again))
    assert option_scores([], [], model) == []


def test_a_common_beginning_is_read_once_and_only_where_the_model_reads_trees(
    model, table, monkeypatch
):
    prompts = [f"Ann sat in the garden.\nQ: {question}\nA:" for question in table.question]
    forward, read = type(model.base).forward, []

    def counted(net, input_ids, **kwargs):
        read.append(input_ids.numel())
        return forward(net, input_ids, **kwargs)

    monkeypatch.setattr(type(model.base), "forward", counted)
    together = option_scores(prompts, [["yes", "in the house"]] * len(prompts), model)
    size, whole = sum(read), sum(map(len, model.tokenizer(prompts)["input_ids"]))
    monkeypatch.setattr(prompting, "_reads_trees", lambda model: False)
    monkeypatch.setenv("PROBEBOOK_CACHE", str(Path(os.environ["PROBEBOOK_CACHE"]) / "alone"))
    alone = option_scores(prompts, [["yes", "in the house"]] * len(prompts), model)
    assert size < whole < sum(read) - size
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-4)


def test_what_a_model_says_is_its_greedy_continuation_up_to_the_next_question(model, table):
    prompts = question_prompts(table)[:5]
    for prompt, said in zip(prompts, answer_prompts(prompts, model, steps=6)):
        ids = torch.tensor([model.tokenizer(prompt)["input_ids"][:-1]])
        with torch.no_grad():
            out = model.net.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[
                0, ids.shape[1] :
            ].tolist()
        whole = model.tokenizer.decode(out[: out.index(3)] if 3 in out else out).strip()
        assert whole.startswith(said)
        assert said == whole or whole[len(said) :].lstrip().lower().startswith("q")
    assert answer_prompts(prompts, model, steps=6) == answer_prompts(prompts, model, steps=6)


def test_what_does_not_fit_is_told_and_refused(model, table):
    prompts = [*question_prompts(table)[:2], "Ann sat. " * 80]
    assert fits_context(prompts, model).tolist() == [True, True, False]
    with pytest.raises(UserError, match="reads at most"):
        option_scores(prompts, [["yes"]] * 3, model)
    with pytest.raises(UserError, match="3 prompts, 2 lists"):
        option_scores(prompts, [["yes"]] * 2, model)
    with pytest.raises(UserError, match="left-to-right"):
        option_scores(prompts[:1], [["yes"]], load("pocket-english"))


def test_choices_have_gold_first_and_words_of_its_type(table):
    found = choices(table, k=4)
    for row, some in zip(table.itertuples(), found):
        assert some[0] == row.gold
        assert some[-1] == "unknown"
        assert len({*some}) == len(some)
        assert len(some) == (3 if row.kind in ("yes/no", "option") else 5)
        there = [bool(re.search(rf"\b{w}\b", row.story, re.IGNORECASE)) for w in some[1:-1]]
        assert there == sorted(there, reverse=True)  # those of the story first
    plain = choices(table.drop(columns=["query", "facts"]), k=3)
    assert all(a[0] == b[0] and 2 <= len(b) <= 4 for a, b in zip(found, plain))
    assert found == choices(table, k=4)


@pytest.mark.parametrize(
    "text, means",
    [
        ("yes", ["yes", "yes", "yes"]),
        ("No, it was red.", ["No, it was red.", "no", "no"]),
        ("No information is given.", ["No information is given.", "no", "unknown"]),
        ("The story doesn’t say.", ["The story doesn’t say.", "The story doesn’t say.", "unknown"]),
        ("It is never mentioned", ["It is never mentioned", "It is never mentioned", "unknown"]),
        ("I do not know", [..., ..., "unknown"]),
        ("It cannot be determined.", [..., ..., "unknown"]),
        ("Tom did not go", ["Tom did not go"] * 3),
        ("nobody", ["nobody"] * 3),
        ("", [""] * 3),
    ],
)
def test_what_is_heard(text, means):
    assert [interpret([text], rule)[0] for rule in RULES] == [
        text if m is ... else m for m in means
    ]


def test_gold_within_is_whole_words():
    answers, gold = (
        ["The kitten was white.", "a whiteish cat", "no", ""],
        ["white", "white", "No.", "x"],
    )
    assert contains_gold(answers, gold).tolist() == [1, 0, 1, 0]
    with pytest.raises(UserError, match="'loose' is not a valid rule"):
        interpret(["yes"], "loose")
    with pytest.raises(UserError, match="as many of each"):
        contains_gold(["a"], [])


def test_edits_by_hand_are_read(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("story,modified,question,answer,who\nAnn sat.,Ann stood.,Did Ann sit?,Yes,me\n")
    before, after = read_hand_edits(str(path))
    assert before.answer.tolist() == ["yes"]
    assert after.answer.tolist() == ["no"]
    assert after.gold.tolist() == ["yes"]
    assert (before.story[0], after.story[0]) == ("Ann sat.", "Ann stood.")
    path.write_text("story,modified,question,answer\na,b,c,maybe\n")
    with pytest.raises(UserError, match="must be yes or no"):
        read_hand_edits(str(path))
    path.write_text("story,question,answer\na,c,yes\n")
    with pytest.raises(UserError, match="no column modified"):
        read_hand_edits(str(path))
    with pytest.raises(UserError, match="not read"):
        read_hand_edits(str(tmp_path / "none.csv"))
