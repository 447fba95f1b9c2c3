"""The documentation site contains every page. `make docs` builds it, which also checks its links."""

from __future__ import annotations

import re

from docs.pages import ROOT

from tools import docs_site


def test_navigation_has_every_page_once() -> None:
    """A page in docs/ that is not in the navigation would be hard to find."""
    navigation = re.findall(r"^\s+- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    generated = {*docs_site.EXTERNAL.values(), *docs_site.GENERATED}
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(navigation) == sorted(pages | generated)


def test_guides_name_examples_that_exist() -> None:
    """Each marker is replaced by a program that tests/client/test_examples.py runs."""
    names = [name for page in (ROOT / "docs").rglob("*.md") for name in docs_site.EXAMPLE.findall(page.read_text())]
    assert len(names) >= 6
    assert [name for name in names if not (docs_site.EXAMPLES / name).is_file()] == []


def test_command_line_reference_has_every_command() -> None:
    """The page is generated from the parser."""
    page = docs_site.cli_reference()
    for command in ("dry-run", "watch", "uncompact", "mcp", "hooks", "doctor"):
        assert f"## `compactctl {command}`" in page
