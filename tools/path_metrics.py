"""Report how many functions, modules and packages one operation crosses: `python -m tools.path_metrics [PATH …]`.

Each path runs once to fill caches, and once under `sys.setprofile`. A switch is a call from a function of one module
(or package) of the project to a function of another. A package is a folder of the second level, such as
`compact.engine`. The resumption of a coroutine counts like a call. Paths of the server run against a temporary
Postgres, a page with the middleware and with its queries counted.

To add a path, write a function that prepares it and returns the operation, and add it to `PATHS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from compact import CallbackExporter, CompactConfig, CompactManager

PROJECT = ("compact", "ingest", "viewer", "ariadne")

Operation = Callable[[], object]


@dataclass(slots=True)
class Crossings:
    """The functions, modules and packages that the calls of one operation crossed."""

    functions: set[CodeType] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    module_switches: int = 0
    package_switches: int = 0
    engine_switches: int = 0
    """Switches between two modules of `compact.engine`."""
    queries: list[str] = field(default_factory=list)
    """Queries of Django. The write path has its own connections."""

    def record(self, frame: FrameType, event: str, _: Any) -> None:
        """Record a call. This is the function that `sys.setprofile` expects."""
        module = _module_of(frame)
        if event != "call" or module is None:
            return
        self.functions.add(frame.f_code)
        self.modules.add(module)
        caller = _caller_of(frame)
        if caller is None or caller == module:
            return
        self.module_switches += 1
        packages = {_package_of(caller), _package_of(module)}
        self.package_switches += len(packages) > 1
        self.engine_switches += packages == {"compact.engine"}


def _module_of(frame: FrameType) -> str | None:
    """Return the module of a frame, None if it is not part of the project."""
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.partition(".")[0] in PROJECT else None


def _caller_of(frame: FrameType) -> str | None:
    """Return the module of the nearest caller that is part of the project."""
    caller = frame.f_back
    while caller is not None:
        module = _module_of(caller)
        if module is not None:
            return module
        caller = caller.f_back
    return None


def _package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def measure(prepare: Callable[[], Operation]) -> Crossings:
    """Run an operation twice, each time freshly prepared, and return what the second run crossed."""
    prepare()()
    operation = prepare()
    crossings = Crossings()
    with _recorded_queries(crossings.queries):
        sys.setprofile(crossings.record)
        try:
            operation()
        finally:
            sys.setprofile(None)
    return crossings


@contextmanager
def _recorded_queries(statements: list[str]) -> Iterator[None]:
    if "DJANGO_SETTINGS_MODULE" not in os.environ:
        yield
        return
    from django.db import connection

    def record(execute: Callable[..., Any], statement: str, *arguments: Any) -> Any:
        statements.append(statement)
        return execute(statement, *arguments)

    with connection.execute_wrapper(record):
        yield


def prepare_preflight() -> Operation:
    """Return a check of a conversation with one new message, far below the trigger."""
    manager = CompactManager(CompactConfig("gpt-5", 1_000_000, exporter=CallbackExporter(lambda _: None)))
    messages = _conversation(40)
    manager.preflight("path", messages)
    messages.append({"role": "user", "content": "What is left to do?"})
    return lambda: manager.preflight("path", messages)


def prepare_compaction() -> Operation:
    """Return the compaction of a conversation of 165 messages."""
    manager = CompactManager(CompactConfig("gpt-5", 16_000, exporter=CallbackExporter(lambda _: None)))
    messages = _conversation(41)
    assert len(messages) == 165
    return lambda: manager.preflight("path", messages)


def _conversation(turns: int) -> list[dict[str, Any]]:
    """Return one system message and four messages per turn: a question, a tool call, its output and an answer."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a careful engineer."}]
    for number in range(turns):
        path, call_id = f"src/module_{number}.py", f"call-{number}"
        function = {"name": "read_file", "arguments": f'{{"path": "{path}"}}'}
        source = "".join(f"def f_{number}_{line}(x):\n    return x + {line}\n" for line in range(20))
        messages += [
            {"role": "user", "content": f"Fix test_{number} in {path}. Never change the public API of part {number}."},
            {
                "role": "assistant",
                "content": f"I will read {path}, because test_{number} fails there.",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": source},
            {"role": "assistant", "content": f"Decision: return x - {number}, since the caller adds it again."},
        ]
    return messages


def prepare_post() -> Operation:
    """Return a post of one event of a session that exists, by the key of a project."""
    event = {"event": "compact.trigger", "session_id": "path", "ts": 1_763_265_600, "tokens": 12}
    return _prepare_request("/ingest", event)


def prepare_otlp() -> Operation:
    """Return a post of one OTLP span."""
    attributes = [{"key": "gen_ai.conversation.id", "value": {"stringValue": "path"}}]
    times = {"startTimeUnixNano": "1763265600000000000", "endTimeUnixNano": "1763265601000000000"}
    span = {"traceId": "5b8efff798038103d269b633813fc60c", "name": "chat gpt-5", "attributes": attributes, **times}
    _span_ids.append(f"{len(_span_ids):016x}")
    scope_spans = [{"spans": [{**span, "spanId": _span_ids[-1]}]}]
    return _prepare_request("/v1/traces", {"resourceSpans": [{"scopeSpans": scope_spans}]})


_span_ids: list[str] = []


def _prepare_request(path: str, content: object) -> Operation:
    key, _client = _server()
    body = json.dumps(content).encode()
    headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200, message

    from ariadne import asgi

    return lambda: _loop.run_until_complete(asgi.http(scope, receive, send))


def prepare_session_page() -> Operation:
    """Return a visit of the page of a session, by a member of its project who is logged in: page, tree and checks."""
    _key, client = _server()

    def load() -> None:
        for address in ("/sessions/path/", "/api/sessions/path/tree/", "/api/sessions/path/tokens/"):
            assert client.get(address).status_code == 200

    return load


_loop = asyncio.new_event_loop()
_stack = ExitStack()
_running: list[tuple[str, Any]] = []


def _server() -> tuple[str, Any]:
    """Return an ingest key of a server in this process, and a client that is logged in. Started once."""
    if not _running:
        _running.append(_stack.enter_context(_run_server()))
    return _running[0]


@contextmanager
def _run_server() -> Iterator[tuple[str, Any]]:
    from ariadne.runtime.postgres import THROWAWAY, Postgres

    with tempfile.TemporaryDirectory() as folder, Postgres(Path(folder), options=THROWAWAY).run() as database_url:
        os.environ |= {"DATABASE_URL": database_url, "DATA_DIR": folder, "ARIADNE_INGEST_DECODE_PROCESSES": "0"}
        os.environ |= {"DJANGO_SETTINGS_MODULE": "ariadne.settings", "ARIADNE_HOSTS": "testserver"}
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connections
        from django.test import Client

        from ariadne import asgi  # noqa: F401 - configures the connections, so it comes before the first
        from ingest.http import keys, service
        from ingest.models import Project
        from tests.people import create_user

        call_command("migrate", verbosity=0)
        project = Project.objects.create(slug="path", name="Path")
        client = Client()
        client.force_login(create_user("developer", project))
        key = keys.create(project, label="path")
        running = service.run_service()
        _loop.run_until_complete(running.__aenter__())
        _record_session(key)
        yield key, client
        _loop.run_until_complete(running.__aexit__(None, None, None))
        connections.close_all()


def _record_session(key: str) -> None:
    """Store a session with one compaction, as the library sends it."""
    spans: list[dict[str, Any]] = []
    manager = CompactManager(CompactConfig("gpt-5", 16_000, exporter=CallbackExporter(spans.append)))
    manager.preflight("path", _conversation(41))
    _running.append((key, None))
    _prepare_request("/ingest", spans)()
    _running.clear()


PATHS: Mapping[str, Callable[[], Operation]] = {
    "preflight": prepare_preflight,
    "compaction": prepare_compaction,
    "post": prepare_post,
    "otlp": prepare_otlp,
    "session page": prepare_session_page,
}


def main(arguments: list[str]) -> int:
    """Print one line per path. With --queries, print the queries of each path too."""
    names = [name for name in arguments if name != "--queries"]
    columns = ("functions", "modules", "module switches", "package switches", "engine switches", "queries")
    rows = [f"{'path':12}" + "".join(f"{column:>18}" for column in columns)]
    with _stack:
        for name in names or PATHS:
            crossings = measure(PATHS[name])
            figures = (
                len(crossings.functions),
                len(crossings.modules),
                crossings.module_switches,
                crossings.package_switches,
                crossings.engine_switches,
                len(crossings.queries),
            )
            rows.append(f"{name:12}" + "".join(f"{figure:>18,}" for figure in figures))
            rows += [f"    {' '.join(query.split())[:200]}" for query in crossings.queries if "--queries" in arguments]
    sys.stdout.write("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
