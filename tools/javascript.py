"""Type-check the JavaScript with the TypeScript compiler in strict mode, from JSDoc types.

The compiler is installed with npm in the version of package-lock.json. The pages themselves need no build step.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.nodejs import node, npm

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    compiler = ROOT / "node_modules" / "typescript" / "bin" / "tsc"
    stamp = ROOT / "node_modules" / ".package-lock.json"
    if not compiler.exists() or stamp.stat().st_mtime < (ROOT / "package-lock.json").stat().st_mtime:
        subprocess.run([*npm(), "ci", "--silent", "--no-audit", "--no-fund"], cwd=ROOT, check=True)  # noqa: S603
        stamp.touch()
    result = subprocess.run([*node(), str(compiler), "--project", "tsconfig.json"], cwd=ROOT, check=False)  # noqa: S603
    if result.returncode == 0:
        sys.stdout.write(f"JavaScript: {len(list((ROOT / 'static' / 'js').rglob('*.js')))} modules, no type errors\n")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
