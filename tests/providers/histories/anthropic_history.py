"""Histories of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from compact.messages.block_kinds import BLOCK_KINDS, Content, Format
from providers import anthropic_api
from providers.anthropic_api import Signatures
from providers.histories.examples import example, kinds
from providers.histories.grammar import Instruct, Respond, Say, ToolCall
from providers.histories.history import History, Item, choose

_FORM = Format.ANTHROPIC
_MARK = {"type": "ephemeral"}
_ATTACHMENTS = [kind.name for kind in kinds(_FORM, place="user") if kind.name not in ("text", "tool_result")]
_EXTRAS = [kind.name for kind in kinds(_FORM, place="assistant") if kind.content is Content.DATA or kind.is_hosted]
_DIRECTIVES = [kind.name for kind in kinds(_FORM, place="system")]
_IN_RESULTS = ("image", "document", "search_result")
# The name of a tool of the API whose result has another name.
_SERVER_TOOLS = {"tool_search_tool_result": "tool_search_tool_regex"}
_PROGRAM = "code_execution"


@dataclass
class AnthropicHistory(History):
    signatures: Signatures = field(default_factory=Signatures)
    instruction_step: Instruct | None = None

    form = _FORM
    codec = "anthropic"

    def user_item(self, text: str, step: Say) -> Item:
        if not step.attachments:
            return {"role": "user", "content": text}
        blocks = [example(choose(_ATTACHMENTS, number), _FORM) for number in step.attachments]
        return {"role": "user", "content": [{"type": "text", "text": text}, *blocks]}

    def instruction(self, text: str, step: Instruct) -> Item:
        directives = [example(choose(_DIRECTIVES, step.extra), _FORM)] if step.extra % 3 == 0 else []
        return {"role": "system", "content": [{"type": "text", "text": text}, *directives]}

    def instruct(self, step: Instruct) -> None:
        """Keep an instruction until the next call. It may only be between the user and the assistant."""
        self.instruction_step = step

    def response(self, step: Respond) -> Iterator[None]:
        if self.instruction_step is not None and self.last_role() == "user":
            super().instruct(self.instruction_step)
            self.instruction_step = None
        yield
        blocks = self._first_blocks(step)
        if step.layout == "paused":
            call, result = self._hosted_pair(f"{_PROGRAM}_tool_result")
            self._assistant([*blocks, call])
            yield
            self._assistant([result, *self._texts(3)])
            return
        is_program = step.layout == "program" and bool(step.calls)
        program, end = self._hosted_pair(f"{_PROGRAM}_tool_result") if is_program else ({}, {})
        caller = {"caller": {"type": "code_execution_20260120", "tool_id": program["id"]}} if program else {}
        calls = [(call, self._call(call, **caller)) for call in step.calls]
        if step.layout == "split" and len(calls) > 1:
            self._assistant([*blocks, calls[0][1]])
            for _, block in calls[1:]:
                self._assistant([block])
        else:
            self._assistant([*blocks, *([program] if program else []), *(block for _, block in calls)])
        self._add_results(step, calls, must_answer=is_program)
        if is_program:
            yield
            self._assistant([end, *self._texts(3)])

    def validate(self, prompt: Sequence[Item]) -> None:
        body: Item = {"model": "claude-opus-4-6", "max_tokens": 4_096, "messages": list(prompt)}
        if self.thinks:
            body["thinking"] = {"type": "enabled", "budget_tokens": 2_000}
        if self.has_cache_marks:
            body["system"] = [{"type": "text", "text": "You are an agent.", "cache_control": _MARK}]
            body["tools"] = [{"name": "read", "input_schema": {"type": "object"}, "cache_control": _MARK}]
        anthropic_api.validate(body, self.signatures, is_beta=True)

    def list_to_send(self) -> list[Item]:
        """Return the list with marks on its last two user messages, as coding agents send it."""
        if not self.has_cache_marks:
            return list(self.items)
        items = [_without_marks(item) for item in self.items]
        users = [index for index, item in enumerate(items) if item["role"] == "user"]
        for index in users[-2:]:
            items[index] = _with_mark(items[index])
        return items

    def may_call(self) -> bool:
        return super().may_call() or (bool(self.items) and self._is_paused())

    def ends_with_calls(self) -> bool:
        last = next((item for item in reversed(self.items) if item["role"] == "assistant"), {"content": ""})
        return isinstance(last["content"], list) and any(block["type"] == "tool_use" for block in last["content"])

    def is_spoken_by_user(self, item: Item) -> bool:
        return super().is_spoken_by_user(item) and not item["content"].startswith("(")

    def _is_paused(self) -> bool:
        content = self.items[-1]["content"]
        return (
            self.last_role() == "assistant"
            and isinstance(content, list)
            and content[-1]["type"] in ("server_tool_use", "mcp_tool_use")
        )

    def _first_blocks(self, step: Respond) -> list[Item]:
        """Return the blocks before the calls. A response without any has a text."""
        extras = [block for number in step.extras for block in self._extra(choose(_EXTRAS, number))]
        texts = self._texts(step.words or (0 if step.calls or step.layout == "paused" else 3))
        return [*self._thoughts(step), *extras, *texts]

    def _thoughts(self, step: Respond) -> list[Item]:
        if not self.thinks:
            return []
        if step.words == 30:
            return [{"type": "redacted_thinking", "data": f"EsAB{self.next_id()}" * 20}]
        thought = self.text(30, "thought")
        return [{"type": "thinking", "thinking": thought, "signature": self.signatures.sign(thought)}]

    def _texts(self, words: int) -> list[Item]:
        return [{"type": "text", "text": self.text(words, "reply")}] if words else []

    def _extra(self, name: str) -> tuple[Item, ...]:
        if BLOCK_KINDS[name].content is Content.RESULT:
            return self._hosted_pair(name)
        if BLOCK_KINDS[name].content is Content.CALL:
            return self._hosted_pair(BLOCK_KINDS[name].answered_by or "web_search_tool_result")
        return (example(name, _FORM),)

    def _hosted_pair(self, result: str) -> tuple[Item, Item]:
        """Return a call that the provider runs, and its result."""
        call_id = f"srvtoolu_{self.next_id()}"
        if result == "mcp_tool_result":
            call = example("mcp_tool_use", _FORM, id=call_id)
        else:
            name = _SERVER_TOOLS.get(result, result.removesuffix("_tool_result"))
            call = example("server_tool_use", _FORM, id=call_id, name=name)
        return call, example(result, _FORM, tool_use_id=call_id)

    def _call(self, call: ToolCall, **fields: Any) -> Item:
        clients = [kind.name for kind in kinds(_FORM, content=Content.CALL) if not kind.is_hosted]
        return example(choose(clients, call.kind), _FORM, id=f"toolu_{self.next_id()}", name=call.tool, **fields)

    def _assistant(self, blocks: list[Item]) -> None:
        self.items.append({"role": "assistant", "content": blocks})

    def _add_results(self, step: Respond, calls: list[tuple[ToolCall, Item]], *, must_answer: bool) -> None:
        results = [self._result(call, block) for call, block in calls if call.is_answered or must_answer]
        self.must_say = len(results) < len(calls)
        if step.layout == "reversed":
            results.reverse()
        if results:
            self.items.append({"role": "user", "content": results})

    def _result(self, call: ToolCall, block: Item) -> Item:
        content: Any = self.output_text(call)
        if call.attachment:
            content = [{"type": "text", "text": content}, example(choose(_IN_RESULTS, call.attachment), _FORM)]
        name = BLOCK_KINDS[block["type"]].answered_by
        return example(name, _FORM, tool_use_id=block["id"], content=content)


def _without_marks(item: Item) -> Item:
    """Return a message of a host that has the marks of an earlier prompt in its list."""
    if isinstance(item["content"], str):
        return item
    blocks = [{key: value for key, value in block.items() if key != "cache_control"} for block in item["content"]]
    return {**item, "content": blocks}


def _with_mark(item: Item) -> Item:
    content = item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**item, "content": [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]}
