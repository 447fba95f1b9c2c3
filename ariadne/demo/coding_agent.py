"""The story of a coding agent that debugs duplicate invoices. One of its summaries is refused."""

from __future__ import annotations

from collections.abc import Iterator

from ariadne.demo.filler import search_hits, source_file, test_log
from ariadne.demo.script import Step, Story, Turn

SYSTEM = (
    "You are a coding agent in the repository billing-service. Work in small steps, read before you edit, and run the "
    "tests after every change with `pytest -q tests/billing`."
)

_GOALS = (
    "Customers get two invoices when a webhook is retried (ticket BILL-2317). Find the cause and fix it. Rules: never "
    "edit a migration that has been applied, keep the public API of billing/invoices/api.py unchanged, and the fix "
    "must hold for webhooks up to 72 hours late. Budget for the whole job: $40.",
    "Start with the webhook handler. I think the idempotency key is computed from the wrong field.",
    "Good find. Use the provider's event id, not our own uuid. Decision: dedupe in the outbox, because the handler "
    "runs in two regions.",
    "The staging account is acct_1NZ8kLARiadne, use invoice inv_20931 as the test case. Its API key is "
    "api_key=staging-7f3d9c2e41b8a6, never write it into a file.",
    "Now the retry task. It must not take a lock for longer than 250 ms.",
    "The nightly reconciliation also creates invoices. Check it uses the same path.",
    "Write the regression test first, then the fix.",
    "Review says the index must be partial, only on rows where state = 'open'. Please change that.",
    "Run everything again. What is left to do?",
    "Before you finish: which rules did I give you at the start?",
)
_FILES = (
    "billing/webhooks/handlers.py",
    "billing/outbox/models.py",
    "billing/invoices/api.py",
    "billing/retry/tasks.py",
    "billing/reconcile/nightly.py",
    "billing/invoices/models.py",
    "billing/ledger/settle.py",
)


def _turns() -> Iterator[Turn]:
    for number, goal in enumerate(_GOALS):
        steps = [_todo(number)]
        for offset in range(3):
            file = _FILES[(number + offset) % len(_FILES)]
            steps.append(Step("read_file", {"path": file}, source_file(f"{file} {number}", lines=110), 0.2))
        word = ("event_id", "idempotency_key", "outbox", "claim_invoice", "settle")[number % 5]
        steps.append(Step("grep", {"pattern": word, "path": "billing/"}, search_hits(f"{word}{number}"), 0.3))
        failing = ("tests/billing/test_webhook.py::test_replay_webhook_once",) if number < 7 else ()
        steps.append(
            Step(
                *("run_tests", {"command": "pytest -q tests/billing"}, test_log(number, failing=failing), 1.6),
                is_error=bool(failing),
            )
        )
        if number >= 2:
            edit = {"path": _FILES[number % len(_FILES)], "change": f"dedupe by provider event id (step {number})"}
            steps.append(Step("edit_file", edit, "1 file changed, 14 insertions(+), 6 deletions(-)", 0.2))
        yield Turn(goal, tuple(steps), _reply(number), summarizer_refuses=number == 4)


def _todo(number: int) -> Step:
    done = [f"step {n} done" for n in range(number)]
    arguments = {"done": done[-3:], "next": f"step {number}"}
    return Step("manage_todo_list", arguments, f"{number} of {len(_GOALS)} done", 0.1)


def _reply(number: int) -> str:
    return (
        "Understood. I read the handler: the idempotency key comes from our own uuid, so a retried webhook looks new.",
        "Confirmed: `handlers.py` derives the key from `uuid4()`. Root cause found.",
        "Going with dedupe in the outbox by provider event id, because both regions write there.",
        "Reproduced on acct_1NZ8kLARiadne with inv_20931: two invoices, 41 s apart.",
        "The retry task held its lock for 1.8 s; it now claims rows in batches of 50 and stays under 250 ms.",
        "Nightly reconciliation used its own insert; it now goes through the outbox as well.",
        "Regression test `test_replay_webhook_once` is written and fails as it should.",
        "The index is now partial: `WHERE state = 'open'`.",
        "All tests pass. Left to do: backfill the 37 duplicates of October, tell support.",
        "Never edit an applied migration; keep billing/invoices/api.py's public API; 72 hours late must work; $40.",
    )[number]


STORY = Story(
    session_id="coding-BILL-2317",
    agent="coder",
    model="gpt-5",
    window_tokens=24_000,
    system=SYSTEM,
    turns=tuple(_turns()),
    live_from=7,
    tools=("read_file", "grep", "run_tests", "edit_file", "manage_todo_list"),
)
