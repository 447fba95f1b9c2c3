"""Deliver what the hooks have stored: the prompt from before a compaction, and the news of the session's log."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compact.agents.agent import Agent
from compact.agents.log_records import LogRecord, read_records
from compact.agents.registry import BY_NAME
from compact.cli.hooks.run import directory
from compact.delivery.endpoint import LOCAL_URL, configured_url
from compact.exceptions import CompactError
from compact.importers.follower import ImportOptions, import_log
from compact.importers.upload import ServerUpload
from compact.importers.watch_state import WatchState
from compact.ledgers.inferred_ledger import mask_messages

_TIMEOUT_S = 20.0
_MAX_AGE_S = 7 * 86_400.0


def deliver() -> int:
    """Deliver all jobs. Those that the server does not accept stay for the next hook."""
    url, key = settings()
    if not key:
        return 0
    with _lock() as is_owner:
        if not is_owner:
            return 0  # Another process delivers all jobs, also the new ones.
        upload = ServerUpload(url, key, timeout_s=_TIMEOUT_S)
        try:
            while jobs := sorted(directory().glob("*.json")):
                for path in jobs:
                    _deliver_job(path, upload, WatchState.of_server(url, key))
        except CompactError:
            return 0  # The server is unreachable.
        finally:
            upload.close()
    return 0


def settings() -> tuple[str, str | None]:
    """Return the address and the ingest key: those of the environment, else those that `install` has saved."""
    try:
        saved: Any = json.loads((directory() / "config" / "server.json").read_bytes())
    except (OSError, ValueError):
        saved = {}
    url = configured_url() or saved.get("url") or LOCAL_URL
    return url, os.environ.get("ARIADNE_API_KEY") or saved.get("key")


def save_settings(url: str, key: str) -> None:
    """Save the address and the key for hooks that run without them in the environment."""
    path = directory() / "config" / "server.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": url, "key": key}, file)


def _deliver_job(path: Path, upload: ServerUpload, state: WatchState) -> None:
    try:
        job = json.loads(path.read_bytes())
    except ValueError:
        job = {}
    transcript = Path(str(job.get("transcript_path") or "")).expanduser()
    copy = Path(job["copy"]) if job.get("copy") else None
    agent, event = BY_NAME.get(str(job.get("agent"))), str(job.get("hook_event_name"))
    if agent is not None and agent.hooks is not None:
        if event == agent.hooks.before_compaction:
            _archive_prompt(agent, copy or transcript, transcript, job, upload)
        time.sleep(max(0.0, agent.hooks.settle_s.get(event, 0.0) - (time.time() - float(job.get("at", 0)))))
    if agent is not None and transcript.is_file():
        report = import_log(transcript, agent, state.get(transcript), ImportOptions(), upload)
        state.set(transcript, report.position)
        state.save()
    path.unlink(missing_ok=True)
    if copy is not None:
        copy.unlink(missing_ok=True)
    _remove_old_jobs()


def _archive_prompt(agent: Agent, source: Path, log: Path, job: dict[str, Any], upload: ServerUpload) -> None:
    """Archive the prompt that is about to be compacted, with the number of the compaction."""
    if not source.is_file():
        return
    parser = agent.parser(log)
    size = job.get("size")
    with source.open("rb") as stream:
        for record in read_records(stream):
            if isinstance(size, int) and record.end > size:
                break
            if isinstance(record, LogRecord):
                parser.feed(record)
    thread = parser.recorder.own_thread
    messages = mask_messages(list(thread.prompt.values()), parser.recorder.format)
    if messages:
        session_id = parser.recorder.session_id or str(job.get("session_id"))
        upload.archive(session_id, tuple(messages), len(thread.compactions) + 1)


def _remove_old_jobs() -> None:
    for path in directory().glob("*.*"):
        if path.suffix in (".json", ".jsonl", ".tmp") and time.time() - path.stat().st_mtime > _MAX_AGE_S:
            path.unlink(missing_ok=True)


@contextmanager
def _lock() -> Iterator[bool]:
    directory().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory() / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
