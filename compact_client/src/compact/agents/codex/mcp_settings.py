"""The MCP servers in the `config.toml` of Codex.

Edits add a table at the end and remove its lines, so everything else stays as it is. An edit is accepted only if a TOML
parser reads the result as the old settings with or without our server. Otherwise it raises `Unsafe`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from compact.agents.agent import McpSettings
from compact.agents.json_servers import NAME, Entry, command_and_arguments
from compact.agents.jsonc import Unsafe

_SERVERS: Final = "mcp_servers"
_OWN_HEADER = re.compile(rf"[ \t]*\[[ \t]*{_SERVERS}[ \t]*\.[ \t]*(?:{NAME}|\"{NAME}\")[ \t]*[\].]")
_HEADER = re.compile(r"[ \t]*\[")
_BLANK = re.compile(r"[ \t\r\n]*(?:#.*)?\s*")


def settings_file(scope: str) -> Path:
    """Return the settings file of a scope."""
    home = os.environ.get("CODEX_HOME")
    folder = Path(home).expanduser() if home else Path.home() / ".codex"
    return (Path(".codex") if scope == "project" else folder) / "config.toml"


def add_server(text: str, server: Entry) -> str:
    """Return the settings with our server. A server of ours that is there already is replaced."""
    if installed_server(text) == server:
        return text
    base = remove_server(text)
    newline = "\r\n" if "\r\n" in base else "\n"
    # JSON texts and lists of texts are TOML, too, except for pairs of surrogates.
    values = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in server.items())
    lines = [f"[{_SERVERS}.{NAME}]", *values]
    separator = newline if base else ""
    changed = f"{base}{separator}{newline.join(lines)}{newline}"
    settings = _parse(base)
    servers = settings.setdefault(_SERVERS, {})
    if not isinstance(servers, dict):
        raise Unsafe(f"`{_SERVERS}` is not a table.")
    servers[NAME] = server
    return _check_result(changed, settings)


def remove_server(text: str) -> str:
    """Return the settings without the tables of our server, and without the line break that was added before them."""
    if installed_server(text) is None:
        return text
    rest = _without_server(_parse(text))
    lines = text.splitlines(keepends=True)
    for start in reversed([number for number, line in enumerate(lines) if _OWN_HEADER.match(line)]):
        shorter = _without_table(lines, start)
        if _is_same(shorter, rest):  # Otherwise the line is a part of a text.
            lines = shorter
    changed = "".join(lines)
    return _check_result(changed, rest if _SERVERS in _parse(changed) else _without_empty_servers(rest))


def installed_server(text: str) -> Entry | None:
    """Return our server as the settings have it, or None."""
    servers = _parse(text).get(_SERVERS)
    server = servers.get(NAME) if isinstance(servers, dict) else None
    return server if isinstance(server, dict) else None


def _without_table(lines: list[str], start: int) -> list[str]:
    """Return the lines without the table that starts in a line."""
    end = next((number for number in range(start + 1, len(lines)) if _HEADER.match(lines[number])), len(lines))
    while _BLANK.fullmatch(lines[end - 1]):
        end -= 1  # Comments and empty lines in front of the next table belong to that one.
    before, after = "".join(lines[:start]), "".join(lines[end:])
    is_subtable = "." in lines[start].partition(NAME)[2]
    if not is_subtable:
        shorter = before.removesuffix("\n").removesuffix("\r")
        before = shorter if not after or shorter.endswith("\n") else before
    return (before + after).splitlines(keepends=True)


def _is_same(lines: list[str], rest: dict[str, Any]) -> bool:
    """Return True if the settings are the same, apart from our server."""
    try:
        return _without_server(_parse("".join(lines))) == rest
    except Unsafe:
        return False


def _without_server(settings: dict[str, Any]) -> dict[str, Any]:
    servers = settings.get(_SERVERS)
    others = {key: value for key, value in servers.items() if key != NAME} if isinstance(servers, dict) else {}
    return {**settings, _SERVERS: others}


def _without_empty_servers(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != _SERVERS or value}


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unsafe(f"The settings are not valid TOML: {error}") from None


def _check_result(changed: str, expected: dict[str, Any]) -> str:
    """Return the new text if a parser reads it as expected."""
    try:
        settings = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        settings = None
    if settings != expected:
        raise Unsafe(f"`{_SERVERS}` is written in a form that cannot be edited line by line.")
    return changed


MCP = McpSettings(
    settings_file=settings_file,
    entry=command_and_arguments,
    add=add_server,
    remove=remove_server,
    installed=installed_server,
)
