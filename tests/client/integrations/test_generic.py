"""The hooks for a hand-written agent loop."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from builders import Recorder, chat_turns, small_manager
from compact.integrations.generic import abefore_model_call, after_model_call, before_model_call


@pytest.mark.req("P-KR-6")
async def test_the_hooks_compact_messages_and_report_usage():
    """`before_model_call` also counts tools and instructions. `after_model_call` corrects the next estimate."""
    recorder = Recorder()
    manager = small_manager(recorder)
    ctx = SimpleNamespace(
        session_id="s", messages=chat_turns(30), tools=[{"name": "f"}], system="be careful", developer=None
    )
    before_model_call(manager)(ctx)
    assert len(ctx.messages) == 13
    breakdown = recorder.of("compact.token_estimate")[0]["properties"]["breakdown"]
    assert breakdown["tools_schema"] > 0
    assert breakdown["system"] > 0
    ctx.response = SimpleNamespace(usage={"input_tokens": 3000})
    after_model_call(manager)(ctx)
    await abefore_model_call(manager)(ctx)
    assert recorder.last("compact.token_estimate")["source"] == "provider"
