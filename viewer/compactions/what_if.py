"""Plan a stored transcript again with another policy, using the public API of `compact`.

Nothing is sent anywhere. The events of the second plan are captured here, and the built-in summarizer runs without a
model, so that the same choice always gives the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingest.archive import transcripts
from ingest.decoding.facts import FactCount, count_facts
from ingest.models import Transcript
from viewer.compactions.ledger import Entry, Ledger, match_entries, parse_ledger
from viewer.kinds import CHECK, DECISION, ESTIMATE, PRUNED, RETENTION
from viewer.numbers import to_count, to_fraction
from viewer.sessions.checks import PARTS, Check

STRATEGIES = ("task_state", "brief", "decision_log", "code_delta", "step_ledger", "requirements_ledger")
# Planning a larger transcript would take too long for an interactive page.
MAX_BYTES = 20_000_000
_DEFAULT_MODEL = "gpt-4o"


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

    def messages(self, log: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        """Return the prompt's messages from the log, and the number that the prompt contained only in part."""
        if not self.ledger.entries:
            return log, 0
        by_id = {str(message.get("id")): message for message in log}
        by_hash = {message.get("hash"): message for message in log}
        messages, restored = [], 0
        for entry in self.ledger.entries:
            message = by_hash.get(entry.hash) or by_id.get(entry.id)
            if message is not None:
                restored += message.get("hash") not in (None, entry.hash)
                messages.append(message)
            elif self.previous_summary and entry.role == "assistant":
                messages.append({"id": entry.id, "role": "assistant", "content": self.previous_summary})
        return messages, restored


@dataclass(frozen=True, slots=True)
class Difference:
    """A message whose fate would have been different."""

    entry: Entry
    fate: str
    rule: str


@dataclass(frozen=True, slots=True)
class Answer:
    choice: Choice
    triggered: bool
    before: int
    after: int
    fates: list[tuple[str, int, int]]  # fate, actual count, what-if count
    differences: list[Difference]
    facts: FactCount | None
    window: int
    restored: int  # messages that the prompt contained in part and that were planned in full

    @property
    def trigger_tokens(self) -> int:
        return round(self.choice.trigger_pct * self.window)


def plan_again(transcript: Transcript, check: Check, prompt: Prompt, choice: Choice) -> Answer:
    """Plan the transcript with the chosen policy, or raise CannotPlan."""
    if transcript.size > MAX_BYTES:
        raise CannotPlan(f"This transcript has {transcript.size:,} bytes. What-if supports up to {MAX_BYTES:,}.")
    try:
        messages, restored = prompt.messages([json.loads(line) for line in transcripts.lines(transcript)])
    except KeyError:
        raise CannotPlan("Part of this transcript is missing from the archive or does not match its hash.") from None
    # Tool schemas are part of every prompt. The window without them is smaller, and the trigger is reached earlier.
    overhead = min(check.parts[PARTS.index("tools_schema")], check.window - 1)
    events = _plan(messages, check, choice, overhead)
    decision = _properties(events, DECISION)
    pruned = next((event for event in events if event["event"] == PRUNED), None)
    before = to_count(decision.get("t_est")) + overhead
    ledger = parse_ledger(pruned.get("payload")) if pruned else Ledger([], [])
    return Answer(
        choice=choice,
        triggered=bool(decision.get("triggered")),
        before=before,
        after=to_count(pruned["properties"].get("tokens_after")) + overhead if pruned else before,
        fates=_compare_counts(prompt.ledger, ledger),
        differences=_differences(prompt.ledger, ledger),
        facts=count_facts(_properties(events, RETENTION)),
        window=check.window,
        restored=restored,
    )


def _plan(messages: list[dict[str, Any]], check: Check, choice: Choice, overhead: int) -> list[dict[str, Any]]:
    """Run preflight with the chosen policy and return its events."""
    # The engine and its tokenizer take a third of a second to load.
    from compact import CallbackExporter, CompactConfig, CompactError, CompactManager, CompactPolicy  # noqa: PLC0415

    events: list[dict[str, Any]] = []
    window = check.window - overhead
    policy = CompactPolicy(
        trigger_pct=max(0.01, (choice.trigger_pct * check.window - overhead) / window),
        strategy=choice.strategy,
        keep_recent_turns=choice.keep_recent_turns,
        keep_tool_io_pairs=choice.keep_tool_io_pairs,
    )
    without_hashes = [{key: value for key, value in message.items() if key != "hash"} for message in messages]
    try:
        manager = CompactManager(
            CompactConfig(
                model=str(check.value("model", CHECK, ESTIMATE) or _DEFAULT_MODEL),
                max_context_tokens=window,
                policy=policy,
                exporter=CallbackExporter(events.append),
            )
        )
        manager.preflight("what-if", without_hashes, floor="newest")
    except CompactError as error:
        raise CannotPlan(str(error)) from None
    return events


def _compare_counts(actual: Ledger, planned: Ledger) -> list[tuple[str, int, int]]:
    counts = {fate: [count, 0] for fate, count, _ in actual.counts}
    for fate, count, _ in planned.counts:
        counts.setdefault(fate, [0, 0])[1] = count
    return [(fate, before, after) for fate, (before, after) in counts.items()]


def _differences(actual: Ledger, planned: Ledger) -> list[Difference]:
    pairs = [(a, b) for a, b in match_entries(actual, planned) if a and b]
    return [Difference(a, b.fate, b.rule) for a, b in pairs if a.fate != b.fate]


def _properties(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((dict(event["properties"]) for event in events if event["event"] == name), {})


def _parse_number(value: Any, default: float, least: float, most: float) -> float:
    try:
        number = float(value) if value not in (None, "") else default
    except ValueError:
        number = default
    return max(least, min(most, number))
