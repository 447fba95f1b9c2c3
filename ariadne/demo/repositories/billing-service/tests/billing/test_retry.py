"""The worker of the outbox."""

from __future__ import annotations

from billing.outbox.models import OutboxEntry, count_by_state, enqueue
from billing.retry import tasks


def test_failed_task_is_tried_again(session, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "create_invoice", failing_twice())
    entry = enqueue(session, "k-1", "create_invoice", {})
    for _ in range(3):
        tasks.run_once(session)
    assert (entry.state, entry.attempts) == ("done", 3)


def test_task_is_given_up_after_eight_attempts(session, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "create_invoice", always_failing())
    enqueue(session, "k-2", "create_invoice", {})
    for _ in range(9):
        tasks.run_once(session)
    assert count_by_state(session) == {"failed": 1}


def failing_twice():
    failures = iter([True, True, False])

    def task(session, arguments):
        if next(failures):
            raise ConnectionError("the provider is unreachable")

    return task


def always_failing():
    def task(session, arguments):
        raise ConnectionError("the provider is unreachable")

    return task
