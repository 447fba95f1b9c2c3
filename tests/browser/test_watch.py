"""End to end: an agent writes its log, and an open page shows the compaction with the facts that it lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from agent_logs import CLAUDE_CODE_SESSION as LOG
from conftest import SignIn
from live_server import Server
from playwright.sync_api import expect

from tests.wait import wait_until

pytestmark = pytest.mark.browser


def collect_reports(watch: subprocess.Popen[bytes], reports: list[dict[str, Any]]) -> None:
    """Collect what `watch` prints."""
    assert watch.stdout is not None
    with watch.stdout as lines:
        reports.extend(map(json.loads, lines))


@pytest.mark.req("A-CAP-1")
def test_a_compaction_of_a_running_agent_appears_with_its_lost_facts(
    server: Server, sign_in: SignIn, tmp_path: Path
) -> None:
    """`compactctl watch` follows the log. The page is not reloaded, and no secret of the log reaches it."""
    session_id = str(uuid.uuid4())
    lines = [line.replace(LOG.stem, session_id) for line in LOG.read_text().split("\n") if "broken" not in line]
    log = tmp_path / f"{session_id}.jsonl"
    command = [
        sys.executable,
        "-m",
        "compact.cli",
        "watch",
        str(tmp_path),
        "--json",
        "--state",
        str(tmp_path / "state"),
    ]
    watch = subprocess.Popen(
        [*command, "--url", server.url, "--key", server.ingest_key], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    reports: list[dict[str, Any]] = []
    reader = threading.Thread(target=collect_reports, args=(watch, reports))
    reader.start()
    try:
        page = sign_in("auditor")
        page.goto("/")
        with log.open("a", buffering=1) as stream:
            stream.write("\n".join(lines[:17]) + "\n")
            row = page.get_by_test_id("session-row").filter(has_text=session_id)
            expect(row).to_be_visible()
            row.get_by_text(session_id).click()
            expect(page.get_by_test_id("compaction-marker")).to_have_count(1)
            page.evaluate("window.notReloaded = true")
            stream.write("\n".join(lines[17:]) + "\n")
            expect(page.get_by_test_id("compaction-marker")).to_have_count(2)
        assert page.evaluate("window.notReloaded")
        page.goto(f"/sessions/{session_id}/compactions/2/")
        lost = page.get_by_test_id("lost-fact")
        expect(lost.filter(has_text="Never drop the table orders_2024").first).to_be_visible()
        expect(lost.filter(has_text="shop_slot_7").first).to_be_visible()
        expect(page.get_by_test_id("ledger-row")).to_have_count(9)
        expect(page.get_by_test_id("inferred-note")).to_be_visible()
        assert "s3cr3t-Pa55" not in page.content()
        # The page may show a compaction before the client has the server's answer.
        assert wait_until(lambda: sum(report.get("compactions", 0) for report in reports) == 2)
    finally:
        watch.terminate()
        watch.wait(timeout=20)
        reader.join(timeout=20)
