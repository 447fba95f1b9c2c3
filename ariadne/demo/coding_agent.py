"""The story of a coding agent that looks for duplicate invoices. One of its summaries is refused.

The first message has the rules that still matter at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ariadne.demo.repository import Repository
from ariadne.demo.script import Step, Story, Turn

SYSTEM = (
    "You are a coding agent in the repository billing-service. Work in small steps, read before you edit, and run the "
    "tests after every change."
)
_GOALS = (
    "Understand the duplicates",
    "Find the wrong key",
    "Deduplicate in the outbox",
    "Check with the staging account",
    "Shorten the locks of the retry task",
    "Use the same path in the reconciliation",
    "Write the regression test",
    "Make the index partial",
    "Run everything",
)
_UNIQUE_INDEX = """-- Not applied yet.
CREATE UNIQUE INDEX CONCURRENTLY outbox_key_unique ON outbox (key);
"""
_ENQUEUE_BEFORE = '''    """Add work under a key."""
    entry = OutboxEntry(key=key, task=task, arguments=arguments, region=session.info["region"])
    session.add(entry)
    session.flush()
    return entry
'''
_ENQUEUE_AFTER = '''    """Add work under a key, or return the entry that has this key, also if the other region added it."""
    row = {"key": key, "task": task, "arguments": arguments, "region": session.info["region"]}
    session.execute(insert(OutboxEntry).values(row).on_conflict_do_nothing(index_elements=["key"]))
    return session.scalars(select(OutboxEntry).where(OutboxEntry.key == key)).one()
'''
_STAGING_INVOICES = """   number   |        customer        |   charge   | state |          created_at
------------+------------------------+------------+-------+-------------------------------
 inv_20931  | acct_1NZ8kLARiadne     | ch_3Pq81c  | open  | 2026-11-12 09:14:07.120113+00
 inv_20932  | acct_1NZ8kLARiadne     | ch_3Pq81c  | open  | 2026-11-12 09:14:48.377902+00
(2 rows)"""
_STAGING_OUTBOX = """  id   |                 key                  |      task      | state | region  |          created_at
-------+--------------------------------------+----------------+-------+---------+-------------------------------
 88140 | 5b0d3a2e-6d0f-4f6e-9a31-2f9a40f1d7c2 | create_invoice | done  | eu-west | 2026-11-12 09:14:06.881265+00
 88152 | f1c7be44-1c5b-4a0e-8c58-0e2f8a3b6d19 | create_invoice | done  | us-east | 2026-11-12 09:14:48.102240+00
(2 rows)"""
_LOCKS = """   task    | passes | entries (max) | lock held ms (median) | lock held ms (max)
-----------+--------+---------------+-----------------------+--------------------
 run_once  |    144 |           871 |                   412 |               1834
(1 row)"""
_LOCKS_AFTER = """   task    | passes | entries (max) | lock held ms (median) | lock held ms (max)
-----------+--------+---------------+-----------------------+--------------------
 run_once  |    151 |            50 |                    61 |                213
(1 row)"""
_DUPLICATES = """     month    | charges with one invoice | with several
--------------+--------------------------+--------------
 2026-09      |                    41207 |            4
 2026-10      |                    43960 |           37
 2026-11      |                    20114 |            2
(3 rows)"""
_RUN_BEFORE = """    started_at = time.monotonic()
    entries = find_open(session, limit=1_000)
    for entry in entries:
        claim(session, entry)
    for entry in entries:
        work(session, entry)
    session.commit()
    log.info("outbox pass: %d entries in %.1f s", len(entries), time.monotonic() - started_at)
    return len(entries)
"""
_RUN_AFTER = """    started_at = time.monotonic()
    count = 0
    # A lock ends with its transaction. Batches of 1,000 entries held it for 1.8 s, 50 stay below 250 ms.
    while entries := find_open(session, limit=BATCH):
        for entry in entries:
            claim(session, entry)
            work(session, entry)
        session.commit()
        count += len(entries)
    log.info("outbox pass: %d entries in %.1f s", count, time.monotonic() - started_at)
    return count
"""
_RECONCILE_BEFORE = """        request = request_of(charge)
        invoice = Invoice(
            number=next_number(session),
            customer=request["customer"],
            charge=request["charge"],
            currency=request["currency"],
        )
        invoice.lines.append(InvoiceLine(description=request["description"], amount=request["amount"]))
        session.add(invoice)
        count += 1
"""
_RECONCILE_AFTER = """        # The event of a charge is the key of its webhook, so a webhook that is still on its way finds this entry.
        enqueue(session, charge["event"], "create_invoice", request_of(charge))
        count += 1
"""
_REPLAY_TEST = '''"""Webhooks that the provider sends again, up to 72 hours late."""

from __future__ import annotations

import pytest

from billing.retry.tasks import run_once
from billing.webhooks.handlers import handle
from tests.billing.provider import charge_event, signed
from tests.billing.test_webhook import invoices


@pytest.mark.parametrize("hours", [0, 1, 71])
def test_replay_webhook_once(session, clock, hours):
    event = charge_event("ch_300")
    handle(*signed(event), session)
    run_once(session)
    clock.advance(hours=hours)
    handle(*signed(event), session)
    run_once(session)
    assert invoices(session, "ch_300") == 1


def test_replay_in_the_other_region(session, other_region):
    event = charge_event("ch_301")
    handle(*signed(event), session)
    handle(*signed(event), other_region)
    run_once(session)
    run_once(other_region)
    assert invoices(session, "ch_301") == 1
'''
_DUPLICATE_FAILURE = """    def test_replay_webhook_once(session, clock, hours):
        event = charge_event("ch_300")
        handle(*signed(event), session)
        run_once(session)
        clock.advance(hours=hours)
        handle(*signed(event), session)
        run_once(session)
>       assert invoices(session, "ch_300") == 1
E       AssertionError: assert 2 == 1
E        +  where 2 = invoices(<sqlalchemy.orm.session.Session object>, 'ch_300')

tests/billing/test_replay.py:21: AssertionError"""
_CONFLICT_FAILURE = """E       sqlalchemy.exc.ProgrammingError: (psycopg.errors.InvalidColumnReference) there is no unique or
E       exclusion constraint matching the ON CONFLICT specification
E       [SQL: INSERT INTO outbox (key, task, arguments, state, attempts, region) VALUES (%(key)s, %(task)s, …)
E        ON CONFLICT (key) DO NOTHING]

billing/outbox/models.py:37: ProgrammingError"""


def _turns() -> Iterator[Turn]:
    repository = Repository("billing-service")
    yield Turn(
        "Customers get two invoices when a webhook is retried (ticket BILL-2317). Find the cause and fix it. Rules: never "
        "edit a migration that has been applied, keep the public API of billing/invoices/api.py unchanged, and the fix "
        "must hold for webhooks up to 72 hours late. Budget for the whole job: $40.",
        (
            _todo(0),
            repository.search("create_invoice|uuid4", says="I look for the places that create invoices first."),
            repository.read("billing/webhooks/handlers.py"),
            repository.read("billing/outbox/models.py"),
            repository.read("billing/invoices/api.py"),
            repository.run_tests(says="The tests as they are:"),
        ),
        "I read the handler: the idempotency key comes from our own uuid, so a retried webhook looks new. All ten tests "
        "pass, because none of them sends a webhook twice.",
    )
    yield Turn(
        "Start with the webhook handler. I think the idempotency key is computed from the wrong field.",
        (
            _todo(1),
            repository.read("billing/webhooks/signature.py", says="Which fields of an event stay the same in a retry?"),
            repository.read("migrations/0041_outbox.sql"),
            repository.read("tests/billing/test_webhook.py"),
            repository.search("key"),
        ),
        "Confirmed: `dispatch` takes the key from `uuid4()`. Root cause found. The provider's event id stays the same for "
        "72 hours, and the index `outbox_key` of migration 0041 is not unique, so the database accepts both.",
    )
    yield Turn(
        "Good find. Use the provider's event id, not our own uuid. Decision: dedupe in the outbox, because the handler "
        "runs in two regions.",
        (
            _todo(2),
            repository.edit("billing/webhooks/handlers.py", "    key = str(uuid4())\n", '    key = event["id"]\n'),
            repository.edit("billing/webhooks/handlers.py", "from uuid import uuid4\n\n", ""),
            repository.edit("billing/outbox/models.py", _ENQUEUE_BEFORE, _ENQUEUE_AFTER),
            repository.edit(
                "billing/outbox/models.py",
                "from sqlalchemy.orm import Mapped",
                "from sqlalchemy.dialects.postgresql import insert\nfrom sqlalchemy.orm import Mapped",
            ),
            repository.create(
                "migrations/0043_outbox_unique.sql",
                _UNIQUE_INDEX,
                says="0041 is applied, so the unique index is a migration of its own.",
            ),
            repository.run_tests(),
        ),
        "Going with dedupe in the outbox by provider event id, because both regions write there. The index is in the new "
        "migration 0043, and 0041 is unchanged.",
    )
    yield Turn(
        "The staging account is acct_1NZ8kLARiadne, use invoice inv_20931 as the test case. Its API key is "
        "api_key=staging-7f3d9c2e41b8a6, never write it into a file.",
        (
            _todo(3),
            _query(
                "SELECT number, customer, charge, state, created_at FROM invoices WHERE charge = 'ch_3Pq81c'",
                _STAGING_INVOICES,
            ),
            _query(
                "SELECT id, key, task, state, region, created_at FROM outbox WHERE id IN (88140, 88152)",
                _STAGING_OUTBOX,
            ),
            repository.read("billing/db.py", says="Where does an entry get its region from?"),
        ),
        "Reproduced on acct_1NZ8kLARiadne with inv_20931: two invoices, 41 s apart, one from eu-west and one from us-east, "
        "for the same charge ch_3Pq81c.",
    )
    yield Turn(
        "Now the retry task. It must not take a lock for longer than 250 ms.",
        (
            _todo(4),
            repository.read("billing/retry/tasks.py"),
            _query("SELECT * FROM lock_times WHERE day = current_date - 1", _LOCKS),
            repository.edit("billing/retry/tasks.py", _RUN_BEFORE, _RUN_AFTER),
            repository.edit("billing/retry/tasks.py", "MAX_ATTEMPTS = 8\n", "MAX_ATTEMPTS = 8\nBATCH = 50\n"),
            repository.run_tests(),
            _query("SELECT * FROM lock_times WHERE day = current_date", _LOCKS_AFTER),
        ),
        "The retry task held its lock for 1.8 s; it now claims rows in batches of 50 and stays under 250 ms (213 ms at most).",
        summarizer_refuses=True,
    )
    yield Turn(
        "The nightly reconciliation also creates invoices. Check it uses the same path.",
        (
            _todo(5),
            repository.read("billing/reconcile/nightly.py"),
            repository.read("tests/billing/test_reconcile.py"),
            repository.read("billing/invoices/models.py", says="It numbers invoices itself. I check what that locks."),
            repository.edit("billing/reconcile/nightly.py", _RECONCILE_BEFORE, _RECONCILE_AFTER),
            repository.edit(
                "billing/reconcile/nightly.py",
                "from billing.invoices.models import Invoice, InvoiceLine, next_number\n",
                "from billing.invoices.models import Invoice\nfrom billing.outbox.models import enqueue\n",
            ),
            repository.run_tests(),
        ),
        "Nightly reconciliation used its own insert; it now goes through the outbox as well, under the event id of the charge.",
    )
    yield Turn(
        "Write the regression test first, then the fix.",
        (
            _todo(6),
            repository.read("tests/billing/test_retry.py"),
            repository.create("tests/billing/test_replay.py", _REPLAY_TEST),
            Step("run_command", {"command": "git stash push billing"}, "Saved working directory and index state", 0.3),
            repository.run_tests(
                failures={"test_replay_webhook_once": _DUPLICATE_FAILURE},
                says="Without the fix, the new test has to fail.",
            ),
            Step("run_command", {"command": "git stash pop"}, _status(repository), 0.3),
            repository.run_tests(says="And with it:"),
        ),
        "Regression test `test_replay_webhook_once` is written. It fails without the fix (2 invoices) and passes with it, "
        "also 71 hours late and in the other region.",
    )
    yield Turn(
        "Review says the index must be partial, only on rows where state = 'open'. Please change that.",
        (
            _todo(7),
            repository.read("migrations/0043_outbox_unique.sql", says="0043 is not applied yet, so it may change."),
            repository.edit("migrations/0043_outbox_unique.sql", "outbox (key);", "outbox (key) WHERE state = 'open';"),
            repository.run_tests(failures={"test_replay_webhook_once": _CONFLICT_FAILURE}),
            repository.read("billing/outbox/models.py"),
            repository.edit(
                "billing/outbox/models.py",
                'on_conflict_do_nothing(index_elements=["key"])',
                'on_conflict_do_nothing(index_elements=["key"], index_where=OutboxEntry.state == "open")',
            ),
            repository.run_tests(),
        ),
        "The index is now partial: `WHERE state = 'open'`. Open: a webhook that comes again after its entry is done adds a "
        "second one now, so ask the reviewer how that should be found within 72 hours.",
    )
    yield Turn(
        "Run everything again. What is left to do?",
        (
            _todo(8),
            repository.run_tests(),
            repository.search("on_conflict|uuid4|next_number"),
            _query("SELECT * FROM duplicate_charges ORDER BY month", _DUPLICATES),
            Step("run_command", {"command": "git diff --stat"}, _status(repository), 0.3),
        ),
        "All tests pass. Left to do: backfill the 37 duplicates of October, tell support, and the open question to the "
        "reviewer.",
    )
    yield Turn(
        "Before you finish: which rules did I give you at the start?",
        (),
        "Never edit an applied migration; keep billing/invoices/api.py's public API; 72 hours late must work; $40.",
    )


def _todo(number: int) -> Step:
    arguments = {"done": list(_GOALS[max(0, number - 3) : number]), "next": _GOALS[number]}
    return Step("manage_todo_list", arguments, f"{number} of {len(_GOALS)} done", 0.1)


def _query(statement: str, output: str) -> Step:
    return Step("query_staging", {"sql": statement}, output, 0.5)


def _status(repository: Repository) -> str:
    changed = (
        "billing/outbox/models.py",
        "billing/reconcile/nightly.py",
        "billing/retry/tasks.py",
        "billing/webhooks/handlers.py",
    )
    lines = [f" {path:<34} | {len(repository[path].splitlines()) // 9 + 2:3d} +++---" for path in changed]
    return "\n".join(
        [*lines, " 4 files changed, 2 untracked files: migrations/0043_outbox_unique.sql, tests/billing/test_replay.py"]
    )


STORY = Story(
    session_id="coding-BILL-2317",
    agent="coder",
    model="gpt-5",
    window_tokens=8_000,
    system=SYSTEM,
    turns=tuple(_turns()),
    live_from=7,
    tools=(
        "read_file",
        "grep",
        "run_tests",
        "edit_file",
        "create_file",
        "run_command",
        "query_staging",
        "manage_todo_list",
    ),
)
