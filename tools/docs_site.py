"""Build the documentation site into site/: `make docs`.

The pages in docs/ are the source. Added to them is a reference that is generated from the code: the Python API, the
command line and the REST API. `python -m tools.guide_examples` copies the examples into the guides.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "docs"
# Files outside docs/ that become pages, and the pages that links to them must point to.
EXTERNAL = {
    "compact_client/README.md": "reference/library.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "CHANGELOG.md": "reference/changelog.md",
    "compact_client/CHANGELOG.md": "reference/client-changelog.md",
}
_PYTHON_MODULES = ("compact", "compact.protocols", "compact.summarizers", "compact.testing")


def main() -> int:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    shutil.copy(ROOT / "static" / "icon.svg", PAGES)
    (PAGES / "reference").mkdir(exist_ok=True)
    for source, page in EXTERNAL.items():
        (PAGES / page).write_text((ROOT / source).read_text())
    for page, build in GENERATED.items():
        (PAGES / page).write_text(build())
    for page in PAGES.rglob("*.md"):
        page.write_text(_link_pages(page.read_text(), page))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    # The theme announces its successor at every build.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603 - fixed arguments
    if result.returncode == 0:
        sys.stdout.write("The site is in site/index.html.\n")
    return result.returncode


def python_reference() -> str:
    """Return a page on which mkdocstrings describes the public names."""
    lines = ["# Python API", "", "The public names of `compact`, from their docstrings.", ""]
    for module in _PYTHON_MODULES:
        lines += [f"## `{module}`", ""]
        for name in sorted(_public_names(module)):
            lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)


def _public_names(module_name: str) -> list[str]:
    """Return the public classes and functions of a module. Constants and submodules have no docstrings to show."""
    module = __import__(module_name, fromlist=["__all__"])
    return [name for name in module.__all__ if callable(getattr(module, name))]


def cli_reference() -> str:
    """Return the help of every command, as `compactctl COMMAND --help` prints it."""
    from compact.cli.parser import build_parser  # noqa: PLC0415 - only for this page

    os.environ["COLUMNS"] = "100"
    lines = ["# Command line", "", "The help of each command. All of them write JSON with `--json`.", ""]
    for name, command in _commands(build_parser()):
        lines += [f"## `{name}`", "", "```text", command.format_help().rstrip(), "```", ""]
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield parser.prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _commands(command)


def rest_reference() -> str:
    """Return the addresses of the OpenAPI document with their parameters."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")
    import django  # noqa: PLC0415 - only for this page

    django.setup()
    from drf_spectacular.generators import SchemaGenerator  # noqa: PLC0415

    schema = SchemaGenerator().get_schema(request=None, public=True)
    lines = [
        "# REST API",
        "",
        "Generated from the OpenAPI document that the server has at `/api/schema/`. Requests need an API token in "
        "`Authorization: Bearer …`, or the session of a signed-in person.",
        "",
    ]
    for address, operations in schema["paths"].items():
        for method, operation in operations.items():
            lines += _operation(f"{method.upper()} {address}", operation)
    return "\n".join(lines)


def _operation(title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"## `{title}`", "", operation.get("description", "").strip(), "")
    if parameters := operation.get("parameters"):
        yield from ("| parameter | in | type | description |", "|---|---|---|---|")
        for parameter in parameters:
            kind = parameter.get("schema", {}).get("type", "")
            description = " ".join(parameter.get("description", "").split()).replace("|", "\\|")
            yield f"| `{parameter['name']}` | {parameter['in']} | {kind} | {description} |"
        yield ""


def _link_pages(text: str, page: Path) -> str:
    """Point links to files outside docs/ to their pages, and remove links to files that are not on the site."""
    source = next(
        (name for name, target in EXTERNAL.items() if PAGES / target == page), f"docs/{page.relative_to(PAGES)}"
    )
    folder = (ROOT / source).parent

    def replace(match: re.Match[str]) -> str:
        label, link, anchor = match[1], match[2], match[3] or ""
        if "://" in link or link.startswith("#"):
            return match[0]
        target = (folder / link).resolve()
        name = target.relative_to(ROOT).as_posix()
        on_site = EXTERNAL.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else "")
        if not on_site or not (PAGES / on_site).exists():
            return f"{label} (`{name}`)" if label != name else f"`{name}`"
        relative = os.path.relpath(PAGES / on_site, page.parent)
        return f"[{label}]({relative}{anchor})"

    return re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)#\s]+)(#[^)\s]*)?\)", replace, text)


GENERATED = {
    "reference/python.md": python_reference,
    "reference/cli.md": cli_reference,
    "reference/rest.md": rest_reference,
}

if __name__ == "__main__":
    sys.exit(main())
