"""The command that an agent runs at a hook.

It copies what it needs to the disk, starts a process that delivers it, and ends. It never writes to stdout, never
fails and never waits for the server, so the agent loses a fraction of a second at most.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from compact.agents.hooks import Hooks, hooks_of

_MAX_INPUT_BYTES = 1024 * 1024
_INPUT_TIMEOUT_S = 0.5
_MAX_COPY_BYTES = 128 * 1024 * 1024


def directory() -> Path:
    """Return the directory of jobs that wait for delivery."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path("~/.local/state").expanduser()) / "compact" / "hooks"


def run(agent: str) -> int:
    """Store the hook's input and the transcript, and start the delivery. Always return 0."""
    try:
        hooks = hooks_of(agent)
        job = _read_input(hooks) if hooks is not None else None
        if hooks is not None and job is not None:
            _store({**job, "agent": agent}, hooks)
            _start_delivery(agent)
    except Exception as error:
        _log(f"{type(error).__name__}: {error}")
    return 0


def _read_input(hooks: Hooks) -> dict[str, Any] | None:
    """Read the JSON on stdin, but do not wait for a caller that does not close it."""
    chunks: list[bytes] = []
    deadline = time.monotonic() + _INPUT_TIMEOUT_S
    descriptor = sys.stdin.fileno()
    while (left := deadline - time.monotonic()) > 0 and sum(map(len, chunks)) < _MAX_INPUT_BYTES:
        if os.name == "posix" and not select.select([descriptor], [], [], left)[0]:
            break
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            break
        chunks.append(chunk)
    value = json.loads(b"".join(chunks) or b"{}")
    if not isinstance(value, dict) or not isinstance(value.get("transcript_path"), str):
        return None
    return {name: value[name] for name in hooks.fields if isinstance(value.get(name), str)}


def _store(job: dict[str, Any], hooks: Hooks) -> None:
    jobs = directory()
    jobs.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = f"{time.time_ns():020d}-{os.getpid()}"
    transcript = Path(job["transcript_path"]).expanduser()
    job["at"] = time.time()
    if job.get("hook_event_name") == hooks.before_compaction and transcript.is_file():
        # The compaction starts when this process ends, so the log has to be saved now.
        job["size"] = transcript.stat().st_size
        if job["size"] <= _MAX_COPY_BYTES:
            copy = jobs / f"{name}.jsonl"
            shutil.copyfile(transcript, copy)
            copy.chmod(0o600)
            job["copy"] = str(copy)
    temporary = jobs / f"{name}.tmp"
    temporary.write_text(json.dumps(job))
    temporary.chmod(0o600)
    temporary.replace(jobs / f"{name}.json")


def _start_delivery(agent: str) -> None:
    subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "compact.cli", "hooks", "deliver", agent],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )


def _log(line: str) -> None:
    try:
        directory().mkdir(parents=True, exist_ok=True, mode=0o700)
        with (directory() / "hooks.log").open("a") as log:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}\n")
    except OSError:
        return
