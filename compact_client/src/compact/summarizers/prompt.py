"""Build the summariser's own prompt: template, frame, and the history as a record that cannot give orders.

The prompt is at most 80 % of the window: the oldest messages that are not instructions of the system are left out of
the prompt (and of nothing else), with a note that says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from compact.exceptions import SummarizerOverflow
from compact.messages import Message

WINDOW_SHARE: Final = 0.8
OMITTED_NOTE: Final = "Note: earlier messages were omitted here because they did not fit; the record begins later."
_ALIASES: Final = {"extractive_brief": "brief"}
_PREFIX_ROLES: Final = ("system", "developer")
_MIN_MESSAGE_CHARS: Final = 400


@cache
def template(style: str) -> str:
    """The instructions for one style: the frame that all share, then the template with its example."""
    folder = files("compact.summarizers") / "templates"
    name = _ALIASES.get(style, style)
    return f"{(folder / 'frame.md').read_text('utf-8')}\n{(folder / f'{name}.md').read_text('utf-8')}"


@cache
def prompt_version(style: str) -> str:
    """The hash that names a template; a changed word is another version."""
    return hashlib.sha256(template(style).encode()).hexdigest()[:12]


def build_prompt(
    messages: Sequence[Message],
    *,
    style: str,
    keep_keys: Sequence[str],
    max_tokens: int,
    window_tokens: int,
    count_tokens: Callable[[str], int],
) -> list[dict[str, str]]:
    """Chat messages that ask for the summary, within 80 % of the window."""
    instructions = template(style).replace("{max_tokens}", str(max_tokens))
    if keep_keys:
        instructions += f"\nCarry over word for word every line that mentions: {', '.join(keep_keys)}.\n"
    room = int(window_tokens * WINDOW_SHARE) - count_tokens(instructions) - count_tokens(OMITTED_NOTE) - 32
    if room <= 0:
        raise SummarizerOverflow(f"the instructions alone do not fit {WINDOW_SHARE:.0%} of {window_tokens:,} tokens")
    lines, is_trimmed = _trimmed([record_line(message) for message in messages], messages, room, count_tokens)
    note = [OMITTED_NOTE] if is_trimmed else []
    return [
        {"role": "system", "content": instructions},
        *({"role": "system", "content": text} for text in note),
        {"role": "user", "content": "\n".join(["BEGIN RECORD", *lines, "END RECORD"])},
    ]


def record_line(message: Message) -> str:
    """One message as one line of JSON. No tag, quote or newline in it can end the record or look like a frame."""
    entry: dict[str, Any] = {"id": message.id or "", "role": message.role, "text": message.text}
    if message.tool_calls:
        entry["calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    line = json.dumps(entry, ensure_ascii=False).replace("<", "\\u003c").replace("RECORD", "R\\u0045CORD")
    # Half of a character, as a tool's output may hold it, cannot be sent.
    return line.encode("utf-8", "replace").decode()


def _trimmed(
    lines: list[str], messages: Sequence[Message], room: int, count_tokens: Callable[[str], int]
) -> tuple[list[str], bool]:
    """The newest lines that fit beside the prefix, in order, and whether any were left out."""
    prefix = [index for index, message in enumerate(messages) if message.role in _PREFIX_ROLES]
    kept = set(prefix)
    room -= sum(count_tokens(lines[index]) + 1 for index in prefix)
    newest_first = [index for index in range(len(lines) - 1, -1, -1) if index not in kept]
    for index in newest_first:
        tokens = count_tokens(lines[index]) + 1
        if tokens > room:
            if index == newest_first[0]:
                lines[index] = _clipped(messages[index], room, count_tokens)
                kept.add(index)
            break
        room -= tokens
        kept.add(index)
    return [lines[index] for index in sorted(kept)], len(kept) < len(lines)


def _clipped(message: Message, room: int, count_tokens: Callable[[str], int]) -> str:
    """The newest message with its middle cut out until it fits: there is nothing older to leave out instead."""
    keep = max(_MIN_MESSAGE_CHARS, room * 2)
    while True:
        text = f"{message.text[: keep // 2]} …omitted… {message.text[-keep // 2 :]}"
        line = record_line(Message(message.role, text, id=message.id))
        if count_tokens(line) <= room:
            return line
        if keep <= _MIN_MESSAGE_CHARS:
            raise SummarizerOverflow("the newest message alone does not fit the summariser's window")
        keep //= 2
