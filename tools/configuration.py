"""Write docs/CONFIGURATION.md from the code that reads the environment: `python -m tools.configuration`.

Whatever the code reads is listed, with the default that the code has, or this fails: a variable is explained by a
`#:` comment on the lines above the place where it is read.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "CONFIGURATION.md"
SOURCES = {
    "Starting: `make up`, `python -m ariadne.runtime.up`, systemd": ROOT / "ariadne" / "runtime" / "up.py",
    "The server: every web process and `manage.py`": ROOT / "ariadne" / "settings.py",
}
KINDS = {
    "envstr": "text",
    "envbool": "1 or 0",
    "envint": "number",
    "envlist": "list, by commas",
    "envsecret": "secret",
    "envrequired": "text",
}
HEAD = """# Configuration

Made by `python -m tools.configuration` from the code that reads these variables; a test fails when it is stale. Every
one has a default that works on a laptop, and a value that makes no sense stops the process with the variable's name.
The client has its own settings (`COMPACT_*`, `ARIADNE_URL`, `ARIADNE_API_KEY`): see the README in `compact_client/`.
"""


class Undocumented(RuntimeError):
    """A variable is read that no `#:` comment explains."""


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    kind: str
    default: str
    meaning: str


def variables(source: Path) -> tuple[list[Variable], dict[str, int]]:
    """What `source` explains, in order, and what it reads without a word, with the line."""
    text = source.read_text()
    lines = text.splitlines()
    explained: dict[str, Variable] = {}
    bare: dict[str, int] = {}
    for call, name, kind, default in sorted(_reads(ast.parse(text)), key=lambda read: read[0].lineno):
        if meaning := _above(lines, call.lineno):
            explained.setdefault(name, Variable(name, kind, default, meaning))
        else:
            bare.setdefault(name, call.lineno)
    return list(explained.values()), bare


def _reads(tree: ast.AST) -> Iterator[tuple[ast.Call, str, str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        name, function = node.args[0].value, ast.unparse(node.func)
        if not isinstance(name, str) or name in {"MAKELEVEL", "DJANGO_SETTINGS_MODULE"}:
            continue
        default = node.args[1] if len(node.args) > 1 else None
        if function == "os.environ.get":
            yield node, name, "text", _shown(default)
        elif function == "envsecret":
            assert isinstance(default, ast.BinOp)
            yield node, name, KINDS[function], f"made at first use, in `DATA_DIR/{ast.literal_eval(default.right)}`"
        elif function == "envrequired":
            yield node, name, KINDS[function], "must be set with single sign-on"
        elif function in KINDS:
            yield node, name, KINDS[function], _shown(default)


def _shown(default: ast.expr | None) -> str:
    if default is None:
        return "empty"
    source = ast.unparse(default)
    if re.fullmatch(r"[\d_ *]+", source):
        value = 1
        for factor in source.split("*"):
            value *= int(factor)
        return f"`{value:,}`" + (f" ({value // 2**20} MiB)" if value % 2**20 == 0 else "")
    if isinstance(default, ast.Constant):
        said = str(int(default.value) if isinstance(default.value, bool) else default.value)
        return f"`{said}`" if said else "empty"
    if isinstance(default, ast.IfExp):
        return f"`{ast.unparse(default.body)}` in production, else `{ast.unparse(default.orelse)}`"
    return f"`{source}`"


def _above(lines: list[str], number: int) -> str:
    """The `#:` comment that ends on the line before `number`."""
    said: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#:"):
            break
        said.insert(0, line.strip().removeprefix("#:").strip())
    return " ".join(said)


def page(sources: dict[str, Path] = SOURCES) -> str:
    parts = [HEAD]
    known: set[str] = set()
    bare: dict[str, str] = {}
    for title, source in sources.items():
        explained, unexplained = variables(source)
        bare |= {name: f"{source.name}:{line}" for name, line in unexplained.items()}
        known |= {variable.name for variable in explained}
        parts.append(f"## {title}\n\n| variable | kind | default | what it does |\n|---|---|---|---|")
        for variable in explained:
            cells = (f"`{variable.name}`", variable.kind, variable.default, variable.meaning)
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        parts.append("")
    for name, where in bare.items():
        if name not in known:
            raise Undocumented(f"{where} reads {name}: say what it is for in a `#:` comment above that line")
    return "\n".join(parts)


if __name__ == "__main__":
    try:
        PAGE.write_text(page())
    except Undocumented as error:
        sys.exit(str(error))
