"""The documentation pages and their fenced blocks.

Each `python` block is a program, or starts with `CONTINUED` and continues the block before. `sh` blocks are commands,
`yaml` blocks are configuration, and `text` blocks are output or drawings. Pages have no other fenced blocks.
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
    *sorted((ROOT / "docs").rglob("*.md")),
]
CONTINUED = "# continues the program above\n"
LANGUAGES = {"python", "sh", "yaml", "text"}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str
    line: int


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = page.read_text()
    every_block = [Block(page, m[1], m[2], text[: m.start()].count("\n") + 2) for m in _FENCE.finditer(text)]
    return [block for block in every_block if language in (None, block.language)]


def program(block: Block) -> str:
    """Return a python block with those that it continues, on their own lines, so that tracebacks match the page."""
    chain: list[Block] = []
    for earlier in blocks(block.page, "python"):
        chain = [*(chain if earlier.text.startswith(CONTINUED) else ()), earlier]
        if earlier == block:
            break
    lines: list[str] = []
    for part in chain:
        lines += [""] * (part.line - 1 - len(lines)) + part.text.splitlines()
    return "\n".join(lines) + "\n"


def commands(page: Path) -> list[str]:
    """Return the commands of the sh blocks of a page, without comments."""
    lines = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]
