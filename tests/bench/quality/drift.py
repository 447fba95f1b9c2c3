"""Measure the facts that survive ten compactions in a row.

A session is processed in slices. After each slice the prompt is compacted, and the next slice is appended to the
result, as in an agent that only keeps the compacted prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compact import CompactConfig, CompactManager, CompactPolicy
from compact.messages import Message
from compact.reading.blocks import read_blocks
from compact.reading.lines.line_classifier import is_instruction

from tests.bench.quality.cases import Case, load_sessions, message_text
from tests.bench.quality.score import WordIndex, key_facts
from tests.bench.quality.systems import MODEL, Chat, clip_results, first_and_last, newest, tokens

ROUNDS = 10
BUDGET = 8_000


def drift_table(*, every: int = 1) -> str:
    """Return a table with the mean share of key facts and constraints that each system has kept after each round."""
    long_sessions = [session for session in load_sessions().values() if session.get("n_tokens", 0) > ROUNDS * 6_000]
    # A slice whose last message exceeds the budget cannot be compacted by a system that keeps the newest message.
    sessions = [session for session in long_sessions if _has_short_ends(session)][::every]
    rows = [f"{len(sessions)} sessions, {ROUNDS} rounds, budget {BUDGET}"]
    systems: dict[str, Callable[[], Callable[[dict[str, Any], Chat], Chat]]] = {
        "ours": _ours,
        "newest (FIFO)": lambda: _stateless(newest),
        "first and last": lambda: _stateless(first_and_last),
        "clip tool results": lambda: _stateless(clip_results),
    }
    for name, create in systems.items():
        facts = [0.0] * ROUNDS
        rules = [0.0] * ROUNDS
        with_rules = 0
        for session in sessions:
            kept_facts, kept_rules = _run_rounds(session, create())
            facts = [total + value for total, value in zip(facts, kept_facts, strict=True)]
            if kept_rules is not None:
                with_rules += 1
                rules = [total + value for total, value in zip(rules, kept_rules, strict=True)]
        rows.append(f"{name:20} key facts   " + " ".join(f"{100 * value / len(sessions):5.1f}" for value in facts))
        rows.append(f"{'':20} constraints " + " ".join(f"{100 * value / max(1, with_rules):5.1f}" for value in rules))
    return "\n".join(rows)


def _has_short_ends(session: dict[str, Any]) -> bool:
    return all(tokens(part[-1]) < BUDGET // 2 for part in _slices(session["messages"]) if part)


def _ours() -> Callable[[dict[str, Any], Chat], Chat]:
    policy = CompactPolicy(hard_cap_buffer=0, floor="newest")
    manager = CompactManager(CompactConfig(model=MODEL, max_context_tokens=BUDGET, policy=policy))
    return lambda session, messages: list(manager.manual_compact(session["id"], messages, note="round"))


def _stateless(system: Callable[[Case], Chat]) -> Callable[[dict[str, Any], Chat], Chat]:
    def compact(session: dict[str, Any], messages: Chat) -> Chat:
        return system(Case({**session, "messages": messages}, BUDGET, 1, len(messages), len(messages), [], []))

    return compact


def _run_rounds(
    session: dict[str, Any], compact: Callable[[dict[str, Any], Chat], Chat]
) -> tuple[list[float], list[float] | None]:
    facts: dict[str, float] = {}
    rules: dict[str, None] = {}
    kept_facts: list[float] = []
    kept_rules: list[float] = []
    current: Chat = []
    for part in _slices(session["messages"]):
        facts |= key_facts(part)
        rules |= dict.fromkeys(_instructions(part))
        current = compact(session, current + part)
        text = "\n".join(message_text(message) for message in current).lower()
        words = WordIndex(text)
        kept_facts.append(sum(weight for key, weight in facts.items() if key in text) / max(1e-9, sum(facts.values())))
        kept_rules.append(sum(words.contains(rule) for rule in rules) / len(rules) if rules else 1.0)
    return kept_facts, kept_rules if rules else None


def _instructions(part: Chat) -> list[str]:
    messages = [Message("user", message["content"]) for message in part if message["role"] == "user"]
    said = (block for block in read_blocks(messages) if block.kind == "user")
    return [text for block in said for text in block.lines if is_instruction(text)]


def _slices(messages: Chat) -> list[Chat]:
    """Split a session into one slice per round, of about equal length, without separating calls from results."""
    total = sum(tokens(message) for message in messages)
    slices: list[Chat] = [[]]
    used = 0
    for message in messages:
        if len(slices) < ROUNDS and used > total * len(slices) / ROUNDS and message["role"] != "tool":
            slices.append([])
        slices[-1].append(message)
        used += tokens(message)
    while len(slices) < ROUNDS:
        slices.append([])
    return slices
