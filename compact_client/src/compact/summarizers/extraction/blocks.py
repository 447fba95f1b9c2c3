"""Cut messages into verbatim lines and say what kind of line each one is.

Nothing is rewritten: a line is a stretch of its message, at most clipped, so that whatever is kept can be found again.
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

SENTENCE_CHARS: Final = 320  # a longer sentence is split at a comma: one long line brings much that nobody asked for
OUTPUT_CHARS: Final = 200  # lines of tool output and code have less to say per character
_ARGUMENT_CHARS: Final = 200
_SHORT_CHARS: Final = 2_000
_LONG_CHARS: Final = 40_000
_MESSAGE_CHARS: Final = 400_000  # beyond this a single message is read from both ends only

# Not after two letters like Dr. or St.: half an instruction is worse than a long line.
_SENTENCE_END: Final = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z][a-z]\.)(?<!\b[A-Z]\.)(?<!Mrs\.)\s+(?=[A-Z\"'`(\[*-])|(?<=[。！？])"
)
_MARK: Final = re.compile(r"[.!?]\s|[。！？]")  # without one no sentence ends within a line
_BULLET: Final = re.compile(r"^[-*•]\s+(?=\S)")
_SOFT_BREAK: Final = re.compile(r"(?<=[,;}\]|])\s+|(?<=[,;])(?=[\"{\[])")
_LINE_NUMBER: Final = re.compile(r"^\s*\d+(?:→|\t|\| ?)\s*")
_FENCE: Final = "```"

_COMMAND_KEYS: Final = ("command", "cmd", "script", "action", "code", "query", "sql")
_PATH_KEYS: Final = ("file_path", "path", "filename", "file", "notebook_path", "target_file")
_EDIT_TOOL: Final = re.compile(r"edit|write|create|patch|replace|insert|delete|remove|rename|move|apply", re.IGNORECASE)


Kind = Literal["user", "prose", "code", "call", "command", "edit", "output"]


class Block(NamedTuple):
    """Verbatim lines of one message that follow each other and are of one kind."""

    lines: Sequence[str]
    kind: Kind
    sources: tuple[str, ...]  # the id of the message they stand in
    position: int  # the place of that message in what was read
    head: str = ""  # for outputs and edited code: the call line they belong to
    entry: Entry | None = None  # the entry of an earlier summary whose line this is
    field: str = ""  # and the field it stood in
    size: int = 0  # for outputs: the characters of the whole output


def read_blocks(messages: Sequence[Message]) -> Iterator[Block]:
    """Every line of these messages, in order."""
    calls: dict[str, str] = {}
    for position, message in enumerate(messages):
        sources = (message.id,) if message.id else ()
        text = _bounded(message.text)
        if message.role == "tool" or message.answers:
            if lines := _output_lines_of(text):
                head = calls.get(message.answers[0] if message.answers else "", message.name or "")
                yield Block(lines, "output", sources, position, head, size=len(text))
            continue
        kind: Kind = "user" if message.role == "user" else "prose"
        for lines, is_code in _prose_blocks_of(text):
            yield Block(lines, "code" if is_code and kind == "prose" else kind, sources, position)
        for call in message.tool_calls:
            line, kind, rest = describe_call(call)
            calls[call.id] = line
            yield Block((line,), kind, sources, position)
            if rest:
                yield Block(rest, "code", sources, position, line)


def describe_call(call: ToolCall) -> tuple[str, Kind, list[str]]:
    """One line for a tool call, its kind, and the lines of the arguments that were too long for it."""
    arguments = _arguments(call.arguments)
    if not isinstance(arguments, dict):
        text = flat(str(call.arguments or ""))
        return f"{call.name}({clip(text, _ARGUMENT_CHARS)})", "call", []
    shown: dict[str, str] = {}
    rest: list[str] = []
    for key, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
        stripped = text.strip()
        if len(stripped) <= _ARGUMENT_CHARS and "\n" not in stripped:
            shown[key] = stripped
            continue
        lines = output_lines(_bounded(stripped))
        shown[key] = clip(lines[0] if lines else "", 80)
        rest += lines
    if (key := next((key for key in _COMMAND_KEYS if key in arguments), None)) is not None:
        return _command_line(call.name, key, shown), "command", rest
    path = _edited_path(call.name, arguments)
    if path is not None:
        change = _labelled({key: value for key, value in shown.items() if value != path})
        return f"{path}: {call.name}({change})", "edit", rest
    return f"{call.name}({_labelled(shown)})", "call", rest


def _command_line(tool: str, command_key: str, shown: dict[str, str]) -> str:
    """`Bash(git push) Push the fix`: what was run and what for, without the labels that every such call repeats."""
    others = {key: value for key, value in shown.items() if key not in (command_key, "description")}
    command = ", ".join([shown[command_key], *([_labelled(others)] if others else [])])
    return f"{tool}({command}) {shown.get('description', '')}".rstrip()


def _labelled(shown: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def _edited_path(tool: str, arguments: dict[str, Any]) -> str | None:
    """The file a call writes to, if it is a call that writes to a file."""
    if not _EDIT_TOOL.search(tool):
        return None
    return next((str(arguments[key]) for key in _PATH_KEYS if arguments.get(key)), None)


def _arguments(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def prose_blocks(text: str) -> list[tuple[list[str], bool]]:
    """The sentences and bullets of a text, cut at its fences, each part with whether it stands between them."""
    found: list[str] = []
    is_code = False
    blocks = [(found, is_code)]
    for raw in text.split("\n"):
        line = raw.strip()
        if line.startswith(_FENCE):
            found, is_code = [], not is_code
            blocks.append((found, is_code))
            continue
        if len(line) < 3 or not (line[0].isalnum() or line.strip("-=_*#~|+`. ")):
            continue
        if line[0] in "-*•":
            line = _BULLET.sub("", line)
        if is_code:
            found += _split(line, OUTPUT_CHARS)
        elif len(line) <= 120:
            found.append(line)
        else:
            for sentence in _SENTENCE_END.split(line) if _MARK.search(line) else (line,):
                found += _split(sentence, SENTENCE_CHARS)
    return [block for block in blocks if block[0]]


# Texts are read by the summariser, then by the guard, then again at the next compaction. The limits on length and
# number bound what is remembered to some 30 MB, whatever comes.
def _prose_blocks_of(text: str) -> Sequence[tuple[Sequence[str], bool]]:
    return _short_prose_blocks(text) if len(text) < _SHORT_CHARS else prose_blocks(text)


def _output_lines_of(text: str) -> Sequence[str]:
    if len(text) < _SHORT_CHARS:
        return _short_output_lines(text)
    return _long_output_lines(text) if len(text) < _LONG_CHARS else output_lines(text)


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
    """The lines of what a tool returned, without line numbers and without lines that only separate."""
    found: list[str] = []
    for raw in text.split("\n"):
        line = raw.strip()
        if line and line[0].isdigit():
            line = _LINE_NUMBER.sub("", line)
        if len(line) < 4 or not (line[0].isalnum() or line.strip("-=_*#~|+`./\\<>(){}[];:,! ")):
            continue
        if len(line) <= OUTPUT_CHARS:
            found.append(line)
        else:
            found += _split(line, OUTPUT_CHARS)
    return found


def _split(line: str, limit: int) -> list[str]:
    if len(line) <= limit:
        return [line]
    found: list[str] = []
    aim = limit * 2 // 3
    pending = ""
    for part in _SOFT_BREAK.split(line):
        piece = part
        if pending and len(pending) + len(piece) > aim:
            found.append(pending)
            pending = ""
        while len(piece) > limit:
            cut = piece.rfind(" ", aim // 2, limit)
            cut = cut if cut > 0 else limit
            found.append(piece[:cut])
            piece = piece[cut:].lstrip()
        pending = f"{pending} {piece}" if pending else piece
    if pending:
        found.append(pending)
    return found


def _bounded(text: str) -> str:
    if len(text) <= _MESSAGE_CHARS:
        return text
    half = _MESSAGE_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def flat(text: str) -> str:
    return " ".join(text.split())


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
