"""`make up`: Postgres, migrations, first logins, web processes, demo; one supervisor, and nothing left behind it.

The supervisor holds the listening socket and its children share it, so a taken port is known before anything starts
and a web process can be replaced without refusing a connection. Children die with it, even when it is killed.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from ariadne.paths import ROOT
from ariadne.runtime.launcher import die_with_parent
from ariadne.runtime.postgres import Postgres, PostgresError
from ariadne.runtime.supervisor import Broken, Child, WebProcesses, children, spawn

READY_TIMEOUT_S = 60.0


class CannotStart(RuntimeError):
    """Something the person at the keyboard can mend; the message says how."""


class Stop(Exception):
    """SIGTERM or SIGINT arrived."""


HELP = """usage: python -m ariadne.runtime.up

Starts Postgres, migrations, web processes and a demo, as `make up` does; Ctrl-C stops all of it. It takes no arguments:
PORT, DATA_DIR, DEMO, DATABASE_URL, REDIS_URL and all the rest come from the environment, see docs/CONFIGURATION.md."""


def main() -> int:
    if len(sys.argv) > 1:
        _say(HELP)
        return 0 if sys.argv[1] in {"-h", "--help"} else 2
    if os.environ.get("MAKELEVEL"):
        die_with_parent(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _raise_stop)
    try:
        _run()
    except Stop:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _say("\nStopped.")
    except (CannotStart, PostgresError, Broken) as error:
        _say(f"Ariadne cannot start: {error}")
        return 1
    return 0


def _run() -> None:
    data_dir, has_demo = _data_dir(), _has_demo()
    with contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(_listen(_port()))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            postgres = Postgres(data_dir)
            if not os.environ.get("DATABASE_URL"):
                _say("Starting Postgres …")
                os.environ["DATABASE_URL"] = stack.enter_context(postgres.running())
            credentials = _prepare(data_dir, url)
            web = stack.enter_context(WebProcesses(listener, _processes(), say=_say))
            _wait_until_ready(url, web)
            _banner(credentials, data_dir)
            if has_demo and _is_empty():
                stack.enter_context(children()).append(_start_demo(credentials))
            web.watch(beside=lambda: postgres.revive(_say))
        except Stop:
            # Heard: nothing may interrupt the stopping that begins here.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise


def _data_dir() -> Path:
    folder = ROOT / os.environ.get("DATA_DIR", ".ariadne")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CannotStart(f"DATA_DIR={folder} cannot be made: {error.strerror}") from None
    os.environ["DATA_DIR"] = str(folder)
    return folder


def _port() -> int:
    #: The port to listen on.
    value = os.environ.get("PORT", "8000")
    if not value.isdigit() or int(value) > 65535:
        raise CannotStart(f"PORT={value} is not a port: use a number from 1 to 65535")
    return int(value)


def _has_demo() -> bool:
    #: 1 fills a new server with demo sessions, 0 starts empty.
    value = os.environ.get("DEMO", "1").strip().lower()
    if value not in {"1", "true", "yes", "on", "0", "false", "no", "off", ""}:
        raise CannotStart(f"DEMO={value} is not a yes or a no: use 1 or 0")
    return value in {"1", "true", "yes", "on"}


def _processes() -> int:
    #: Web processes on this machine, sharing the port. More than one needs `REDIS_URL`.
    value = os.environ.get("PROCESSES", "1")
    if not value.isdigit() or int(value) < 1:
        raise CannotStart(f"PROCESSES={value} is not a number of processes")
    if int(value) > 1 and not os.environ.get("REDIS_URL"):
        raise CannotStart("PROCESSES above 1 needs a channel layer they share: set REDIS_URL=redis://host:6379/0")
    return int(value)


@contextlib.contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            #: The address to listen on. Another than loopback belongs behind nginx and TLS.
            listener.bind((os.environ.get("BIND", "127.0.0.1"), port))
            listener.listen(1024)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CannotStart(f"cannot listen on BIND={os.environ.get('BIND', '')}: {error}") from None
            raise CannotStart(f"port {port} is taken ({error.strerror}): try make up PORT={port + 1}") from None
        listener.set_inheritable(True)
        yield listener


def _prepare(data_dir: Path, url: str) -> dict[str, object]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")
    import django  # noqa: PLC0415 - only now is the database known
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415
    from django.core.management import CommandError, call_command  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    try:
        django.setup()
        from ariadne.settings import unknown_variables  # noqa: PLC0415

        for name in unknown_variables():
            _say(f"No setting is called {name}: see docs/CONFIGURATION.md")
        _say("Migrating …")
        call_command("setup", url=url, verbosity=0)
    except (CommandError, ImproperlyConfigured) as error:
        raise CannotStart(str(error)) from None
    connections.close_all()
    credentials: dict[str, object] = json.loads((data_dir / "credentials.json").read_text())
    return credentials


def _is_empty() -> bool:
    """Whether no agent has sent anything yet: the stories are for a first look, not for every start."""
    from django.db import connections  # noqa: PLC0415

    from ingest.models import Session  # noqa: PLC0415

    is_empty = not Session.objects.exists()
    connections.close_all()
    return is_empty


def _start_demo(credentials: dict[str, object]) -> Child:
    environment = {
        "ARIADNE_URL": f"{credentials['url']}/ingest",
        "ARIADNE_API_KEY": str(credentials["ingest_key"]),
    }
    return spawn(["-m", "ariadne.demo"], environment=environment)


def _wait_until_ready(url: str, web: WebProcesses) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    host = url.removeprefix("http://")
    while time.monotonic() < deadline:
        web.check()
        try:
            connection = http.client.HTTPConnection(host, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    raise CannotStart(f"the server did not become ready within {READY_TIMEOUT_S:.0f} s: see {url}/readyz")


def _banner(credentials: dict[str, object], data_dir: Path) -> None:
    logins = credentials["logins"]
    assert isinstance(logins, dict)
    lines = [f"\n  Ariadne is up    {credentials['url']}\n"]
    for name, login in logins.items():
        lines.append(f"  {name:<12}     {login['username']} / {login['password'] or '(password set earlier)'}")
    lines += [
        f"\n  ingest key       {credentials['ingest_key']}",
        f"  written to       {_shown(data_dir / 'credentials.json')}",
        "\n  Ctrl-C stops everything; the data stays.\n",
    ]
    _say("\n".join(lines))


def _shown(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def _say(text: str) -> None:
    print(text, flush=True)


def _raise_stop(_number: int, _frame: FrameType | None) -> None:
    # A second signal while stopping must not interrupt the stopping.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Raised inside a finalizer the request would be swallowed: it is repeated until `_run` has heard it.
    signal.signal(signal.SIGALRM, _raise_again)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    raise Stop


def _raise_again(_number: int, _frame: FrameType | None) -> None:
    raise Stop


if __name__ == "__main__":
    sys.exit(main())
