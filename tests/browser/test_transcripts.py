"""Transcripts and the audit log, as an auditor uses them."""

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
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def session(server) -> str:
    """A session with two stored transcripts."""
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
def test_transcript_download_is_recorded_in_the_audit_log(sign_in, session: str):
    """The log has the download with the reason and note from the list."""
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
def test_auditor_verifies_a_chain_and_downloads_a_signed_bundle(sign_in, server, session: str):
    """The client's verifier accepts the bundle with the server's public key."""
    page = sign_in("auditor")
    page.goto(f"/transcripts/?q={session}")
    page.get_by_test_id("transcript-row").last.locator("a").click()
    page.get_by_test_id("verify").click()
    expect(page.locator(".notice")).to_contain_text("Verified 2 transcripts")
    with page.expect_download() as download:
        page.get_by_test_id("bundle").click()
    key = httpx.get(f"{server.url}/.well-known/ariadne-signing-key", timeout=10).text
    report = bundle.verify(download.value.path(), public_key=key)
    assert report.ok, report.checks


@pytest.mark.req("P-SEC-1")
def test_navigation_shows_only_pages_that_the_user_may_open(sign_in):
    links: dict[str, set[str | None]] = {}
    for person in ("operator", "developer", "auditor"):
        page = sign_in(person)
        page.goto("/")
        links[person] = {a.get_attribute("href") for a in page.locator("header a").all()}
    assert not links["operator"] & {"/tail/", "/transcripts/", "/audit/", "/keys/", "/projects/"}
    assert {"/tail/", "/keys/"} <= links["developer"] and "/transcripts/" not in links["developer"]
    assert {"/transcripts/", "/audit/"} <= links["auditor"] and "/keys/" not in links["auditor"]


@pytest.mark.parametrize("dark", [False, True])
def test_page_has_no_accessibility_violations(sign_in, session: str, dark: bool):
    page = sign_in("admin", dark=dark)
    page.goto(f"/transcripts/?q={session}")
    detail = page.get_by_test_id("transcript-row").first.locator("a").get_attribute("href")
    for path in ("/transcripts/", f"{detail}?show=text", "/audit/", "/keys/", "/tokens/", "/projects/"):
        page.goto(path)
        violations = Axe().run(page).response["violations"]
        assert violations == [], f"{path}: {[(v['id'], v['nodes'][0]['html']) for v in violations]}"


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_pages_do_not_scroll_horizontally(sign_in, session: str, width: int):
    """Wide tables scroll inside their own container."""
    page = sign_in("admin", width=width)
    for path in ("/transcripts/", "/audit/", "/keys/", "/tokens/", "/projects/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_the_list_of_transcripts_fits_a_small_laptop(sign_in, session: str):
    """The buttons of a row are on the screen without scrolling."""
    page = sign_in("auditor", width=1024)
    page.goto(f"/transcripts/?q={session}")
    region = page.locator(".table-scroll")
    assert region.evaluate("(e) => e.scrollWidth <= e.clientWidth")


def test_printed_hashes_of_a_chain_are_complete(sign_in, session: str):
    page = sign_in("auditor", width=760)
    page.goto(f"/transcripts/?q={session}")
    page.get_by_test_id("transcript-row").first.get_by_role("link").first.click()
    page.emulate_media(media="print")
    digest = page.locator(".chain .digest").first
    assert len(digest.inner_text()) == 64
    assert digest.evaluate("(e) => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= innerWidth")
