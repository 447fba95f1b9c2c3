"""One call of a session: read the host's list, rehydrate, count, decide, compact, and return what to send.

Written as generator steps, so that sync and async callers run the same code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compact import events
from compact.delivery.stderr import log_problem
from compact.engine.call import Call
from compact.engine.compaction.archive import TranscriptArchive
from compact.engine.compaction.attempts import CompactionAttempts
from compact.engine.compaction.proposal import Inputs, preview
from compact.engine.determinism import capture_sources
from compact.engine.effects import Steps
from compact.engine.engine import Engine
from compact.engine.quality import asks_for_context, report_quality
from compact.engine.rehydration import inject_results, rehydrate, rehydration_reserve
from compact.engine.session import Observation, Session
from compact.exceptions import CompactError, InsufficientBudget, MalformedMessage
from compact.messages import Message
from compact.messages.codecs.quarantine import PROBLEM_KEY
from compact.planning.rehydration import TurnContext
from compact.planning.trigger import Decision
from compact.summarizers import READ_AHEAD

_BREAKER_THRESHOLD = 2  # ineffective compactions in a row
# New tokens needed before the breaker closes, as a multiple of the smallest gain that makes a compaction effective.
_BREAKER_GROWTH = 4
# Share of the trigger at which a summarizer may start to prepare. That is a few calls before the compaction.
_PREPARE_PCT = 0.9
# Share of the trigger above which messages are read ahead. Most sessions end before it.
_READ_AHEAD_PCT = 0.5
# Messages that are read again with new ones, because a result is read together with its call.
_READ_AHEAD_CONTEXT = 8


class Preflight:
    """One `preflight` or `manual_compact` of one session."""

    def __init__(self, engine: Engine, session: Session, call: Call) -> None:
        if call.note is None and session.requested_note is not None:
            call = replace(call, note=session.requested_note)
        session.requested_note = None
        session.turn += 1
        self._engine = engine
        self._session = session
        self._call = call
        self._check = engine.open_check(session, "manual" if self._is_manual else "preflight")
        self._fixed = session.fixed = engine.fixed_tokens(call)
        self._turn = TurnContext(session.turn)

    @property
    def _is_manual(self) -> bool:
        return self._call.note is not None

    def run(self) -> Steps[list[Any]]:
        """Return the messages to send."""
        engine, session, check = self._engine, self._session, self._check
        observation = yield from engine.observe(session, self._call, check)
        # A stored plan may come with the window that another process learned.
        check.update(max_tokens=engine.window_tokens(session))
        session.durability.update({**self._call.durability, **engine.tool_durability(self._call.tools)})
        yield from capture_sources(session, observation, check)
        yield from rehydrate(engine, session, observation.new, self._turn, check)
        tokens_before = self._estimate_and_report()
        decision = engine.decide(session, tokens_before, is_manual=self._is_manual)
        failure: CompactError | None = None
        injected: tuple[Message, ...] = ()
        try:
            yield from self._follow(decision)
            session.last_estimate = self._estimate()
            injected = inject_results(engine, session, self._free_tokens(), check)
        except CompactError as error:
            failure = error
            check.emit(events.ErrorEvent.from_exception(error, events.RAISED))
            raise
        finally:
            session.last_estimate = self._estimate()
            self._report_excess(decision, failure)
            check.update(
                triggered=decision.triggered,
                tokens_before=tokens_before,
                tokens_after=session.last_estimate,
                step=session.plan.step if session.plan else 0,
            )
            check.close(is_error=failure is not None)
        session.record_sent(injected)
        self._watch_quality(observation)
        return session.request.to_items(self._call.items, session.host_list)

    def _estimate(self) -> int:
        return self._engine.estimate(self._session, self._fixed)

    def _estimate_and_report(self) -> int:
        engine, session, check = self._engine, self._session, self._check
        tokens = self._estimate()
        engine.report_estimate(session, check, self._fixed, tokens)
        if session.last_estimate and tokens >= session.last_estimate:
            session.growth.append(tokens - session.last_estimate)
        return tokens

    def _report_excess(self, decision: Decision, failure: CompactError | None) -> None:
        """Report a request over the budget, so that it is never sent unnoticed."""
        engine, tokens = self._engine, self._session.last_estimate
        window, budget = engine.window_tokens(self._session), engine.budget_tokens(self._session)
        if window is None or budget is None:
            return
        # A large buffer may put the budget below the trigger. A request between the two is as configured.
        if tokens <= (budget if decision.triggered else window):
            return
        event = events.OverBudgetEvent(
            tokens=tokens,
            budget_tokens=budget,
            max_tokens=window,
            excess_tokens=tokens - budget,
            reason=str(failure) if failure else "nothing could be removed in this call",
        )
        if self._check.has_listeners:
            self._check.emit(event)
        elif failure is None:
            log_problem("compact", f"The request has {tokens:,} tokens but the budget is {budget:,}: {event.reason}.")

    def _free_tokens(self) -> int:
        """Return the room for rehydrated content."""
        budget = self._engine.budget_tokens(self._session)
        if budget is None:
            return self._engine.rehydration.total_budget_tokens
        return max(0, round((budget - self._session.last_estimate) / self._session.usage.factor))

    def _watch_quality(self, observation: Observation) -> None:
        session = self._session
        if session.plan is None:
            return
        session.turns_since_compaction += 1
        if self._check.has_listeners and asks_for_context(observation.new):
            session.asked_for_context = True
            report_quality(session, self._check)

    # Follow the decision.

    def _follow(self, decision: Decision) -> Steps[None]:
        """Compact if the decision says so, unless the last compactions did not help."""
        engine, session, check = self._engine, self._session, self._check
        if decision.triggered and self._may_wait_for_a_repair(decision):
            engine.report_decision(session, check, decision, note=self._call.note)
            newest = session.view[-1]
            error = MalformedMessage(len(self._call.items) - 1, str(newest.meta.get(PROBLEM_KEY)))
            check.emit(events.ErrorEvent.from_exception(error, "not compacted this turn"))
            return
        if decision.triggered and not self._is_breaker_open(decision.used_tokens):
            READ_AHEAD.cancel(session)
            yield from CompactionAttempts(engine, session, check, self._call.items, self._inputs).run(decision)
            return
        engine.report_decision(session, check, decision, note=self._call.note)
        if not decision.triggered:
            self._prepare_summary(decision)
            self._read_ahead(decision)
            return
        reason = "the last compactions freed almost nothing, so the next one waits for new messages or the budget limit"
        check.emit(
            events.BreakerOpenEvent(
                tokens_before=decision.used_tokens,
                budget_limit=engine.budget_tokens(self._session),
                details=events.ReasonDetails(reason=reason),
            )
        )

    def _may_wait_for_a_repair(self, decision: Decision) -> bool:
        """True if the newest message is malformed and the request fits the window. Document 000 skips that turn."""
        window, view = self._engine.window_tokens(self._session), self._session.view
        is_malformed = bool(view) and view[-1].kind == "malformed"
        return is_malformed and not self._is_manual and window is not None and decision.used_tokens <= window

    def _is_breaker_open(self, used_tokens: int) -> bool:
        """True if compacting again would only invalidate the prompt cache.

        That is the case while the last compactions freed almost nothing, little is new, and the budget is met.
        """
        engine, session = self._engine, self._session
        budget, window = engine.budget_tokens(self._session), engine.window_tokens(self._session)
        if self._is_manual or budget is None or window is None or used_tokens > budget:
            return False
        if session.ineffective_compactions < _BREAKER_THRESHOLD:
            return False
        return used_tokens - session.tokens_after_compaction < _BREAKER_GROWTH * engine.policy.min_gain_pct * window

    def _inputs(self, decision: Decision) -> Inputs:
        engine, session = self._engine, self._session
        return Inputs(
            engine,
            session,
            self._check,
            decision,
            TranscriptArchive(engine, session, self._check),
            self._fixed,
            engine.cfg.artifact_store,
            note=self._call.note,
            is_after_rehydration=self._turn.should_skip_aggressive_compaction(),
            reserve_tokens=rehydration_reserve(engine, session),
            floor=engine.policy.floor or self._call.floor,
        )

    def _read_ahead(self, decision: Decision) -> None:
        """Let a thread read what a compaction would have to read, while the agent waits for its model."""
        session = self._session
        if decision.trigger_tokens is None or decision.used_tokens < decision.trigger_tokens * _READ_AHEAD_PCT:
            return
        known, session.read_ahead_count = session.read_ahead_count, len(session.history)
        if known < len(session.history):
            unread = session.history[max(0, known - _READ_AHEAD_CONTEXT) :]
            READ_AHEAD.add(session, [session.redaction.reversible(message) for message in unread])

    def _prepare_summary(self, decision: Decision) -> None:
        """Shortly before the trigger, let a summarizer that can work ahead start on what will be summarized."""
        engine, session = self._engine, self._session
        prepare = getattr(engine.summarizer, "prepare", None)
        if prepare is None or decision.trigger_tokens is None:
            return
        if decision.used_tokens < decision.trigger_tokens * _PREPARE_PCT:
            return
        inputs = self._inputs(decision)
        try:
            prompt, draft = preview(inputs, inputs.limits)
        except InsufficientBudget:
            return
        indices = sorted(index for unit in draft.partition.remainder for index in unit.indices)
        messages = [prompt.messages[index] for index in indices]
        if messages:
            session.redaction.update(session.history)
            prepare(
                [session.redaction.reversible(message) for message in messages],
                style=engine.policy.strategy,
                keep_keys=engine.policy.keep_keys,
                max_tokens=draft.summary_tokens,
                count_tokens=engine.counter.count_text,
            )


def preflight(engine: Engine, session: Session, call: Call) -> Steps[list[Any]]:
    """Run one call and return the messages to send."""
    return (yield from Preflight(engine, session, call).run())


def report_outcome(engine: Engine, session: Session, *, success: bool) -> None:
    """Record whether the session's task succeeded, and emit it with the quality figures."""
    session.task_success = success
    report_quality(session, engine.open_check(session, "outcome"))
