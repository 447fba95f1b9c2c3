"""The last test, lint or build command, and its verdict.

Verdicts of older runs are left out of a summary, because a newer run of the same command replaces them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from compact.messages import Message
from compact.reading.blocks import Block
from compact.reading.call_arguments import parse_arguments

_COMMAND: Final = re.compile(
    r"\b(?:go (?:test|build|vet)|pytest|py\.test|(?:npm|pnpm|yarn|bun) (?:run )?(?:test|check|build|lint)"
    r"|mise run (?:test\S*|lint|build|fmt|check)|make (?:test|check|lint|build)|cargo (?:test|build|check|clippy)"
    r"|golangci-lint|ruff|mypy|eslint|tox|unittest|bin/test|jest|vitest|tsc|mvn (?:test|verify)"
    r"|gradle\w* (?:test|build)|ctest|rspec)\b"
)
_FAILED: Final = re.compile(
    r"^\s*(?:FAIL\b|--- FAIL|E\s{3}|FAILED\b|panic:)|\b[1-9]\d* (?:failed|failures?|errors?|exceptions?)\b|task failed"
    r"|Tests? Failed|\berror TS\d+|npm ERR!|exit (?:code|status):? [1-9]|^make: \*\*\*|^\S+\.go:\d+:\d+: "
    r"|\b[1-9]\d* issues?\b|build failed",
    re.MULTILINE | re.IGNORECASE,
)
_PASSED: Final = re.compile(
    r"^\s*(?:ok\s+\S+|PASS\b)|\b[1-9]\d* passed\b|\b0 issues\b|\ball tests pass|tests? passed|\bpass(?:es|ing)?\b|^OK$"
    r"|Tests? Passed|succeeded|build successful",
    re.MULTILINE | re.IGNORECASE,
)
# What one package, test or file of a run says. The verdict of the whole run includes it.
_PART_PASSED: Final = re.compile(r"\W*(?:\[[\w:.-]+\] )?(?:--- PASS|PASS\b|=== RUN|0 issues\b|\d+ passed\b|OK$)")
_USER_RUN: Final = re.compile(r"^(?:Test Script|Command: )|tests finished:|>>>>> \w+ Tests \w+", re.MULTILINE)
_END_CHARS: Final = 4_000
_MAX_COMMAND_CHARS: Final = 110
_MAX_LINE_CHARS: Final = 140


class CheckResult(NamedTuple):
    """One run of a check, at the position of its result."""

    position: int
    line: str


def _runs(messages: Sequence[Message]) -> list[tuple[int, str | None]]:
    """Return the positions of results, with the arguments of their calls, and those of what the user wrote."""
    calls: dict[str, str] = {}
    runs: list[tuple[int, str | None]] = []
    for position, message in enumerate(messages):
        calls.update((call.id, call.arguments) for call in message.tool_calls)
        arguments = calls.get(message.answers[0]) if message.answers else None
        if arguments is not None or message.role == "user":
            runs.append((position, arguments))
    return runs


def last_check(messages: Sequence[Message]) -> CheckResult | None:
    """Return the last check whose output says how it ended."""
    # From the end, because searching for a command takes longer than everything else here.
    for position, arguments in reversed(_runs(messages)):
        text, command = messages[position].text, _checking_command(arguments or "")
        if command is None and (messages[position].role != "user" or not _USER_RUN.search(text[:_END_CHARS])):
            continue
        if verdict := _verdict(text[-_END_CHARS:]):
            return CheckResult(position, f"{_name(command or '')}: {verdict}")
    return None


class VerdictFilter:
    """Removes the lines of check outputs that say how an older run ended, or that a part of a run passed."""

    def __init__(self, blocks: Iterable[Block], visible: Iterable[Block]) -> None:
        self._newest: dict[str, float] = {}
        for block in blocks:
            if name := _check_name(block):
                self._newest[name] = block.position
        self._newest.update((name, math.inf) for name in map(_check_name, visible) if name)

    def filter_of(self, block: Block) -> Callable[[str], bool]:
        """Return the function that is true for the lines of a block that are no outdated verdicts."""
        if not (name := _check_name(block)):
            return lambda _: True
        is_old = block.position < self._newest[name]
        return lambda line: not (_PART_PASSED.match(line) or (is_old and _FAILED.search(line)))


def _check_name(block: Block) -> str:
    """Return the check that printed the lines of a block, or an empty text."""
    return _find_check(block.call_line) if block.kind == "output" and block.call_line else ""


@lru_cache(maxsize=4096)
def _find_check(call_line: str) -> str:
    match = _COMMAND.search(call_line)
    return match.group(0) if match else ""


def _checking_command(raw: str) -> str | None:
    """Return the command of a call, or None if it is no check."""
    if not _COMMAND.search(raw):
        return None
    arguments = parse_arguments(raw)
    return str(next((arguments[key] for key in ("command", "cmd") if key in arguments), ""))


def _name(command: str) -> str:
    line = " ".join(command.split()) if len(command) <= _MAX_COMMAND_CHARS else ""
    if line:
        return line
    match = _COMMAND.search(command)
    return match.group(0) if match else "test run"


def _verdict(output: str) -> str:
    failure = _FAILED.search(output)
    if failure is None:
        return "succeeded" if _PASSED.search(output) else ""
    start = output.rfind("\n", 0, failure.end()) + 1
    end = output.find("\n", failure.end())
    line = " ".join(output[start : end if end >= 0 else None].split())
    return f"failed: {line}" if len(line) <= _MAX_LINE_CHARS else "failed"
