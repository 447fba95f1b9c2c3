"""docs/CONFIGURATION.md lists exactly the variables that the code reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import configuration


def test_page_is_up_to_date() -> None:
    """Run `python -m tools.configuration` after changing a setting."""
    assert configuration.PAGE.read_text() == configuration.page()


def test_undocumented_setting_is_reported(tmp_path: Path) -> None:
    """A variable read without a `#:` comment fails with its name and line."""
    source = tmp_path / "settings.py"
    source.write_text('#: Explained.\nA = env_int("ONE", 2 * 1024 * 1024)\nB = env_str("TWO")\n')
    with pytest.raises(configuration.UndocumentedVariable, match=r"settings\.py:3 reads TWO"):
        configuration.page({"x": source})
    source.write_text('#: Explained.\nA = env_int("ONE", 2 * 1024 * 1024)\n')
    assert "| `ONE` | number | `2,097,152` (2 MiB) | Explained. |" in configuration.page({"x": source})


def test_every_variable_in_compose_is_documented() -> None:
    """Every variable that docker-compose.yml passes to the web container is in the reference."""
    import yaml

    web = yaml.safe_load((configuration.ROOT / "docker-compose.yml").read_text())["services"]["web"]
    for name in web["environment"]:
        assert f"`{name}`" in configuration.PAGE.read_text(), name
