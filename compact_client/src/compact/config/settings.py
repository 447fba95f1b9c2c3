"""The one table of settings: names, types, defaults, limits, and where each value came from.

Read from a file (YAML or JSON), then the `COMPACT_*` environment, then code. What makes no sense is named by its path,
with what was given and where: `policy.trigger_pct must be 0.0-1.0 ('1.5', from environment COMPACT_TRIGGER_PCT)`.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from compact.exceptions import ConfigError
from compact.policy import CompactPolicy

FILES = ("compact.yaml", "compact.yml", "compact.json")
# Read elsewhere, and no settings of the manager.
OTHER_VARIABLES = {"COMPACT_CONFIG", "COMPACT_SPOOL_DIR"}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Telemetry(_Section):
    """Where events go."""

    exporter: tuple[Literal["none", "console", "ariadne", "otlp", "custom"], ...] = Field(
        default=("none",), description="one or several of none, console, ariadne, otlp, custom"
    )
    url: str | None = Field(default=None, description="the Ariadne server; default ARIADNE_URL")
    api_key: SecretStr | None = Field(default=None, description="its ingest key; better in ARIADNE_API_KEY")
    otlp_endpoint: str | None = Field(default=None, description="an OTLP/HTTP receiver; default OTEL_EXPORTER_OTLP_*")
    spool_dir: str = Field(
        default="", description="where events wait while the server is away; default COMPACT_SPOOL_DIR"
    )
    custom: str | None = Field(default=None, description="module:callable that returns an exporter")

    @field_validator("exporter", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class Storage(_Section):
    """Where transcripts are archived before anything is pruned."""

    adapter: Literal["none", "fs", "s3", "ariadne", "database", "custom"] = Field(
        default="none", description="none, fs, s3, ariadne, database (SQLite) or custom"
    )
    path: str = Field(default="./.compact/archive", description="directory (fs) or file (database)")
    retention_days: float | None = Field(default=None, gt=0, description="delete older archives (fs, database)")
    bucket: str | None = Field(default=None, description="S3 bucket")
    prefix: str = Field(default="compact", description="S3 prefix")
    kms_key_id: str | None = Field(default=None, description="encrypt with this KMS key")
    region: str | None = Field(default=None, description="AWS region")
    endpoint_url: str | None = Field(default=None, description="an S3-compatible server")
    require_role: bool = Field(default=True, description="refuse fixed AWS keys; credentials come from a role")
    url: str | None = Field(default=None, description="the Ariadne server; default ARIADNE_URL")
    api_key: SecretStr | None = Field(default=None, description="its ingest key; better in ARIADNE_API_KEY")
    required: bool = Field(default=True, description="a failed archive stops the pruning")
    custom: str | None = Field(default=None, description="module:callable that returns a storage adapter")


class Redaction(_Section):
    """What is hidden on every way out."""

    enabled: bool = Field(default=True, description="hide secrets before export and storage")
    pii: bool = Field(default=True, description="also cards, e-mail, phone numbers, national ids")
    patterns: tuple[str, ...] = Field(default=(), description="regular expressions of your own")
    allow: tuple[str, ...] = Field(default=(), description="rules (email) or texts (*@example.com) that may pass")

    @field_validator("patterns")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        import re

        for number, pattern in enumerate(patterns):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"[{number}] is not a regular expression: {error}") from None
        return patterns


class Summarizer(_Section):
    """Who writes summaries."""

    kind: Literal["extractive", "model", "custom"] = Field(
        default="extractive", description="extractive (no network), model (OpenAI-compatible endpoint) or custom"
    )
    model: str | None = Field(default=None, description="the cheapest model that will do; default the agent's own")
    base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint; default OPENAI_BASE_URL")
    api_key: SecretStr | None = Field(default=None, description="better in OPENAI_API_KEY")
    background: bool = Field(default=False, description="begin shortly before the trigger, so that no call waits")
    custom: str | None = Field(default=None, description="module:callable that returns a summarizer")


class Settings(_Section):
    """Everything that can be set in a file or by the environment."""

    model: str = Field(default="gpt-5", description="the agent's model: decides how tokens are counted")
    max_context_tokens: int | None = Field(default=128_000, gt=0, description="its window; null if unknown")
    policy: CompactPolicy = Field(default_factory=CompactPolicy, description="when to compact, what to keep")
    token_estimator: Literal["tiktoken", "noop"] = Field(default="tiktoken", description="tiktoken or noop (bytes / 3)")
    summarizer: Summarizer = Summarizer()
    telemetry: Telemetry = Telemetry()
    storage: Storage = Storage()
    redaction: Redaction = Redaction()


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and for each path the place its value came from."""

    settings: Settings
    sources: Mapping[str, str]


def resolve(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    code: Mapping[str, Any] | None = None,
) -> Resolved:
    """Merge file, environment and code; raises ConfigError naming every field that is wrong."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    file = _find(path, environ)
    if file is not None:
        _lay_over(values, sources, _read(file), f"file {file}")
    _lay_over(values, sources, _from_environment(environ), "environment")
    for name, variable in _variables(environ):
        sources[name] = f"environment {variable}"
    _lay_over(values, sources, dict(code or {}), "code")
    problems = [*_unknown(values)]
    if not problems:
        try:
            return Resolved(Settings.model_validate(values), sources)
        except ValidationError as error:
            problems = [_problem(item) for item in error.errors()]
    raise _error(problems, values, sources)


def paths(model: type[Any] = Settings, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every setting: its path, its default and what it means."""
    for name, annotation, default, description in _table(model):
        if _is_section(annotation):
            yield from paths(annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", default, description


def variable_of(path: str) -> str:
    """The environment variable of a setting; those of the policy need no POLICY."""
    return "COMPACT_" + path.removeprefix("policy.").replace(".", "_").upper()


def value_at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """COMPACT_* variables that set nothing: probably mistyped."""
    known = {variable for path, _, _ in paths() for variable in _names(path)} | OTHER_VARIABLES
    return sorted(name for name in environ if name.startswith("COMPACT_") and name not in known)


def _names(path: str) -> tuple[str, ...]:
    long = "COMPACT_" + path.replace(".", "_").upper()
    return (variable_of(path), long) if long != variable_of(path) else (long,)


def _variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, _, _ in paths():
        for name in _names(path):
            if name in environ:
                yield path, name


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    hints = {path: _hint(path) for path, _ in _variables(environ)}
    for path, variable in _variables(environ):
        *parents, name = path.split(".")
        target = values
        for parent in parents:
            target = target.setdefault(parent, {})
        target[name] = _parse(environ[variable], hints[path])
    return values


def _parse(text: str, hint: Any) -> Any:
    if _is_sequence(hint):
        stripped = text.strip()
        return (
            json.loads(stripped)
            if stripped.startswith("[")
            else [part.strip() for part in text.split(",") if part.strip()]
        )
    return None if text.strip().lower() in ("null", "none", "") and type(None) in get_args(hint) else text


def _is_sequence(hint: Any) -> bool:
    return get_origin(hint) in (tuple, list)


def _hint(path: str) -> Any:
    model: Any = Settings
    *parents, name = path.split(".")
    for parent in parents:
        model = _hints(model)[parent]
    return _hints(model)[name]


def _hints(model: Any) -> dict[str, Any]:
    if is_dataclass(model):
        return get_type_hints(model)
    return {name: info.annotation for name, info in model.model_fields.items()}


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and (issubclass(annotation, _Section) or is_dataclass(annotation))


def _table(model: Any) -> Iterator[tuple[str, Any, Any, str]]:
    if is_dataclass(model):
        hints = get_type_hints(model)
        for item in fields(model):
            yield item.name, hints[item.name], item.default, ""
        return
    for name, info in model.model_fields.items():
        yield name, info.annotation, info.get_default(call_default_factory=True), info.description or ""


def _find(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path | None:
    named = path or environ.get("COMPACT_CONFIG")
    if named:
        return Path(named)
    return next((Path(name) for name in FILES if Path(name).is_file()), None)


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
    except OSError as error:
        raise ConfigError(str(file), f"cannot be read: {error.strerror}") from None
    try:
        # Every JSON document is YAML too, but JSON's own parser says better what is wrong with it.
        content = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(str(file), f"is not valid: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(str(file), "must hold settings by name")
    return content


def _lay_over(
    values: dict[str, Any], sources: dict[str, str], more: Mapping[str, Any], source: str, at: str = ""
) -> None:
    for name, given in more.items():
        path = f"{at}{name}"
        is_record = is_dataclass(given) and not isinstance(given, type)
        value = {item.name: getattr(given, item.name) for item in fields(given)} if is_record else given
        if isinstance(value, Mapping) and isinstance(values.get(name, {}), dict):
            _lay_over(values.setdefault(name, {}), sources, value, source, f"{path}.")
        else:
            values[name] = value
            sources[path] = source


def _unknown(values: Mapping[str, Any], model: Any = Settings, at: str = "") -> Iterator[tuple[str, str]]:
    hints = _hints(model)
    for name, value in values.items():
        if name not in hints:
            near = difflib.get_close_matches(str(name), hints, n=1)
            yield f"{at}{name}", f"is not a setting{f'; did you mean {at}{near[0]}?' if near else ''}"
        elif isinstance(value, Mapping) and _is_section(hints[name]):
            yield from _unknown(value, hints[name], f"{at}{name}.")


def _problem(item: Any) -> tuple[str, str]:
    inner = (item.get("ctx") or {}).get("error")
    if isinstance(inner, ConfigError):
        return inner.path, inner.problem
    path = ".".join(str(part) for part in item["loc"] if not (isinstance(part, str) and part.startswith("function-")))
    message = item["msg"].removeprefix("Value error, ")
    if message.startswith("["):
        return f"{path}{message.split(']')[0]}]", message.split("] ", 1)[1]
    return path, _plain(message)


def _plain(message: str) -> str:
    for given, said in (
        ("Input should be ", "must be "),
        ("Field required", "is missing"),
        ("Extra inputs are not permitted", "is not a setting"),
    ):
        if message.startswith(given):
            return said + message.removeprefix(given)
    return message[:1].lower() + message[1:]


def _error(problems: Sequence[tuple[str, str]], values: Mapping[str, Any], sources: Mapping[str, str]) -> ConfigError:
    lines = []
    for path, problem in problems:
        given: Any = values
        for part in path.split("."):
            given = given.get(part) if isinstance(given, Mapping) else None
        shown = "" if given is None or isinstance(given, Mapping) or "key" in path else f"{given!r}, "
        source = sources.get(path) or next((sources[name] for name in sources if path.startswith(f"{name}.")), "")
        lines.append((path, f"{problem} ({shown}from {source})" if source else problem))
    first_path, first_problem = lines[0]
    rest = "".join(f"\n{path} {problem}" for path, problem in lines[1:])
    return ConfigError(first_path, first_problem + rest)
