"""Every example runs offline and unchanged, and prints what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from receiver import Receiver

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "compact_client" / "examples"
# A pattern that the output of each example must match.
EXPECTED_OUTPUT = {
    "agents_sdk_minimal.py": r"All eight parts(.|\n)*<COMPACT-SUMMARY",
    "anthropic_messages.py": r"20 messages in the history",
    "chat_completions.py": r"25 messages in the history",
    "coding_session.py": r"transcript-pre-compact-001\.jsonl",
    "langchain_agent.py": r"18 messages kept in the state",
    "langgraph_agent.py": r"18 messages kept in the state",
    "long_research.py": r"window 16,000: [4-9]\d* compactions",
    "pydantic_ai_agent.py": r"18 messages kept",
}


def run(name: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "EXAMPLE_DIR": str(folder), "OPENAI_API_KEY": "", **environment}
    command = [sys.executable, str(EXAMPLES / name)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=250, check=False)


def test_every_example_is_listed() -> None:
    """A new example needs an expected output here."""
    assert {file.name for file in EXAMPLES.glob("*.py")} == EXPECTED_OUTPUT.keys()


@pytest.mark.req("P-DOC-1")
@pytest.mark.parametrize("name", [name for name in EXPECTED_OUTPUT if name != "coding_session.py"])
def test_examples_run_offline(name: str, tmp_path: Path) -> None:
    """Each exits with 0, prints the expected output, and compacts at least once."""
    result = run(name, tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.search(EXPECTED_OUTPUT[name], result.stdout), result.stdout
    if name != "long_research.py":
        assert re.search(r"pruned_messages|overflow_recovered", result.stderr), result.stderr


@pytest.mark.req("P-DOC-1", "S-RED-1")
def test_the_coding_session_sends_its_spans_without_secrets(tmp_path: Path) -> None:
    """The server receives compaction events and SDK spans. The password is in neither the events nor the archive."""
    with Receiver() as receiver:
        result = run("coding_session.py", tmp_path, ARIADNE_URL=receiver.url, ARIADNE_API_KEY="key")
        sent = receiver.events
        raw = b"".join(request.raw for request in receiver.requests)
    assert result.returncode == 0, result.stderr
    assert re.search(EXPECTED_OUTPUT["coding_session.py"], result.stdout), result.stdout
    kinds = {event.get("kind") for event in sent}
    assert {"compact.pruned_messages", "compact.summary_created", "agent", "turn", "tool"} <= kinds
    archived = b"".join(file.read_bytes() for file in (tmp_path / "archive").rglob("*") if file.is_file())
    assert b"<REDACTED>" in archived
    assert b"hunter2" not in archived + raw
