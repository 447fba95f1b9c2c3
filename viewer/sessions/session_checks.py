"""The checks of one session, grouped from its spans.

Pure: the same spans give the same checks in whatever order they arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from compact.events.reading import Report, deciding_kind, report_of

from viewer.kinds import CHECK, DECISION, ESTIMATE, GENERATION, PREFIX, PROVIDER_COMPACTION
from viewer.sessions.checks import Check
from viewer.sessions.spans import SpanRow, sort_key

# The turns that a projection is based on. After a compaction, the pace of one or two turns is not representative.
_PACE_TURNS = 20
_STARTS = frozenset({ESTIMATE, DECISION})
_UNCHANGED = frozenset({"not_needed", "futile"})


class SessionChecks:
    """The checks of one session, updated span by span.

    Events with the same parent form a group. A group with a check span is one check. Clients that send no check spans
    put the events of many checks below one parent, or below none. See `_split`.
    """

    def __init__(self, spans: Iterable[SpanRow] = ()) -> None:
        self._checks: dict[str, Check] = {}
        self._groups: dict[str, dict[str, SpanRow]] = {}
        self._keys_of_group: dict[str, list[str]] = {}
        self._group_of_span: dict[str, str] = {}
        self._check_key_of_span: dict[str, str] = {}
        self.has_estimates = False
        """True if the client estimates prompts. Otherwise model calls show how large the prompts were."""
        self.provider_compactions: set[str] = set()
        """Keys of the spans that report what a provider compacted on its own side."""
        self.add(spans)

    def is_relevant(self, span: SpanRow) -> bool:
        """Return True if the span belongs to a check of this session."""
        return span.kind.startswith(PREFIX) or (span.kind == GENERATION and not self.has_estimates)

    def add(self, spans: Iterable[SpanRow]) -> set[str]:
        """Add spans or their newer states, and return the keys of the checks that changed."""
        groups: dict[str, None] = {}
        for span in filter(self.is_relevant, spans):
            if span.kind == PROVIDER_COMPACTION:
                self.provider_compactions.add(span.key)
            group = group_of(span)
            # A newer state may have another kind or parent.
            known = self._group_of_span.setdefault(span.key, group)
            if known != group:
                del self._groups[known][span.key]
                groups[known] = None
            self._group_of_span[span.key] = group
            self._groups.setdefault(group, {})[span.key] = span
            groups[group] = None
        changed: set[str] = set()
        for group in groups:
            changed |= self._regroup(group)
        return changed

    def _regroup(self, group: str) -> set[str]:
        """Split a group into its checks again, and return the keys of those that changed."""
        known = {key: self._checks.pop(key) for key in self._keys_of_group.get(group, ())}
        checks = _split(group, self._groups[group].values())
        self._keys_of_group[group] = [check.key for check in checks]
        changed = set()
        for check in checks:
            before = known.get(check.key)
            self._check_key_of_span.update(dict.fromkeys(check.spans, check.key))
            if before is not None and before.report == check.report and _is_same(before.spans, check.spans):
                self._checks[check.key] = before
                continue
            self._checks[check.key] = check
            self.has_estimates = self.has_estimates or (not check.is_call and check.has_size)
            changed.add(check.key)
        return changed

    def get(self, key: str) -> Check | None:
        return self._checks.get(key)

    def check_of_span(self, span_key: str) -> Check | None:
        return self._checks.get(self._check_key_of_span.get(span_key, span_key))

    def check_below(self, span: SpanRow) -> Check | None:
        """Return the check directly below a span, such as that of a turn. A compaction comes first."""
        below = [
            check
            for check in self._checks.values()
            if check.lead.parent_id == span.span_id and check.lead.trace_id == span.trace_id and not check.is_call
        ]
        return max(below, key=lambda check: (check.is_compaction, check.outcome != "not_needed"), default=None)

    def spans(self) -> Iterable[SpanRow]:
        """Return every span of every check in chronological order."""
        spans = (span for check in self._checks.values() for span in check.spans.values())
        return sorted(spans, key=sort_key)

    def is_drawn(self, check: Check) -> bool:
        """Return True if the timeline has a bar for the check. Model calls have one only if there are no estimates."""
        return check.has_size and check.is_call != self.has_estimates

    def timeline(self) -> list[Check]:
        """Return the checks of the timeline in chronological order."""
        return sorted(
            filter(self.is_drawn, self._checks.values()),
            key=lambda check: (check.started_at is None, check.started_at, check.lead.seq),
        )

    def compactions(self) -> list[Check]:
        return [check for check in self.timeline() if check.is_compaction]


def group_of(span: SpanRow) -> str:
    """Return the group of a span: its parent, or itself if it is the span of a check or a model call."""
    return span.key if span.kind in {CHECK, GENERATION} else f"{span.trace_id}:{span.parent_id or ''}"


def _split(group: str, spans: Iterable[SpanRow]) -> list[Check]:
    """Return the checks of a group. Its first check has the key of the group.

    Without a check span, each estimate or decision that follows another one starts the next check. Each report of a
    compaction that counts is in a check of its own, so that a session has as many compactions as its row says.
    """
    ordered = sorted(spans, key=sort_key)
    reports = _counting_reports(ordered)
    has_check_span = any(span.kind == CHECK for span in ordered)
    checks: list[Check] = []
    for span in ordered:
        is_start, is_report = not has_check_span and span.kind in _STARTS, span.key in reports
        if not checks or (is_start and checks[-1].span(span.kind)) or (is_report and checks[-1].report):
            checks.append(Check(span.key if checks else group))
        check = checks[-1]
        check.add(span)
        if is_report:
            check.report = span.key
    return checks


def _counting_reports(spans: Iterable[SpanRow]) -> set[str]:
    """Return the keys of the spans of a group that count as compactions."""
    keys, shared = set(), []
    for span in spans:
        report = report_of(span.kind, span.data)
        if report is Report.SOLE:
            keys.add(span.key)
        elif report is Report.SHARED:
            shared.append(span)
    if not shared:
        return keys
    kind = deciding_kind(Counter(span.kind for span in shared))
    return keys | {span.key for span in shared if span.kind == kind}


def _is_same(one: Mapping[str, SpanRow], other: Mapping[str, SpanRow]) -> bool:
    return one.keys() == other.keys() and all(span is other[key] for key, span in one.items())


def projected_turns(checks: list[Check]) -> int | None:
    """Return the turns until the next compaction if the prompt keeps growing at its recent pace."""
    recent = checks[-_PACE_TURNS - 1 :]
    last = recent[-1] if recent else None
    if last is None or last.outcome not in _UNCHANGED or not last.trigger_tokens:
        return None
    growth = sum(
        check.before - (previous.before if previous.after is None else previous.after)
        for previous, check in pairwise(recent)
    )
    if growth <= 0:
        return None
    left = last.trigger_tokens - last.before
    return max(0, -(-left * (len(recent) - 1) // growth))
