"""Tell what the user wrote from what programs wrote in the user's turn.

Users paste output, code and diffs, and some agents send the reports of their own programs as the user.
"""

from __future__ import annotations

import re
from typing import Final

from compact.reading.text_cache import TextCache

# Lines that programs add to the user's turn.
_BANNERS: Final = (
    r"^(?:Aider v\S+|(?:Main |Weak |Editor )?[Mm]odels?: .*|Git repo: .*|Repo-map: .*|Use /help.*|VSCode terminal.*"
    r"|Warning: (?:For large repos|it's best to only add files).*|For more info,? see:.*|Added \S+ to the chat.*"
    r"|Add (?:these files|the output|\S+) to the chat.*|You can use /undo to .*|Committing \S+ before applying edits.*"
    r"|Model \S+: Unknown .*|No models match \"[^\"\n]*\"\.|\^C .*|To use interactive /help you need to install .*"
    r"|Allow edits to \S+ .*\bto (?:the )?chat\?.*|Only \d+ reflections allowed, .*|Use --encoding to set .*"
    r"|Tokens: .*|Cost: .*|\d+ prompt tokens.*|Applied edit to \S+|Run pip install\?.*|/\S+/bin/\S+(?: .*)?"
    r"|Restored previous conversation.*|Dropping .*|Here are summaries of some files present in my git repository\."
    r"|Removed .*from the chat.*|Caveat: The messages below.*|\[Request interrupted by user.*\]|\[image\]"
    r"|This session is being continued.*|(?:isort|black|flake8)\.{5,}.*)\s*$"
)
# Aider sends the output of tests, of commit hooks and of linters to the model, and the reports of failed edits. It
# stops after a few attempts.
_REPORTS: Final = (
    r"^Test Script: [\s\S]*"
    r"|^(?:The LLM did not conform to the edit format\.|# Fix any errors below, if possible\.)"
    r"[\s\S]*?(?:^Only \d+ reflections allowed, stopping\.$|\Z)"
    r"|^[\w -]+\.{5,}(?:Passed|Failed|Skipped)$"
    r"(?:\n(?:|- (?:hook id|exit code|files were).*|\S+:\d+:\d+: .*(?:\n.*\n *\^+)?)$)*"
    r"|^## See relevant lines? below marked with █\.$(?:\n(?:|\S+:|\.\.\.⋮\.\.\.|\d+[│█].*)$)*"
)
# A part without an end is the user's. The search for its end takes linear time, because it stops at the next part of
# the same kind.
_OUTPUT: Final = (
    r"^=+ (?P<part>test session starts|FAILURES|ERRORS) =+$"
    r"(?:(?:\n(?!=+ (?P=part) =+$).*)*?\n=+ .* in [\d.:]+.*=+$)?"
    r"|^[ \t]*Traceback \(most recent call last\):$"
    r"(?:\n(?![ \t]*Traceback ).*)*?\n[\w.]*(?:Error|Exception|Interrupt)\b.*$"
    r"|^(?:hint: |E {3}).*$"
)
_CODE: Final = (
    r"^[ \t]*```.*$(?:\n(?![ \t]*```).*)*\n[ \t]*```[ \t]*$"
    r"|^<<<<<<< SEARCH$(?:\n(?!<<<<<<< SEARCH).*)*?\n>>>>>>> REPLACE$"
    r"|^diff --git .*$(?:\n(?:[-+ @\\]|index |new |old |deleted |similarity |rename |Binary ).*$)*"
    r"|^[ \t]*#(?: .*)?$(?:\n[ \t]*#(?: .*)?$)+"  # Headings do not follow each other.
    r"|^[ \t]*(?://|[-+](?: {4}|\t)|\d+[│█]).*$"
)
# The history of Aider has a command and, below it, the text that was sent for it.
_ECHO: Final = r"^/[a-z]+ (?P<text>.+)$(?=(?:\n.*){0,2}\n(?P=text)$)"

_BANNER: Final = re.compile(rf"{_BANNERS}|^(?:Commit [0-9a-f]{{7}}.*|https?://\S+)\s*$", re.MULTILINE)
_REPORT: Final = re.compile(_REPORTS, re.MULTILINE)
_PASTED: Final = re.compile("|".join((_REPORTS, _BANNERS, _OUTPUT, _CODE, _ECHO)), re.MULTILINE)


def without_banners(text: str) -> str:
    """Remove the lines that programs add to the user's turn, and lines that are only an address."""
    return _BANNER.sub("", text)


def without_reports(text: str) -> str:
    """Remove the reports that programs send to the model in the user's turn."""
    return _REPORT.sub("", text)


def split_pasted(text: str) -> tuple[tuple[str, bool], ...]:
    """Split the text of the user's turn into parts. Each has a flag that is True if the user did not write it."""
    return _parts[text]


def _split_pasted(text: str) -> tuple[tuple[str, bool], ...]:
    parts: list[tuple[str, bool]] = []
    start = 0
    for match in _PASTED.finditer(text):
        parts += ((text[start : match.start()], False), ("" if match["text"] else match.group(), True))
        start = match.end()
    parts.append((text[start:], False))
    return tuple(part for part in parts if part[0].strip())


_parts: Final = TextCache(_split_pasted, max_chars=2_000_000)
