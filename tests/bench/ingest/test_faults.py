"""Ten rounds of each fault under load. Each acknowledged span must be stored exactly once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.ingest.faults import Fault, Senders, check, kill_postgres, kill_web, running

ROUNDS = 10

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("fault", [kill_web, kill_postgres], ids=["kill -9 web", "kill -9 postgres"])
def test_no_acknowledged_span_is_lost_in_ten_rounds(tmp_path: Path, fault: Fault) -> None:
    """After each round the table is compared with the acknowledged spans."""
    with running(tmp_path) as stack:
        for number in range(ROUNDS):
            with Senders(stack, count=8, name=f"round-{number}") as senders:
                senders.wait_for(200, timeout_s=120)
                # A random delay, so that the fault happens at any point of a commit.
                time.sleep(random.uniform(0, 0.2))
                fault(stack)
                senders.wait_for(200, timeout_s=120)
            counts = check(stack, senders)
            print(f"{fault.__name__} round {number + 1}: {counts}, statuses {senders.statuses}", flush=True)
