"""Find the names in the arguments of calls, which the next call of the same tool is likely to use again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Final

from compact.messages import Message, ToolCall
from compact.reading.blocks import Block
from compact.reading.state.file_ledger import read_arguments

_MAX_NAME_CHARS: Final = 30
_MAX_DEPTH: Final = 4
_CALL_KINDS: Final = ("call", "command", "edit")


def argument_blocks(
    messages: Sequence[Message], blocks: Iterable[Block] = (), *, replaced_lines: Container[str] = ()
) -> Iterator[Block]:
    """Yield the names in the arguments of calls that the lines of the calls do not show."""
    shown: defaultdict[int, str] = defaultdict(str)
    for block in blocks:
        if block.kind in _CALL_KINDS and block.lines[0] not in replaced_lines:
            shown[block.position] += f"{block.lines[0]}\n"
    for position, message in enumerate(messages):
        names = [name for call in message.tool_calls for name in argument_names(call) if name not in shown[position]]
        if names:
            yield Block((", ".join(names),), "arguments", (message.id,) if message.id else (), position)


def argument_names(call: ToolCall) -> tuple[str, ...]:
    """Return the names of a call's arguments and of the fields in them, and the values that are names."""
    return tuple(dict.fromkeys(_names_in(read_arguments(call.arguments), _MAX_DEPTH)))


def _names_in(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield from map(str, value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value if depth else ():
            yield from _names_in(item, depth - 1)
    elif isinstance(value, str) and len(value) <= _MAX_NAME_CHARS and value.isidentifier():
        yield value
