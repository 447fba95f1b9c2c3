"""The steps of one call: recognise, bring back, count, decide, compact, send.

Written as generators, so that the sync and the async front run the very same steps. Holds no state of its own
beyond its parts; everything about a session is in its `Session`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compact import events
from compact.archive import ArchiveFailed
from compact.codecs import CHAT, codec_named, detect
from compact.codecs.base import Codec
from compact.compaction import compact
from compact.config import CompactConfig
from compact.counting import Counting
from compact.drafting import cut_newest, draft_again, plannable, show_newest_whole
from compact.durability import ToolDurabilityPolicy, declared_policy
from compact.effects import Steps
from compact.exceptions import CompactError, InsufficientBudget, MalformedMessage, PlanConflict
from compact.job import Job
from compact.ledger import hash_of
from compact.messages import Message
from compact.outbound import Outbound
from compact.planner import Draft, Room, room_for
from compact.quality import asks_for_context
from compact.rehydrate import RehydrationConfig, TurnContext
from compact.request import Request, Sent, frozen_copy, plain
from compact.restore import restore
from compact.returning import bring_back, inject
from compact.session import Seen, Session
from compact.telling import emit_decision, emit_error, emit_estimate, emit_quality
from compact.trigger import Decision, decide
from compact.truncate import truncate_output

_COMMIT_ATTEMPTS = 3
_FRUITLESS_ROUNDS = 2
_WORTH_A_TRY = 4  # times the least gain must be new before a compaction that did not help is tried again
_PREPARE_PCT = 0.9  # of the trigger: a few calls ahead of it


@dataclass(frozen=True, slots=True)
class Call:
    """What a host passed in for one call."""

    items: Sequence[Any]
    tools: Sequence[Any] | None = None
    instructions: str | None = None
    output_schema: Any = None
    format: str | None = None
    protected: Collection[int] = ()
    note: str | None = None
    """Why a caller compacts by hand; None for a preflight."""

    def __post_init__(self) -> None:
        if isinstance(self.items, str | bytes | Mapping):
            raise CompactError(f"messages must be a list of messages, not a {type(self.items).__name__}")


class Engine:
    """Runs calls for one configuration."""

    def __init__(self, cfg: CompactConfig, clock: events.Clock) -> None:
        self.cfg = cfg
        self.policy = cfg.policy
        self.clock = clock
        self.counting = Counting(cfg.token_estimator, cfg.model)
        self.outbound = Outbound(cfg.redaction, hook=cfg.redact)
        self.summarizer = cfg.summarizer if cfg.summarizer is not None else _built_in_summarizer()
        self.rehydration: RehydrationConfig = cfg.rehydration or RehydrationConfig()
        self._warned: set[str] = set()

    def check_for(self, session: Session, trigger: str) -> events.Check:
        check = events.Check(
            session.session_id, session.trace_id, sink=self._sink(session.session_id), clock=self.clock
        )
        check.properties = {
            "turn": session.turn,
            "model": self.cfg.model,
            "trigger": trigger,
            "max_tokens": self.cfg.max_context_tokens,
        }
        if not self.outbound.enabled and session.session_id not in self._warned:
            self._warned.add(session.session_id)
            text = "redaction is off: messages are exported and archived as they are"
            check.emit(events.WARNING, {"severity": "high", "code": "redaction_disabled", "message": text})
        return check

    def preflight(self, session: Session, call: Call) -> Steps[list[Any]]:
        """One call, from the host's list to the list to send."""
        if call.note is None and session.requested_note is not None:
            call = replace(call, note=session.requested_note)
        session.requested_note = None
        session.turn += 1
        check = self.check_for(session, "preflight" if call.note is None else "manual")
        codec = _codec_for(session, call)
        fixed = self.counting.tools(call.tools) + self._schema_tokens(call.output_schema)
        spoken = self.counting.text(call.instructions) if call.instructions else 0
        try:
            yield from self._restore_once(session, call.items, codec)
            seen = session.observe(call.items, codec)
        except MalformedMessage as error:
            return self._skip(check, call.items, error)
        session.protected_ids.update(session.shown.ids[place] for place in call.protected)
        session.durability.update(self._durability(call.tools))
        self._take_in(session, seen, check)
        turn = TurnContext(session.turn)
        returned = yield from bring_back(self, session, seen.new, turn, check)
        estimate = emit_estimate(self, session, check, fixed, spoken)
        if session.last_estimate and estimate >= session.last_estimate:
            session.growth.append(estimate - session.last_estimate)
        decision = self._decide(session, estimate, is_manual=call.note is not None)
        is_error = False
        try:
            if not decision.triggered:
                emit_decision(self, session, check, decision, None, call.note)
                self._prepare_ahead(session, decision, fixed + spoken, call, turn, check)
            elif self._is_fruitless(session, estimate, call.note):
                emit_decision(self, session, check, decision, None, call.note)
                text = "the last compactions freed almost nothing: waiting for more to compact, or the budget itself"
                check.emit(
                    events.BREAKER_OPEN,
                    {"tokens_before": estimate, "budget_limit": self.budget_tokens, "details": {"reason": text}},
                )
            else:
                yield from self._compact(session, check, decision, estimate, fixed + spoken, call, turn)
        except CompactError as error:
            is_error = True
            emit_error(check, error, "none: raised to the caller")
            raise
        finally:
            session.last_estimate = self.estimate(session, fixed + spoken)
            check.properties.update(
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

    # Recognise.

    def _restore_once(self, session: Session, items: Sequence[Any], codec: Codec) -> Steps[None]:
        """On a session's first call, take over the plan that another process may have stored."""
        if session.is_restored or self.cfg.plan_store is None:
            return
        session.is_restored = True
        yield from self._take_over(session, items, codec)

    def _take_over(self, session: Session, items: Sequence[Any], codec: Codec) -> Steps[None]:
        plan, version = yield lambda: self.cfg.plan_store.get_plan(session.session_id)
        session.store_version = version
        session.codec = codec
        if plan is not None:
            restore(session, plan, items, codec, lambda message: hash_of(session, self.outbound, message))

    def _take_in(self, session: Session, seen: Seen, check: events.Check) -> None:
        """Bring the request up to date with what the host shows."""
        arguments = self._render_arguments(session)
        is_more = seen.how in ("new", "extended", "handed_back") and session.is_request_current
        if is_more and session.extend_request(seen.new, **arguments):
            return
        added, removed = session.render(**arguments)
        if seen.how == "reset":
            text = "nothing of the earlier conversation is left: its summary is not carried over"
            check.emit(events.WARNING, {"severity": "low", "code": "session_reset", "message": text})
        if added or removed:
            text = f"{len(added)} calls without output, {len(removed)} outputs without call"
            details = {"added": list(added), "removed": list(removed)}
            check.emit(events.WARNING, {"severity": "low", "code": "normalized", "message": text, "details": details})

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
            if message.meta.get(policy.protected_flag) or len(message.text) <= policy.tool_output_max_tokens:
                return message
            return codec.map_outputs(message, lambda text: truncate_output(text, policy, self.counting.text))

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

    def _decide(self, session: Session, estimate: int, *, is_manual: bool) -> Decision:
        messages = session.request.messages
        return decide(
            estimate,
            window_tokens=self.cfg.max_context_tokens,
            policy=self.policy,
            at_turn_start=bool(messages) and messages[-1].role == "user",
            is_manual=is_manual,
        )

    def _is_fruitless(self, session: Session, estimate: int, note: str | None) -> bool:
        """Whether compacting again would only break the cache: it did not help, little is new, the budget holds."""
        budget, window = self.budget_tokens, self.cfg.max_context_tokens
        if note is not None or budget is None or window is None or estimate > budget:
            return False
        if session.fruitless_rounds < _FRUITLESS_ROUNDS:
            return False
        return estimate - session.tokens_after_round < _WORTH_A_TRY * self.policy.min_gain_pct * window

    def breakdown(self, session: Session, fixed: int, spoken: int, total: int) -> dict[str, int]:
        parts = session.request.breakdown(
            tools=fixed,
            instructions=spoken,
            overhead=self.counting.overhead(session.request.messages),
            protected_flag=self.policy.protected_flag,
        )
        return parts.scaled_to(total).to_dict()

    # Compact.

    def _compact(
        self,
        session: Session,
        check: events.Check,
        decision: Decision,
        estimate: int,
        fixed_tokens: int,
        call: Call,
        turn: TurnContext,
    ) -> Steps[None]:
        check.properties.update(triggered=True, tokens_before=estimate)
        check.open()
        check.emit(events.CHECK_STARTED, {"tokens_before": estimate, "budget_limit": self.budget_tokens})
        job = self._job(session, check, decision, estimate, fixed_tokens, call, turn)
        for attempt in range(1, _COMMIT_ATTEMPTS + 1):
            messages, counts, first = self._draft(job, decision, call)
            emit_decision(self, session, check, decision, first, call.note)
            check.emit(
                events.POLICY_APPLIED,
                {
                    "policy": self.policy.to_dict(),
                    "reductions": list(first.reductions),
                    "summary_tokens": first.summary_tokens,
                    "target_tokens": job.room.summary_roof_tokens,
                    "headroom_calls": self.policy.headroom_calls,
                    "growth_tokens": round(self._pace(session, call.note), 1),
                },
            )
            try:
                changed = yield from compact(job, first, messages, counts)
                break
            except ArchiveFailed as error:
                emit_error(check, error, "not compacted: archive failed")
                return
            except PlanConflict as error:
                if attempt == _COMMIT_ATTEMPTS:
                    raise
                emit_error(check, error, "the other plan is taken over and the request checked again")
                assert session.codec is not None
                yield from self._take_over(session, call.items, session.codec)
                session.render(**self._render_arguments(session))
                estimate = self.estimate(session, fixed_tokens)
                decision = self._decide(session, estimate, is_manual=False)
                if not decision.triggered:
                    return
                job = self._job(session, check, decision, estimate, fixed_tokens, call, turn)
        self._close_round(session, check, estimate, self.estimate(session, fixed_tokens), changed=changed)

    def _prepare_ahead(
        self,
        session: Session,
        decision: Decision,
        fixed_tokens: int,
        call: Call,
        turn: TurnContext,
        check: events.Check,
    ) -> None:
        """Shortly before the trigger, let a summariser that can work ahead begin with what will be summarised."""
        prepare = getattr(self.summarizer, "prepare", None)
        if prepare is None or decision.trigger_tokens is None:
            return
        if decision.used_tokens < decision.trigger_tokens * _PREPARE_PCT:
            return
        job = self._job(session, check, decision, decision.used_tokens, fixed_tokens, call, turn)
        messages, counts = plannable(session)
        try:
            found = draft_again(job, messages, counts, job.room)
        except InsufficientBudget:
            return
        indices = sorted(index for unit in found.part.remainder for index in unit.indices)
        originals = [session.thread.get(messages[index].id or "") or messages[index] for index in indices]
        if originals:
            prepare(
                originals,
                style=self.policy.strategy,
                keep_keys=self.policy.keep_keys,
                max_tokens=found.summary_tokens,
                count_tokens=self.counting.text,
            )

    def _draft(self, job: Job, decision: Decision, call: Call) -> tuple[list[Message], list[int], Draft]:
        """What to keep; where only the newest tool output is too large, it is cut before giving up."""
        session = job.session
        show_newest_whole(job)
        messages, counts = plannable(session)
        try:
            return messages, counts, draft_again(job, messages, counts, job.room)
        except InsufficientBudget:
            if not cut_newest(job, messages, counts):
                emit_decision(self, session, job.check, decision, None, call.note)
                raise
        messages, counts = plannable(session)
        try:
            return messages, counts, draft_again(job, messages, counts, job.room)
        except InsufficientBudget:
            emit_decision(self, session, job.check, decision, None, call.note)
            raise

    def _job(
        self,
        session: Session,
        check: events.Check,
        decision: Decision,
        estimate: int,
        fixed_tokens: int,
        call: Call,
        turn: TurnContext,
    ) -> Job:
        limits = room_for(
            self.policy, self.cfg.max_context_tokens, decision.trigger_tokens, self._pace(session, call.note)
        )
        room: Room = limits.scaled(1 / session.correction) if session.correction != 1.0 else limits
        return Job(
            session=session,
            policy=self.policy,
            counting=self.counting,
            check=check,
            outbound=self.outbound,
            clock=self.clock,
            room=room,
            budget_tokens=limits.budget_tokens,
            fixed_tokens=fixed_tokens + self.counting.overhead(session.request.messages),
            tokens_before=estimate,
            estimate=lambda: self.estimate(session, fixed_tokens),
            shorten=self.shortener(session),
            summarizer=self.summarizer,
            storage=self.cfg.storage,
            is_archive_required=self.cfg.archive_required,
            artifact_store=self.cfg.artifact_store,
            plan_store=self.cfg.plan_store,
            security_context=self.cfg.security_context,
            durability=session.durability,
            is_manual=call.note is not None,
            is_after_rehydration=turn.should_skip_aggressive_compaction(),
        )

    def _pace(self, session: Session, note: str | None) -> float:
        """Tokens a call of this session adds on average; 0 for the first call and for compaction by hand."""
        if note is not None or not session.growth:
            return 0.0
        return sum(session.growth) / len(session.growth)

    def _close_round(self, session: Session, check: events.Check, before: int, after: int, *, changed: bool) -> None:
        window = self.cfg.max_context_tokens or before
        is_fruitful = changed and before - after >= self.policy.min_gain_pct * window
        session.fruitless_rounds = 0 if is_fruitful else session.fruitless_rounds + 1
        session.tokens_after_round = after
        if changed:
            emit_quality(self, session, check)
            session.turns_since_compaction, session.rehydration_requests = 0, 0
        check.emit(
            events.COMPLETED,
            {
                "tokens_before": before,
                "tokens_after": after,
                "budget_limit": self.budget_tokens,
                "tokens_freed": before - after,
                "strategy": self.policy.strategy,
                "details": {"changed": changed},
            },
        )

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

    def _watch_quality(self, session: Session, seen: Seen, check: events.Check) -> None:
        if session.plan is None:
            return
        session.turns_since_compaction += 1
        if check.is_watched and asks_for_context(seen.new):
            session.asked_for_context = True
            emit_quality(self, session, check)

    def report_outcome(self, session: Session, *, success: bool) -> None:
        session.task_success = success
        check = self.check_for(session, "outcome")
        emit_quality(self, session, check)

    def _skip(self, check: events.Check, items: Sequence[Any], error: MalformedMessage) -> list[Any]:
        """A malformed tool message: nothing is compacted this turn, and the run goes on."""
        emit_error(check, error, "not compacted this turn")
        check.properties.update(triggered=False)
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
            event.update(self.outbound.value(parts))
            for name, deliver in routes:
                try:
                    deliver(event)
                except Exception as error:
                    events.complain(f"{name} failed: {error}")

        return send


def written(request: Request, items: Sequence[Any]) -> list[Any]:
    """The host's own objects where they are sent as they are, ours where they are not."""
    if request.is_same_as_shown:
        return list(items)
    return [
        items[place] if place is not None else as_item(message)
        for message, place in zip(request.messages, request.layout, strict=True)
    ]


def as_item(message: Message) -> Any:
    return frozen_copy(message.source) if message.source is not None else message


def _codec_for(session: Session, call: Call) -> Codec:
    """The format of the list; what does not say is read like the session's earlier messages."""
    if call.format is not None:
        return codec_named(call.format)
    known = len(session.shown.items)
    items = call.items
    is_longer = session.codec is not None and len(items) >= known
    found = detect([plain(item) for item in (items[known:] if is_longer else items)])
    return found or session.codec or CHAT


def _built_in_summarizer() -> Any:
    from compact.summarizers import ExtractiveSummarizer

    return ExtractiveSummarizer()
