"""Sessions that continue under another gateway: each headless call of an agent starts its own."""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from client.gateway.recorder.test_changes import ANSWER, ANSWERED, FIRST, NEXT, SESSION, text
from client.gateway.recorder.wire_feed import Recording, anthropic, frames_of, read_exchanges
from compact.gateway.recorder.conversation import Conversation
from compact.gateway.recorder.recorder import Recorder
from compact.gateway.recorder.session_files import MAX_AGE_S, MAX_FILES, SessionFiles

KEY = b"k" * 32
VERSIONS = pytest.mark.parametrize("version", ["claude_code_2.1.197", "claude_code_2.1.327", "codex_0.169.0"])
SUMMARY = "This session is being continued from a previous conversation. Never touch billing.py."


class Restarting(Recording):
    """A recording whose recorder can end and start again."""

    def __init__(self, directory: Path, *, key: bytes = KEY, server: str = "") -> None:
        super().__init__()
        self._directory, self._key, self._server = directory, key, server
        self.start()

    def start(self) -> None:
        files = SessionFiles(self._directory, key=self._key, server=self._server)
        self.recorder = Recorder(self.events.append, files=files)

    def restart(self) -> Restarting:
        self.recorder.close()
        self.start()
        return self


def files_in(directory: Path, pattern: str = "*.session") -> list[Path]:
    return sorted(directory.glob(pattern))


def contents(path: Path) -> bytes:
    """Return everything that a file has, uncompressed."""
    return zlib.decompress(path.read_bytes().partition(b"\n")[2][32:])


def first_turn(**more: Any) -> dict[str, Any]:
    return anthropic(FIRST, answer=ANSWER, headers=SESSION, **more)


def next_turn(messages: Sequence[dict[str, Any]] = (*ANSWERED, NEXT), **more: Any) -> dict[str, Any]:
    return anthropic(messages, answer=ANSWER, headers=SESSION, at=1_800_000_060.0, **more)


def ledgers(recording: Recording) -> list[Any]:
    return [(event["properties"], event["payload"]["ledger"]) for event in recording.of_kind("compact.pruned_messages")]


@VERSIONS
def test_a_restart_before_every_request_changes_nothing(tmp_path: Path, version: str) -> None:
    """Turns, changes, prompts and exact fates are those of one recorder that never ended."""
    records = read_exchanges(version)
    whole, restarted = Recording().play(records), Restarting(tmp_path)
    for record in records:
        restarted.play([record])
        restarted.restart()
    assert restarted.requests() == whole.requests()
    assert ledgers(restarted) == ledgers(whole)
    assert {properties["evidence"] for properties, _ in ledgers(restarted)} == {"exact"}
    prompts = [[event["payload"] for event in item.of_kind("compact.request")] for item in (restarted, whole)]
    assert prompts[0] == prompts[1]


def test_files_are_private_and_have_no_secret(tmp_path: Path) -> None:
    """Secrets of each place in a request are redacted before the state is written."""
    secret = "sk-ant-api03-" + "plantedSECRET0123456789" * 4
    tool = {"type": "tool_use", "id": "c9", "name": "Bash", "input": {"command": f"login {secret}"}}
    messages = [text("user", f"Use {secret}."), {"role": "assistant", "content": [tool]}]
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c9", "content": secret}]})
    record = next_turn(messages, system=f"The key is {secret}.")
    record["headers"] = [*SESSION, ["authorization", f"Bearer {secret}"]]
    record["answer"] = record["answer"].replace("v1.2.3", secret)
    directory = tmp_path / "state"
    Restarting(directory).play([record], credential="hash").restart()
    (path,) = files_in(directory)
    assert (stat.S_IMODE(directory.stat().st_mode), stat.S_IMODE(path.stat().st_mode)) == (0o700, 0o600)
    assert b"Use " in contents(path)
    assert b"plantedSECRET" not in contents(path)


def test_another_credential_never_meets_the_state_of_a_session(tmp_path: Path) -> None:
    """The same name with another credential is another session, also after a restart, in either order."""
    recording = Restarting(tmp_path).play([first_turn()], credential="ada").restart()
    stranger = [text("user", "Another one's planted question."), text("user", "And more.")]
    recording.play([next_turn(stranger)], credential="eve")
    assert recording.requests()[-1]["change"] == "start"
    sessions = {event["session_id"] for event in recording.of_kind("compact.request")}
    assert len(sessions) == 2
    recording.restart()
    recording.play([next_turn([*stranger, NEXT], number=3)], credential="eve")
    recording.play([next_turn(number=4)], credential="ada")
    eve, ada = recording.of_kind("compact.request")[-2:]
    assert (eve["session_id"] == ada["session_id"], {eve["session_id"], ada["session_id"]}) == (False, sessions)
    assert [request["change"] for request in recording.requests()[-2:]] == ["append", "append"]
    own = [event for event in recording.events if event.get("session_id") == eve["session_id"]]
    assert "billing" not in json.dumps(own)
    assert sum(b"billing" in contents(path) for path in files_in(tmp_path)) == 1


@pytest.mark.parametrize("other", [{"key": b"o" * 32}, {"server": "https://other.example"}])
def test_another_user_or_server_starts_anew(tmp_path: Path, other: dict[str, Any]) -> None:
    """A file of another key is not even decompressed, and another server lacks the earlier requests."""
    Restarting(tmp_path).play([first_turn()]).restart()
    recording = Restarting(tmp_path, **other).play([next_turn()])
    assert recording.requests()[-1]["change"] is None


@pytest.mark.parametrize("damage", ["byte", "cut", "empty", "version"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line is logged, and the session is recorded from its next prompt on."""
    recording = Restarting(tmp_path).play([first_turn()]).restart()
    (path,) = files_in(tmp_path)
    data = path.read_bytes()
    broken = {"byte": data[:-9] + b"?" + data[-8:], "cut": data[:60], "empty": b""}
    path.write_bytes(broken.get(damage, data.replace(b"session 1", b"session 0", 1)))
    recording.play([next_turn()])
    assert recording.requests()[-1]["change"] is None
    assert len(files_in(tmp_path, "*.unreadable")) == 1
    assert capsys.readouterr().err.count("[Ariadne]") == 1


def test_a_file_of_another_version_of_a_class_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object without an attribute that the code expects would fail at every request."""
    Restarting(tmp_path).play([first_turn()]).restart()
    files = SessionFiles(tmp_path, key=KEY)
    monkeypatch.setattr(Conversation, "__init__", lambda self, another_attribute: None)
    assert files.load("claude-code", SESSION[0][1]) is None
    assert len(files_in(tmp_path, "*.unreadable")) == 1


def test_files_are_bounded_in_number_and_age(tmp_path: Path) -> None:
    """The oldest ones go first, and none is read after a week."""
    recording = Restarting(tmp_path).play([first_turn()]).restart()
    (path,) = files_in(tmp_path)
    saved_at = path.stat().st_mtime
    for number in range(MAX_FILES + 5):
        (tmp_path / f"{number}.session").write_bytes(b"")
        os.utime(tmp_path / f"{number}.session", (saved_at - 9, saved_at - 9))
    recording.restart()
    assert len(files_in(tmp_path)) == MAX_FILES
    assert path.exists()
    os.utime(path, (saved_at - MAX_AGE_S - 60,) * 2)
    recording.play([next_turn()])
    assert recording.requests()[-1]["change"] is None


def test_a_session_that_ends_within_a_request_is_not_kept(tmp_path: Path) -> None:
    """Its last answer is unknown, so the next prompt would be compared with the wrong one."""
    recording = Restarting(tmp_path).play([first_turn()]).restart()
    record = next_turn(stream=True)
    record["answer_headers"] = [["content-type", "text/event-stream"]]
    start = {"type": "message_start", "message": {"id": "msg_open", "model": "claude-test", "usage": {}}}
    record["answer"] = f"event: message_start\ndata: {json.dumps(start)}\n\n"
    recording.feed(list(frames_of(record, 50))[:-1])
    recording.restart()
    assert files_in(tmp_path) == []


def test_a_compaction_right_after_a_restart_without_its_request_is_inferred(tmp_path: Path) -> None:
    """The agent may have worked without the gateway in between."""
    recording = Restarting(tmp_path).play([first_turn()]).restart()
    recording.play([next_turn([text("user", SUMMARY), NEXT])])
    ((properties, _),) = ledgers(recording)
    assert properties["evidence"] == "inferred"
    assert recording.requests()[-1]["change"] == "compaction"
