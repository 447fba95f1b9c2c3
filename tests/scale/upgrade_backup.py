"""Make the backup of this version that `test_earlier_landings.py` upgrades. Run it before a release:

    python -m tests.scale.upgrade_backup 0.2.0

It starts the server, sends spans, events, a compaction and transcripts of two projects with the same session ids, reads
them as a person does, and saves a backup and what the server returned to `tests/fixtures/upgrades/NAME`.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import httpx  # noqa: E402
from compact import (  # noqa: E402
    AriadneExporter,
    AriadneStorage,
    CompactConfig,
    CompactManager,
    CompactPolicy,
    Message,
    ToolCall,
)
from live_server import Server, run_server  # noqa: E402
from reader import client_of  # noqa: E402

FOLDER = ROOT / "tests" / "fixtures" / "upgrades"
SECRETS = {"ours": "Planted-Ours-7f3a", "theirs": "Planted-Theirs-9c1d"}
_PROJECTS = """
import json, django
django.setup()
from ingest.http import keys
from ingest.models import Project
print(json.dumps({slug: keys.create(Project.objects.create(slug=slug, name=slug), label="upgrade")
                  for slug in ("ours", "theirs")}))
"""
_READ = """
import json, django
django.setup()
from ingest.archive import transcripts
from ingest.cells import cells_of
from ingest.models import Project, Session, Span, Transcript
from viewer.sessions import queries
result = {"spans": {}, "transcripts": {}}
for project in Project.objects.filter(slug__in=["ours", "theirs"]):
    cells = cells_of(project.pk)
    for session in Session.objects.filter(cell__in=cells):
        spans = result["spans"].setdefault(project.slug, {}).setdefault(session.session_id, {})
        for row in Span.objects.filter(cell=session.cell, session_key=session.session_key).order_by("seq"):
            span = queries.span(session, f"{row.trace_id}:{row.span_id}", with_payload=True)
            spans[f"{row.trace_id}:{row.span_id}"] = [
                span.row.kind, span.row.name, span.row.status, span.row.data, span.payload]
    result["transcripts"][project.slug] = {
        f"{row.session_id}/{row.step}": b"".join(transcripts.lines(row)).decode()
        for row in Transcript.objects.filter(cell__in=cells)}
print(json.dumps(result, sort_keys=True))
"""


def run_python(server: Server, code: str) -> Any:
    environment = {**os.environ, "DATA_DIR": str(server.data_dir), "DATABASE_URL": server.database_url}
    environment |= {"DJANGO_SETTINGS_MODULE": "ariadne.settings"}
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


def send(server: Server, slug: str, key: str) -> None:
    """Send two sessions of spans, one with the same ids in both projects, and open spans that never end."""
    for trace, session in (("t1", "same"), (f"t-{slug}", f"own-{slug}")):
        span = {"type": "span", "trace_id": trace, "started_at": "2026-11-14T10:00:01Z"}
        tool = {"arguments": {"path": "a.py", "b": 1}, "output": SECRETS[slug] * 20}
        events = [
            {"type": "trace", "trace_id": trace, "group_id": session, "metadata": {"environment": slug}},
            {**span, "span_id": "g", "kind": "generation", "name": "gpt-5", "ended_at": "2026-11-14T10:00:03Z"},
            {
                **span,
                "span_id": "w",
                "parent_id": "g",
                "kind": "tool",
                "name": "read",
                "status": "error",
                "payload": tool,
            },
            {**span, "span_id": "open", "kind": "agent", "name": "runner"},
        ]
        events[1] |= {"data": {"model": "gpt-5", "usage": {"input_tokens": 900, "output_tokens": 20}}}
        events[1] |= {"payload": {"input": [{"role": "user", "content": SECRETS[slug]}]}}
        headers = {"Authorization": f"Bearer {key}"}
        httpx.post(server.ingest_url, json={"batch": events}, headers=headers).raise_for_status()


def compact_history(server: Server, slug: str, key: str, spool: Path) -> None:
    """Run an agent that compacts several times and archives what it removes."""
    exporter = AriadneExporter(server.ingest_url, key, spool_dir=spool)
    manager = CompactManager(
        CompactConfig(
            model="gpt-4o",
            max_context_tokens=1_200,
            exporter=exporter,
            storage=AriadneStorage(server.url, key),
            policy=CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2, keep_tool_io_pairs=1),
        )
    )
    history = [Message("system", f"You compare offers for {SECRETS[slug]}. Never exceed the limit of 400 EUR.")]
    for turn in range(12):
        history += [
            Message(
                "user", f"Turn {turn}: the limit is {400 + turn} EUR for {SECRETS[slug]}, see docs/offer-{turn}.md"
            ),
            Message("assistant", "", tool_calls=(ToolCall(f"c{turn}", "search", '{"q": "offers"}'),)),
            Message("tool", f"offer {turn}: 3{turn}0 EUR. " * 12, tool_call_id=f"c{turn}"),
            Message("assistant", f"Decision {turn}: take offer {turn}, because it is cheaper."),
        ]
        history = list(manager.preflight("agent", history))
    assert exporter.flush(30)
    exporter.close()


def read_as_admin(server: Server) -> None:
    """Leave entries in the audit log: a login, a view of content and downloads."""
    with client_of(server, "admin") as client:
        client.get("/api/spans/t-ours:g/", params={"payload": "1"}).raise_for_status()
        for row in client.get("/api/transcripts/").json()["results"][:2]:
            client.get(f"/api/transcripts/{row['id']}/download/", params={"reason": "upgrade"}).raise_for_status()


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with run_server(folder / "data") as server:
            keys = run_python(server, _PROJECTS)
            for slug, key in keys.items():
                send(server, slug, key)
                compact_history(server, slug, key, folder / slug)
            read_as_admin(server)
            expected = {"keys": keys, **run_python(server, _READ)}
            server.stop()
        command = [sys.executable, "-m", "ariadne.runtime.backup", "save", str(folder / "backups")]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "DATA_DIR": str(folder / "data")}, check=True)
        (saved,) = (folder / "backups").iterdir()
        target = FOLDER / name
        (target / "files").mkdir(parents=True)
        shutil.copy(saved / "database.dump", target)
        for file in ("signing_key", "anchors.jsonl"):
            shutil.copy(saved / "files" / file, target / "files")
        (target / "expected.json.gz").write_bytes(gzip.compress(json.dumps(expected).encode(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
