"""An empty server leads to the first session in three steps, and its snippets work as printed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import SignIn
from live_server import Server, run_server
from playwright.sync_api import Page, expect

OTLP_PROGRAM = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
with provider.get_tracer("test").start_as_current_span("chat", attributes={"gen_ai.conversation.id": "from-otlp"}):
    pass
"""


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Iterator[Server]:
    """An empty server of each test's own."""
    with run_server(tmp_path_factory.mktemp("empty"), prepared_data) as running:
        yield running


def snippets(page: Page) -> dict[str, str]:
    """Return what the copy button of each tab copies."""
    tabs = page.locator("tab-set > [data-tab]")
    return {
        str(tab.get_attribute("data-tab")): str(
            tab.get_by_test_id("snippet").locator("[data-action=copy]").get_attribute("data-text")
        )
        for tab in tabs.all()
    }


def run(command: list[str], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ARIADNE_", "COMPACT_"))}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_operator_is_told_whom_to_ask(sign_in: SignIn) -> None:
    """A person who may not create keys sees no form."""
    page = sign_in("operator", width=390, dark=True)
    page.goto("/")
    expect(page.get_by_text("Ask a developer or an admin of this project")).to_be_visible()
    expect(page.get_by_test_id("create-first-key")).to_have_count(0)
    # There is nothing to filter or to count yet.
    expect(page.get_by_test_id("search")).to_have_count(0)
    expect(page.get_by_test_id("figures")).to_have_count(0)
    assert Axe().run(page).violations_count == 0


def test_three_steps_lead_to_the_first_session(sign_in: SignIn, server: Server, tmp_path: Path) -> None:
    """Create a key, run the snippet with that key, and follow the link that appears."""
    page = sign_in("developer")
    page.goto("/")
    expect(page.get_by_text("Waiting for your first event…")).to_be_visible()
    page.get_by_test_id("create-first-key").click()
    key = page.get_by_test_id("secret").inner_text()
    programs = snippets(page)
    assert set(programs) == {"Python", "Claude Code, Codex", "OpenTelemetry", "curl"}
    assert all(key in program for program in programs.values())
    assert Axe().run(page).violations_count == 0

    assert "tokens saved" in run([sys.executable, "-c", programs["Python"]], tmp_path)
    page.get_by_test_id("first-session").click()
    expect(page.get_by_test_id("compaction-marker").first).to_be_visible()

    assert '"count":1' in run(["bash", "-c", programs["curl"]], tmp_path).replace(" ", "")
    script = f"{programs['OpenTelemetry']}\n{shlex.quote(sys.executable)} - <<'EOF'\n{OTLP_PROGRAM}\nEOF\n"
    run(["bash", "-c", script], tmp_path)
    page.goto("/")
    expect(page.get_by_test_id("session-row").filter(has_text="from-otlp")).to_be_visible()
