"""Chats as a model reads them: through its own template, with one token at the beginning.

`text, = render([[{"role": "user", "content": "Hi"}]], load(FOLDER))` is the printed text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from probebook.base import UserError
from probebook.corpora.chats import Chat, read_chat
from probebook.models.batches import UnreadText
from probebook.models.loading import Model

SIGN = "@@@"  # stands for a content


def render(texts: Sequence[str | Sequence[Mapping]], model: Model) -> list[Any]:
    """Texts as they are, and messages as the model's chat template prints them, as a `Chat`.

    No prompt for an answer is added. A text that has the template's marks was printed before and
    becomes a `Chat` as it is. Tokens that the tokenizer puts around a text are left out.

    UserError: there is no template, or (UnreadText) it does not print the messages as they are."""
    if not (model.tokenizer.is_fast and getattr(model.tokenizer, "chat_template", None)):
        if any(isinstance(text, Chat | list) for text in texts):
            raise UserError(
                f"{model.name} has no fast tokenizer with a chat template: give texts in place of "
                "messages, or a model that has one"
            )
        return [*texts]
    read, (user, marks), frame = [*texts], _marks(model), cache(partial(_frame, model))
    for i, text in enumerate(texts):
        if isinstance(text, str) and not isinstance(text, Chat):
            text = model.unframed(text)
            found = [m for m in marks.finditer(text) if m[2]] if marks else []
            turns = [("user" if m[1] == user else "assistant", *m.span(2)) for m in found]
            read[i] = Chat(text, turns, printed=True) if turns else texts[i]
        elif not getattr(text, "printed", False):
            try:
                messages = (text if isinstance(text, Chat) else read_chat(text)).messages
                pieces = frame(tuple(one["role"] for one in messages))
                read[i] = _locate(_print(model, messages), pieces, messages)
            except UserError as e:
                raise UnreadText(i, str(e)) from None
    return read


def _print(model: Model, messages: list[dict[str, str]]) -> str:
    try:
        text = model.tokenizer.apply_chat_template(messages, tokenize=False)
    except Exception as e:  # templates raise whatever they meet
        raise UserError(f"the chat template refuses it: {' '.join(str(e).split())}") from None
    return model.unframed(str(text))


def _frame(model: Model, roles: Sequence[str]) -> list[str]:
    """What the template prints before, between and after the contents of messages."""
    pieces = _print(model, [{"role": role, "content": SIGN} for role in roles]).split(SIGN)
    if len(pieces) != len(roles) + 1:
        raise UserError(f"the chat template does not print each message once: {', '.join(roles)}")
    return pieces


def _locate(text: str, frame: Sequence[str], messages: Sequence[dict[str, str]]) -> Chat:
    """A printed text with its contents, each without outer blanks, behind its piece of the frame if
    the text has that. A template may leave out reasoning, which </think> ends."""
    turns, end = [], 0
    for piece, message in zip(frame, messages):
        content, before = message["content"].strip(), text.find(piece, end)
        start = end if before < 0 else before + len(piece)
        part = content if content in text[start:] else content.rpartition("</think>")[2].strip()
        place = text.find(part, start)
        if place < 0 or content and not part or before >= 0 and text[start:place].strip():
            raise UserError(f"the chat template does not print {content[:60]!r} as it is")
        end = place + len(part)
        turns.append((message["role"], place, end))
    return Chat(text, turns, printed=True)


def _marks(model: Model) -> tuple[str, re.Pattern | None]:
    """The mark before what a user says, and a pattern that finds this mark or the assistant's, and
    the content up to the next mark. None: texts that were not printed may have such marks, too."""
    try:
        _, answer, question, end = _frame(model, ("user", "assistant", "user"))
        *_, close = _frame(model, ("user", "assistant"))
    except UserError:
        return "", None
    user = model.unframed(question.removeprefix(close)).strip()
    assistant = answer.removeprefix(end).strip() or answer.strip()
    if not re.search(r"[<\[|]", user):
        return "", None
    marks = [re.escape(one) for one in (user, assistant, end.strip(), close.strip()) if one]
    pattern = rf"({marks[0]}|{marks[1]})\s*(.*?)\s*(?={'|'.join(marks)}|\Z)"
    return user, re.compile(pattern, re.DOTALL)
