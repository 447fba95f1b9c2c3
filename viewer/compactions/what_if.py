"""A stored transcript planned again under another policy, by `compact`'s public API.

Nothing leaves: the events of the second plan are caught here, only fates and token counts are kept, and the summary
is the built-in one, so no model is asked and the same choice always gives the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ingest.archive import transcripts
from ingest.models import Transcript
from viewer.compactions.ledger import Entry, Ledger, ledger, paired
from viewer.numbers import to_count, to_fraction
from viewer.sessions.checks import PARTS, Check

STRATEGIES = ("task_state", "brief", "decision_log", "code_delta", "step_ledger", "requirements_ledger")
# A larger transcript would keep the reader waiting; the answer is meant to be there at once.
MAX_BYTES = 20_000_000


class CannotPlan(Exception):
    """Why there is no answer, in words for the page."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy to try."""

    trigger_pct: float
    strategy: str
    keep_recent_turns: int
    keep_tool_io_pairs: int

    @classmethod
    def from_query(cls, query: Mapping[str, Any], check: Check) -> Choice:
        """What was chosen; what was not is as it was then."""
        policy = check.policy
        strategy = str(query.get("strategy") or policy.get("strategy") or STRATEGIES[0])
        return cls(
            trigger_pct=_number(query.get("trigger_pct"), to_fraction(policy.get("trigger_pct")) * 100 or 85, 1, 100)
            / 100,
            strategy=strategy if strategy in STRATEGIES else STRATEGIES[0],
            keep_recent_turns=int(
                _number(query.get("keep_recent_turns"), to_count(policy.get("keep_recent_turns", 6)), 0, 500)
            ),
            keep_tool_io_pairs=int(
                _number(query.get("keep_tool_io_pairs"), to_count(policy.get("keep_tool_io_pairs", 4)), 0, 500)
            ),
        )


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt as it stood before the compaction: its ledger, and the summary that an earlier one had left in it."""

    ledger: Ledger
    earlier_summary: str

    def messages(self, log: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        """Its messages by the texts of the log, and how many of them stood shortened in it and are taken whole."""
        if not self.ledger.entries:
            return log, 0
        by_id = {str(message.get("id")): message for message in log}
        by_hash = {message.get("hash"): message for message in log}
        found, whole_again = [], 0
        for entry in self.ledger.entries:
            message = by_hash.get(entry.hash) or by_id.get(entry.id)
            if message is not None:
                whole_again += message.get("hash") not in (None, entry.hash)
                found.append(message)
            elif self.earlier_summary and entry.role == "assistant":
                found.append({"id": entry.id, "role": "assistant", "content": self.earlier_summary})
        return found, whole_again


@dataclass(frozen=True, slots=True)
class Difference:
    """A message whose fate would have been another."""

    entry: Entry
    fate: str
    rule: str


@dataclass(frozen=True, slots=True)
class Answer:
    choice: Choice
    triggered: bool
    before: int
    after: int
    fates: list[tuple[str, int, int]]  # fate, then, now
    differences: list[Difference]
    retention: float | None
    window: int = 0
    whole_again: int = 0  # messages that stood shortened in the prompt and were planned whole

    @property
    def trigger_tokens(self) -> int:
        return round(self.choice.trigger_pct * self.window)


def plan_again(stored: Transcript, check: Check, prompt: Prompt, choice: Choice) -> Answer:
    # The engine and its tokenizer take a third of a second to load: only who asks pays for it.
    from compact import CallbackExporter, CompactConfig, CompactError, CompactManager, CompactPolicy  # noqa: PLC0415

    if stored.size > MAX_BYTES:
        raise CannotPlan(f"this transcript has {stored.size:,} bytes; what-if takes up to {MAX_BYTES:,}")
    try:
        messages, whole_again = prompt.messages([json.loads(line) for line in transcripts.lines(stored)])
    except KeyError:
        raise CannotPlan("a text of this transcript is gone from the archive, or is not what its hash says") from None
    events: list[dict[str, Any]] = []
    # What was beside the messages then (tool schemas) is part of every prompt: the window is that much smaller, and the
    # trigger that much nearer.
    beside = min(check.parts[PARTS.index("tools_schema")], check.window - 1)
    room = check.window - beside
    policy = CompactPolicy(
        trigger_pct=max(0.01, (choice.trigger_pct * check.window - beside) / room),
        strategy=choice.strategy,
        keep_recent_turns=choice.keep_recent_turns,
        keep_tool_io_pairs=choice.keep_tool_io_pairs,
    )
    manager = CompactManager(
        CompactConfig(
            model=str(check.value("model", "compact.check", "compact.token_estimate") or "gpt-4o"),
            max_context_tokens=room,
            policy=policy,
            exporter=CallbackExporter(events.append),
        )
    )
    plain = [{key: value for key, value in message.items() if key != "hash"} for message in messages]
    try:
        manager.preflight("what-if", plain)
    except CompactError as error:
        raise CannotPlan(str(error)) from None
    answer = _answer(events, choice, prompt.ledger, beside)
    return replace(answer, window=check.window, whole_again=whole_again)


def _answer(events: list[dict[str, Any]], choice: Choice, then: Ledger, beside: int) -> Answer:
    decision = _properties(events, "compact.trigger_decision")
    pruned = next((event for event in events if event["event"] == "compact.pruned_messages"), None)
    before = to_count(decision.get("t_est")) + beside
    now = ledger(pruned.get("payload")) if pruned else Ledger([], [])
    fates = {fate: [count, 0] for fate, count, _ in then.counts}
    for fate, count, _ in now.counts:
        fates.setdefault(fate, [0, 0])[1] = count
    retention = _properties(events, "compact.retention").get("retention_pct")
    return Answer(
        choice=choice,
        triggered=bool(decision.get("triggered")),
        before=before,
        after=to_count(pruned["properties"].get("tokens_after")) + beside if pruned else before,
        fates=[(fate, counts[0], counts[1]) for fate, counts in fates.items()],
        differences=_differences(then, now),
        retention=to_fraction(retention) if retention is not None else None,
    )


def _differences(then: Ledger, now: Ledger) -> list[Difference]:
    pairs = [(one, other) for one, other in paired(then, now) if one and other]
    return [Difference(one, other.fate, other.rule) for one, other in pairs if one.fate != other.fate]


def _properties(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((dict(event["properties"]) for event in events if event["event"] == name), {})


def _number(value: Any, default: float, least: float, most: float) -> float:
    try:
        number = float(value) if value not in (None, "") else default
    except ValueError:
        number = default
    return max(least, min(most, number))
