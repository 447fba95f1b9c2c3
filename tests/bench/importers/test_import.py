"""Speed and memory of importing logs: reading, ledgers, redaction and encoding, without a server.

    IMPORT_MB=1024 python -m pytest tests/bench/importers -q -s

The logs are written from recorded sessions (COMPACT_TRANSCRIPTS), as Claude Code writes them: each tool output also in
`toolUseResult`, progress records, a compaction every 200 messages, and a record of 7 MB with an image.
"""

from __future__ import annotations

import json
import lzma
import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from compact.exporters.encoder import pack_events
from compact.importers.discovery import LogFilter
from compact.importers.follower import Importer, default_jobs
from compact.importers.watch_state import WatchState
from compact.messages import RedactedMessage
from compact.redaction.outbound import OutboundRedactor

TRANSCRIPTS = Path(os.environ.get("COMPACT_TRANSCRIPTS", "../shared/data/transcripts"))
SIZE_MB = int(os.environ.get("IMPORT_MB", "64"))
FILE_MB = 8
IMAGE = "iVBORw0KGgo" * 640_000


class Discard:
    """Encodes like an upload, and sends nothing."""

    def send(self, events: Iterable[dict[str, Any]]) -> int:
        batch = list(events)
        for _ in pack_events(batch, max_bytes=1024 * 1024, max_events=512):
            pass
        return len(batch)

    def archive(self, session_id: str, messages: tuple[RedactedMessage, ...], step: int) -> Mapping[str, Any]:
        return {"state": "stored", "step": step}

    def close(self) -> None:
        return


def records(session: dict[str, Any], number: int, offset: int) -> Iterator[dict[str, Any]]:
    """Yield a session as records of Claude Code."""
    for index, message in enumerate(session["messages"], start=offset):
        common = {"sessionId": f"bench-{number}", "version": "2.1.40", "cwd": "/repo", "uuid": f"u{number}-{index}"}
        common["timestamp"] = f"2026-10-02T{index // 3600 % 24:02d}:{index // 60 % 60:02d}:{index % 60:02d}.000Z"
        if message["role"] == "assistant":
            blocks = [{"type": "text", "text": message["content"]}] if message["content"] else []
            for call in message.get("tool_calls") or ():
                arguments = json.loads(call["function"]["arguments"] or "{}")
                name = call["function"]["name"]
                blocks.append({"type": "tool_use", "id": f"{call['id']}-{index}", "name": name, "input": arguments})
            usage = {"input_tokens": 1000 + index, "output_tokens": 50}
            content = {"role": "assistant", "id": f"m{number}-{index}", "model": "claude-opus-4-8", "content": blocks}
            yield {"type": "assistant", **common, "message": {**content, "usage": usage}}
        elif message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            record = {"type": "user", **common, "message": {"role": "user", "content": [result]}}
            yield {**record, "toolUseResult": {"stdout": message["content"]}}
            yield {"type": "progress", **common, "data": {"type": "bash_progress", "output": message["content"][:2000]}}
        elif message["role"] == "user":
            yield {"type": "user", **common, "message": {"role": "user", "content": message["content"]}}
        if index % 200 == 199:
            metadata = {"trigger": "auto", "preTokens": 155_000}
            yield {"type": "system", "subtype": "compact_boundary", **common, "uuid": f"b{number}-{index}",
                   "compactMetadata": metadata}  # fmt: skip
            summary = {"role": "user", "content": message["content"][:6000] or "The work goes on."}
            yield {"type": "user", **common, "uuid": f"s{number}-{index}", "isCompactSummary": True, "message": summary}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    if not TRANSCRIPTS.is_dir():
        pytest.skip(f"{TRANSCRIPTS} does not exist. Set COMPACT_TRANSCRIPTS.")
    with lzma.open(TRANSCRIPTS / "entire.jsonl.xz", "rt") as lines:
        sessions = [json.loads(line) for line in lines]
    written = number = 0
    while written < SIZE_MB * 1_000_000:
        path = tmp_path / f"session-{number}.jsonl"
        with path.open("w") as log:
            position = 0
            while log.tell() < FILE_MB * 1_000_000:
                session = sessions[(number + position) % len(sessions)]
                for record in records(session, number, position * 10_000):
                    log.write(json.dumps(record, ensure_ascii=False) + "\n")
                position += 1
            if number % 8 == 0:
                image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
                message = {"role": "user", "content": [image]}
                log.write(json.dumps({"type": "user", "sessionId": f"bench-{number}", "message": message}) + "\n")
        written += path.stat().st_size
        number += 1
    return tmp_path


def test_logs_are_imported_at_a_steady_speed_with_flat_memory(logs: Path) -> None:
    """Report megabytes per second of CPU and of wall time. The memory does not grow with the number of logs."""
    OutboundRedactor().redact_value("warm up")
    importer = Importer(LogFilter([logs]), WatchState(None), Discard)
    pending = importer.find_pending()
    size = sum(log.path.stat().st_size for log in pending) / 1e6
    peaks: list[int] = []
    cpu, wall = time.process_time(), time.monotonic()
    events = compactions = 0
    for report in importer.import_all(pending):
        assert not report.skipped
        events, compactions = events + report.events, compactions + report.compactions
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    print(
        f"\n{size:.0f} MB in {len(pending)} logs, {events:,} events, {compactions} compactions: "
        f"{1000 * cpu / size:.0f} ms of CPU per MB ({size / cpu:.1f} MB/s per core), {size / wall:.1f} MB/s elapsed, "
        f"peak {peaks[len(peaks) // 3]} MB after a third and {peaks[-1]} MB at the end"
    )
    assert peaks[-1] < 1.3 * peaks[len(peaks) // 3]

    wall = time.monotonic()
    parallel = Importer(LogFilter([logs]), WatchState(None), Discard, jobs=default_jobs())
    assert sum(report.events for report in parallel.import_all(pending)) == events
    print(f"{default_jobs()} processes: {size / (time.monotonic() - wall):.1f} MB/s elapsed")
