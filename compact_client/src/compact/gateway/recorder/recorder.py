"""Turn frames into events. It has no input or output of its own, so that a test or another source can feed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from compact.delivery.stderr import log_problem
from compact.events import WarningEvent
from compact.gateway.frames import Frame, Kind
from compact.gateway.recorder.conversation import Call, time_text
from compact.gateway.recorder.exchanges import Exchange, Exchanges
from compact.gateway.recorder.gaps import Gaps, Reason
from compact.gateway.recorder.protocols import RequestBody
from compact.gateway.recorder.request_messages import KnownPrints, RequestMessages
from compact.gateway.recorder.response_chains import ResponseChains
from compact.gateway.recorder.session_files import SessionFiles
from compact.gateway.recorder.session_numbers import SessionNumbers
from compact.gateway.recorder.sessions import Session, Sessions
from compact.recording import ArchiveTranscript

_UNCOMPACTED = {
    "late": "The compactor needed too long.",
    "unavailable": "The compactor did not run.",
    "too_large": "Its body was larger than the compactor reads.",
}
Emit = Callable[[dict[str, Any]], None]


class Recorder:
    """Records what a relay has forwarded."""

    def __init__(
        self,
        emit: Emit,
        *,
        archive: ArchiveTranscript | None = None,
        report_session: Callable[[str, str], None] = lambda client, session_id: None,
        numbers: SessionNumbers | None = None,
        files: SessionFiles | None = None,
    ) -> None:
        self.figures = {"exchanges": 0, "events": 0, "gaps": 0, "gap_bytes": 0, "unreadable": 0}
        self._emit = emit
        self._archive = archive
        self._report_session = report_session
        self._exchanges = Exchanges()
        self._numbers = numbers or SessionNumbers()
        self._files = files
        self._sessions = Sessions(load=self._load_session)
        self._gaps = Gaps(self._put_clean)
        self._chains = ResponseChains()
        self._prints = KnownPrints()
        self._calls: dict[str, tuple[Session, Call]] = {}
        self._clients: dict[str, str] = {}

    def feed(self, frame: Frame) -> None:
        """Read one frame. A request that cannot be read is counted, and never stops the recording of others."""
        if frame.kind is Kind.GAP:
            self._add_gap(frame)
            return
        for exchange in self._exchanges.feed(frame):
            try:
                self._read(exchange)
            except Exception as error:
                self.figures["unreadable"] += 1
                self._calls.pop(exchange.id, None)
                # Only the type: the message of an error may quote the prompt.
                log_problem("Ariadne", f"A request was not recorded: {type(error).__name__}.")

    def save_idle(self) -> None:
        """Report gaps that wait, and write the sessions that wait for their users, and their numbers."""
        self._gaps.report_all()
        self._numbers.save()
        if self._files is not None:
            self._files.save_idle(self._sessions)

    def close(self) -> None:
        """Report gaps that wait, and write all sessions and their numbers."""
        self._gaps.report_all()
        self._numbers.save()
        if self._files is not None:
            self._files.save_all(self._sessions)

    def _load_session(self, agent: str, session_id: str) -> Session | None:
        """Return a session of an earlier recorder. One that misses later calls is of no use."""
        session = self._files.load(agent, session_id) if self._files is not None else None
        if session is None:
            return None
        threads = [conversation.thread for conversation in session.conversations.values()]
        return session if self._numbers.are_those_of(session_id, threads) else None

    def _read(self, exchange: Exchange) -> None:
        is_over = exchange.ended_at > 0
        if not exchange.is_begun:
            exchange.is_begun = True
            self._begin(exchange)
        if is_over:
            self._finish(exchange)

    def _begin(self, exchange: Exchange) -> None:
        if exchange.problem:
            self._add_unreadable(exchange)
            return
        if not exchange.body:
            return
        try:
            body = RequestBody(bytes(exchange.body))
        except msgspec.DecodeError:
            exchange.problem = "unreadable"
            self._add_unreadable(exchange)
            return
        exchange.body = bytearray()
        if not self._chains.complete(exchange, body):
            exchange.problem = "unreadable"
            self._add_unreadable(exchange)
            return
        exchange.input = body
        messages = RequestMessages(exchange.protocol, body, self._prints)
        session, request = self._sessions.find(exchange, body, messages)
        is_known = request.agent_id in session.conversations
        conversation = session.conversation(request.agent_id, exchange.protocol)
        if not is_known and self._numbers.restore(session.id, conversation.thread):
            conversation.has_gap = True
        if request.agent_id:
            session.recorder.agent(request.agent_id, name=request.agent_type or None, at=time_text(exchange.started_at))
        call = conversation.begin(exchange, body, messages, request)
        self._calls[exchange.id] = session, call
        session.open_calls += 1
        self._warn_uncompacted(exchange, session)
        self._announce(exchange, session)
        self._send(session)

    def _finish(self, exchange: Exchange) -> None:
        self.figures["exchanges"] += 1
        if exchange.input is not None:
            self._chains.add(exchange, exchange.input)
        session, call = self._calls.pop(exchange.id, (None, None))
        if session is None or call is None:
            return
        session.open_calls -= 1
        conversation = session.conversation(call.request.agent_id, exchange.protocol)
        recorded = conversation.finish(exchange, call)
        self._numbers.note(session.recorder, conversation.thread)
        session.note_end(call.request.agent_id)
        self._sessions.pack_idle()
        self._send(session)
        if recorded is not None:
            self._put(session, session.events.request_event(recorded.span, recorded.event))

    def _send(self, session: Session) -> None:
        """Emit what is new in a session."""
        spans = session.recorder.drain()
        if not spans:
            return
        for event in session.events.session_events():
            self._put(session, event)
        for span in spans:
            for event in session.events.span_events(span, archive=self._archive):
                self._put(session, event)

    def _put(self, session: Session, event: dict[str, Any]) -> None:
        self._put_clean(session.redactor.clean_labels(event))

    def _put_clean(self, event: dict[str, Any]) -> None:
        self.figures["events"] += 1
        self._emit(event)

    def _announce(self, exchange: Exchange, session: Session) -> None:
        client = exchange.head["client"]
        if client and self._clients.get(client) != session.id:
            self._clients[client] = session.id
            self._report_session(client, session.id)

    def _warn_uncompacted(self, exchange: Exchange, session: Session) -> None:
        """Report a request that compact mode has sent without a check."""
        reason = _UNCOMPACTED.get(exchange.head.get("rewrite", "none"))
        if reason is not None:
            text = f"A request was sent without a check of its length. {reason}"
            event = WarningEvent(severity="medium", code="compaction_skipped", message=text)
            self._put(session, session.events.single_event(event, at=time_text(exchange.started_at)))

    # Gaps.

    def _add_gap(self, frame: Frame) -> None:
        gap = frame.json()
        numbers, size = list(gap["exchanges"]), int(gap["bytes_dropped"])
        self.figures["gaps"] += len(numbers)
        self.figures["gap_bytes"] += size
        for number in numbers:
            exchange = self._exchanges.forget(number)
            session, _ = self._calls.pop(exchange.id if exchange else "", (None, None))
            if session is not None:
                session.open_calls -= 1
            self._note_gap(exchange, session, "recorder_busy", at=frame.time, size=size)
            size = 0  # The frame has the sum of all its exchanges.
        self._gaps.report(frame.time)

    def _note_gap(
        self, exchange: Exchange | None, session: Session | None, reason: Reason, *, at: float, size: int = 0
    ) -> None:
        """Note that a request was not recorded, and in which sessions it may be missing."""
        if session is None and exchange is not None:
            session = self._sessions.find_named(exchange.headers, exchange.head["path"])
        if session is not None:
            session.note_gap()
            self._gaps.add(session.id, reason, at=at, size=size)
            return
        credential = exchange.head["credential"] if exchange is not None else None
        self._sessions.note_gap(credential)
        self._gaps.add_unknown(credential or "", reason, at=at, size=size)

    def _add_unreadable(self, exchange: Exchange) -> None:
        self.figures["unreadable"] += 1
        reason: Reason = "body_too_large" if exchange.problem == "body_too_large" else "unreadable"
        self._note_gap(exchange, None, reason, at=exchange.started_at)
        self._gaps.report(exchange.ended_at or exchange.started_at)
