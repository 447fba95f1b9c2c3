"""Tell apart the runs of a repeated call, so that the output of each stands under its own call.

The first run is the line of the call itself, and the next ones are `Bash(git status) – run 2` and so on. The parts of a
file that an agent reads one after the other stay under one line, because they are lines of the same file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from compact.reading.blocks import FAILED_MARK, Block
from compact.reading.state.file_ledger import is_read_tool

_CALL_KINDS: Final = ("call", "command")
_RUN: Final = re.compile(r" – run (\d+)(?= → |$)")


def number_repeated_calls(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks with the number of its run in each repeated call and in the call lines of its output."""
    runs: dict[str, int] = {}
    for block in blocks:
        if block.call_line:
            line = _number_line(block.call_line, runs)
            yield block if line is block.call_line else block._replace(call_line=line)
        elif block.kind not in _CALL_KINDS or (block.field and block.entry is None):
            yield block
        else:
            yield _count_run(block, runs)


def _count_run(block: Block, runs: dict[str, int]) -> Block:
    line = block.lines[0]
    call, run = split_run(line)
    if block.entry is not None or is_read_tool(call.partition("(")[0]):
        runs[call] = max(run, runs.get(call, 1))
        return block
    runs[call] = runs.get(call, 0) + 1
    return block._replace(lines=(_number_line(line, runs),)) if runs[call] > 1 else block


def _number_line(line: str, runs: dict[str, int]) -> str:
    """Return the line of a call with the number of its newest run, unless it has a number already."""
    run = 1 if _RUN.search(line) else runs.get(split_run(line)[0], 1)
    return run_line(line, run) if run > 1 else line


def split_run(line: str) -> tuple[str, int]:
    """Return a call without the number of its run and without its failure, and the number."""
    match = _RUN.search(line)
    call = (line[: match.start()] + line[match.end() :] if match else line).removesuffix(FAILED_MARK)
    return call, int(match.group(1)) if match else 1


def run_line(line: str, run: int) -> str:
    """Return the line of a run of a call, which may have failed."""
    call = line.removesuffix(FAILED_MARK)
    number = f" – run {run}" if run > 1 else ""
    return f"{call}{number}{line[len(call) :]}"
