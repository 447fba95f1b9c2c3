"""The table of items and content blocks in the message formats of the providers.

One row per kind: what it contains, which kind answers it, and what its media is counted as. Codecs, units, readers and
pages derive their rules from it, so a new kind is one row. A kind that is not here is kept whole with its neighbors.

Sources, read in November 2026: the request types of the SDKs (`anthropic` 2.8, `openai` 3.49), and the API references
for extended thinking, server tools, programmatic tool calling, tool search and Gemini's function calling. For Gemini's
parts, those of `google-genai` in August 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

MediaKind = Literal["image", "audio", "video", "pdf", "file"]


CALL_ID: Final = "{call_id}"
TEXT: Final = "{text}"
# 64 white pixels, because a result of a computer call must be a screenshot.
_BLANK_SCREENSHOT: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAD0lEQVR4nGP8zwADTAxUYQIAVPcBD9YeExQAAAAASUVORK5CYII="
)


class Content(StrEnum):
    """The content that a reader finds in a block."""

    TEXT = "text"
    CALL = "call"
    RESULT = "result"
    REASONING = "reasoning"
    MEDIA = "media"
    DATA = "data"


class Format(StrEnum):
    """The API that a kind belongs to. `SHARED` kinds occur in several."""

    ANTHROPIC = "anthropic"
    RESPONSES = "responses"
    CHAT = "chat"
    GEMINI = "gemini"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class BlockKind:
    """One kind of item or content block."""

    name: str
    format: Format
    content: Content
    answered_by: str = ""
    """The kind of block that answers this call. A call without one has its result in itself."""
    links: tuple[str, ...] = ()
    """The keys of ids that bind this block to others, also in other messages. They stay or go together."""
    is_hosted: bool = False
    """True for a call that the provider runs, and for its result: no client writes either."""
    id_key: str = "call_id"
    """The key with the id of a call, and with that of the call that a result answers."""
    aborted: Mapping[str, Any] = field(default_factory=dict)
    """The fields of a result for an aborted call. `CALL_ID` and `TEXT` are replaced by its id and the reason."""
    media: MediaKind | None = None
    """The kind as which its attachment is counted."""
    is_item: bool = False
    """True for an item of the Responses API, which is not in the content of a message."""
    is_instruction: bool = False
    """True for an item with which the host instructs the model from here on, like a developer message."""
    is_sealed: bool = False
    """True for a block that replaces everything before it, and that only the provider can read."""


def _anthropic(name: str, content: Content, **fields: Any) -> BlockKind:
    return BlockKind(name, Format.ANTHROPIC, content, **fields)


def _hosted_result(name: str) -> BlockKind:
    return _anthropic(name, Content.RESULT, is_hosted=True, links=("tool_use_id",))


def _item(name: str, content: Content, **fields: Any) -> BlockKind:
    return BlockKind(name, Format.RESPONSES, content, is_item=True, **fields)


def _gemini(name: str, content: Content, **fields: Any) -> BlockKind:
    return BlockKind(name, Format.GEMINI, content, **fields)


def _gemini_hosted(name: str, content: Content, **fields: Any) -> BlockKind:
    return _gemini(name, content, is_hosted=True, links=(f"{name}.id",), **fields)


def _part(name: str, content: Content, **fields: Any) -> BlockKind:
    return BlockKind(name, Format.SHARED, content, **fields)


_ROWS: Final = (
    # Content parts that several formats use.
    _part("text", Content.TEXT),
    _part("refusal", Content.TEXT),
    _part("image", Content.MEDIA, media="image"),
    _part("image_url", Content.MEDIA, media="image"),
    _part("audio", Content.MEDIA, media="audio"),
    _part("input_audio", Content.MEDIA, media="audio"),
    _part("output_audio", Content.MEDIA, media="audio"),
    _part("video", Content.MEDIA, media="video"),
    _part("video_url", Content.MEDIA, media="video"),
    _part("file", Content.MEDIA, media="file"),
    # Anthropic Messages.
    _anthropic("document", Content.MEDIA, media="file"),
    _anthropic("search_result", Content.TEXT),
    _anthropic("thinking", Content.REASONING),
    _anthropic("redacted_thinking", Content.REASONING),
    _anthropic("tool_use", Content.CALL, answered_by="tool_result", links=("caller.tool_id",)),
    _anthropic("tool_result", Content.RESULT),
    # Server tools. The result may come in a later message: after a pause, and after the tools that a program calls.
    _anthropic("server_tool_use", Content.CALL, is_hosted=True, links=("id",)),
    _hosted_result("web_search_tool_result"),
    _hosted_result("web_fetch_tool_result"),
    _hosted_result("code_execution_tool_result"),
    _hosted_result("bash_code_execution_tool_result"),
    _hosted_result("text_editor_code_execution_tool_result"),
    _hosted_result("tool_search_tool_result"),
    _hosted_result("advisor_tool_result"),
    _anthropic("mcp_tool_use", Content.CALL, is_hosted=True, answered_by="mcp_tool_result", links=("id",)),
    _hosted_result("mcp_tool_result"),
    _anthropic("mcp_tool_listing", Content.DATA),
    _anthropic("container_upload", Content.DATA),
    _anthropic("tool_addition", Content.DATA),
    _anthropic("tool_removal", Content.DATA),
    _anthropic("fallback", Content.DATA),
    # OpenAI Responses. `compaction` is also a block of Anthropic.
    _item("message", Content.TEXT),
    _item("reasoning", Content.REASONING),
    _item("compaction", Content.DATA, is_sealed=True),
    _item("function_call", Content.CALL, answered_by="function_call_output", links=("caller.caller_id",)),
    _item("function_call_output", Content.RESULT, aborted={"output": TEXT}),
    _item("custom_tool_call", Content.CALL, answered_by="custom_tool_call_output", links=("caller.caller_id",)),
    _item("custom_tool_call_output", Content.RESULT, aborted={"output": TEXT}),
    _item("shell_call", Content.CALL, answered_by="shell_call_output", links=("caller.caller_id",)),
    _item(
        "shell_call_output",
        Content.RESULT,
        aborted={"output": [{"stdout": "", "stderr": TEXT, "outcome": {"type": "exit", "exit_code": 1}}]},
    ),
    _item("local_shell_call", Content.CALL, answered_by="local_shell_call_output"),
    _item("local_shell_call_output", Content.RESULT, id_key="id", aborted={"output": TEXT}),
    _item("apply_patch_call", Content.CALL, answered_by="apply_patch_call_output", links=("caller.caller_id",)),
    _item("apply_patch_call_output", Content.RESULT, aborted={"status": "failed", "output": TEXT}),
    _item("computer_call", Content.CALL, answered_by="computer_call_output"),
    _item(
        "computer_call_output",
        Content.RESULT,
        aborted={"output": {"type": "computer_screenshot", "image_url": _BLANK_SCREENSHOT}},
    ),
    _item("tool_search_call", Content.CALL, answered_by="tool_search_output"),
    _item(
        "tool_search_output",
        Content.RESULT,
        aborted={"execution": "client", "tools": [], "status": "incomplete"},
    ),
    # The provider runs it and adds the output. Its calls are answered by the client.
    _item("program", Content.CALL, is_hosted=True, answered_by="program_output", links=("call_id",)),
    _item(
        "program_output",
        Content.RESULT,
        is_hosted=True,
        links=("call_id",),
        aborted={"id": f"prog_out_{CALL_ID}", "result": TEXT, "status": "incomplete"},
    ),
    _item("mcp_approval_request", Content.CALL, answered_by="mcp_approval_response", id_key="id", links=("id",)),
    _item("mcp_approval_response", Content.RESULT, id_key="approval_request_id", aborted={"approve": False}),
    _item("web_search_call", Content.CALL, is_hosted=True),
    _item("file_search_call", Content.CALL, is_hosted=True),
    _item("code_interpreter_call", Content.CALL, is_hosted=True),
    _item("image_generation_call", Content.MEDIA, is_hosted=True, media="image"),
    _item("mcp_call", Content.CALL, is_hosted=True, links=("approval_request_id",)),
    _item("mcp_list_tools", Content.DATA),
    _item("item_reference", Content.DATA),
    _item("additional_tools", Content.DATA, is_instruction=True),
    _item("configuration_update", Content.DATA, is_instruction=True),
    _item("compaction_trigger", Content.DATA),
    BlockKind("input_text", Format.RESPONSES, Content.TEXT),
    BlockKind("output_text", Format.RESPONSES, Content.TEXT),
    BlockKind("summary_text", Format.RESPONSES, Content.TEXT),
    BlockKind("input_image", Format.RESPONSES, Content.MEDIA, media="image"),
    BlockKind("output_image", Format.RESPONSES, Content.MEDIA, media="image"),
    BlockKind("computer_screenshot", Format.RESPONSES, Content.MEDIA, media="image"),
    BlockKind("input_file", Format.RESPONSES, Content.MEDIA, media="file"),
    # Chat Completions: the entries of `tool_calls`. OpenTelemetry and LangChain use `tool_call`.
    BlockKind("function", Format.CHAT, Content.CALL),
    BlockKind("custom", Format.CHAT, Content.CALL),
    BlockKind("tool_call", Format.CHAT, Content.CALL, answered_by="tool_call_response"),
    BlockKind("tool_call_response", Format.CHAT, Content.RESULT),
    # Gemini names a part by its only key. A summary of the model's thoughts is a text with the key `thought`.
    _gemini("thought", Content.REASONING),
    _gemini("functionCall", Content.CALL, answered_by="functionResponse"),
    _gemini("functionResponse", Content.RESULT, aborted={"response": {"error": TEXT}}),
    _gemini("inlineData", Content.MEDIA, media="file"),
    _gemini("fileData", Content.MEDIA, media="file"),
    # Code and tools that the provider runs. A part has an id only if the provider gave it one.
    _gemini_hosted("executableCode", Content.CALL, answered_by="codeExecutionResult"),
    _gemini_hosted("codeExecutionResult", Content.RESULT),
    _gemini_hosted("toolCall", Content.CALL, answered_by="toolResponse"),
    _gemini_hosted("toolResponse", Content.RESULT),
)
BLOCK_KINDS: Final[Mapping[str, BlockKind]] = {kind.name: kind for kind in _ROWS}
_BY_KEY: Final = {name: kind for name, kind in BLOCK_KINDS.items() if kind.format is Format.GEMINI}


def kind_of(block: Any) -> BlockKind | None:
    """Return the row of an item or a block, or None if its kind is unknown or it is not a dict."""
    if not isinstance(block, (dict, Mapping)):  # The check of an abstract class is slow, and a dict does not need it.
        return None
    name = block.get("type")
    if isinstance(name, str) and name:
        return BLOCK_KINDS.get(name)
    return next((kind for key, kind in _BY_KEY.items() if block.get(key)), None)


TEXT_KINDS: Final = ("text", "input_text", "output_text")
"""Kinds of parts with nothing but a text, under `text`."""


def linked_ids(block: Any) -> tuple[str, ...]:
    """Return the ids that bind a block to others."""
    kind = kind_of(block)
    if kind is None or not kind.links:
        return ()
    values = (_value_at(block, key) for key in kind.links)
    return tuple(value for value in values if isinstance(value, str) and value)


def _value_at(block: Any, path: str) -> Any:
    for key in path.split("."):
        block = block.get(key) if isinstance(block, Mapping) else None
    return block


def is_reasoning(block: Any) -> bool:
    """True for thinking and reasoning in any format."""
    kind = kind_of(block)
    return kind is not None and kind.content is Content.REASONING


def is_call(block: Any) -> bool:
    """True for a call of any format, also one that the provider runs."""
    kind = kind_of(block)
    return kind is not None and kind.content is Content.CALL


def has_format(block: Any, form: Format) -> bool:
    """True for an item or a block that only this API has."""
    kind = kind_of(block)
    return kind is not None and kind.format is form


def is_item(block: Any) -> bool:
    """True for an item of the Responses API."""
    kind = kind_of(block)
    return kind is not None and kind.is_item


def leads_with_reasoning(item: Any) -> bool:
    """True for a message whose content starts with thinking. LiteLLM has the blocks of a chat message beside it."""
    if not isinstance(item, Mapping):
        return False
    blocks = item.get("thinking_blocks") or item.get("content")
    return isinstance(blocks, list) and bool(blocks) and is_reasoning(blocks[0])
