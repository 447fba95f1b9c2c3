"""docs/CONFIGURATION.md is what the code reads, no more and no less."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import configuration


def test_the_page_is_not_stale() -> None:
    """Run `python -m tools.configuration` after changing a setting."""
    assert configuration.PAGE.read_text() == configuration.page()


def test_a_setting_that_nobody_explains_is_named(tmp_path: Path) -> None:
    """A variable read without a `#:` comment fails with its name and line."""
    source = tmp_path / "settings.py"
    source.write_text('#: Explained.\nA = envint("ONE", 2 * 1024 * 1024)\nB = envstr("TWO")\n')
    with pytest.raises(configuration.Undocumented, match=r"settings\.py:3 reads TWO"):
        configuration.page({"x": source})
    source.write_text('#: Explained.\nA = envint("ONE", 2 * 1024 * 1024)\n')
    assert "| `ONE` | number | `2,097,152` (2 MiB) | Explained. |" in configuration.page({"x": source})


def test_every_variable_of_compose_is_known() -> None:
    """What docker-compose.yml hands to our containers is in the reference, by the same name."""
    import yaml

    web = yaml.safe_load((configuration.ROOT / "docker-compose.yml").read_text())["services"]["web"]
    for name in web["environment"]:
        assert f"`{name}`" in configuration.PAGE.read_text(), name
