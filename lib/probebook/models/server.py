"""Ask a server with OpenAI's format for completions, cached so that none is paid twice."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from probebook.base import UserError, atomic_write, cache_path
from probebook.models.cache import key_name
from probebook.models.decoding import Filled

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI
    from openai.types.completion_choice import Logprobs

GREEDY = {"temperature": 0, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0}


@dataclass
class Server:
    """A language model behind `{base_url}/completions`, to be given to `fill` instead of a model.

    `say` returns its answers, from there or from `{base_url}/chat/completions`.

    - `key`: the environment variable that holds the key (None: the server needs none).
    - `retries`: tries after the first, with growing pauses, if the server is not reached, hangs, is
      busy (429) or fails (5xx).

    Raises UserError for a `base_url` that is no address or contains secrets."""

    base_url: str  # the address of the server
    model: str  # its name for the model
    key: str | None = "OPENAI_API_KEY"
    timeout: float = 60  # seconds for one try
    retries: int = 5
    per_minute: float | None = None  # the largest number of requests, not counting retries
    kind: ClassVar[str] = "server"
    _next: float = field(default=0, init=False, repr=False)  # time at which a request may be sent

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        address = parts.scheme in ("http", "https") and parts.hostname
        if not address or "@" in parts.netloc or parts.query:
            raise UserError(
                "base_url: an address like https://host/v1, without user, password or query"
            )
        slow = self.per_minute is not None and self.per_minute <= 0
        if self.timeout <= 0 or self.retries < 0 or slow:
            raise UserError("timeout and per_minute must be above 0, retries 0 or more")
        if self.key is not None and not self.key.isidentifier():
            raise UserError(
                "key: the name of an environment variable, such as OPENAI_API_KEY, not "
                "the key itself"
            )
        self.base_url = self.base_url.rstrip("/")

    @classmethod
    def at(cls, address: str, model: str) -> Server:
        """Make a server for a model at an address; its key is OPENAI_API_KEY, if that is set."""
        key = "OPENAI_API_KEY"
        return cls(address, model, key if os.environ.get(key) else None)

    def complete(self, prompts: Sequence[str], k: int = 5, steps: int = 20) -> list[Filled]:
        """Continue each prompt greedily: the k ≤ 5 best tokens at each position.

        (McMilin, appendix F.) Each answer is cached as it arrives (`completions/`, JSON, without
        the key). A second call asks only for missing answers, and needs no key if there are none.
        Raises UserError, in one line, if the server cannot be reached, hangs, refuses, or returns
        no completion or no log-probabilities."""
        if not 1 <= k <= 5:
            raise UserError(f"k={k}: servers of this format give the 1 to 5 best tokens")

        def ask(client: OpenAI, prompt: str, settings: dict) -> list:
            answer = client.completions.create(model=self.model, prompt=prompt, **settings)
            return _positions(answer.choices[0].logprobs, k)

        settings = GREEDY | {"max_tokens": steps, "logprobs": k}
        answers = self._each(prompts, settings, "positions", ask)
        return [
            Filled.of((token, [(t, math.exp(p)) for t, p in pairs]) for token, pairs in answer)
            for answer in answers
        ]

    def answer(self, prompts: Sequence[str], steps: int = 20, chat: bool = False) -> list[str]:
        """Answer each prompt greedily, in at most `steps` tokens, unedited.

        `chat`: send the prompt as the one message of a user; otherwise the model continues it.
        Answers are cached, and errors raised, as by `complete`; no log-probabilities are needed."""
        if steps < 1:
            raise UserError(f"steps={steps}: at least 1")

        def ask(client: OpenAI, prompt: str, settings: dict) -> str:
            if chat:
                messages = [{"role": "user", "content": prompt}]
                answer = client.chat.completions.create(
                    model=self.model, messages=messages, **settings
                )
                text = answer.choices[0].message.content
            else:
                answer = client.completions.create(model=self.model, prompt=prompt, **settings)
                text = answer.choices[0].text
            if not isinstance(text, str):
                raise UserError("the answer has no text; such a server cannot be used here")
            return text

        return self._each(prompts, GREEDY | {"max_tokens": steps}, "chat" if chat else "text", ask)

    def _each(self, prompts: Sequence[str], settings: dict, what: str, ask: Callable) -> list:
        """The answer to each prompt, from the cached file's entry `what` or else by `ask`."""
        paths, client, asked = [self._path(p, settings, what) for p in prompts], None, 0
        for path, prompt in zip(paths, prompts):
            if _read_cached(path, what) is None:
                client = client or self._client()
                try:
                    result = self._ask(client, prompt, settings, ask)
                except UserError as e:
                    note = f"; new answers kept: {asked}, call again to go on" if asked else ""
                    raise UserError(f"{e}{note}") from None
                asked += 1
                content = {
                    "base_url": self.base_url,
                    "model": self.model,
                    "prompt": prompt,
                    "settings": settings,
                    what: result,
                }
                with atomic_write(path) as part:
                    part.write_text(json.dumps(content))
        return [_read_cached(path, what) for path in paths]

    def _path(self, prompt: str, settings: dict, what: str) -> Path:
        kind = [] if what == "positions" else [what]
        name = key_name([self.base_url, self.model, prompt, settings, *kind])
        return cache_path() / "completions" / f"{name}.json"

    def _client(self) -> OpenAI:
        try:
            from openai import OpenAI
        except ImportError:
            raise UserError("openai is not installed: pip install -e '.[server]'") from None

        key = os.environ.get(self.key, "").strip() if self.key else "none"
        if not key or not key.isascii():
            raise UserError(
                f"{self.base_url} wants a key: put it into the environment variable "
                f"{self.key}, or give key=None"
            )
        return OpenAI(
            api_key=key, base_url=self.base_url, timeout=self.timeout, max_retries=self.retries
        )

    def _ask(self, client: OpenAI, prompt: str, settings: dict, ask: Callable) -> Any:
        """The result of `ask`; every error becomes a UserError of one line."""
        import openai

        where = f"{self.model} at {self.base_url}"
        if self.per_minute:
            time.sleep(max(0, self._next - time.monotonic()))
            self._next = time.monotonic() + 60 / self.per_minute
        try:
            return ask(client, prompt, settings)
        except openai.APITimeoutError:
            raise UserError(
                f"{where}: no answer within {self.timeout:g} s ({self.retries + 1} "
                "tries); give it a longer timeout"
            ) from None
        except openai.APIConnectionError:
            raise UserError(
                f"{where}: no connection ({self.retries + 1} tries); is the server running?"
            ) from None
        except openai.APIStatusError as e:
            raise UserError(f"{where}: {self._refusal(e, client.api_key)}") from None
        except UserError as e:
            raise UserError(f"{where}: {e}") from None
        except (openai.APIError, json.JSONDecodeError):
            raise UserError(
                f"{where}: the answer is no JSON; is this the address of a completions server?"
            ) from None
        except (openai.OpenAIError, AttributeError, IndexError, TypeError, ValueError):
            raise UserError(
                f"{where}: the answer is no completion; is this the address of a "
                "completions server?"
            ) from None

    def _refusal(self, error: APIStatusError, key: str) -> str:
        """The meaning of a status, and the server's message in one line without the key."""
        code, message = error.status_code, str(error.message)
        if code in (401, 403):
            reason = f"the key in {self.key} is refused" if self.key else "it wants a key"
            return f"HTTP {code}: {reason}"
        message = message.replace(key, "…") if self.key else message
        hints = {
            404: "no such model, or no completions there",
            429: "too many requests: lower per_minute, or wait",
        }
        other = f"failed in {self.retries + 1} tries" if code >= 500 else "the request is refused"
        return f"{hints.get(code, other)} (HTTP {code}: {' '.join(message.split())[:200]})"


def _positions(logprobs: Logprobs | None, k: int) -> list[tuple[str, list[tuple[str, float]]]]:
    """(token, its k best alternatives with falling log-probabilities) at each position."""
    if logprobs is None or logprobs.top_logprobs is None:
        raise UserError("the answer has no log-probabilities; such a server cannot be used here")
    out = []
    for token, best in zip(logprobs.tokens, logprobs.top_logprobs, strict=True):
        pairs = [(str(other), float(p)) for other, p in best.items()]
        pairs = sorted(pairs, key=lambda pair: -pair[1])[:k]
        if not pairs or not all(p < 1e-3 for _, p in pairs):
            raise ValueError("no log-probabilities")
        out.append((str(token), pairs))
    return out


def _read_cached(path: Path, what: str) -> Any:
    """An entry of a cached answer; None if the file is missing or damaged."""
    try:
        return json.loads(path.read_text())[what]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        warnings.warn(f"kept completion {path.name} is damaged; asked for again", stacklevel=3)
        return None
