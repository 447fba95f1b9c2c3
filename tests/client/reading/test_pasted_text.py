"""Text of programs in the user's turn is no goal, no instruction and nothing that the user said."""

from __future__ import annotations

import pytest
from compact.messages import Message
from compact.reading.blocks import read_blocks
from compact.reading.lines.pasted_text import split_pasted
from compact.summarizers import ExtractiveSummarizer

from tests.summary_session import Session

TRACEBACK = """Traceback (most recent call last):
  File "src/names.py", line 12, in resolve
    The first form is intended for old callers only. It must not be used again.
ValueError: the name must not be empty"""
TESTS = """============================= test session starts ==============================
collected 7 items
=================================== FAILURES ===================================
The caller must always pass a name.
========================= 1 failed, 6 passed in 0.42s =========================="""
DIFF = """diff --git a/src/names.py b/src/names.py
index 1234567..89abcde 100644
--- a/src/names.py
+++ b/src/names.py
@@ -1,3 +1,4 @@
 The name must never be empty.
+The name must always be set."""
SEARCH = """<<<<<<< SEARCH
The name must never be empty.
=======
The name must always be set.
>>>>>>> REPLACE"""
COMMENTS = """# You'll have to do the following manually to clean this up:
#   * Make sure each model has one field
# Don't rename the tables."""
REPORT = """The LLM did not conform to the edit format.
# 1 SEARCH/REPLACE block failed to match!
The SEARCH section must exactly match an existing block of lines including all white space.
Don't re-send them.
Only 3 reflections allowed, stopping."""
HOOKS = """flake8...................................................................Failed
- hook id: flake8
- exit code: 1

src/names.py:22:1: E402 module level import must be at the top of the file
from names import resolve
^

## See relevant line below marked with █.

src/names.py:
...⋮...
22█from names import resolve
...⋮..."""
PASTED = {
    "fence": "```\nThe name must never be empty.\n```",
    "traceback": TRACEBACK,
    "tests": TESTS,
    "diff": DIFF,
    "search block": SEARCH,
    "comments": COMMENTS,
    "report": REPORT,
    "hooks": HOOKS,
    "added line": "+        // The lookup should only fail if the name is empty",
    "hints": "hint: You have divergent branches and need to specify how to reconcile them.",
    "banner": "Warning: it's best to only add files that need changes to the chat.",
}


@pytest.mark.parametrize("pasted", PASTED.values(), ids=PASTED)
def test_pasted_text_contains_no_instructions(pasted):
    """The lines around it do."""
    request = f"Never touch the parser.\n\n{pasted}\n\nKeep the public names."
    summary = Session("Fix the names.", request, "Now write the release notes.").summary()
    assert [note.text for note in summary.constraints] == ["Never touch the parser.", "Keep the public names."]


@pytest.mark.parametrize("pasted", PASTED.values(), ids=PASTED)
def test_pasted_text_contains_no_instructions_after_several_compactions(pasted):
    """A line that a summary kept is read again as what it was."""
    session = Session("Fix the names.", f"Keep the public names.\n\n{pasted}", "Now write the release notes.")
    messages = [Message("assistant", session.text(), id="s1"), Message("user", "Now publish them.", id="u9")]
    again = ExtractiveSummarizer().summarize_span(messages, max_tokens=800)
    assert [note.text for note in again.constraints] == ["Keep the public names."]


def test_pasted_lines_are_shown_as_output():
    """The user did not say them."""
    text = Session("Fix the names in src/names.py.", TRACEBACK).text()
    assert "ValueError: the name must not be empty" in text
    assert "user: " not in text.partition("## Earlier turns")[2]


@pytest.mark.parametrize("pasted", [HOOKS, REPORT, "src/names.py\nsrc/tests.py", "/diff\n\n/exit"])
def test_pasted_text_is_not_the_goal(pasted):
    """The goal is the first request that the user wrote."""
    summary = Session(pasted, "Resolve the imports of the names.").summary()
    assert [goal.text for goal in summary.goals] == ["Resolve the imports of the names."]


def test_text_after_an_unfinished_part_is_the_users():
    """A traceback without its last line does not hide an instruction."""
    request = "Traceback (most recent call last):\n  ...\n\nNever catch this error."
    summary = Session("Fix the names.", request, "Now write the release notes.").summary()
    assert [note.text for note in summary.constraints] == ["Never catch this error."]


def test_a_command_and_the_text_that_was_sent_for_it_are_one_line():
    """The history of some agents contains both."""
    question = "will it only fail on windows, without the new loop?"
    text = Session("Fix the names.", f"/ask {question}\n\n{question}", "Now write the release notes.").text()
    assert text.count(question) == 1


def test_headings_and_lists_are_the_users():
    """A plan in Markdown is not code."""
    plan = "# Plan\n\nKeep the old names.\n\n## Steps\n- Never rename a table.\n- Add the index."
    assert split_pasted(plan) == ((plan, False),)


def test_text_after_a_block_of_code_is_what_the_user_wrote():
    """Lines of code that look pasted by themselves do not end the block around them."""
    plan = (
        "Implement this plan.\n\n```go\n// Run starts the review.\nfunc Run() {}\n```\n\n"
        "- **Large diffs**: Truncate the diff at 100KB, and never drop a file.\n\n```json\n{}\n```\nUse the cache."
    )
    kinds = {line: block.kind for block in read_blocks([Message("user", plan)]) for line in block.lines}
    assert kinds == {
        "Implement this plan.": "user",
        "// Run starts the review.": "pasted",
        "func Run() {}": "pasted",
        "**Large diffs**: Truncate the diff at 100KB, and never drop a file.": "user",
        "Use the cache.": "user",
    }
