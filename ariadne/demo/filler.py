"""Deterministic filler text: source files, test logs, search hits, articles, records."""

from __future__ import annotations

import json
import random

_NOUNS = ("invoice", "ledger", "payment", "refund", "customer", "webhook", "retry", "batch", "cursor", "lock", "outbox")
_VERBS = ("load", "store", "apply", "merge", "verify", "expire", "replay", "settle", "reconcile", "publish", "claim")


def source_file(name: str, *, lines: int = 60) -> str:
    """Return a Python module of a fictional billing service."""
    pick = random.Random(f"source {name}")  # noqa: S311 - decoration, not secrets
    out = [f'"""{name}: part of the billing service."""', "", "from __future__ import annotations", ""]
    while len(out) < lines:
        noun, verb, other = pick.choice(_NOUNS), pick.choice(_VERBS), pick.choice(_NOUNS)
        limit = pick.choice((50, 100, 250, 500))
        out += [
            f"def {verb}_{noun}({other}_id: str, *, limit: int = {limit}) -> list[{noun.title()}]:",
            f'    """{verb.title()} at most `limit` {noun}s of one {other}, oldest first."""',
            f"    rows = session.execute(select({noun.title()}).where({noun.title()}.{other}_id == {other}_id))",
            "    found = sorted(rows.scalars(), key=lambda row: row.created_at)[:limit]",
            "    if not found:",
            f'        log.info("no {noun} for {other} %s", {other}_id)',
            "    for row in found:",
            f"        row.{pick.choice(('state', 'version', 'attempts'))} = next_{pick.choice(_VERBS)}(row)",
            "    return found",
            "",
            "",
        ]
    return "\n".join(out[:lines])


def test_log(run: int, *, failing: tuple[str, ...] = ()) -> str:
    """Return the output of a pytest run."""
    pick = random.Random(f"log {run}")  # noqa: S311
    names = [f"tests/billing/test_{n}.py::test_{v}_{n}" for n in _NOUNS for v in pick.sample(_VERBS, 5)]
    out = [f"collected {len(names) + len(failing)} items", ""]
    out += [f"{name} PASSED [{100 * i // len(names):3d}%] {pick.randint(2, 90)} ms" for i, name in enumerate(names)]
    for name in failing:
        out += [f"{name} FAILED", f"E   AssertionError: expected 1 invoice, found {pick.randint(2, 4)}", ""]
    out.append(f"{len(failing)} failed, {len(names)} passed in {pick.uniform(8, 30):.2f}s")
    return "\n".join(out)


def search_hits(word: str, *, count: int = 40) -> str:
    """Return the output of a grep run."""
    pick = random.Random(f"hits {word}")  # noqa: S311
    return "\n".join(
        f"billing/{pick.choice(_NOUNS)}s/{pick.choice(('api', 'tasks', 'models'))}.py:{pick.randint(8, 420)}:"
        f"    {pick.choice(_VERBS)}_{pick.choice(_NOUNS)}({word}, attempt={pick.randint(1, 5)})"
        for _ in range(count)
    )


def article(topic: str, *, paragraphs: int = 14) -> str:
    """Return an article with figures in it."""
    pick = random.Random(f"article {topic}")  # noqa: S311
    out = [f"# {topic}", ""]
    for index in range(paragraphs):
        year, share, size = pick.randint(2015, 2025), pick.uniform(2, 48), pick.randint(120, 9800)
        out.append(
            f"{index + 1}. In {year} the {pick.choice(('northern', 'coastal', 'inland', 'island'))} sites reported "
            f"{share:.1f}% {pick.choice(('curtailment', 'availability loss', 'round-trip loss', 'fade'))} over "
            f"{size:,} MWh of storage. {pick.choice(('Operators', 'Regulators', 'Vendors'))} attributed it to "
            f"{pick.choice(('cell temperature', 'inverter limits', 'grid congestion', 'late firmware'))}, and "
            f"{pick.choice(('a follow-up study', 'an audit', 'field data'))} in {year + 1} "
            f"{pick.choice(('confirmed', 'halved', 'disputed'))} the figure. "
        )
    return "\n\n".join(out)


def reservation_record(number: str) -> str:
    """Return a reservation in the JSON format of the airline's system."""
    pick = random.Random(f"booking {number}")  # noqa: S311
    legs = [
        {
            "flight": f"AR{pick.randint(100, 999)}",
            "from": pick.choice(("LIS", "CPH", "ATH", "OSL")),
            "to": pick.choice(("JFK", "NRT", "GRU", "YYZ")),
            "departs": f"2026-12-{pick.randint(1, 28):02d}T{pick.randint(6, 22):02d}:45Z",
            "cabin": pick.choice(("economy", "business")),
            "fare_basis": f"{pick.choice('QTVLK')}{pick.randint(10, 99)}AR",
            "seat": f"{pick.randint(3, 42)}{pick.choice('ACDF')}",
        }
        for _ in range(4)
    ]
    rules = [{"rule": f"R{n}", "fee_eur": pick.randint(0, 240), "until_h": pick.choice((2, 24, 72))} for n in range(12)]
    content = {"reservation": number, "total_eur": pick.randint(480, 2900), "legs": legs, "rules": rules}
    return json.dumps(content, indent=1)
