"""One round: from the decision to compact to a request that fits, or to the reason why there is none.

A round drafts, compacts and closes; another process's plan is taken over and the request checked again. Rounds that
free almost nothing open a breaker, and shortly before the trigger a summariser may begin ahead of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compact import events
from compact.engine.archive import ArchiveFailed
from compact.engine.call import Call
from compact.engine.check_events import emit_decision, emit_error, emit_quality
from compact.engine.compaction import ONLY_HERE, compact
from compact.engine.drafts import cut_newest, draft_again, plannable, show_newest_whole
from compact.engine.effects import Steps
from compact.engine.job import Job
from compact.engine.session import Session
from compact.exceptions import InsufficientBudget, PlanConflict, StoreFailed
from compact.messages import Message
from compact.planning.draft import Draft
from compact.planning.limits import TokenLimits, limits_for
from compact.planning.rehydration import TurnContext
from compact.planning.trigger import Decision

if TYPE_CHECKING:
    from compact.engine.engine import Engine

_COMMIT_ATTEMPTS = 3
_FRUITLESS_ROUNDS = 2
_WORTH_A_TRY = 4  # times the least gain must be new before a compaction that did not help is tried again
_PREPARE_PCT = 0.9  # of the trigger: a few calls ahead of it


@dataclass(frozen=True, slots=True)
class Round:
    """One call of one session that may be compacted."""

    engine: Engine
    session: Session
    check: events.CheckSpan
    call: Call
    turn: TurnContext
    fixed_tokens: int
    """Tools, instructions and schema: sent with every request."""

    @property
    def is_manual(self) -> bool:
        return self.call.note is not None

    @property
    def pace(self) -> float:
        """Tokens a call of this session adds on average; 0 for the first call and for compaction by hand."""
        growth = self.session.growth
        return 0.0 if self.is_manual or not growth else sum(growth) / len(growth)

    def estimate(self) -> int:
        return self.engine.estimate(self.session, self.fixed_tokens)

    def announce(self, decision: Decision, found: Draft | None = None) -> None:
        emit_decision(self.engine, self.session, self.check, decision, found, self.call.note)

    def job(self, decision: Decision, tokens_before: int) -> Job:
        engine, cfg, session = self.engine, self.engine.cfg, self.session
        limits = limits_for(engine.policy, cfg.max_context_tokens, decision.trigger_tokens, self.pace)
        room: TokenLimits = limits.scale(1 / session.correction) if session.correction != 1.0 else limits
        return Job(
            session=session,
            policy=engine.policy,
            counting=engine.counting,
            check=self.check,
            outbound=engine.outbound,
            clock=engine.clock,
            room=room,
            budget_tokens=limits.budget_tokens,
            fixed_tokens=self.fixed_tokens + engine.counting.overhead(session.request.messages),
            tokens_before=tokens_before,
            estimate=self.estimate,
            shorten=engine.shortener(session),
            summarizer=engine.summarizer,
            storage=cfg.storage,
            is_archive_required=cfg.archive_required,
            artifact_store=cfg.artifact_store,
            plan_store=cfg.plan_store,
            security_context=cfg.security_context,
            durability=session.durability,
            is_manual=self.is_manual,
            is_after_rehydration=self.turn.should_skip_aggressive_compaction(),
        )


def settle(this: Round, decision: Decision, estimate: int) -> Steps[None]:
    """Do what was decided: nothing yet, nothing more, or compact."""
    if not decision.triggered:
        this.announce(decision)
        _prepare_ahead(this, decision)
    elif _is_fruitless(this, estimate):
        this.announce(decision)
        text = "the last compactions freed almost nothing: waiting for more to compact, or the budget itself"
        this.check.emit(
            events.BreakerOpenEvent(
                tokens_before=estimate,
                budget_limit=this.engine.budget_tokens,
                details=events.ReasonDetails(reason=text),
            )
        )
    else:
        yield from _compact(this, decision, estimate)


def _is_fruitless(this: Round, estimate: int) -> bool:
    """Whether compacting again would only break the cache: it did not help, little is new, the budget holds."""
    engine, session = this.engine, this.session
    budget, window = engine.budget_tokens, engine.cfg.max_context_tokens
    if this.is_manual or budget is None or window is None or estimate > budget:
        return False
    if session.fruitless_rounds < _FRUITLESS_ROUNDS:
        return False
    return estimate - session.tokens_after_round < _WORTH_A_TRY * engine.policy.min_gain_pct * window


def _compact(this: Round, decision: Decision, estimate: int) -> Steps[None]:
    engine, session, check = this.engine, this.session, this.check
    check.update(triggered=True, tokens_before=estimate)
    check.open()
    check.emit(events.CheckStartedEvent(tokens_before=estimate, budget_limit=engine.budget_tokens))
    job = this.job(decision, estimate)
    conflicts = 0
    while True:
        messages, counts, first = _draft(this, job, decision)
        this.announce(decision, first)
        check.emit(
            events.PolicyAppliedEvent(
                policy=engine.policy.to_dict(),
                reductions=list(first.reductions),
                summary_tokens=first.summary_tokens,
                target_tokens=job.room.summary_ceiling_tokens,
                headroom_calls=engine.policy.headroom_calls,
                growth_tokens=round(this.pace, 1),
            )
        )
        try:
            changed = yield from compact(job, first, messages, counts)
            break
        except ArchiveFailed as error:
            emit_error(check, error, "not compacted: archive failed")
            return
        except StoreFailed as error:
            emit_error(check, error, "compacted without externalising")
            job.artifact_store = None
        except PlanConflict as error:
            conflicts += 1
            if conflicts == _COMMIT_ATTEMPTS:
                emit_error(check, error, ONLY_HERE)
                job.plan_store = None
                continue
            emit_error(check, error, "the other plan is taken over and the request checked again")
            yield from engine.take_over(session, this.call.items, check)
            estimate = this.estimate()
            decision = engine.decide(session, estimate, is_manual=False)
            if not decision.triggered:
                return
            job = this.job(decision, estimate)
    _close(this, estimate, changed=changed)


def _draft(this: Round, job: Job, decision: Decision) -> tuple[list[Message], list[int], Draft]:
    """What to keep; where only the newest tool output is too large, it is cut before giving up."""
    show_newest_whole(job)
    messages, counts = plannable(job.session)
    try:
        return messages, counts, draft_again(job, messages, counts, job.room)
    except InsufficientBudget:
        if not cut_newest(job, messages, counts):
            this.announce(decision)
            raise
    messages, counts = plannable(job.session)
    try:
        return messages, counts, draft_again(job, messages, counts, job.room)
    except InsufficientBudget:
        this.announce(decision)
        raise


def _close(this: Round, before: int, *, changed: bool) -> None:
    engine, session, after = this.engine, this.session, this.estimate()
    window = engine.cfg.max_context_tokens or before
    is_fruitful = changed and before - after >= engine.policy.min_gain_pct * window
    session.fruitless_rounds = 0 if is_fruitful else session.fruitless_rounds + 1
    session.tokens_after_round = after
    if changed:
        emit_quality(engine, session, this.check)
        session.turns_since_compaction, session.rehydration_requests = 0, 0
    this.check.emit(
        events.CompletedEvent(
            tokens_before=before,
            tokens_after=after,
            budget_limit=engine.budget_tokens,
            tokens_freed=before - after,
            strategy=engine.policy.strategy,
            details=events.CompletedDetails(changed=changed),
        )
    )


def _prepare_ahead(this: Round, decision: Decision) -> None:
    """Shortly before the trigger, let a summariser that can work ahead begin with what will be summarised."""
    engine, session = this.engine, this.session
    prepare = getattr(engine.summarizer, "prepare", None)
    if prepare is None or decision.trigger_tokens is None:
        return
    if decision.used_tokens < decision.trigger_tokens * _PREPARE_PCT:
        return
    job = this.job(decision, decision.used_tokens)
    messages, counts = plannable(session)
    try:
        found = draft_again(job, messages, counts, job.room)
    except InsufficientBudget:
        return
    indices = sorted(index for unit in found.partition.remainder for index in unit.indices)
    originals = [session.thread.get(messages[index].id or "") or messages[index] for index in indices]
    if originals:
        prepare(
            originals,
            style=engine.policy.strategy,
            keep_keys=engine.policy.keep_keys,
            max_tokens=found.summary_tokens,
            count_tokens=engine.counting.text,
        )
