"""Copyable programs that send a first event to this server, with its address and a key filled in."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest

PLACEHOLDER = "YOUR_INGEST_KEY"

_PYTHON = """\
from compact import AriadneExporter, CompactConfig, CompactManager

exporter = AriadneExporter(
    url="{server}",
    api_key="{key}",
)
manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=8_000, exporter=exporter))
history = [{{"role": "user", "content": f"Step {{n}}: " + "please go on. " * 90}} for n in range(30)]
prompt = manager.preflight("my-first-session", history)  # send this to your model
print(manager.report("my-first-session"))
"""
_OTLP = """\
export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={server}/v1/traces
export OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_TRACES_HEADERS="Authorization=Bearer%20{key}"
"""
_CURL = """\
curl -sS {server}/ingest \\
  -H "Authorization: Bearer {key}" \\
  -H "Content-Type: application/json" \\
  -d '{{"event": "compact.warning", "session_id": "my-first-session", "ts": '$(date +%s)', \
"properties": {{"severity": "low", "code": "hello", "message": "Hello from curl"}}}}'
"""
_OWN_AGENT = """\
export ARIADNE_URL={server}
export ARIADNE_API_KEY={key}
compactctl watch
"""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One way to send data: what to install, what to run, and what to expect."""

    label: str
    install: str
    code: str
    note: str


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything that the panel "Connect an agent" shows."""

    key: str
    snippets: tuple[Snippet, ...]

    @property
    def has_key(self) -> bool:
        return self.key != PLACEHOLDER


def connection(request: HttpRequest, key: str = PLACEHOLDER) -> Connection:
    """Return the snippets for the server that answers this request."""
    server = request.build_absolute_uri("/").rstrip("/")

    def fill(template: str) -> str:
        return template.format(server=server, key=key)

    return Connection(
        key,
        (
            Snippet(
                "Python",
                "pip install compact-client",
                fill(_PYTHON),
                "Runs offline and compacts once. In your agent, call preflight before each model call.",
            ),
            Snippet(
                "Claude Code, Codex",
                "pip install 'compact-client[cli]'",
                fill(_OWN_AGENT),
                "Imports the sessions on your machine and follows them live. Secrets are redacted first.",
            ),
            Snippet(
                "OpenTelemetry",
                "",
                fill(_OTLP),
                "Any OTLP/HTTP exporter works. Spans with gen_ai attributes are understood.",
            ),
            Snippet("curl", "", fill(_CURL), 'One event. A JSON list or {"batch": […]} sends many.'),
        ),
    )
