"""Pages with the bundles of the wheel and the image. The other browser tests use the modules of the checkout."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_session import play, send
from conftest import SignIn
from live_server import Server, run_server
from playwright.sync_api import expect

from tools.bundles import ROOT, bundle

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Iterator[Server]:
    """A server with bundled static files."""
    folder = tmp_path_factory.mktemp("bundled")
    bundle(ROOT / "static", folder / "static")
    with run_server(folder / "data", prepared_data, TEST_STATIC=str(folder / "static")) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("/", "session-row"),
        ("/sessions/{}/", "span-row"),
        ("/sessions/{}/compactions/1/", "ledger-row"),
        ("/tail/", "tail-row"),
        ("/compare/?a={}&b={}", "token-timeline"),
    ],
)
def test_page_runs_with_one_script_and_one_stylesheet(server: Server, sign_in: SignIn, path: str, row: str) -> None:
    name = f"bundled-{uuid.uuid4().hex[:6]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=18))
    page = sign_in("developer")
    page.goto(path.format(name, name), wait_until="networkidle")
    expect(page.get_by_test_id(row).first).to_be_visible()
    assert page.locator(":not(:defined)").count() == 0
    prefetched = page.evaluate("[...document.querySelectorAll('link[rel=prefetch]')].map((link) => link.href)")
    addresses = page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    own = [address for address in addresses if address not in prefetched]
    assert sum(address.endswith(".js") for address in own) == 1
    assert sum(address.endswith(".css") for address in own) == 1
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
