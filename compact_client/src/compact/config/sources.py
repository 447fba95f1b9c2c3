"""Merge settings from a file, the environment and code, and remember the source of each value.

Own code instead of pydantic-settings, which does not report the source of a value and does not read comma-separated
lists or variable names without their section.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import yaml
from pydantic import ValidationError

from compact.config.settings import SETTINGS, Settings, is_section, section_fields
from compact.exceptions import ConfigError

FILES = ("compact.yaml", "compact.yml", "compact.json")
# Variables that are not settings of the manager and are read elsewhere.
OTHER_VARIABLES = {"COMPACT_CONFIG", "COMPACT_SPOOL_DIR"}
_MAX_ROUNDS = 100
_MISSING = object()

# Openings of pydantic's messages, and how to continue a sentence that starts with the path of a setting.
_PHRASES = {
    "Input should be ": "must be ",
    "Field required": "is missing",
    "Extra inputs are not permitted": "is not a setting",
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and the source of each value by path. Defaults have no source."""

    settings: Settings
    sources: Mapping[str, str]


class Problem(NamedTuple):
    """A setting that is invalid, and why."""

    path: str
    message: str


def resolve(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    code: Mapping[str, Any] | None = None,
) -> Resolved:
    """Merge the file, the environment and `code`. Later sources override earlier ones.

    Raises ConfigError with one line for every invalid setting, its value and its source.
    """
    layers = _read_layers(path, os.environ if environ is None else environ, code or {})
    problems = list(_find_unknown(layers.values, Settings))
    values = copy.deepcopy(layers.values)
    for problem in problems:
        _remove(values, problem.path)
    # A policy reports its first problem only. Validate again without the invalid values, to report all at once.
    for _ in range(_MAX_ROUNDS):
        try:
            settings = Settings.model_validate(values)
        except ValidationError as error:
            invalid = [_to_problem(item) for item in error.errors()]
            problems += invalid
            removed = [_remove(values, problem.path) for problem in invalid]
            if not all(removed):
                break
        else:
            if not problems:
                return Resolved(settings, layers.sources)
            break
    raise layers.error(problems)


def _read_layers(path: str | os.PathLike[str] | None, environ: Mapping[str, str], code: Mapping[str, Any]) -> _Layers:
    layers = _Layers()
    file = _find_file(path, environ)
    if file is not None:
        values, lines = _read_file(file)
        layers.add(values, f"file {file}")
        layers.locate(lines)
    for setting in SETTINGS.values():
        for variable in setting.variables:
            if variable in environ:
                value = _parse(environ[variable], setting.annotation)
                layers.add(_nest(setting.path, value), f"environment {variable}")
    layers.add(code, "code")
    return layers


def _remove(values: dict[str, Any], path: str) -> bool:
    """Remove the value at a path, or the nearest one above it. Return False if there is none."""
    parts = path.partition("[")[0].split(".")
    for depth in range(len(parts), 0, -1):
        section: Any = values
        for part in parts[: depth - 1]:
            section = section.get(part) if isinstance(section, dict) else None
        if isinstance(section, dict) and section.pop(parts[depth - 1], _MISSING) is not _MISSING:
            return True
    return False


def unknown_variables(environ: Mapping[str, str]) -> list[Problem]:
    """Return the COMPACT_* variables that match no setting, with the name that was probably meant."""
    names = {variable for setting in SETTINGS.values() for variable in setting.variables} | OTHER_VARIABLES
    unknown = sorted(name for name in environ if name.startswith("COMPACT_") and name not in names)
    return [Problem(name, f"is not a setting{_hint(name, names)}") for name in unknown]


def _hint(name: str, names: Iterable[str], prefix: str = "") -> str:
    similar = difflib.get_close_matches(name, names, n=1)
    return f". Did you mean {prefix}{similar[0]}?" if similar else ""


@dataclass(slots=True)
class _Layers:
    """Merged values as nested dicts, and the source of each by path."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def add(self, layer: Mapping[str, Any], source: str) -> None:
        """Override the values so far with those of a layer."""
        self._merge(self.values, layer, source, "")

    def _merge(self, target: dict[str, Any], layer: Mapping[str, Any], source: str, prefix: str) -> None:
        for name, given in layer.items():
            value = _as_mapping(given) if is_dataclass(given) else given
            if isinstance(value, Mapping):
                if not isinstance(target.get(name), dict):
                    target[name] = {}
                if not value:
                    self.sources[f"{prefix}{name}"] = source
                self._merge(target[name], value, source, f"{prefix}{name}.")
            else:
                target[name] = value
                self.sources[f"{prefix}{name}"] = source

    def locate(self, lines: Mapping[str, int]) -> None:
        """Add the line numbers of a file to the sources."""
        for path, source in self.sources.items():
            if path in lines:
                self.sources[path] = f"{source}, line {lines[path]}"

    def error(self, problems: list[Problem]) -> ConfigError:
        """Return one error with a line for each problem, its value and its source."""
        return config_error([self._explain(problem) for problem in problems])

    def _explain(self, problem: Problem) -> Problem:
        path, message = problem
        value: Any = self.values
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        # Never show the value of a key.
        shown = "" if value is None or isinstance(value, Mapping) or "key" in path else f"{value!r}, "
        sources = (source for name, source in self.sources.items() if path == name or path.startswith(f"{name}."))
        source = next(sources, None)
        return Problem(path, f"{message} ({shown}from {source})" if source else message)


def config_error(problems: Sequence[Problem]) -> ConfigError:
    """Return one error with a line for each problem."""
    rest = "".join(f"\n{problem.path} {problem.message}" for problem in problems[1:])
    return ConfigError(problems[0].path, problems[0].message + rest)


def _as_mapping(section: Any) -> dict[str, Any]:
    return {item.name: getattr(section, item.name) for item in fields(section)}


def _nest(path: str, value: Any) -> dict[str, Any]:
    for part in reversed(path.split(".")):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def _parse(text: str, annotation: Any) -> Any:
    """Return the value of a variable.

    A list is JSON or comma-separated, a mapping is JSON, and an optional value may be "none".
    """
    if get_origin(annotation) in (tuple, list, dict):
        if not text.strip().startswith(("[", "{")):
            return [part.strip() for part in text.split(",") if part.strip()]
        try:
            return json.loads(text)
        except ValueError:
            return text
    is_optional = type(None) in get_args(annotation)
    return None if is_optional and text.strip().lower() in ("null", "none", "") else text


def _find_file(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path | None:
    explicit = path or environ.get("COMPACT_CONFIG")
    if explicit:
        return Path(explicit)
    return next((Path(name) for name in FILES if Path(name).is_file()), None)


def _read_file(file: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the settings of a file, and the line of each by path."""
    try:
        text = file.read_text()
    except OSError as error:
        raise ConfigError(str(file), f"cannot be read: {error.strerror}") from None
    try:
        # JSON is valid YAML too, but the JSON parser has better error messages for it.
        content = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(str(file), f"is not valid: {_explain_syntax(error)}") from None
    if content is None:
        return {}, {}
    if not isinstance(content, dict):
        raise ConfigError(str(file), f"must be a mapping of settings, not a {type(content).__name__}")
    return content, dict(_find_lines(yaml.compose(text, Loader=yaml.SafeLoader)))


def _explain_syntax(error: ValueError | yaml.YAMLError) -> str:
    """Return a syntax error as one line that starts with its position."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())


def _find_lines(node: yaml.Node, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Return the path and the line of each setting of a parsed file."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        yield path, key.start_mark.line + 1
        yield from _find_lines(value, f"{path}.")


def _find_unknown(values: Mapping[str, Any], section: Any, prefix: str = "") -> Iterator[Problem]:
    annotations = section_fields(section)
    for name, value in values.items():
        if name not in annotations:
            yield Problem(f"{prefix}{name}", f"is not a setting{_hint(str(name), annotations, prefix)}")
        elif isinstance(value, Mapping) and is_section(annotations[name]):
            yield from _find_unknown(value, annotations[name], f"{prefix}{name}.")


def _to_problem(error: Any) -> Problem:
    """Return a validation error of pydantic in the words of this module."""
    cause = (error.get("ctx") or {}).get("error")
    if isinstance(cause, ConfigError):
        return Problem(cause.path, cause.problem)
    parts = [str(part) for part in error["loc"] if not (isinstance(part, str) and part.startswith("function-"))]
    path, message = ".".join(parts), error["msg"].removeprefix("Value error, ")
    if message.startswith("["):
        # A validator names the item of a list: "[1] is not a regular expression".
        index, _, message = message.partition(" ")
        return Problem(path + index, message)
    for opening, phrase in _PHRASES.items():
        if message.startswith(opening):
            return Problem(path, phrase + message.removeprefix(opening))
    return Problem(path, message[:1].lower() + message[1:])
