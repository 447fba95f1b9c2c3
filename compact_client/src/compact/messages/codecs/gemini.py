"""Codec for Gemini contents, each of which is a list of parts.

A content of the model may have thoughts, texts and several function calls, with signatures. The content after it has
all of their responses. Both are kept whole. Parts are read with the keys of the API and with those of the Python SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall, text_of
from compact.messages.api_rules import GEMINI_RULES
from compact.messages.block_kinds import BLOCK_KINDS, Content, kind_of, linked_ids
from compact.messages.codecs.base import (
    ABORTED,
    ID_OF_NAME,
    ChangeOutput,
    DictCodec,
    fill_template,
    meta_field,
    require_mapping,
    string_field,
)
from compact.messages.media import Media, media_in, text_in_document, without_binary

Part = Mapping[str, Any]

_ROLES: dict[str, Role] = {"": "user", "user": "user", "function": "user", "model": "assistant", "system": "system"}
_NAMES: dict[Role, str] = {"assistant": "model", "system": "system"}
_PROVIDER = "gemini"
_CALL, _RESPONSE = "functionCall", "functionResponse"
# Keys beside the one that names a part.
_MARKS = frozenset({"thoughtSignature", "partMetadata", "thought"})
# A signature is the model's encrypted reasoning: about six base64 characters per token, which are charged as input.
_SIGNATURE_CHARS_PER_TOKEN = 6


class GeminiCodec(DictCodec):
    name = "gemini"
    rules = GEMINI_RULES

    def recognizes(self, item: Mapping[str, Any]) -> bool:
        """True if the item has parts that are named by their keys. Other formats with parts give them a type."""
        parts = item.get("parts")
        if not isinstance(parts, list) or "content" in item or item.get("role", "user") not in _ROLES:
            return False
        return bool(parts) and all(
            isinstance(part, Mapping) and "type" not in part and (kind_of(_plain(part)) or "text" in part)
            for part in parts
        )

    def decode(self, item: Any, index: int) -> Message:
        item = require_mapping(item, index)
        role = _ROLES.get(string_field(item, "role"))
        if role is None or not isinstance(item.get("parts"), list):
            return Message("assistant", text_of(item.get("content")), meta_field(item), kind="opaque", source=item)
        parts = _parts(item)
        responses = _functions(parts, _RESPONSE, index)
        answers = [name for _, name in responses]
        return Message(
            "tool" if answers else role,
            "\n".join(filter(None, map(_text, parts))),
            {**meta_field(item), **_stopped_calls(responses)},
            tool_calls=tuple(_tool_call(call, name) for call, name in _functions(parts, _CALL, index)),
            tool_call_id=answers[0] if answers else None,
            also_answers=tuple(answers[1:]),
            links=tuple(chain.from_iterable(map(linked_ids, parts))),
            extra_tokens=sum(len(string_field(part, "thoughtSignature")) for part in parts)
            // _SIGNATURE_CHARS_PER_TOKEN,
            media=tuple(chain.from_iterable(map(_media, parts))),
            source=item,
        )

    def encode(self, message: Message) -> Any:
        return _content(message.role, message.text) if message.source is None else message.source

    def assistant_message(self, text: str, message_id: str) -> Message:
        return Message("assistant", text, id=message_id, source=_content("assistant", text))

    def user_message(self, text: str, message_id: str) -> Message:
        return Message("user", text, id=message_id, source=_content("user", text))

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        response = {"name": call.name, **fill_template(BLOCK_KINDS[_RESPONSE].aborted, call.id, text)}
        if not call.id.startswith(ID_OF_NAME):
            response["id"] = call.id
        source = {"role": "user", "parts": [{_RESPONSE: response}]}
        return replace(self.decode(source, 0), tool_call_id=call.id, id=message_id)

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        if message.source is None:
            return super().outputs(message)
        responses = (part[_RESPONSE] for part in _parts(message.source) if _is_response(part))
        return [(name, _response_text(response)) for name, response in zip(message.answers, responses, strict=True)]

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        if message.source is None or not message.answers:
            return message
        names = iter(message.answers)
        return self._with_parts(
            message, lambda part: _change_response(part, next(names), change) if _is_response(part) else part
        )

    def map_text(self, message: Message, change: Callable[[str], str]) -> Message:
        if message.source is None:
            return super().map_text(message, change)
        # A signature is valid only for the part as the model wrote it.
        texts = [part for part in message.source["parts"] if _is_plain_text(part)]
        longest = max(texts, key=lambda part: len(part["text"]), default=None)
        if longest is None or (changed := change(longest["text"])) == longest["text"]:
            return message
        return self._with_parts(message, lambda part: {**part, "text": changed} if part is longest else part)

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        if message.source is None:
            return None
        names = iter(message.answers)
        parts = [part for part in message.source["parts"] if not _is_response(part) or next(names) not in call_ids]
        answers = [name for name in message.answers if name not in call_ids]
        return self._of(message, parts, answers) if parts else None

    def add_outputs(self, message: Message, outputs: Sequence[Message]) -> Message | None:
        parts = list(message.source["parts"]) if message.source is not None else [{"text": message.text}]
        # All responses come before the text that the user adds to them.
        end = max((index + 1 for index, part in enumerate(parts) if _is_response(part)), default=0)
        added = [part for output in outputs for part in (output.source or {}).get("parts", ())]
        answers = [*message.answers, *(name for output in outputs for name in output.answers)]
        return self._of(message, [*parts[:end], *added, *parts[end:]], answers)

    def pair(self, message: Message, before: Any) -> Message:
        if not isinstance(before, Mapping):
            return message
        left = [(call["name"], name) for call, name in _functions(_parts(before), _CALL, 0)]
        answers: list[str] = []
        for part in _parts(message.source or {}):
            if _is_response(part):
                call = next((call for call in left if call[0] == part[_RESPONSE].get("name")), None)
                if call is None:
                    return message
                left.remove(call)
                answers.append(call[1])
        return replace(message, tool_call_id=answers[0], also_answers=tuple(answers[1:]))

    def _with_parts(self, message: Message, change: Callable[[Part], Part]) -> Message:
        """Return the message with its parts changed, or the same object if none was."""
        old = (message.source or {})["parts"]
        new = [change(part) for part in old]
        return (
            message if all(a is b for a, b in zip(new, old, strict=True)) else self._of(message, new, message.answers)
        )

    def _of(self, message: Message, parts: Sequence[Part], answers: Sequence[str]) -> Message:
        """Return the message with other parts, which answer these calls."""
        decoded = self.decode({**(message.source or _content(message.role, "")), "parts": list(parts)}, 0)
        return replace(
            decoded,
            meta={**message.meta, **decoded.meta},
            id=message.id,
            tool_call_id=answers[0] if answers else None,
            also_answers=tuple(answers[1:]),
        )


def _content(role: Role, text: str) -> dict[str, Any]:
    return {"role": _NAMES.get(role, "user"), "parts": [{"text": text}]}


def _parts(item: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a content with the keys of the API."""
    parts = item.get("parts")
    return [_plain(part) for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _plain(part: Part) -> Part:
    """Return a part with the keys of the API: the Python SDK writes `function_call` and `mime_type`."""
    if not any("_" in key for key in part):
        return part
    plain = {_camel(key): value for key, value in part.items()}
    for key, value in plain.items():
        if key in BLOCK_KINDS and isinstance(value, Mapping):
            plain[key] = {_camel(name): inner for name, inner in value.items()}
    return plain


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _functions(parts: Sequence[Part], key: str, index: int) -> list[tuple[Part, str]]:
    """Return the calls or responses among parts with their ids. Several without an id are numbered."""
    functions: list[tuple[Part, str]] = []
    counts: dict[str, int] = {}
    for part in parts:
        value = part.get(key)
        if value is None:
            continue
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            raise MalformedMessage(index, f"has a {key} part without a name")
        name = value["name"]
        counts[name] = counts.get(name, 0) + 1
        number = f"#{counts[name]}" if counts[name] > 1 else ""
        functions.append((value, string_field(value, "id") or f"{ID_OF_NAME}{name}{number}"))
    return functions


def _stopped_calls(responses: Sequence[tuple[Part, str]]) -> dict[str, list[str]]:
    """Return the calls that were stopped among several, for the message's `meta`."""
    stopped = [name for response, name in responses if _response_text(response) == ABORTED]
    return {ABORTED: stopped} if stopped and len(responses) > 1 else {}


def _tool_call(call: Part, call_id: str) -> ToolCall:
    arguments = json.dumps(call.get("args") or {}, ensure_ascii=False, default=str)
    return ToolCall(call_id, str(call["name"]), arguments)


def _text(part: Part) -> str:
    """Return the text of a part. Calls are counted as calls, and media by its size."""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = kind_of(part)
    if kind is not None and kind.name == _RESPONSE:
        return _response_text(part[_RESPONSE])
    if kind is not None and kind.content is Content.MEDIA:
        return text_in_document(part) or ""
    if kind is not None and kind.name == _CALL:
        return ""
    rest, _ = without_binary({key: value for key, value in part.items() if key not in _MARKS}, _PROVIDER)
    return _json(rest) if rest else ""


def _signature_tokens(part: Part) -> int:
    return len(string_field(part, "thoughtSignature")) // _SIGNATURE_CHARS_PER_TOKEN


def _media(part: Part) -> tuple[Media, ...]:
    kind = kind_of(part)
    if kind is not None and kind.name == _RESPONSE:
        inner = part[_RESPONSE].get("parts")
        return media_in(_parts({"parts": inner}), _PROVIDER)
    if kind is None or kind.content is Content.MEDIA:
        return media_in(part, _PROVIDER)
    return without_binary(part[kind.name], _PROVIDER)[1] if kind.is_hosted else ()


def _is_plain_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str) and not _MARKS & _plain(part).keys()


def _is_response(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(_plain(part).get(_RESPONSE), Mapping)


def _response_text(response: Part) -> str:
    """Return the text of a response. One with a single text, such as `output` or `error`, is that text."""
    value = response.get("response")
    texts = list(value.values()) if isinstance(value, Mapping) else [value]
    if len(texts) == 1 and isinstance(texts[0], str):
        return texts[0]
    return _json(without_binary(value, _PROVIDER)[0]) if value else ""


def _change_response(part: Part, call_id: str, change: ChangeOutput) -> Part:
    """Return a response with its text changed, or the same part if nothing changed. Its media stays."""
    key = next(name for name in part if _camel(name) == _RESPONSE)
    response = part[key]
    text = _response_text(response)
    changed = change(call_id, text)
    if changed == text:
        return part
    value = response.get("response")
    name = next(iter(value)) if isinstance(value, Mapping) and len(value) == 1 else "output"
    return {**part, key: {**response, "response": {name: changed}}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
