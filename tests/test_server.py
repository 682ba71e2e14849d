"""Completions over real HTTP: the `openai` client asks a local server with a tiny causal model."""

import json
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf

from probebook.base import UserError
from probebook.models import Prompt, Server, fill, load
from probebook_chapters.prompting import (
    answer_prompts,
    fits_context,
    option_scores,
    question_prompts,
)
from probebook_chapters.specification import fill_blanks, masses
from probebook_runs.execute import run_all
from probebook_runs.pages import find
from probebook_runs.store import plan, tables
from probebook_training.text import train_vocabulary

TEXTS = [
    f"In {year}, [MASK] was a {who}." for year in (1801, 1921, 2016) for who in ("child", "kid")
]
ASK = Prompt("Fill in: {sentence} Answer:", "_")
KEY = "sk-secret-0123456789"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = train_vocabulary([ASK(t) for t in TEXTS] * 20, 120)
    torch.manual_seed(0)
    net = hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
        )
    )
    for p in net.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return load(str(folder))


@torch.no_grad()
def completion(model, body):
    """The format's answer, computed without `fill`; tokens have a space before them, as served."""
    ids = torch.tensor([model.tokenizer(body["prompt"])["input_ids"][:-1]])
    tokens, top = [], []
    for _ in range(body["max_tokens"]):
        p = model.net(input_ids=ids).logits[0, -1].log_softmax(0)
        if p.argmax() == 3:
            break
        best = p.argsort(descending=True)[: body["logprobs"]].tolist()
        words = [" " + model.tokenizer.decode([i]) for i in best]
        tokens.append(words[0])
        rising = reversed(list(zip(words, best)))  # no order is promised
        top.append({w: p[i].item() for w, i in rising})
        ids = torch.cat([ids, torch.tensor([[best[0]]])], 1)
    logprobs = {
        "tokens": tokens,
        "top_logprobs": top,
        "token_logprobs": [max(t.values()) for t in top],
        "text_offset": [],
    }
    return {
        "id": "1",
        "object": "text_completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {"index": 0, "finish_reason": "length", "text": "".join(tokens), "logprobs": logprobs}
        ],
    }


def chat(model, body):
    """The chat format's answer: the same greedy words after the user's one message."""
    said = completion(model, body | {"prompt": body["messages"][0]["content"], "logprobs": 1})[
        "choices"
    ][0]["text"]
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "finish_reason": "length",
                "message": {"role": "assistant", "content": said},
            }
        ],
    }


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        state = self.server.state
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        state.hits.append((time.monotonic(), self.path, body, self.headers.get("authorization")))
        status, answer = 200, None
        turn = state.turns.pop(0) if state.turns else "good"
        if turn == "good":
            answer = json.dumps(
                chat(state.model, body)
                if "messages" in body
                else completion(state.model, {"logprobs": 1} | body)
            )
        elif turn == "hang":
            state.over.wait(5)
        elif isinstance(turn, int):
            status, answer = (
                turn,
                json.dumps({"error": {"message": f"no luck,\nBearer {KEY}", "type": "x"}}),
            )
        else:
            answer = turn
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("retry-after-ms", "20")
            self.end_headers()
            self.wfile.write((answer or "").encode())
        except (BrokenPipeError, ConnectionResetError):
            pass

    def log_message(self, *args):
        pass


class State:
    """What the server was asked (`hits`), and how it treats the next requests (`turns`)."""

    def __init__(self, model):
        self.model, self.hits, self.turns, self.over = model, [], [], threading.Event()
        self.start()

    def start(self, port=0):
        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.state, self.port = self, self.http.server_port
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.over.set()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def state(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    state = State(model)
    yield state
    state.stop()


def server(state, **settings):
    return Server(
        f"http://127.0.0.1:{state.port}/v1/", "tiny", **({"timeout": 30, "retries": 1} | settings)
    )


def ask(state, texts=TEXTS, **settings):
    return fill(texts, server(state, **settings), ASK, steps=4)


def test_a_server_says_what_its_model_says(state, model):
    for got, want in zip(ask(state), fill(TEXTS, model, ASK, steps=4), strict=True):
        assert got.tokens == want.tokens
        assert len(got.top) == len(want.top)
        for a, b in zip(got.top, want.top):
            assert a == pytest.approx(b, abs=1e-5)
            assert list(a.values()) == sorted(a.values(), reverse=True)
    assert any(got.tokens for got in ask(state))
    _, path, body, key = state.hits[0]
    assert path == "/v1/completions"
    assert key == f"Bearer {KEY}"
    assert body == {
        "model": "tiny",
        "prompt": ASK(TEXTS[0]),
        "temperature": 0,
        "top_p": 1,
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "max_tokens": 4,
        "logprobs": 5,
    }


def test_nothing_is_asked_twice_and_no_key_is_wanted_for_what_is_kept(state, tmp_path, monkeypatch):
    first = ask(state, TEXTS + TEXTS[:2])
    assert len(state.hits) == len(TEXTS)
    monkeypatch.delenv("OPENAI_API_KEY")
    state.stop()
    assert ask(state, TEXTS + TEXTS[:2]) == first
    files = list((tmp_path / "cache").rglob("*.json"))
    assert len(files) == len(TEXTS)
    assert not any(KEY in f.read_text() for f in files)
    assert KEY not in repr(server(state))
    for other in (
        lambda: fill(TEXTS[:1], server(state), ASK, steps=3),
        lambda: fill(TEXTS[:1], server(state), ASK, k=4, steps=4),
        lambda: fill(TEXTS[:1], server(state), "A", steps=4),
        lambda: fill(TEXTS[:1], Server(f"http://127.0.0.1:{state.port}/v1", "other"), ASK, steps=4),
    ):
        with pytest.raises(
            UserError, match="wants a key: put it into the environment variable OPENAI_API_KEY"
        ):
            other()


def test_a_damaged_answer_is_asked_for_again(state, tmp_path):
    first = ask(state, TEXTS[:1])
    (path,) = (tmp_path / "cache").rglob("*.json")
    path.write_text(path.read_text()[:-40])
    with pytest.warns(UserWarning, match="damaged"):
        assert ask(state, TEXTS[:1]) == first
    assert len(state.hits) == 2
    assert ask(state, TEXTS[:1]) == first
    assert len(state.hits) == 2


def test_what_was_answered_before_the_server_died_is_kept(state, model):
    state.turns = ["good", "good", "good", 500, 500]
    with pytest.raises(UserError, match="500.*; new answers kept: 3, call again to go on"):
        ask(state)
    state.stop()
    with pytest.raises(UserError, match="no connection \\(2 tries\\); is the server running"):
        ask(state)
    state.start(state.port)
    assert [f.tokens for f in ask(state)] == [f.tokens for f in fill(TEXTS, model, ASK, steps=4)]
    asked = [body["prompt"] for _, _, body, _ in state.hits]
    assert asked == [ASK(t) for t in TEXTS[:3]] + 3 * [ASK(TEXTS[3])] + [ASK(t) for t in TEXTS[4:]]


@pytest.mark.parametrize("busy", [429, 503])
def test_a_busy_server_is_asked_again(state, model, busy):
    state.turns = [busy, busy]
    assert (
        ask(state, TEXTS[:1], retries=2)[0].tokens == fill(TEXTS[:1], model, ASK, steps=4)[0].tokens
    )
    times = [t for t, *_ in state.hits]
    assert len(times) == 3
    assert min(b - a for a, b in zip(times, times[1:])) >= 0.02


def test_no_more_requests_a_minute_than_allowed(state):
    began = time.monotonic()
    ask(state, TEXTS[:4], per_minute=600)
    assert len(state.hits) == 4
    for i, (arrived, *_) in enumerate(state.hits):
        assert arrived - began >= 0.1 * i


@pytest.mark.parametrize(
    "turns, settings, says, hits",
    [
        ([500, 500], {}, "failed in 2 tries .HTTP 500: .*no luck, Bearer …", 2),
        ([429, 429], {}, "too many requests: lower per_minute", 2),
        ([404], {}, "tiny at http.*no such model, or no completions there .HTTP 404", 1),
        ([400], {}, "the request is refused .HTTP 400", 1),
        ([401], {}, "HTTP 401: the key in OPENAI_API_KEY is refused$", 1),
        ([401], {"key": None}, "HTTP 401: it wants a key$", 1),
        (["hang"], {"timeout": 0.3, "retries": 0}, "no answer within 0.3 s .1 tries", 1),
        (['{"choices": ['], {}, "the answer is no JSON", 1),
        (["[]"], {}, "the answer is no completion", 1),
        (['{"choices": []}'], {}, "the answer is no completion", 1),
        (['{"choices": [{"text": "he", "logprobs": null}]}'], {}, "no log-probabilities; such", 1),
        (
            [
                '{"choices": [{"text": "he", "logprobs": '
                '{"tokens": ["he"], "top_logprobs": [{"he": 0.9}]}}]}'
            ],
            {},
            "the answer is no completion",
            1,
        ),
        (
            ['{"choices": [{"text": "he", "logprobs": {"tokens": ["he"], "top_logprobs": []}}]}'],
            {},
            "the answer is no completion",
            1,
        ),
    ],
)
def test_what_goes_wrong_is_one_line_without_the_key_and_nothing_is_kept(
    state, tmp_path, turns, settings, says, hits
):
    state.turns = list(turns)
    with pytest.raises(UserError, match=says) as error:
        ask(state, TEXTS[:1], **settings)
    assert "\n" not in str(error.value)
    assert KEY not in str(error.value)
    assert len(state.hits) == hits
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_without_a_prompt_a_server_is_asked_for_the_next_word_before_the_blank(state):
    model = load("pocket-english-gpt")
    state.model = model
    texts = [*TEXTS, "In 1901, the woman said that [MASK] was a child."]
    asked = server(state)
    np.testing.assert_allclose(masses(texts, asked), masses(texts, model), atol=1e-3)
    assert masses(texts, asked).sum() > 0
    assert {body["prompt"] for _, _, body, _ in state.hits} == {
        "In 1801,",
        "In 1921,",
        "In 2016,",
        "In 1901, the woman said that",
    }
    assert {body["max_tokens"] for _, _, body, _ in state.hits} == {1}
    assert len(state.hits) == 4
    state.turns = ['{"choices": [{"text": "he", "logprobs": null}]}']
    with pytest.raises(UserError, match="^[^\n]*has no log-probabilities[^\n]*$"):
        fill_blanks(["In 1950, [MASK] left."], asked)


@pytest.mark.verify
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    "page, hits",
    [
        ("4_underspecification/02", 30 + 20 + 2 * 30),  # times, places, the woman and the man
        ("4_underspecification/03", None),
    ],
)
def test_a_page_reads_a_server_in_its_models_place(state, monkeypatch, page, hits):
    """Beside it the same model, read on this machine: the rows of both agree."""
    state.model = load("pocket-english-gpt")
    monkeypatch.delenv("OPENAI_API_KEY")  # an open server needs no key
    run = plan(
        find(page),
        "smoke",
        {
            "server": f"http://127.0.0.1:{state.port}/v1",
            "served": "gpt",
            "models": ["pocket-english-gpt"],
        },
    )
    try:
        assert run_all([run]) == []
        found = tables(run.read())["models"]
    finally:
        shutil.rmtree(run.folder, ignore_errors=True)  # no other test run has this port
    rows = {name: part.value.to_numpy() for name, part in found.groupby("model", sort=False)}
    here = rows.pop("pocket-english-gpt")
    there = rows.pop(f"gpt at http://127.0.0.1:{state.port}/v1")
    assert not rows
    np.testing.assert_allclose(there, here, atol=1e-3)
    assert hits in (None, len(state.hits))
    assert {path for _, path, _, _ in state.hits} == {"/v1/completions"}


STORIES = pd.DataFrame(
    {
        "story": ["In 1801 a kid was a child."] * 2,
        "question": ["Was a kid a child?", "In what year?"],
        "history": [[], [("Was a kid a child?", "yes")]],
    }
)


@pytest.mark.parametrize("as_chat", [True, False])
def test_a_server_is_asked_a_question_about_a_story(state, model, as_chat):
    prompts = question_prompts(STORIES)
    assert answer_prompts(prompts, server(state), 4, as_chat) == [
        completion(model, {"prompt": p, "max_tokens": 4, "logprobs": 1, "model": ""})["choices"][0][
            "text"
        ].strip()
        for p in prompts
    ]
    _, path, body, key = state.hits[1]
    assert path == ("/v1/chat/completions" if as_chat else "/v1/completions")
    assert key == f"Bearer {KEY}"
    given = body["messages"] if as_chat else body["prompt"]
    assert given == ([{"role": "user", "content": prompts[1]}] if as_chat else prompts[1])
    assert body["max_tokens"] == 4
    assert body["temperature"] == 0
    assert "logprobs" not in body
    answer_prompts(prompts, server(state), 4, as_chat)
    assert len(state.hits) == 2  # kept
    answer_prompts(prompts, server(state), 4, not as_chat)
    assert len(state.hits) == 4  # and not mixed up
    assert fits_context(prompts, server(state)).all()
    with pytest.raises(UserError, match="a server model cannot be read here"):
        option_scores(prompts, [["yes", "no"]] * 2, server(state))


@pytest.mark.parametrize(
    "turns, says_, hits",
    [
        (
            ['{"choices": [{"message": {"role": "assistant", "content": null}}]}'],
            "the answer has no text",
            1,
        ),
        (['{"choices": []}'], "the answer is no completion", 1),
        (["[]"], "the answer is no completion", 1),
        (["no"], "the answer is no JSON", 1),
        ([401], "the key in OPENAI_API_KEY is refused$", 1),
        ([500, 500], "2 tries", 2),
    ],
)
def test_a_chat_that_goes_wrong_is_one_line_and_not_kept(state, tmp_path, turns, says_, hits):
    state.turns = list(turns)
    with pytest.raises(UserError, match=says_) as error:
        server(state).answer(["Who?"], chat=True)
    assert "\n" not in str(error.value)
    assert KEY not in str(error.value)
    assert len(state.hits) == hits
    assert not list((tmp_path / "cache").rglob("*.json"))
    with pytest.raises(UserError, match="steps=0"):
        server(state).answer(["Who?"], steps=0)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda s: fill(TEXTS, s), "needs a prompt"),
        (lambda s: fill(TEXTS, s, "A", k=6), "k=6: .* 1 to 5"),
        (lambda s: fill(TEXTS, s, "A", steps=0), "steps=0"),
        (lambda s: fill(["no blank"], s, "A"), "expected one .MASK. in it"),
        (lambda s: Server("localhost:8000", "m"), "an address like https"),
        (lambda s: Server("https://user:pass@host/v1", "m"), "without user, password"),
        (lambda s: Server("https://host/v1?key=abc", "m"), "without user, password or query"),
        (
            lambda s: Server("https://host/v1", "m", key=KEY),
            "^key: the name of an environment variable, [^0]*$",
        ),
        (lambda s: Server("https://host/v1", "m", timeout=0), "timeout"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(state, call, says):
    with pytest.raises(UserError, match=says):
        call(server(state))
    assert not state.hits


@pytest.mark.usefixtures("kernels")
def test_the_page_on_prompting_runs_whole_on_a_model_behind_a_server(state):
    """A second run asks nothing again."""
    state.model = load("pocket-english-gpt")
    run = plan(
        find("5_semantic_faithfulness/06_prompting"),
        "smoke",
        {"server": f"http://127.0.0.1:{state.port}/v1", "served": "gpt", "n": 10, "spoken": 2},
    )
    assert run_all([run]) == []
    asked = len(state.hits)
    assert asked
    assert run_all([run], force=True) == []
    assert len(state.hits) == asked
