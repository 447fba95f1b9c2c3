"""Events of an agent session with compactions, as `compact` sends them, for tests and benchmarks of the viewer.

The same arguments give the same events, so that screenshots can be compared.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

Event = dict[str, Any]
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
WINDOW = 128_000
TRIGGER = 108_800
CAP = 126_500
POLICY = {
    "trigger_pct": 0.85,
    "hard_cap_buffer": 1500,
    "strategy": "task_state",
    "keep_recent_turns": 6,
    "keep_tool_io_pairs": 4,
    "renderer": "layered",
}
SUMMARY = """# Task state v{version}

## Goals
- Move the billing service to the new ledger without losing an invoice [m12]

## Constraints
- Never write to `ledger.entries` outside a transaction [m3]
- The migration window closes at **02:00 UTC** [m18]

## Decisions
- Dual-write behind `BILLING_DUAL_WRITE` :: a rollback costs one flag [m27]

## Open actions
- [ ] Backfill invoices 40,112 to 40,988 [m31]
"""


def send(url: str, key: str, events: Iterable[Event], *, size: int = 500) -> None:
    """Post events in batches, like an exporter. Fail if one is rejected."""
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if len(batch) == size:
            _post(url, key, batch)
            batch = []
    if batch:
        _post(url, key, batch)


def _post(url: str, key: str, batch: list[Event]) -> None:
    request = urllib.request.Request(
        url,
        json.dumps({"batch": batch}).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        body = json.load(response)
        assert not body["rejected"], body["rejected"][:3]


class Session:
    """Generate the events of one session, turn by turn."""

    def __init__(self, session_id: str, *, started: datetime = START, model: str = "gpt-5") -> None:
        self.session_id = session_id
        self.trace_id = hashlib.sha256(session_id.encode()).hexdigest()[:32]
        self.at = started
        self.model = model
        self.turn = 0
        self.tokens = 9_000
        self.memory = 0
        self.step = 0
        self._count = 0

    def trace(self) -> Event:
        return {
            "type": "trace",
            "trace_id": self.trace_id,
            "name": "Billing migration",
            "group_id": self.session_id,
            "started_at": _iso(self.at),
        }

    def span(
        self, kind: str, name: str, *, parent: str | None = None, ms: float = 5, data: Any = None, **more: Any
    ) -> Event:
        self._count += 1
        started = more.pop("started", self.at)
        event = {
            "type": "span",
            "trace_id": self.trace_id,
            "span_id": hashlib.sha256(f"{self.session_id}{self._count}".encode()).hexdigest()[:16],
            "parent_id": parent,
            "kind": kind,
            "name": name,
            "started_at": _iso(started),
            "ended_at": _iso(started + timedelta(milliseconds=ms)),
            "status": "ok",
            "data": data or {},
            **more,
        }
        return {key: value for key, value in event.items() if value is not None}

    def breakdown(self) -> dict[str, int]:
        fixed = {"system": 1_850, "developer": 640, "tools_schema": 3_400, "memory": self.memory, "user_input": 420}
        return {**fixed, "history": max(0, self.tokens - sum(fixed.values()))}

    def play_turn(self, *, grows: int = 7_000, tools: int = 2, fails: str = "") -> Iterator[Event]:
        """Yield the events of a turn: a check, a generation and its tools. Compacts when the trigger is reached."""
        self.turn += 1
        turn = self.span("turn", f"Turn {self.turn}", ms=9_000, data={"turn": self.turn})
        self.at += timedelta(milliseconds=20)
        yield from self.check(turn["span_id"], fails=fails)
        self.at += timedelta(milliseconds=80)
        usage = {"gen_ai.request.model": self.model, "gen_ai.usage.input_tokens": self.tokens}
        payload = {"output": f"I will look at the invoices of turn {self.turn}."}
        yield self.span("generation", self.model, parent=turn["span_id"], ms=2_800, data=usage, payload=payload)
        self.at += timedelta(milliseconds=2_900)
        for number in range(tools):
            is_error = number == 1 and self.turn % 7 == 0
            tool = ("read_file", "run_tests", "query_ledger")[(self.turn + number) % 3]
            yield self.span(
                "tool",
                tool,
                parent=turn["span_id"],
                ms=900 + 300 * number,
                status="error" if is_error else "ok",
                data={"tool.name": tool, **({"error": "exit status 1"} if is_error else {})},
            )
            self.at += timedelta(milliseconds=1_300)
        yield turn
        self.tokens += grows
        self.at += timedelta(seconds=8)

    def check(self, parent: str, *, fails: str = "", trigger: str = "preflight") -> Iterator[Event]:
        fires = self.tokens >= TRIGGER or trigger == "manual"
        before = self.tokens
        base = {"turn": self.turn, "model": self.model}
        check = self.span("compact.check", "compact.check", parent=parent, ms=8, data={**base, "trigger": trigger})
        check_id = check["span_id"]
        estimate = {"t_est": before, "max_tokens": WINDOW, "usage_pct": before / WINDOW, "breakdown": self.breakdown()}
        decision = {
            "triggered": fires,
            "rule": "trigger_pct" if fires else "under_threshold",
            "reason": f"{before:,} of {WINDOW:,} tokens {'reached' if fires else 'is below'} {TRIGGER:,}",
            "margin_tokens": TRIGGER - before,
            "t_est": before,
            "max_tokens": WINDOW,
            "trigger_tokens": TRIGGER,
            "budget_tokens": CAP,
            "turn": self.turn,
            "policy": POLICY,
        }
        if fires:
            decision |= {"kept": {"pinned": 2, "recent_turns": 6, "tool_pairs": 4}, "pruned_count": 24}
        yield self.span(
            "compact.token_estimate",
            "compact.token_estimate",
            parent=check_id,
            ms=3,
            data={**base, **estimate, "estimator": "tiktoken", "source": "estimate"},
        )
        yield self.span("compact.trigger_decision", "compact.trigger_decision", parent=check_id, ms=1, data=decision)
        duration_ms = 8.0
        if fires:
            opened = {**check, "ended_at": None}
            yield {key: value for key, value in opened.items() if value is not None}
            duration_ms = 1_900.0
            yield from self.compact(check_id, fails=fails)
        after = self.tokens
        check["ended_at"] = _iso(datetime.fromisoformat(check["started_at"]) + timedelta(milliseconds=duration_ms))
        check["data"] |= {"triggered": fires, "tokens_before": before, "tokens_after": after, "max_tokens": WINDOW}
        yield check

    def compact(self, parent: str, *, fails: str = "") -> Iterator[Event]:
        self.step += 1
        before = self.tokens
        yield self.span(
            "compact.archival",
            "compact.archival",
            parent=parent,
            ms=40,
            data={"step": self.step, "storage_adapter": "ariadne", "message_count": 64, "redactions": {"api_key": 2}},
        )
        self.at += timedelta(milliseconds=50)
        if fails:
            for attempt in (1, 2):
                yield self.span(
                    "compact.error",
                    "compact.error",
                    parent=parent,
                    ms=700,
                    status="error",
                    data={"error_type": "SummarizationError", "message": fails, "attempt": attempt}
                    | ({"fallback": "pruning-only"} if attempt == 2 else {}),
                )
                self.at += timedelta(milliseconds=720)
            self.memory = 0
        else:
            self.memory = 2_300 + 350 * self.step
            text = SUMMARY.format(version=self.step)
            yield self.span(
                "compact.summary_created",
                "compact.summary_created",
                parent=parent,
                ms=1_480,
                data={
                    "strategy": "task_state",
                    "version": self.step,
                    "step": self.step,
                    "input_messages": 40,
                    "input_tokens": before - 30_000,
                    "summary_tokens": self.memory,
                    "compression_ratio": round((before - 30_000) / self.memory, 1),
                    "latency_ms": 1480,
                    "summarizer": "extractive",
                },
                payload={"summary": text},
            )
            self.at += timedelta(milliseconds=1_500)
        self.tokens = 31_000 + self.memory
        ledger = list(_ledger(self.session_id, self.step))
        fates: dict[str, int] = {}
        for entry in ledger:
            fates[entry["fate"]] = fates.get(entry["fate"], 0) + 1
        pruned = sum(count for fate, count in fates.items() if fate not in {"kept", "pinned"})
        after = [e for e in ledger if e["fate"] in {"kept", "pinned"}]
        if not fails:
            after.insert(
                2,
                {
                    "id": f"summary-{self.step}",
                    "hash": _hash(f"s{self.step}"),
                    "role": "assistant",
                    "tokens": self.memory,
                },
            )
        yield self.span(
            "compact.pruned_messages",
            "compact.pruned_messages",
            parent=parent,
            ms=6,
            data={
                "step": self.step,
                "layers": {"pinned": 2, "summary": 0 if fails else 1, "recent": 20},
                "pruned_count": pruned,
                "tokens_before": before,
                "tokens_after": self.tokens,
                "plan_version": self.step,
                "cache": {"invalidated_tokens": 88_000, "break_even_calls": 2},
                "fates": fates,
            },
            payload={"ledger": ledger, "after": [{k: e[k] for k in ("id", "hash", "role", "tokens")} for e in after]},
        )
        has_losses = self.step % 3 == 0
        yield self.span(
            "compact.retention",
            "compact.retention",
            parent=parent,
            ms=4,
            data={
                "step": self.step,
                "facts_total": 29,
                "facts_kept": 26 if has_losses else 28,
                "weighted_retention": 0.86 if has_losses else 0.97,
                "by_kind": {
                    "constraint": {"found": 6, "kept": 5, "restored": 1, "lost": 0},
                    "id": {
                        "found": 14,
                        "kept": 12 if has_losses else 14,
                        "restored": 0,
                        "lost": 2 if has_losses else 0,
                    },
                    "path": {"found": 9, "kept": 8, "restored": 0, "lost": 1},
                },
            },
            payload={
                "lost": [{"kind": "path", "text": "billing/legacy/export.py", "source_ids": ["m9"]}],
                "restored": [],
            },
        )


def _ledger(session_id: str, step: int) -> Iterator[Event]:
    roles = ("user", "assistant", "tool", "assistant")
    for number in range(64):
        role = "system" if number == 0 else "developer" if number == 1 else roles[number % 4]
        entry = {
            "id": f"m{number + 40 * (step - 1)}",
            "hash": _hash(f"{session_id}{number + 40 * (step - 1)}"),
            "role": role,
        }
        if number < 2:
            yield {**entry, "tokens": 1_850 - number * 1_210, "fate": "pinned", "rule": "protected"}
        elif number < 38:
            fate, rule = ("summarized", "older than the recent window")
            if role == "tool" and number % 3 == 0:
                fate, rule = "externalized", "tool output over 5,000 tokens"
            elif role == "tool":
                fate, rule = "cleared", "replayable and unchanged"
            elif number % 17 == 0:
                fate, rule = "dropped", "over budget: keep_recent_turns 6 -> 5"
            into = {"into": f"summary-{step}"} if fate == "summarized" else {}
            yield {**entry, "tokens": 600 + 137 * (number % 23), "fate": fate, "rule": rule, **into}
        else:
            yield {
                **entry,
                "tokens": 500 + 91 * (number % 19),
                "fate": "kept",
                "rule": f"recent {1 + (number - 38) // 5} of 6",
            }


def play(session_id: str, *, turns: int, started: datetime = START, fails_at: int = 0, **more: Any) -> list[Event]:
    """Return the events of a whole session."""
    session = Session(session_id, started=started, **more)
    events = [session.trace()]
    for turn in range(1, turns + 1):
        fails = "the summarizer answered 503 Service Unavailable" if turn == fails_at else ""
        events.extend(session.play_turn(grows=5_000 + 2_300 * (turn % 3), fails=fails))
    return events


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
