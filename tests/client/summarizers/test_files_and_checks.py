"""Files, listings and checks in a summary."""

from __future__ import annotations

import pytest
from compact.messages import Message
from compact.reading.state.file_ledger import read_ledger
from compact.summarizers import ExtractiveSummarizer
from compact.summary.structured_summary import StructuredSummary

from tests.growth import assert_linear
from tests.summary_session import Session, edit


@pytest.mark.req("A-SUM-1")
def test_files_are_listed_by_what_happened_to_them():
    """Created, changed, deleted, renamed and read files have sections relative to their common directory."""
    session = Session("Clean up the package.")
    session.call("Read", "import os", file_path="/srv/app/src/read_only.py")
    session.call(
        "Write", "File created successfully", file_path="/srv/app/src/new.py", content="def start():\n    pass"
    )
    edit(session, "/srv/app/src/old.py", "def stop():\n    return 1", "def stop():\n    return 2")
    session.call("Bash", "", command="rm /srv/app/src/gone.py && git mv src/a.py src/b.py")
    text = session.text()
    assert "## Files changed or created" in text
    assert "new.py: created, `def start`" in text
    assert "old.py: edited, `def stop`" in text
    assert "## Files deleted\n- /srv/app/src/gone.py: deleted" in text
    assert "## Files renamed\n- src/a.py: renamed" in text
    assert "- Files read: /srv/app/src/read_only.py" in text


def test_a_listed_file_keeps_the_name_of_its_directory():
    """Two files of one directory are not listed by their bare names."""
    session = Session("Use the new theme.")
    for name in ("index.ts", "theme.ts"):
        edit(session, f"/home/dev/app/src/tui/{name}", "color = 1", "color = 2")
    text = session.text()
    assert "## Files changed or created, relative to /home/dev/app/src/\n- tui/index.ts: edited" in text
    assert StructuredSummary.parse(text).files[1].path == "/home/dev/app/src/tui/theme.ts"


@pytest.mark.parametrize(
    "result",
    [
        "The user doesn't want to proceed with this tool use.",
        "<tool_use_error>String to replace not found</tool_use_error>",
    ],
)
def test_a_rejected_or_failed_edit_is_not_an_edit(result):
    """The file is not listed as changed, and the call is marked as failed."""
    text = edit(Session("Fix the login."), "src/login.py", "a = 1", "a = 2", result).text()
    assert "Files changed" not in text
    assert "> Edit of src/login.py → failed" in text


def test_a_to_do_list_does_not_change_the_file_that_was_read_before():
    """`TodoWrite` names no file, and is not an editor of the open file."""
    session = Session("Plan the work.").call("Read", "x = 1", file_path="src/setup.py")
    session.call("TodoWrite", "Todos have been modified", todos=[{"content": "Read more", "status": "pending"}])
    assert {file.path: file.state for file in session.summary().files} == {"src/setup.py": "read"}


def test_all_files_of_a_directory_with_a_number_are_listed():
    """Their lines differ only in words with a digit, like lines of program output."""
    session = Session("Rename the field.")
    paths = [f"/srv/trees/2/src/{name}.py" for name in "abcdefghij"]
    for path in paths:
        edit(session, path, "seen_at", "last_seen")
    session.call("Read", "\n".join(f"token_{number} = find_{number}()" for number in range(300)), file_path="b.py")
    assert {file.path for file in session.summary(max_tokens=300).files} >= set(paths)


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("x", "} else {\n  limit = read_limit()\n}", "`limit = read_limit()`"),
        ("x", "  TokenUsage:      context.usage,", "`TokenUsage: context.usage`"),
        ("x", "if (size", ""),
    ],
)
def test_the_detail_of_an_edit_is_a_whole_line_of_code(old, new, detail):
    """Half a bracket or a comma at its end would say nothing."""
    (file,) = edit(Session("Fix it."), "src/a.go", old, new).summary().files
    assert file.change == ", ".join(filter(None, ["edited", detail]))


def test_a_file_that_was_created_and_deleted_again_is_left_out():
    """Scratch work is not a change."""
    session = Session("Reproduce the bug.")
    session.call("Bash", "", command="cat > repro.py <<'EOF'\nprint(1)\nEOF").call("Bash", "", command="rm repro.py")
    assert [file.path for file in session.summary().files] == []


def test_the_ledger_continues_over_several_compactions():
    """A file that an earlier summary lists as changed keeps its state when it is only read later."""
    session = edit(Session("Fix the login."), "src/login.py", "limit = 3", "limit = 5")
    earlier = Message("assistant", session.summary().render(), id="s1")
    later = Session("Go on with the tests.").call("Read", "limit = 5", file_path="src/login.py")
    later.call("Write", "ok", file_path="src/new.py", content="x = 1")
    files = ExtractiveSummarizer().summarize_span([earlier, *later.messages], max_tokens=800).files
    assert {file.path: file.state for file in files} == {"src/login.py": "changed", "src/new.py": "created"}


def test_the_last_check_has_its_verdict_and_first_failing_line():
    """Only the newest run counts."""
    session = Session("Make the tests pass.")
    session.call("Bash", "12 passed in 1.2s", command="pytest -q tests/a.py")
    session.call("Bash", "FAILED tests/b.py::test_slow - TimeoutError\n1 failed", command="pytest -q tests/b.py")
    text = session.text()
    assert "## Last check\n- pytest -q tests/b.py: failed: FAILED tests/b.py::test_slow - TimeoutError" in text


def test_verdicts_of_older_runs_are_left_out():
    """A newer run of the same command replaces them. A failure of another command still stands."""
    session = Session("Make the checks pass.")
    session.call("Bash", "lib/io_test.go:12:3: undefined: Reader\nFAIL\tlib/io\t0.4s", command="go test ./lib/io")
    session.call("Bash", "src/a.ts(3,1): error TS2304: Cannot find name 'chalk'.", command="tsc -p src")
    text = session.call("Bash", "ok  \tlib/io\t0.5s", command="go test ./lib/io ./lib/net").text()
    assert "## Last check\n- go test ./lib/io ./lib/net: succeeded" in text
    assert "error TS2304" in text
    assert "undefined: Reader" not in text
    assert "FAIL" not in text


def test_many_files_are_listed_in_linear_time():
    """A file is found by any spelling without a comparison with all others."""

    def ledger(messages: list[Message]) -> object:
        return read_ledger(messages)

    def session(size: int) -> list[Message]:
        session = Session("Read everything.")
        for number in range(size // 16):
            session.call("Read", "ok", file_path=f"/srv/app/part_{number}/__init__.py")
        return session.messages

    assert_linear(ledger, session)


def test_a_file_has_one_entry_under_its_longest_spelling():
    """The file that was touched first is meant if several fit."""
    session = Session("Fix the imports.")
    for path in ("b/app.py", "a/app.py", "app.py", "/srv/x/b/app.py", "b/app.py", "/srv/y/a/app.py"):
        session.call("Read", "ok", file_path=path)
    assert [(file.path, file.positions) for file in read_ledger(session.messages)] == [
        ("/srv/x/b/app.py", [1, 5, 7, 9]),
        ("/srv/y/a/app.py", [3, 11]),
    ]


def test_the_outline_of_a_file_stays_with_its_file():
    """In the map of a repository, the lines of a file follow its name."""
    outline = "app/diffs.py:\n⋮...\n│def find_last(lines):\n│def main():\n⋮...\napp/dump.py:\n│def dump(*vals):"
    session = Session("Show the map of the repository.")
    session.messages.append(Message("assistant", outline, id="a1"))
    lines = session.text().split("\n")
    assert "- app/diffs.py: def find_last(lines):; def main():" in lines
    assert "- app/dump.py: def dump(*vals):" in lines
