"""Histories of OpenAI's APIs: Chat Completions and Responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from compact.messages.block_kinds import BLOCK_KINDS, BlockKind, Content, Format
from providers import chat_api, responses_api
from providers.histories.examples import example, kinds
from providers.histories.grammar import Instruct, Respond, Say, ToolCall
from providers.histories.history import History, Item, choose
from providers.responses_api import Store

_CHAT, _RESPONSES = Format.CHAT, Format.RESPONSES
_CHAT_ATTACHMENTS = [kind.name for kind in kinds(_CHAT, place="user") if kind.name != "text"]
_CHAT_CALLS = [kind.name for kind in kinds(_CHAT, content=Content.CALL)]
_ATTACHMENTS = [kind.name for kind in kinds(_RESPONSES, place="user")]
_CALLS = [kind for kind in kinds(_RESPONSES, content=Content.CALL) if kind.answered_by and not kind.is_hosted]
_CALLS_OF_PROGRAMS = [kind for kind in _CALLS if "caller.caller_id" in kind.links]
# Items that the host adds. All others without a client's answer are parts of a response.
_INPUTS = ("additional_tools", "configuration_update")
_OUTPUTS = [
    kind
    for kind in kinds(_RESPONSES, place="item")
    if kind.name not in ("message", "reasoning", *_INPUTS)
    and (kind.is_sealed or kind.content is Content.DATA or (kind.is_hosted and not kind.answered_by))
    and kind.content is not Content.RESULT
]
_ID_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}


class ChatHistory(History):
    form = _CHAT
    codec = "chat"

    def user_item(self, text: str, step: Say) -> Item:
        if not step.attachments:
            return {"role": "user", "content": text}
        names = self._portable(_CHAT_ATTACHMENTS)
        parts = [example(choose(names, number), _CHAT) for number in step.attachments]
        return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}

    def response(self, step: Respond) -> Iterator[None]:
        yield
        calls = [(call, self._call(call)) for call in step.calls]
        content: Any = self.text(step.words, "reply") if step.words or not calls else None
        if step.extras and content and self._portable(["refusal"]):
            content = [{"type": "text", "text": content}, example("refusal", _CHAT)]
        message: Item = {"role": "assistant", "content": content}
        if step.layout == "split" and len(calls) > 1:
            self.items += [{**message, "tool_calls": [block]} for _, block in calls]
        else:
            self.items.append({**message, "tool_calls": [block for _, block in calls]} if calls else message)
        outputs = [
            {"role": "tool", "tool_call_id": block["id"], "content": self.output_text(call)}
            for call, block in calls
            if call.is_answered
        ]
        self.must_say = len(outputs) < len(calls)
        self.items += outputs[::-1] if step.layout == "reversed" else outputs

    def validate(self, prompt: Sequence[Item]) -> None:
        chat_api.validate({"model": "gpt-5", "messages": list(prompt)})

    def _call(self, call: ToolCall) -> Item:
        block = example(choose(self._portable(_CHAT_CALLS), call.kind), _CHAT, id=f"call_{self.next_id()}")
        return {**block, block["type"]: {**block[block["type"]], "name": call.tool}}

    def _portable(self, names: list[str]) -> list[str]:
        """Return the rows that the way to the provider can carry."""
        return [name for name in names if self.route.kinds is None or name in self.route.kinds]


@dataclass
class ResponsesHistory(History):
    store: Store = field(default_factory=Store)

    form = _RESPONSES
    codec = "responses"

    def user_item(self, text: str, step: Say) -> Item:
        if not step.attachments:
            return {"role": "user", "content": text}
        parts = [example(choose(_ATTACHMENTS, number), _RESPONSES) for number in step.attachments]
        return {"role": "user", "content": [{"type": "input_text", "text": text}, *parts]}

    def instruction(self, text: str, step: Instruct) -> Item:
        if step.extra % 3:
            return super().instruction(text, step)
        return example(choose(_INPUTS, step.extra), _RESPONSES)

    def response(self, step: Respond) -> Iterator[None]:
        yield
        is_program = step.layout == "program" and bool(step.calls)
        rows = _CALLS_OF_PROGRAMS if is_program else _CALLS
        program = self._new("program") if is_program else None
        caller = {"caller": {"type": "program", "caller_id": program["call_id"]}} if program else {}
        calls = [(call, self._call(call, choose(rows, call.kind), caller)) for call in step.calls]
        answered = [(call, item) for call, item in calls if call.is_answered]
        self.must_say = len(answered) < len(calls)
        outputs = [self._output(call, item, caller) for call, item in answered]
        extras = [self._new(choose(_OUTPUTS, number).name) for number in step.extras]
        # The server compacts before it responds.
        self.items += [item for item in extras if BLOCK_KINDS[item["type"]].is_sealed]
        response = [item for item in extras if not BLOCK_KINDS[item["type"]].is_sealed]
        response += [*self._messages(step), *([program] if program else [])]
        self._add_response([*response, *(item for _, item in calls)])
        if step.layout == "split" and not self.thinks and len(outputs) == len(calls) > 1:
            # The host runs one call after the other, and writes each output after its call. With reasoning, nothing
            # says that the later calls belong to it.
            del self.items[-len(calls) :]
            self.items += [part for (_, item), output in zip(calls, outputs, strict=True) for part in (item, output)]
        else:
            self.items += outputs[::-1] if step.layout == "reversed" else outputs
        if program and not self.must_say:
            yield
            end = self._new("program_output", call_id=program["call_id"], result=self.text(30, "result"))
            self.items += [end, {"role": "assistant", "content": self.text(3, "reply")}]

    def validate(self, prompt: Sequence[Item]) -> None:
        responses_api.validate({"model": "gpt-5", "input": list(prompt)}, self.store)

    def last_role(self) -> str:
        item = self.items[-1] if self.items else {}
        kind = BLOCK_KINDS.get(item.get("type", "message"))
        if kind is not None and (kind.content is Content.RESULT or kind.name in _INPUTS):
            return "tool"
        return str(item.get("role", "assistant"))

    def _new(self, name: str, /, **fields: Any) -> Item:
        """Return an item with ids of its own."""
        item = example(name, _RESPONSES, **fields)
        number = self.next_id()
        for key in ("id", "call_id"):
            if key in item and key not in fields:
                item[key] = f"{_ID_PREFIXES.get(name, name)}_{number}"
        if name in _ID_PREFIXES and self.thinks:
            item["id"] = f"{_ID_PREFIXES[name]}_{number}"
        if item.get("encrypted_content"):
            self.store.sealed.add(item["encrypted_content"])
        return item

    def _call(self, call: ToolCall, kind: BlockKind, caller: Item) -> Item:
        fields = {"name": call.tool} if kind.name in ("function_call", "custom_tool_call") else {}
        number = self.next_id()
        ids = {"id": f"{kind.name}_{number}"} if kind.id_key == "id" else {"call_id": f"call_{number}"}
        return self._new(kind.name, **fields, **ids, **caller)

    def _output(self, call: ToolCall, item: Item, caller: Item) -> Item:
        kind = BLOCK_KINDS[BLOCK_KINDS[item["type"]].answered_by]
        call_id = item[BLOCK_KINDS[item["type"]].id_key]
        output = example(kind.name, _RESPONSES, **{kind.id_key: call_id}, **caller)
        text = self.output_text(call) if "name" in item else self.text(call.output_words, "out")
        if isinstance(output.get("output"), str):
            image = example("input_image", _RESPONSES)
            has_image = call.attachment and kind.name == "function_call_output"
            output["output"] = [{"type": "input_text", "text": text}, image] if has_image else text
        elif kind.name == "shell_call_output":
            output["output"] = [{**output["output"][0], "stdout": text}]
        return output

    def _messages(self, step: Respond) -> list[Item]:
        if not step.words and step.calls:
            return []
        part = {"type": "output_text", "text": self.text(step.words or 3, "reply"), "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return [{**message, "id": f"msg_{self.next_id()}"}]

    def _add_response(self, response: list[Item]) -> None:
        """Add the items of a response, with reasoning that they cannot be without."""
        if self.thinks:
            reasoning = self._new("reasoning", encrypted_content=f"gAAAA{self.next_id()}" * 10)
            self.store.followers[reasoning["id"]] = response[0]
            self.store.required_reasoning.update((item["id"], reasoning["id"]) for item in response if "id" in item)
            self.items.append(reasoning)
        self.items += response


HISTORIES: dict[str, type[History]] = {"chat": ChatHistory, "responses": ResponsesHistory}
