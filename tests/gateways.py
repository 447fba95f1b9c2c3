"""A gateway process for tests, a scripted upstream of plain sockets, and a recorder that keeps its frames in a file."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from compact.gateway.frames import Frame, FrameDecoder
from compact.gateway.settings import GatewaySettings
from wait import wait_until

_KEEPER = """
import os, sys
with open(sys.argv[1] + f".{os.getpid()}", "wb", buffering=0) as file:
    while data := os.read(0, 1 << 20):
        file.write(data)
"""
TIMEOUT_S = 60.0


@dataclass
class Gateway:
    """A running gateway."""

    process: subprocess.Popen[bytes]
    port: int
    directory: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def json(self, path: str) -> Any:
        with urlopen(self.url + path, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def metrics(self) -> dict[str, float]:
        with urlopen(f"{self.url}/metrics", timeout=TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name.removeprefix("ariadne_gateway_"): float(value) for name, _, value in pairs}

    def frames(self) -> list[Frame]:
        """The frames that recorders of this gateway have read so far, in order of their start."""
        frames: list[Frame] = []
        for file in sorted(self.directory.glob("frames.*"), key=lambda path: path.stat().st_ctime_ns):
            frames += FrameDecoder().feed(file.read_bytes())
        return frames

    def recorder_pid(self) -> int:
        pid: int = self.json("/status")["recorder"]["pid"]
        return pid

    def files(self) -> bytes:
        """Everything that the gateway has written: frames, state and log."""
        return b"".join(path.read_bytes() for path in self.directory.rglob("*") if path.is_file())


@contextmanager
def running_gateway(directory: Path, **settings: Any) -> Iterator[Gateway]:
    """Run a gateway on a free port. By default its recorder keeps the frames in `directory`."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        environment = {**os.environ, "XDG_STATE_HOME": str(directory / "state")}
        settings.setdefault("recorder", (sys.executable, "-c", _KEEPER, str(directory / "frames")))
        GatewaySettings(port=port, listener=listener.fileno(), **settings).write(environment)
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "compact.gateway"],
                env=environment, pass_fds=[listener.fileno()], stderr=log,
            )  # fmt: skip
    gateway = Gateway(process, port, directory)
    try:
        # The socket listens already, so the answer comes as soon as the process accepts.
        assert gateway.json("/healthz")["status"] == "ok"
        yield gateway
    finally:
        # The first signal lets streams finish, the second ends them.
        assert wait_until(lambda: _has_stopped(process), timeout_s=30)


def _has_stopped(process: subprocess.Popen[bytes]) -> bool:
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.3)
    return process.returncode is not None


class Upstream:
    """A server that runs one function per connection and keeps the bytes that it got."""

    def __init__(self, serve: Callable[[Peer], None]) -> None:
        self._serve = serve
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.peers: list[Peer] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for peer in self.peers:
            peer.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            peer = Peer(connection)
            self.peers.append(peer)
            threading.Thread(target=self._run, args=[peer], daemon=True).start()

    def _run(self, peer: Peer) -> None:
        try:
            self._serve(peer)
        except (OSError, EOFError, ValueError) as error:
            peer.error = error


class Peer:
    """One side of a connection, with everything that it received."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.received = bytearray()
        self.error: BaseException | None = None

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, size: int) -> bytes:
        """Read exactly this number of bytes."""
        start = len(self.received)
        while len(self.received) < start + size:
            data = self.socket.recv(min(1 << 20, start + size - len(self.received)))
            if not data:
                raise EOFError(f"The connection ended after {self.received[start:]!r}.")
            self.received += data
        return bytes(self.received[start:])

    def read_head(self) -> bytes:
        """Read up to the end of a head."""
        start = len(self.received)
        while not self.received.endswith(b"\r\n\r\n"):
            self.read(1)
        return bytes(self.received[start:])

    def read_to_end(self) -> bytes:
        """Read until the other side closes. Raise if it resets the connection."""
        start = len(self.received)
        while data := self.socket.recv(1 << 20):
            self.received += data
        return bytes(self.received[start:])

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


def connect(port: int) -> Peer:
    """Return a connection to a port of this machine."""
    return Peer(socket.create_connection(("127.0.0.1", port)))


@dataclass(frozen=True)
class Step:
    """Bytes that one side sends, and that must arrive before anything else is sent."""

    side: str
    data: bytes


def client(*pieces: bytes) -> list[Step]:
    return [Step("client", piece) for piece in pieces]


def server(*pieces: bytes) -> list[Step]:
    return [Step("server", piece) for piece in pieces]


def play(port: int, steps: Sequence[Step], upstream: ScriptedUpstream, prefix: str, host: str) -> Peer:
    """Play a conversation and return the client's side. PREFIX and HOST in its bytes are replaced."""
    upstream.start()
    peer = connect(port)
    for step in steps:
        if step.side == "client":
            peer.send(fill(step.data, prefix, host))
            expected = fill(step.data, "", upstream.authority)
            assert upstream.has_received(expected), f"{upstream.peer.received!r} arrived, {expected!r} was expected."
        else:
            upstream.peer.send(step.data)
            assert peer.read(len(step.data)) == step.data
    return peer


def fill(data: bytes, prefix: str, host: str) -> bytes:
    return data.replace(b"PREFIX", prefix.encode()).replace(b"HOST", host.encode())


class ScriptedUpstream(Upstream):
    """An upstream that sends when the test says so."""

    def __init__(self) -> None:
        super().__init__(self._read)
        self._arrived = bytearray()
        self._expected = b""
        self._peer: Peer | None = None

    @property
    def peer(self) -> Peer:
        """The last connection."""
        assert wait_until(lambda: self._peer is not None)
        assert self._peer is not None
        return self._peer

    def start(self) -> None:
        """Forget the connections before."""
        self._arrived = bytearray()
        self._expected = b""
        self._peer = None

    def has_received(self, data: bytes) -> bool:
        """Return True when exactly this data has arrived after all before it."""
        self._expected += data
        return wait_until(lambda: len(self._arrived) >= len(self._expected), timeout_s=20) and (
            self._arrived == self._expected
        )

    def _read(self, peer: Peer) -> None:
        self._peer = peer
        while peer.socket.fileno() >= 0:
            # A thread that waits in the kernel would delay the reset that another thread sends by closing the socket.
            if select.select([peer.socket], [], [], 0.02)[0]:
                data = peer.socket.recv(1 << 20)
                if not data:
                    raise EOFError("The client closed.")
                peer.received += data
                self._arrived += data
