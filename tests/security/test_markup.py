"""Stored XSS: markup in every field that an agent can fill is only ever text, in a real browser."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.browser

SESSION = "markup-session"
# Breaks out of text, of attributes, of scripts and of templates; whichever runs, calls `pwned`.
MARKUP = (
    "</script><script>pwned('{0}')</script>\"'><img src=x onerror=pwned('{0}')>"
    "<svg onload=pwned('{0}')>{{{{7*7}}}}[click](javascript:pwned('{0}'))"
)


def markup(field: str) -> str:
    return MARKUP.format(field)


def check_data() -> dict[str, dict[str, Any]]:
    """What each span of a compaction carries, with markup wherever a text may stand."""
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
def sent(server) -> str:
    """One session, one transcript and a session whose very name is markup; the id of the transcript."""
    batch = events()
    other = {"type": "span", "trace_id": markup("trace id"), "span_id": markup("span id"), "kind": "tool",
             "data": {"session_id": markup("session id")}}  # fmt: skip
    answer = httpx.post(server.ingest_url, json={"batch": [*batch, other]}, headers=server.headers, timeout=30)
    assert answer.json()["rejected"] == []
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
def test_no_field_becomes_markup_on_any_page(sign_in, server):
    """Nothing runs, and nothing even tries to: the browser reports no refused script either."""
    page = sign_in("admin")
    ran: list[str] = []
    refused: list[str] = []
    page.expose_function("pwned", lambda field: ran.append(str(field)))
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda line: refused.append(line.text) if "Content Security Policy" in line.text else None)
    key = page.request.get(f"/api/transcripts/?q={SESSION}").json()["results"][0]["session_key"]
    named = page.request.get("/api/transcripts/").json()["results"]
    worst = next(row["session_key"] for row in named if "pwned" in row["session"])
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
        f"/transcripts/{worst}/1/?show=text",
        "/audit/?q=%22%3E%3Cscript%3Epwned(1)%3C/script%3E",
        "/audit/",
        "/keys/",
        "/tokens/",
    ]  # fmt: skip
    for path in paths:
        answer = page.goto(path)
        assert answer is not None and answer.status < 500, f"{path}: {answer and answer.status}"
        page.wait_for_load_state("load")
        assert page.locator("img[src=x], svg[onload]").count() == 0, f"{path} has markup that came from an agent"
        assert page.locator("a[href^='javascript:']").count() == 0, path
        assert "49" not in page.title()
    page.goto(f"/transcripts/{key}/1/?show=text")
    assert "<img src=x onerror=pwned('content')>" in page.locator(".messages").inner_text()
    assert ran == []
    assert refused == []


@pytest.mark.req("P-SEC-1")
def test_keys_and_tokens_show_their_names_as_text(sign_in):
    """People's own input is no more trusted than an agent's."""
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
