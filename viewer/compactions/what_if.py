"""Plan a stored transcript again, using the public API of `compact`.

The first plan is a replay with the policy of the compaction. If it gives what happened, plans with other policies are
compared with history. Otherwise the page says why not, and compares nothing.

Nothing is sent anywhere. The events of a plan are captured here, and the built-in summarizer runs without a model, so
that the same choice always gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from compact.events import RETRIED_AS_BRIEF, SummaryCreatedEvent

from ingest.decoding.facts import FactCount, count_facts
from ingest.storage.figures.table import BY_NAME
from viewer.compactions.ledger import Entry, Ledger, match_entries, parse_ledger
from viewer.compactions.session_replay import CannotPlan, Step, read_log, replay_steps
from viewer.kinds import DECISION, PRUNED, RETENTION, SUMMARY
from viewer.numbers import format_count, to_count, to_fraction
from viewer.sessions.checks import Check

STRATEGIES = ("task_state", "brief", "decision_log", "code_delta", "step_ledger", "requirements_ledger")
# Planning a larger transcript would take too long for an interactive page.
MAX_BYTES = 20_000_000
_BUILT_IN = "extractive"
_FACTS = BY_NAME["facts"].label
_TOKENS_BEFORE, _TOKENS_AFTER = "Tokens before", "Tokens after"
_TOKENS = {_TOKENS_BEFORE: "before", _TOKENS_AFTER: "after"}
# A masked value in a summary has other tokens than the original, and so one line more or less may fit.
_REDACTION_PCT = 0.01
_SUMMARY_ID = ("summary-", "span-")


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy to try."""

    trigger_pct: float
    strategy: str
    keep_recent_turns: int
    keep_tool_io_pairs: int

    @classmethod
    def of(cls, check: Check) -> Choice:
        """Return the policy of a compaction."""
        return cls.from_query({}, check)

    @classmethod
    def from_query(cls, query: Mapping[str, Any], check: Check) -> Choice:
        """Parse the form. Missing values are taken from the policy of the compaction."""
        policy = check.policy
        strategy = str(query.get("strategy") or policy.get("strategy") or STRATEGIES[0])
        trigger = to_fraction(policy.get("trigger_pct")) * 100 or 85
        turns, pairs = (to_count(policy.get(name, default)) for name, default in _KEEP_DEFAULTS.items())
        return cls(
            trigger_pct=_parse_number(query.get("trigger_pct"), trigger, 1, 100) / 100,
            strategy=strategy if strategy in STRATEGIES else STRATEGIES[0],
            keep_recent_turns=int(_parse_number(query.get("keep_recent_turns"), turns, 0, 500)),
            keep_tool_io_pairs=int(_parse_number(query.get("keep_tool_io_pairs"), pairs, 0, 500)),
        )


_KEEP_DEFAULTS = {"keep_recent_turns": 6, "keep_tool_io_pairs": 4}


@dataclass(frozen=True)
class Source:
    """A compaction with its transcript, and those before it. Two sources of the same compaction are equal.

    `previous_summary` is set if the transcripts of earlier compactions are missing. It then replaces them.
    """

    key: tuple[tuple[str, str, int], ...]
    steps: tuple[Step, ...] = field(compare=False)
    previous_summary: str = field(default="", compare=False)

    @classmethod
    def of(cls, steps: Sequence[Step], previous_summary: str = "") -> Source:
        spans = [(step, step.check.span(PRUNED) or step.check.lead) for step in steps]
        key = tuple((step.transcript.chain, span.key, span.seq) for step, span in spans)
        return cls(key, tuple(steps), previous_summary)

    @property
    def step(self) -> Step:
        return self.steps[-1]

    @property
    def check(self) -> Check:
        return self.step.check

    @property
    def is_redacted(self) -> bool:
        return any(step.transcript.redactions for step in self.steps)

    def messages(self, log: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int, int]:
        """Return the messages to plan, and how many the prompt contained in part, and how many are unknown."""
        ledger = self.step.ledger
        if len(self.steps) > 1 or not ledger.entries:
            return log, 0, 0
        by_id = {str(message.get("id")): message for message in log}
        by_hash = {message.get("hash"): message for message in log}
        messages, restored, missing = [], 0, 0
        for entry in ledger.entries:
            message = by_hash.get(entry.hash) or by_id.get(entry.id)
            if message is not None:
                restored += message.get("hash") not in (None, entry.hash)
                messages.append(message)
            elif self.previous_summary and entry.id.startswith(_SUMMARY_ID):
                messages.append({"id": entry.id, "role": "assistant", "content": self.previous_summary})
            else:
                missing += 1
        return messages, restored, missing


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of planning the stored prompt with a policy."""

    choice: Choice
    triggered: bool
    before: int
    after: int
    ledger: Ledger
    facts: FactCount | None
    summarizer: str
    window: int
    restored: int  # messages that the prompt contained in part and that were planned in full
    missing: int  # messages of the prompt that the transcript does not have

    @property
    def trigger_tokens(self) -> int:
        return round(self.choice.trigger_pct * self.window)


@dataclass(frozen=True, slots=True)
class Difference:
    """A message whose fate would have been different."""

    entry: Entry
    fate: str
    rule: str


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of what happened, and of a plan."""

    label: str
    actual: int | None
    planned: int | None
    fate: str = ""
    actual_total: int | None = None
    planned_total: int | None = None

    @property
    def is_same(self) -> bool:
        return (self.actual, self.actual_total) == (self.planned, self.planned_total)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan beside what happened."""

    plan: Plan
    rows: list[Row]
    differences: list[Difference]


@dataclass(frozen=True, slots=True)
class Replay:
    """The plan with the policy of the compaction. `reasons` say why it is not what happened."""

    outcome: Outcome
    reasons: list[str]
    note: str = ""

    @property
    def agrees(self) -> bool:
        return not self.reasons


@lru_cache(maxsize=16)
def replay(source: Source) -> Replay:
    """Plan the compaction again as it was, or raise CannotPlan."""
    outcome = plan_again(source, Choice.of(source.check))
    different = [row for row in outcome.rows if not row.is_same]
    if not different and not outcome.differences:
        return Replay(outcome, [])
    if source.is_redacted and (note := redaction_note(outcome)):
        return Replay(outcome, [], note)
    return Replay(outcome, _reasons(source, outcome.plan))


def redaction_note(outcome: Outcome) -> str:
    """Return what differs because the summary contains masked values, or "" if anything else differs, too."""
    different = [row for row in outcome.rows if not row.is_same]
    if not different or outcome.differences or not all(map(_is_due_to_redaction, different)):
        return ""
    parts = []
    for row in different:
        if row.label == _FACTS:
            kept, was = f"{row.planned} of {row.planned_total}", f"{row.actual} of {row.actual_total}"
            parts.append(f"kept {kept} facts, not {was}")
        else:
            when = _TOKENS[row.label]
            parts.append(f"has {row.planned:,} tokens {when} the compaction, not {row.actual:,}")
    return f"It {', and '.join(parts)}, because the transcript is redacted."


def _is_due_to_redaction(row: Row) -> bool:
    """True for another number of facts, or a slightly different number of tokens.

    The prompt before a compaction contains the summary of the one before it.
    """
    if row.label == _FACTS:
        return True
    actual, planned = row.actual or 0, row.planned or 0
    return row.label in _TOKENS and abs(actual - planned) <= _REDACTION_PCT * actual


def plan_again(source: Source, choice: Choice) -> Outcome:
    """Plan the transcript with the chosen policy, or raise CannotPlan."""
    check, actual = source.check, source.step.ledger
    plan = _plan(source, choice)
    rows = [
        Row(_TOKENS_BEFORE, check.before, plan.before),
        Row(_TOKENS_AFTER, check.after, plan.after),
        *_compare_fates(actual, plan.ledger),
        Row(
            _FACTS,
            check.facts_kept,
            plan.facts.kept if plan.facts else None,
            # A plan that removes more messages removes more facts.
            actual_total=check.facts_total,
            planned_total=plan.facts.total if plan.facts else None,
        ),
    ]
    pairs = [(a, b) for a, b in match_entries(actual, plan.ledger) if a and b]
    return Outcome(plan, rows, [Difference(a, b.fate, b.rule) for a, b in pairs if a.fate != b.fate])


def _reasons(source: Source, plan: Plan) -> list[str]:
    """Return the known causes of a difference between a replay and what happened."""
    check, has_summary = source.check, bool(source.previous_summary)
    summary = check.event(SummaryCreatedEvent)
    summarizer, used = (summary and summary.summarizer) or "", plan.summarizer or _BUILT_IN
    externalized = check.fates.get("externalized", 0)
    causes = [
        (summarizer not in ("", used), f"The agent used the summarizer {summarizer}. A replay uses {used}."),
        (
            check.fallback not in ("", RETRIED_AS_BRIEF),
            f"The agent's summary failed and it used the fallback {check.fallback}.",
        ),
        (has_summary, "The agent merged an earlier summary, of which a replay has only the text."),
        (check.is_recovery, "The agent planned with the window that the provider's error named."),
        (externalized, f"The agent moved {format_count(externalized, 'message')} to its artifact store."),
        (
            plan.restored,
            f"The prompt had {format_count(plan.restored, 'shortened message')}. A replay has the full text.",
        ),
        (
            source.is_redacted,
            "The transcript is redacted. The agent summarized the original values.",
        ),
        (plan.missing, f"The transcript lacks {format_count(plan.missing, 'message')} of the prompt."),
        (check.is_corrected_by_provider, "The agent corrected its counts with the provider's counts."),
    ]
    reasons = [text for applies, text in causes if applies]
    return reasons or ["The agent has settings or a version of compact that its events do not contain."]


def _plan(source: Source, choice: Choice) -> Plan:
    check = source.check
    size = sum(step.transcript.size for step in source.steps)
    if size > MAX_BYTES:
        raise CannotPlan(f"The transcripts have {size:,} bytes. What-if supports up to {MAX_BYTES:,}.")
    messages, restored, missing = source.messages(read_log(source.step.transcript))
    events = replay_steps(source.steps, messages, source.step.policy | _chosen(choice, source))
    decision = _properties(events, DECISION)
    pruned = next((event for event in events if event["event"] == PRUNED), None)
    before = to_count(decision.get("t_est"))
    return Plan(
        choice=choice,
        triggered=bool(decision.get("triggered")),
        before=before,
        after=to_count(pruned["properties"].get("tokens_after")) if pruned else before,
        ledger=parse_ledger(pruned.get("payload")) if pruned else Ledger([], []),
        facts=count_facts(_properties(events, RETENTION)),
        summarizer=str(_properties(events, SUMMARY).get("summarizer") or ""),
        window=check.window,
        restored=restored,
        missing=missing,
    )


def _chosen(choice: Choice, source: Source) -> dict[str, Any]:
    """Return the settings that the form changes. Settings that are as they were keep their exact value."""
    was = Choice.of(source.check)
    names = ("trigger_pct", "strategy", "keep_recent_turns", "keep_tool_io_pairs")
    recorded = source.step.policy
    return {
        name: getattr(choice, name)
        for name in names
        if name not in recorded or getattr(choice, name) != getattr(was, name)
    }


def _compare_fates(actual: Ledger, planned: Ledger) -> list[Row]:
    counts = {fate: [count, 0] for fate, count, _ in actual.counts}
    for fate, count, _ in planned.counts:
        counts.setdefault(fate, [0, 0])[1] = count
    return [Row(fate, before, after, fate) for fate, (before, after) in counts.items()]


def _properties(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((dict(event["properties"]) for event in events if event["event"] == name), {})


def _parse_number(value: Any, default: float, least: float, most: float) -> float:
    try:
        number = float(value) if value not in (None, "") else default
    except ValueError:
        number = default
    return max(least, min(most, number))
