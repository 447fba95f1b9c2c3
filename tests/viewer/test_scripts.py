"""The modules of a page joined into one file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.nodejs import node
from viewer import scripts


@pytest.mark.parametrize("names", sorted(set(scripts.page_scripts().values())), ids=" ".join)
def test_the_modules_of_a_page_can_be_joined(names: tuple[str, ...], tmp_path: Path) -> None:
    script = tmp_path / "page.mjs"
    script.write_text(scripts.join_scripts(names))
    subprocess.run([*node(), "--check", str(script)], check=True)


def write_modules(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text)
    monkeypatch.setattr(scripts, "find", lambda path: str(folder / Path(path).name))
    scripts.module_order.cache_clear()


def test_joined_modules_have_their_own_scopes_and_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_modules(
        tmp_path,
        monkeypatch,
        shared='const name = "shared";\nconsole.log(name);\nexport function double(x) {\n  return 2 * x;\n}\n',
        one='import { double as twice } from "./shared.js";\nconst name = "one";\nconsole.log(name, twice(1));\n',
        two='import "./one.js";\nimport { double } from "./shared.js";\nconsole.log("two", double(2));\n',
    )
    script = tmp_path / "page.mjs"
    script.write_text(scripts.join_scripts(["one", "two"]))
    output = subprocess.run([*node(), str(script)], check=True, capture_output=True, text=True).stdout
    assert output == "shared\none 2\ntwo 4\n"


@pytest.mark.parametrize("text", ["export default 1;\n", "import * as all from './b.js';\n", 'import "./a.js";\n'])
def test_a_module_that_cannot_be_joined_is_an_error(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other syntax and circular imports would otherwise fail in the browser."""
    write_modules(tmp_path, monkeypatch, a=text)
    with pytest.raises(scripts.UnsupportedModule):
        scripts.join_scripts(["a"])
