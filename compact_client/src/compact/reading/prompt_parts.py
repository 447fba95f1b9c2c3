"""The parts of a prompt: what fills the window, with the tokens of each. Pure.

One definition for all sources. `PartReader` reads the content blocks of a prompt in order, in the format of any
provider (a block of Anthropic, an item of the Responses API, a chat message or one of its parts), and `add_up` turns
what it read into the `parts` of an event, whose tokens add up to those of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, get_args

from compact.estimators.media_tokens import media_tokens
from compact.events import PartName, PromptPart
from compact.messages import INSTRUCTION_ROLES, POINTER_TAG, SPAN_TAG, SUMMARY_TAG
from compact.messages.block_kinds import Content, kind_of
from compact.messages.media import media_in, without_binary
from compact.reading.call_arguments import named_path, parse_arguments
from compact.reading.parts import role_of
from compact.reading.tokens import estimate_tokens

ReadText = Callable[[str], "tuple[PartName, str] | None"]
"""Returns the part and the name of a text that an agent's program has put into a message, or None for any other."""

_BREAKDOWN: Final[Mapping[str, str]] = {"system": "system", "tools": "tools_schema", "memory": "memory"}
_PART_OF: Final[Mapping[Content | None, PartName]] = {
    Content.CALL: "assistant",
    Content.REASONING: "thinking",
    Content.MEDIA: "image",
}
_ORDER: Final = {name: number for number, name in enumerate(get_args(PartName))}
_CALL_KEYS: Final = ("function", "functionCall", "custom")
_MCP_PREFIX: Final = "mcp__"
_SUMMARY_MARKS: Final = (SUMMARY_TAG, SPAN_TAG, POINTER_TAG)
_MAX_NAMES: Final = 40
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=str)


class BlockPart(NamedTuple):
    """The part that one block belongs to, and the estimate of its tokens."""

    part: PartName
    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class CallTarget:
    """The tool of a call, and the file that it names."""

    tool: str
    path: str


class PartReader:
    """Reads the blocks of one conversation. It remembers the calls, so that their results have the tool's name."""

    def __init__(self, *, provider: str = "", model: str = "", read_text: ReadText | None = None) -> None:
        self._provider = provider
        self._model = model
        self._read_text = read_text or (lambda text: None)
        self._targets: dict[str, CallTarget] = {}

    def read_all(self, block: Any, role: str) -> list[BlockPart]:
        """Return the parts of a block of a message. Only a list of tools has more than one."""
        tools = block.get("tools") if isinstance(block, Mapping) and "content" not in block else None
        return (parts_of_tools(tools) if isinstance(tools, list) else []) or [self.read(block, role)]

    def read(self, block: Any, role: str) -> BlockPart:
        """Return the part of a block of a message. `role` is that of the message."""
        if isinstance(block, str):
            return self._text(block, role, estimate_tokens(block))
        if not isinstance(block, Mapping):
            return BlockPart("unknown", "", _json_tokens(block))
        kind = kind_of(block)
        content = kind.content if kind is not None else None
        tokens = self._tokens(block)
        for call in block.get("tool_calls") or ():
            self._add_call(call)
        if content is Content.CALL:
            self._add_call(block)
        if content is Content.RESULT:
            return BlockPart("tool_result", self._result_name(block), tokens)
        if content in _PART_OF:
            return BlockPart(_PART_OF[content], "", tokens)
        if kind is not None and kind.is_sealed:
            return BlockPart("summary", "", tokens)
        return self._message(block, role or role_of(block), tokens)

    def _message(self, block: Mapping[str, Any], role: str, tokens: int) -> BlockPart:
        if isinstance(block.get("tools"), list):
            return BlockPart("tools", "", tokens)
        if role in ("tool", "function"):
            return BlockPart("tool_result", self._result_name(block), tokens)
        text = next((block[key] for key in ("text", "content") if isinstance(block.get(key), str)), "")
        return self._text(text or _first_text(block.get("content")), role, tokens)

    def _text(self, text: str, role: str, tokens: int) -> BlockPart:
        known = self._read_text(text)
        if known is not None:
            return BlockPart(*known, tokens)
        if text.startswith(_SUMMARY_MARKS):
            return BlockPart("summary", "", tokens)
        if role in INSTRUCTION_ROLES:
            return BlockPart("system", "", tokens)
        if role in ("assistant", "model"):
            return BlockPart("assistant", "", tokens)
        return BlockPart("user" if role == "user" else "unknown", "", tokens)

    def _tokens(self, block: Mapping[str, Any]) -> int:
        rest, _ = without_binary(block)
        return _json_tokens(rest) + sum(media_tokens(item, self._model) for item in media_in([block], self._provider))

    def _add_call(self, call: Any) -> None:
        if not isinstance(call, Mapping):
            return
        inner = next((call[key] for key in _CALL_KEYS if isinstance(call.get(key), Mapping)), call)
        name = inner.get("name") or call.get("type") or ""
        target = CallTarget(str(name), _path_in(inner))
        ids = [value for value in (call.get("id"), call.get("call_id"), inner.get("id")) if isinstance(value, str)]
        # Gemini may answer a call by the name of its function.
        self._targets.update(dict.fromkeys(ids or [str(name)], target))

    def _result_name(self, block: Mapping[str, Any]) -> str:
        inner = block["functionResponse"] if isinstance(block.get("functionResponse"), Mapping) else block
        keys = ("tool_use_id", "call_id", "tool_call_id", "id", "name")
        names = (inner.get(key) for key in keys)
        target = next((self._targets[name] for name in names if isinstance(name, str) and name in self._targets), None)
        if target is None:
            return str(inner.get("name") or "")
        return target.path or target.tool


def parts_of_tools(tools: Any) -> list[BlockPart]:
    """Return one part for each tool of a request, and one for each MCP server with all of its tools."""
    parts: list[BlockPart] = []
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, Mapping):
            continue
        declarations = tool.get("functionDeclarations") or tool.get("function_declarations") or tool.get("tools")
        if isinstance(declarations, list):
            parts += parts_of_tools(declarations)
            continue
        inner = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
        name = str(inner.get("name") or tool.get("server_label") or tool.get("type") or "")
        parts.append(BlockPart("tools", _server_of(name) or name, _json_tokens(tool)))
    return parts


def add_up(blocks: Iterable[BlockPart], total: int | None = None) -> list[PromptPart]:
    """Return the parts of a prompt, the largest first within each kind. Their tokens add up to `total`.

    `total` is what the provider counted. Its difference to the estimates is spread over all parts in proportion.
    """
    tokens: dict[tuple[PartName, str], int] = {}
    counts: dict[tuple[PartName, str], int] = {}
    for part, name, size in blocks:
        key = part, name
        if key in tokens:
            tokens[key] += size
            counts[key] += 1
        else:
            tokens[key], counts[key] = size, 1
    _merge_small(tokens, counts)
    sizes = _scale(tokens, total)
    keys = sorted(tokens, key=lambda key: (_ORDER[key[0]], -tokens[key], key[1]))
    return [_part(key, sizes[key], counts[key]) for key in keys]


def breakdown_of(parts: Iterable[PromptPart]) -> dict[str, int]:
    """Return the parts of a prompt under the names of a breakdown, which has fewer."""
    breakdown: dict[str, int] = {}
    for part in parts:
        name = _BREAKDOWN.get(part["part"], "history")
        breakdown[name] = breakdown.get(name, 0) + part["tokens"]
    return breakdown


def _part(key: tuple[PartName, str], tokens: int, count: int) -> PromptPart:
    part, name = key
    entry: PromptPart = {"part": part, "tokens": tokens, "messages": count}
    if name:
        entry["name"] = name
    return entry


def _merge_small(tokens: dict[tuple[PartName, str], int], counts: dict[tuple[PartName, str], int]) -> None:
    """Merge the smallest named parts of each kind into one without a name, so that an event has a bounded size."""
    named: dict[PartName, list[tuple[PartName, str]]] = {}
    for key in tokens:
        if key[1]:
            named.setdefault(key[0], []).append(key)
    for keys in named.values():
        for key in sorted(keys, key=lambda key: -tokens[key])[_MAX_NAMES:]:
            rest = (key[0], "")
            tokens[rest] = tokens.get(rest, 0) + tokens.pop(key)
            counts[rest] = counts.get(rest, 0) + counts.pop(key)


def _scale(tokens: Mapping[tuple[PartName, str], int], total: int | None) -> dict[tuple[PartName, str], int]:
    """Scale tokens to a total with the largest remainders, so that nothing is lost by rounding."""
    estimate = sum(tokens.values())
    if total is None or not estimate:
        return dict(tokens)
    exact = {key: size * total / estimate for key, size in tokens.items()}
    scaled = {key: int(size) for key, size in exact.items()}
    missing = total - sum(scaled.values())
    for key in sorted(exact, key=lambda key: scaled[key] - exact[key])[:missing]:
        scaled[key] += 1
    return scaled


def _server_of(name: str) -> str:
    """Return the MCP server in the name of a tool, as `mcp__server__tool` has it."""
    return f"{_MCP_PREFIX}{name.split('__')[1]}" if name.startswith(_MCP_PREFIX) and name.count("__") > 1 else ""


def _path_in(call: Mapping[str, Any]) -> str:
    """Return the file that a call names in its arguments."""
    arguments: Any = next((call[key] for key in ("input", "arguments", "args") if call.get(key) is not None), None)
    return named_path(parse_arguments(arguments))


def _first_text(content: Any) -> str:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            return str(part["text"])
    return ""


def _json_tokens(value: Any) -> int:
    return estimate_tokens(value if isinstance(value, str) else _ENCODER.encode(value))
