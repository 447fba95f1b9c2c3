"""Split messages into blocks of verbatim lines and label each block with its kind.

Lines are never rewritten, only clipped, so that every line of a summary can be found in its source message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from compact.messages import Message, ToolCall

if TYPE_CHECKING:
    from compact.summary.entries import Entry

MAX_SENTENCE_CHARS: Final = 320  # Longer sentences are split at commas, because a long line brings irrelevant text.
MAX_OUTPUT_CHARS: Final = 200  # Tool output and code carry less information per character.
_MAX_ARGUMENT_CHARS: Final = 200
_MAX_ARGUMENT_PREVIEW_CHARS: Final = 80
_MAX_UNSPLIT_CHARS: Final = 120
_SHORT_TEXT_CHARS: Final = 2_000
_LONG_TEXT_CHARS: Final = 40_000
_MAX_MESSAGE_CHARS: Final = 400_000  # Only both ends of a longer message are read.

# Not after short titles such as Dr. or St., because half an instruction is worse than a long line.
_SENTENCE_END: Final = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z][a-z]\.)(?<!\b[A-Z]\.)(?<!Mrs\.)\s+(?=[A-Z\"'`(\[*-])|(?<=[。！？])"
)
_HAS_SENTENCE_END: Final = re.compile(r"[.!?]\s|[。！？]")  # a cheap necessary condition for _SENTENCE_END
_BULLET: Final = re.compile(r"^[-*•]\s+(?=\S)")
_SOFT_BREAK: Final = re.compile(r"(?<=[,;}\]|])\s+|(?<=[,;])(?=[\"{\[])")
_LINE_NUMBER: Final = re.compile(r"^\s*\d+(?:→|\t|\| ?)\s*")
_FENCE: Final = "```"

_COMMAND_KEYS: Final = ("command", "cmd", "script", "action", "code", "query", "sql")
_PATH_KEYS: Final = ("file_path", "path", "filename", "file", "notebook_path", "target_file")
_EDIT_TOOL: Final = re.compile(r"edit|write|create|patch|replace|insert|delete|remove|rename|move|apply", re.IGNORECASE)


LineKind = Literal["user", "prose", "code", "call", "command", "edit", "output"]


class Block(NamedTuple):
    """Consecutive lines of one message that have the same kind."""

    lines: Sequence[str]
    kind: LineKind
    sources: tuple[str, ...]  # the id of the message, if it has one
    position: int  # the index of the message
    call_line: str = ""  # for output and edited code: the line of the call they belong to
    entry: Entry | None = None  # the entry of an earlier summary that this line was rendered from
    field: str = ""  # the field of that entry
    size: int = 0  # for output: the length of the whole output in characters


def read_blocks(messages: Sequence[Message]) -> Iterator[Block]:
    """Yield the lines of the messages in order."""
    call_lines: dict[str, str] = {}
    for position, message in enumerate(messages):
        sources = (message.id,) if message.id else ()
        text = _truncate(message.text)
        if message.role == "tool" or message.answers:
            if lines := _cached_output_lines(text):
                call_line = call_lines.get(message.answers[0] if message.answers else "", message.name or "")
                yield Block(lines, "output", sources, position, call_line, size=len(text))
            continue
        kind: LineKind = "user" if message.role == "user" else "prose"
        for lines, is_code in _cached_prose_blocks(text):
            yield Block(lines, "code" if is_code and kind == "prose" else kind, sources, position)
        for call in message.tool_calls:
            line, kind, rest = describe_call(call)
            call_lines[call.id] = line
            yield Block((line,), kind, sources, position)
            if rest:
                yield Block(rest, "code", sources, position, line)


def describe_call(call: ToolCall) -> tuple[str, LineKind, list[str]]:
    """Return one line for a tool call, its kind, and the lines of arguments that are too long for it."""
    arguments = _parse_arguments(call.arguments)
    if not isinstance(arguments, dict):
        text = collapse_whitespace(str(call.arguments or ""))
        return f"{call.name}({clip(text, _MAX_ARGUMENT_CHARS)})", "call", []
    shown: dict[str, str] = {}
    rest: list[str] = []
    for key, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
        stripped = text.strip()
        if len(stripped) <= _MAX_ARGUMENT_CHARS and "\n" not in stripped:
            shown[key] = stripped
            continue
        lines = output_lines(_truncate(stripped))
        shown[key] = clip(lines[0] if lines else "", _MAX_ARGUMENT_PREVIEW_CHARS)
        rest += lines
    if (key := next((key for key in _COMMAND_KEYS if key in arguments), None)) is not None:
        return _command_line(call.name, key, shown), "command", rest
    path = _edited_path(call.name, arguments)
    if path is not None:
        change = _join_arguments({key: value for key, value in shown.items() if value != path})
        return f"{path}: {call.name}({change})", "edit", rest
    return f"{call.name}({_join_arguments(shown)})", "call", rest


def _command_line(tool: str, command_key: str, shown: dict[str, str]) -> str:
    """Return `Bash(git push) Push the fix`, without argument names that every such call repeats."""
    others = {key: value for key, value in shown.items() if key not in (command_key, "description")}
    command = ", ".join([shown[command_key], *([_join_arguments(others)] if others else [])])
    return f"{tool}({command}) {shown.get('description', '')}".rstrip()


def _join_arguments(shown: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def _edited_path(tool: str, arguments: dict[str, Any]) -> str | None:
    """Return the file that a call writes to, or None if the tool does not edit files."""
    if not _EDIT_TOOL.search(tool):
        return None
    return next((str(arguments[key]) for key in _PATH_KEYS if arguments.get(key)), None)


def _parse_arguments(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def prose_blocks(text: str) -> list[tuple[list[str], bool]]:
    """Split a text into sentences and bullets, grouped by code fence. Each group has a flag that is True for code."""
    lines: list[str] = []
    is_code = False
    blocks = [(lines, is_code)]
    for raw in text.split("\n"):
        line = raw.strip()
        if line.startswith(_FENCE):
            lines, is_code = [], not is_code
            blocks.append((lines, is_code))
            continue
        if len(line) < 3 or not (line[0].isalnum() or line.strip("-=_*#~|+`. ")):
            continue
        if line[0] in "-*•":
            line = _BULLET.sub("", line)
        if is_code:
            lines += _split_line(line, MAX_OUTPUT_CHARS)
        elif len(line) <= _MAX_UNSPLIT_CHARS:
            lines.append(line)
        else:
            for sentence in _SENTENCE_END.split(line) if _HAS_SENTENCE_END.search(line) else (line,):
                lines += _split_line(sentence, MAX_SENTENCE_CHARS)
    return [block for block in blocks if block[0]]


# The summarizer, the retention check and the next compaction read the same texts. The limits on length and entries
# bound these caches to about 30 MB.
def _cached_prose_blocks(text: str) -> Sequence[tuple[Sequence[str], bool]]:
    return _short_prose_blocks(text) if len(text) < _SHORT_TEXT_CHARS else prose_blocks(text)


def _cached_output_lines(text: str) -> Sequence[str]:
    if len(text) < _SHORT_TEXT_CHARS:
        return _short_output_lines(text)
    return _long_output_lines(text) if len(text) < _LONG_TEXT_CHARS else output_lines(text)


@lru_cache(maxsize=4096)
def _short_prose_blocks(text: str) -> Sequence[tuple[Sequence[str], bool]]:
    return prose_blocks(text)


@lru_cache(maxsize=4096)
def _short_output_lines(text: str) -> Sequence[str]:
    return output_lines(text)


@lru_cache(maxsize=256)
def _long_output_lines(text: str) -> Sequence[str]:
    return output_lines(text)


def output_lines(text: str) -> list[str]:
    """Return the lines of a tool output without line numbers and separator lines."""
    lines: list[str] = []
    for raw in text.split("\n"):
        line = raw.strip()
        if line and line[0].isdigit():
            line = _LINE_NUMBER.sub("", line)
        if len(line) < 4 or not (line[0].isalnum() or line.strip("-=_*#~|+`./\\<>(){}[];:,! ")):
            continue
        if len(line) <= MAX_OUTPUT_CHARS:
            lines.append(line)
        else:
            lines += _split_line(line, MAX_OUTPUT_CHARS)
    return lines


def _split_line(line: str, limit: int) -> list[str]:
    """Split a line into pieces of at most `limit` characters, preferably after commas and closing brackets."""
    if len(line) <= limit:
        return [line]
    pieces: list[str] = []
    target = limit * 2 // 3
    pending = ""
    for part in _SOFT_BREAK.split(line):
        piece = part
        if pending and len(pending) + len(piece) > target:
            pieces.append(pending)
            pending = ""
        while len(piece) > limit:
            cut = piece.rfind(" ", target // 2, limit)
            cut = cut if cut > 0 else limit
            pieces.append(piece[:cut])
            piece = piece[cut:].lstrip()
        pending = f"{pending} {piece}" if pending else piece
    if pending:
        pieces.append(pending)
    return pieces


def _truncate(text: str) -> str:
    if len(text) <= _MAX_MESSAGE_CHARS:
        return text
    half = _MAX_MESSAGE_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
