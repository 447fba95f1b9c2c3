"""Run the programs and commands of the documentation pages."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compact import load_config
from conversations import conversation
from docs.openai_endpoint import OpenAIEndpoint
from docs.pages import LANGUAGES, PAGES, ROOT, Block, blocks, commands, name, program
from live_server import Server

Environment = dict[str, str]
README = ROOT / "README.md"


@pytest.fixture
def endpoint() -> Iterator[OpenAIEndpoint]:
    with OpenAIEndpoint() as running:
        yield running


@pytest.fixture
def environment(server: Server, endpoint: OpenAIEndpoint, tmp_path: Path) -> Environment:
    """The environment that the pages require: a server with a key and a model endpoint, both local."""
    return {
        **os.environ,
        # As in an activated virtual environment, so that `compactctl` is on the path.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "ARIADNE_URL": server.url,
        "ARIADNE_API_KEY": server.ingest_key,
        "OPENAI_BASE_URL": endpoint.url,
        "OPENAI_API_KEY": "none",
        # The SDK would upload its traces to OpenAI.
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "COMPACT_SPOOL_DIR": str(tmp_path / "spool"),
        "HOME": str(_home_with_agent_logs(tmp_path)),
    }


def _home_with_agent_logs(folder: Path) -> Path:
    """A home directory of a person who uses Claude Code and Codex."""
    logs = ROOT / "tests" / "fixtures" / "logs"
    for agent, place in (("claude_code", ".claude/projects/app"), ("codex", ".codex/sessions/2026/11/16")):
        target = folder / "home" / place / ("session.jsonl" if agent == "claude_code" else "rollout-1.jsonl")
        target.parent.mkdir(parents=True)
        shutil.copy(logs / f"{agent}.jsonl", target)
    return folder / "home"


def _run(command: list[str], environment: Environment, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110, check=False
    )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_has_a_known_language(page: Path) -> None:
    """A block without a known language would not be tested."""
    assert {block.language for block in blocks(page)} <= LANGUAGES


@pytest.mark.req("P-DOC-1")
@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks(page, "python")],
    ids=lambda block: f"{name(block.page)}:{block.line}",
)
def test_every_block_runs_when_it_is_copied(block: Block, environment: Environment, tmp_path: Path) -> None:
    """It runs alone, or with the block that it says it continues, without errors, and without warnings of ours."""
    file = tmp_path / "page.py"
    file.write_text(program(block))
    result = _run([sys.executable, str(file)], environment, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "[Ariadne]" not in result.stderr, result.stderr


@pytest.mark.req("P-KR-6", "P-DOC-1")
@pytest.mark.parametrize("number", [0, 1], ids=["any loop", "framework"])
def test_readme_programs_run_alone_and_print_what_they_say(
    number: int, environment: Environment, tmp_path: Path
) -> None:
    """Each program of the README compacts offline, without names from another block, and prints the shown output."""
    block = blocks(README, "python")[number]
    shown = next(text for text in blocks(README, "text") if text.line > block.line)
    (tmp_path / "program.py").write_text(block.text)
    offline = {key: value for key, value in environment.items() if not key.startswith("OPENAI_")}
    result = _run([sys.executable, "program.py"], offline, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.strip() == shown.text.strip()
    assert "tokens saved" in result.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")], ids=name)
def test_configuration_is_valid(page: Path, tmp_path: Path) -> None:
    """Every configuration on a page can be loaded."""
    for block in blocks(page, "yaml"):
        file = tmp_path / "compact.yaml"
        file.write_text(block.text)
        assert load_config(file, environ={}).model


def _run_in_shell(command: str, environment: Environment, folder: Path) -> None:
    result = _run(["bash", "-euo", "pipefail", "-c", command], environment, folder)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"


def _curl(command: str, environment: Environment, folder: Path) -> None:
    _run_in_shell(command.replace("curl ", "curl --fail-with-body ", 1), environment, folder)


def _make(command: str, environment: Environment, folder: Path) -> None:
    """Check only that the target exists. tests/test_up.py runs `make up`, and `make test` runs this test."""
    clean = {key: value for key, value in environment.items() if not key.startswith("MAKE")}
    result = _run(["make", "--dry-run", "--always-make", *shlex.split(command)[1:]], clean, ROOT)
    assert result.returncode == 0, result.stderr


def _pip(command: str, environment: Environment, folder: Path) -> None:
    """Check that the distribution and its extras exist. tests/docs/test_wheels.py installs them."""
    for requirement in shlex.split(command)[2:]:
        match = re.fullmatch(r"(compact-client|ariadne-server)(?:\[([\w,-]+)\])?", requirement)
        assert match, f"{requirement} is not one of our distributions"
        folder = ROOT / "compact_client" if match[1] == "compact-client" else ROOT
        extras = tomllib.loads((folder / "pyproject.toml").read_text())["project"].get("optional-dependencies", {})
        assert set(filter(None, (match[2] or "").split(","))) <= set(extras), requirement


RUNNERS: dict[str, Callable[[str, Environment, Path], None]] = {
    "make": _make,
    "pip": _pip,
    "curl": _curl,
    "compactctl": _run_in_shell,
}


@pytest.mark.req("P-DOC-1")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=name)
def test_commands_work(page: Path, environment: Environment, tmp_path: Path) -> None:
    """Every command of a page has a runner and succeeds."""
    # On the pages, history.json is a conversation of the reader.
    (tmp_path / "history.json").write_text(json.dumps(conversation(60)))
    for command in commands(page):
        runner = RUNNERS.get(command.split()[0])
        assert runner, f"{name(page)}: no runner for `{command}`"
        runner(command, environment, tmp_path)


def _links(page: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    """Every relative link of a page points to an existing file."""
    assert [link for link in _links(page) if not (page.parent / link).exists()] == []


def test_program_keeps_line_numbers() -> None:
    """A traceback of a program shows the line numbers of its page."""
    block: Block = blocks(README, "python")[1]
    assert program(block).splitlines()[block.line - 1] == block.text.splitlines()[0]
