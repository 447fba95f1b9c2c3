"""The auditor's pages in a real browser: two clicks to a proven file, all of it logged, readable by everybody."""

from __future__ import annotations

import gzip
import hashlib
import json
import uuid
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from compact import bundle

pytestmark = pytest.mark.browser


@pytest.fixture
def session(server) -> str:
    """Two archived steps of a session of the test's own."""
    name = f"audited-{uuid.uuid4().hex[:8]}"
    for step in (1, 2):
        lines = [
            {"id": f"m{n}", "role": "user", "content": f"line {n}, password: hunter2{n}abc"} for n in range(step * 3)
        ]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        answer = httpx.post(
            f"{server.url}/ingest/transcripts",
            params={"session": name, "step": step, "sha256": hashlib.sha256(body).hexdigest()},
            content=gzip.compress(body),
            headers={**server.headers, "Content-Encoding": "gzip", "Content-Type": "application/x-ndjson"},
            timeout=30,
        )
        assert answer.status_code == 200, answer.text
    return name


@pytest.mark.req("K-UI-3")
def test_an_auditor_downloads_and_finds_it_in_the_log(sign_in, session: str):
    """One click in the list, with the reason beside it; the log has both."""
    page = sign_in("auditor")
    page.goto(f"/transcripts/?q={session}")
    rows = page.get_by_test_id("transcript-row")
    assert rows.count() == 2
    page.select_option("#reason", "Legal request")
    page.fill("#note", f"case {session}")
    with page.expect_download() as download:
        rows.nth(0).get_by_test_id("download").click()
    assert download.value.suggested_filename == f"{session}-transcript-pre-compact-002.jsonl"
    content = Path(download.value.path()).read_text()
    assert content.count("\n") == 6 and "hunter2" not in content and content.count("<REDACTED>") == 6
    page.goto(f"/audit/?q={session}")
    line = page.get_by_test_id("audit-row").first.inner_text()
    assert "transcript.download" in line and f"Legal request: case {session}" in line and "auditor" in line


@pytest.mark.req("K-UI-3")
def test_an_auditor_verifies_a_chain_and_takes_the_proof_away(sign_in, server, session: str):
    """The button says whole; the bundle is accepted by the client's verifier with the published key."""
    page = sign_in("auditor")
    page.goto(f"/transcripts/?q={session}")
    page.get_by_test_id("transcript-row").last.locator("a").click()
    page.get_by_test_id("verify").click()
    assert "Verified 2 transcripts" in page.locator(".notice").inner_text()
    with page.expect_download() as download:
        page.get_by_test_id("bundle").click()
    key = httpx.get(f"{server.url}/.well-known/ariadne-signing-key", timeout=10).text
    report = bundle.verify(download.value.path(), public_key=key)
    assert report.ok, report.checks


@pytest.mark.req("P-SEC-1")
def test_people_see_links_only_to_what_they_may_open(sign_in):
    """The bar and the menu offer no door that is closed."""
    offered = {}
    for person in ("operator", "developer", "auditor"):
        page = sign_in(person)
        page.goto("/")
        offered[person] = {a.get_attribute("href") for a in page.locator("header a").all()}
    assert not offered["operator"] & {"/tail/", "/transcripts/", "/audit/", "/keys/", "/projects/"}
    assert {"/tail/", "/keys/"} <= offered["developer"] and "/transcripts/" not in offered["developer"]
    assert {"/transcripts/", "/audit/"} <= offered["auditor"] and "/keys/" not in offered["auditor"]


@pytest.mark.parametrize("dark", [False, True])
def test_the_pages_pass_the_rules_of_accessibility(sign_in, session: str, dark: bool):
    """Contrast, names, labels, order: no rule of axe is broken, in light and in dark."""
    page = sign_in("admin", dark=dark)
    page.goto(f"/transcripts/?q={session}")
    detail = page.get_by_test_id("transcript-row").first.locator("a").get_attribute("href")
    for path in ("/transcripts/", f"{detail}?show=text", "/audit/", "/keys/", "/tokens/", "/projects/"):
        page.goto(path)
        found = Axe().run(page).response["violations"]
        assert found == [], f"{path}: {[(v['id'], v['nodes'][0]['html']) for v in found]}"


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_nothing_is_wider_than_the_window(sign_in, session: str, width: int):
    """Tables scroll inside themselves."""
    page = sign_in("admin", width=width)
    for path in ("/transcripts/", "/audit/", "/keys/", "/tokens/", "/projects/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
