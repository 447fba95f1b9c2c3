"""The state of every file that an agent touched: created, changed, deleted, renamed or only read.

The ledger reads tool calls and shell commands. A call that failed or that the user rejected changes nothing.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any, Final, Literal, NamedTuple

from compact.messages import Message, ToolCall
from compact.reading.call_arguments import named_path, parse_arguments
from compact.reading.text_cache import TextCache

FileState = Literal["created", "changed", "deleted", "renamed", "read"]

_OLD_KEYS: Final = ("old_string", "oldText", "old_str")
_NEW_KEYS: Final = ("new_string", "newText", "new_str", "content", "file_text", "text")
_COMMAND_KEYS: Final = ("command", "cmd", "script", "input")
_READ_TOOL: Final = re.compile(r"(?:read|view|open|cat)(?:_?file)?(?:_?range)?", re.IGNORECASE)
_CREATE_TOOL: Final = re.compile(r"(?:write|create|save)(?:_?(?:to_?)?file)?", re.IGNORECASE)
_EDIT_TOOL: Final = re.compile(r"edit|write|create|replace|insert|save|str_replace|append", re.IGNORECASE)
# Tools that edit the open file if they name none. `TodoWrite` is not one of them.
_OPEN_FILE_TOOL: Final = re.compile(r"(?:multi_?)?edit(?:_?file)?|(?:str_)?replace|insert|append", re.IGNORECASE)
_DELETE_TOOL: Final = re.compile(r"(?:delete|remove)_?file", re.IGNORECASE)
_PATCH_TOOL: Final = re.compile(r"patch|diff", re.IGNORECASE)
_SHELL_TOOL: Final = re.compile(
    r"(?:execute_)?(?:bash|shell|terminal|sh)|exec(?:_command)?|run(?:_command)?", re.IGNORECASE
)
_FAILURE: Final = re.compile(
    r"\W*(?:text)?\W*(?:<tool_use_error>|the user doesn't want to proceed|error\b|\[?no result recorded"
    r"|string to replace not found|could not find|no replacement was performed|\[request interrupted|permission denied"
    r"|file has not been read|no such file|your proposed edit has introduced)",
    re.IGNORECASE,
)
_PATCH_FILE: Final = re.compile(r"^\*{2,3} ?(Update|Add|Delete) File: `?([^\s`]+)`?", re.MULTILINE)
_DIFF_FILE: Final = re.compile(r"^(---|\+\+\+) (?:[ab]/)?(\S+)", re.MULTILINE)
_FILE_NAME: Final = re.compile(r"[~\w@./+-]*[\w+-]\.[A-Za-z]\w{0,9}|(?:.*/)?(?:Makefile|Dockerfile|LICENSE)")
_REDIRECTION: Final = re.compile(r"(?<![-=<0-9&|])>{1,2}\s*([\"']?)([^\s\"'|;&<>()]+)\1")
_HERE_DOCUMENT: Final = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_COMMAND_SEPARATOR: Final = re.compile(r"&&|\|\||;|\n|(?<!\|)\|(?!\|)")
_SCRATCH: Final = re.compile(r"(?:/private)?/(?:tmp|var|dev)/|\$|[*{}]")
_SCRATCH_DIRECTORY: Final = re.compile(r"\s*cd (?:(?:/private)?/(?:tmp|var)\b|\"?\$\(mktemp)")
_APPLIED: Final = re.compile(r"^Applied edit to (\S+)", re.MULTILINE)
_RESULT_FILE: Final = re.compile(
    r"The file (\S+) has been (?:updated|edited)|File created successfully at: (\S+)|^[MAD] (\S+\.\w+)$", re.MULTILINE
)
_LINE_EDIT: Final = re.compile(r"\s*edit \d+:\d+")
_SYMBOL: Final = re.compile(
    r"^\s*(?:(?:export|pub|public|private|protected|static|async|default|abstract)\s+)*"
    r"(?:def|class|func(?: \([^)\n]*\))?|function|fn|type|struct|interface|enum|trait|impl|module)\s+[A-Za-z_]\w+"
)
_MAX_DETAIL_CHARS: Final = 90
_JOINTS: Final = " \t,;{}"
_EXPRESSION: Final = re.compile(r"[^\W\d_]\w+\W+\w|[^\W\d_]\w{5}")  # more than `else` or `break`
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSING: Final = frozenset(_BRACKETS.values())
_MAX_COMMAND_CHARS: Final = 20_000
_STATE_BY_PROGRAM: Final[dict[str, FileState]] = {
    "rm": "deleted",
    **dict.fromkeys(("cp", "touch", "tee", "create"), "created"),
    **dict.fromkeys(("cat", "head", "tail", "less", "sed", "nl", "open", "bat", "more"), "read"),
}
_MOVE_STATES: Final[tuple[FileState, FileState]] = ("renamed", "created")
_IN_PLACE_EDITORS: Final = ("sed", "perl")
_IN_PLACE: Final = re.compile(r" -p?i")
_STATES_OF_ALL: Final = ("read", "deleted")  # of all files that a command names
_QUOTES: Final = frozenset("'\"\\")
_PREFIXES: Final = frozenset({"sudo", "env", "time"})


class FileAction(NamedTuple):
    """One change or read of a file."""

    position: int
    state: FileState
    path: str
    detail: str = ""


@dataclass(slots=True)
class LedgerFile:
    """The state of a file after all actions so far."""

    path: str
    state: FileState
    first: FileState
    changes: int = 0
    detail: str = ""
    positions: list[int] = field(default_factory=list)

    def sources(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """Return the ids of the messages with the actions on this file."""
        ids = (messages[position].id for position in self.positions)
        return tuple(dict.fromkeys(source for source in ids if source))

    @property
    def description(self) -> str:
        """The state in words, with the symbol or the line that changed."""
        if self.state in ("deleted", "renamed", "read"):
            return f"renamed to {self.detail}" if self.state == "renamed" and self.detail else self.state
        verb = "created" if self.state == "created" else "edited"
        if self.state == "created" and self.changes > 1:
            verb = f"created and edited {self.changes - 1}×"
        elif self.changes > 1:
            verb = f"edited {self.changes}×"
        return f"{verb}, {self.detail}" if self.detail else verb


def failed_calls(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls whose result says that they failed or were rejected."""
    return {
        call_id
        for message in messages
        if message.role == "tool" or message.answers
        for call_id in message.answers[:1]
        if _FAILURE.match(message.text[:200])
    }


def read_ledger(messages: Sequence[Message], *, earlier: Sequence[LedgerFile] = ()) -> list[LedgerFile]:
    """Return every file that the messages touch, in order of first touch, starting from an earlier ledger.

    Scratch files, and files that were created and deleted again, are left out.
    """
    files: dict[str, LedgerFile] = {file.path: file for file in earlier}
    spellings = _Spellings(files)
    for action in file_actions(messages):
        path = action.path.strip("`'\"").removeprefix("./")
        if not path or _SCRATCH.match(path):
            continue
        _apply(files, spellings.known_path(path), action)
    return [file for file in files.values() if not (file.state == "deleted" and file.first == "created")]


def _apply(files: dict[str, LedgerFile], path: str, action: FileAction) -> None:
    file = files.get(path)
    if file is None:
        file = files[path] = LedgerFile(path, action.state, action.state)
    elif action.state != "read":
        # A file that was read before it was written existed already.
        is_new = action.state == "created" and file.state == "deleted"
        file.state = (
            action.state
            if action.state in ("deleted", "renamed") or is_new
            else "created"
            if file.first == "created"
            else "changed"
        )
    if action.state != "read":
        file.changes += 1
        file.detail = action.detail or file.detail
    if action.state != "read" or file.state == "read":
        file.positions.append(action.position)


class _Spellings:
    """The spellings under which files are known. A relative and an absolute path are one file."""

    def __init__(self, files: dict[str, LedgerFile]) -> None:
        self._files = files
        self._numbers: dict[str, int] = {}
        """The order of the known paths."""
        self._by_ending: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """The known paths that end with a slash and this path, in order."""
        self._last_number = 0
        for path in files:
            self._add(path)

    def known_path(self, path: str) -> str:
        """Return the spelling under which a file is known from now on. The longest one wins."""
        if path in self._files:
            return path
        endings = [ending for ending in _endings(path) if ending in self._numbers]
        # The file that was known first, if several fit.
        known = min((*endings, *islice(self._by_ending.get(path, ()), 1)), key=self._numbers.__getitem__, default=None)
        if known is None:
            self._add(path)
            return path
        if len(path) < len(known):
            return known
        file = self._files[path] = self._files.pop(known)
        file.path = path
        self._remove(known)
        self._add(path)
        return path

    def _add(self, path: str) -> None:
        self._last_number += 1
        self._numbers[path] = self._last_number
        for ending in _endings(path):
            self._by_ending[ending][path] = None

    def _remove(self, path: str) -> None:
        del self._numbers[path]
        for ending in _endings(path):
            del self._by_ending[ending][path]


def _endings(path: str) -> Iterator[str]:
    """Yield what follows each slash of a path."""
    start = path.find("/") + 1
    while start:
        yield path[start:]
        start = path.find("/", start) + 1


def file_actions(messages: Sequence[Message]) -> Iterator[FileAction]:
    """Yield what each call does to files, in order."""
    reader = _ActionReader(messages)
    for position, message in enumerate(messages):
        if message.role == "user" and not message.answers:
            for path in _APPLIED.findall(message.text) if "Applied edit" in message.text else ():
                yield FileAction(position, "changed", path)
        for call in message.tool_calls:
            yield from reader.actions(position, call)


class _ActionReader:
    """Reads the actions of calls. Remembers the open file of editors that edit by line number."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._failed = failed_calls(messages)
        self._results = {message.answers[0]: message.text for message in messages if message.answers}
        self._open_file = ""

    def actions(self, position: int, call: ToolCall) -> Iterator[FileAction]:
        if call.id in self._failed:
            return
        arguments = parse_arguments(call.arguments)
        for state, path, detail in self._changes(call, arguments):
            if state != "deleted":
                self._open_file = path
            yield FileAction(position, state, path, detail)

    def _changes(self, call: ToolCall, arguments: dict[str, Any]) -> Iterator[tuple[FileState, str, str]]:
        path = named_path(arguments)
        command = next((str(arguments[key]) for key in _COMMAND_KEYS if arguments.get(key)), "")
        if path and (state := _tool_state(call.name, command)):
            detail = "" if state in ("read", "deleted") else change_detail(arguments)
            yield state, path, f"`{detail}`" if detail else ""
        elif _PATCH_TOOL.search(call.name):
            yield from _patched_files(command or next((str(value) for value in arguments.values()), ""))
        elif _SHELL_TOOL.fullmatch(call.name):
            yield from self._shell_changes(command)
        elif not path:
            yield from self._input_changes(call, command)

    def _input_changes(self, call: ToolCall, command: str) -> Iterator[tuple[FileState, str, str]]:
        """Yield the changes of tools that take free text instead of a path."""
        if _READ_TOOL.fullmatch(call.name):
            path = command.strip("` \n").split("`")[0]
            if _FILE_NAME.fullmatch(path):
                yield "read", path, ""
        elif _EDIT_TOOL.search(call.name):
            matches = _RESULT_FILE.findall(f"{command}\n{self._result(call)}")
            paths = [next(filter(None, match)) for match in matches]
            if not paths and self._open_file and _OPEN_FILE_TOOL.fullmatch(call.name):
                paths = [self._open_file]
            for path in paths:
                yield "changed", path, ""

    def _result(self, call: ToolCall) -> str:
        return self._results.get(call.id, "")[:2_000]

    def _shell_changes(self, command: str) -> Iterator[tuple[FileState, str, str]]:
        if _LINE_EDIT.match(command):
            if self._open_file:
                yield "changed", self._open_file, ""
            return
        for state, path in shell_changes(command):
            yield state, path, ""


def _tool_state(tool: str, command: str) -> FileState | None:
    """Return the state in which a tool leaves the file that it names, or None if it does nothing to files."""
    if _DELETE_TOOL.fullmatch(tool):
        return "deleted"
    if _READ_TOOL.fullmatch(tool) or command == "view":
        return "read"
    if not _EDIT_TOOL.search(tool):
        return None
    creates = command == "create" or (not command and _CREATE_TOOL.fullmatch(tool) is not None)
    return "created" if creates else "changed"


def is_read_tool(name: str) -> bool:
    """True for a tool that returns lines of a file."""
    return _READ_TOOL.fullmatch(name) is not None


def changed_texts(arguments: dict[str, Any]) -> tuple[str, str]:
    """Return the old and the new text of an edit."""
    old = next((arguments[key] for key in _OLD_KEYS if isinstance(arguments.get(key), str)), "")
    new = next((arguments[key] for key in _NEW_KEYS if isinstance(arguments.get(key), str)), "")
    return old, new


def change_detail(arguments: dict[str, Any]) -> str:
    """Return the symbol that an edit touches, or else the first line that it adds."""
    old, new = changed_texts(arguments)
    before = set(old.split("\n"))
    added = [line for line in new.split("\n") if line.strip() and line not in before]
    for line in (*added, *old.split("\n")):
        if match := _SYMBOL.search(line):
            return match.group(0).strip()
    # A new file has no first difference.
    return next((detail for detail in map(_detail, added) if detail), "") if old else ""


def _detail(line: str) -> str:
    """Return a line of code without what joins it to the lines around it, or an empty text if it says nothing."""
    text = " ".join(line.strip(_JOINTS).split())
    says_something = len(text) <= _MAX_DETAIL_CHARS and "`" not in text and _EXPRESSION.search(text) is not None
    return text if says_something and _is_balanced(text) else ""


def _is_balanced(line: str) -> bool:
    """True if each bracket has its pair, in the right order, and quotation marks are closed."""
    opened: list[str] = []
    for character in line:
        if character in _BRACKETS:
            opened.append(_BRACKETS[character])
        elif character in _CLOSING and (not opened or opened.pop() != character):
            return False
    return not opened and line.count('"') % 2 == 0


def _patched_files(patch: str) -> Iterator[tuple[FileState, str, str]]:
    states: dict[str, FileState] = {"Update": "changed", "Add": "created", "Delete": "deleted"}
    if files := _PATCH_FILE.findall(patch):
        yield from ((states[verb], path, "") for verb, path in files)
        return
    old = ""
    for sign, path in _DIFF_FILE.findall(patch):
        if sign == "---":
            old = path
        elif path == "/dev/null":
            yield "deleted", old, ""
        else:
            yield ("created" if old == "/dev/null" else "changed"), path, ""


def shell_changes(command: str) -> Sequence[tuple[FileState, str]]:
    """Return what the common forms of a shell command do to files."""
    return _commands[command]


def _read_command(command: str) -> Iterator[tuple[FileState, str]]:
    if _SCRATCH_DIRECTORY.match(command):
        return
    for part in _COMMAND_SEPARATOR.split(_without_here_documents(command[:_MAX_COMMAND_CHARS])):
        for match in _REDIRECTION.finditer(part):
            if _FILE_NAME.fullmatch(match.group(2)) and not match.group(2).startswith("/dev/"):
                yield "created", match.group(2)
        yield from _word_changes(_words(_REDIRECTION.sub(" ", part)))


_commands: Final = TextCache(lambda command: tuple(_read_command(command)), max_chars=1_000_000)


def _without_here_documents(command: str) -> str:
    """Remove the text of here-documents, which is not a command. The redirection before it names the file."""
    lines: list[str] = []
    end = ""
    for line in command.split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        match = _HERE_DOCUMENT.search(line)
        end = match.group(1) if match else ""
        lines.append(f"{line[: match.start()]} {line[match.end() :]}" if match else line)
    return "\n".join(lines)


def _words(command: str) -> list[str]:
    # Without quotes and escapes, words are separated by spaces only. `shlex` reads one character at a time.
    if _QUOTES.isdisjoint(command):
        words = command.split()
    else:
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
    while words and (words[0] in _PREFIXES or "=" in words[0]):
        words = words[1:]
    return words


def _word_changes(words: list[str]) -> Iterator[tuple[FileState, str]]:
    if words[:1] == ["git"] and words[1:2] in (["rm"], ["mv"]):
        words = words[1:]
    if not words:
        return
    program = words[0]
    files = [word for word in words[1:] if not word.startswith("-") and _FILE_NAME.fullmatch(word)]
    if program == "mv":
        yield from zip(_MOVE_STATES, files, strict=False)
        return
    is_in_place = program in _IN_PLACE_EDITORS and _IN_PLACE.search(" ".join(words))
    state: FileState | None = "changed" if is_in_place else _STATE_BY_PROGRAM.get(program)
    if state is not None:
        # A program that writes names its sources first.
        yield from zip(repeat(state), files if state in _STATES_OF_ALL else files[-1:])
