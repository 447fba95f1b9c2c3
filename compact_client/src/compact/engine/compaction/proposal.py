"""Propose a compaction: a smaller prompt and the plan behind it. The session does not change.

`propose` draws up the order: draft, archive, apply the ladder (which summarizes and checks retention), build the plan.
Whatever interrupts it leaves the session as it was. `CompactionAttempts` commits what it returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from compact import events
from compact.engine.call import FixedTokens
from compact.engine.compaction.archive import TranscriptArchive
from compact.engine.compaction.drafts import DraftTerms, kept_at_floor, make_draft
from compact.engine.compaction.ladder import ArtifactWriter, Ladder, strategy_context
from compact.engine.compaction.ledger import FOLDED_SPANS
from compact.engine.compaction.plan_builder import build_plan, complete_plan
from compact.engine.compaction.prompt import Prompt, read_prompt
from compact.engine.compaction.report import Changes, discard_summary
from compact.engine.compaction.summary_update import SummaryUpdate, WrittenSummary
from compact.engine.compaction.truncations import PromptTruncation
from compact.engine.effects import Steps
from compact.engine.session import Candidate, Request, Session
from compact.engine.token_counter import PlanTextCounter
from compact.exceptions import InsufficientBudget
from compact.messages import SUMMARY_TAG, Message
from compact.planning.draft import Draft
from compact.planning.limits import TokenLimits, limits_for, planned_growth
from compact.planning.plan import CompactionPlan
from compact.planning.trigger import Decision
from compact.policy import Floor

if TYPE_CHECKING:
    from compact.engine.engine import Engine

_FIT_ATTEMPTS = 4
_FIT_MARGIN = 0.97  # aim this far below the budget when a request came out too large


@dataclass(frozen=True, slots=True)
class Inputs:
    """The request to compact, and the terms. The session does not change before the commit."""

    engine: Engine
    session: Session
    check: events.CheckSpan
    decision: Decision
    archive: TranscriptArchive
    fixed: FixedTokens
    artifact_store: Any
    note: str | None = None
    """The reason for a manual compaction."""
    is_after_rehydration: bool = False
    reserve_tokens: int = 0
    """Tokens to leave free for rehydrated content."""
    floor: Floor = "turn"
    reusable: WrittenSummary | None = None
    """The summary of a compaction that could not be committed."""
    source_problems: set[str] = field(default_factory=set)
    """The sources of replayable results that could not be checked. Each one is reported once."""

    @property
    def trigger(self) -> str:
        """The trigger that the plan records."""
        return "overflow" if self.decision.rule == "overflow" else "preflight" if self.note is None else "manual"

    @property
    def growth_tokens(self) -> float:
        """Tokens that a call adds, for which the compaction leaves space."""
        policy, session = self.engine.policy, self.session
        if self.note is not None:
            return 0.0
        if policy.growth_tokens is not None:
            return policy.growth_tokens
        return planned_growth(
            policy,
            self.engine.window_tokens(session),
            self.decision.trigger_tokens,
            average=session.average_growth,
            median=session.median_growth,
        )

    @property
    def limits(self) -> TokenLimits:
        """The limits of the request, in the caller's tokens."""
        return limits_for(
            self.engine.policy,
            self.engine.window_tokens(self.session),
            self.decision.trigger_tokens,
            self.growth_tokens,
            budget_tokens=self.engine.budget_tokens(self.session),
            used_tokens=self.decision.used_tokens,
        )

    @property
    def terms(self) -> DraftTerms:
        """The terms of the drafts."""
        engine, session = self.engine, self.session
        stores = self.artifact_store is not None and "externalize" in engine.policy.ladder
        return DraftTerms(
            policy=engine.policy,
            renderer=engine.renderer,
            plan=session.plan,
            durability=session.durability,
            counter=PlanTextCounter(engine.counter, session.redaction.restore),
            fixed_tokens=self.fixed.total + engine.counter.reply_overhead(session.request.messages),
            floor=self.floor,
            # The provider accepts what fits, so a recovery removes no more than that.
            start="everything" if self.trigger == "overflow" else "policy",
            is_manual=self.note is not None,
            can_externalize=stores and not self.is_after_rehydration,
        )

    def read_prompt(self) -> Prompt:
        """Return the session's request as a prompt to compact."""
        session, count_text = self.session, self.engine.counter.count_text
        forms = session.forms.truncated
        return read_prompt(session, session.request, self.engine.policy, count_text, forms=forms, truncations={})

    def warn_of_source(self, problem: str) -> None:
        """Warn once that the source of a replayable result could not be checked."""
        if problem not in self.source_problems:
            self.source_problems.add(problem)
            self.check.emit(events.WarningEvent(severity="low", code="source_unverified", message=problem))


@dataclass(frozen=True, slots=True)
class Proposal(Candidate):
    """A candidate, and what is reported about it once it is committed."""

    changes: Changes


def propose(inputs: Inputs, limits: TokenLimits) -> Steps[Proposal | None]:
    """Return a compaction within some limits, or None if the request fits and would not get smaller.

    Raises `InsufficientBudget`, `ArchiveFailed` or `StoreFailed`.
    """
    return (yield from _Proposing(inputs, limits).run())


def preview(inputs: Inputs, limits: TokenLimits) -> tuple[Prompt, Draft]:
    """Return the draft that `propose` would start from. Raise `InsufficientBudget` if there is none."""
    return _Proposing(inputs, limits).preview()


class _Proposing:
    """The search for a compaction that fits."""

    def __init__(self, inputs: Inputs, limits: TokenLimits) -> None:
        self._inputs = inputs
        self._engine = inputs.engine
        self._session = inputs.session
        self._check = inputs.check
        self._tokens_before = inputs.decision.used_tokens
        self._terms = inputs.terms
        self._truncation = PromptTruncation(self._engine, self._session, self._check, self._terms)
        self._budget_tokens = limits.budget_tokens
        """The budget in the caller's tokens."""
        usage = self._session.usage
        self._limits_without_reserve = usage.revert_limits(limits)
        self._limits = usage.revert_limits(limits.reserve(inputs.reserve_tokens))
        """The limits in our own tokens."""
        self._prompt = inputs.read_prompt()
        self._story: frozenset[int] = frozenset()
        """The first indices of the older units that stay with shortened outputs."""

    def run(self) -> Steps[Proposal | None]:
        """Return a compaction that fits, or None if nothing can be gained."""
        draft = yield from self._find_first_draft()
        draft = yield from self._keep_story(draft)
        self._report_start(draft)
        draft, limits = yield from self._find_useful_draft(draft)
        if limits is None:
            return None
        step = yield from self._inputs.archive.save_transcript(_last_step(self._session) + 1)
        proposal = yield from self._fit_budget(draft, limits, step)
        if not self._is_smaller(proposal):
            discard_summary(self._check, proposal.changes.summary, "the prompt would not be smaller with it")
            return None
        return proposal

    def preview(self) -> tuple[Prompt, Draft]:
        """Return the prompt and its draft. Raise `InsufficientBudget` if there is none."""
        return self._prompt, self._draft()

    def _draft(self) -> Draft:
        try:
            return self._draft_within(self._limits)
        except InsufficientBudget:
            if self._limits == self._limits_without_reserve:
                raise
            # Messages that must stay are more important than space for rehydrated content.
            self._limits = self._limits_without_reserve
            return self._draft_within(self._limits)

    def _draft_within(self, limits: TokenLimits) -> Draft:
        return make_draft(self._prompt, self._terms, limits, story=self._story)

    def _try_draft(self) -> Draft | None:
        try:
            return self._draft()
        except InsufficientBudget:
            return None

    def _find_first_draft(self) -> Steps[Draft]:
        """Draft what to keep. If it is less than the policy asks for, truncate outputs and try again."""
        draft, truncation = self._try_draft(), self._truncation
        if draft is None or draft.is_reduced:
            draft = yield from self._draft_after(truncation.truncate_recent(self._prompt), draft)
        if draft is None or draft.lacks_summary_room:
            steps = truncation.truncate_answered(self._prompt, draft, self._limits)
            draft = yield from self._draft_after(steps, draft)
        if draft is None:
            draft = yield from self._draft_after(truncation.truncate_to_fit(self._prompt, self._limits), draft)
        if draft is None:
            inputs, kept = self._inputs, kept_at_floor(self._prompt, self._terms)
            self._engine.report_decision(self._session, self._check, inputs.decision, kept=kept, note=inputs.note)
        return draft or self._draft()

    def _keep_story(self, draft: Draft) -> Steps[Draft]:
        """Keep older units with shortened outputs, as many as there is room for beside a short summary."""
        policy = self._terms.policy
        if not self._terms.renderer.keeps_story or policy.pruning != "recency" or not policy.story_pct:
            # Another layout, or another rule about what stays.
            return draft
        story = self._truncation.choose_story(self._prompt, draft)
        if not story.units:
            return draft
        self._prompt = yield from self._truncation.truncate_story(self._prompt, story)
        self._story = frozenset(unit.first for unit in story.units)
        longer = self._try_draft()
        if longer is None or not self._changes_something(longer):
            self._story = frozenset()
            return draft
        return longer

    def _draft_after(self, truncation: Steps[Prompt], draft: Draft | None) -> Steps[Draft | None]:
        """Truncate outputs, and draft again if there were any."""
        prompt = yield from truncation
        if prompt is self._prompt:
            return draft
        self._prompt = prompt
        return self._try_draft()

    def _find_useful_draft(self, draft: Draft) -> Steps[tuple[Draft, TokenLimits | None]]:
        """Lower the limits until the draft has something to compact. Without limits, the request fits already."""
        limits = self._limits
        while not self._changes_something(draft):
            used_tokens = self._estimate(self._prompt.request)
            if used_tokens <= self._budget_tokens:
                return draft, None
            # The request fits by our count, but not by the caller's.
            limits = self._lower(limits, used_tokens)
            draft = yield from self._draft_again(limits)
        return draft, limits

    def _draft_again(self, limits: TokenLimits) -> Steps[Draft]:
        """Draft within lower limits. If not even the minimum fits, truncate the outputs that must stay."""
        try:
            return self._draft_within(limits)
        except InsufficientBudget:
            self._limits = limits
            prompt = yield from self._truncation.truncate_to_fit(self._prompt, limits)
            if prompt is self._prompt:
                raise
            self._prompt = prompt
            return self._draft()

    def _changes_something(self, draft: Draft) -> bool:
        prompt = self._prompt
        has_shortened = bool(prompt.siblings or prompt.truncations)
        removes = bool(draft.partition.remainder or draft.partition.user_limits)
        return removes or has_shortened or self._terms.has_oversized_summary(draft)

    def _lower(self, limits: TokenLimits, used_tokens: int) -> TokenLimits:
        """Scale the limits down after a request came out at this many of the caller's tokens."""
        return limits.scale(min(_FIT_MARGIN, self._budget_tokens / used_tokens * _FIT_MARGIN))

    def _estimate(self, request: Request) -> int:
        return self._engine.estimate_request(self._session, request, self._inputs.fixed)

    # Apply the ladder and build the plan.

    def _fit_budget(self, draft: Draft, limits: TokenLimits, step: int) -> Steps[Proposal]:
        """Apply the ladder and build a plan until the rendered request fits the budget."""
        session, tokens_after = self._session, 0
        for attempt in range(1, _FIT_ATTEMPTS + 1):
            ladder = yield from self._apply_ladder(draft, step)
            plan = self._build_plan(ladder, step)
            request = session.render_request(plan, ladder.prompt.forms, self._engine.render_options)
            tokens_after = self._estimate(request)
            if tokens_after <= self._budget_tokens:
                return self._complete(plan, request, tokens_after, ladder)
            # Our counts and the caller's differ, or the summary is too long. Draft again with lower limits.
            discard_summary(self._check, ladder.summary, "the prompt was still over the budget with it")
            limits = self._lower(limits, tokens_after)
            if attempt < _FIT_ATTEMPTS:
                draft = yield from self._draft_again(limits)
        raise InsufficientBudget(
            needed_tokens=tokens_after, budget_tokens=self._budget_tokens, detail="messages that must stay"
        )

    def _apply_ladder(self, draft: Draft, step: int) -> Steps[Ladder]:
        """Apply the ladder. If a standing instruction did not fit, keep as little as allowed and try again."""
        ladder = yield from self._ladder(draft, step)
        yield from ladder.apply()
        if not ladder.summary.missing_constraints or draft.partition.keep_turns <= (self._terms.floor == "turn"):
            return ladder
        try:
            smaller_draft = make_draft(self._prompt, self._terms, self._limits, keep_least=True)
        except InsufficientBudget:
            return ladder
        retry = yield from self._ladder(smaller_draft, step)
        yield from retry.apply()
        is_better = retry.summary.missing_constraints < ladder.summary.missing_constraints
        better, worse = (retry, ladder) if is_better else (ladder, retry)
        discard_summary(self._check, worse.summary, "another attempt kept at least as many standing instructions")
        return better

    def _ladder(self, draft: Draft, step: int) -> Steps[Ladder]:
        prompt, draft = yield from self._truncation.truncate_user_messages(self._prompt, draft)
        inputs, engine, session, terms = self._inputs, self._engine, self._session, self._terms
        summary_update = SummaryUpdate(engine, session, self._check, draft, terms, step=step, reusable=inputs.reusable)
        context = strategy_context(
            session,
            prompt,
            draft,
            terms.policy,
            engine.counter.count_text,
            now=events.iso(engine.clock()),
            has_artifact_store=inputs.artifact_store is not None,
            is_after_rehydration=inputs.is_after_rehydration,
            warn=inputs.warn_of_source,
        )
        return Ladder(
            prompt,
            draft,
            context=context,
            summary_update=summary_update,
            artifacts=ArtifactWriter(inputs.artifact_store, partial(engine.artifact_metadata, session.session_id)),
            terms=terms,
            session=session,
            check=self._check,
        )

    def _build_plan(self, ladder: Ladder, step: int) -> CompactionPlan:
        return build_plan(
            self._session,
            ladder,
            self._terms,
            step=step,
            trigger=self._inputs.trigger,
            tokens_before=self._tokens_before,
            created_at=events.iso(self._engine.clock()),
        )

    def _complete(self, plan: CompactionPlan, request: Request, tokens_after: int, ladder: Ladder) -> Proposal:
        """Return the candidate, with the ledger and the effect on the prompt cache in its plan."""
        plan = complete_plan(
            plan,
            self._session,
            self._terms,
            ladder,
            request,
            tokens_before=self._tokens_before,
            tokens_after=tokens_after,
        )
        return Proposal(plan, request, ladder.prompt.forms, tokens_after, Changes.of(ladder))

    def _is_smaller(self, candidate: Candidate) -> bool:
        """False if nothing was gained. The summary of a few short messages can be longer than they are."""
        after = (candidate.tokens_after, candidate.request.message_tokens)
        return after < (self._tokens_before, self._session.request.message_tokens)

    def _report_start(self, draft: Draft) -> None:
        inputs, policy = self._inputs, self._engine.policy
        self._engine.report_decision(self._session, self._check, inputs.decision, draft=draft, note=inputs.note)
        # Where the compaction keeps less than the policy asks for, and why.
        reductions = list(draft.reductions)
        if spans := self._terms.folded_spans(draft):
            reductions.append(f"{FOLDED_SPANS}: {spans}")
        self._check.emit(
            events.PolicyAppliedEvent(
                policy=policy.to_dict(),
                reductions=reductions,
                summary_tokens=draft.summary_tokens,
                target_tokens=draft.limits.summary_ceiling_tokens,
                headroom_calls=policy.headroom_calls,
                growth_tokens=inputs.growth_tokens,
            )
        )


def _last_step(session: Session) -> int:
    """Return the number of the last compaction, also if an earlier process left its summary in the history."""
    versions = (_summary_version(message) for message in session.view if message.is_summary)
    step = session.plan.step if session.plan is not None else max(versions, default=0)
    # Another branch of the session may have compacted since.
    return max(step, session.shared.last_step)


def _summary_version(message: Message) -> int:
    """Return the N of `<COMPACT-SUMMARY vN>`."""
    digits = message.text[len(SUMMARY_TAG) :].partition(">")[0]
    return int(digits) if digits.isdigit() else 0
