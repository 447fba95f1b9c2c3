"""The bundles that the wheel and the image contain in place of the modules."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tools.bundles import bundle
from tools.nodejs import node

ROOT = Path(__file__).resolve().parent.parent.parent
STATIC = ROOT / "static"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled static files of this checkout."""
    target = tmp_path_factory.mktemp("bundles")
    bundle(STATIC, target)
    return target


def run(source: Path, **modules: str) -> str:
    """Return the output of a page that consists of these modules, after bundling."""
    for folder in ("js/pages", "js/inline", "css/pages", "fonts"):
        (source / folder).mkdir(parents=True)
    (source / "icon.svg").touch()
    for name, text in modules.items():
        (source / "js" / "pages" / f"{name}.js").write_text(text)
    bundle(source, source / "target")
    script = str(source / "target/js/pages/page.js")
    return subprocess.run([*node(), script], check=True, capture_output=True, text=True).stdout


def test_code_between_strings_with_comment_marks_stays(tmp_path: Path) -> None:
    text = 'const open = "/**";\nconsole.log("between");\nconst close = "*/";\nconsole.log(open + close);\n'
    assert run(tmp_path, page=text) == "between\n/***/\n"


def test_modules_have_their_own_scopes_and_run_once(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        shared='const name = "shared";\nconsole.log(name);\nexport function double(x) {\n  return 2 * x;\n}\n',
        one='import { double as twice } from "./shared.js";\nconst name = "one";\nconsole.log(name, twice(1));\n',
        page='import "./one.js";\nimport { double } from "./shared.js";\nconsole.log("two", double(2));\n',
    )
    assert output == "shared\none 2\ntwo 4\n"


def test_every_page_has_a_bundle_of_the_same_name(bundles: Path) -> None:
    """No bundle imports a module, and fonts, icon and inline scripts are there, so nothing else is needed."""
    for kind in ("js", "css"):
        pages = sorted((STATIC / kind / "pages").iterdir())
        assert pages
        for page in pages:
            text = (bundles / page.relative_to(STATIC)).read_text()
            assert text.strip()
            assert "import" not in text.partition("{")[0]
    for name in ("fonts/inter.woff2", "icon.svg", "js/inline/theme.js"):
        assert (bundles / name).read_bytes() == (STATIC / name).read_bytes()


def test_fonts_are_found_from_the_bundled_stylesheets(bundles: Path) -> None:
    assert 'url("../../fonts/inter.woff2")' in (bundles / "css/pages/session.css").read_text()


def test_source_maps_name_the_modules(bundles: Path) -> None:
    script = bundles / "js/pages/session.js"
    assert script.read_text().rstrip().endswith("//# sourceMappingURL=session.js.map")
    sources = json.loads(script.with_name("session.js.map").read_text())["sources"]
    assert any(source.endswith("static/js/sessions/store.js") for source in sources)
