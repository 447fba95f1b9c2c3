"""Blocks that state what is true at the end of a span: the requests, the files, the last check and the plan.

They replace the lines they are derived from, which describe how it came to be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from compact.messages import Message
from compact.reading.blocks import (
    Block,
    collapse_whitespace,
    describe_call,
    removed_lines,
)
from compact.reading.lines.line_classifier import (
    is_instruction,
    is_rule,
    is_user_decision,
    spoken_field,
    summary_field,
)
from compact.reading.state.file_ledger import LedgerFile, read_ledger
from compact.reading.state.requests import (
    first_request,
    is_answer,
    is_banner,
    is_bare_answer,
    is_filler,
    is_noise,
    request_positions,
    request_text,
    shorten_requests,
    spoken_text,
)
from compact.reading.state.todo_list import TodoList
from compact.reading.summary_blocks import EARLIER_POSITION, message_blocks
from compact.summarizers.extraction.records.record_state import RecordStates
from compact.summarizers.extraction.state.changed_values import changed_values
from compact.summarizers.extraction.state.check_results import CheckResult, VerdictFilter, last_check
from compact.summary.entries import FileTouched, OpenItem
from compact.summary.renderer import USER_PREFIX

_TOOL_TEXT: Final = ("output", "code")
_URL: Final = re.compile(r"https?://(?!localhost|127\.|0\.0\.0\.0)[^\s\"'<>`\\\])}]{4,120}")
_GREP_PREFIX: Final = re.compile(r"(?:\S*\.\w{1,6})?:?\d+:\s*")
_MAX_SOURCES: Final = 8
_MIN_RUN: Final = 2
_DONE: Final = "done: "  # before an item of an earlier to-do list
_CHANGE: Final = re.compile(
    r"(?P<verb>created|edited)(?: and edited)?(?: (?P<count>\d+)×)?(?:, (?P<detail>.*))?", re.DOTALL
)


def insert_session_state(
    messages: Sequence[Message],
    visible: Sequence[Message],
    blocks: Iterable[Block],
    todo: TodoList,
    *,
    style: str = "task_state",
    request_chars: int,
) -> Iterator[Block]:
    """Yield the blocks of the messages, with the state of the session instead of the lines it is derived from.

    `visible` messages stay in the prompt. They can make an older state obsolete. The blocks may start with those of an
    earlier summary. `request_chars` is the room for the first and the newest request.
    """
    all_messages = [*messages, *visible]
    blocks = list(blocks)
    earlier = [block.entry for block in blocks if isinstance(block.entry, FileTouched)]
    has_summary = any(block.entry is not None for block in blocks)
    yield from _file_blocks(all_messages, len(messages), earlier)
    check = last_check(all_messages)
    yield from _check_blocks(check, all_messages, len(messages))
    requests = dict(_request_blocks(messages, visible, has_summary=has_summary, max_chars=request_chars))
    yield from requests.values()
    yield from _value_blocks(all_messages, len(messages))
    replaced = {"files"}
    if todo.call_ids:
        replaced.add("current_plan")
    if check is not None:
        replaced.add("checks")
    todo_lines = _todo_lines(todo, messages)
    decisions = _user_decisions(blocks, requests, is_ledger=style == "decision_log")
    yield from _source_blocks(messages)
    records = RecordStates()
    removed = removed_lines(all_messages)
    visible_blocks = message_blocks(visible)
    verdicts = VerdictFilter(blocks, visible_blocks)
    for index, block in enumerate(blocks):
        if not _is_replaced(block, replaced, todo, todo_lines) and not records.add(block):
            yield from decisions.get(index, ())
            for part in _current_lines(block, requests, removed, verdicts):
                yield from _statements(part, messages)
    yield from _todo_blocks(todo, len(messages))
    for block in visible_blocks:
        records.remove_shown(block)
    yield from records.blocks(all_messages, visible)


def _todo_lines(todo: TodoList, messages: Sequence[Message]) -> set[str]:
    """Return the lines of the calls that wrote the to-do list."""
    calls = (call for message in messages for call in message.tool_calls if call.id in todo.call_ids)
    return {describe_call(call)[0] for call in calls}


def _todo_blocks(todo: TodoList, end: int) -> Iterator[Block]:
    """Yield the plan, and the items of earlier lists that a message before `end` completed."""
    if todo.plan is not None:
        yield todo.plan
    for note in todo.replaced:
        if note.order < end:
            yield Block((f"{_DONE}{note.text}",), "prose", note.sources, note.order, field="milestones")


def _is_replaced(block: Block, replaced: Collection[str], todo: TodoList, todo_lines: Collection[str]) -> bool:
    """True if newer messages replace a block."""
    if block.entry is None:
        return block.lines[0] in todo_lines or block.call_line in todo_lines
    if isinstance(block.entry, OpenItem):
        return block.entry.is_done([note.text for note in todo.done])
    return block.field in replaced


def _is_in_user_turn(block: Block) -> bool:
    """True if the lines are in the user's turn in one of the messages, not in an earlier summary."""
    return block.kind in ("user", "pasted") and block.entry is None


def _current_lines(
    block: Block, requests: Mapping[int, Block], removed: Mapping[str, int], verdicts: VerdictFilter
) -> Iterator[Block]:
    if _is_in_user_turn(block):
        yield from _with_lines(block, _lines_beyond_request(block, requests.get(block.position)))
    elif block.kind in _TOOL_TEXT:
        is_current = verdicts.filter_of(block)
        yield from _runs(block, lambda line: is_current(line) and not _is_removed(line, block, removed))
    else:
        yield block


def _with_lines(block: Block, lines: Sequence[str]) -> Iterator[Block]:
    """Yield a block with some of its lines, or nothing without lines."""
    if lines:
        yield block if len(lines) == len(block.lines) else block._replace(lines=lines)


def _file_blocks(messages: Sequence[Message], end: int, earlier: Sequence[FileTouched]) -> Iterator[Block]:
    """Yield one line per file that a message before `end` touched."""
    for file in read_ledger(messages, earlier=[_ledger_file(entry) for entry in earlier]):
        positions = [position for position in file.positions if position < end]
        if not positions:
            continue
        ids = (messages[position].id for position in positions if position >= 0)
        sources = tuple(dict.fromkeys(source for source in ids if source))
        entry = FileTouched(file.path, file.description, file.state, sources=sources)
        line = file.path if file.state == "read" else f"{file.path}: {file.description}"
        field = "files_read" if file.state == "read" else "files"
        yield Block((line,), "edit", sources, max(positions), entry=entry, field=field)


def _ledger_file(entry: FileTouched) -> LedgerFile:
    """Return the state that an earlier summary gives a file."""
    match = _CHANGE.fullmatch(entry.change)
    count = int(match.group("count") or 1) if match else 1
    if match and match.group("verb") == "created" and match.group("count"):
        count += 1
    detail = (match.group("detail") or "") if match else entry.change.removeprefix("renamed to ")
    is_read = entry.state == "read"
    return LedgerFile(
        entry.path,
        entry.state,
        entry.state,
        0 if is_read else count,
        "" if entry.state in ("read", "deleted") else detail,
        [-1],
    )


def _check_blocks(result: CheckResult | None, messages: Sequence[Message], end: int) -> Iterator[Block]:
    if result is not None and result.position < end:
        source = messages[result.position].id
        yield Block((result.line,), "command", (source,) if source else (), result.position, field="checks")


def _value_blocks(messages: Sequence[Message], end: int) -> Iterator[Block]:
    """Yield one line per name that an edit before `end` set to another value."""
    for value in changed_values(messages):
        if value.position < end:
            source = messages[value.position].id
            yield Block((value.line,), "edit", (source,) if source else (), value.position, field="changed_values")


def _user_decisions(
    blocks: Sequence[Block], requests: Mapping[int, Block], *, is_ledger: bool
) -> dict[int, list[Block]]:
    """Return the decisions of the user, by the index of the block that states them.

    A ledger also lists those that are part of a request.
    """
    users = _user_blocks(blocks)
    lines = {index: list(filter(_is_decision, block.lines)) for index, block in users.items()}
    if is_ledger and not any(lines.values()) and not any(map(_has_decision, blocks)):
        # It would be empty, so it lists what the user asked for.
        lines = {index: list(filter(_is_spoken, block.lines))[:1] for index, block in users.items()}
    return {
        index: [
            block._replace(lines=(f"{USER_PREFIX}{line}",), field="decisions")
            for line in lines[index]
            if is_ledger or not _is_requested(line, requests.get(block.position))
        ]
        for index, block in users.items()
    }


def _user_blocks(blocks: Iterable[Block]) -> dict[int, Block]:
    return {index: block for index, block in enumerate(blocks) if block.kind == "user" and block.entry is None}


def _is_decision(line: str) -> bool:
    return is_user_decision(line) and not is_bare_answer(line)


def _is_spoken(line: str) -> bool:
    return not is_filler(line) and not is_banner(line)


def _has_decision(block: Block) -> bool:
    if block.field:
        return block.field == "decisions"
    return block.kind == "prose" and any(summary_field(line, "prose") == "decisions" for line in block.lines)


def _source_blocks(messages: Sequence[Message]) -> Iterator[Block]:
    """Yield the web addresses that the user or the assistant mentioned or opened, the newest last."""
    sources: dict[str, Block] = {}
    for position, message in enumerate(messages):
        if message.role == "tool" or message.answers or message.is_summary:
            continue
        texts = (message.text, *(call.arguments for call in message.tool_calls))
        for url in (url for text in texts if "://" in text for url in _URL.findall(text)):
            ids = (message.id,) if message.id else ()
            name = url.rstrip(".,;:)")
            sources.setdefault(name, Block((name,), "prose", ids, position, field="sources"))
    yield from list(sources.values())[-_MAX_SOURCES:]


def _request_blocks(
    messages: Sequence[Message], visible: Sequence[Message], *, has_summary: bool, max_chars: int
) -> Iterator[tuple[int, Block]]:
    """Yield the first and the newest request, by position. Each of them has a place, even if it must be shortened."""
    first, goal = (-1, "") if has_summary else first_request(messages)
    fields: dict[int, str] = {}
    positions = [position for position in request_positions(messages) if not is_answer(messages[position].text)]
    if positions and not request_positions(visible) and request_text(messages[positions[-1]]) != goal:
        fields[positions[-1]] = "current_task"
    if goal:
        fields[first] = "goals"
    texts = shorten_requests([messages[position] for position in fields], max_chars)
    for (position, field), text in zip(fields.items(), texts, strict=True):
        source = messages[position].id
        yield position, Block((text,), "user", (source,) if source else (), position, field=field)


def _lines_beyond_request(block: Block, request: Block | None) -> Sequence[str]:
    """Return the user's lines that are not filler and that the request line does not repeat.

    A standing instruction is always a line of its own.
    """
    return [
        line
        for line in block.lines
        if not is_filler(line)
        and not is_noise(line)
        and not (_is_requested(line, request) and not is_instruction(line))
        and (not _is_decision(line) or is_rule(line))
    ]


def _statements(block: Block, messages: Sequence[Message]) -> Sequence[Block]:
    """Return a block. A short message is split by the fields of its lines, because what the user says has a value."""
    spoken = spoken_text(messages[block.position]) if block.kind == "user" and block.entry is None else ""
    if not spoken:
        return (block,)
    fields = groupby(block.lines, lambda line: spoken_field(line) if line in spoken else "")
    return [block._replace(lines=tuple(lines), field=field) for field, lines in fields]


def _is_requested(line: str, request: Block | None) -> bool:
    """True if the line of a request repeats this one, or the other way round."""
    if request is None:
        return False
    text, collapsed = request.lines[0], collapse_whitespace(line)
    return collapsed in text or text in collapsed


def _file_line(line: str) -> str:
    """Return a line of output without the file and the line number that `grep` puts before it."""
    match = _GREP_PREFIX.match(line) if ":" in line else None
    return line[match.end() :] if match else line


def _is_removed(line: str, block: Block, removed: Mapping[str, int]) -> bool:
    """True if a later edit removed a line of tool text."""
    return bool(removed) and removed.get(_file_line(line), EARLIER_POSITION - 1) >= block.position


def _runs(block: Block, is_current: Callable[[str], bool]) -> Iterator[Block]:
    """Yield the parts of a block between the lines that are no longer true. A line that is left alone goes, too."""
    start = 0
    for is_kept, group in groupby(block.lines, is_current):
        lines = tuple(group)
        if is_kept and len(lines) >= min(_MIN_RUN, len(block.lines)):
            yield block._replace(lines=lines, start=block.start + start)
        start += len(lines)
