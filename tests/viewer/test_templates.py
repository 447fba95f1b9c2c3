"""Rules for the template files: line length, and valid syntax."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.template.loader import get_template

TEMPLATES = Path(__file__).resolve().parent.parent.parent / "templates"
MAX_LINE_LENGTH = 140
NAMES = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html"))


@pytest.mark.parametrize("name", NAMES)
def test_template_lines_are_at_most_140_characters_long(name: str) -> None:
    lines = (TEMPLATES / name).read_text().splitlines()
    long_lines = [number for number, line in enumerate(lines, 1) if len(line) > MAX_LINE_LENGTH]
    assert not long_lines, f"templates/{name}: break lines {long_lines} after {MAX_LINE_LENGTH} characters"


@pytest.mark.parametrize("name", NAMES)
def test_templates_compile(name: str) -> None:
    assert get_template(name)
