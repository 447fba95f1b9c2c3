"""Decide about requests: read frames, ask the managers, and send verdicts.

The thread that reads frames finds sessions and reads answers. Everything that can take long runs on the threads of a
pool, so that one compaction delays no other session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import msgspec

from compact.agents.agent import WireRequest
from compact.delivery import fast_json
from compact.delivery.stderr import log_problem
from compact.engine.overflow.errors import is_context_length_error
from compact.gateway import frames
from compact.gateway.compactor.sessions import CompactedSession, Element
from compact.gateway.frames import Frame, Kind, Verdict
from compact.gateway.recorder.conversation import TURNS
from compact.gateway.recorder.exchanges import Exchange, Exchanges
from compact.gateway.recorder.prompt import is_summary_request
from compact.gateway.recorder.protocols import RequestBody
from compact.gateway.recorder.request_messages import KnownPrints, RequestMessages
from compact.gateway.recorder.response_chains import PREVIOUS, ResponseChains
from compact.gateway.recorder.sessions import SessionFinder
from compact.integrations.model_api import ModelApi
from compact.integrations.model_call import ModelCall
from compact.integrations.stream_events import StreamedOverflow, StreamHead
from compact.manager import CompactManager
from compact.messages.codecs import get_codec
from compact.messages.codecs.quarantine import decode_item
from compact.planning.plan import CompactionPlan

_MAX_ERROR_CHARS = 20_000
_MAX_WORKS = 2_000
"""Requests whose answers have not ended. Above it, the oldest ones are forgotten."""
_MAX_KNOWN_BYTES = 32 << 20
"""The bytes of the last prompts of all sessions that are kept parsed."""
_HTTP_OK = 200


class _Managers(Protocol):
    agents: frozenset[str]

    def get(self, model: str) -> CompactManager:
        """Return the manager of a model."""


class ProviderRejection(Exception):
    """The answer of a provider that did not accept a request."""


@dataclass(slots=True)
class _Work:
    """One request, from its arrival to the end of its answer."""

    id: int
    exchange: Exchange
    session: CompactedSession
    request: WireRequest
    body: RequestBody
    elements: list[Element]
    call: ModelCall
    head: StreamHead | None = field(default_factory=StreamHead)
    error: str = ""
    """The text of an overflow."""
    is_answered: bool = False
    """True once there is a verdict about the answer."""


class Compactor:
    """Reads frames and sends verdicts. `submit` runs a function on another thread."""

    def __init__(
        self, managers: _Managers, send: Callable[[bytes], None], submit: Callable[[Callable[[], None]], object]
    ) -> None:
        self._managers = managers
        self._send = send
        self._submit = submit
        self._exchanges = Exchanges()
        self._sessions: SessionFinder[CompactedSession] = SessionFinder(CompactedSession)
        self._chains = ResponseChains()
        self._prints = KnownPrints()
        self._works: dict[int, _Work] = {}

    def feed(self, frame: Frame) -> None:
        """Read one frame. A request that cannot be read is sent as it is."""
        if frame.kind is Kind.PING:
            self._send(frames.encode(Kind.PING, 0, time.time()))
            return
        if frame.kind is Kind.GAP:
            for number in frame.json()["exchanges"]:
                self._exchanges.forget(number)
                self._works.pop(number, None)
            return
        try:
            self._read(frame)
        except Exception as error:
            # Only the type: the message of an error may quote the prompt.
            log_problem("Ariadne", f"A request is not compacted: {type(error).__name__}.")
            self._works.pop(frame.exchange, None)
            self._answer(frame.exchange, "original" if frame.kind is Kind.REQUEST_END else "release")

    def _read(self, frame: Frame) -> None:
        number = frame.exchange
        over = [exchange for exchange in self._exchanges.feed(frame) if exchange.ended_at]
        match frame.kind:
            case Kind.OPEN if "retry_of" in (head := frame.json()):
                self._continue(number, int(head["retry_of"]))
            case Kind.REQUEST_END:
                exchange = self._exchanges.get(number)
                if exchange is not None and number not in self._works:
                    self._ask(number, exchange)
        for exchange in over:
            self._finish(number, exchange)

    # Requests.

    def _ask(self, number: int, exchange: Exchange) -> None:
        api = exchange.protocol.api
        if exchange.problem:
            self._answer(number, "original")
            return
        try:
            body = RequestBody(bytes(exchange.body))
        except msgspec.DecodeError:
            self._answer(number, "original")
            return
        exchange.body = bytearray()
        is_chained = bool(body.get(PREVIOUS))
        if not self._chains.complete(exchange, body):
            self._answer(number, "original")
            return
        exchange.input = body
        messages = RequestMessages(exchange.protocol, body, self._prints)
        session, request = self._sessions.find(exchange, body, messages)
        elements = session.read(request.agent_id, body.elements(api.items_key))
        self._drop_oldest(session)
        is_partial = not is_chained and api.is_kept_by_server(body)
        if is_partial or not self._may_compact(exchange, session, request, elements):
            self._answer(number, "original", session.id)
            return
        manager = self._managers.get(exchange.protocol.model(body, exchange.head["path"]))
        items = [element.item for element in elements]
        call = ModelCall(manager, session.id, items, options=lambda: api.read_options(body))
        while len(self._works) >= _MAX_WORKS:
            self._works.pop(next(iter(self._works)))
        work = self._works[number] = _Work(number, exchange, session, request, body, elements, call)
        exchange.watch = partial(self._watch, work)
        self._submit(partial(self._prepare, work, api))

    def _drop_oldest(self, current: CompactedSession) -> None:
        """Bound the memory of parsed messages. The session that was used longest ago is first."""
        size = sum(session.size for session in self._sessions)
        for session in self._sessions if size > _MAX_KNOWN_BYTES else ():
            if size <= _MAX_KNOWN_BYTES:
                return
            if session is not current:
                size -= session.size
                session.drop_elements()

    def _may_compact(
        self,
        exchange: Exchange,
        session: CompactedSession,
        request: WireRequest,
        elements: Sequence[Element],
    ) -> bool:
        """Return True for a turn of a conversation of an agent that is to be compacted."""
        if not exchange.head.get("is_compacted") and not self._is_named(session):
            return False
        if (
            request.request_class not in TURNS
            or not elements
            or not all(isinstance(element.item, dict) for element in elements)
        ):
            return False
        last = exchange.protocol.items(elements[-1].item)[-1:]
        wire = session.agent.wire if session.agent else None
        codec = get_codec(exchange.protocol.format)
        return not any(is_summary_request(wire, decode_item(codec, item, 0)) for item in last)

    def _is_named(self, session: CompactedSession) -> bool:
        # `compactctl run claude` and the recorder have two names for one agent.
        return session.agent is not None and any(
            session.agent.name == name or session.agent.name.startswith(f"{name}-") for name in self._managers.agents
        )

    def _prepare(self, work: _Work, api: ModelApi) -> None:
        try:
            body = self._new_body(work, api, work.call.prepare())
        except Exception as error:
            log_problem("Ariadne", f"A request is not compacted: {type(error).__name__}.")
            self._answer(work.id, "original", work.session.id)
            return
        self._reply(work, body)

    def _reply(self, work: _Work, body: bytes | None) -> None:
        if body is None:
            self._answer(work.id, "original", work.session.id)
            return
        plan = self._new_plan(work)
        for start in range(0, len(body), frames.MAX_PAYLOAD_BYTES):
            self._send(frames.encode(Kind.BODY, work.id, time.time(), body[start : start + frames.MAX_PAYLOAD_BYTES]))
        saved = max(0, plan.original_token_count - plan.compacted_token_count) if plan else 0
        self._answer(work.id, "replace", work.session.id, compactions=int(plan is not None), saved_tokens=saved)
        if plan is not None:
            log_problem("Ariadne", f"gateway: {work.session.id}: {plan.report()}")

    def _new_plan(self, work: _Work) -> CompactionPlan | None:
        """Return the plan of a session if it is new. Sub-agents of a session have plans of their own."""
        plan = work.call.manager.plan(work.session.id)
        if plan is None or (plan.thread_id, plan.version) in work.session.plans:
            return None
        work.session.plans.add((plan.thread_id, plan.version))
        return plan

    def _new_body(self, work: _Work, api: ModelApi, items: Sequence[Any]) -> bytes | None:
        """Return the body with other messages, or None if they are those of the agent. All other bytes stay."""
        elements = work.elements
        if len(items) == len(elements) and all(
            item is element.item for item, element in zip(items, elements, strict=True)
        ):
            return None
        raws = {id(element.item): element.raw for element in elements}
        messages = b",".join(raws.get(id(item)) or fast_json.dump(item) for item in items)
        fields = (
            fast_json.dump(name) + b":" + (b"[" + messages + b"]" if name == api.items_key else work.body.raw(name))
            for name in work.body.names
            # The new messages are all of them, and not only those after a response.
            if name != PREVIOUS
        )
        return b"{" + b",".join(fields) + b"}"

    # Answers.

    def _watch(self, work: _Work, value: Mapping[str, Any], *, is_document: bool) -> None:
        """Read an answer while it arrives, until its first content."""
        if is_document:
            if work.exchange.status != _HTTP_OK:
                text = fast_json.dump(value).decode("utf-8", "replace")[:_MAX_ERROR_CHARS]
                work.error = text if is_context_length_error(text) else ""
            return
        if work.head is None or work.is_answered:
            return
        try:
            if work.head.add(value):
                work.head = None
                self._release(work)
        except StreamedOverflow as overflow:
            work.head, work.error = None, str(overflow)
            self._recover(work)

    def _finish(self, number: int, exchange: Exchange) -> None:
        if exchange.input is not None:
            self._chains.add(exchange, exchange.input)
        work = self._works.get(number)
        if work is None:
            return
        if exchange.is_aborted and not work.is_answered:
            del self._works[number]
            return
        if work.error:
            self._recover(work)
            return
        self._release(work)
        del self._works[number]
        if exchange.status != _HTTP_OK or exchange.answer.error or exchange.is_aborted:
            return
        work.session.note_end(work.request.agent_id, work.elements, exchange)
        usage = exchange.answer.usage
        if usage is not None:
            self._submit(partial(work.call.report_usage, usage.to_dict()))

    def _release(self, work: _Work) -> None:
        if not work.is_answered:
            work.is_answered = True
            self._answer(work.id, "release", work.session.id)

    def _recover(self, work: _Work) -> None:
        if not work.is_answered:
            work.is_answered = True
            self._answer(work.id, "wait", work.session.id)
            self._submit(partial(self._shorten, work, work.exchange.protocol.api))

    def _shorten(self, work: _Work, api: ModelApi) -> None:
        """Answer an overflow with a shorter request, or give the provider's error to the agent."""
        try:
            items = work.call.recover(ProviderRejection(work.error))
            body = self._new_body(work, api, items)
        except Exception as error:
            # Only the type: the message of an error may quote the prompt.
            log_problem("Ariadne", f"A prompt that was too long is not sent again: {type(error).__name__}.")
            body = None
        if body is None:
            self._works.pop(work.id, None)
            self._answer(work.id, "release", work.session.id)
            return
        self._reply(work, body)

    def _continue(self, number: int, earlier: int) -> None:
        """Go on with a request that is sent again."""
        work = self._works.pop(earlier, None)
        exchange = self._exchanges.get(number)
        if work is None or exchange is None:
            return
        work.id, work.exchange = number, exchange
        exchange.input = work.body
        work.head, work.error, work.is_answered = StreamHead(), "", False
        exchange.watch = partial(self._watch, work)
        self._works[number] = work

    def _answer(
        self, number: int, action: str, session: str = "", *, compactions: int = 0, saved_tokens: int = 0
    ) -> None:
        verdict: Verdict = {
            "action": action,  # type: ignore[typeddict-item]
            "session": session,
            "compactions": compactions,
            "saved_tokens": saved_tokens,
        }
        self._send(frames.encode_json(Kind.VERDICT, number, time.time(), verdict))
