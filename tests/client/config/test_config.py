"""Settings come from a file, the environment and code, have defaults, and errors name the setting and its source."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import tool_pair
from compact import (
    CompactConfig,
    CompactManager,
    CompactPolicy,
    ConfigError,
    ConsoleExporter,
    DatabaseStorage,
    FileStorage,
    Message,
    MultiExporter,
    load_config,
)
from compact.config.settings import SETTINGS
from compact.config.sources import resolve, unknown_variables
from compact.planning.tool_results.durability import ToolDurability

# Verbatim from document 000, section 7.1.
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
def test_documented_file_works_unchanged(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example file and two lines of code give a working manager."""
    monkeypatch.chdir(example.parent)
    config = load_config(example, environ={})
    assert isinstance(config.exporter, ConsoleExporter)
    assert isinstance(config.storage, FileStorage)
    assert config.policy == CompactPolicy()
    manager = CompactManager(config)
    assert manager.preflight("s", [Message("user", "hello")]) == [Message("user", "hello")]


@pytest.mark.req("S-CFG-1")
def test_json_file_is_accepted(tmp_path: Path) -> None:
    """A .json file has the same settings."""
    file = tmp_path / "compact.json"
    file.write_text(json.dumps({"model": "m", "policy": {"keep_recent_turns": 3}}))
    assert load_config(file, environ={}).policy.keep_recent_turns == 3


@pytest.mark.req("S-CFG-1")
def test_every_setting_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file or variables, settings have the defaults of the specification."""
    monkeypatch.chdir(tmp_path)
    policy = load_config(environ={}).policy
    assert (policy.trigger_pct, policy.hard_cap_buffer, policy.strategy) == (0.85, 1500, "task_state")
    assert (policy.keep_recent_turns, policy.keep_tool_io_pairs) == (6, 4)
    assert policy.roles_never_prune == ("system", "developer")


@pytest.mark.req("S-CFG-1")
def test_environment_overrides_file_and_code_overrides_both(example: Path) -> None:
    """COMPACT_TRIGGER_PCT=0.9 overrides 0.85 in the file, and a keyword argument overrides both."""
    environ = {"COMPACT_TRIGGER_PCT": "0.9", "COMPACT_STORAGE_PATH": "elsewhere"}
    resolved = resolve(example, environ=environ)
    assert resolved.settings.policy.trigger_pct == 0.9
    assert resolved.settings.storage.path == "elsewhere"
    assert resolved.sources["policy.trigger_pct"] == "environment COMPACT_TRIGGER_PCT"
    line = 1 + next(n for n, text in enumerate(example.read_text().splitlines()) if text.startswith("model:"))
    assert resolved.sources["model"] == f"file {example}, line {line}"
    assert load_config(example, environ=environ, policy={"trigger_pct": 0.7}).policy.trigger_pct == 0.7
    assert load_config(example, environ=environ, policy=CompactPolicy(trigger_pct=0.6)).policy.trigger_pct == 0.6
    assert resolve(example, environ={"COMPACT_POLICY_TRIGGER_PCT": "0.8"}).settings.policy.trigger_pct == 0.8


def test_file_is_found_by_default_name_or_variable(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is compact.yaml in the working directory, or the one that COMPACT_CONFIG names."""
    monkeypatch.chdir(example.parent)
    assert load_config(environ={}).model == "gpt-5-reasoning"
    (example.parent / "other.yaml").write_text("model: other")
    assert load_config(environ={"COMPACT_CONFIG": "other.yaml"}).model == "other"


@pytest.mark.req("S-CFG-1")
def test_every_setting_has_an_environment_variable() -> None:
    """Each setting is read from the variable that the schema names."""
    for path, setting in SETTINGS.items():
        default = setting.default
        text = ",".join(default) if isinstance(default, tuple) else default
        text = json.dumps(default) if isinstance(default, dict) else text
        resolved = resolve(environ={setting.variable: "" if text is None else str(text)})
        assert resolved.sources[path] == f"environment {setting.variable}"
        assert setting.value_in(resolved.settings) == default


@pytest.mark.req("S-CFG-1")
@pytest.mark.parametrize(
    ("environ", "code", "message"),
    [
        ({"COMPACT_TRIGGER_PCT": "9"}, {}, "trigger_pct must be 0.0-1.0 ('9', from environment COMPACT_TRIGGER_PCT)"),
        ({}, {"policy": {"keep_recent_turns": "many"}}, "policy.keep_recent_turns must be a valid integer"),
        ({}, {"policy": {"trigger_pc": 1}}, "policy.trigger_pc is not a setting. Did you mean policy.trigger_pct?"),
        ({}, {"storage": {"adapter": "ftp"}}, "storage.adapter must be 'none', 'fs', 's3'"),
        ({}, {"redaction": {"patterns": ["a", "("]}}, "redaction.patterns[1] is not a regular expression"),
        ({}, {"policy": {"strategy": "poem"}}, "policy.strategy must be one of task_state, brief"),
        ({"COMPACT_PROTECTED_TOOLS": "[a"}, {}, "policy.protected_tools must be a valid"),
        ({"COMPACT_MAX_CONTEXT_TOKENS": "0"}, {}, "max_context_tokens must be greater than 0"),
        ({}, {"storage": {"adapter": "s3"}}, "storage.bucket is required"),
        ({}, {"telemetry": {"exporter": "custom"}}, "telemetry.custom must be module:callable"),
        ({}, {"telemetry": {"exporter": "custom", "custom": "no.such:thing"}}, "telemetry.custom cannot be imported"),
    ],
)  # fmt: skip
def test_errors_name_the_setting_and_its_source(environ: dict[str, str], code: dict[str, Any], message: str) -> None:
    """An error has the path of the setting, the problem, the value and its source."""
    with pytest.raises(ConfigError) as caught:
        load_config(environ=environ, **code)
    assert message in str(caught.value)


def test_all_errors_are_reported_together() -> None:
    """One exception lists every invalid setting."""
    with pytest.raises(ConfigError) as caught:
        load_config(environ={"COMPACT_TRIGGER_PCT": "x", "COMPACT_KEEP_RECENT_TURNS": "y"})
    assert str(caught.value).count("must be") == 2


@pytest.mark.parametrize(
    ("text", "problem"), [("a: [", "is not valid"), ("- 1", "must be a mapping of settings"), (None, "cannot be read")]
)
def test_unusable_file_is_named_in_the_error(tmp_path: Path, text: str | None, problem: str) -> None:
    """The error has the path of the file."""
    file = tmp_path / "c.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_config(file, environ={})
    assert str(file) in str(caught.value)


def test_keys_are_never_shown(tmp_path: Path) -> None:
    """Neither the repr of the settings nor an error contains a key."""
    settings = resolve(environ={"COMPACT_TELEMETRY_API_KEY": "hunter2"}).settings
    assert "hunter2" not in repr(settings)
    with pytest.raises(ConfigError) as caught:
        load_config(environ={}, telemetry={"api_key": ["hunter2"]})
    assert "hunter2" not in str(caught.value)


def test_several_exporters_and_custom_objects(tmp_path: Path) -> None:
    """A list of exporters becomes a MultiExporter, and objects passed in code are used unchanged."""
    config = load_config(environ={"COMPACT_TELEMETRY_EXPORTER": "console,console"}, storage=FileStorage(tmp_path))
    assert isinstance(config.exporter, MultiExporter)
    assert isinstance(config.storage, FileStorage)
    assert config.storage.path == tmp_path
    custom = load_config(environ={}, telemetry={"exporter": "custom", "custom": "compact:ConsoleExporter"})
    assert isinstance(custom.exporter, ConsoleExporter)
    database = load_config(environ={}, storage={"adapter": "database", "path": str(tmp_path / "a.db")})
    assert database.storage.name == "database"


def test_model_summarizer_defaults_to_the_agents_model() -> None:
    """Settings can select a cheaper model for summaries. The default is the model of the agent."""
    from compact.summarizers import ModelSummarizer

    cheap = load_config(environ={}, summarizer={"kind": "model", "model": "small", "base_url": "http://127.0.0.1:1/v1"})
    assert isinstance(cheap.summarizer, ModelSummarizer)
    assert cheap.summarizer.model == "small"
    same = load_config(environ={"COMPACT_SUMMARIZER_KIND": "model"}, model="big").summarizer
    assert same.model == "big"


def test_background_setting_wraps_the_model_summarizer() -> None:
    """One setting starts the summary before it is needed."""
    environ = {"COMPACT_SUMMARIZER_KIND": "model", "COMPACT_SUMMARIZER_BACKGROUND": "true"}
    assert callable(load_config(environ=environ).summarizer.prepare)


@pytest.mark.req("K-CFG-1")
def test_misspelled_variables_are_reported() -> None:
    """A COMPACT_* variable without a setting is probably a typo."""
    environ = {"COMPACT_TRIGER_PCT": "0.5", "COMPACT_KEEP_RECENT_TURNS": "3", "COMPACT_SPOOL_DIR": "x"}
    text = "COMPACT_TRIGER_PCT is not a setting. Did you mean COMPACT_TRIGGER_PCT?"
    assert [" ".join(problem) for problem in unknown_variables(environ)] == [text]
    with pytest.warns(UserWarning, match=re.escape(text)):
        assert load_config(environ=environ).policy.keep_recent_turns == 3


@pytest.mark.req("K-CFG-1")
def test_all_problems_are_reported_at_once() -> None:
    """Unknown settings, wrong types, several limits of the policy and missing parts are one error."""
    code = {
        "telemetri": {},
        "max_context_tokens": "many",
        "policy": {"trigger_pct": 9, "target_pct": -1, "keep_recent_turns": "x", "strategy": "poem"},
        "redaction": {"patterns": ["("]},
        "rehydration": {"cooldown_turn": 1},
        "tool_durability": {"read": {"durability": "forever"}},
    }
    with pytest.raises(ConfigError) as caught:
        load_config(environ={}, **code)
    assert {line.split()[0] for line in str(caught.value).splitlines()} == {
        "max_context_tokens",
        "policy.keep_recent_turns",
        "policy.strategy",
        "policy.target_pct",
        "policy.trigger_pct",
        "telemetri",
        "redaction.patterns[0]",
        "rehydration.cooldown_turn",
        "tool_durability.read.durability",
    }
    parts = {"storage": {"adapter": "s3"}, "plan_store": {"adapter": "custom"}, "max_context_tokens": 1000}
    with pytest.raises(ConfigError) as caught:
        load_config(environ={}, **parts)
    assert [line.split()[0] for line in str(caught.value).splitlines()] == [
        "storage.bucket",
        "plan_store.custom",
        "max_context_tokens",
    ]


@pytest.mark.req("K-CFG-1")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("protected_tools", "manage_todo_list"),
        ("keep_keys", 5),
        ("trigger_pct", "0.5"),
        ("trigger_pct", None),
        ("soft_trigger_pct", "0.5"),
        ("keep_recent_turns", 2.5),
        ("keep_recent_turns", "6"),
        ("summary_max_tokens", 1e4),
        ("growth_tokens", -1),
        ("overflow_max_retries", -1),
        ("externalize_threshold_tokens", -1),
        ("tool_output_serialization_buffer", 0),
    ],
)
def test_a_policy_with_a_value_of_the_wrong_kind_is_rejected_when_it_is_created(name: str, value: Any) -> None:
    """Not by a TypeError in the middle of a compaction, and a text is not read as a list of letters."""
    with pytest.raises(ConfigError, match=rf"^policy\.{name} must be "):
        CompactPolicy(**{name: value})


@pytest.mark.req("K-CFG-1")
def test_a_window_must_be_larger_than_the_buffer() -> None:
    """A negative budget is rejected when the configuration is created, with both numbers."""
    with pytest.raises(ConfigError, match=r"max_context_tokens must be greater .* 1,500 - 1,500 leaves nothing"):
        CompactConfig("gpt-5", 1500)
    assert CompactConfig("gpt-5", 1501).max_context_tokens == 1501


def test_a_manual_compaction_with_an_unknown_window_keeps_what_the_policy_says() -> None:
    """There is no size to aim at, so the numbers of turns and tool pairs decide alone."""
    manager = CompactManager(CompactConfig("gpt-5", None, policy=CompactPolicy(keep_recent_turns=3)))
    messages = [Message("user" if n % 2 == 0 else "assistant", f"message {n} " + "word " * 40) for n in range(41)]
    prompt = manager.manual_compact("s", messages)
    assert prompt[0].is_summary
    assert prompt[1:] == messages[-7:]
    assert manager.preflight("s", [*messages, Message("assistant", "ok")])[:-1] == prompt


@pytest.mark.req("K-CFG-1")
def test_misuse_in_code_is_reported() -> None:
    """A file name instead of a function, and an assignment that would have no effect."""
    with pytest.raises(ConfigError, match=r"not 'archive.db'. For SQLite: DatabaseStorage\(lambda: sqlite3.connect"):
        DatabaseStorage("archive.db")  # type: ignore[arg-type]
    manager = CompactManager(CompactConfig("gpt-5", 128_000))
    with pytest.raises(AttributeError):
        manager.cfg = CompactConfig("gpt-5", 128_000)  # type: ignore[misc]


class Reverse:
    """A cipher for tests."""

    def encrypt(self, data: bytes, key_id: str) -> bytes:
        return data[::-1]

    decrypt = encrypt


@pytest.mark.req("K-CFG-2")
def test_stores_rehydration_and_durability_are_configured_in_a_file(tmp_path: Path) -> None:
    """A file configures what used to need code. A compaction uses all of it."""
    file = tmp_path / "compact.yaml"
    file.write_text(f"""
model: gpt-5
max_context_tokens: 4000
policy: {{hard_cap_buffer: 100, keep_recent_turns: 1, keep_tool_io_pairs: 0}}
plan_store: {{adapter: fs, path: {tmp_path}/plans}}
artifact_store:
  adapter: fs
  path: {tmp_path}/artifacts
  ttl_seconds: 3600
  encryption_key_id: key-1
  cipher: {__name__}:Reverse
rehydration: {{max_artifacts_per_turn: 1, auto_rehydrate_sensitivities: [public]}}
tool_durability:
  run: {{durability: non_replayable, sensitivity: confidential}}
summarizer: {{kind: model, model: small, window_tokens: 16000}}
""")
    cfg = load_config(file, environ={})
    assert (cfg.rehydration.max_artifacts_per_turn, cfg.rehydration.cooldown_turns) == (1, 2)
    assert cfg.rehydration.auto_rehydrate_sensitivities == {"public"}
    assert cfg.tool_durability["run"].durability is ToolDurability.NON_REPLAYABLE
    cfg = load_config(file, environ={}, summarizer={"kind": "extractive"})
    messages: list[Any] = [{"role": "user", "content": "start"}]
    for number in range(8):
        messages += tool_pair(number, f"result {number} " + "word " * 600)
    CompactManager(cfg).preflight("s", [*messages, {"role": "user", "content": "go on"}])
    assert list((tmp_path / "plans").rglob("*.json"))
    record = json.loads(next((tmp_path / "artifacts").rglob("*.json")).read_text())
    assert (record["metadata"]["ttl_seconds"], record["metadata"]["encryption_key_id"]) == (3600, "key-1")
    assert record["metadata"]["sensitivity"] == "confidential"
    assert b"result" not in base64.b64decode(record["content"])


def test_import_loads_no_optional_package() -> None:
    """`import compact` loads no settings library, HTTP client or SDK."""
    code = (
        "import sys, compact; print([name for name in ('pydantic', 'yaml', 'httpx', 'tiktoken', 'boto3', "
        "'opentelemetry', 'agents', 'rich', 'django', 'langchain', 'anthropic') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_policy_may_be_a_dict():
    """CompactConfig accepts a dict as in a file, and rejects other values when it is created."""
    assert CompactConfig("gpt-5", 128_000, policy={"trigger_pct": 0.5}).policy.trigger_pct == 0.5
    with pytest.raises(ConfigError, match="policy must be a CompactPolicy"):
        CompactConfig("gpt-5", 128_000, policy=0.5)
    with pytest.raises(ConfigError, match="max_context_tokens"):
        CompactConfig("gpt-5", "128000")
