"""End to end: an agent compacts, and an open page shows it without a reload."""

from __future__ import annotations

import uuid

import pytest
from compact import AriadneExporter, CompactConfig, CompactManager, CompactPolicy
from conftest import SignIn
from conversations import conversation
from live_server import Server
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.req("S-UI-1", "K-UI-1", "P-KR-5")
def test_compaction_appears_in_an_open_page(server: Server, sign_in: SignIn) -> None:
    """The session row, the marker and the summary appear live."""
    session_id = f"live-{uuid.uuid4().hex[:8]}"
    exporter = AriadneExporter(server.ingest_url, server.ingest_key, spool_dir=None)
    policy = CompactPolicy(hard_cap_buffer=300, keep_recent_turns=2, keep_tool_io_pairs=1)
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=6_000, policy=policy, exporter=exporter))
    page = sign_in("developer")
    page.goto("/")
    manager.preflight(session_id, conversation(1))
    row = page.get_by_test_id("session-row").filter(has_text=session_id)
    expect(row).to_be_visible()

    row.get_by_text(session_id).click()
    expect(page.get_by_test_id("token-timeline")).to_be_visible()
    expect(page.get_by_test_id("compaction-marker")).to_have_count(0)
    page.evaluate("window.notReloaded = true")

    manager.preflight(session_id, conversation(60))
    expect(page.get_by_test_id("compaction-marker")).to_have_count(1)
    summary = page.get_by_test_id("span-row").filter(has_text="summary").first
    summary.click()
    expect(page.get_by_test_id("inspector")).to_contain_text("invoices_2026")
    assert page.evaluate("window.notReloaded")
    exporter.close()
