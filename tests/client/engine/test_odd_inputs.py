"""Unusual histories: other scripts, giant lines, code, ids and empty messages."""

from __future__ import annotations

import json

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy
from compact.messages import Message, ToolCall
from compact.reading.tokens import estimate_tokens
from compact.summarizers import ExtractiveSummarizer, retention
from compact.summary.structured_summary import StructuredSummary

STYLES = ("task_state", "brief", "step_ledger", "requirements_ledger", "code_delta", "decision_log")
MAX_TOKENS = 600

# By name: the texts of the user, the assistant and a tool, and the facts that a summary must keep.
UNUSUAL: dict[str, tuple[str, str, str, list[str]]] = {
    "nothing": ("", "", "", []),
    "blank lines": ("\n\n", "   ", "\t\n", []),
    "one giant line": ("word " * 40_000 + "and never delete /srv/data.db", "", "", ["never delete /srv/data.db"]),
    "one giant word": ("", "", "x" * 300_000 + " ORD-4711", ["ORD-4711"]),
    "only a tool": ("", "", '{"id": "OI5L9G", "total": -1250.75}', ["OI5L9G", "-1250.75"]),
    "only JSON": ('{"order_id":"ORD-4711","lines":[{"sku":"A-100","qty":-30}]}', "", "", ["ORD-4711", "A-100"]),
    "code without prose": (
        "",
        "```python\ndef load_rows(path):\n    return read_csv(path, sep=7781)\n```",
        "",
        ["load_rows"],
    ),
    "Chinese": (
        "修复登录超时问题，订单ORD-9912。绝对不要修改生产数据库。预算最多500元，文件在 /srv/应用/登录.py。",
        "决定改用一次重试，因为网关在20秒后关闭。还需要重新运行测试。",
        "错误：连接超时",
        [
            "绝对不要修改生产数据库",
            "最多500元",
            "/srv/应用/登录.py",
            "ORD-9912",
            "还需要重新运行测试",
            "决定改用一次重试",
        ],
    ),
    "Japanese": (
        "ログインを直してください。本番データベースは絶対に変更しないでください。",
        "原因はリトライです。まだテストを実行していません。",
        "",
        ["絶対に変更しないでください", "まだテストを実行していません"],
    ),
    "Korean": ("운영 데이터베이스는 절대 변경하지 마세요. 티켓 ENT-221.", "", "", ["절대 변경하지 마세요", "ENT-221"]),
    "Arabic": (
        "أصلح مهلة الدخول. لا تلمس قاعدة البيانات أبدا. الطلب ORD-9912.",
        "",
        "",
        ["لا تلمس قاعدة البيانات أبدا", "ORD-9912"],
    ),
    "Hebrew": ("תקן את הבאג בבקשה. אסור לגעת במסד הנתונים.", "", "", ["אסור לגעת במסד הנתונים"]),
    "Russian": (
        "Исправь вход. Никогда не трогай рабочую базу, не больше 500 рублей.",
        "",
        "",
        ["Никогда не трогай рабочую базу"],
    ),
    "German": (
        "Bitte den Login reparieren. Nie die Produktionsdatenbank anfassen.",
        "",
        "",
        ["Nie die Produktionsdatenbank anfassen."],
    ),
    "French": (
        "Corrige la connexion. Ne touche jamais la base de production.",  # codespell:ignore
        "",
        "",
        ["Ne touche jamais la base de production."],
    ),
    "Spanish": (
        "Arregla el acceso. Nunca toques la base de producción.",
        "",
        "",
        ["Nunca toques la base de producción."],
    ),
    "Windows paths": (
        r"Open C:\Users\Ann\src\App.cs. Never delete D:\data\q3.xlsx.",
        "",
        json.dumps({"path": r"C:\Temp\out\log7.txt"}),
        [r"src\App.cs", r"Never delete D:\data\q3.xlsx."],
    ),
    "ids and hashes": (
        "Job 3f2504e0-4f89-11d3-9a0c-0305e82c3301, commit 9b74c9897bac770ffc029102a200c5de.",
        "",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        [
            "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "9b74c9897bac770ffc029102a200c5de",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ],
    ),
    "amounts and dates": (
        "Pay $1,234.56 and €99.90, at most ¥5000, by 2024-05-01T10:30:00Z or 01/02/2024; it is -17.5 °C and 12 kg.",
        "",
        "balance: -3,250.00",
        ["$1,234.56", "€99.90", "¥5000", "2024-05-01T10:30:00Z", "01/02/2024", "-17.5 °C", "12 kg", "-3,250.00"],
    ),
    "half a character": ("keep \ud83d in ENT-221 always", "", "", ["ENT-221"]),
    "our own marks": (
        "## Constraints\n- never <COMPACT-SUMMARY v9> anything in ENT-221",
        "",
        "[Summary v1.0 brief]\n$ rm",
        ["ENT-221"],
    ),
}


def history(name: str) -> list[Message]:
    user, assistant, tool, _ = UNUSUAL[name]
    return [
        Message("user", user, id="u1"),
        Message("assistant", assistant, tool_calls=(ToolCall("c1", "look", "{}"),), id="a1"),
        Message("tool", tool, tool_call_id="c1", id="t1"),
    ]


@pytest.mark.req("S-SUM-4")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", UNUSUAL)
def test_a_summary_of_unusual_input_is_valid_and_keeps_its_facts(name, style):
    """It fits its budget, is deterministic, can be parsed, and has every rule, id, number and path of the input."""
    messages = history(name)
    summary = ExtractiveSummarizer().summarize_span(messages, style=style, max_tokens=MAX_TOKENS)
    text = summary.render()
    assert estimate_tokens(text) <= MAX_TOKENS
    assert ExtractiveSummarizer().summarize_span(messages, style=style, max_tokens=MAX_TOKENS).render() == text
    assert [fact for fact in UNUSUAL[name][-1] if fact not in text] == []
    again = StructuredSummary.parse(text)
    assert again is not None
    assert [fact for fact in UNUSUAL[name][-1] if fact not in again.render()] == []


@pytest.mark.req("S-SUM-4")
@pytest.mark.parametrize("name", UNUSUAL)
def test_the_retention_check_finds_nothing_lost_in_a_summary_with_enough_room(name):
    """The summarizer and the retention check recognize the same facts, in every script."""
    messages = history(name)
    summary = ExtractiveSummarizer().summarize_span(messages, max_tokens=MAX_TOKENS)
    report = retention.restore_lost_facts(
        messages, [Message("assistant", summary.render())], summary, max_tokens=MAX_TOKENS
    )
    assert not report.is_blocking
    assert report.weighted_retention == 1.0


@pytest.mark.parametrize("name", UNUSUAL)
def test_the_retention_check_restores_what_an_empty_summary_lost(name):
    """Rules, and sentences with ids, numbers and paths, are restored verbatim if there is room."""
    messages = history(name)
    report = retention.restore_lost_facts(messages, [], StructuredSummary(), max_tokens=MAX_TOKENS)
    assert not report.is_blocking
    assert not [fact for fact in report.lost if fact.kind in ("goal", "constraint", "decision", "open_item")]
    assert not [fact.text for fact in report.lost if fact.key and fact.is_in_conversation and len(fact.line) <= 320]


@pytest.mark.req("S-LAY-2")
@pytest.mark.parametrize("name", [name for name in UNUSUAL if "giant" not in name])
def test_three_compactions_keep_the_facts_of_unusual_input(name):
    """The window is small, so the unusual messages soon are the oldest."""
    policy = CompactPolicy(hard_cap_buffer=0)
    manager = CompactManager(CompactConfig(model="gpt-4o", max_context_tokens=3_000, policy=policy))
    user, assistant, tool, facts = UNUSUAL[name]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": user},
        {"role": "assistant", "content": assistant, "tool_calls": [call]},
        {"role": "tool", "content": tool, "tool_call_id": "c1"},
    ]
    for step in range(3):
        for turn in range(10):
            messages.append(
                {"role": "user", "content": f"Go on with part {step}.{turn}. " + "All is well so far. " * 20}
            )
            messages.append(
                {"role": "assistant", "content": f"Part {step}.{turn} is done. " + "Nothing to note. " * 20}
            )
        messages = list(manager.manual_compact("s", messages, note=f"round {step}"))
    text = "\n".join(message["content"] for message in messages)
    assert [fact for fact in facts if fact not in text] == []
