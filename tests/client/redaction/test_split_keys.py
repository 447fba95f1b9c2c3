"""A vendor's key that is split over two messages is found in both, for each pair of roles."""

from __future__ import annotations

import random
import string
from typing import Any, get_args

import pytest
from compact.messages import Message, Role
from compact.redaction import default_redactor, redact_items
from compact.redaction.view import RedactionView

_ALNUM = string.ascii_letters + string.digits
# The documented lengths.
_KEYS = {
    "ghp_": 36, "sk-ant-api03-": 95, "sk-proj-": 150, "glpat-": 20, "xoxb-": 50, "npm_": 36, "AIza": 35, "gsk_": 52,
    "sk_live_": 24, "hf_": 34, "pplx-": 48, "lin_api_": 40, "dckr_pat_": 27,
}  # fmt: skip
_SHORTEST_HALF = 8


def _halves(rng: random.Random) -> tuple[str, str]:
    prefix, chars = rng.choice(list(_KEYS.items()))
    body = "".join(rng.choice(_ALNUM) for _ in range(chars))
    cut = rng.randrange(_SHORTEST_HALF, chars - _SHORTEST_HALF)
    return prefix + body[:cut], body[cut:]


def _chat(role: str, first: str, rest: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": f"The key is {first}"}, {"role": role, "content": f"{rest} is what I have."}]


@pytest.mark.req("S-RED-1", "A-PRI-1")
@pytest.mark.parametrize("role", get_args(Role))
def test_both_halves_are_hidden(role: Role) -> None:
    """As events of a server, as items of a provider, and as messages of a session that arrive one by one."""
    rng, redactor = random.Random(20261119), default_redactor()
    missed = 0
    for _ in range(100):
        first, rest = _halves(rng)
        chat = _chat(role, first, rest)
        view = RedactionView()
        messages = [Message(role, item["content"], id=f"m{number}") for number, item in enumerate(chat, 1)]
        for end in (1, 2):
            view.update(messages[:end])
        texts = [
            str([value for value, _ in redactor.trees(chat)]),
            str([value for value, _ in redact_items(chat, redactor.trees)]),
            "".join(view.mask(message).text for message in messages),
        ]
        missed += any(half in text for half in (first, rest) for text in texts)
    # A half may look like words.
    assert missed <= 2


def test_labels_between_two_messages_stay() -> None:
    """A role, a tool call's id and a span's id are not the rest of a key."""
    first = "ghp_" + "a1B2c3D4e5"
    labels = ["assistant", "call_a1B2c3D4e5F6g7H8i9J0k1", "8f14e45f-ceea-467a-9575-4b2b5c1f9d2e", "8f14e45fceea167a"]
    values = [f"key {first}", *labels, "x"]
    assert default_redactor().tree(values)[0][1:] == values[1:]


def test_a_message_after_a_whole_key_stays() -> None:
    """A key of its usual length is not continued by whatever comes next."""
    key = "ghp_" + "a1B2c3D4" * 5
    values = [f"key {key[:40]}", "k9J8h7G6f5D4 is the build"]
    clean, counts = default_redactor().tree(values)
    assert clean == ["key <REDACTED>", values[1]] and counts.total() == 1
