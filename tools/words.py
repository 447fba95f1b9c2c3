"""Check the project's prose and names against the Words section of the style guide: `python -m tools.words [PATH …]`.

Reads every tracked text file, or only those under the given paths. Exits with 1 if there is a finding, and each
finding names the file, the line and what to write instead. Mark a line whose words are data with `words:ignore`.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THIS = Path(__file__).resolve()
SUFFIXES = {
    ".py",
    ".md",
    ".html",
    ".js",
    ".mjs",
    ".css",
    ".toml",
    ".yml",
    ".yaml",
    ".conf",
    ".service",
    ".timer",
    ".txt",
}
SKIPPED = (
    "requirements/",
    "tests/fixtures/",
    "tests/goldens/",
    "static/fonts/",
    "package-lock.json",
    "ariadne/demo/articles/",
    "ariadne/demo/repositories/",
)

# An idiom as a pattern, and what to write instead.
IDIOMS: dict[str, str] = {
    r"\b(?:is|are|was|were|be|been|went|goes|go|gone) away\b": "is unavailable, is unreachable, has gone",
    r"\bwhile (?:it|they) (?:is|are) away\b": "while it is unavailable",
    r"(?<![\"\'])\b(?:nobody|no-?one)\b": "name who: no caller, no user, no process",
    r"\bwhoever\b": "name who: the caller, the user, the process that",
    r"\bfor ever\b": "forever, or: permanently, indefinitely",
    r"\bin vain\b": "without success, or say what failed",
    r"\b(?:un|fore)?told\b": "reported, received, notified, distinguished",
    r"\btelling(?:s)?\b": "report, event, version",
    r"\b(?:be|been|is|are|was|were|can|could) had again\b": "reproduced, replayed, fetched again",
    r"\bcan(?:not)? be had\b": "is available, is obtainable",
    r"\b(?:un)?mended\b|\bmend(?:s|ing)?\b": "fixed, repaired",
    r"\b(?:as|for) good as\b": "equivalent to",
    r"\bat (?:one|a) go\b|\bin one go\b": "at once, in one call",
    r"\bby hand\b(?! )": "manually",
    r"\bon (?:its|their) own way\b": "independently",
    r"\bso many\b|\bso much as\b": "give the number",
    r"\bthat is all\b": "delete it",
    r"\bmeanwhile\b": "during that time, concurrently",
    r"\bhence(?:forth)?\b|\bthereby\b|\btherein\b|\bthereof\b|\bwhereby\b|\bwherein\b": "use a plain connective",
    r"\bbut for\b": "except for",
    r"\bof late\b|\bere\b|\bupon\b|\bamidst?\b|\bamongst\b|\bwhilst\b": "use the modern word",
    r"\bshall\b": "must, will",
    r"\bgiven up\b|\bgives? up\b|\bgiving up\b": "stop, fail, abort, drop",
    r"\blet(?:s)? go of\b": "release, drop",
    r"\b(?:is|are|was|were) no(?:ne)? the wiser\b": "does not notice",
    r"\bholds? good\b": "is true, is valid",
    r"\bcomes? to nothing\b": "has no effect, fails",
    r"\bthe very (?:same|message|one|words?)\b": "the same",
    r"\bas it (?:were|stands)\b": "delete it, or: unchanged",
    r"\bin the face of\b": "under, despite",
    r"\ball the same\b": "anyway",
    r"\bfor the sake of\b": "for, because of",
    r"\bfor want of\b": "without, because there is no",
    r"\bby (?:its|their) own (?:word|account)\b": "as reported",
    r"\bsomebody(?: else)?(?:'s)?\b": "name who: a user, another process",
    r"\bpatien(?:ce|t|tly)\b": "retries, timeout, backoff",
    r"\b(?:lies|lie|lay) (?:in|on|at|there|here|beside|below|under|next)\b": "is in, is stored in",
    r"\bstands? (?:in|on|at|there|here|beside|for)\b": "is in, appears in, represents",
    r"\b(?:bring|brings|brought) (?:it |them )?back\b": "restore, rehydrate",
    r"\b(?:find|finds) out\b": "determine, detect",
    r"\btakes? (?:it |them )?in\b": "accept, read",
    r"\bnot (?:a|one) word\b": "nothing",
    r"\bon purpose\b": "intentionally",
    r"\bat night\b": "delete it",
    r"\banew\b": "again",
    r"\bof old\b": "earlier",
    r"\bonce more\b": "again",
    r"\bhow well\b": "name the measure",
    r"\bworth (?:a|its|the)\b": "name the reason",
}

_OPENING = re.compile(r"(?:What|Whether|Who|Whose|How)\b(?! to\b)")
_SEMICOLON = re.compile(r";(?!\s*$)")
_CODE = re.compile(r"`[^`]*`")
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|&[a-z]+;|&#\d+;")
_BAD_VARIABLES = {"found": "results, matches, or the noun", "told": "the noun", "made": "the noun", "taken": "the noun"}
_PARTICIPLE = re.compile(
    r"_*(?:[a-z]+(?:ed|ing)|taken|told|made|found|written|given|shown|sent|kept|held|known|gone|hidden|seen|said|left)"
    r"(?:_(?:by|from|in|at|apart|again|of|with|to|on|as|out|up|back|beside|ahead))?"
)
# Words that only look like a participle or a gerund, and public names that DESIGN keeps.
_ALLOWED_NAMES = {
    "embed", "feed", "need", "seed", "speed", "string", "ping", "ring", "encoding", "heading", "setting", "warning",
    "embedding", "thing", "exceed", "proceed", "succeed", "compacting", "logging", "routing", "decoding",
    "rendering", "planning", "billing", "timing", "wiring", "spacing", "signing", "listing", "pricing", "breed",
    "pruning", "layered", "testing", "reading",
}  # fmt: skip


def main() -> int:
    paths = [Path(argument).resolve() for argument in sys.argv[1:]]
    count = 0
    for path in tracked_files():
        if paths and not any(path == wanted or wanted in path.parents for wanted in paths):
            continue
        for line, problem in sorted(set(findings(path))):
            sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {problem}\n")
            count += 1
    sys.stdout.write(f"Words: {count} finding{'' if count == 1 else 's'}\n")
    return 1 if count else 0


def tracked_files() -> list[Path]:
    """Text files that git tracks or would track, without data and generated files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603
    chosen = [name for name in names if not name.startswith(SKIPPED)]
    files = [
        ROOT / name for name in chosen if Path(name).suffix in SUFFIXES or Path(name).name in ("Makefile", "Dockerfile")
    ]
    return [path for path in files if path.exists() and path != THIS]


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Every problem in one file as a line number and a message."""
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if "words:ignore" in line:
            continue
        for pattern, instead in _COMPILED.items():
            if match := pattern.search(_CODE.sub("", line)):
                yield number, f"'{match[0]}': write {instead}"
    if path.suffix == ".py":
        yield from _python_findings(path, text)


def _python_findings(path: Path, text: str) -> Iterator[tuple[int, str]]:
    if _is_participle(path.stem):
        yield 1, f"module '{path.stem}': name it with a noun"
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if _is_participle(node.name) and not node.decorator_list:
                yield node.lineno, f"function '{node.name}': name it with a verb or a noun"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in _BAD_VARIABLES:
            yield node.lineno, f"variable '{node.id}': write {_BAD_VARIABLES[node.id]}"
        yield from _docstring_findings(node)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and _SEMICOLON.search(_QUOTED.sub("", token.string)):
            yield token.start[0], "semicolon in a comment: write two sentences"


def _docstring_findings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Problems of the string statement that a node is: docstrings of modules, functions, classes and attributes."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
        return
    docstring = node.value.value
    if opening := _OPENING.match(docstring):
        yield node.lineno, f"docstring opens with '{opening[0]}': start with a verb or a noun phrase"
    # Indented blocks are code.
    prose = "\n".join(line for line in docstring.splitlines() if not line.startswith("    " * 2))
    if _SEMICOLON.search(_QUOTED.sub("", prose)):
        yield node.lineno, "semicolon in a docstring: write two sentences"


def _is_participle(name: str) -> bool:
    bare = name.strip("_")
    return bare not in _ALLOWED_NAMES and bool(_PARTICIPLE.fullmatch(name))


_COMPILED = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in IDIOMS.items()}

if __name__ == "__main__":
    sys.exit(main())
