"""Stored XSS: a real browser shows markup in any field that an agent sends as text."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.browser

SESSION = "markup-session"
# Breaks out of text, attributes, scripts and templates. Any code that runs calls `pwned`.
MARKUP = (
    "</script><script>pwned('{0}')</script>\"'><img src=x onerror=pwned('{0}')>"
    "<svg onload=pwned('{0}')>{{{{7*7}}}}[click](javascript:pwned('{0}'))"
)


def markup(field: str) -> str:
    return MARKUP.format(field)


def check_data() -> dict[str, dict[str, Any]]:
    """Return the data of each span of a compaction, with markup in every text."""
    tokens = {"tokens_before": 110_000, "tokens_after": 20_000}
    estimate = {"t_est": 110_000, "max_tokens": 128_000}
    policy = {"strategy": markup("strategy")}
    why = {"triggered": True, "reason": markup("reason"), "rule": markup("rule"), "note": markup("note")}
    return {
        "check": {"turn": 1, "model": markup("model"), "triggered": True, "max_tokens": 128_000, "step": 1, **tokens},
        "token_estimate": {"model": markup("model"), "turn": 1, "estimator": markup("estimator"), **estimate},
        "trigger_decision": {**why, **estimate, "policy": policy},
        "summary_created": {"step": 1, "strategy": markup("strategy"), "summary_tokens": 5},
        "pruned_messages": {"step": 1, "layers": {"pinned": 1}, "fates": {markup("fate"): 1}, **tokens},
        "error": {"error_type": markup("type"), "message": markup("message"), "fallback": markup("fallback")},
    }


def payloads() -> dict[str, dict[str, Any]]:
    row = {"id": markup("ledger id"), "hash": "0" * 64, "role": markup("role"), "tokens": 5}
    goal = {"text": markup("goal"), "source_ids": [markup("source")]}
    return {
        "summary_created": {"summary": f"# {markup('summary')}", "structured": {"goals": [goal]}},
        "pruned_messages": {"ledger": [{**row, "fate": "kept", "rule": markup("rule")}], "after": [row]},
    }


def events() -> list[dict[str, Any]]:
    trace = {"type": "trace", "trace_id": "trace-markup", "group_id": SESSION, "name": markup("trace")}
    span = {"type": "span", "trace_id": "trace-markup"}
    times = {"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z"}
    agent = {
        "span_id": "agent",
        "kind": markup("kind"),
        "name": markup("name"),
        "status": "error",
        "data": {markup("data key"): markup("data"), "error": markup("error"), "model": markup("model")},
        "payload": {markup("payload key"): markup("payload")},
    }
    compaction = [
        {
            **span,
            **times,
            "span_id": name,
            "parent_id": None if name == "check" else "check",
            "kind": f"compact.{name}",
            "data": data,
            "payload": payloads().get(name),
        }
        for name, data in check_data().items()
    ]
    return [{**trace, "metadata": {markup("key"): markup("meta")}}, {**span, **times, **agent}, *compaction]


@pytest.fixture(scope="module", autouse=True)
def markup_session(server) -> str:
    """Send a session and its transcript, and a session whose name is markup."""
    batch = events()
    other = {"type": "span", "trace_id": markup("trace id"), "span_id": markup("span id"), "kind": "tool",
             "data": {"session_id": markup("session id")}}  # fmt: skip
    response = httpx.post(server.ingest_url, json={"batch": [*batch, other]}, headers=server.headers, timeout=30)
    assert response.json()["rejected"] == []
    message = {"id": markup("message id"), "role": markup("role"), "content": markup("content"), "name": markup("tool")}
    body = json.dumps(message).encode() + b"\n"
    for session in (SESSION, markup("transcript session")):
        stored = httpx.post(
            f"{server.url}/ingest/transcripts",
            params={"session": session, "step": 1, "sha256": hashlib.sha256(body).hexdigest()},
            content=gzip.compress(body),
            headers={**server.headers, "Content-Encoding": "gzip", "Content-Type": "application/x-ndjson"},
            timeout=30,
        )
        assert stored.status_code in {200, 201}, stored.text
    return SESSION


@pytest.mark.req("P-SEC-1")
def test_no_page_renders_markup_from_agents(sign_in, server):
    """No script runs, and the browser does not have to block any."""
    page = sign_in("admin")
    ran: list[str] = []
    blocked: list[str] = []
    page.expose_function("pwned", lambda field: ran.append(str(field)))
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda line: blocked.append(line.text) if "Content Security Policy" in line.text else None)
    key = page.request.get(f"/api/transcripts/?q={SESSION}").json()["results"][0]["session_key"]
    rows = page.request.get("/api/transcripts/").json()["results"]
    markup_key = next(row["session_key"] for row in rows if "pwned" in row["session"])
    paths = [
        "/",
        "/?q=" + "%3Cscript%3Epwned(1)%3C/script%3E",
        f"/sessions/{SESSION}/",
        *(f"/sessions/{SESSION}/?span=trace-markup:{span}#span=trace-markup:{span}"
          for span in ("agent", *check_data())),
        f"/sessions/{SESSION}/compactions/1/",
        f"/sessions/{SESSION}/payload/?span=trace-markup:agent",
        "/tail/?after=0",
        "/compare/",
        "/transcripts/",
        f"/transcripts/{key}/1/?show=text",
        f"/transcripts/{markup_key}/1/?show=text",
        "/audit/?q=%22%3E%3Cscript%3Epwned(1)%3C/script%3E",
        "/audit/",
        "/keys/",
        "/tokens/",
    ]  # fmt: skip
    for path in paths:
        response = page.goto(path)
        assert response is not None and response.status < 500, f"{path}: {response and response.status}"
        page.wait_for_load_state("load")
        assert page.locator("img[src=x], svg[onload]").count() == 0, f"{path} renders markup from an agent"
        assert page.locator("a[href^='javascript:']").count() == 0, path
        assert "49" not in page.title()
    page.goto(f"/transcripts/{key}/1/?show=text")
    assert "<img src=x onerror=pwned('content')>" in page.locator(".conversation").inner_text()
    assert ran == []
    assert blocked == []


@pytest.mark.req("P-SEC-1")
def test_names_of_keys_and_tokens_are_shown_as_text(sign_in):
    """Input of users is not trusted either."""
    page = sign_in("developer")
    ran: list[str] = []
    page.expose_function("pwned", lambda field: ran.append(str(field)))
    for path, button in (("/keys/", "Create key"), ("/tokens/", "Create token")):
        page.goto(path)
        page.fill("#label", markup("label")[:100])
        page.click(f"text={button}")
        page.wait_for_selector("[data-testid=secret]")
        assert page.locator("img[src=x]").count() == 0
    assert ran == []
