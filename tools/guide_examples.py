"""Copy the examples into the guides that name them: `python -m tools.guide_examples`.

A guide has a marker for each, followed by the program. A test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "compact_client" / "examples"
_EXAMPLE = re.compile(r"^<!-- example: (\w+\.py) -->\n(?:\n```python\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def with_examples(text: str) -> str:
    """Return a page with the current program below each marker."""

    def replace(match: re.Match[str]) -> str:
        return f"<!-- example: {match[1]} -->\n\n```python\n{(EXAMPLES / match[1]).read_text().rstrip()}\n```\n"

    return _EXAMPLE.sub(replace, text)


def main() -> None:
    for page in sorted((ROOT / "docs" / "guides").glob("*.md")):
        text = page.read_text()
        changed = with_examples(text)
        if changed != text:
            page.write_text(changed)


if __name__ == "__main__":
    main()
