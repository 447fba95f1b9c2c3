"""Split messages into blocks of verbatim lines and label each block with its kind.

Lines are only clipped, so that every line of a summary can be found in its source message. The exceptions are listings,
which become lines of names, and imported packages, which are shown as statements of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from compact.messages import Message, ToolCall
from compact.reading.call_arguments import PATH_KEYS, named_path, parse_arguments, read_arguments
from compact.reading.lines.markup import plain_lines
from compact.reading.lines.pasted_text import split_pasted
from compact.reading.lines.record_lines import Record, read_result, record_lines
from compact.reading.state.file_ledger import (
    change_detail,
    changed_texts,
    failed_calls,
)
from compact.reading.state.requests import without_command_tags, without_wrappers
from compact.reading.text_cache import TextCache

if TYPE_CHECKING:
    from compact.summary.entries import Entry

MAX_OUTPUT_CHARS: Final = 200  # Tool output and code carry less information per character.
MAX_SENTENCE_CHARS: Final = 320  # Longer sentences are split at commas, because a long line brings irrelevant text.
FAILED_MARK: Final = " → failed"  # at the end of a call that failed or that the user rejected
_MAX_ROW_CHARS: Final = 400
_MAX_ARGUMENT_CHARS: Final = 200
_MAX_ARGUMENT_PREVIEW_CHARS: Final = 80
_MAX_UNSPLIT_CHARS: Final = 120
_SHORT_TEXT_CHARS: Final = 2_000
_MAX_MESSAGE_CHARS: Final = 400_000  # Only both ends of a longer message are read.

# Not after the number of a list item, and not after short titles such as Dr. or St., because half an instruction is
# worse than a long line.
_SENTENCE_END: Final = re.compile(
    r"(?<=[.!?])(?<!^\d\.)(?<!^\d\d\.)(?<!\b[A-Z][a-z]\.)(?<!\b[A-Z]\.)(?<!Mrs\.)"
    r"\s+(?=[A-Z\"'`(\[*-])|(?<=[。！？])"
)
_HAS_SENTENCE_END: Final = re.compile(r"[.!?]\s|[。！？]")  # a cheap necessary condition for _SENTENCE_END
_BULLET: Final = re.compile(r"^[-*•]\s+(?=\S)")
_SOFT_BREAK: Final = re.compile(r"(?<=[,;}\]|])\s+|(?<=[,;])(?=[\"{\[])")
# Also the number that `grep` puts before the lines around a match.
_LINE_NUMBER: Final = re.compile(r"^\s*\d+(?:→|\t|\| ?|[│█]|-(?=\s|\W*$))")
_OUTLINE_MARK: Final = "│"  # before the lines of a file, in maps of a repository
_FILE_LABEL: Final = re.compile(r"[\w./@+-]+\.\w{1,6}:(?: |$)")
_PAIR: Final = re.compile(r"\*{0,2}[A-Za-z][\w /()-]{1,30}?\*{0,2}:\*{0,2} \S")
_MAX_PAIR_CHARS: Final = 80
# A label says what the list below it is about, and nothing by itself.
_LABEL: Final = re.compile(r"(?!#)[^:]+(?::\*{0,2}|\*\*:)|(?:\d{1,2}[.)] )?\*\*[^*]+\*\*")
_BARE_ITEM: Final = re.compile(r"(\d{1,2})[.)] [^\s*]+(?: [^\s*]+)?")
_MAX_BARE_ITEM_CHARS: Final = 40
_LABELED: Final = re.compile(r"\*{0,2}[^:*]+(?::\*{0,2}|\*\*:) (?:\d{1,2}[.)] |[^:]{1,40}: )")
_MAX_LABEL_CHARS: Final = 60
_ITEM: Final = re.compile(r"(?:[-*•]|\d{1,2}[.)])\s+\S")
_TAG: Final = re.compile(r"</?[A-Za-z][\w:-]*/?>")
_CONTROL_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_FENCE: Final = "```"
_COMMIT_TEXT: Final = re.compile(r"\bgit commit\b.*<<-?\s?['\"]?\w+['\"]?$")
_COMMAND_KEYS: Final = ("command", "cmd", "script", "action", "code", "query", "sql")
_RANGE_KEYS: Final = frozenset({"offset", "limit", "view_range", "start_line", "end_line"})
_EDIT_TOOL: Final = re.compile(r"edit|write|create|patch|replace|insert|delete|remove|rename|move|apply", re.IGNORECASE)


LineKind = Literal["user", "pasted", "prose", "code", "call", "command", "edit", "output", "record", "arguments"]


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
    start: int = 0  # for output and code: the number of lines before these in the whole text
    records: Sequence[Record] = ()  # for records: what the lines were rendered from
    values: Sequence[float] = ()  # for records: what each line is worth, in parts of the reuse score of the id
    parent: str = ""  # for a record: the kind and id of the record around it


def read_blocks(messages: Sequence[Message]) -> Iterator[Block]:
    """Yield the lines of the messages in order."""
    calls = _Calls(messages)
    for position, message in enumerate(messages):
        sources = (message.id,) if message.id else ()
        if message.role == "tool" or message.answers:
            yield from calls.result_blocks(message, sources, position)
            continue
        read_text = _user_blocks if message.role == "user" else _assistant_blocks
        for lines, kind in read_text(_truncate(message.text)):
            yield Block(lines, kind, sources, position)
        for call in message.tool_calls:
            yield from calls.call_blocks(call, sources, position)


def _user_blocks(text: str) -> Iterator[tuple[Sequence[str], LineKind]]:
    for part, is_pasted in split_pasted(without_command_tags(text)):
        for lines, is_code in _prose_blocks[part]:
            yield lines, "pasted" if is_pasted or is_code else "user"


def _assistant_blocks(text: str) -> Iterator[tuple[Sequence[str], LineKind]]:
    for lines, is_code in _prose_blocks[text]:
        yield lines, "code" if is_code else "prose"


class _Calls:
    """Reads calls and their results. A result belongs to the line of its call."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._failed = failed_calls(messages)
        self._lines: dict[str, str] = {}
        self._arguments: dict[str, str] = {}

    def call_blocks(self, call: ToolCall, sources: tuple[str, ...], position: int) -> Iterator[Block]:
        line, kind, rest = describe_call(call)
        if call.id in self._failed:
            path, edit, _ = line.partition(": ") if kind == "edit" else ("", "", "")
            # A failed edit does not look like a change of the file.
            line, kind, rest = f"{f'{call.name} of {path}' if edit else line}{FAILED_MARK}", "call", []
        self._lines[call.id] = line
        self._arguments[call.id] = call.arguments
        yield Block((line,), kind, sources, position)
        if rest:
            yield Block(rest, "code", sources, position, line)

    def result_blocks(self, message: Message, sources: tuple[str, ...], position: int) -> Iterator[Block]:
        call_id = message.answers[0] if message.answers else ""
        text = _without_control_sequences(_truncate(message.text))
        if "<system-reminder>" in text:
            text = without_wrappers(text)
        result = read_result(text, parse_arguments(self._arguments.get(call_id, "")))
        call_line = self._lines.get(call_id, message.name or "")
        if records := tuple(record for record in result.records if record.label):
            lines = _cached_record_lines(records)
            yield Block(lines, "record", sources, position, size=len(text), records=records)
        if unnamed := tuple(record for record in result.records if not record.label):
            # Values without an id are only clear next to their call.
            lines = _cached_record_lines(unnamed)
            yield Block(lines, "record", sources, position, call_line, field="outputs", size=len(text))
        if lines := _output_lines[result.rest]:
            yield Block(lines, "output", sources, position, call_line, size=len(text))


def describe_call(call: ToolCall) -> tuple[str, LineKind, list[str]]:
    """Return one line for a tool call, its kind, and the lines of arguments that are too long for it."""
    is_short = isinstance(call.arguments, str) and len(call.arguments) <= _SHORT_TEXT_CHARS
    return (_describe_short_call if is_short else _describe_call)(call.name, call.arguments)


def _describe_call(name: str, raw: Any) -> tuple[str, LineKind, list[str]]:
    arguments = read_arguments(raw)
    if not isinstance(arguments, dict):
        text = collapse_whitespace(str(raw or ""))
        return f"{name}({clip(text, _MAX_ARGUMENT_CHARS)})", "call", []
    path = named_path(arguments) if _EDIT_TOOL.search(name) else ""
    if path and any(changed_texts(arguments)):
        return f"{path}: {name}({change_detail(arguments)})", "edit", _added_lines(arguments)
    shown, rest = _call_arguments(arguments)
    if (key := next((key for key in _COMMAND_KEYS if key in arguments), None)) is not None:
        return _command_line(name, key, shown), "command", rest
    if path:
        change = _join_arguments({key: value for key, value in shown.items() if value != path})
        return f"{path}: {name}({change})", "edit", rest
    return f"{name}({_join_arguments(shown)})", "call", rest


_describe_short_call = lru_cache(maxsize=4096)(_describe_call)


def _argument_lines(arguments: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return the text of each argument for the call line, and the lines of those that are too long for it."""
    shown: dict[str, str] = {}
    rest: list[str] = []
    for key, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
        stripped = text.strip()
        if len(stripped) <= _MAX_ARGUMENT_CHARS and "\n" not in stripped:
            shown[key] = stripped
            continue
        lines = output_lines(_truncate(stripped))
        preview = clip(lines[0] if lines else "", _MAX_ARGUMENT_PREVIEW_CHARS)
        if len(lines) > 1 and _COMMIT_TEXT.search(lines[0]):
            preview = f"{preview} {clip(lines[1], _MAX_ARGUMENT_PREVIEW_CHARS)}"
        shown[key] = f"{preview} …" if len(lines) > 1 and not preview.endswith("…") else preview
        rest += lines
    return shown, rest


def _call_arguments(arguments: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return the arguments to show with a call, and lines of the long ones."""
    shown, rest = _argument_lines(arguments)
    if not shown.keys().isdisjoint(PATH_KEYS):
        # The parts of a file that an agent reads one after the other are lines of the same call.
        shown = {key: value for key, value in shown.items() if key not in _RANGE_KEYS}
    return shown, rest


def _command_line(tool: str, command_key: str, shown: dict[str, str]) -> str:
    """Return `Bash(git push) Push the fix`, without argument names that every such call repeats."""
    others = {key: value for key, value in shown.items() if key not in (command_key, "description")}
    command = ", ".join([shown[command_key], *([_join_arguments(others)] if others else [])])
    return f"{tool}({command}) {shown.get('description', '')}".rstrip()


def _join_arguments(shown: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def _added_lines(arguments: dict[str, Any]) -> list[str]:
    """Return the lines that an edit adds. The lines it removes are no longer true."""
    old, new = changed_texts(arguments)
    removed = set(_output_lines[_truncate(old)])
    return [line for line in _output_lines[_truncate(new)] if line not in removed]


def removed_lines(messages: Sequence[Message]) -> dict[str, int]:
    """Return the lines that edits removed, with the position of the last edit that removed each."""
    failed = failed_calls(messages)
    positions: dict[str, int] = {}
    for position, message in enumerate(messages):
        for call in message.tool_calls:
            if call.id in failed or "old" not in call.arguments:
                continue
            old, new = changed_texts(parse_arguments(call.arguments))
            kept = set(_output_lines[_truncate(new)])
            positions.update((line, position) for line in _output_lines[_truncate(old)] if line not in kept)
    return positions


def prose_blocks(text: str) -> list[tuple[list[str], bool]]:
    """Split a text into sentences and bullets, grouped by code fence. Each group has a flag that is True for code."""
    lines: list[str] = []
    is_code = False
    blocks = [(lines, is_code)]
    for raw in plain_lines(text):
        line = raw.strip()
        if line and line[0].isdigit():
            line = _LINE_NUMBER.sub("", line)
        if line.startswith(_FENCE):
            lines, is_code = [], not is_code
            blocks.append((lines, is_code))
        elif not _says_something(line):
            continue
        elif is_code:
            lines += _split_line(_BULLET.sub("", line), MAX_OUTPUT_CHARS)
        else:
            _add_prose(lines, line)
    return [(lines if is_code else _join_pairs(lines), is_code) for lines, is_code in blocks if lines]


def _says_something(line: str) -> bool:
    """False for rules, empty bullets and lone tags."""
    if len(line) < 3 or not (line[0].isalnum() or line.strip("-=_*#~|+`.⋮│ ")):
        return False
    return line[0] != "<" or _TAG.fullmatch(line) is None


def _add_prose(lines: list[str], line: str) -> None:
    """Add the sentences of a line. The first item of a list stands with the label of the list."""
    if line.startswith(_OUTLINE_MARK):
        _add_outline(lines, line.strip(f"{_OUTLINE_MARK} "))
        return
    text = _BULLET.sub("", line)
    if lines and _ITEM.match(line) is not None:
        if _is_label_of(lines[-1], text):
            lines[-1] += f" {text}"
            return
        if _continues_list(lines[-1], text):
            lines[-1] += f" {text}" if lines[-1][-1] in ":*" else f"; {text}"
            return
    if len(text) <= _MAX_UNSPLIT_CHARS:
        lines.append(text)
    else:
        lines += _split_sentences(text, MAX_SENTENCE_CHARS)


def _split_sentences(text: str, max_chars: int) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(text) if _HAS_SENTENCE_END.search(text) else (text,):
        yield from _split_line(sentence, max_chars)


def _is_label_of(last: str, text: str) -> bool:
    """True if a line is the label of a list whose first item is the text."""
    if len(last) > _MAX_LABEL_CHARS or last[-1] not in ":*" or _LABEL.fullmatch(last) is None:
        return False
    return len(last) + len(text) < MAX_SENTENCE_CHARS


def _continues_list(last: str, text: str) -> bool:
    """True if an item such as `2. HAT083`, which says nothing by itself, follows its label or the item before it."""
    item = _BARE_ITEM.fullmatch(text) if len(text) <= _MAX_BARE_ITEM_CHARS else None
    if item is None or len(last) + len(text) > MAX_SENTENCE_CHARS:
        return False
    number = int(item.group(1))
    return last.rstrip("*").endswith(":") if number == 1 else re.search(rf"\b{number - 1}[.)] [^;]+$", last) is not None


def _add_outline(lines: list[str], text: str) -> None:
    """Add a line of a file to the line of its file, as long as there is room."""
    if not lines or len(text) < 3:
        return
    last = lines[-1]
    if not _FILE_LABEL.match(last) or len(last) + len(text) > MAX_SENTENCE_CHARS:
        lines.append(text)
    else:
        lines[-1] = f"{last} {text}" if last.endswith(":") and " " not in last else f"{last}; {text}"


def _join_pairs(lines: list[str]) -> list[str]:
    """Join consecutive `Key: value` lines, which describe one thing and mean little apart."""
    joined: list[str] = []
    was_pair = False
    for line in lines:
        is_pair = len(line) <= _MAX_PAIR_CHARS and _PAIR.match(line) is not None
        if (
            is_pair
            and was_pair
            and len(joined[-1]) + len(line) <= MAX_SENTENCE_CHARS
            and not _starts_new(joined[-1], line)
        ):
            joined[-1] = f"{joined[-1]}; {line}"
        else:
            joined.append(line)
        was_pair = is_pair
    return joined


def _starts_new(pending: str, line: str) -> bool:
    """True if a line has the label of a list, or a key that already occurs, so that it describes the next thing."""
    if _LABELED.match(line):
        return True
    key = line.partition(":")[0]
    return pending.startswith(f"{key}:") or f"; {key}:" in pending


@lru_cache(maxsize=4096)
def _cached_record_lines(records: tuple[Record, ...]) -> Sequence[str]:
    return [line for record in records for line in record_lines(record)]


def output_lines(text: str) -> list[str]:
    """Return the lines of a tool output as they are, but without line numbers and blank lines. Long lines are split."""
    lines: list[str] = []
    for raw in text.split("\n"):
        line = _LINE_NUMBER.sub("", raw) if raw.lstrip()[:1].isdigit() else raw
        line = line.rstrip()
        if not line or line.isspace():
            continue
        if len(line) <= _MAX_ROW_CHARS:
            lines.append(line)
        else:
            lines += _split_sentences(line.strip(), MAX_OUTPUT_CHARS)
    return lines


# A million tokens of text fit into these two, which take about 20 MB.
_prose_blocks: Final[TextCache[Sequence[tuple[Sequence[str], bool]]]] = TextCache(prose_blocks, max_chars=4_000_000)
_output_lines: Final[TextCache[Sequence[str]]] = TextCache(output_lines, max_chars=4_000_000)


def _split_line(line: str, limit: int) -> list[str]:
    """Split a line into pieces of at most `limit` characters, preferably after commas and closing brackets."""
    if len(line) <= limit:
        return [line] if line else []  # The split after the last `。` of a line leaves an empty sentence.
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


def _without_control_sequences(text: str) -> str:
    """Remove the sequences with which programs color a terminal and move its cursor."""
    return _CONTROL_SEQUENCE.sub("", text) if "\x1b" in text else text


def collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
