"""Fixtures with real parts: a temporary Postgres, a server started like `make up`, and a Chromium browser."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from live_server import Server, prepare, run_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

# Hypothesis limits the seconds of each example, which a busy machine exceeds. The parent may be its profile for CI.
settings.register_profile(
    "busy",
    parent=settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("busy")

# Files and folders whose tests take longest, longest first.
_LONG = (
    "tests/scale/test_processes.py",
    "tests/viewer/test_permissions.py",
    "tests/docs/test_snippets.py",
    "tests/test_up.py",
    "tests/scale/",
    "tests/ingest/storage/test_faults.py",
    "tests/browser/",
    "tests/providers/",
    "tests/security/",
    "tests/docs/",
    "tests/wire/",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start long files first, so that no worker is still busy with one when the others have finished."""
    if config.option.seed is not None:
        return  # tests/random_order.py chooses the order

    def place(item: pytest.Item) -> int:
        return next((place for place, start in enumerate(_LONG) if item.nodeid.startswith(start)), len(_LONG))

    items.sort(key=place)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A temporary Postgres server for this test run."""
    from ariadne.runtime.postgres import THROWAWAY, Postgres

    server = Postgres(tmp_path_factory.mktemp("pg"), options={**THROWAWAY, "max_connections": "200"})
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: Any, django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Connect Django to the temporary server before it creates its test database."""
    from django.db import connections

    connections["default"].settings_dict.update(
        HOST=str(postgres.socket_dir), PORT="", USER="ariadne", PASSWORD="", NAME="postgres"
    )


@pytest.fixture(autouse=True)
def truncate_unmanaged_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty the tables that Django's flush skips: those that our migrations create with SQL."""
    marker = request.node.get_closest_marker("django_db")
    if marker is None or not marker.kwargs.get("transaction"):
        yield
        return
    request.getfixturevalue("transactional_db")
    yield
    from django.apps import apps
    from django.db import connection

    tables = sorted({model._meta.db_table for model in apps.get_models() if not model._meta.managed})
    with connection.cursor() as cursor:
        # The replica role skips the triggers that protect the archive and the audit log.
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(f"TRUNCATE {', '.join(tables)}")
        cursor.execute("SET session_replication_role = DEFAULT")


ServerFactory = Callable[..., Server]


@pytest.fixture(scope="session")
def prepared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that new servers start from. The workers of a test run share it."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, is_ready = run / "prepared", run / "prepared.ready"
    with (run / "prepared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready.exists():
            prepare(folder)
            is_ready.touch()
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Iterator[Server]:
    """A shared server for tests that only add data, each with its own session ids."""
    with run_server(tmp_path_factory.mktemp("server"), prepared_data) as running:
        yield running


@pytest.fixture
def start_server(tmp_path: Path, prepared_data: Path) -> Iterator[ServerFactory]:
    """Return a function that starts servers for one test, `start_server("name", PORT="0", …)`, and stop them later."""
    with ExitStack() as stack:

        def start(name: str = "server", **environment: str) -> Server:
            return stack.enter_context(run_server(tmp_path / name, prepared_data, **environment))

        yield start


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium. A missing browser fails the test. ARIADNE_BROWSER=none skips it, but never on CI."""
    from playwright.sync_api import sync_playwright

    from tools.browser import ENVIRONMENT, NoBrowser, find, launch_environment

    try:
        path = find()
    except NoBrowser as missing:
        if os.environ.get(ENVIRONMENT) == "none" and not os.environ.get("CI"):
            pytest.skip(str(missing))
        pytest.fail(str(missing))
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(path), env=launch_environment(path))
        yield running
        running.close()


SignIn = Callable[..., "Page"]


@pytest.fixture
def sign_in(browser: Browser, server: Server) -> Iterator[SignIn]:
    """Return a function that opens an empty page as a role: `sign_in("operator", width=1280, dark=True)`.

    The login form is not opened in the browser, which would take longer than most tests. Script errors fail the test.
    """
    from reader import client_of

    contexts: list[BrowserContext] = []
    script_errors: list[str] = []

    def open_page(
        person: str = "operator", *, width: int = 1280, height: int = 800, dark: bool = False, is_new: bool = False
    ) -> Page:
        # Dismiss the first-visit tour, which would cover elements that a test clicks.
        seen = {"origin": server.url, "localStorage": [{"name": "first-look", "value": "seen"}]}
        context = browser.new_context(
            storage_state={"origins": [] if is_new else [seen], "cookies": []},
            base_url=server.url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        with client_of(server, person) as client:
            cookies = client.cookies.items()
        context.add_cookies([{"name": name, "value": value, "url": server.url} for name, value in cookies])
        page = context.new_page()
        page.on("pageerror", lambda error: script_errors.append(f"{page.url}: {error}"))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not script_errors, script_errors


@pytest.fixture
def page(sign_in: SignIn) -> Page:
    """An empty page of an operator, the role with the fewest permissions."""
    return sign_in("operator")
