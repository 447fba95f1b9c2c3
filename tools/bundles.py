"""Bundle scripts and styles with esbuild, as a build hook of the wheel and the sdist, and for tests.

esbuild is installed with npm in the version of package-lock.json. A checkout serves the modules, an sdist contains the
bundles, and no server needs the tool.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent


def bundle(source: Path, target: Path) -> None:
    """Write the bundled form of a folder of static files."""
    # A build backend imports this file without the checkout on its path.
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    from tools.nodejs import install_packages, node  # noqa: PLC0415

    install_packages()
    subprocess.run([*node(), "tools/bundle.mjs", str(source), str(target)], cwd=ROOT, check=True)  # noqa: S603


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Create `build/static` and add it to the distribution. An editable installation uses the modules."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        is_checkout = (ROOT / "package-lock.json").exists()
        if is_checkout:
            bundle(ROOT / "static", ROOT / "build" / "static")
        build_data["force_include"]["build/static"] = (
            "ariadne/static" if self.target_name == "wheel" else "build/static"
        )
