"""Records are redacted when they are read, so that nothing built from a log has a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_logs import AGENTS
from agent_logs import ALL as LOGS
from compact.agents.log_records import LogRecord
from compact.delivery import fast_json
from compact.importers.log_file import LogFile
from compact.messages import RedactedMessage
from compact.redaction.log_content import LogRedactor

SECRET = "ghp_Q7rT2mX9vB4nK8sL1wZ6yH3jD5fG0cAeRtYu"
KEY_LINES = ["-----BEGIN RSA PRIVATE KEY-----", *("MIIEpAIBAAKCAQEA" + "b7" * 24 for _ in range(6))]
LABELS = ("cwd", "model", "modelId", "name", "cli_version")


def plant(value: Any, key: str = "") -> Any:
    """Return a JSON value with a secret in every text that a person, a model or a tool wrote, and in every label."""
    if isinstance(value, dict):
        return {name: plant(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [plant(item, key) for item in value]
    is_text = isinstance(value, str) and (" " in value or key in LABELS or key in ("text", "output", "command"))
    return f"{value} {SECRET}" if is_text else value


def plant_secrets(source: Path, target: Path) -> int:
    """Copy a log with secrets and return their number."""
    documents = [source.read_bytes()] if source.suffix == ".json" else source.read_bytes().split(b"\n")
    lines = []
    for document in filter(None, documents):
        try:
            lines.append(json.dumps(plant(json.loads(document))))
        except ValueError:
            continue
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n")
    return "\n".join(lines).count(SECRET)


def read(path: Path) -> Iterator[Any]:
    """Yield everything that leaves the process for a log: events and transcripts."""
    transcripts: list[Any] = []

    def archive(session_id: str, messages: tuple[RedactedMessage, ...], step: int) -> Mapping[str, Any]:
        transcripts.extend(message.to_dict() for message in messages)
        return {"state": "stored", "step": step}

    log = LogFile(path)
    for step in log.steps(archive, is_final=True):
        yield from step.events
    yield from log.interrupted_events()
    yield from transcripts


@pytest.mark.parametrize("source", LOGS, ids=lambda path: path.parent.name + "/" + path.name[:16])
def test_no_secret_of_a_log_leaves_the_process(source: Path, tmp_path: Path) -> None:
    """Texts, tool calls, outputs, summaries, folders, models and tool names are clean in every format."""
    target = tmp_path / source.relative_to(AGENTS)
    assert plant_secrets(source, target) > 3
    sent = json.dumps(list(read(target)))
    assert "<REDACTED>" in sent
    assert SECRET not in sent


@pytest.mark.parametrize("source", LOGS, ids=lambda path: path.parent.name + "/" + path.name[:16])
def test_two_sessions_that_are_read_at_once_share_nothing(source: Path, tmp_path: Path) -> None:
    """The same log twice with different values, read in turns while both grow. No value or span id crosses."""
    values = {"alice": "zebra-4711-quartz", "bob": "otter-9083-cobalt"}
    sent: dict[str, list[Any]] = {name: [] for name in values}
    logs, contents = {}, {}
    for name, value in values.items():
        path = tmp_path / name / source.relative_to(AGENTS)
        plant_secrets(source, path)
        contents[name] = path.read_text().replace(SECRET, f"{value} {SECRET}").splitlines(keepends=True)
        logs[name] = LogFile(path, session_id=name)
    for part in range(1, 5):
        for name, log in logs.items():
            lines = contents[name]
            log.path.write_text("".join(lines if log.path.suffix == ".json" else lines[: len(lines) * part // 4]))
            for step in log.steps(lambda *prompt: {"state": "stored", "step": prompt[2]}, is_final=part == 4):
                sent[name] += step.events
            sent[name] += log.interrupted_events()
    for name, other in (("alice", "bob"), ("bob", "alice")):
        assert values[name] in json.dumps(sent[name])
        assert values[other] not in json.dumps(sent[name])
        assert SECRET not in json.dumps(sent[name])
    ids = [{event.get("span_id", event["trace_id"]) for event in sent[name]} for name in values]
    assert ids[0].isdisjoint(ids[1])


def test_a_key_that_is_split_over_two_batches_is_redacted_in_both() -> None:
    """The second part of a private key looks like any base64, so the record before it is read again with it."""
    redactor = LogRedactor()
    first, second = "\n".join(KEY_LINES[:4]), "\n".join([*KEY_LINES[4:], "-----END RSA PRIVATE KEY-----"])
    for text in (first, second):
        (clean,) = redactor.redact([{"message.content": text}])
        assert KEY_LINES[1] not in clean["message.content"]


def test_contents_are_read_and_written_by_key() -> None:
    """A key with a dot is inside of an object. Values of other types are left alone."""
    record = LogRecord({"message": {"role": "user", "content": "a"}, "uuid": "1"}, b"", 1, 1)
    content = record.content(("message.content", "summary"))
    assert content == {"message.content": "a"}
    assert record.with_content({"message.content": "b"}).value == {
        "message": {"role": "user", "content": "b"},
        "uuid": "1",
    }
    odd = LogRecord({"message": "text"}, b"", 1, 1)
    assert odd.with_content(odd.content(("message.content",))).value == odd.value


@pytest.mark.parametrize(
    "text", ['{"a":"\\ud800"}', '{"a":NaN}', '{"a":123456789012345678901234567890}', '{"a":1e400}', '["\u2028\u0085"]']
)
def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    """The standard library reads and writes the values that the fast parser rejects."""
    value = fast_json.parse(text.encode())
    assert repr(value) == repr(json.loads(text))
    assert json.loads(fast_json.dump({"half": "\ud800", "path": Path("x")})) == {"half": "\ud800", "path": "x"}
