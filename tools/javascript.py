"""Type-check the JavaScript with the TypeScript compiler in strict mode, from JSDoc types.

The compiler is installed with npm in the version of package-lock.json. A checkout serves the modules as they are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.nodejs import PACKAGES, install_packages, node

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    install_packages()
    compiler = PACKAGES / "typescript" / "bin" / "tsc"
    result = subprocess.run([*node(), str(compiler), "--project", "tsconfig.json"], cwd=ROOT, check=False)  # noqa: S603
    if result.returncode == 0:
        sys.stdout.write(f"JavaScript: {len(list((ROOT / 'static' / 'js').rglob('*.js')))} modules, no type errors\n")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
