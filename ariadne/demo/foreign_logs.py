"""Logs of two coding agents that compact by themselves, as Claude Code and Codex write them.

Claude Code's summary omits a rule, and the agent breaks it. The summary of Codex is encrypted, so only the provider
can read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from compact import AriadneStorage
from compact.exporters.redaction import RedactingExporter
from compact.importers import ingest_events, read_conversation
from compact.protocols import Exporter
from compact.redaction.outbound import OutboundRedactor

from ariadne.demo.clock import PastClock
from ariadne.demo.repository import Repository
from ariadne.demo.script import Step

_CLAUDE_SESSION = "claude-code-dark-mode"
_CODEX_SESSION = "codex-flaky-login-test"
_CLAUDE_TOOLS = {"read_file": "Read", "edit_file": "Edit"}
_CLAUDE_SUMMARY = (
    "This session is being continued from a previous conversation. The user asked for a dark mode on the settings "
    "page. settings.tsx, profile.ts and app.tsx were read and changed. The flicker on load is fixed."
)


def _claude_turns(repository: Repository) -> Iterator[tuple[str, tuple[Step, ...], str]]:
    """Yield the user's messages with the calls and the answer of the agent, up to the compaction."""
    yield (
        "Add a dark mode to the settings page. Never change tokens.css, the design team owns it.",
        (repository.read("src/settings.tsx"), repository.read("src/tokens.css")),
        'I read settings.tsx. The colors come from tokens.css, which already has a block for data-theme="dark", so I will '
        "use its variables.",
    )
    yield (
        "Store the choice per user, not per browser.",
        (
            repository.read("src/api/profile.ts"),
            repository.edit(
                "src/api/profile.ts",
                "  shippingMails: boolean;\n",
                '  shippingMails: boolean;\n  theme: "light" | "dark";\n',
            ),
            repository.edit(
                "src/settings.tsx",
                "      <section>\n        <h2>Language</h2>",
                "      <section>\n        <h2>Appearance</h2>\n        <Switch\n"
                '          label="Dark mode"\n          checked={profile.theme === "dark"}\n          disabled={saving}\n'
                '          onChange={(dark) => change({ theme: dark ? "dark" : "light" })}\n        />\n      </section>\n'
                "      <section>\n        <h2>Language</h2>",
            ),
        ),
        "Decision: the choice goes into profile.theme, because profiles sync across devices.",
    )
    yield (
        "Our staging user is qa-17@example.org, test with it.",
        (
            repository.read("tests/settings.spec.ts"),
            repository.edit(
                "tests/settings.spec.ts",
                'test("an error of the server is shown"',
                'test("the theme follows the user", async ({ page }) => {\n  await page.goto("/settings");\n'
                '  await page.getByLabel("Dark mode").check();\n  await page.reload();\n'
                '  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");\n});\n\n'
                'test("an error of the server is shown"',
            ),
        ),
        "The test signs in as that user and switches the theme twice.",
    )
    yield (
        "The switch flickers on load.",
        (
            repository.read("src/app.tsx"),
            repository.edit(
                "src/app.tsx",
                "  }, [profile.language]);\n",
                "  }, [profile.language]);\n\n  // Before the first paint, so that the page does not flicker.\n"
                "  useLayoutEffect(() => {\n    document.documentElement.dataset.theme = profile.theme;\n"
                "  }, [profile.theme]);\n",
            ),
            repository.edit("src/app.tsx", "import { useEffect }", "import { useEffect, useLayoutEffect }"),
        ),
        "The theme is set before the first paint now. Open: the print style still uses the light colors.",
    )


def _turns_after_the_compaction(repository: Repository) -> Iterator[tuple[str, tuple[Step, ...], str]]:
    """Yield what the lost rule led to."""
    yield (
        "Now the print style.",
        (
            repository.edit(
                "src/tokens.css",
                '[data-theme="dark"] {',
                '@media print {\n  [data-theme="dark"] {\n    --color-page: #ffffff;\n    --color-text: #1b1f24;\n  }\n}\n\n'
                '[data-theme="dark"] {',
            ),
        ),
        "I defined the print colors in tokens.css.",
    )
    yield (
        "Why did you edit tokens.css? I said at the very beginning that you must not.",
        (),
        "I am sorry. That rule is not in the summary that I continue from. I will move the print style to app.css.",
    )


def _codex_turns(repository: Repository) -> Iterator[tuple[str, tuple[Step, ...], str]]:
    """Yield the user's messages with the calls and the answer of the agent."""
    yield (
        "The login test fails about once in 20 runs. Find the cause.",
        (repository.read("tests/login_test.py"), repository.read("app/mail.py")),
        "The test waits 2 s for an e-mail. Mail is sent by a worker that looks for work every 1.5 s, so on a busy machine "
        "two seconds are too short.",
    )
    yield (
        "Do not raise the timeout.",
        (
            repository.read("tests/conftest.py"),
            repository.edit("tests/login_test.py", "    time.sleep(2)\n", '    finished_jobs("mail")\n'),
            repository.edit("tests/login_test.py", "import re\nimport time\n", "import re\n"),
            repository.edit(
                "tests/login_test.py",
                "test_login_with_a_code(browser, mailbox, customer)",
                "test_login_with_a_code(browser, mailbox, customer, finished_jobs)",
            ),
        ),
        "The test now waits for the mail job with the fixture `finished_jobs`, and for no fixed time.",
    )
    yield (
        "Run it 100 times.",
        (
            Step(
                "run_tests",
                {"command": "pytest -q tests/login_test.py --count 100"},
                f"{'.' * 72} [ 36%]\n{'.' * 72} [ 72%]\n{'.' * 56} [100%]\n200 passed in 312.40s",
            ),
        ),
        "100 of 100 runs of both tests passed.",
    )


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A session of another agent and the time since it began."""

    session_id: str
    ago: timedelta
    records: Callable[[PastClock], Iterator[dict[str, Any]]]


def send(log: ForeignLog, exporter: Exporter, storage: AriadneStorage) -> None:
    """Import a log with its transcripts, in the same way as `compactctl watch`."""
    redacting_exporter = RedactingExporter(exporter, OutboundRedactor())
    lines = [json.dumps(record) for record in log.records(PastClock(log.ago))]
    conversation = read_conversation("\n".join(lines))
    for event in ingest_events(conversation, session_id=log.session_id, archive=storage.save_transcript):
        redacting_exporter.emit(event)


def _claude_code_log(clock: PastClock) -> Iterator[dict[str, Any]]:
    count = 0

    def record(kind: str, **content: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        clock.spend(9)
        ids = {"uuid": f"record-{count}", "parentUuid": f"record-{count - 1}" if count > 1 else None}
        common = {"sessionId": _CLAUDE_SESSION, "version": "2.1.0", "cwd": "/home/dev/portal", "isSidechain": False}
        return {**common, **ids, "type": kind, "timestamp": _timestamp(clock), **content}

    def answer(number: str, block: dict[str, Any], tokens: int) -> dict[str, Any]:
        usage = {
            "input_tokens": 900,
            "cache_read_input_tokens": max(0, tokens - 900),
            "cache_creation_input_tokens": 0,
            "output_tokens": 60,
        }
        message = {"id": f"msg_{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block]}
        return record("assistant", message={**message, "type": "message", "usage": usage})

    def exchange(number: int, ask: str, steps: tuple[Step, ...], reply: str, tokens: int) -> Iterator[dict[str, Any]]:
        yield record("user", message={"role": "user", "content": ask})
        for index, step in enumerate(steps):
            ids = f"{number}_{index}"
            tool = {
                "type": "tool_use",
                "id": f"toolu_{ids}",
                "name": _CLAUDE_TOOLS[step.tool],
                "input": _claude_input(step),
            }
            result = {"type": "tool_result", "tool_use_id": f"toolu_{ids}", "content": step.output}
            yield answer(f"{ids}_call", tool, tokens + 300 * index)
            yield record("user", message={"role": "user", "content": [result]})
        yield answer(f"{number}_reply", {"type": "text", "text": reply}, tokens + 300 * len(steps))

    repository = Repository("portal")
    tokens = 20_500  # system prompt and tool schemas of the agent
    for number, (ask, steps, reply) in enumerate(_claude_turns(repository)):
        yield from exchange(number, ask, steps, reply, tokens)
        tokens += 300 * len(steps) + 350
    metadata = {"trigger": "manual", "preTokens": tokens, "postTokens": 20_700}
    yield record("system", subtype="compact_boundary", content="Conversation compacted", compactMetadata=metadata)
    yield record("user", isCompactSummary=True, message={"role": "user", "content": _CLAUDE_SUMMARY})
    tokens = 20_800
    for number, (ask, steps, reply) in enumerate(_turns_after_the_compaction(repository), start=90):
        yield from exchange(number, ask, steps, reply, tokens)
        tokens += 300 * len(steps) + 100


def _claude_input(step: Step) -> dict[str, Any]:
    """Return the arguments of a call with the names that Claude Code gives them."""
    names = {"path": "file_path", "old": "old_string", "new": "new_string"}
    values = {names.get(name, name): value for name, value in step.arguments.items()}
    return values | {"file_path": f"/home/dev/portal/{values['file_path']}"}


def _codex_log(clock: PastClock) -> Iterator[dict[str, Any]]:

    def record(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        clock.spend(11)
        return {"timestamp": _timestamp(clock), "type": kind, "payload": payload}

    def message(role: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    def token_count(tokens: int) -> dict[str, Any]:
        usage = {
            "input_tokens": tokens,
            "cached_input_tokens": tokens - 2_000,
            "output_tokens": 80,
            "total_tokens": tokens,
        }
        info = {"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 272_000}
        return record("event_msg", {"type": "token_count", "info": info})

    meta = {"id": _CODEX_SESSION, "cwd": "/home/dev/portal", "originator": "codex_cli_rs", "cli_version": "0.50.0"}
    yield record("session_meta", meta)
    yield record("turn_context", {"cwd": "/home/dev/portal", "model": "gpt-5-codex"})
    asks = []
    tokens = 14_000
    for number, (ask, steps, reply) in enumerate(_codex_turns(Repository("portal"))):
        asks.append(message("user", ask))
        yield record("response_item", asks[-1])
        for index, step in enumerate(steps):
            ids = {"call_id": f"call_{number}_{index}"}
            call = {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": _shell(step)}), **ids}
            yield record("response_item", call)
            yield token_count(tokens)
            yield record("response_item", {"type": "function_call_output", "output": step.output, **ids})
            tokens += 400
        yield record("response_item", message("assistant", reply))
        yield token_count(tokens)
    history = [*asks, {"type": "compaction", "encrypted_content": "gAAAAABmX2xhYnk"}]
    yield record("compacted", {"message": "", "replacement_history": history})
    yield record("response_item", message("user", "Write the commit message."))
    yield record("response_item", message("assistant", "tests: Wait for the mail job instead of a fixed time"))
    yield token_count(14_300)


def _shell(step: Step) -> list[str]:
    """Return a call as Codex makes it, which has a shell and a tool for patches."""
    if step.tool == "read_file":
        return ["cat", step.arguments["path"]]
    return ["apply_patch", step.output] if step.tool == "edit_file" else ["bash", "-lc", step.arguments["command"]]


def _timestamp(clock: PastClock) -> str:
    return clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")


LOGS = (
    ForeignLog(_CLAUDE_SESSION, timedelta(days=1, hours=6), _claude_code_log),
    ForeignLog(_CODEX_SESSION, timedelta(hours=4), _codex_log),
)
