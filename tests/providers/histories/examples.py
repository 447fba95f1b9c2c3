"""One example of each row of the table of block kinds, built from the request types of the providers' SDKs.

A new row needs no work here if the SDK's type says what it contains. Otherwise a test names the row that has no
example, no place, or one that the API rejects.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union

import typing_extensions
from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam
from compact.messages.block_kinds import BLOCK_KINDS, BlockKind, Content, Format
from openai.types.chat.chat_completion_assistant_message_param import ContentArrayOfContentPart
from openai.types.chat.chat_completion_content_part_param import ChatCompletionContentPartParam
from openai.types.chat.chat_completion_message_tool_call_union_param import ChatCompletionMessageToolCallUnionParam
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.response_input_message_content_list_param import ResponseInputContentParam
from providers.checks import IMAGE, PDF
from providers.gemini_api import Part
from providers.shapes import ShapeError, check

Item = dict[str, Any]
Place = Literal["user", "assistant", "system", "item"]

_SOURCE = {"type": "base64", "media_type": "image/png", "data": IMAGE}
# The fields that an SDK's type leaves open, or that must have a meaning for the API.
_FIELDS: dict[str, Item] = {
    "text": {"text": "A remark."},
    "refusal": {"refusal": "I cannot do that."},
    "image": {"source": _SOURCE},
    "document": {"source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
    "image_url": {"image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
    "input_image": {"image_url": f"data:image/png;base64,{IMAGE}", "detail": "auto"},
    "input_audio": {"input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}},
    "file": {"file": {"filename": "plan.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    "input_file": {"filename": "plan.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    "input_text": {"text": "A remark."},
    "search_result": {
        "title": "Page",
        "source": "https://example.org",
        "content": [{"type": "text", "text": "Found."}],
    },
    "function": {"function": {"name": "read", "arguments": "{}"}},
    "custom": {"custom": {"name": "read", "input": "x"}},
    "computer_call": {"status": "completed", "action": {"type": "screenshot"}},
    "computer_call_output": {"output": {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{IMAGE}"}},
    "shell_call_output": {
        "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    "tool_search_call": {"arguments": {"query": "x"}, "execution": "client"},
    "tool_search_output": {"execution": "client", "tools": []},
    "mcp_approval_response": {"approve": True},
    "image_generation_call": {"result": IMAGE, "status": "completed"},
    "fallback": {"from": {"model": "claude-opus-4-6"}, "to": {"model": "claude-sonnet-4-6"}},
    "configuration_update": {"reasoning": {"effort": "low"}},
    "compaction": {"encrypted_content": "gAAAC0"},
}
# Gemini's parts have no types in an SDK: the value of the key that names the part.
_GEMINI: dict[str, Item] = {
    "functionCall": {"name": "read", "args": {"path": "a.py"}},
    "functionResponse": {"name": "read", "response": {"output": "x"}},
    "inlineData": {"mimeType": "image/png", "data": IMAGE},
    "fileData": {"mimeType": "application/pdf", "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a1"},
    "executableCode": {"language": "PYTHON", "code": "print(17)"},
    "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "17"},
    "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["batch orders"]}},
    "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"results": ["A page."]}},
}
# The fields of tool calls, which the rows of one kind of content share.
_BY_CONTENT: dict[Content, Item] = {Content.CALL: {"name": "read", "arguments": "{}", "input": {"path": "a.py"}}}
_PLACES: dict[str, Place] = {
    "container_upload": "user",
    "tool_addition": "system",
    "tool_removal": "system",
    "mcp_tool_listing": "assistant",
    "fallback": "assistant",
    "compaction": "assistant",
    "refusal": "assistant",
}
# Rows without an example, and the reason.
NOT_SENT: dict[str, str] = {
    "tool_call": "a block of telemetry and of LangChain, which no API of a provider accepts",
    "tool_call_response": "a block of telemetry",
    "output_text": "written with the assistant's messages",
    "summary_text": "a part of `reasoning`",
    "output_image": "a part of a tool's result in a response only",
    "output_audio": "a part of a response only",
    "computer_screenshot": "a part of `computer_call_output`",
    "audio": "a part of LangChain's messages",
    "video": "a part of LangChain's messages",
    "video_url": "a part of servers that are compatible with OpenAI's, whose rules are not published",
    "item_reference": "names an item that only the server has, so it is never compacted with the others",
    "compaction_trigger": "asks the server to compact, and is no part of a history",
}
UNIONS: dict[Format, tuple[Any, ...]] = {
    Format.ANTHROPIC: (BetaContentBlockParam,),
    Format.RESPONSES: (ResponseInputItemParam, ResponseInputContentParam),
    Format.CHAT: (ChatCompletionContentPartParam, ContentArrayOfContentPart, ChatCompletionMessageToolCallUnionParam),
    Format.GEMINI: (Part,),
}
"""The SDKs' types of items, parts and calls. Those of Gemini's API are from its reference."""


def place_of(kind: BlockKind, form: Format) -> Place:
    """Return where an example of a row may be in a format."""
    if kind.is_item and form is Format.RESPONSES:
        return "item"
    if kind.name in _PLACES:
        return _PLACES[kind.name]
    if kind.content in (Content.CALL, Content.REASONING) or kind.is_hosted:
        return "assistant"
    if kind.content is Content.DATA:
        raise LookupError(f"the row {kind.name!r} has no place: add it to _PLACES")
    return "user"


def kinds(form: Format, *, content: Content | None = None, place: Place | None = None) -> list[BlockKind]:
    """Return the rows of a format that have an example."""
    return [
        kind
        for kind in BLOCK_KINDS.values()
        if kind.name not in NOT_SENT
        and form in formats_of(kind)
        and content in (None, kind.content)
        and place in (None, place_of(kind, form))
    ]


def formats_of(kind: BlockKind) -> set[Format]:
    """Return the formats in which a row can be sent. Those of a shared row follow from the SDKs' types."""
    typed = {form for form, unions in UNIONS.items() if any(kind.name in named(union) for union in unions)}
    return typed if kind.format is Format.SHARED else typed | {kind.format}


def example(name: str, form: Format, /, **fields: Any) -> Item:
    """Return an example of a row, with these fields."""
    if form is Format.GEMINI:
        return {"text": "A thought.", "thought": True} if name == "thought" else {name: {**_GEMINI[name], **fields}}
    kind = BLOCK_KINDS[name]
    hints = _hints_of(name, form)
    given = {key: value for key, value in _BY_CONTENT.get(kind.content, {}).items() if key in hints}
    given |= _known_fields(_FIELDS.get(name, {}), hints) | {"type": name} | fields
    required = {key: _fill(hint, key) for key, hint in _required_keys(hints).items() if key not in given}
    return {**required, **{key: _as_allowed(value, hints.get(key)) for key, value in given.items()}}


def _known_fields(fields: Item, hints: Mapping[str, Any]) -> Item:
    return {key: value for key, value in fields.items() if key in hints}


def _as_allowed(value: Any, hint: Any) -> Any:
    """Return the input of a call as a string where the type requires one."""
    try:
        check(value, hint)
    except ShapeError:
        return str(value) if hint is str else _fill(hint, "")
    return value


@cache
def named(union: Any) -> dict[str, Any]:
    """Return the types of a union by the value of their `type`."""
    named: dict[str, Any] = {}
    for member in _members(union):
        hint = _hints(member).get("type") if typing_extensions.is_typeddict(member) else None
        for name in _literals(hint):
            named.setdefault(name, member)
    return named


def _hints_of(name: str, form: Format) -> dict[str, Any]:
    for union in UNIONS.get(form, ()):
        if name in named(union):
            return _hints(named(union)[name])
    raise LookupError(f"the row {name!r} has no example: the SDK has no type for it in the format {form.value}")


def _fill(hint: Any, key: str) -> Any:
    """Return the smallest value of a type."""
    hint = _plain(hint)
    origin = typing.get_origin(hint)
    if origin is Literal:
        return typing.get_args(hint)[0]
    if origin in (Union, types.UnionType):
        return _fill(typing.get_args(hint)[0], key)
    if typing_extensions.is_typeddict(hint):
        return {name: _fill(part, name) for name, part in _required_keys(_hints(hint)).items()}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {}
    if origin is not None and (origin is Iterable or issubclass(origin, Sequence | Iterable)):
        return []
    return {str: key or "x", bool: False, int: 1, float: 1.0}.get(hint, {})


@cache
def _hints(member: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(member, include_extras=True)


def _required_keys(hints: Mapping[str, Any]) -> dict[str, Any]:
    required = (typing.Required, typing_extensions.Required)
    return {key: hint for key, hint in hints.items() if typing.get_origin(hint) in required}


def _plain(hint: Any) -> Any:
    wrappers = (typing.Required, typing_extensions.Required, typing.NotRequired, typing_extensions.NotRequired)
    while typing.get_origin(hint) in (*wrappers, typing.Annotated) or hasattr(hint, "__value__"):
        hint = hint.__value__ if hasattr(hint, "__value__") else typing.get_args(hint)[0]
    return hint


def _members(union: Any) -> Iterator[Any]:
    for member in map(_plain, typing.get_args(_plain(union))):
        if typing.get_origin(member) in (Union, types.UnionType):
            yield from _members(member)
        else:
            yield member


def _literals(hint: Any) -> Iterator[str]:
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    for part in typing.get_args(hint):
        yield from _literals(part)
