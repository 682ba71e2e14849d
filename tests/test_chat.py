"""Messages through a model's own chat template: which tokens are read, in templates of the shapes
that are in use; and an audit of conversations."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from typer.testing import CliRunner

import probebook_audit as audit
from probebook.base import UserError
from probebook.corpora.chats import read_chat
from probebook.models import embed, load
from probebook.models.batches import positions, tokenize
from probebook.models.chats import render
from probebook_audit import labelled, report
from probebook_cli import app

EACH = "{% for m in messages %}"
CHATML = EACH + (
    "{% if loop.first and m.role != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = EACH + (  # of old answers the reasoning is dropped, the last one has a place for it
    "{% set said = m.content.split('</think>')[-1].lstrip('\n') %}"
    "{% set why = '' if said == m.content else m.content.split('</think>')[0][8:].strip('\n') %}"
    "<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}<think>\n{{ why }}\n"
    "</think>\n\n{% endif %}{{ said }}<|im_end|>\n{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}"
    + EACH
    + (
        "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    )
)
LLAMA = "{% set first = messages[0] %}{% for m in messages if m.role != 'system' %}" + (
    "{% if m.role == 'user' %}{{ bos_token }}[INST] {% if loop.first and first.role == 'system' %}"
    "<<SYS>>\n{{ first.content }}\n<</SYS>>\n\n{% endif %}{{ m.content | trim }} [/INST]"
    "{% else %} {{ m.content | trim }} {{ eos_token }}{% endif %}{% endfor %}"
)
PLAIN = EACH + "{{ m.role }}: {{ m.content }}\n{% endfor %}"
MARKS = ["<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,?!':;[]/<>|_\n"
# name: template, whether the tokenizer puts <s> before a text, whether bytes are its pieces
KINDS = {
    "chatml": (CHATML, False, True),
    "thinking": (THINKING, False, True),
    "gemma": (GEMMA, True, False),
    "llama": (LLAMA, True, False),
    "plain": (PLAIN, True, True),
    "printed start": (LLAMA, False, True),  # only the template has one
    "none": (None, True, True),
}
ASKED = [
    [{"role": "user", "content": "Is it raining in the user's town?"}],
    [{"role": "user", "content": "us"}, {"role": "assistant", "content": "  er, no!\n"}],
    [
        {"role": "user", "content": " Name a dog.\n\n"},
        {"role": "assistant", "content": "A dog:\n\nRex."},
        {"role": "user", "content": "Rex."},
    ],
    [
        {"role": "user", "content": "s"},
        {"role": "assistant", "content": "Rex."},
        {"role": "user", "content": "assistant"},
        {"role": "assistant", "content": "Rex. One more: user"},
    ],
]
RULES = ("last user", "assistant mean", "last")


def tokenizer_of(template, puts_start, of_bytes):
    special = ["<unk>", "<s>", "</s>", *MARKS]
    if of_bytes:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        joined = [("e", "r"), ("u", "s"), ("us", "er"), (".", "Ċ"), ("Ċ", "Ċ"), ("Ġ", "R")]
        words = [*special, *letters, *("".join(pair) for pair in joined)]
        made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, joined))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.decoder = decoders.ByteLevel()
    else:
        pieces = [*special, *(f"▁{word}" for word in ("is", "it", "dog", "Rex", "er")), "user", "▁"]
        scores = [(piece, -3.0) for piece in pieces] + [(letter, -9.0) for letter in LETTERS]
        made = Tokenizer(models.Unigram(scores, 0))
        first = "first" if template == LLAMA else "never"  # the blank that texts get before them
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=first)
        made.decoder = decoders.Metaspace()
    made.add_special_tokens(special)
    if puts_start:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
        )
    ends = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=512, **ends)
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny random model for each kind of template."""
    folder, made = tmp_path_factory.mktemp("chats"), {}
    for name, kind in KINDS.items():
        tokenizer = tokenizer_of(*kind)
        torch.manual_seed(0)
        config = hf.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=512,
            initializer_range=0.3,
            bos_token_id=1,
            eos_token_id=2,
        )
        made[name] = str(folder / name.replace(" ", "_"))
        hf.LlamaForCausalLM(config).save_pretrained(made[name])
        tokenizer.save_pretrained(made[name])
    return made


def read_at(model, chat, at):
    """The ids of one conversation, and the places that are read."""
    texts = render([chat], model)
    return tokenize(texts, model)[1]["input_ids"][0], positions(texts, model, at)[0]


def ends_with(model, ids, place, content, after):
    """Whether the text up to a token ends with a content, which the token before does not, and
    the template goes on behind it."""
    said = [model.tokenizer.decode(ids[:end]).rstrip() for end in (place, place + 1)]
    rest = model.tokenizer.decode(ids[place + 1 :]).lstrip()
    return said[1].endswith(content) and len(said[0]) < len(said[1]) and rest.startswith(after)


AFTER = {"chatml": "<|im_end|>", "thinking": "<|im_end|>", "gemma": "<end_of_turn>"}
AFTER |= {"llama": ("[/INST]", "</s>"), "printed start": ("[/INST]", "</s>")}
CHATS = [name for name in KINDS if name != "none"]


@pytest.mark.parametrize("name", CHATS)
def test_the_contents_last_token_is_read(folders, name):
    """Not a line break, not a mark; contents that also stand in the marks are told from these."""
    model = load(folders[name])
    after = AFTER.get(name, ("assistant:", "user:", ""))
    for chat in ASKED:
        asked = [one["content"].strip() for one in chat if one["role"] == "user"][-1]
        for at, content in (("last user", asked), ("last", chat[-1]["content"].strip())):
            ids, (place,) = read_at(model, chat, at)
            assert ends_with(model, ids, place, content, after), (at, model.tokenizer.decode(ids))


@pytest.mark.parametrize("name", CHATS)
def test_one_token_at_the_beginning(folders, name):
    """Whether the template prints it, the tokenizer adds it, or both do."""
    model = load(folders[name])
    for chat in ASKED[:2]:
        ids, _ = read_at(model, chat, "last")
        assert ids.count(1) == (name not in ("chatml", "thinking")) == (ids[0] == 1)
        printed = model.tokenizer.apply_chat_template(chat, tokenize=False)
        assert tokenize(render([printed], model), model)[1]["input_ids"][0] == ids


@pytest.mark.parametrize("name", ["chatml", "gemma"])
def test_the_mean_is_that_of_the_assistants_tokens(folders, name):
    """Recomputed from pieces that are tokenized one by one."""
    model, chat = load(folders[name]), ASKED[3]
    (text,) = render([chat], model)
    ends = ("<|im_start|>assistant\n", "<|im_end|>")
    ends = ends if name == "chatml" else ("<start_of_turn>model\n", "<end_of_turn>")
    pieces, inside = text.split(ends[1]), []
    ids = [1] if name == "gemma" else []
    for number, piece in enumerate(pieces):
        head, mark, content = piece.partition(ends[0])
        for part in (head + mark, content, ends[1] if number < len(pieces) - 1 else ""):
            new = model.tokenizer(part, add_special_tokens=False)["input_ids"]
            inside += [*range(len(ids), len(ids) + len(new))] if part and part == content else []
            ids += new
    read, places = read_at(model, chat, "assistant mean")
    assert ids == read and inside == places
    with torch.inference_mode():
        states = model.net(torch.tensor([ids]), output_hidden_states=True).hidden_states[1][0]
    mean = states[inside].mean(0)
    assert torch.allclose(embed([chat], model, 1, "assistant mean")[0], mean, atol=1e-5)
    assert not torch.allclose(embed([chat], model, 1, "mean")[0], mean, atol=1e-2)


@pytest.mark.parametrize("name", ["chatml", "gemma", "llama", "printed start"])
def test_printed_text_has_the_states_of_its_messages(folders, name):
    model, chats = load(folders[name]), ASKED[1:]
    printed = [model.tokenizer.apply_chat_template(one, tokenize=False) for one in chats]
    for at in (*RULES, "mean"):
        assert torch.equal(
            embed(chats, model, 1, at, cache=False), embed(printed, model, 1, at, cache=False)
        )
    if name == "chatml":  # a prompt for the answer is no content
        asking = [f"{one}<|im_start|>assistant\n" for one in printed]
        last = embed(asking, model, 1, "last", cache=False)
        assert torch.allclose(last, embed(chats, model, 1, "last", cache=False), atol=1e-5)
    assert render(["The <user> has a [list]."], model) == ["The <user> has a [list]."]


def test_states_are_cached_by_what_is_read(folders):
    """The same text with other messages in it is read at other tokens."""
    model = load(folders["plain"])
    parts = [{"role": "user", "content": "Rex."}, {"role": "assistant", "content": "No."}]
    one, two = render([parts, [{"role": "user", "content": "Rex.\nassistant: No."}]], model)
    assert one == two
    assert not torch.equal(*(embed([text], model, 1, "last user") for text in (one, two)))


def test_reasoning_that_a_template_drops_is_no_content(folders):
    model = load(folders["thinking"])
    said = "<think>\nIt may be.\n</think>\n\n"
    chat = [
        {"role": "user", "content": "Is it?"},
        {"role": "assistant", "content": f"{said}No."},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": f"{said}Yes."},
    ]
    (text,) = render([chat], model)
    contents = [one["content"] for one in text.messages]
    assert contents == ["Is it?", "No.", "Sure?", f"{said}Yes."]


def test_parts_of_text_are_joined_and_all_files_say_the_same(tmp_path):
    def parts(*texts):
        return [{"type": "text", "text": one} for one in texts]

    told = {"role": "tool", "content": parts("ok"), "tool_calls": None}
    asked = {"role": "user", "content": parts("The dog ", "barks.")}
    ends = [{"role": "assistant", "content": parts(f"No. {i}")} for i in range(40)]
    chats = [[told, asked, said] for said in ends]
    assert read_chat(chats[0]) == "tool: ok\nuser: The dog barks.\nassistant: No. 0\n"
    table = pd.DataFrame({"said": chats, "label": ["yes", "no"] * 20})
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    table.to_parquet(tmp_path / "t.parquet")
    table.assign(said=table.said.map(json.dumps)).to_csv(tmp_path / "t.csv", index=False)
    read = [labelled.read(str(file), "said", "label") for file in sorted(tmp_path.iterdir())]
    assert read[0].text == read[1].text == read[2].text
    assert read[0].id == read[2].id
    for data in read:
        assert [one.messages[1]["content"] for one in data.text] == ["The dog barks."] * 40


CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
USER, SYSTEM = {"role": "user", "content": "Hi"}, {"role": "system", "content": "Be brief."}
REFUSED = {
    "a picture": ([{"role": "user", "content": [{"type": "image"}]}], "no pictures or tool calls"),
    "a call of a tool": ([USER, CALL], "no pictures or tool calls"),
    "no role": ([{"content": "Hi"}], "expected messages such as"),
    "no content": ([{"role": "user", "content": None}], "expected messages such as"),
    "tokens": (["The", "dog"], "expected messages such as"),
    "a template that refuses": ([SYSTEM, USER], "refuses it: System role not supported"),
    "nobody to read": ([{**USER, "role": "tool"}], "a message of the user is not in the text"),
    "too long": ([{**USER, "content": "no " * 600}], "chats are not cut"),
    "text": ("Hi.", "a message of the user is not in the text 'Hi.'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_messages_in_one_line(folders, tmp_path, what):
    bad, said = REFUSED[what]
    rows = [{"chat": [{"role": "user", "content": f"Hi {i}"}], "y": i % 2} for i in range(40)]
    rows[6]["chat"] = bad
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError) as e:
        data = labelled.read(str(path), "chat", "y")
        audit.prepare_texts(data, folders["gemma"], "last user", "cut")
    assert said in str(e.value) and "\n" not in str(e.value)
    assert ("row 7" in str(e.value)) == (what != "too long")


def test_a_model_without_a_template_says_what_to_do(folders):
    with pytest.raises(UserError, match="no fast tokenizer with a chat template: give texts") as e:
        embed(ASKED, folders["none"], 1, "last")
    assert "\n" not in str(e.value)
    model = load(folders["chatml"])
    tokenizer = hf.AutoTokenizer.from_pretrained(folders["chatml"])
    tokenizer.chat_template = CHATML.replace("m.content", "m.content | upper")
    with pytest.raises(UserError, match=r"does not print .Is it .* as it is \(text 0\)"):
        embed(ASKED, replace(model, tokenizer=tokenizer), 1, "last")


def test_rewritten_conversations_and_printed_ones_in_an_audit(folders, tmp_path):
    """Their states are those of `embed`; a note says how many texts were left as they are."""
    model = load(folders["llama"])
    rows = [
        {
            "chat": [{"role": "user", "content": f"Is it {i}{'?!'[i % 2]}"}],
            "pair": [{"role": "user", "content": f"Is it {i}{'!?'[i % 2]}"}] if i % 3 else None,
            "y": i % 2,
        }
        for i in range(60)
    ]
    table = pd.DataFrame(rows)
    table.to_json(tmp_path / "chats.jsonl", orient="records", lines=True)
    data = labelled.read(str(tmp_path / "chats.jsonl"), "chat", "y", pair="pair")
    assert audit.from_model.default_place(data) == "last"
    read = audit.prepare_texts(data, folders["llama"], "last user")
    assert read.text == audit.prepare_texts(read, folders["llama"], "last user").text
    assert not any("printed them before" in note for note in read.notes)
    (case,) = audit.cases(read, folders["llama"], [1], "last user")
    given = case.paired
    assert torch.equal(given, torch.tensor([i % 3 > 0 for i in range(60)]))
    pairs = [one for one in table.pair if one]
    states = embed(pairs, model, 1, "last user", cache=False)
    assert torch.allclose(case.partner[given], states, atol=1e-5)
    assert torch.equal(case.h, embed([*table.chat], model, 1, "last user"))
    printed = [model.tokenizer.apply_chat_template(one, tokenize=False) for one in table.chat]
    table = table.assign(chat=printed)
    table.to_csv(tmp_path / "chats.csv", index=False)
    data = labelled.read(str(tmp_path / "chats.csv"), "chat", "y")
    again = audit.prepare_texts(data, folders["llama"], "last user")
    assert again.text == read.text
    assert (
        "Left as the model's chat template has printed them before: 60 of 60 texts." in again.notes
    )


@pytest.mark.usefixtures("kernels")
def test_an_audit_of_conversations(folders, tmp_path):
    """From JSON lines to the report: the last token of the question is known, even to random
    weights, and it is the one that was read."""
    nouns = ["dog", "cat", "king", "boy", "ship", "tree", "wife", "horse", "bird", "river"]
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Was {i} here?"},
                {"role": "assistant", "content": "No."},
                {"role": "user", "content": f"Is the {noun} {i} there{mark}\n"},
                {"role": "assistant", "content": "Yes."},
            ],
            "kind": kind,
            "noun": f"{noun} {i}",
        }
        for noun in nouns
        for i in range(8)
        for mark, kind in (("?", "asks"), ("!", "tells"))
    ]
    pd.DataFrame(rows).to_json(tmp_path / "chats.jsonl", orient="records", lines=True)
    words = ["audit", folders["gemma"], str(tmp_path / "chats.jsonl"), "--text", "messages"]
    words += ["--label", "kind", "--group", "noun", "--at", "last user", "--profile", "smoke"]
    found = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "report")])
    assert found.exit_code == 0, found.output
    read = report.Report.model_validate_json((tmp_path / "report" / "report.json").read_bytes())
    assert "Read in the first texts: '?', '!', '?'." in read.notes
    answers = {one.question: one for one in read.answers}
    assert answers["readable"].figure.value > 0.9, answers["readable"]
