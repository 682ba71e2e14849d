"""Completions and answers from any server that speaks OpenAI's format, all kept, so that none is paid for twice."""
from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from probebook.base import UserError, cache_path, written_whole
from probebook.models.decoding import Filled

GREEDY = {"temperature": 0, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0}


@dataclass
class Server:
    """A language model behind `{base_url}/completions`; give it to `fill` in the place of a model. `say` has it answer,
    there or at `{base_url}/chat/completions`.

    `key`: the environment variable that holds the key (None: the server wants none). `timeout`: seconds for one try.
    `retries`: tries after the first, with growing pauses, where the server is not reached, hangs, is busy (429) or
    fails (5xx). `per_minute`: at most so many requests, retries not counted.
    Raises UserError for an address that is none or holds secrets."""

    base_url: str
    model: str
    key: str | None = "OPENAI_API_KEY"
    timeout: float = 60
    retries: int = 5
    per_minute: float | None = None
    kind: ClassVar[str] = "server"
    _next: float = field(default=0, init=False, repr=False)             # when the next request may go out

    def __post_init__(self):
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
            raise UserError("base_url: an address like https://host/v1, without user, password or query")
        if self.timeout <= 0 or self.retries < 0 or (self.per_minute is not None and self.per_minute <= 0):
            raise UserError("timeout and per_minute must be above 0, retries 0 or more")
        if self.key is not None and not self.key.isidentifier():
            raise UserError("key: the name of an environment variable, such as OPENAI_API_KEY, not the key itself")
        self.base_url = self.base_url.rstrip("/")

    def complete(self, prompts: Sequence[str], k: int = 5, steps: int = 20) -> list[Filled]:
        """The greedy continuation of each prompt, its k ≤ 5 best tokens at each position (McMilin, appendix F).

        Each answer is kept in the cache folder as it comes (`completions/`, JSON; the key is in none): a second call
        asks only for what is missing, and needs no key where nothing is. UserError, one line, when the server cannot
        be reached, hangs, refuses, or answers without log-probabilities or with what is no completion."""
        if not 1 <= k <= 5:
            raise UserError(f"k={k}: servers of this format give the 1 to 5 best tokens")
        def ask(client, prompt, settings):
            answer = client.completions.create(model=self.model, prompt=prompt, **settings)
            return _positions(answer.choices[0].logprobs, k)

        found = self._each(prompts, GREEDY | {"max_tokens": steps, "logprobs": k}, "positions", ask)
        return [Filled.of((token, [(t, math.exp(p)) for t, p in pairs]) for token, pairs in one) for one in found]

    def say(self, prompts: Sequence[str], steps: int = 20, chat: bool = False) -> list[str]:
        """What the model says to each prompt, at most `steps` tokens, as it came (greedy; no probabilities are needed).

        `chat`: the prompt is the one message of a user; else it is continued. Kept, and wrong, as in `complete`."""
        if steps < 1:
            raise UserError(f"steps={steps}: at least 1")

        def ask(client, prompt, settings):
            if chat:
                messages = [{"role": "user", "content": prompt}]
                answer = client.chat.completions.create(model=self.model, messages=messages, **settings)
                text = answer.choices[0].message.content
            else:
                text = client.completions.create(model=self.model, prompt=prompt, **settings).choices[0].text
            if not isinstance(text, str):
                raise UserError("the answer has no text; such a server cannot be used here")
            return text

        return self._each(prompts, GREEDY | {"max_tokens": steps}, "chat" if chat else "text", ask)

    def _each(self, prompts, settings, what, ask):
        """What `ask` gives for each prompt: from the file that keeps it under the name `what`, or asked for now."""
        paths, client, asked = [self._path(p, settings, what) for p in prompts], None, 0
        for path, prompt in zip(paths, prompts):
            if _kept(path, what) is None:
                client = client or self._client()
                try:
                    found = self._ask(client, prompt, settings, ask)
                except UserError as e:
                    left = f"; new answers kept: {asked}, call again to go on" if asked else ""
                    raise UserError(f"{e}{left}") from None
                asked += 1
                with written_whole(path) as part:
                    part.write_text(json.dumps({"base_url": self.base_url, "model": self.model, "prompt": prompt,
                                                "settings": settings, what: found}))
        return [_kept(path, what) for path in paths]

    def _path(self, prompt, settings, what):
        key = [self.base_url, self.model, prompt, settings, *([] if what == "positions" else [what])]
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:40]
        return cache_path() / "completions" / f"{name}.json"

    def _client(self):
        from openai import OpenAI

        key = os.environ.get(self.key, "").strip() if self.key else "none"
        if not key or not key.isascii():
            raise UserError(f"{self.base_url} wants a key: put it into the environment variable {self.key}, "
                            "or give key=None")
        return OpenAI(api_key=key, base_url=self.base_url, timeout=self.timeout, max_retries=self.retries)

    def _ask(self, client, prompt, settings, ask):
        """What `ask` gives; UserError for whatever goes wrong."""
        import openai

        where = f"{self.model} at {self.base_url}"
        if self.per_minute:
            time.sleep(max(0, self._next - time.monotonic()))
            self._next = time.monotonic() + 60 / self.per_minute
        try:
            return ask(client, prompt, settings)
        except openai.APITimeoutError:
            raise UserError(f"{where}: no answer within {self.timeout:g} s ({self.retries + 1} tries); give it a "
                            "longer timeout") from None
        except openai.APIConnectionError:
            raise UserError(f"{where}: no connection ({self.retries + 1} tries); is the server running?") from None
        except openai.APIStatusError as e:
            raise UserError(f"{where}: {self._refusal(e, client.api_key)}") from None
        except UserError as e:
            raise UserError(f"{where}: {e}") from None
        except (openai.APIError, json.JSONDecodeError):
            raise UserError(f"{where}: the answer is no JSON; is this the address of a completions server?") from None
        except (openai.OpenAIError, AttributeError, IndexError, TypeError, ValueError):
            raise UserError(f"{where}: the answer is no completion; is this a completions server's address?") from None

    def _refusal(self, error, key):
        """What a status means; the server's own words in one line, without the key."""
        code, said = error.status_code, str(error.message)
        if code in (401, 403):
            return f"HTTP {code}: " + (f"the key in {self.key} is refused" if self.key else "it wants a key")
        said = " ".join((said.replace(key, "…") if self.key else said).split())[:200]
        hints = {404: "no such model, or no completions there", 429: "too many requests: lower per_minute, or wait"}
        hint = hints.get(code, f"failed in {self.retries + 1} tries" if code >= 500 else "the request is refused")
        return f"{hint} (HTTP {code}: {said})"


def _positions(found, k):
    """[token, [[token, log-probability], … falling]] of each position, from the `logprobs` of an answer."""
    if found is None or found.top_logprobs is None:
        raise UserError("the answer has no log-probabilities; such a server cannot be used here")
    out = []
    for token, best in zip(found.tokens, found.top_logprobs, strict=True):
        pairs = sorted(((str(t), float(p)) for t, p in best.items()), key=lambda pair: -pair[1])[:k]
        if not pairs or not all(p < 1e-3 for _, p in pairs):
            raise ValueError("no log-probabilities")
        out.append((str(token), pairs))
    return out


def _kept(path, what):
    """What a kept answer holds; None where there is none, or a damaged one."""
    try:
        return json.loads(path.read_text())[what]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        warnings.warn(f"kept completion {path.name} is damaged; asked for again", stacklevel=3)
        return None
