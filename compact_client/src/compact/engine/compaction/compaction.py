"""One compaction of one session, from the decision to the committed plan.

`Compaction.run` tells the order: draft, archive, apply the ladder (which summarizes and checks retention), build the
plan, commit, report. The session's plan changes only with the commit, so a failure before it leaves the old plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from compact import events
from compact.engine.call import FixedTokens
from compact.engine.compaction.archive import archive_summary, archive_transcript
from compact.engine.compaction.drafts import (
    host_messages,
    kept_at_floor,
    make_draft,
    truncate_answered,
    truncate_recent,
    truncate_to_fit,
)
from compact.engine.compaction.ladder import Ladder
from compact.engine.compaction.ledger import (
    FOLDED_SPANS,
    absorbed_entries,
    build_ledger,
    cache_effect,
    fate_counts,
    full_hashes,
    prompt_entries,
)
from compact.engine.compaction.plan_builder import build_plan
from compact.engine.compaction.record_events import record_event, warn_of_evicted_results
from compact.engine.compaction.siblings import Sibling, find_siblings
from compact.engine.effects import Steps
from compact.engine.session import Request, Session
from compact.engine.session.stored_plan import commit_plan
from compact.engine.truncation import Truncation
from compact.exceptions import InsufficientBudget, PlanConflict
from compact.messages import SUMMARY_TAG, Message
from compact.messages.units import Unit, group_units
from compact.planning.draft import Draft
from compact.planning.limits import TokenLimits, limits_for, planned_growth
from compact.planning.partition import pin_rules
from compact.planning.plan import (
    ClearRecord,
    CompactionPlan,
)
from compact.planning.trigger import Decision
from compact.policy import Floor

if TYPE_CHECKING:
    from compact.engine.engine import Engine

_FIT_ATTEMPTS = 4
_FIT_MARGIN = 0.97  # aim this far below the budget when a request came out too large


class Compaction:
    """One compaction of one session: what it works on, and what it has done so far.

    `run` can be called again after a failure, for example with `artifact_store` or `plan_store` set to None.
    """

    draft: Draft
    ladder: Ladder
    request_before: Request
    plan_before: CompactionPlan | None

    def __init__(
        self,
        engine: Engine,
        session: Session,
        check: events.CheckSpan,
        *,
        decision: Decision,
        tokens_before: int,
        fixed: FixedTokens,
        note: str | None = None,
        is_after_rehydration: bool = False,
        reserve_tokens: int = 0,
        floor: Floor = "turn",
    ) -> None:
        self.engine = engine
        self.session = session
        self.check = check
        self.decision = decision
        self.tokens_before = tokens_before
        self.note = note
        self.is_manual = note is not None
        self.trigger = "overflow" if decision.rule == "overflow" else "manual" if self.is_manual else "preflight"
        self.is_after_rehydration = is_after_rehydration
        self.floor = floor
        self.artifact_store = engine.cfg.artifact_store
        self.plan_store = engine.cfg.plan_store
        self.growth_tokens = 0.0 if self.is_manual else self._growth_tokens()
        limits = limits_for(
            engine.policy,
            engine.window_tokens(session),
            decision.trigger_tokens,
            self.growth_tokens,
            budget_tokens=engine.budget_tokens(session),
        )
        self.budget_tokens = limits.budget_tokens
        """The budget in the caller's tokens."""
        self._limits_without_reserve = session.usage.revert_limits(limits)
        self.limits = session.usage.revert_limits(limits.reserve(reserve_tokens))
        """The limits in our own tokens."""
        self.fixed = fixed
        self.fixed_tokens = fixed.total + engine.counter.reply_overhead(session.request.messages)
        self.messages: list[Message] = []
        self.counts: list[int] = []
        self.units: list[Unit] = []
        self.pins: dict[int, str] = {}
        """The rule of each pinned unit, by the unit's first index."""
        self.siblings: list[Sibling] = []
        """Results that are cleared whatever the draft. `counts` is without them."""
        self.truncations: dict[str, Truncation] = {}
        """The outputs that this compaction truncated, by message id."""
        self._source_problems: set[str] = set()
        self.step = 0
        self.archived_step = 0
        """The step under which the transcript is archived, 0 before that."""
        self.tokens_after = tokens_before

    def run(self) -> Steps[bool]:
        """Compact the session's request. Return True if its plan changed, False if it fits and would not get smaller.

        Raises `InsufficientBudget`, `ArchiveFailed`, `StoreFailed` or `PlanConflict`. Whatever interrupts this, even
        Ctrl-C, leaves the old plan.
        """
        session = self.session
        self.plan_before, self.request_before = session.plan, session.request
        self.truncations = {}
        forms = session.forms.truncated
        is_changed = False
        try:
            is_changed = yield from self._change_plan()
        finally:
            if not is_changed:
                self._restore(forms)
        if is_changed:
            self._report()
            yield from archive_summary(self)
        return is_changed

    def _change_plan(self) -> Steps[bool]:
        """Build the new plan and commit it. Return False if nothing can be gained."""
        yield from self._make_first_draft()
        self._report_start()
        limits = yield from self._find_useful_limits()
        if limits is None:
            return False
        self.step = self._last_step() + 1
        yield from archive_transcript(self)
        yield from self._fit_budget(limits)
        if not self._is_smaller:
            self._discard(self.ladder, "the prompt would not be smaller with it")
            return False
        self._complete_plan()
        yield from self._commit()
        return True

    def _growth_tokens(self) -> float:
        assumed = self.engine.policy.growth_tokens
        if assumed is not None:
            return assumed
        session = self.session
        return planned_growth(
            self.engine.policy,
            self.engine.window_tokens(session),
            self.decision.trigger_tokens,
            average=session.average_growth,
            median=session.median_growth,
        )

    @property
    def _is_smaller(self) -> bool:
        """False if nothing was gained. The summary of a few short messages can be longer than they are."""
        after = (self.tokens_after, self.session.request.message_tokens)
        return after < (self.tokens_before, self.request_before.message_tokens)

    def _restore(self, forms: Mapping[str, Message]) -> None:
        """Go back to the plan and the messages from before this compaction."""
        session = self.session
        if session.plan is not self.plan_before or session.request is not self.request_before:
            session.plan = self.plan_before
            session.forms.restore(forms)
            self.render()

    def preview(self) -> Draft:
        """Return the draft that a compaction would start from. Raise `InsufficientBudget` if there is none."""
        self.messages, self.counts = host_messages(self.session)
        self.units = group_units(self.messages)
        self.pins = pin_rules(self.units, self.messages, self.engine.policy, self.session.protected_ids)
        self.siblings = find_siblings(self)
        for sibling in self.siblings:
            self.counts[sibling.index] -= sibling.tokens_freed
        try:
            return make_draft(self, self.limits)
        except InsufficientBudget:
            if self.limits == self._limits_without_reserve:
                raise
            # Messages that must stay are more important than space for rehydrated content.
            self.limits = self._limits_without_reserve
            return make_draft(self, self.limits)

    def warn_of_source(self, problem: str) -> None:
        """Warn once that the source of a replayable result could not be checked."""
        if problem not in self._source_problems:
            self._source_problems.add(problem)
            self.check.emit(events.WarningEvent(severity="low", code="source_unverified", message=problem))

    def render(self) -> None:
        """Render the session's request under its current plan."""
        self.session.render(self.engine.render_options)

    @property
    def newly_truncated_ids(self) -> set[str]:
        """The messages that are truncated now and were not, or less, in the last compaction."""
        entries = self.plan_before.ledger if self.plan_before is not None else ()
        known = {entry.id for entry in entries if entry.fate == "truncated"}
        return self.session.forms.truncated.keys() - (known - self.truncations.keys())

    def add_truncation(self, truncation: Truncation) -> None:
        """Record a truncation. Several of one output count as one, from the tokens before this compaction."""
        earlier = self.truncations.get(truncation.message_id)
        if earlier is not None:
            truncation = replace(truncation, tokens_before=earlier.tokens_before)
        self.truncations[truncation.message_id] = truncation

    def keeps_span_summaries(self, draft: Draft) -> bool:
        """True if earlier spans keep their own summaries beside the new one."""
        plan = self.session.plan
        has_spans = plan is not None and bool(plan.summarizations)
        return has_spans and self.engine.policy.renderer == "inplace" and not draft.folds_replacements

    def has_oversized_summary(self, draft: Draft) -> bool:
        """True if the summary of earlier compactions does not fit into the room that the draft leaves for it."""
        plan = self.session.plan
        if draft.folds_replacements:
            return True
        if plan is None or not plan.summary_text or self.keeps_span_summaries(draft):
            return False
        # Count it as a message, because its framing matters when the budget is met exactly.
        text = self.session.redaction.restore(plan.summary_text)
        return self.engine.counter.count_assistant_text(text) > max(draft.summary_tokens, 1)

    # Draft.

    def _make_first_draft(self) -> Steps[None]:
        """Draft what to keep. If it is less than the policy asks for, truncate outputs and try again."""
        draft = self._try_draft()
        if draft is None or draft.is_reduced:
            is_truncated = yield from truncate_recent(self)
            draft = self._try_draft() if is_truncated else draft
        if draft is None or draft.lacks_summary_room:
            is_truncated = yield from truncate_answered(self, draft)
            draft = self._try_draft() if is_truncated else draft
        if draft is None:
            is_truncated = yield from truncate_to_fit(self)
            draft = self._try_draft() if is_truncated else draft
        if draft is None:
            kept = kept_at_floor(self)
            self.engine.report_decision(self.session, self.check, self.decision, kept=kept, note=self.note)
        self.draft = draft or self.preview()

    def _try_draft(self) -> Draft | None:
        try:
            return self.preview()
        except InsufficientBudget:
            return None

    def _find_useful_limits(self) -> Steps[TokenLimits | None]:
        """Lower the limits until the draft has something to compact. Return None if the request fits already."""
        limits = self.limits
        while not self._changes_something:
            used_tokens = self._estimate()
            if used_tokens <= self.budget_tokens:
                return None
            # The request fits by our count, but not by the caller's.
            limits = self._lower(limits, used_tokens)
            self.draft = yield from self._draft_again(limits)
        return limits

    def _draft_again(self, limits: TokenLimits) -> Steps[Draft]:
        """Draft within lower limits. If not even the minimum fits, truncate the outputs that must stay."""
        try:
            return make_draft(self, limits)
        except InsufficientBudget:
            self.limits = limits
            is_truncated = yield from truncate_to_fit(self)
            if not is_truncated:
                raise
            return self.preview()

    @property
    def _changes_something(self) -> bool:
        draft = self.draft
        return bool(draft.partition.remainder or self.siblings or self.truncations or self.has_oversized_summary(draft))

    def _lower(self, limits: TokenLimits, used_tokens: int) -> TokenLimits:
        """Scale the limits down after a request came out at this many of the caller's tokens."""
        return limits.scale(min(_FIT_MARGIN, self.budget_tokens / used_tokens * _FIT_MARGIN))

    def _estimate(self) -> int:
        return self.engine.estimate(self.session, self.fixed)

    def _last_step(self) -> int:
        """Return the number of the last compaction, also if an earlier process left its summary in the history."""
        session = self.session
        versions = (_summary_version(message) for message in session.view if message.is_summary)
        step = session.plan.step if session.plan is not None else max(versions, default=0)
        # Another branch of the session may have compacted since.
        return max(step, session.shared.last_step)

    # Apply the ladder and build the plan.

    def _fit_budget(self, limits: TokenLimits) -> Steps[None]:
        """Apply the ladder and build a plan until the rendered request fits the budget."""
        session = self.session
        for attempt in range(1, _FIT_ATTEMPTS + 1):
            request = session.request
            self.ladder = yield from self._apply_ladder(self.draft)
            session.plan = build_plan(self, self.ladder)
            self.render()
            self.tokens_after = self._estimate()
            if self.tokens_after <= self.budget_tokens:
                return
            # Our counts and the caller's differ, or the summary is too long. Draft again with lower limits.
            self._discard(self.ladder, "the prompt was still over the budget with it")
            session.plan, session.request = self.plan_before, request
            limits = self._lower(limits, self.tokens_after)
            if attempt < _FIT_ATTEMPTS:
                self.draft = yield from self._draft_again(limits)
        raise InsufficientBudget(
            needed_tokens=self.tokens_after, budget_tokens=self.budget_tokens, detail="messages that must stay"
        )

    def _apply_ladder(self, draft: Draft) -> Steps[Ladder]:
        """Apply the ladder. If a standing instruction did not fit, keep as little as allowed and try again."""
        ladder = Ladder(self, draft)
        yield from ladder.apply()
        if not ladder.summary.missing_constraints or draft.partition.keep_turns <= (self.floor == "turn"):
            return ladder
        try:
            smaller_draft = make_draft(self, self.limits, keep_least=True)
        except InsufficientBudget:
            return ladder
        retry = Ladder(self, smaller_draft)
        yield from retry.apply()
        is_better = retry.summary.missing_constraints < ladder.summary.missing_constraints
        better, worse = (retry, ladder) if is_better else (ladder, retry)
        self._discard(worse, "another attempt kept at least as many standing instructions")
        return better

    def _discard(self, ladder: Ladder, reason: str) -> None:
        """Report that the prompt does not contain the summary of a ladder."""
        if ladder.summary.report is not None:
            ladder.summary.report.emit_discarded(self.check, reason)

    def _complete_plan(self) -> None:
        """Add the ledger and the effect on the prompt cache to the plan."""
        session, plan = self.session, self._plan
        ledger = build_ledger(session, self.ladder.draft, plan, self.request_before, self.ladder.ephemeral)
        absorbed_before = self.plan_before.absorbed if self.plan_before else ()
        session.plan = replace(
            plan,
            ledger=ledger,
            absorbed=(*absorbed_before, *absorbed_entries(ledger, plan)),
            full_hashes=full_hashes(session, self.request_before, session.request),
            compacted_token_count=self.tokens_after,
            cache=cache_effect(
                self.request_before,
                session.request,
                tokens_before=self.tokens_before,
                tokens_after=self.tokens_after,
            ),
        )

    @property
    def _plan(self) -> CompactionPlan:
        plan = self.session.plan
        assert plan is not None
        return plan

    # Commit and report.

    def _commit(self) -> Steps[None]:
        """Commit the plan. Raise `PlanConflict` if another process was faster."""
        session, plan = self.session, self._plan
        if self.plan_store is not None:
            expected = session.stored_plan_version
            is_committed = yield from commit_plan(session, self.plan_store, plan, self.check)
            if not is_committed:
                self._discard(self.ladder, "another process was faster")
                text = f"Another process committed a plan for session {session.session_id!r} after version {expected}."
                raise PlanConflict(text)
        session.set_plan(plan)

    @property
    def _reductions(self) -> list[str]:
        """Return where the compaction keeps less than the policy asks for, and why."""
        reductions = list(self.draft.reductions)
        spans = len(self.plan_before.summarizations) if self.plan_before else 0
        if spans and self.engine.policy.renderer == "inplace" and self.draft.folds_replacements:
            reductions.append(f"{FOLDED_SPANS}: {spans}")
        return reductions

    def _report_start(self) -> None:
        policy = self.engine.policy
        self.engine.report_decision(self.session, self.check, self.decision, draft=self.draft, note=self.note)
        self.check.emit(
            events.PolicyAppliedEvent(
                policy=policy.to_dict(),
                reductions=self._reductions,
                summary_tokens=self.draft.summary_tokens,
                target_tokens=self.draft.limits.summary_ceiling_tokens,
                headroom_calls=policy.headroom_calls,
                growth_tokens=self.growth_tokens,
            )
        )

    def _report(self) -> None:
        """Emit what the compaction did. Runs after the commit, so that no event describes a failed one."""
        session, plan, records = self.session, self._plan, self.ladder.records
        evicted = [self.messages[index] for unit in self.ladder.draft.evicted for index in unit.indices]
        warn_of_evicted_results(self.check, [message.id or "" for message in evicted if message.answers])
        if not self.check.has_listeners:
            return
        if self.ladder.summary.report is not None:
            self.ladder.summary.report.emit(self.check)
        self._report_truncations()
        tokens_by_id = {entry.id: entry.tokens for entry in plan.ledger}
        for record in records:
            self.check.emit(record_event(record, tokens_by_id))
        removals = [record for record in records if not isinstance(record, ClearRecord)]
        self.check.emit(
            events.PrunedMessagesEvent(
                step=plan.step,
                layers=self._layer_counts(),
                pruned_count=sum(record.span.message_count for record in removals),
                tokens_before=self.tokens_before,
                tokens_after=self.tokens_after,
                breakdown_after=self.engine.breakdown(session, self.fixed, self.tokens_after),
                plan_version=plan.version,
                cache=plan.cache.to_dict() if plan.cache else None,
                fates=fate_counts(plan.ledger),
                ledger=[entry.to_dict() for entry in plan.ledger],
                after=prompt_entries(session),
            )
        )

    def _report_truncations(self) -> None:
        """Emit the outputs that stay truncated. Others have left the prompt since."""
        shown_ids = {message.id for message in self.session.request.messages}
        for message_id, truncation in self.truncations.items():
            if message_id in shown_ids:
                self.check.emit(truncation.to_event())

    def _layer_counts(self) -> events.LayerCounts:
        messages = self.session.request.messages
        pinned = sum(len(unit.indices) for unit in self.ladder.draft.partition.pinned)
        summaries = sum((message.id or "").startswith(("summary-v", "span-")) for message in messages)
        return events.LayerCounts(pinned=pinned, summary=summaries, recent=len(messages) - pinned - summaries)


def _summary_version(message: Message) -> int:
    """Return the N of `<COMPACT-SUMMARY vN>`."""
    digits = message.text[len(SUMMARY_TAG) :].partition(">")[0]
    return int(digits) if digits.isdigit() else 0
