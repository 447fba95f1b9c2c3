"""Gemini `generateContent`: the rules of a request, and the response of the scripted model.

The shapes are those of the API reference. `google-genai` has types with Python's names only. The rules about turns are
those of the API's errors, and what Gemini CLI repairs before it sends a history (`historyHardening.ts`).
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, Literal, Required, TypedDict

from compact.messages.block_kinds import BLOCK_KINDS, Content, Format, kind_of
from providers.conversation import Entry, Model, Prompt, Turn
from providers.ids import new_id
from providers.rejection import Rejection, gemini_rejection, gemini_shape_rejection
from providers.reply import Reply, text_of
from providers.shapes import ShapeError, check
from providers.tokens import count_tokens

Item = dict[str, Any]
PATH = re.compile(r"^/v1beta/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)$")
_DATA = (
    "text",
    *(kind.name for kind in BLOCK_KINDS.values() if kind.format is Format.GEMINI and kind.name != "thought"),
)


class Blob(TypedDict, total=False):
    mimeType: Required[str]
    data: Required[str]
    displayName: str


class FileData(TypedDict, total=False):
    mimeType: str
    fileUri: Required[str]
    displayName: str


class FunctionCall(TypedDict, total=False):
    name: Required[str]
    id: str
    args: dict[str, Any]


class FunctionResponsePart(TypedDict):
    inlineData: Blob


class FunctionResponse(TypedDict, total=False):
    name: Required[str]
    response: Required[dict[str, Any]]
    id: str
    parts: list[FunctionResponsePart]
    willContinue: bool
    scheduling: Literal["SILENT", "WHEN_IDLE", "INTERRUPT"]


class ExecutableCode(TypedDict, total=False):
    language: Required[Literal["PYTHON"]]
    code: Required[str]
    id: str


class CodeExecutionResult(TypedDict, total=False):
    outcome: Required[Literal["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"]]
    output: str
    id: str


ToolType = Literal["GOOGLE_SEARCH_WEB", "GOOGLE_SEARCH_IMAGE", "URL_CONTEXT", "GOOGLE_MAPS", "FILE_SEARCH"]


class ToolCall(TypedDict, total=False):
    toolType: Required[ToolType]
    id: str
    args: dict[str, Any]


class ToolResponse(TypedDict, total=False):
    toolType: Required[ToolType]
    id: str
    response: dict[str, Any]


class Part(TypedDict, total=False):
    text: str
    thought: bool
    thoughtSignature: str
    inlineData: Blob
    fileData: FileData
    functionCall: FunctionCall
    functionResponse: FunctionResponse
    executableCode: ExecutableCode
    codeExecutionResult: CodeExecutionResult
    toolCall: ToolCall
    toolResponse: ToolResponse
    videoMetadata: dict[str, Any]
    mediaResolution: dict[str, Any]
    partMetadata: dict[str, Any]


class Body(TypedDict, total=False):
    contents: Required[list[dict[str, Any]]]
    systemInstruction: dict[str, Any]
    tools: list[dict[str, Any]]
    toolConfig: dict[str, Any]
    generationConfig: dict[str, Any]
    safetySettings: list[dict[str, Any]]
    cachedContent: str


class Signed:
    """The parts that the model has signed, by signature."""

    def __init__(self) -> None:
        self._parts: dict[str, Item] = {}

    def sign(self, part: Item) -> Item:
        signed = {**part, "thoughtSignature": new_id("CiQB") * 4}
        self.add(signed)
        return signed

    def add(self, part: Item) -> None:
        """Add a part that was signed before."""
        self._parts[part["thoughtSignature"]] = part

    def verify(self, part: Item) -> bool:
        return self._parts.get(part["thoughtSignature"]) == part


def validate(body: Item, signed: Signed, *, model: str) -> None:
    """Raise `Rejection` for a request that the real API rejects."""
    _validate_shape(body)
    contents = body["contents"]
    for one, other in pairwise(contents):
        if _role(one) == _role(other):
            raise gemini_rejection("Please ensure that multiturn requests alternate between user and model.")
    if _role(contents[0]) != "user":
        raise gemini_rejection("Please ensure that the first content has the role user.")
    if _role(contents[-1]) != "user":
        raise gemini_rejection("Please ensure that multiturn requests end with a user role or a function response.")
    before: Item = {"parts": []}
    for content in contents:
        _validate_pairs(before, content)
        _validate_hosted(content)
        before = content
    _validate_signatures(contents, signed, must_sign=model.startswith("gemini-3"))


def reply(body: Item, model: Model, signed: Signed, *, name: str) -> Reply:
    """Return the model's response to a valid request."""
    turn = model(_prompt(body))
    parts = _reply_parts(turn, signed, thinks=name.startswith("gemini-3"))
    usage = {"promptTokenCount": input_tokens(body), "candidatesTokenCount": count_tokens(parts)}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    head = {"responseId": new_id("resp"), "modelVersion": name, "usageMetadata": usage}
    response = {**head, "candidates": [candidate]}
    events = [{**head, "candidates": [{**candidate, "content": {"role": "model", "parts": [part]}}]} for part in parts]
    return Reply(response, [(None, event) for event in events])


def input_tokens(body: Item) -> int:
    return sum(count_tokens(body.get(name) or []) for name in ("systemInstruction", "contents", "tools"))


def overflow(tokens: int, window: int) -> Rejection:
    text = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
    return gemini_rejection(text, is_overflow=True)


def _validate_shape(body: Item) -> None:
    try:
        check(body, Body)
        for index, content in enumerate(body["contents"]):
            check(content.get("parts"), list[Part], ("contents", index, "parts"))
    except ShapeError as error:
        raise gemini_shape_rejection(error) from error
    if not body["contents"]:
        raise gemini_rejection("* GenerateContentRequest.contents: contents is not specified\n")
    for index, content in enumerate(body["contents"]):
        if set(content) - {"role", "parts"}:
            raise gemini_shape_rejection(ShapeError("unknown", ("contents", index, *set(content) - {"role", "parts"})))
        if content.get("role", "user") not in ("user", "model", "function"):
            raise gemini_rejection("Please use a valid role: user, model.")
        _validate_parts(index, content["parts"])


def _validate_parts(index: int, parts: list[Item]) -> None:
    path = f"* GenerateContentRequest.contents[{index}].parts"
    if not parts:
        raise gemini_rejection(f"{path}: contents.parts must not be empty.\n")
    for position, part in enumerate(parts):
        if sum(key in part for key in _DATA) != 1:
            text = "required oneof field 'data' must have one initialized field"
            raise gemini_rejection(f"{path}[{position}].data: {text}\n")
        if part.get("text") == "":
            raise gemini_rejection(f"{path}[{position}].data: text must not be empty\n")


def _validate_pairs(before: Item, content: Item) -> None:
    """Check that all calls of a turn are answered by the next one, and nothing else is."""
    calls, responses = _of(before, "functionCall"), _of(content, "functionResponse")
    if responses and not calls:
        raise gemini_rejection(
            "Please ensure that function response turn comes immediately after a function call turn."
        )
    if len(calls) != len(responses):
        text = "Please ensure that the number of function response parts is equal to the number of function call parts"
        raise gemini_rejection(f"{text} of the function call turn.")
    if sorted(call["name"] for call in calls) != sorted(response["name"] for response in responses):
        raise gemini_rejection("Please ensure that each function response has the name of its function call.")
    ids = {call.get("id") for call in calls} if all("id" in response for response in responses) else set()
    if any(response.get("id") not in ids for response in responses if ids):
        raise gemini_rejection("Please ensure that each function response has the id of its function call.")
    names = [next(iter(set(part) & set(_DATA))) for part in content["parts"]]
    if "functionResponse" in names[len(responses) :]:
        raise gemini_rejection("Please ensure that function responses come before other parts.")


def _validate_hosted(content: Item) -> None:
    """Check that code and tools that the provider ran have their results."""
    kinds = [kind for part in content["parts"] if (kind := kind_of(part)) is not None and kind.is_hosted]
    if any(kind.content is Content.CALL and kind.answered_by not in {other.name for other in kinds} for kind in kinds):
        raise gemini_rejection("Please ensure that each server-side tool call has its response.")
    if kinds and _role(content) != "model":
        raise gemini_rejection("Please ensure that server-side tool calls are in a turn of the model.")


def _validate_signatures(contents: list[Item], signed: Signed, *, must_sign: bool) -> None:
    """Check the signatures, and that the calls of the current turn have theirs."""
    for content in contents:
        if any("thoughtSignature" in part and not signed.verify(part) for part in content["parts"]):
            raise gemini_rejection("Corrupted thought signature.")
    starts = [index for index, content in enumerate(contents) if _is_prompt(content)]
    for index, content in enumerate(contents[starts[-1] :] if starts and must_sign else ()):
        first = next((part for part in content["parts"] if "functionCall" in part), None)
        if first is not None and "thoughtSignature" not in first:
            name, position = first["functionCall"]["name"], starts[-1] + index + 1
            text = (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. "
                f"Additional data, function call `default_api:{name}` , position {position}."
            )
            raise gemini_rejection(text)


def _is_prompt(content: Item) -> bool:
    """True for a turn in which the user speaks."""
    return _role(content) == "user" and not _of(content, "functionResponse")


def _of(content: Item, key: str) -> list[Item]:
    return [part[key] for part in content["parts"] if key in part]


def _role(content: Item) -> str:
    return "model" if content.get("role") == "model" else "user"


def _prompt(body: Item) -> Prompt:
    entries = [Entry("system", text_of((body.get("systemInstruction") or {}).get("parts")))]
    for content in body["contents"]:
        entries += [Entry("tool", json.dumps(response["response"])) for response in _of(content, "functionResponse")]
        names = tuple(call["name"] for call in _of(content, "functionCall"))
        text = text_of([part for part in content["parts"] if "text" in part])
        if text or names:
            entries.append(Entry("assistant" if _role(content) == "model" else "user", text, names))
    functions = [function for tool in body.get("tools") or () for function in tool.get("functionDeclarations") or ()]
    config = body.get("generationConfig") or {}
    schemas = {function["name"]: function.get("parameters") or {} for function in functions}
    return Prompt(entries, schemas, config.get("responseSchema"))


def _reply_parts(turn: Turn, signed: Signed, *, thinks: bool) -> list[Item]:
    parts: list[Item] = [{"text": turn.text}] if turn.text else []
    for index, call in enumerate(turn.calls):
        part = {"functionCall": {"name": call.name, "args": call.arguments}}
        if thinks:
            part["functionCall"]["id"] = new_id("call")
        parts.append(signed.sign(part) if thinks and not index else part)
    return parts
