"""The pages people read, and the fenced blocks in them.

The convention: `python` blocks of a page are one program, in order; `sh` blocks are commands; `yaml` blocks are
configuration; `text` is output or a drawing. Nothing else is fenced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "compact_client" / "README.md",
    *(ROOT / "docs").glob("*.md"),
]
LANGUAGES = {"python", "sh", "yaml", "text"}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    language: str
    text: str
    line: int


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    found = [Block(page, m[1], m[2], text[: m.start()].count("\n") + 2) for m in _FENCE.finditer(text)]
    return [block for block in found if language in (None, block.language)]


def program(page: Path) -> str:
    """Its python blocks as one file, each on the lines where it stands, so that a traceback points into the page."""
    lines: list[str] = []
    for block in blocks(page, "python"):
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def commands(page: Path) -> list[str]:
    """The commands of its sh blocks, without comments."""
    lines = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]
