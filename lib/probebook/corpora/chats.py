"""Chats: the messages of a conversation as one text that knows where each message stands.

chat = read_chat([{"role": "user", "content": "Is it raining?"}])   # "user: Is it raining?\\n" """

from __future__ import annotations

import json
from collections.abc import Iterable

from probebook.base import UserError


class Chat(str):
    """A text with `turns`: each message's role, and where its content begins and ends. `printed`:
    by a model's template."""

    turns: tuple[tuple[str, int, int], ...]
    printed: bool

    def __new__(cls, text: str, turns: Iterable[tuple] = (), printed: bool = False) -> Chat:
        chat = super().__new__(cls, text)
        chat.turns, chat.printed = tuple(turns), printed
        return chat

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages, each with its role and content."""
        return [{"role": role, "content": self[start:end]} for role, start, end in self.turns]


def read_chat(messages: object) -> Chat:
    """Messages (a list of dicts with role and content, or its JSON) as a text, `role: content` for
    each. Parts of text are joined; other fields are not read. UserError: no such list, or contents
    that are not text alone, such as pictures or calls of tools."""
    text, turns = "", []
    try:
        written = messages if isinstance(messages, str) else json.dumps(messages, default=list)
        for message in json.loads(written):
            role, content = message["role"], message["content"]
            if not isinstance(content, str):
                content = "".join(part["text"] for part in content)
            if message.get("tool_calls"):
                raise ValueError
            start = len(text + role + ": ")
            turns.append((role, start, start + len(content)))
            text += role + ": " + content + "\n"
    except (KeyError, TypeError, ValueError):
        shape = '[{"role": "user", "content": "Hi"}]'
        raise UserError(f"expected messages such as {shape}, no pictures or tool calls") from None
    return Chat(text, turns)
