"""The modules of each page, joined into one file when static files are collected.

Templates name them with `{% scripts %}`. The frame's come first. A page of forty modules would otherwise need forty
requests before its first row. The sources stay ES modules, which run as they are if nothing has been collected.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import find

_SCRIPTS = re.compile(r"{%\s*scripts((?:\s+\"[\w/-]+\")+)\s*%}")
_IMPORT = re.compile(r'^import\s+(?:{([^}]*)}\s+from\s+)?"(\.{1,2}/[\w./-]+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.M)
_TYPES = re.compile(r"/\*\*.*?\*/", re.S)
_OTHER_SYNTAX = re.compile(r"^(?:import|export)\b.*|\bimport(?:\.meta\b|\().*", re.M)


class UnsupportedModule(Exception):
    """A module that cannot be joined with others."""


@cache
def page_scripts() -> dict[str, tuple[str, ...]]:
    """Return the modules of each page by the name of its template: those of the frame, and those that it adds."""
    engines: list[dict[str, Any]] = settings.TEMPLATES
    root = Path(engines[0]["DIRS"][0])
    base = _script_names((root / "base.html").read_text())
    templates = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.html")}
    return {
        name: tuple(dict.fromkeys(base + _script_names(text)))
        for name, text in templates.items()
        if '{% extends "base.html" %}' in text
    }


def _script_names(template: str) -> list[str]:
    return [name.strip('"') for match in _SCRIPTS.findall(template) for name in match.split()]


def bundle_name(names: Iterable[str]) -> str:
    """Return the name of the file that contains these modules and their imports."""
    return f"js/page-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}.js"


def join_scripts(names: Iterable[str]) -> str:
    """Return one module that runs the given modules and their imports. Each has a scope of its own."""
    ordered = module_order(tuple(names))
    scopes = {name: f"module{number}" for number, name in enumerate(ordered)}
    return "\n".join(_join(name, scopes) for name in ordered)


def _join(name: str, scopes: dict[str, str]) -> str:
    source = _TYPES.sub("", _read_module(name))

    def bind(match: re.Match[str]) -> str:
        imported = " ".join((match[1] or "").split()).strip(", ")
        return (
            f"const {{ {imported.replace(' as ', ': ')} }} = {scopes[_resolve(name, match[2])]};\n" if imported else ""
        )

    exports = [exported for _, exported in _EXPORT.findall(source)]
    body = _EXPORT.sub(r"\1", _IMPORT.sub(bind, source))
    if other := _OTHER_SYNTAX.search(body):
        raise UnsupportedModule(f"{name}.js has a statement that viewer/scripts.py cannot join: {other[0]}")
    return f"const {scopes[name]} = (() => {{\n{body}return {{ {', '.join(exports)} }};\n}})();"


@lru_cache(maxsize=64)
def module_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given modules and all that they import, each after its own imports."""
    ordered: dict[str, None] = {}

    def visit(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise UnsupportedModule(f"{' imports '.join((*importers, name))}")
        if name not in ordered:
            for _, path in _IMPORT.findall(_read_module(name)):
                visit(_resolve(name, path), (*importers, name))
            ordered[name] = None

    for name in names:
        visit(name, ())
    return tuple(ordered)


def _resolve(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _read_module(name: str) -> str:
    path = find(f"js/{name}.js")
    assert isinstance(path, str), f"no module {name}"
    return Path(path).read_text()
