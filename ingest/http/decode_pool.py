"""Decode request bodies in a few worker processes, fairly among projects.

Decoding holds the interpreter lock, in C code for as long as one text takes. In the web process, a large or hostile
body would block every other request, `/healthz` included. Small bodies are still decoded in the web process, because
sending them elsewhere costs more than it saves.

A free worker takes the next body of the project that waited longest. Large bodies of one project never use all
workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

import msgspec

from ingest import metrics
from ingest.decoding.door.project_rules import NO_RULES, ProjectRules
from ingest.decoding.records import Decoded
from ingest.errors import RequestError, TooLarge, Unavailable
from ingest.http.decode_jobs import ERRORS, Format, ParsedTranscript, decode_events, parse_transcript
from ingest.http.decode_worker import HEADER_BYTES, READY, Failure, Job, Reply, frame

logger = logging.getLogger("ariadne.ingest")

# Text of which every word is a secret takes about 0.6 µs per byte, so this many bytes take 10 ms. The worst text that
# a search found takes 5 µs per byte, which is 80 ms, once for each project (`Trust`). Very short events cost more for
# each byte, so objects, lists and lines are counted too.
MAX_INLINE_BYTES = 16 * 1024
_MAX_INLINE_PARTS = 400
# Ordinary batches are smaller, so only tool outputs and attacks are limited.
_LARGE_BYTES = 1024 * 1024
# At 0.6 µs per byte, a body of this size blocks the event loop for 40 ms, once in many requests. The worst text that a
# search found blocks it for 300 ms.
_MAX_TRUSTED_BYTES = 64 * 1024
_MIN_OBSERVED_BYTES = 4 * 1024
_TRUSTED_AFTER, _DISTRUST = 20, 500
# Ordinary bodies take 20 to 150 ns per byte, the latter on a machine with much other work.
_ORDINARY_S_PER_BYTE = 300e-9
_MAX_TRUSTED_PROJECTS = 10_000
_WRITE_CHUNK_BYTES = 256 * 1024
_START_TIMEOUT_S = 30.0
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class _WorkerLost(Exception):
    """The worker process died during a job."""


@dataclass(eq=False)
class _Worker:
    """A worker process and the connection to it."""

    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def start(cls) -> _Worker:
        """Start a process and wait until it is ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own interpreter, which starts in a millisecond
                [sys.executable, "-m", "ingest.http.decode_worker", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=_WRITE_CHUNK_BYTES)
        worker = cls(process, reader, writer)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await reader.readexactly(len(READY))
        except BaseException as error:
            worker.kill()
            if isinstance(error, TimeoutError | OSError | asyncio.IncompleteReadError):
                raise _WorkerLost from None
            raise
        return worker

    async def run(self, job: Job, body: bytes) -> Decoded | ParsedTranscript:
        try:
            self.writer.write(frame(job))
            for first in range(0, len(body), _WRITE_CHUNK_BYTES):
                self.writer.write(body[first : first + _WRITE_CHUNK_BYTES])
                await self.writer.drain()
            return await self._read_result()
        except (OSError, asyncio.IncompleteReadError):
            raise _WorkerLost from None

    async def _read_result(self) -> Decoded | ParsedTranscript:
        decoded = Decoded()
        while True:
            size = int.from_bytes(await self.reader.readexactly(HEADER_BYTES), "big")
            reply: Reply = _decode_reply(await self.reader.readexactly(size))
            if reply.failure is not None:
                raise _exception(reply.failure)
            if reply.transcript is not None:
                return reply.transcript
            decoded.records += reply.records
            decoded.indexes += reply.indexes
            if reply.is_last:
                decoded.rejections, decoded.redacted_count = reply.rejections, reply.redacted_count
                decoded.replaced_ids, decoded.cpu_s = reply.replaced_ids, reply.cpu_s
                return decoded

    def kill(self) -> None:
        self.writer.close()
        self.process.kill()
        self.process.wait()

    async def close(self) -> None:
        """Let the process end after its job, which it does when the connection is closed."""
        self.writer.close()
        try:
            await asyncio.to_thread(self.process.wait, 2)
        except subprocess.TimeoutExpired:
            self.kill()


def _exception(failure: Failure) -> Exception:
    if failure.name is None:
        return RuntimeError(failure.message)
    error: RequestError = ERRORS[failure.name](failure.message, rejected=failure.rejected)
    return error


@dataclass(eq=False)
class _Turn:
    """A body that waits for a worker."""

    is_large: bool
    ready: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Trust:
    """Projects whose bodies decode at an ordinary speed, and those that sent an expensive one.

    With one or two cores, sending a body to another process costs more CPU time than it saves. With `allows_larger`, a
    project whose last bodies were ordinary may therefore have larger ones decoded in the web process. After one
    expensive body, even small ones are decoded by workers, until many ordinary ones have followed.
    """

    def __init__(self, *, allows_larger: bool) -> None:
        self._allows_larger = allows_larger
        self._ordinary_counts: OrderedDict[int, int] = OrderedDict()

    def allows_small(self, project_id: int) -> bool:
        return self._ordinary_counts.get(project_id, 0) >= 0

    def allows(self, project_id: int, size: int) -> bool:
        is_trusted = self._ordinary_counts.get(project_id, 0) >= _TRUSTED_AFTER
        return self._allows_larger and is_trusted and size <= _MAX_TRUSTED_BYTES

    def observe(self, project_id: int, size: int, cpu_s: float) -> None:
        """Record the cost of a body. Small bodies say little."""
        if size < _MIN_OBSERVED_BYTES:
            return
        is_ordinary = cpu_s <= size * _ORDINARY_S_PER_BYTE
        count = self._ordinary_counts.get(project_id, 0)
        self._ordinary_counts[project_id] = min(count + 1, _TRUSTED_AFTER) if is_ordinary else -_DISTRUST
        self._ordinary_counts.move_to_end(project_id)
        if len(self._ordinary_counts) > _MAX_TRUSTED_PROJECTS:
            self._ordinary_counts.popitem(last=False)


class DecodePool:
    """Up to `size` worker processes, started when they are needed."""

    def __init__(self, size: int, *, timeout_s: float, trusts: bool = False) -> None:
        self._size = size
        self._trust = Trust(allows_larger=trusts)
        self._timeout_s = timeout_s
        self._idle: list[_Worker] = []
        self._busy = 0
        self._large: Counter[int] = Counter()
        self._waiting: OrderedDict[int, deque[_Turn]] = OrderedDict()
        self._tasks: set[asyncio.Task[Decoded | ParsedTranscript]] = set()
        self._inline = asyncio.Lock()
        self._is_closed = False

    async def warm_up(self) -> None:
        """Start the processes before the first body needs one. Failures are reported when a body fails."""
        while self._busy + len(self._idle) < self._size and not self._is_closed:
            # Counted as busy, so that a body does not start one too many.
            self._busy += 1
            try:
                await self._keep(await _Worker.start())
            except _WorkerLost:
                return
            finally:
                self._busy -= 1
                self._start_next()

    async def decode_events(
        self, project_id: int, body: bytes, body_format: Format, *, max_events: int, rules: ProjectRules = NO_RULES
    ) -> Decoded:
        """Decode and redact a body with at most `max_events` events."""
        if self._is_inline(project_id, body) or self._trust.allows(project_id, len(body)):
            if len(body) < _MIN_OBSERVED_BYTES:
                # Takes less than a millisecond, or 20 for the worst text, so a single event does not wait for the large
                # bodies of others.
                return decode_events(body, body_format, max_events, rules)
            # One body at a time, with a turn of the event loop in between. Otherwise bodies that arrive together would
            # block the writer and all pages until the last one is decoded.
            async with self._inline:
                began = time.thread_time()
                try:
                    return decode_events(body, body_format, max_events, rules)
                finally:
                    self._trust.observe(project_id, len(body), time.thread_time() - began)
                    await asyncio.sleep(0)
        result = await self._run_in_worker(project_id, Job(len(body), body_format, max_events, rules), body)
        assert isinstance(result, Decoded)
        self._trust.observe(project_id, len(body), result.cpu_s)
        return result

    async def parse_transcript(self, project_id: int, body: bytes, rules: ProjectRules = NO_RULES) -> ParsedTranscript:
        """Parse and redact a transcript."""
        if self._is_inline(project_id, body):
            return parse_transcript(body, rules)
        result = await self._run_in_worker(project_id, Job(len(body), None, rules=rules), body)
        assert isinstance(result, ParsedTranscript)
        return result

    def _is_inline(self, project_id: int, body: bytes) -> bool:
        if self._size == 0:
            return True
        is_small = len(body) <= MAX_INLINE_BYTES and sum(map(body.count, (b"{", b"[", b"\n"))) <= _MAX_INLINE_PARTS
        return is_small and self._trust.allows_small(project_id)

    async def _run_in_worker(self, project_id: int, job: Job, body: bytes) -> Decoded | ParsedTranscript:
        is_large = job.size > _LARGE_BYTES
        await self._take_turn(project_id, is_large=is_large)
        # A request that is canceled must not leave a worker with half a job, so the job runs as its own task.
        task = asyncio.create_task(self._run_job(project_id, job, body, is_large=is_large))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _run_job(self, project_id: int, job: Job, body: bytes, *, is_large: bool) -> Decoded | ParsedTranscript:
        worker: _Worker | None = None
        try:
            worker = self._idle.pop() if self._idle else await _Worker.start()
            async with asyncio.timeout(self._timeout_s):
                result = await worker.run(job, body)
        except (TimeoutError, _WorkerLost, asyncio.CancelledError) as error:
            if worker is not None:
                worker.kill()
                worker = None
            raise self._lost(error, job) from None
        finally:
            if worker is not None:
                await self._keep(worker)
            self._release(project_id, is_large=is_large)
        return result

    def _lost(self, error: BaseException, job: Job) -> BaseException:
        if isinstance(error, asyncio.CancelledError):
            return error
        metrics.decode_failures.labels("timeout" if isinstance(error, TimeoutError) else "crash").inc()
        logger.error("decode_worker_replaced reason=%s bytes=%d", type(error).__name__, job.size)
        if isinstance(error, TimeoutError):
            # Clients split a body that is too large, until only the part that takes too long is left.
            return TooLarge(f"Decoding the body took longer than {self._timeout_s:.0f} s. Send fewer events at once.")
        return Unavailable("The body could not be decoded. Try again later.")

    async def _keep(self, worker: _Worker) -> None:
        if self._is_closed:
            await worker.close()
        else:
            self._idle.append(worker)

    async def _take_turn(self, project_id: int, *, is_large: bool) -> None:
        """Wait for a free worker. It is then reserved for the caller."""
        turn = _Turn(is_large)
        self._waiting.setdefault(project_id, deque()).append(turn)
        self._start_next()
        try:
            await turn.ready
        except asyncio.CancelledError:
            if turn in self._waiting.get(project_id, ()):
                self._remove(project_id, turn)
            else:
                self._release(project_id, is_large=is_large)
            raise

    def _is_allowed(self, project_id: int, *, is_large: bool) -> bool:
        return not is_large or self._large[project_id] < max(1, self._size - 1)

    def _release(self, project_id: int, *, is_large: bool) -> None:
        self._busy -= 1
        self._large[project_id] -= is_large
        self._start_next()

    def _start_next(self) -> None:
        """Give free workers to waiting bodies, one project after the other."""
        for project_id in list(self._waiting):
            if self._busy >= self._size:
                return
            turns = self._waiting[project_id]
            # Small bodies may overtake large ones of the same project. A canceled turn is done already.
            waiting = (turn for turn in turns if not turn.ready.done())
            turn = next((turn for turn in waiting if self._is_allowed(project_id, is_large=turn.is_large)), None)
            if turn is not None:
                self._remove(project_id, turn)
                if project_id in self._waiting:
                    self._waiting.move_to_end(project_id)
                self._busy += 1
                self._large[project_id] += turn.is_large
                turn.ready.set_result(None)

    def _remove(self, project_id: int, turn: _Turn) -> None:
        turns = self._waiting[project_id]
        turns.remove(turn)
        if not turns:
            del self._waiting[project_id]

    @property
    def is_busy(self) -> bool:
        """True while a worker decodes a body."""
        return self._busy > 0

    @property
    def waiting_count(self) -> int:
        """Number of bodies that wait for a worker."""
        return sum(map(len, self._waiting.values()))

    async def close(self) -> None:
        """Finish the current jobs and end the processes."""
        self._is_closed = True
        with contextlib.suppress(Exception):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        idle, self._idle = self._idle, []
        await asyncio.gather(*(worker.close() for worker in idle))
