"""Configuration: file, environment, code; every value with a default, every mistake with its path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compact import (
    CompactConfig,
    CompactManager,
    CompactPolicy,
    ConfigError,
    ConsoleExporter,
    FileStorage,
    Message,
    MultiExporter,
    load_config,
)
from compact.config.settings import paths, resolve, unknown_variables, value_at, variable_of

# Document 000, section 7.1, word for word.
EXAMPLE = r"""
model: "gpt-5-reasoning"      # example
max_context_tokens: 128000
policy:
  trigger_pct: 0.85
  hard_cap_buffer: 1500
  keep_recent_turns: 6
  keep_tool_io_pairs: 4
  roles_never_prune: ["system","developer"]
  protected_flag: "protected"
  strategy: "task_state"
telemetry:
  exporter: "console"         # console | otlp | custom
storage:
  adapter: "fs"               # fs | s3 | custom
  path: "./.compact/archive"
redaction:
  enabled: true
  patterns:
    - "(?i)api[_-]?key\\s*[:=]\\s*\\S+"
    - "(?i)password\\s*[:=]\\s*\\S+"
"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    file = tmp_path / "compact.yaml"
    file.write_text(EXAMPLE)
    return file


@pytest.mark.req("S-CFG-1", "P-KR-6")
def test_the_documented_file_works_as_it_stands(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file and two lines of code: a manager that compacts, archives and tells."""
    monkeypatch.chdir(example.parent)
    config = load_config(example, environ={})
    assert isinstance(config.exporter, ConsoleExporter)
    assert isinstance(config.storage, FileStorage)
    assert config.policy == CompactPolicy()
    manager = CompactManager(config)
    assert manager.preflight("s", [Message("user", "hello")]) == [Message("user", "hello")]


@pytest.mark.req("S-CFG-1")
def test_json_is_read_too(tmp_path: Path) -> None:
    """The same settings, as JSON."""
    file = tmp_path / "compact.json"
    file.write_text(json.dumps({"model": "m", "policy": {"keep_recent_turns": 3}}))
    assert load_config(file, environ={}).policy.keep_recent_turns == 3


@pytest.mark.req("S-CFG-1")
def test_everything_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, no environment: the defaults of the specification."""
    monkeypatch.chdir(tmp_path)
    policy = load_config(environ={}).policy
    assert (policy.trigger_pct, policy.hard_cap_buffer, policy.strategy) == (0.85, 1500, "task_state")
    assert (policy.keep_recent_turns, policy.keep_tool_io_pairs) == (6, 4)
    assert policy.roles_never_prune == ("system", "developer")


@pytest.mark.req("S-CFG-1")
def test_the_environment_wins_over_the_file_and_code_over_both(example: Path) -> None:
    """COMPACT_TRIGGER_PCT=0.9 beats the 0.85 of the file; what the program says beats both."""
    environ = {"COMPACT_TRIGGER_PCT": "0.9", "COMPACT_STORAGE_PATH": "elsewhere"}
    resolved = resolve(example, environ=environ)
    assert resolved.settings.policy.trigger_pct == 0.9
    assert resolved.settings.storage.path == "elsewhere"
    assert resolved.sources["policy.trigger_pct"] == "environment COMPACT_TRIGGER_PCT"
    assert resolved.sources["model"] == f"file {example}"
    assert load_config(example, environ=environ, policy={"trigger_pct": 0.7}).policy.trigger_pct == 0.7
    assert load_config(example, environ=environ, policy=CompactPolicy(trigger_pct=0.6)).policy.trigger_pct == 0.6
    assert resolve(example, environ={"COMPACT_POLICY_TRIGGER_PCT": "0.8"}).settings.policy.trigger_pct == 0.8


def test_the_file_is_found_where_it_usually_lies(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """compact.yaml in the working directory, or what COMPACT_CONFIG names."""
    monkeypatch.chdir(example.parent)
    assert load_config(environ={}).model == "gpt-5-reasoning"
    (example.parent / "other.yaml").write_text("model: other")
    assert load_config(environ={"COMPACT_CONFIG": "other.yaml"}).model == "other"


@pytest.mark.req("S-CFG-1")
def test_every_setting_can_come_from_the_environment() -> None:
    """Whatever is in the table is read from the variable the table names."""
    for path, default, _ in paths():
        text = ",".join(default) if isinstance(default, tuple) else default
        resolved = resolve(environ={variable_of(path): "" if text is None else str(text)})
        assert resolved.sources[path] == f"environment {variable_of(path)}"
        assert value_at(resolved.settings, path) == default


@pytest.mark.req("S-CFG-1")
@pytest.mark.parametrize(
    ("environ", "code", "message"),
    [
        ({"COMPACT_TRIGGER_PCT": "9"}, {}, "trigger_pct must be 0.0-1.0 ('9', from environment COMPACT_TRIGGER_PCT)"),
        ({}, {"policy": {"keep_recent_turns": "many"}}, "policy.keep_recent_turns must be a valid integer"),
        ({}, {"policy": {"trigger_pc": 1}}, "policy.trigger_pc is not a setting; did you mean policy.trigger_pct?"),
        ({}, {"storage": {"adapter": "ftp"}}, "storage.adapter must be 'none', 'fs', 's3'"),
        ({}, {"redaction": {"patterns": ["a", "("]}}, "redaction.patterns[1] is not a regular expression"),
        ({}, {"policy": {"strategy": "poem"}}, "policy.strategy must be one of task_state, brief"),
        ({"COMPACT_MAX_CONTEXT_TOKENS": "0"}, {}, "max_context_tokens must be greater than 0"),
        ({}, {"storage": {"adapter": "s3"}}, "storage.bucket is needed"),
        ({}, {"telemetry": {"exporter": "custom"}}, "telemetry.custom must be module:callable"),
        ({}, {"telemetry": {"exporter": "custom", "custom": "no.such:thing"}}, "telemetry.custom cannot be imported"),
    ],
)  # fmt: skip
def test_mistakes_are_named_by_their_path(environ: dict[str, str], code: dict[str, Any], message: str) -> None:
    """The field, what is wrong with it, what was given and where."""
    with pytest.raises(ConfigError) as caught:
        load_config(environ=environ, **code)
    assert message in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    """Nobody likes to mend a file one error at a time."""
    with pytest.raises(ConfigError) as caught:
        load_config(environ={"COMPACT_TRIGGER_PCT": "x", "COMPACT_KEEP_RECENT_TURNS": "y"})
    assert str(caught.value).count("must be") == 2


@pytest.mark.parametrize(
    ("text", "problem"), [("a: [", "is not valid"), ("- 1", "must hold settings by name"), (None, "cannot be read")]
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, problem: str) -> None:
    """The error names the file, not a line of ours."""
    file = tmp_path / "c.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_config(file, environ={})
    assert str(file) in str(caught.value)


def test_a_key_is_never_shown(tmp_path: Path) -> None:
    """Not in the settings' text, not in an error."""
    settings = resolve(environ={"COMPACT_TELEMETRY_API_KEY": "hunter2"}).settings
    assert "hunter2" not in repr(settings)
    with pytest.raises(ConfigError) as caught:
        load_config(environ={}, telemetry={"api_key": ["hunter2"]})
    assert "hunter2" not in str(caught.value)


def test_several_exporters_and_own_parts(tmp_path: Path) -> None:
    """A list of exporters becomes one; objects given in code are used as they are."""
    config = load_config(environ={"COMPACT_TELEMETRY_EXPORTER": "console,console"}, storage=FileStorage(tmp_path))
    assert isinstance(config.exporter, MultiExporter)
    assert isinstance(config.storage, FileStorage)
    assert config.storage.path == tmp_path
    made = load_config(environ={}, telemetry={"exporter": "custom", "custom": "compact:ConsoleExporter"})
    assert isinstance(made.exporter, ConsoleExporter)
    database = load_config(environ={}, storage={"adapter": "database", "path": str(tmp_path / "a.db")})
    assert database.storage.name == "database"


def test_a_model_summarizer_is_one_setting_away() -> None:
    """Named in a file, with its own cheaper model; the agent's model is the default."""
    from compact.summarizers import ModelSummarizer

    cheap = load_config(environ={}, summarizer={"kind": "model", "model": "small", "base_url": "http://127.0.0.1:1/v1"})
    assert isinstance(cheap.summarizer, ModelSummarizer)
    assert cheap.summarizer.model == "small"
    same = load_config(environ={"COMPACT_SUMMARIZER_KIND": "model"}, model="big").summarizer
    assert same.model == "big"


def test_a_model_may_summarise_in_the_background() -> None:
    """One setting makes the model begin before its summary is needed."""
    made = load_config(environ={"COMPACT_SUMMARIZER_KIND": "model", "COMPACT_SUMMARIZER_BACKGROUND": "true"}).summarizer
    assert callable(made.prepare)


def test_mistyped_variables_are_found() -> None:
    """A variable that sets nothing is probably a typing error."""
    assert unknown_variables({"COMPACT_TRIGER_PCT": "1", "COMPACT_TRIGGER_PCT": "1", "COMPACT_SPOOL_DIR": "x"}) == [
        "COMPACT_TRIGER_PCT"
    ]


def test_importing_the_library_loads_nothing_optional() -> None:
    """`import compact` is quick: no pydantic, no HTTP client, no SDK until something needs it."""
    code = (
        "import sys, compact; print([name for name in ('pydantic', 'yaml', 'httpx', 'tiktoken', 'boto3', "
        "'opentelemetry', 'agents', 'rich', 'django', 'langchain', 'anthropic') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_policy_may_be_a_dict():
    """As in a file; what makes no sense is named before the first call."""
    assert CompactConfig("gpt-5", 128_000, policy={"trigger_pct": 0.5}).policy.trigger_pct == 0.5
    with pytest.raises(ConfigError, match="policy must be a CompactPolicy"):
        CompactConfig("gpt-5", 128_000, policy=0.5)
    with pytest.raises(ConfigError, match="max_context_tokens"):
        CompactConfig("gpt-5", "128000")
