"""Plan a stored transcript again, using the public API of `compact`.

The first plan is a replay with the policy of the compaction. If it gives what happened, plans with other policies are
compared with history. Otherwise the page says why not, and compares nothing.

Nothing is sent anywhere. The events of a plan are captured here, and the built-in summarizer runs without a model, so
that the same choice always gives the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ingest.archive import transcripts
from ingest.decoding.facts import FactCount, count_facts
from ingest.models import Transcript
from viewer.compactions.ledger import Entry, Ledger, match_entries, parse_ledger
from viewer.kinds import CHECK, DECISION, ESTIMATE, PRUNED, RETENTION, SUMMARY
from viewer.numbers import format_count, to_count, to_fraction
from viewer.sessions.checks import PARTS, Check

STRATEGIES = ("task_state", "brief", "decision_log", "code_delta", "step_ledger", "requirements_ledger")
# Planning a larger transcript would take too long for an interactive page.
MAX_BYTES = 20_000_000
_DEFAULT_MODEL = "gpt-4o"
_BUILT_IN = "extractive"
_SUMMARY_ID = ("summary-", "span-")


class CannotPlan(Exception):
    """The transcript cannot be planned again. The message is shown on the page."""


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


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt before the compaction: its ledger, and the previous summary that was part of it."""

    ledger: Ledger
    previous_summary: str

    def messages(self, log: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int, int]:
        """Return the prompt's messages from the log, and how many it contained in part, and how many are unknown."""
        if not self.ledger.entries:
            return log, 0, 0
        by_id = {str(message.get("id")): message for message in log}
        by_hash = {message.get("hash"): message for message in log}
        messages, restored, missing = [], 0, 0
        for entry in self.ledger.entries:
            message = by_hash.get(entry.hash) or by_id.get(entry.id)
            if message is not None:
                restored += message.get("hash") not in (None, entry.hash)
                messages.append(message)
            elif self.previous_summary and entry.id.startswith(_SUMMARY_ID):
                messages.append({"id": entry.id, "role": "assistant", "content": self.previous_summary})
            else:
                missing += 1
        return messages, restored, missing


@dataclass(frozen=True)
class Source:
    """The transcript, the check and the prompt of a compaction. Two sources of the same compaction are equal."""

    key: tuple[str, str, int]
    transcript: Transcript = field(compare=False)
    check: Check = field(compare=False)
    prompt: Prompt = field(compare=False)

    @classmethod
    def of(cls, transcript: Transcript, check: Check, prompt: Prompt) -> Source:
        pruned = check.span(PRUNED) or check.lead
        return cls((transcript.chain, pruned.key, pruned.seq), transcript, check, prompt)


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

    @property
    def is_same(self) -> bool:
        return self.actual == self.planned


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

    @property
    def agrees(self) -> bool:
        return not self.reasons


@lru_cache(maxsize=16)
def replay(source: Source) -> Replay:
    """Plan the compaction again as it was, or raise CannotPlan."""
    outcome = plan_again(source, Choice.of(source.check))
    is_same = all(row.is_same for row in outcome.rows) and not outcome.differences
    return Replay(outcome, [] if is_same else _reasons(source, outcome.plan))


def plan_again(source: Source, choice: Choice) -> Outcome:
    """Plan the transcript with the chosen policy, or raise CannotPlan."""
    check, actual = source.check, source.prompt.ledger
    plan = _plan(source, choice)
    rows = [
        Row("Tokens before", check.before, plan.before),
        Row("Tokens after", check.after, plan.after),
        *_compare_fates(actual, plan.ledger),
        Row("Facts kept", check.facts_kept, plan.facts.kept if plan.facts else None),
    ]
    pairs = [(a, b) for a, b in match_entries(actual, plan.ledger) if a and b]
    return Outcome(plan, rows, [Difference(a, b.fate, b.rule) for a, b in pairs if a.fate != b.fate])


def _reasons(source: Source, plan: Plan) -> list[str]:
    """Return the known causes of a difference between a replay and what happened."""
    check, has_summary = source.check, bool(source.prompt.previous_summary)
    summarizer, used = str(check.value("summarizer", SUMMARY) or ""), plan.summarizer or _BUILT_IN
    externalized = check.fates.get("externalized", 0)
    causes = [
        (summarizer not in ("", used), f"The agent used the summarizer {summarizer}. A replay uses {used}."),
        (check.fallback, f"The agent's summary failed and it used the fallback {check.fallback}."),
        (has_summary, "The agent merged an earlier summary, of which a replay has only the text."),
        (check.is_recovery, "The agent planned with the window that the provider's error named."),
        (externalized, f"The agent moved {format_count(externalized, 'message')} to its artifact store."),
        (
            plan.restored,
            f"The prompt had {format_count(plan.restored, 'shortened message')}. A replay has the full text.",
        ),
        (plan.missing, f"The transcript lacks {format_count(plan.missing, 'message')} of the prompt."),
        (check.value("source", ESTIMATE) == "usage", "The agent corrected its counts with the provider's usage."),
    ]
    reasons = [text for applies, text in causes if applies]
    return reasons or ["The agent has settings or a version of compact that its events do not contain."]


def _plan(source: Source, choice: Choice) -> Plan:
    transcript, check = source.transcript, source.check
    if transcript.size > MAX_BYTES:
        raise CannotPlan(f"This transcript has {transcript.size:,} bytes. What-if supports up to {MAX_BYTES:,}.")
    try:
        log = [json.loads(line) for line in transcripts.lines(transcript)]
    except KeyError:
        raise CannotPlan("Part of this transcript is missing from the archive or does not match its hash.") from None
    messages, restored, missing = source.prompt.messages(log)
    # Tool schemas are part of every prompt. The window without them is smaller, and the trigger is reached earlier.
    overhead = min(check.parts[PARTS.index("tools_schema")], max(0, check.window - 1))
    events = _run(messages, check, choice, overhead)
    decision = _properties(events, DECISION)
    pruned = next((event for event in events if event["event"] == PRUNED), None)
    before = to_count(decision.get("t_est")) + overhead
    return Plan(
        choice=choice,
        triggered=bool(decision.get("triggered")),
        before=before,
        after=to_count(pruned["properties"].get("tokens_after")) + overhead if pruned else before,
        ledger=parse_ledger(pruned.get("payload")) if pruned else Ledger([], []),
        facts=count_facts(_properties(events, RETENTION)),
        summarizer=str(_properties(events, SUMMARY).get("summarizer") or ""),
        window=check.window,
        restored=restored,
        missing=missing,
    )


def _run(messages: list[dict[str, Any]], check: Check, choice: Choice, overhead: int) -> list[dict[str, Any]]:
    """Run preflight with the chosen policy and return its events."""
    # The engine and its tokenizer take a third of a second to load.
    from compact import CallbackExporter, CompactConfig, CompactError, CompactManager, CompactPolicy  # noqa: PLC0415

    events: list[dict[str, Any]] = []
    window = check.window - overhead
    without_hashes = [{key: value for key, value in message.items() if key != "hash"} for message in messages]
    try:
        policy = CompactPolicy(
            trigger_pct=max(0.01, (choice.trigger_pct * check.window - overhead) / window),
            strategy=choice.strategy,
            keep_recent_turns=choice.keep_recent_turns,
            keep_tool_io_pairs=choice.keep_tool_io_pairs,
            **_fixed_policy(check),
        )
        manager = CompactManager(
            CompactConfig(
                model=str(check.value("model", CHECK, ESTIMATE) or _DEFAULT_MODEL),
                max_context_tokens=window,
                policy=policy,
                exporter=CallbackExporter(events.append),
            )
        )
        if check.trigger == "manual":
            manager.manual_compact("what-if", without_hashes, floor="newest")
        else:
            manager.preflight("what-if", without_hashes, floor="newest")
    except (CompactError, ValueError) as error:
        raise CannotPlan(str(error)) from None
    return events


def _fixed_policy(check: Check) -> dict[str, Any]:
    """Return the settings of the compaction that the form does not change."""
    buffer = check.policy.get("hard_cap_buffer", check.policy.get("buffer"))
    settings = {name: check.policy[name] for name in ("renderer", "pruning") if check.policy.get(name)}
    return settings | ({"hard_cap_buffer": to_count(buffer)} if buffer is not None else {})


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
