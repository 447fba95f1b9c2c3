"""Run `make up`: start Postgres, migrate, create the first logins, start the web processes and the demo.

The supervisor opens the listening socket first and its children share it. A port conflict is therefore reported before
anything starts, and a web process can be replaced without refusing connections. All children die with the supervisor,
even if it is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import http.client
import ipaddress
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType

from ariadne.paths import ROOT
from ariadne.runtime.launcher import die_with_parent
from ariadne.runtime.postgres import Postgres, PostgresError
from ariadne.runtime.postgres_watch import PostgresWatch
from ariadne.runtime.supervisor import Child, WebProcessError, WebProcesses, children, spawn
from ariadne.runtime.terminal import print_line
from ingest.notices import FILE_NAME, Notices

READY_TIMEOUT_S = 60.0
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - a comparison


class StartupError(RuntimeError):
    """The server cannot start because of its environment. The message says how to fix it."""


class Stop(Exception):
    """SIGTERM or SIGINT arrived."""


DESCRIPTION = """\
Start Ariadne: an embedded Postgres, the migrations, the web processes and the demo.

The address, the logins and the ingest key are printed and saved to DATA_DIR/credentials.json. Ctrl-C stops everything
and keeps the data. `make up` runs the same command from a checkout."""
EPILOG = """\
environment:
  PORT, DATA_DIR, DEMO, BIND   the same as the options, which take precedence
  DATABASE_URL                 use this Postgres server instead of the embedded one
  REDIS_URL, PROCESSES         channel layer and number of web processes
  docs/CONFIGURATION.md describes all variables.

examples:
  ariadne-server
  ariadne-server --port 9000 --data-dir ~/ariadne --no-demo
  pipx run ariadne-server

exit codes:
    0  stopped by Ctrl-C or SIGTERM
    1  could not start, for the reason that is printed
    2  wrong arguments"""


def main() -> int:
    _read_arguments()
    if os.environ.get("MAKELEVEL"):
        die_with_parent(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _raise_stop)
    try:
        _run()
    except Stop:
        signal.setitimer(signal.ITIMER_REAL, 0)
        print_line("\nStopped.")
    except (StartupError, PostgresError, WebProcessError) as error:
        print_line(f"Ariadne could not start: {error}")
        return 1
    return 0


def _read_arguments() -> None:
    """Parse the command line. An option sets the variable of the same name."""
    parser = argparse.ArgumentParser(
        prog="ariadne-server",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", metavar="N", help="port to listen on, default 8000")
    parser.add_argument("--bind", metavar="ADDRESS", help="address to listen on, default 127.0.0.1")
    parser.add_argument("--data-dir", metavar="DIR", help="directory for the data, default .ariadne")
    parser.add_argument("--no-demo", dest="demo", action="store_const", const="0", help="start without demo sessions")
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    for name, value in vars(parser.parse_args()).items():
        if value is not None:
            os.environ[name.upper()] = value


def _version() -> str:
    try:
        return version("ariadne-server")
    except PackageNotFoundError:
        return "(source tree)"


def _run() -> None:
    data_dir, has_demo = _data_dir(), _has_demo()
    with contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(_listen(_port()))
            address, port = listener.getsockname()
            is_public = not ipaddress.ip_address(address).is_loopback
            url = f"http://{'127.0.0.1' if address == _ALL_ADDRESSES else address}:{port}"
            postgres = Postgres(data_dir)
            if not os.environ.get("DATABASE_URL"):
                print_line("Starting Postgres …")
                os.environ["DATABASE_URL"] = stack.enter_context(postgres.run())
            report = _Report(Notices(data_dir / FILE_NAME))
            credentials = _prepare(data_dir, url, admin_only=is_public)
            web = stack.enter_context(
                WebProcesses(
                    listener,
                    _processes(),
                    liveness_timeout_s=_liveness_timeout_s(),
                    stacks_file=data_dir / "stacks.txt",
                    log_line=report,
                )
            )
            _wait_until_ready(url, web)
            _banner(credentials, data_dir)
            if is_public:
                _warn_of_network(credentials, address)
            if has_demo and _is_empty():
                stack.enter_context(children()).append(_start_demo(credentials))
            web.watch(on_tick=PostgresWatch(postgres, log_line=report).check)
        except Stop:
            # The request has arrived. Nothing may interrupt the shutdown that starts here.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise


class _Report:
    """Prints lines about faults, and keeps them for the status page."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices

    def __call__(self, text: str) -> None:
        print_line(text)
        self._notices.add(f"supervisor {text}")


def _data_dir() -> Path:
    folder = ROOT / Path(os.environ.get("DATA_DIR", ".ariadne")).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StartupError(f"cannot create DATA_DIR={folder}: {error.strerror}") from None
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise StartupError(f"cannot write to DATA_DIR={folder}: {error.strerror}") from None
    os.environ["DATA_DIR"] = str(folder)
    return folder


def _port() -> int:
    #: The port to listen on.
    value = os.environ.get("PORT", "8000")
    if not value.isdigit() or int(value) > 65535:
        raise StartupError(f"PORT={value} is not a valid port. Use a number from 1 to 65535.")
    return int(value)


def _has_demo() -> bool:
    #: 1 fills a new server with demo sessions. 0 starts it empty.
    value = os.environ.get("DEMO", "1").strip().lower()
    if value not in {"1", "true", "yes", "on", "0", "false", "no", "off", ""}:
        raise StartupError(f"DEMO={value} is not valid. Use 1 or 0.")
    return value in {"1", "true", "yes", "on"}


def _processes() -> int:
    #: Number of web processes that share the port. More than one needs `REDIS_URL`.
    value = os.environ.get("PROCESSES", "1")
    if not value.isdigit() or int(value) < 1:
        raise StartupError(f"PROCESSES={value} is not valid. Use 1 or more.")
    if int(value) > 1 and not os.environ.get("REDIS_URL"):
        raise StartupError("PROCESSES above 1 needs a shared channel layer. Set REDIS_URL=redis://host:6379/0.")
    return int(value)


def _liveness_timeout_s() -> int:
    #: Seconds without an answer of its event loop after which a web process is replaced. 0 never replaces one.
    value = os.environ.get("ARIADNE_LIVENESS_TIMEOUT_S", "20")
    if not value.isdigit():
        raise StartupError(f"ARIADNE_LIVENESS_TIMEOUT_S={value} is not valid. Use a number of seconds, or 0.")
    return int(value)


@contextlib.contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            #: The address to listen on. Put any other address than loopback behind nginx with TLS.
            listener.bind((os.environ.get("BIND", "127.0.0.1"), port))
            listener.listen(1024)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise StartupError(f"cannot listen on BIND={os.environ.get('BIND', '')}: {error}") from None
            raise StartupError(f"port {port} is in use ({error.strerror}). Try: make up PORT={port + 1}") from None
        listener.set_inheritable(True)
        yield listener


def _prepare(data_dir: Path, url: str, *, admin_only: bool) -> dict[str, object]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")
    import django  # noqa: PLC0415 - the settings need the database address
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415
    from django.core.management import CommandError, call_command  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    try:
        django.setup()
        from ariadne.settings import unknown_variables  # noqa: PLC0415

        for name in unknown_variables():
            print_line(f"Unknown setting {name}. See docs/CONFIGURATION.md.")
        print_line("Migrating …")
        call_command("setup", url=url, verbosity=0, admin_only=admin_only)
    except (CommandError, ImproperlyConfigured) as error:
        raise StartupError(str(error)) from None
    except OSError as error:
        raise StartupError(f"cannot write to DATA_DIR={data_dir}: {error.strerror}") from None
    connections.close_all()
    credentials: dict[str, object] = json.loads((data_dir / "credentials.json").read_text())
    return credentials


def _is_empty() -> bool:
    """Return True if there are no sessions yet. The demo plays only on a new server."""
    from django.db import connections  # noqa: PLC0415

    from ingest.models import Session  # noqa: PLC0415

    is_empty = not Session.objects.exists()
    connections.close_all()
    return is_empty


def _start_demo(credentials: dict[str, object]) -> Child:
    return spawn(["-m", "ariadne.demo"], environment=_agent_environment(credentials))


def _agent_environment(credentials: dict[str, object]) -> dict[str, str]:
    """Return the variables with which an agent sends its events to this server."""
    return {"ARIADNE_URL": str(credentials["url"]), "ARIADNE_API_KEY": str(credentials["ingest_key"])}


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
    raise StartupError(f"the server was not ready within {READY_TIMEOUT_S:.0f} seconds. See {url}/readyz.")


def _banner(credentials: dict[str, object], data_dir: Path) -> None:
    logins = credentials["logins"]
    assert isinstance(logins, dict)
    lines = [f"\n  Ariadne is up    {credentials['url']}\n"]
    for name, login in logins.items():
        lines.append(f"  {name:<12}     {login['username']} / {login['password'] or '(password set earlier)'}")
    lines += [
        f"  saved to         {_relative_to_cwd(data_dir / 'credentials.json')}",
        "\n  To send data from your agent, paste this into its shell:\n",
        *(f"  export {name}={value}" for name, value in _agent_environment(credentials).items()),
        "\n  Ctrl-C stops the server. Your data is kept.\n",
    ]
    print_line("\n".join(lines))


def _warn_of_network(credentials: dict[str, object], address: str) -> None:
    """Say what a server that other machines reach needs. `make up` has no TLS."""
    logins = credentials["logins"]
    assert isinstance(logins, dict)
    lines = [
        f"  WARNING: this server listens on {address}, so other machines reach it, and passwords cross the network in",
        "  plain text. Put nginx with TLS in front (deploy/nginx.conf), with ARIADNE_PRODUCTION=1 and ARIADNE_HOSTS.",
    ]
    if demo_logins := sorted(set(logins) - {"admin"}):
        names = ", ".join(demo_logins)
        lines.append(f"  Logins of the demo exist: {names}. Deactivate unused ones in Admin.")
    print_line("\n".join(lines) + "\n")


def _relative_to_cwd(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def _raise_stop(_number: int, _frame: FrameType | None) -> None:
    # A second signal must not interrupt the shutdown.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Python swallows an exception raised inside a finalizer, so the signal repeats until `_run` has caught it.
    signal.signal(signal.SIGALRM, _raise_again)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    raise Stop


def _raise_again(_number: int, _frame: FrameType | None) -> None:
    raise Stop


if __name__ == "__main__":
    sys.exit(main())
