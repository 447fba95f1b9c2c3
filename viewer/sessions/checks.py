"""From spans in any order to what a screen shows: checks with their token parts, sentences, and a tree.

Pure: no clock, no database, no setting. The same spans give the same checks in whatever order they arrive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from ingest.decoding.span_facts import facts_of

PARTS = ("system", "developer", "tools_schema", "memory", "history", "user_input")
CHECK = "compact.check"
ESTIMATE = "compact.token_estimate"
DECISION = "compact.trigger_decision"
SUMMARY = "compact.summary_created"
PRUNED = "compact.pruned_messages"
RETENTION = "compact.retention"
ERROR = "compact.error"
ARCHIVAL = "compact.archival"
OVERFLOW = "compact.overflow_recovered"
CALL = "generation"
# The pace of so many turns is foretold to go on: the one or two since a compaction would say a hundred, then three.
_PACE_TURNS = 20


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A span without its payload."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: str
    name: str
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    tokens: int | None
    seq: int
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.trace_id}:{self.span_id}"


@dataclass(slots=True)
class Check:
    """One preflight: what the prompt weighed, what was decided, and what came of it.

    Or one call of the model, in a session whose prompts nobody weighs before they are sent.
    """

    key: str
    spans: dict[str, SpanRow] = field(default_factory=dict)
    started_at: datetime | None = None
    _first: dict[str, SpanRow] = field(default_factory=dict)

    def take(self, span: SpanRow) -> None:
        """Add a span, or the newer state of one that is here."""
        self.spans[span.key] = span
        known = self._first.get(span.kind)
        if known is None or known.key == span.key or _order(span) < _order(known):
            self._first[span.kind] = span
        if span.started_at and (self.started_at is None or span.started_at < self.started_at):
            self.started_at = span.started_at

    def of(self, kind: str) -> SpanRow | None:
        return self._first.get(kind)

    def all_of(self, kind: str) -> list[SpanRow]:
        return sorted((span for span in self.spans.values() if span.kind == kind), key=_order)

    def value(self, name: str, *kinds: str) -> Any:
        """The first answer among the spans of `kinds`, in that order."""
        for kind in kinds:
            span = self.of(kind)
            if span is not None and span.data.get(name) is not None:
                return span.data[name]
        return None

    @property
    def lead(self) -> SpanRow:
        """The span that stands for the whole check: where a click on its bar leads."""
        return self.of(CHECK) or self.of(DECISION) or self.of(ESTIMATE) or min(self.spans.values(), key=_order)

    @property
    def ended_at(self) -> datetime | None:
        check = self.of(CHECK)
        if check is not None:
            return check.ended_at
        times = [span.ended_at for span in self.spans.values() if span.ended_at]
        return max(times) if times else None

    @property
    def is_running(self) -> bool:
        check = self.of(CHECK)
        return check is not None and check.ended_at is None

    @property
    def is_call(self) -> bool:
        return CALL in self._first

    @property
    def is_weighed(self) -> bool:
        """Whether it says how large a prompt was; lifecycle events with no estimate of their own are no bar."""
        return bool(self.before or self.is_compaction)

    @property
    def is_recovery(self) -> bool:
        """The provider refused the prompt and its oldest messages were left out: no ledger, so no compaction."""
        is_overflow = self.of(OVERFLOW) is not None or self.value("trigger", CHECK) == "overflow"
        return is_overflow and self.of(PRUNED) is None

    @property
    def is_compaction(self) -> bool:
        if self.is_recovery:
            return False
        if self.value("triggered", DECISION, CHECK) is not None:
            return bool(self.value("triggered", DECISION, CHECK))
        # Document 000's decision does not say `triggered`; it counts what it pruned.
        return any(self.of(kind) for kind in (PRUNED, SUMMARY)) or whole(self.value("pruned_count", DECISION)) > 0

    @property
    def has_failed(self) -> bool:
        """It should have compacted and the prompt is as large as before."""
        return self.is_compaction and not self.is_running and self.of(PRUNED) is None and self.of(ERROR) is not None

    @property
    def trigger(self) -> str:
        return str(self.value("trigger", CHECK) or ("manual" if self.value("note", DECISION) else "preflight"))

    @property
    def before(self) -> int:
        if call := self.of(CALL):
            return facts_of(CALL, dict(call.data)).context_tokens or 0
        return whole(self.value("t_est", ESTIMATE, DECISION) or self.value("tokens_before", CHECK, PRUNED))

    @property
    def after(self) -> int | None:
        value = self.value("tokens_after", PRUNED, CHECK, OVERFLOW)
        return whole(value) if value is not None and (self.is_compaction or self.is_recovery) else None

    @property
    def window(self) -> int:
        return whole(self.value("max_tokens", ESTIMATE, DECISION, CHECK) or self.value("max", ESTIMATE, DECISION))

    @property
    def policy(self) -> Mapping[str, Any]:
        policy = self.value("policy", DECISION, "compact.policy_applied")
        return policy if isinstance(policy, Mapping) else {}

    @property
    def trigger_tokens(self) -> int:
        value = self.value("trigger_tokens", DECISION)
        if value is None and self.policy.get("trigger_pct") is not None:
            return round(self.window * fraction(self.policy["trigger_pct"]))
        return whole(value)

    @property
    def cap_tokens(self) -> int:
        value = self.value("budget_tokens", DECISION)
        buffer = self.policy.get("hard_cap_buffer", self.policy.get("buffer"))
        if value is None and buffer is not None:
            return max(0, self.window - whole(buffer))
        return whole(value)

    @property
    def margin(self) -> int | None:
        value = self.value("margin_tokens", DECISION)
        if value is not None:
            return whole(value)
        return self.trigger_tokens - self.before if self.trigger_tokens else None

    @property
    def parts(self) -> list[int]:
        breakdown = self.value("breakdown", ESTIMATE)
        if not isinstance(breakdown, Mapping):
            return [0, 0, 0, 0, self.before, 0]
        return _parts(breakdown)

    @property
    def after_parts(self) -> list[int] | None:
        """The parts after compacting: as the client said, else only memory and history are thought to have changed."""
        breakdown = self._breakdown_after
        if breakdown is not None:
            return _parts(breakdown)
        if self.after is None or not isinstance(self.value("breakdown", ESTIMATE), Mapping):
            return None
        system, developer, tools, memory, _, user_input = self.parts
        memory = whole(self.value("summary_tokens", SUMMARY)) or memory
        fixed = system + developer + tools + user_input
        memory = min(memory, max(0, self.after - fixed))
        return [system, developer, tools, memory, max(0, self.after - fixed - memory), user_input]

    @property
    def after_is_derived(self) -> bool:
        """The client did not say the parts after compacting, so that those shown are only about right."""
        return self._breakdown_after is None and self.after_parts is not None

    @property
    def _breakdown_after(self) -> Mapping[str, Any] | None:
        breakdown = self.value("breakdown_after", PRUNED, CHECK)
        return breakdown if isinstance(breakdown, Mapping) else None

    @property
    def fates(self) -> dict[str, int]:
        fates = self.value("fates", PRUNED)
        return {str(name): whole(count) for name, count in fates.items()} if isinstance(fates, Mapping) else {}

    @property
    def pruned_count(self) -> int:
        return whole(self.value("pruned_count", PRUNED, DECISION) or self.value("removed_count", OVERFLOW))

    @property
    def retention(self) -> float | None:
        value = self.value("retention_pct", RETENTION)
        return fraction(value) if value is not None else None

    @property
    def errors(self) -> list[SpanRow]:
        return self.all_of(ERROR) if ERROR in self._first else []

    @property
    def fallback(self) -> str:
        return next((str(span.data["fallback"]) for span in reversed(self.errors) if span.data.get("fallback")), "")

    @property
    def turn(self) -> int | None:
        value = self.value("turn", CHECK, ESTIMATE, DECISION)
        return whole(value) if value is not None else None

    @property
    def step(self) -> int | None:
        value = self.value("step", PRUNED, CHECK, ARCHIVAL, SUMMARY)
        return whole(value) if value is not None else None


def _parts(breakdown: Mapping[str, Any]) -> list[int]:
    """The six parts; where a client has only `messages` (document 002), that is its history."""
    told = breakdown if "history" in breakdown else {**breakdown, "history": breakdown.get("messages")}
    return [whole(told.get(part)) for part in PARTS]


def numbered(checks: Iterable[Check]) -> list[tuple[int | None, Check]]:
    """What took messages out of the prompt: compactions with the number of their page, recoveries with none."""
    found: list[tuple[int | None, Check]] = []
    number = 0
    for check in checks:
        if check.is_compaction:
            number += 1
            found.append((number, check))
        elif check.is_recovery:
            found.append((None, check))
    return found


class Checks:
    """The checks of one session, kept up to date span by span."""

    def __init__(self, spans: Iterable[SpanRow] = ()) -> None:
        self._checks: dict[str, Check] = {}
        self._home: dict[str, str] = {}  # which check a span went to
        self._open: dict[str, str] = {}  # which check is being filled under one parent
        self.is_told = False
        """Whether a client of ours weighs the prompts. If none does, the model's calls say how large they were."""
        self.add(spans)

    def takes(self, span: SpanRow) -> bool:
        """Whether a span says something about the prompts of this session."""
        return span.kind.startswith("compact.") or (span.kind == CALL and not self.is_told)

    def add(self, spans: Iterable[SpanRow]) -> set[str]:
        """Take spans in, newer over older; the keys of the checks that changed."""
        changed = set()
        for span in sorted(filter(self.takes, spans), key=_order):
            home = self._home.get(span.key) or self._find_home(span)
            self._home[span.key] = home
            check = self._checks.setdefault(home, Check(home))
            check.take(span)
            if span.key != home and span.key in self._checks:
                # Its children came first and waited under its own name.
                for child in self._checks.pop(span.key).spans.values():
                    check.take(child)
                    self._home[child.key] = home
                changed.discard(span.key)
            changed.add(home)
            self.is_told = self.is_told or (check.is_weighed and not check.is_call)
        return changed

    def get(self, key: str) -> Check | None:
        return self._checks.get(key)

    def holding(self, span_key: str) -> Check | None:
        """The check a span belongs to."""
        return self._checks.get(self._home.get(span_key, span_key))

    def spans(self) -> Iterable[SpanRow]:
        """Every span of every check, in the order of time."""
        return sorted((span for check in self._checks.values() for span in check.spans.values()), key=_order)

    def is_bar(self, check: Check) -> bool:
        """Whether it is drawn: beside prompts that were weighed before they were sent, calls are not."""
        return check.is_weighed and check.is_call != self.is_told

    def ordered(self) -> list[Check]:
        """Those that weigh a prompt, by time."""
        return sorted(
            filter(self.is_bar, self._checks.values()),
            key=lambda check: (check.started_at is None, check.started_at, check.lead.seq),
        )

    def compactions(self) -> list[Check]:
        return [check for check in self.ordered() if check.is_compaction]

    def _find_home(self, span: SpanRow) -> str:
        if span.kind in {CHECK, CALL}:
            return span.key
        scope = f"{span.trace_id}:{span.parent_id or ''}"
        if scope in self._home:
            return self._home[scope]
        current = self._open.get(scope, scope)
        check = self._checks.get(current)
        # Flat events of other clients share a parent, or have none: each estimate opens the next check.
        if check and span.kind in {ESTIMATE, DECISION} and check.of(span.kind) and not check.of(CHECK):
            current = span.key
        self._open[scope] = current
        return current


def whole(value: Any) -> int:
    """A count an agent sent, whatever it sent."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return 0


def fraction(value: Any) -> float:
    """0 to 1, from 0.85 or from 85."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    share = float(value)
    if math.isnan(share):
        return 0.0
    return max(0.0, min(1.0, share / 100 if share > 1 else share))


def projected_turns(checks: list[Check]) -> int | None:
    """Turns until the next compaction if the prompt keeps growing as in its last turns, across compactions."""
    recent = checks[-_PACE_TURNS - 1 :]
    last = recent[-1] if recent else None
    if last is None or last.is_compaction or last.is_recovery or not last.trigger_tokens:
        return None
    growth = sum(
        check.before - (before.before if before.after is None else before.after) for before, check in pairwise(recent)
    )
    if growth <= 0:
        return None
    left = last.trigger_tokens - last.before
    return max(0, -(-left * (len(recent) - 1) // growth))


def _order(span: SpanRow) -> tuple[bool, float, int, int]:
    moment = span.started_at or span.ended_at
    return (moment is None, moment.timestamp() if moment else 0.0, span.kind != CHECK, span.seq)
