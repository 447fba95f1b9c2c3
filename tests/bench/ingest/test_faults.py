"""Ten rounds of each fault in mid-load: every acknowledged span is there, exactly once, ten times out of ten."""

from __future__ import annotations

import random
import socket
import time
from pathlib import Path

import pytest

from tests.ingest.faults import Fault, Senders, check, kill_postgres, kill_web, running

ROUNDS = 10

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("fault", [kill_web, kill_postgres], ids=["kill -9 web", "kill -9 postgres"])
def test_ten_out_of_ten(tmp_path: Path, fault: Fault) -> None:
    """After each round the table is compared with what was acknowledged so far."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    whole = 0
    with running(tmp_path, port) as stack:
        for number in range(ROUNDS):
            with Senders(stack, count=8, name=f"round-{number}") as senders:
                senders.wait_for(200, timeout_s=120)
                # Anywhere in a commit, not always at its beginning.
                time.sleep(random.uniform(0, 0.2))
                fault(stack)
                senders.wait_for(200, timeout_s=120)
            found = check(stack, senders)
            whole += 1
            print(f"{fault.__name__} round {number + 1}: {found}, answers {senders.statuses}", flush=True)
    assert whole == ROUNDS
