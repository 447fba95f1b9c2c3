"""Register the MCP server in a settings file of an agent, and remove it, without touching anything else.

Edits are insertions and deletions of text, so key order, indentation and other servers stay as they are. A file that is
not plain JSON is not changed.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from compact.exceptions import CompactError

SERVERS: Final = "mcpServers"
NAME: Final = "ariadne"
_SPACE: Final = re.compile(r"[\s\ufeff]*")
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_DECODER: Final = json.JSONDecoder()


class UnsafeSettings(CompactError):
    """The settings file cannot be edited without a risk."""


class _Member(NamedTuple):
    key_start: int
    start: int
    end: int


def add_server(text: str, server: dict[str, Any]) -> str:
    """Return the settings with our server. A server of ours that is there already is replaced."""
    if not text.strip().strip("\ufeff"):
        return json.dumps({SERVERS: {NAME: server}}, indent=2) + "\n"
    settings = _parse(text)
    root = _skip(text, 0)
    if SERVERS not in settings:
        return _insert(text, root, SERVERS, {NAME: server})
    if not isinstance(settings[SERVERS], dict):
        raise UnsafeSettings(f"`{SERVERS}` in the settings is not an object.")
    place = _members(text, root)[SERVERS].start
    if NAME not in settings[SERVERS]:
        return _insert(text, place, NAME, server)
    if settings[SERVERS][NAME] == server:
        return text
    known = _members(text, place)[NAME]
    return text[: known.start] + json.dumps(server) + text[known.end :]


def remove_server(text: str) -> str:
    """Return the settings without our server, and without a list of servers that becomes empty."""
    if installed_server(text) is None:
        return text
    root = _skip(text, 0)
    text = _delete(text, _members(text, root)[SERVERS].start, NAME)
    return text if _parse(text)[SERVERS] else _delete(text, root, SERVERS)


def installed_server(text: str) -> dict[str, Any] | None:
    """Return our server as the settings have it, or None."""
    servers = _parse(text).get(SERVERS) if text.strip().strip("\ufeff") else None
    server = servers.get(NAME) if isinstance(servers, dict) else None
    return server if isinstance(server, dict) else None


def _parse(text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise UnsafeSettings(f"The settings are not plain JSON ({error}), so they were not changed.") from None
    if not isinstance(settings, dict):
        raise UnsafeSettings("The settings are not a JSON object, so they were not changed.")
    return settings


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _members(text: str, start: int) -> dict[str, _Member]:
    """Return the places of the members of an object, by key."""
    members: dict[str, _Member] = {}
    position = _skip(text, start + 1)
    while text[position] != "}":
        key, end = _DECODER.raw_decode(text, position)
        value_start = _skip(text, _skip(text, end) + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        members[key] = _Member(position, value_start, value_end)
        position = _skip(text, value_end)
        position = _skip(text, position + 1) if text[position] == "," else position
    return members


def _insert(text: str, start: int, key: str, value: Any) -> str:
    """Insert a member at the beginning of an object, in the style of the file."""
    members = _members(text, start)
    newline = "\r\n" if "\r\n" in text else "\n"
    match = _INDENT.search(text)
    unit = match[1] if match else ""
    comma = "," if members else ""
    if not unit:
        return f"{text[: start + 1]}{json.dumps(key)}: {json.dumps(value)}{comma}{text[start + 1 :]}"
    line_start = text.rfind("\n", 0, start) + 1
    outer = re.match(r"[ \t]*", text[line_start:])
    indent = (outer[0] if outer else "") + unit
    body = json.dumps(value, indent=unit).replace("\n", f"{newline}{indent}")
    rest = text[start + 1 :] if members else f"{newline}{indent.removesuffix(unit)}{text[_skip(text, start + 1) :]}"
    return f"{text[: start + 1]}{newline}{indent}{json.dumps(key)}: {body}{comma}{rest}"


def _delete(text: str, start: int, key: str) -> str:
    members = list(_members(text, start).items())
    index = next(index for index, (name, _) in enumerate(members) if name == key)
    member = members[index][1]
    if index + 1 < len(members):
        return text[: member.key_start] + text[members[index + 1][1].key_start :]
    if index:
        return text[: members[index - 1][1].end] + text[member.end :]
    return text[: start + 1] + text[_skip(text, member.end) :]
