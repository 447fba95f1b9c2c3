"""The front of the library: check a conversation before it is sent, and compact it when it must be.

Every call reads the same way: recognise, count, decide, compact if need be, send. What a host passes in is never
changed; what it gets back is a new list of the same kind.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeVar

from compact import events
from compact.archive import ArchiveFailed
from compact.budget import Usage, correction_from
from compact.codecs import CHAT, detect
from compact.codecs.base import Codec
from compact.compaction import Job, carried_tokens, compact, covered_tokens, plannable
from compact.config import CompactConfig
from compact.counting import Counting
from compact.durability import ToolDurabilityPolicy, declared_policy
from compact.effects import Steps, arun, run
from compact.exceptions import InsufficientBudget, MalformedMessage, PlanConflict
from compact.memory import Memory
from compact.messages import Message
from compact.outbound import Outbound
from compact.partition import pin_rule
from compact.plan import CompactionPlan
from compact.planner import Draft, draft, room_for
from compact.session import Request, Seen, Sent, Session, frozen_copy
from compact.trigger import Decision, decide
from compact.truncate import truncate_output
from compact.units import group_units

T = TypeVar("T", Message, dict[str, Any])

_MAX_SESSIONS = 1024
_COMMIT_ATTEMPTS = 3


class CompactManager:
    """Compacts any number of sessions; safe to share between threads and tasks."""

    def __init__(self, cfg: CompactConfig, *, clock: events.Clock = events.utc_now) -> None:
        self.cfg = cfg
        self._clock = clock
        self._counting = Counting(cfg.token_estimator, cfg.model)
        self._outbound = Outbound(cfg.redaction, hook=cfg.redact)
        self._summarizer = cfg.summarizer if cfg.summarizer is not None else _built_in_summarizer()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    # What a host calls.

    def preflight(
        self,
        session_id: str,
        messages: Sequence[T],
        *,
        tools: Sequence[Any] | None = None,
        instructions: str | None = None,
        output_schema: Any = None,
    ) -> list[T]:
        """Count the request, compact it if a trigger says so, and return what to send."""
        session = self._session(session_id)
        with session.lock:
            return run(self._preflight(session, messages, tools, instructions, output_schema))

    async def apreflight(
        self,
        session_id: str,
        messages: Sequence[T],
        *,
        tools: Sequence[Any] | None = None,
        instructions: str | None = None,
        output_schema: Any = None,
    ) -> list[T]:
        """`preflight` for async callers: summarisers and stores never block the event loop."""
        session = self._session(session_id)
        await _acquire(session.lock)
        try:
            return await arun(self._preflight(session, messages, tools, instructions, output_schema))
        finally:
            session.lock.release()

    def manual_compact(
        self,
        session_id: str,
        messages: Sequence[T],
        note: str = "manual",
        *,
        tools: Sequence[Any] | None = None,
        instructions: str | None = None,
        output_schema: Any = None,
    ) -> list[T]:
        """Compact whatever the usage; the note is in the trace."""
        session = self._session(session_id)
        with session.lock:
            return run(self._preflight(session, messages, tools, instructions, output_schema, note=note))

    async def amanual_compact(
        self,
        session_id: str,
        messages: Sequence[T],
        note: str = "manual",
        *,
        tools: Sequence[Any] | None = None,
        instructions: str | None = None,
        output_schema: Any = None,
    ) -> list[T]:
        """`manual_compact` for async callers."""
        session = self._session(session_id)
        await _acquire(session.lock)
        try:
            return await arun(self._preflight(session, messages, tools, instructions, output_schema, note=note))
        finally:
            session.lock.release()

    def plan(self, session_id: str) -> CompactionPlan | None:
        """The session's current plan, if it was ever compacted."""
        return self._session(session_id).plan

    def remember(self, session_id: str) -> Memory:
        """What is remembered now: the summary, what is pinned, and the recent window."""
        session = self._session(session_id)
        with session.lock:
            pinned: list[Message] = []
            recent: list[Message] = []
            messages = session.request.messages
            for unit in group_units(messages):
                rule = pin_rule(unit, messages, self.cfg.policy, session.protected_ids)
                (pinned if rule else recent).extend(messages[index] for index in unit.indices)
            plan = session.plan
            return Memory(
                session_id,
                plan.summary_text if plan else None,
                plan.session_summary if plan else None,
                tuple(pinned),
                tuple(message for message in recent if not message.is_summary),
                session.last_estimate,
                plan,
            )

    def report_usage(self, session_id: str, usage: Usage | Any) -> None:
        """Tell what the provider counted for the last request; it corrects every later estimate."""
        session = self._session(session_id)
        reported = Usage.of(usage)
        with session.lock:
            uncorrected = round(session.last_estimate / session.correction)
            session.correction = correction_from(reported.input_tokens, uncorrected)
            session.is_corrected = reported.input_tokens > 0 and uncorrected > 0

    def forget(self, session_id: str) -> None:
        """Let go of a session's state; a stored plan stays stored."""
        with self._lock:
            self._sessions.pop(session_id, None)

    # How it is done.

    def _session(self, session_id: str) -> Session:
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = Session(session_id, events.new_trace_id())
                if len(self._sessions) > _MAX_SESSIONS:
                    self._sessions.popitem(last=False)
            else:
                self._sessions.move_to_end(session_id)
            return session

    def _preflight(
        self,
        session: Session,
        items: Sequence[Any],
        tools: Sequence[Any] | None,
        instructions: str | None,
        output_schema: Any,
        *,
        note: str | None = None,
    ) -> Steps[list[Any]]:
        check = events.Check(
            session.session_id, session.trace_id, sink=self._sink(session.session_id), clock=self._clock
        )
        session.turn += 1
        check.properties = {
            "turn": session.turn,
            "model": self.cfg.model,
            "trigger": "preflight" if note is None else "manual",
            "max_tokens": self.cfg.max_context_tokens,
        }
        self._warn_if_unredacted(session, check)
        fixed = self._counting.tools(tools) + self._schema_tokens(output_schema)
        spoken = self._counting.text(instructions) if instructions else 0
        try:
            seen = session.observe(items, _codec_for(session, items))
        except MalformedMessage as error:
            return self._skip(check, items, error)
        self._take_in(session, seen, check)
        estimate = self._emit_estimate(session, check, fixed, spoken)
        decision = decide(
            estimate,
            window_tokens=self.cfg.max_context_tokens,
            policy=self.cfg.policy,
            at_turn_start=_ends_with_user(session.request),
            is_manual=note is not None,
        )
        is_error = False
        try:
            if decision.triggered:
                yield from self._compact(session, check, decision, estimate, fixed + spoken, tools, note)
            else:
                self._emit_decision(session, check, decision, None, note)
        except InsufficientBudget as error:
            is_error = True
            _emit_error(check, error, "none: raised to the caller")
            raise
        finally:
            session.last_estimate = self._estimate(session, fixed, spoken)
            check.properties.update(
                triggered=decision.triggered,
                tokens_before=estimate,
                tokens_after=session.last_estimate,
                step=session.plan.step if session.plan else 0,
            )
            check.close(is_error=is_error)
        plan_version = session.plan.version if session.plan else 0
        session.sent.append(Sent(session.view_version, len(session.view), plan_version))
        return _output(session.request, items)

    def _take_in(self, session: Session, seen: Seen, check: events.Check) -> None:
        """Bring the request up to date with what the host shows."""
        arguments: dict[str, Any] = {
            "count": self._counting.message,
            "shorten": lambda message: self._shorten(message, session),
            "protected_flag": self.cfg.policy.protected_flag,
        }
        if seen.how in ("new", "extended", "handed_back") and session.extend_request(seen.new, **arguments):
            return
        added, removed = session.render(**arguments)
        if seen.how == "reset":
            text = "nothing of the earlier conversation is left: its summary is not carried over"
            check.emit(events.WARNING, {"severity": "low", "code": "session_reset", "message": text})
        if added or removed:
            details = {"added": list(added), "removed": list(removed)}
            text = f"{len(added)} calls without output, {len(removed)} outputs without call"
            check.emit(events.WARNING, {"severity": "low", "code": "normalized", "message": text, "details": details})

    def _shorten(self, message: Message, session: Session) -> Message:
        policy = self.cfg.policy
        if policy.tool_output_truncation == "none" or message.role != "tool" or session.codec is None:
            return message
        if message.meta.get(policy.protected_flag) or len(message.text) <= policy.tool_output_max_tokens:
            return message
        return session.codec.map_outputs(message, lambda text: truncate_output(text, policy, self._counting.text))

    def _schema_tokens(self, output_schema: Any) -> int:
        return self._counting.tools([output_schema]) if output_schema is not None else 0

    def _estimate(self, session: Session, fixed: int, spoken: int) -> int:
        request = session.request
        overhead = self._counting.overhead(request.messages)
        total = self._counting.conversation(request.messages, request.message_tokens + overhead) + fixed + spoken
        return round(total * session.correction) if session.correction != 1.0 else total

    def _emit_estimate(self, session: Session, check: events.Check, fixed: int, spoken: int) -> int:
        total = self._estimate(session, fixed, spoken)
        if not check.is_watched:
            return total
        breakdown = session.request.breakdown(
            tools=fixed,
            instructions=spoken,
            overhead=self._counting.overhead(session.request.messages),
            protected_flag=self.cfg.policy.protected_flag,
        )
        window = self.cfg.max_context_tokens
        check.emit(
            events.TOKEN_ESTIMATE,
            {
                "model": self.cfg.model,
                "t_est": total,
                "max_tokens": window,
                "usage_pct": round(total / window, 6) if window else None,
                "turn": session.turn,
                "estimator": self._counting.name,
                "source": "provider" if session.is_corrected else "estimate",
                "breakdown": breakdown.scaled_to(total).to_dict(),
            },
        )
        return total

    def _emit_decision(
        self, session: Session, check: events.Check, decision: Decision, found: Draft | None, note: str | None
    ) -> None:
        if not check.is_watched:
            return
        policy, window = self.cfg.policy, self.cfg.max_context_tokens
        properties: dict[str, Any] = {
            "triggered": decision.triggered,
            "reason": decision.reason if note is None else f"{decision.reason}: {note}",
            "rule": decision.rule,
            "margin_tokens": decision.margin_tokens,
            "t_est": decision.used_tokens,
            "max_tokens": window,
            "trigger_tokens": decision.trigger_tokens,
            "budget_tokens": window - policy.hard_cap_buffer if window is not None else None,
            "turn": session.turn,
            "policy": {
                "trigger_pct": policy.trigger_pct,
                "hard_cap_buffer": policy.hard_cap_buffer,
                "strategy": policy.strategy,
                "keep_recent_turns": policy.keep_recent_turns,
                "keep_tool_io_pairs": policy.keep_tool_io_pairs,
                "renderer": policy.renderer,
                "pruning": policy.pruning,
            },
        }
        if note is not None:
            properties["note"] = note
        if decision.triggered:
            part = found.part if found else None
            properties["kept"] = {
                "pinned": sum(len(unit.indices) for unit in part.pinned) if part else 0,
                "recent_turns": part.recent_turns if part else 0,
                "tool_pairs": part.tool_pairs if part else 0,
            }
            properties["pruned_count"] = sum(len(unit.indices) for unit in part.remainder) if part else 0
        check.emit(events.TRIGGER_DECISION, properties)

    def _compact(
        self,
        session: Session,
        check: events.Check,
        decision: Decision,
        estimate: int,
        fixed_tokens: int,
        tools: Sequence[Any] | None,
        note: str | None,
    ) -> Steps[None]:
        policy = self.cfg.policy
        check.properties.update(triggered=True, tokens_before=estimate)
        check.open()
        check.emit(events.CHECK_STARTED, {"tokens_before": estimate, "budget_limit": self._budget()})
        own = max(1, session.request.message_tokens + fixed_tokens + self._counting.overhead(session.request.messages))
        real_room = room_for(policy, self.cfg.max_context_tokens, decision.trigger_tokens)
        room = real_room.scaled(own / estimate) if estimate and estimate != own else real_room
        messages, counts = plannable(session)
        try:
            first = draft(
                messages,
                counts,
                policy=policy,
                room=room,
                fixed_tokens=fixed_tokens + self._counting.overhead(messages),
                covered_tokens=covered_tokens(session),
                carried_tokens=carried_tokens(session, policy),
                protected_ids=session.protected_ids,
            )
        except InsufficientBudget:
            self._emit_decision(session, check, decision, None, note)
            raise
        self._emit_decision(session, check, decision, first, note)
        check.emit(
            events.POLICY_APPLIED,
            {"policy": policy.to_dict(), "reductions": list(first.reductions), "summary_tokens": first.summary_tokens},
        )
        job = Job(
            session=session,
            policy=policy,
            counting=self._counting,
            check=check,
            outbound=self._outbound,
            clock=self._clock,
            room=room,
            budget_tokens=real_room.budget_tokens,
            fixed_tokens=fixed_tokens + self._counting.overhead(messages),
            tokens_before=estimate,
            estimate=lambda: self._estimate(session, fixed_tokens, 0),
            shorten=lambda message: self._shorten(message, session),
            summarizer=self._summarizer,
            storage=self.cfg.storage,
            is_archive_required=self.cfg.archive_required,
            artifact_store=self.cfg.artifact_store,
            plan_store=self.cfg.plan_store,
            security_context=self.cfg.security_context,
            durability=self._durability(tools),
            is_manual=note is not None,
        )
        try:
            changed = yield from compact(job, first, messages, counts)
        except ArchiveFailed as error:
            _emit_error(check, error, "not compacted: archive failed")
            return
        after = self._estimate(session, fixed_tokens, 0)
        check.emit(
            events.COMPLETED,
            {
                "tokens_before": estimate,
                "tokens_after": after,
                "budget_limit": self._budget(),
                "tokens_freed": estimate - after,
                "strategy": policy.strategy,
                "details": {"changed": changed},
            },
        )

    def _budget(self) -> int | None:
        window = self.cfg.max_context_tokens
        return None if window is None else window - self.cfg.policy.hard_cap_buffer

    def _durability(self, tools: Sequence[Any] | None) -> dict[str, ToolDurabilityPolicy]:
        declared = {
            getattr(tool, "__name__", ""): policy
            for tool in tools or ()
            if (policy := declared_policy(tool)) is not None
        }
        return {**declared, **self.cfg.tool_durability}

    def _skip(self, check: events.Check, items: Sequence[Any], error: MalformedMessage) -> list[Any]:
        """A malformed tool message: nothing is compacted this turn, and the run goes on."""
        _emit_error(check, error, "not compacted this turn")
        check.properties.update(triggered=False)
        check.close(is_error=True)
        return list(items)

    def _sink(self, session_id: str) -> events.Sink | None:
        exporter, storage = self.cfg.exporter, self.cfg.storage
        if exporter is None and storage is None:
            return None

        def send(event: dict[str, Any]) -> None:
            parts: dict[str, Any] = {key: event[key] for key in ("properties", "payload") if key in event}
            event.update(self._outbound.value(parts))
            for name, deliver in (
                ("export", exporter.emit if exporter is not None else None),
                ("archive", (lambda item: storage.save_event(session_id, item)) if storage is not None else None),
            ):
                if deliver is None:
                    continue
                try:
                    deliver(event)
                except Exception as error:
                    events.complain(f"{name} failed: {error}")

        return send

    def _warn_if_unredacted(self, session: Session, check: events.Check) -> None:
        if self._outbound.enabled or session.session_id in self._warned:
            return
        self._warned.add(session.session_id)
        text = "redaction is off: messages are exported and archived as they are"
        check.emit(events.WARNING, {"severity": "high", "code": "redaction_disabled", "message": text})


def _emit_error(check: events.Check, error: Exception, fallback: str) -> None:
    check.emit(
        events.ERROR,
        {"error_type": type(error).__name__, "message": str(error), "fallback": fallback},
        is_error=True,
    )


def _codec_for(session: Session, items: Sequence[Any]) -> Codec:
    """The format of the list; what does not say is read like the session's earlier messages."""
    known = len(session.shown.items)
    found = detect(items[known:]) if session.codec is not None and len(items) >= known else detect(items)
    if found is not None:
        return found
    return session.codec or CHAT


def _ends_with_user(request: Request) -> bool:
    return bool(request.messages) and request.messages[-1].role == "user"


def _output(request: Request, items: Sequence[Any]) -> list[Any]:
    """The host's own objects where they are sent as they are, ours where they are not."""
    if request.is_same_as_shown:
        return list(items)
    return [
        items[place] if place is not None else _written(message)
        for message, place in zip(request.messages, request.layout, strict=True)
    ]


def _written(message: Message) -> Any:
    return frozen_copy(message.source) if message.source is not None else message


def _built_in_summarizer() -> Any:
    from compact.summarizers import ExtractiveSummarizer

    return ExtractiveSummarizer()


async def _acquire(lock: threading.Lock) -> None:
    if not lock.acquire(blocking=False):
        await asyncio.to_thread(lock.acquire)


__all__ = ["CompactManager", "PlanConflict"]
