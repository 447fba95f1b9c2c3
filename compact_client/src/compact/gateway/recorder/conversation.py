"""One conversation on the wire: the main agent of a session, or one of its sub-agents.

Each request is compared with the one before in the same conversation. The `SessionRecorder` of the session gets what
happened, in the same way as from a log of the agent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, cast

from compact.agents.agent import Wire, WireRequest
from compact.engine.session.continuation import is_replacement
from compact.events import PromptChange, RequestClass, RequestEvent, RequestUsage, iso
from compact.gateway.recorder.exchanges import Exchange
from compact.gateway.recorder.prompt import Block, PromptReader, Redact, is_summary_request
from compact.gateway.recorder.prompt_change import common_prefix, compare, fates_of
from compact.gateway.recorder.protocols import Protocol, RequestBody
from compact.gateway.recorder.protocols.base import Item
from compact.gateway.recorder.request_messages import RequestMessages
from compact.ledgers.foreign_compaction import Compaction
from compact.messages.block_kinds import kind_of
from compact.reading.call_arguments import read_arguments
from compact.reading.prompt_parts import BlockPart, add_up, breakdown_of
from compact.recording import RecordedSpan, SessionRecorder, Thread
from compact.rendering.user_turns import FILLER_TEXTS

TURNS: frozenset[RequestClass] = frozenset({"main", "subagent"})
_CONTINUING = TURNS | {"compaction"}
"""Requests that have the blocks of the conversation."""
_MIN_SUMMARY_CHARS = 40
_HTTP_OK = 200


@dataclass(slots=True)
class Call:
    """One request while its answer arrives."""

    request: WireRequest
    model: str
    at: str
    span: RecordedSpan | None = None
    blocks: list[Block] = field(default_factory=list)
    fixed: list[BlockPart] = field(default_factory=list)
    change: PromptChange | None = None
    is_first: bool = False
    """True for the first request that was seen of its conversation."""
    is_continued: bool = False
    """True if the conversation began before that. The prompt before is then unknown."""
    kept: int = 0


@dataclass(slots=True)
class _Summary:
    """A summary that the agent has asked for, until the next prompt shows what became of it."""

    read: frozenset[bytes]
    text: str
    at: str
    duration_ms: float
    trigger: str
    span: RecordedSpan | None


@dataclass(slots=True)
class RecordedRequest:
    """A request event, and the span below which it belongs."""

    span: RecordedSpan
    event: RequestEvent


class Conversation:
    """Records the requests of one agent of a session."""

    def __init__(
        self,
        recorder: SessionRecorder,
        thread: Thread,
        protocol: Protocol,
        wire: Wire | None,
        redact: Redact,
        *,
        title: str,
        prompts: dict[str, tuple[str, str]],
    ) -> None:
        self.thread = thread
        self.protocol = protocol
        self.blocks: list[Block] = []
        """The last prompt with its answer."""
        self.has_gap = False
        """True if a request may be missing since the last one."""
        self._recorder = recorder
        self._wire = wire
        self._redact = redact
        self._title = title
        self._prompts = prompts
        """The calls of the session that may start a sub-agent, and its type, by their prompt."""
        self._reader: PromptReader | None = None
        self._summary: _Summary | None = None
        self._pending: tuple[Compaction, str] | None = None
        """A compaction whose new prompt the provider has not counted yet, and its title."""
        self._last_tokens: int | None = None
        self._last_request: str | None = None
        self._sent = 0
        """The number of blocks of the last prompt, without its answer."""
        self._results: set[str] = set()
        self._is_resumed = False
        """True for the first turn after a restart. The agent may have worked without the gateway before."""

    # Requests.

    def begin(self, exchange: Exchange, body: RequestBody, messages: RequestMessages, request: WireRequest) -> Call:
        """Record a request whose answer has begun."""
        at = time_text(exchange.started_at)
        model = exchange.answer.model or self.protocol.model(body, exchange.head["path"])
        call = Call(request, model, at)
        self._recorder.note_time(at)
        if not _is_answered(exchange):
            return call
        reader = self._prompt_reader(model)
        if request.request_class not in _CONTINUING:
            reader = PromptReader(self.protocol, self._wire, self._redact, model=model)
        call.blocks, call.fixed = reader.read(messages, at), reader.fixed_parts(body)
        if request.request_class in TURNS and self._asks_for_summary(call.blocks):
            call.request = replace(request, request_class="compaction")
        elif request.request_class in TURNS:
            self._read_prompt(call, exchange)
        if call.request.request_class == "compaction":
            call.kept = common_prefix(self.blocks, call.blocks)
            self._read_history(call.blocks)
        call.kept = min(call.kept, self._sent)
        if call.span is not None:
            self._sent = len(call.blocks)
        return call

    def finish(self, exchange: Exchange, call: Call) -> RecordedRequest | None:
        """Record the end of a request, and return its event. An answer that failed is beside the conversation."""
        ended_at = time_text(exchange.ended_at)
        self._recorder.note_time(ended_at)
        if call.span is None:
            call.span = self._aside_span(exchange, call)
        span, answer = call.span, exchange.answer
        span.ended_at = ended_at
        span.is_error = bool(answer.error) or exchange.status >= 400
        span.model = answer.model or span.model
        span.usage = answer.usage.to_dict() if answer.usage else {}
        if exchange.is_aborted:
            span.data = {**span.data, "interrupted": True}
        self._recorder.change(span)
        self._read_answer(exchange, call, span, ended_at)
        return RecordedRequest(span, self._event(exchange, call, span))

    def _read_prompt(self, call: Call, exchange: Exchange) -> None:
        """Compare a turn with the prompt before, and record what is new in it."""
        is_rewritten = exchange.head.get("rewrite") in ("compacted", "recovered")
        announced = self._summary is not None or call.request.is_compacted or self._has_new_summary(call.blocks)
        difference = compare(self.blocks, call.blocks, is_announced=announced)
        call.change, call.kept = difference.change, difference.kept
        call.is_first = difference.change == "start" and not self.blocks
        if difference.change in ("compaction", "clear") and not is_rewritten:
            self._compact(call, difference.change)
        if difference.change in ("compaction", "start"):
            self._summary = None
        self._read_new_blocks(call)
        self._recorder.set_prompt([block.message for block in call.blocks], self.thread)
        name = self._name_of_call(exchange)
        call.span = self._recorder.generation(name, at=call.at, model=call.model or None, thread=self.thread)
        self.blocks = call.blocks

    def _read_history(self, blocks: Sequence[Block]) -> None:
        """Take the prompt before from the request for its summary, if no request before it was seen.

        Agents leave out the last answer, so the compaction will be `inferred`.
        """
        if self.blocks or self.thread.prompt:
            return
        self.blocks = [block for block in blocks if not self._asks_for_summary([block])]
        self.has_gap = True

    def _name_of_call(self, exchange: Exchange) -> str:
        name = self._wire.name_of_call(exchange.answer.items) if self._wire else ""
        return name or exchange.answer.id or f"unnamed {exchange.started_at:.6f}"

    def _read_new_blocks(self, call: Call) -> None:
        first = call.kept
        known = {block.name for block in self.blocks[first:]}
        if call.is_first:
            # The history of a conversation that began before the recorder is not news.
            first = max((index + 1 for index, item in enumerate(call.blocks) if item.role == "assistant"), default=0)
            call.is_continued = first > 0
        for block in call.blocks[first:]:
            if block.name in known:
                continue
            if block.result_of:
                self._read_results(block, call.at)
            elif block.role == "user" and not block.is_aside and not self._is_summary(block):
                self._read_user(block, call)

    def _read_user(self, block: Block, call: Call) -> None:
        text = self._text(block)
        if not text.strip() or text in FILLER_TEXTS:
            return
        if call.request.agent_id and call.change == "start" and text in self._prompts:
            call_id, name = self._prompts.pop(text)
            self._recorder.agent(call.request.agent_id, name=name or None, parent=f"tool:{call_id}")
        item_id = block.message.item.get("id")
        if self._wire is not None and self._wire.has_message_ids and isinstance(item_id, str):
            self._recorder.user(replace(block.message, id=item_id), text, self.thread)
        else:
            self._recorder.user_after_call(block.message, text, self.thread)

    def _read_results(self, block: Block, at: str) -> None:
        reader = self._prompt_reader("")
        content = block.message.item.get("content")
        inner = content[0] if isinstance(content, list) and content else block.message.item
        is_error = isinstance(inner, dict) and bool(inner.get("is_error"))
        for call_id, text in reader.outputs(block):
            if call_id not in self._results:
                self._results.add(call_id)
                self._recorder.result(call_id, text, at=at, is_error=is_error, thread=self.thread)

    # Answers.

    def _read_answer(self, exchange: Exchange, call: Call, span: RecordedSpan, at: str) -> None:
        if not _is_answered(exchange):
            return
        blocks = self._answer_blocks(exchange, call, at)
        span.payload = {"output": self._output(blocks)}
        if call.request.request_class == "compaction":
            self._keep_summary(exchange, call, span, blocks, at)
        if call.request.request_class not in TURNS:
            return
        self.blocks = [*call.blocks, *blocks]
        for block in blocks:
            self._recorder.add(block.message, self.thread)
            self._open_calls(block, at)
        usage = exchange.answer.usage
        self._last_tokens = usage.total_tokens if usage else None
        self._complete_compaction(usage.input_tokens if usage else None)
        self.has_gap = self._is_resumed = False

    def _answer_blocks(self, exchange: Exchange, call: Call, at: str) -> list[Block]:
        items = [item for item in exchange.answer.items if item]
        if call.request.request_class in TURNS:
            return self._prompt_reader(call.model).read_answer(items, at)
        return PromptReader(self.protocol, self._wire, self._redact).read_answer(items, at)

    def _output(self, blocks: Sequence[Block]) -> list[Item]:
        """Return an answer as the messages that a log has."""
        if self.protocol.format != "anthropic" or not blocks:
            return [block.message.item for block in blocks]
        return [{"role": "assistant", "content": [block.message.item["content"][0] for block in blocks]}]

    def _open_calls(self, block: Block, at: str) -> None:
        for call in self._prompt_reader("").decode(block).tool_calls:
            if call.is_hosted:
                continue
            arguments = read_arguments(call.arguments)
            self._recorder.call(call.id, call.name, arguments, at=at, thread=self.thread)
            prompt = arguments.get("prompt") if isinstance(arguments, dict) else None
            if isinstance(prompt, str):
                self._prompts[prompt] = call.id, str(arguments.get("subagent_type") or "")

    def _aside_span(self, exchange: Exchange, call: Call) -> RecordedSpan:
        """Return the span of a call that is no turn: a summary, a title, a count, a probe, or one that failed."""
        name = self._name_of_call(exchange)
        kind = call.request.request_class
        data: dict[str, Any] = {"request_class": kind}
        if status := _unusual_status(exchange):
            data["http_status"] = status
        title: str = "summary request" if kind == "compaction" else kind
        if kind in TURNS:
            title = call.model or "model"
        return self._recorder.aside(name, title, at=call.at, model=call.model or None, data=data, thread=self.thread)

    # Compactions.

    def _asks_for_summary(self, blocks: Sequence[Block]) -> bool:
        """Return True if the last block is the instruction to write a summary."""
        return bool(blocks) and is_summary_request(self._wire, self._prompt_reader("").decode(blocks[-1]))

    def _keep_summary(
        self, exchange: Exchange, call: Call, span: RecordedSpan, blocks: Sequence[Block], at: str
    ) -> None:
        if span.is_error or exchange.is_aborted or not blocks:
            return
        self._summary = _Summary(
            read=frozenset(block.print for block in call.blocks),
            text="\n".join(filter(None, map(self._text, blocks))),
            at=at,
            # Rounded up, so that the compaction does not start after its request.
            duration_ms=math.ceil((exchange.ended_at - exchange.started_at) * 1e6 + 1) / 1000,
            trigger=call.request.trigger,
            span=span,
        )

    def _has_new_summary(self, blocks: Sequence[Block]) -> bool:
        kept = common_prefix(self.blocks, blocks)
        moved = {block.print for block in self.blocks[kept:]}
        candidates = {block.print for block in blocks[kept:] if block.print not in moved and self._is_summary(block)}
        return bool(candidates) and not candidates.issubset(block.print for block in self.blocks)

    def _is_summary(self, block: Block) -> bool:
        kind = kind_of(block.message.item)
        if (kind is not None and kind.is_sealed) or is_replacement(block.message.item):
            return True
        return self._wire is not None and block.role == "user" and self._wire.is_summary(self._text(block))

    def _compact(self, call: Call, change: PromptChange) -> None:
        """Begin a compaction from the last prompt to this one. It is recorded once the provider has counted it."""
        self._complete_compaction(None)
        self._recorder.set_prompt((block.message for block in self.blocks), self.thread)
        name = self._recorder.next_compaction_id(self.thread)
        summary = self._summary if change == "compaction" else None
        at = summary.at if summary else call.at
        compaction = self._recorder.begin_compaction(name, at=at, thread=self.thread)
        compaction.format = self.protocol.format
        is_unsure = self.has_gap or (self._is_resumed and summary is None)
        compaction.evidence = "inferred" if is_unsure else "exact"
        compaction.tokens_before = self._last_tokens
        compaction.trigger = "auto"
        if summary is not None:
            self._use_request(compaction, summary)
        compaction.after = tuple(block.message for block in call.blocks)
        block = self._summary_block(call.blocks, summary) if change == "compaction" else None
        if block is not None:
            self._read_summary(compaction, block)
        compaction.fates = fates_of(self.blocks, call.blocks, summarized=self._read_by_summary(summary, block))
        title = f"{self._title} compacted" if change == "compaction" else f"{self._title} cleared tool results"
        self._pending = compaction, title

    def _use_request(self, compaction: Compaction, summary: _Summary) -> None:
        """Take trigger and duration from the request for the summary, and put it below its compaction."""
        compaction.trigger, compaction.duration_ms = summary.trigger or "auto", summary.duration_ms
        if summary.span is not None:
            summary.span.parent = f"compaction:{compaction.id} check"
            self._recorder.change(summary.span)

    def _read_summary(self, compaction: Compaction, block: Block) -> None:
        block.message.is_program = True
        block.parts = [BlockPart("summary", "", block.tokens)]
        compaction.summary, compaction.summary_id = self._text(block), block.name
        kind = kind_of(block.message.item)
        compaction.is_opaque = kind is not None and kind.is_sealed

    def _read_by_summary(self, summary: _Summary | None, block: Block | None) -> frozenset[bytes] | None:
        if summary is not None:
            return summary.read
        # The request for the summary was not seen, so it is unknown what it left out.
        return frozenset(item.print for item in self.blocks) if block is not None else None

    def _summary_block(self, blocks: Sequence[Block], summary: _Summary | None) -> Block | None:
        """Return the block of a new prompt that has the summary."""
        known = {block.print for block in self.blocks}
        new = [block for block in blocks if block.print not in known and not block.is_aside]
        for block in new:
            if self._is_summary(block):
                return block
        if summary is None or len(summary.text) < _MIN_SUMMARY_CHARS:
            return None
        probe = summary.text[-_MIN_SUMMARY_CHARS * 3 : -_MIN_SUMMARY_CHARS].strip() or summary.text
        return next((block for block in new if probe in self._text(block)), None)

    def _complete_compaction(self, tokens_after: int | None) -> None:
        if self._pending is None:
            return
        (compaction, title), self._pending = self._pending, None
        compaction.tokens_after = tokens_after
        after = {message.id for message in compaction.after}
        newer = [message for name, message in self.thread.prompt.items() if name not in after]
        self._recorder.compaction(compaction, title, newer=newer)

    # The event.

    def _event(self, exchange: Exchange, call: Call, span: RecordedSpan) -> RequestEvent:
        usage = exchange.answer.usage.to_dict() if exchange.answer.usage else {}
        total = usage.get("input_tokens")
        parts = add_up(chain(call.fixed, *(block.parts for block in call.blocks)), total)
        if total is not None:
            span.breakdown = breakdown_of(parts)
        event = RequestEvent(
            source="gateway",
            model=call.model or None,
            api=self.protocol.name,
            request_class=call.request.request_class,
            turn=span.data.get("turn"),
            change=None if call.is_continued else call.change,
            tokens=total or sum(part["tokens"] for part in parts),
            parts=parts,
            message_count=len(call.blocks),
            new_messages=len(call.blocks) - call.kept,
            usage=cast(RequestUsage, usage) if usage else None,
            previous=self._last_request if call.kept else None,
            http_status=_unusual_status(exchange),
            kept=call.kept,
            prompt=[block.hash for block in call.blocks[call.kept :]],
        )
        if call.change is not None:
            self._last_request = span.key
        return event

    def _prompt_reader(self, model: str) -> PromptReader:
        if self._reader is None:
            self._reader = PromptReader(self.protocol, self._wire, self._redact, model=model)
            if self.blocks:
                self._reader.resume(self.blocks)
                self._is_resumed = True
        return self._reader

    def _text(self, block: Block) -> str:
        return self._prompt_reader("").decode(block).text


def time_text(seconds: float) -> str:
    """Return a time in the format of events."""
    return iso(datetime.fromtimestamp(seconds, UTC))


def _unusual_status(exchange: Exchange) -> int | None:
    return exchange.status if exchange.status not in (0, _HTTP_OK) else None


def _is_answered(exchange: Exchange) -> bool:
    """Return True if the provider has accepted the request."""
    return exchange.status == _HTTP_OK and not exchange.problem
