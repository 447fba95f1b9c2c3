"""Texts of comments: cleaning, and the people that they mention. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

MAX_CHARS = 5_000
MAX_MENTIONS = 20
# The characters of Django's usernames. A sentence may end right after a name.
_MENTION = re.compile(r"(?<![\w@.])@([\w.@+-]{1,150})")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Normalize line breaks and remove control characters, which Postgres or terminals do not accept."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def mentioned_names(text: str, usernames: Iterable[str]) -> list[str]:
    """Return the usernames that a text mentions, in order, without regard to case."""
    known = {name.lower(): name for name in usernames}
    names = [name for _, name in split_mentions(text, known) if name]
    return list(dict.fromkeys(names))[:MAX_MENTIONS]


def split_mentions(text: str, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text: plain text with an empty name, and mentions with the username."""
    position = 0
    for match in _MENTION.finditer(text):
        name = _known_name(match[1], known)
        if name:
            end = match.start() + 1 + len(name)
            if match.start() > position:
                yield text[position : match.start()], ""
            yield text[match.start() : end], name
            position = end
    if position < len(text):
        yield text[position:], ""


def possible_names(text: str) -> set[str]:
    """Return everything in a text that may be a username, in lower case, for a query."""
    names = set()
    for match in _MENTION.finditer(text):
        name = match[1].lower()
        while name:
            names.add(name)
            shorter = name.rstrip(".@+-")
            name = shorter if shorter != name else ""
    return names


def _known_name(name: str, known: Mapping[str, str]) -> str:
    for candidate in (name, name.rstrip(".@+-")):
        if candidate.lower() in known:
            return known[candidate.lower()]
    return ""
