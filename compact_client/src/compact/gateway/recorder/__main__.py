"""The recorder process: `python -m compact.gateway.recorder` with the relay's pipe as standard input."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from urllib.parse import quote

from compact.adapters import AriadneStorage
from compact.delivery.endpoint import configured_url
from compact.delivery.stderr import log_problem
from compact.exceptions import CompactError
from compact.exporters import AriadneExporter
from compact.gateway import frames
from compact.gateway.recorder.archive_answers import ArchiveAnswers
from compact.gateway.recorder.recorder import Recorder
from compact.gateway.recorder.session_files import SessionFiles
from compact.gateway.recorder.session_numbers import SessionNumbers

_READ_BYTES = 1 << 18
_NICE = 10
_FIGURES_S = 1.0
_CLOSE_S = 5.0


def main() -> None:
    """Record until the relay closes the pipe, and then send what is left."""
    # The relay decides when the recorder ends. Ctrl-C reaches the whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    with socket.socket(fileno=os.dup(0)) as pipe:
        exporter = AriadneExporter()
        storage = _storage()
        back = _Back(pipe, exporter.url)
        answers = ArchiveAnswers(exporter.emit)
        if storage is not None:
            storage.listen(answers.accept)
        recorder = Recorder(
            answers.emit,
            archive=storage.save_transcript if storage else None,
            report_session=back.report_session,
            numbers=SessionNumbers.of_user(),
            files=SessionFiles.of_user(),
        )
        try:
            _run(pipe, recorder, back)
        finally:
            recorder.close()
            # The archive first, because its answers are events.
            if storage is not None:
                storage.close(_CLOSE_S)
            exporter.close(_CLOSE_S)


def _run(pipe: socket.socket, recorder: Recorder, back: _Back) -> None:
    decoder = frames.FrameDecoder()
    pipe.settimeout(_FIGURES_S)
    while True:
        try:
            data = pipe.recv(_READ_BYTES)
        except TimeoutError:
            back.report_figures(recorder.figures)
            recorder.save_idle()
            continue
        except OSError:
            return
        if not data:
            return
        try:
            for frame in decoder.feed(data):
                recorder.feed(frame)
        except frames.FrameError as error:
            log_problem("Ariadne", f"The recorder stops, because the relay's pipe is out of step: {error}")
            return
        if back.report_figures(recorder.figures):
            recorder.save_idle()


class _Back:
    """Frames for the relay. It may be gone, which its end of the pipe shows."""

    def __init__(self, pipe: socket.socket, url: str) -> None:
        self._pipe = pipe
        self._url = url.removesuffix("/ingest")
        self._next = 0.0
        self._last: dict[str, int] = {}

    def report_session(self, client: str, session_id: str) -> None:
        session: frames.Session = {"client": client, "session_id": session_id}
        if self._url:
            session["url"] = f"{self._url}/sessions/{quote(session_id, safe='')}/"
        self._send(frames.Kind.SESSION, dict(session))

    def report_figures(self, figures: dict[str, int]) -> bool:
        """Send the figures, once per second, if they have changed. Return True if they were sent."""
        now = time.monotonic()
        if now < self._next or figures == self._last:
            return False
        self._next, self._last = now + _FIGURES_S, dict(figures)
        self._send(frames.Kind.FIGURES, figures)
        return True

    def _send(self, kind: frames.Kind, value: dict[str, object] | dict[str, int]) -> None:
        with contextlib.suppress(OSError):
            self._pipe.sendall(frames.encode_json(kind, 0, time.time(), value))


def _storage() -> AriadneStorage | None:
    if not configured_url():
        return None
    try:
        return AriadneStorage()
    except CompactError as error:
        log_problem("Ariadne", f"Transcripts are not archived: {error}")
        return None


if __name__ == "__main__":
    main()
