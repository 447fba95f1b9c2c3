"""A browser, a mailbox and a worker for the tests of the portal."""

from __future__ import annotations

import pytest

from app.jobs import Worker, wait_for
from tests.browser import Browser
from tests.mailbox import Mailbox


@pytest.fixture(scope="session")
def worker(database):
    """The worker of background jobs, in a thread."""
    worker = Worker(database, interval_s=1.5)
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture
def mailbox(worker, smtp_server):
    return Mailbox(smtp_server)


@pytest.fixture
def browser(live_server):
    with Browser(live_server.url) as browser:
        yield browser


@pytest.fixture
def finished_jobs(database):
    """Wait until the jobs of a queue are done."""
    return lambda name: wait_for(database, name, timeout_s=30)
