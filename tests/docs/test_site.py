"""The documentation site contains every page. `make docs` builds it, which also checks its links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.pages import ROOT

from tools import docs_site, guide_examples


def test_navigation_has_every_page_once() -> None:
    """A page in docs/ that is not in the navigation would be hard to find."""
    navigation = re.findall(r"^\s+- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    generated = {*docs_site.EXTERNAL.values(), *docs_site.GENERATED}
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(navigation) == sorted(pages | generated)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "guides").glob("*.md")), ids=lambda page: page.stem)
def test_guides_have_the_examples_as_they_are(page: Path) -> None:
    """Run `python -m tools.guide_examples` after a change of an example."""
    text = page.read_text()
    assert guide_examples.with_examples(text) == text


def test_command_line_reference_has_every_command() -> None:
    """The page is generated from the parser."""
    page = docs_site.cli_reference()
    for command in ("dry-run", "watch", "uncompact", "mcp", "hooks", "doctor"):
        assert f"## `compactctl {command}`" in page
