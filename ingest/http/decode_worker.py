"""A process that decodes and redacts request bodies: `python -m ingest.http.decode_worker FD`.

It reads jobs from the socket `FD` and answers each in order. A long body holds the interpreter lock of this process and
not that of the web process. The process ends when the web process closes the socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import time
from typing import Protocol, cast

import msgspec

from ingest.decoding.door import redaction
from ingest.decoding.door.project_rules import NO_RULES, ProjectRules
from ingest.decoding.raw_records import Rejection
from ingest.decoding.records import Record
from ingest.errors import RequestError, describe
from ingest.http.decode_jobs import Format, ParsedTranscript, decode_events, parse_transcript

# Below the web process, which must answer while all workers are busy.
_NICENESS = 2
# A reply is sent in parts, so that the web process never unpacks many records without a turn of its event loop.
_PART_RECORDS = 500
_PART_BYTES = 1024 * 1024
HEADER_BYTES = 4
_PR_SET_PDEATHSIG = 1
READY = b"r"


class Job(msgspec.Struct, array_like=True):
    """A job, followed by `size` bytes of body. A format of None is a transcript."""

    size: int
    body_format: Format | None
    max_events: int = 0
    rules: ProjectRules = NO_RULES


class Failure(msgspec.Struct, array_like=True):
    """An exception that the job raised. `name` is None if it is a bug, and the message then describes where."""

    name: str | None
    message: str
    rejected: list[dict[str, str | int]] | None = None


class Reply(msgspec.Struct, omit_defaults=True):
    """One part of a reply. The last one has everything that exists once."""

    records: list[Record] = []
    indexes: list[int] = []
    is_last: bool = False
    rejections: list[Rejection] = []
    redacted_count: int = 0
    replaced_ids: int = 0
    cpu_s: float = 0.0
    transcript: ParsedTranscript | None = None
    failure: Failure | None = None


class Stream(Protocol):
    """The part of a binary file that `serve` needs."""

    def read(self, size: int, /) -> bytes: ...

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


_encode = msgspec.msgpack.Encoder().encode
_decode_job = msgspec.msgpack.Decoder(Job).decode


def frame(message: Job | Reply) -> bytes:
    """Encode a message with its length in front."""
    encoded = _encode(message)
    return len(encoded).to_bytes(HEADER_BYTES, "big") + encoded


def run(job: Job, body: bytes) -> list[Reply]:
    """Run a job and return the parts of its reply."""
    began = time.process_time()
    try:
        if job.body_format is None:
            return [Reply(is_last=True, transcript=parse_transcript(body, job.rules))]
        decoded = decode_events(body, job.body_format, job.max_events, job.rules)
    except RequestError as error:
        return [Reply(is_last=True, failure=Failure(type(error).__name__, error.message, error.rejected))]
    except Exception as error:
        return [Reply(is_last=True, failure=Failure(None, describe(error)))]
    replies = [
        Reply(decoded.records[part], decoded.indexes[part]) for part in _parts(len(decoded.records), len(body))
    ] or [Reply()]
    last = replies[-1]
    last.is_last, last.rejections, last.redacted_count = True, decoded.rejections, decoded.redacted_count
    last.replaced_ids = decoded.replaced_ids
    last.cpu_s = time.process_time() - began
    return replies


def _parts(count: int, size: int) -> list[slice]:
    step = max(1, min(_PART_RECORDS, count * _PART_BYTES // max(size, 1)))
    return [slice(first, first + step) for first in range(0, count, step)]


def serve(stream: Stream) -> None:
    """Report that this process is ready, then answer jobs until the other end is closed."""
    stream.write(READY)
    stream.flush()
    while header := stream.read(HEADER_BYTES):
        job = _decode_job(stream.read(int.from_bytes(header, "big")))
        body = stream.read(job.size)
        if len(body) < job.size:
            return
        for reply in run(job, body):
            stream.write(frame(reply))
        stream.flush()


def _die_with_parent() -> None:
    """Have the kernel kill this process when the web process dies during a job. Does nothing outside Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    # Ctrl-C and a shutdown reach the whole process group. The web process closes the socket after its last request.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with_parent()
    os.nice(_NICENESS)
    # Events contain no reference cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    # Before this process is ready, because the time limit of a job starts then.
    redaction.warm_up()
    with socket.socket(fileno=int(sys.argv[1])) as connection, contextlib.suppress(ConnectionError):
        serve(cast("Stream", connection.makefile("rwb", buffering=256 * 1024)))


if __name__ == "__main__":
    main()
