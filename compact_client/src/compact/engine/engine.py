"""The steps of one call: recognise, bring back, count, decide, compact, send.

Written as generators, so that the sync and the async front run the very same steps. Holds no state of its own
beyond its parts; everything about a session is in its `Session`.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from compact import events
from compact.config import CompactConfig
from compact.delivery.stderr import say
from compact.engine.call import Call, codec_for
from compact.engine.check_events import emit_error, emit_estimate, emit_quality
from compact.engine.effects import Steps, of_store
from compact.engine.ledger import hash_of
from compact.engine.plan_restore import restore
from compact.engine.quality import asks_for_context
from compact.engine.rehydration import bring_back, inject
from compact.engine.request import Sent, written
from compact.engine.rounds import Round, settle
from compact.engine.session import Seen, Session
from compact.engine.token_counter import Counting
from compact.exceptions import CompactError, MalformedMessage, StoreFailed
from compact.messages import Message
from compact.messages.codecs.base import Codec
from compact.planning.durability import ToolDurabilityPolicy, declared_policy
from compact.planning.rehydration import RehydrationConfig, TurnContext
from compact.planning.trigger import Decision, decide
from compact.planning.truncation import fits_without_counting, truncate_output
from compact.redaction.outbound import OutboundRedactor

R = TypeVar("R")

_COMPLAIN_EVERY_S = 60.0


class Engine:
    """Runs calls for one configuration."""

    def __init__(self, cfg: CompactConfig, clock: events.Clock) -> None:
        self.cfg = cfg
        self.policy = cfg.policy
        self.clock = clock
        self.counting = Counting(cfg.token_estimator, cfg.model)
        self.outbound = OutboundRedactor(cfg.redaction, hook=cfg.redact)
        self.summarizer = cfg.summarizer if cfg.summarizer is not None else _built_in_summarizer()
        self.rehydration: RehydrationConfig = cfg.rehydration or RehydrationConfig()
        self._warned: set[str] = set()
        self._complaints: dict[str, float] = {}
        self._undelivered: deque[tuple[str, Awaitable[Any]]] = deque()

    def check_for(self, session: Session, trigger: events.CheckTrigger) -> events.CheckSpan:
        event = events.CheckEvent(
            turn=session.turn, model=self.cfg.model, trigger=trigger, max_tokens=self.cfg.max_context_tokens
        )
        sink = self._sink(session.session_id)
        check = events.CheckSpan(session.session_id, session.trace_id, event, sink=sink, clock=self.clock)
        if not self.outbound.enabled and session.session_id not in self._warned:
            self._warned.add(session.session_id)
            text = "redaction is off: messages are exported and archived as they are"
            check.emit(events.WarningEvent(severity="high", code="redaction_disabled", message=text))
        return check

    def preflight(self, session: Session, call: Call) -> Steps[list[Any]]:
        """One call, from the host's list to the list to send."""
        if call.note is None and session.requested_note is not None:
            call = replace(call, note=session.requested_note)
        session.requested_note = None
        session.turn += 1
        check = self.check_for(session, "preflight" if call.note is None else "manual")
        fixed = self.counting.tools(call.tools) + self._schema_tokens(call.output_schema)
        spoken = self.counting.text(call.instructions) if call.instructions else 0
        try:
            seen = yield from self.take_in(session, call, check)
        except MalformedMessage as error:
            return self._skip(check, call.items, error)
        session.protected_ids.update(session.shown.ids[place] for place in call.protected)
        session.durability.update(self._durability(call.tools))
        turn = TurnContext(session.turn)
        returned = yield from bring_back(self, session, seen.new, turn, check)
        estimate = emit_estimate(self, session, check, fixed, spoken)
        if session.last_estimate and estimate >= session.last_estimate:
            session.growth.append(estimate - session.last_estimate)
        decision = self.decide(session, estimate, is_manual=call.note is not None)
        is_error = False
        try:
            yield from settle(Round(self, session, check, call, turn, fixed + spoken), decision, estimate)
        except CompactError as error:
            is_error = True
            emit_error(check, error, "none: raised to the caller")
            raise
        finally:
            session.last_estimate = self.estimate(session, fixed + spoken)
            check.update(
                triggered=decision.triggered,
                tokens_before=estimate,
                tokens_after=session.last_estimate,
                step=session.plan.step if session.plan else 0,
            )
            check.close(is_error=is_error)
        injected = inject(self, session, returned, self._room_left(session))
        plan_version = session.plan.version if session.plan else 0
        session.sent.append(Sent(session.view_version, len(session.view), plan_version, injected))
        self._watch_quality(session, seen, check)
        return written(session.request, call.items)

    def delivering(self, steps: Steps[R]) -> Steps[R]:
        """The steps, and after them what async exporters and storages were given meanwhile."""
        try:
            result = yield from steps
        except CompactError:
            yield from self._deliver()
            raise
        yield from self._deliver()
        return result

    def _deliver(self) -> Steps[None]:
        while self._undelivered:
            name, waiting = self._undelivered.popleft()
            try:
                yield lambda waiting=waiting: waiting  # type: ignore[misc]
            except Exception as error:
                self._complain(f"{name} failed: {error}")

    # Recognise.

    def _restore_once(
        self, session: Session, items: Sequence[Any], codec: Codec, check: events.CheckSpan
    ) -> Steps[None]:
        """On a session's first call, take over the plan that another process may have stored."""
        if session.is_restored or self.cfg.plan_store is None:
            return
        session.is_restored = True
        session.codec = codec
        yield from self._load_plan(session, items, check)

    def take_over(self, session: Session, items: Sequence[Any], check: events.CheckSpan) -> Steps[None]:
        """Give up the session's own plan for the one that another process has stored, and render under it."""
        yield from self._load_plan(session, items, check)
        session.render(**self._render_arguments(session))

    def _load_plan(self, session: Session, items: Sequence[Any], check: events.CheckSpan) -> Steps[None]:
        try:
            plan, version = yield from of_store(
                "plan", lambda: self.cfg.plan_store.get_current_plan(session.session_id)
            )
        except StoreFailed as error:
            emit_error(check, error, "no stored plan is taken over")
            return
        if plan is not None and version != session.store_version:
            assert session.codec is not None
            restore(session, plan, items, session.codec, lambda message: hash_of(session, self.outbound, message))
        session.store_version = version

    def take_in(self, session: Session, call: Call, check: events.CheckSpan) -> Steps[Seen]:
        """Recognise what the host shows, and bring the request up to date with it."""
        codec = codec_for(session, call)
        yield from self._restore_once(session, call.items, codec, check)
        seen = session.observe(call.items, codec)
        if self.cfg.plan_store is not None and any(message.is_replacement for message in seen.new):
            # The host shows what another process compacted since.
            plan = session.plan
            yield from self._load_plan(session, call.items, check)
            seen = seen if session.plan is plan else replace(seen, how="edited")
        self._bring_up_to_date(session, seen, check)
        return seen

    def _bring_up_to_date(self, session: Session, seen: Seen, check: events.CheckSpan) -> None:
        arguments = self._render_arguments(session)
        is_more = seen.how in ("new", "extended", "handed_back") and session.is_request_current
        if is_more and session.extend_request(seen.new, **arguments):
            return
        added, removed = session.render(**arguments)
        if seen.how == "reset":
            text = "the earlier conversation was left, or taken back to before its summary: that is not carried over"
            check.emit(events.WarningEvent(severity="low", code="session_reset", message=text))
        if added or removed:
            text = f"{len(added)} calls without output, {len(removed)} outputs without call"
            details = {"added": list(added), "removed": list(removed)}
            check.emit(events.WarningEvent(severity="low", code="normalized", message=text, details=details))

    def _render_arguments(self, session: Session) -> dict[str, Any]:
        return {
            "count": self.counting.message,
            "shorten": self.shortener(session),
            "protected_flag": self.policy.protected_flag,
        }

    def shortener(self, session: Session) -> Callable[[Message], Message]:
        """Write-time truncation: what a tool output looks like in a prompt."""
        policy, codec = self.policy, session.codec

        def shorten(message: Message) -> Message:
            if policy.tool_output_truncation == "none" or message.role != "tool" or codec is None:
                return message
            if message.meta.get(policy.protected_flag) or fits_without_counting(message.text, policy):
                return message
            return codec.map_outputs(message, lambda _, text: truncate_output(text, policy, self.counting.text))

        return shorten

    # Count and decide.

    @property
    def budget_tokens(self) -> int | None:
        window = self.cfg.max_context_tokens
        return None if window is None else window - self.policy.hard_cap_buffer

    def estimate(self, session: Session, fixed_tokens: int) -> int:
        """The request's tokens as the caller's estimator and the provider's usage see them."""
        request = session.request
        own = request.message_tokens + self.counting.overhead(request.messages)
        total = self.counting.conversation(request.messages, own) + fixed_tokens
        return round(total * session.correction) if session.correction != 1.0 else total

    def _schema_tokens(self, output_schema: Any) -> int:
        return self.counting.tools([output_schema]) if output_schema is not None else 0

    def decide(self, session: Session, estimate: int, *, is_manual: bool) -> Decision:
        messages = session.request.messages
        return decide(
            estimate,
            window_tokens=self.cfg.max_context_tokens,
            policy=self.policy,
            at_turn_start=bool(messages) and messages[-1].role == "user",
            is_manual=is_manual,
        )

    def breakdown(self, session: Session, fixed: int, spoken: int, total: int) -> dict[str, int]:
        parts = session.request.breakdown(
            tools=fixed,
            instructions=spoken,
            overhead=self.counting.overhead(session.request.messages),
            protected_flag=self.policy.protected_flag,
        )
        return parts.scale_to(total).to_dict()

    def _durability(self, tools: Sequence[Any] | None) -> dict[str, ToolDurabilityPolicy]:
        declared = {
            str(getattr(tool, "__name__", "") or getattr(tool, "name", "")): policy
            for tool in tools or ()
            if (policy := declared_policy(tool)) is not None
        }
        return {**declared, **self.cfg.tool_durability}

    def _room_left(self, session: Session) -> int:
        budget = self.budget_tokens
        return self.rehydration.total_budget_tokens if budget is None else max(0, budget - session.last_estimate)

    # Watch and report.

    def _watch_quality(self, session: Session, seen: Seen, check: events.CheckSpan) -> None:
        if session.plan is None:
            return
        session.turns_since_compaction += 1
        if check.has_listeners and asks_for_context(seen.new):
            session.asked_for_context = True
            emit_quality(self, session, check)

    def report_outcome(self, session: Session, *, success: bool) -> None:
        session.task_success = success
        check = self.check_for(session, "outcome")
        emit_quality(self, session, check)

    def _skip(self, check: events.CheckSpan, items: Sequence[Any], error: MalformedMessage) -> list[Any]:
        """A malformed tool message: nothing is compacted this turn, and the run goes on."""
        emit_error(check, error, "not compacted this turn")
        check.update(triggered=False)
        check.close(is_error=True)
        return list(items)

    def _sink(self, session_id: str) -> events.Sink | None:
        exporter, storage = self.cfg.exporter, self.cfg.storage
        if exporter is None and storage is None:
            return None
        routes: list[tuple[str, Callable[[dict[str, Any]], Any]]] = []
        if exporter is not None:
            routes.append(("export", exporter.emit))
        if storage is not None:
            routes.append(("archive", lambda event: storage.save_event(session_id, event)))

        def send(event: dict[str, Any]) -> None:
            parts: dict[str, Any] = {key: event[key] for key in ("properties", "payload") if key in event}
            event.update(self.outbound.redact_value(parts))
            for name, deliver in routes:
                try:
                    result = deliver(event)
                    if inspect.isawaitable(result):
                        self._undelivered.append((name, result))
                except Exception as error:
                    self._complain(f"{name} failed: {error}")

        return send

    def _complain(self, problem: str) -> None:
        # An archive that is away fails at every event; once a minute is told.
        now = time.monotonic()
        if now - self._complaints.get(problem, -_COMPLAIN_EVERY_S) >= _COMPLAIN_EVERY_S:
            self._complaints = {problem: now}
            say("Ariadne", problem)


def _built_in_summarizer() -> Any:
    from compact.summarizers import ExtractiveSummarizer

    return ExtractiveSummarizer()
