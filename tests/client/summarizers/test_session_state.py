"""Summaries state what is true at the end: values, decisions, requests and to-do lists."""

from __future__ import annotations

import pytest
from compact.messages import Message
from compact.reading.blocks import Block
from compact.reading.summary_blocks import summary_blocks
from compact.reading.tokens import estimate_tokens
from compact.summarizers import ExtractiveSummarizer
from compact.summarizers.extraction.span_index import SpanIndex
from compact.summarizers.extraction.summary_builder import fit
from compact.summary.entries import Note
from compact.summary.structured_summary import StructuredSummary

from tests.growth import assert_linear
from tests.summary_session import STYLES, Session, edit


def test_an_argument_of_several_lines_is_visibly_cut():
    """The call shows the first line, which is not the whole query."""
    text = Session("Who has friends?").call("execute", "[]", query="SELECT name,\n  COUNT(*)\nFROM friend").text()
    assert "execute(SELECT name, …)" in text


def test_only_the_last_of_nearly_equal_open_actions_takes_room():
    """The others repeat it. A line that mentions something else stays."""
    steps = (
        "To fix the import, we still need to change the resolver in lint/loader.py for packages.",
        "To fix the import, we still need to change the resolver in lint/loader.py for all packages.",
        "To fix the import, we still need to change the resolver in lint/loader.py for nested packages.",
        "To fix the import, we still need to change the resolver in lint/parser.py for packages.",
    )
    session = Session("The import of packages fails.")
    session.messages += [Message("assistant", text, id=f"a{number}") for number, text in enumerate(steps, 1)]
    assert sorted(item.description for item in session.summary(max_tokens=110).open_items) == sorted(steps[2:])


def test_only_the_last_of_nearly_equal_commands_gets_a_bonus():
    """An agent runs the same tests after each change."""
    commands = ("Bash(make check | tail -20) Run all tests", "Bash(make check | tail -20) Run all tests again")
    index = SpanIndex()
    index.add([Block((command,), "command", (), position) for position, command in enumerate(commands)])
    first, last = index.candidates
    assert first.bonus == 0.0 < last.bonus


def test_the_parts_of_a_file_stand_under_one_call():
    """An agent reads a large file part by part. The path is written once."""
    session = Session("Where is the limit set?")
    session.call("Read", "max_limit = 5", file_path="src/limits.py", offset=1, limit=100)
    session.call("Read", "min_limit = 2", file_path="src/limits.py", offset=101, limit=100)
    assert "> Read(file_path=src/limits.py)\n max_limit = 5\n min_limit = 2" in session.text()


def status_runs(*outputs: str) -> Session:
    session = Session("Clean up the branch.")
    for output in outputs:
        session.call("Bash", output, command="git status")
    return session


def test_the_output_of_a_repeated_call_stands_under_its_own_run():
    """Nothing is printed under another call's heading."""
    text = status_runs(
        "On branch dev/OPS-4417", "On branch dev/OPS-4418", "<tool_use_error>dev/OPS-4419 is locked"
    ).text()
    assert "$ Bash(git status)\n On branch dev/OPS-4417\n$ Bash(git status) – run 2\n On branch dev/OPS-4418\n" in text
    assert "> Bash(git status) – run 3 → failed\n <tool_use_error>dev/OPS-4419 is locked" in text


@pytest.mark.parametrize("is_parsed", [False, True])
def test_runs_are_counted_over_several_compactions(is_parsed):
    """The output of an earlier summary is not mixed with the newest one."""
    earlier = status_runs("On branch dev/OPS-4417", "On branch dev/OPS-4418").summary()
    later = status_runs("On branch dev/OPS-4419").messages[1:]
    if is_parsed:
        messages, previous = [Message("assistant", earlier.render(), id="s1"), *later], None
    else:
        messages, previous = later, earlier
    text = ExtractiveSummarizer().summarize_span(messages, max_tokens=800, previous=previous).render()
    assert (
        "$ Bash(git status) – run 2\n On branch dev/OPS-4418\n$ Bash(git status) – run 3\n On branch dev/OPS-4419"
        in text
    )


def test_a_question_of_the_user_comes_before_tool_output():
    """It mentions no name, and no tool can show it again."""
    session = Session("Clean up the sessions.").user("Which of the broken states would the repair have to handle?")
    session.call("Read", "\n".join(f"state_{number} = find_state({number})" for number in range(200)), path="src/a.py")
    session.user("Now write the release notes for version 2.4.")
    assert "user: Which of the broken states" in session.text(max_tokens=250)


def test_a_kept_question_of_the_user_keeps_its_bonus():
    """It is worth as much in the next round as in the first."""
    session = Session("Clean up the sessions.").user("Which of the broken states would the repair have to handle?")
    index = SpanIndex()
    index.add(summary_blocks(session.user("Now write the release notes for version 2.4.").summary()))
    assert "statements" in {line.field for line in index.candidates}


def test_instructions_come_before_names():
    """Names do not take the room of what the user demands."""
    parts = ("id", "role", "time", "author", "name", "size")
    rules = [f"Never change the {part} of a stored message without a migration." for part in parts]
    files = " ".join(f"src/stored/part_{number}.py" for number in range(60))
    session = Session("Fix the storage.").user(" ".join(rules)).user(f"The files are {files}")
    session.user("Now write the release notes.")
    text = session.text(max_tokens=220)
    assert all(rule in text for rule in rules)


@pytest.mark.req("A-SUM-1")
def test_a_changed_value_is_shown_with_the_old_one_marked_as_past():
    """The old value is nowhere shown as current."""
    session = Session("Raise the limit.").call("Read", "RETRY_LIMIT = 3", file_path="src/a.py")
    text = edit(session, "src/a.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 500").text()
    assert "a.py: RETRY_LIMIT = 500 (was 3)" in text
    assert text.count("RETRY_LIMIT = 3") == 0


def test_lines_of_a_search_that_an_edit_removed_are_not_shown():
    """The output of grep has a file and a line number before each line."""
    session = Session("Raise the limit.").call(
        "Grep", "src/a.py:12:RETRY_LIMIT = 3\n12:RETRY_LIMIT = 3", pattern="LIMIT"
    )
    text = edit(session, "src/a.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 500").text()
    assert "a.py: RETRY_LIMIT = 500 (was 3)" in text
    assert "RETRY_LIMIT = 3" not in text


def test_an_edit_that_the_user_undid_changed_no_value():
    """A later look into the file shows the old value again."""
    session = edit(Session("Raise the limit."), "src/a.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 500")
    session.user("I undid your change. Read the file again.")
    assert "RETRY_LIMIT = 500 (was 3)" in session.text()
    text = session.call("Read", "    12→RETRY_LIMIT = 3\n", file_path="/srv/src/a.py").text()
    assert "a.py: the change of RETRY_LIMIT to 500 was undone, it is 3 again" in text
    assert "(was 3)" not in text


def test_only_the_newest_todo_list_is_shown():
    """The calls that maintain it do not repeat older states."""
    session = Session("Do the three things.")
    for state in ("pending", "in_progress"):
        session.call("TodoWrite", "ok", todos=[{"content": "Write the parser", "status": state}])
    text = session.text()
    assert "[in_progress] Write the parser" in text
    assert "pending" not in text


def test_numbered_tasks_have_their_newest_state():
    """Tasks that are created and updated one by one form one list."""
    session = Session("Do the two things.")
    session.call("TaskCreate", "Task #1 created", subject="Write the parser")
    session.call("TaskUpdate", "Updated task #1", taskId="1", status="completed")
    assert "- [completed] #1 Write the parser" in session.text()


def test_numbered_tasks_are_listed_although_their_newest_update_stays():
    """An update in the prompt shows a number and a state, but not the list."""
    session = Session("Do the two things.")
    session.call("TaskCreate", "Task #1 created", subject="Write the parser")
    session.call("TaskCreate", "Task #2 created", subject="Write its tests")
    count = len(session.messages)
    session.call("TaskUpdate", "Updated task #1", taskId="1", status="completed")
    old, visible = session.messages[:count], session.messages[count:]
    text = ExtractiveSummarizer().summarize_span(old, max_tokens=800, visible=visible).render()
    assert "## Recorded plan\n- [completed] #1 Write the parser\n- [pending] #2 Write its tests" in text


@pytest.mark.parametrize("is_parsed", [False, True])
def test_numbered_tasks_of_an_earlier_summary_are_updated(is_parsed):
    """An update gives only a number. The earlier summary knows the task."""
    session = Session("Do the two things.").call("TaskCreate", "Task #1 created", subject="Write the parser")
    session.call("TaskUpdate", "Updated task #1", taskId="1", status="in_progress")
    earlier = session.summary()
    later = Session().call("TaskUpdate", "Updated task #1", taskId="1", status="completed").messages
    if is_parsed:
        messages, previous = [Message("assistant", earlier.render(), id="s1"), *later], None
    else:
        messages, previous = later, earlier
    summary = ExtractiveSummarizer().summarize_span(messages, max_tokens=800, previous=previous)
    assert [note.text for note in summary.current_plan] == ["[completed] #1 Write the parser"]


@pytest.mark.parametrize("style", ["task_state", "brief", "extractive_brief", "step_ledger", "requirements_ledger"])
def test_the_newest_and_the_first_request_come_first(style):
    """An agent reads them before files, records and instructions, also in the next summary."""
    session = Session("Port the settings page to the new form library.", "Never change files in src/generated.")
    session.call("get_page", '{"page_id": "P-118", "status": "live"}', page_id="P-118")
    edit(session, "src/pages/settings.tsx", "<OldForm>", "<Form>")
    session.user("Now do the same for the billing page, please.")
    summary = session.summary(style=style)
    later = Session().call("Bash", "3 passed", command="pytest -q").messages
    continued = ExtractiveSummarizer().summarize_span(later, style=style, max_tokens=800, previous=summary)
    for text in (summary.render(), continued.render()):
        lines = [line for line in text.split("\n")[2:] if not line.startswith("## ")]
        assert "billing page" in lines[0]
        assert "settings page" in lines[1]


@pytest.mark.parametrize(
    "style", ["task_state", "brief", "step_ledger", "requirements_ledger", "code_delta", "decision_log"]
)
def test_a_rendered_state_can_be_parsed(style):
    """Files, checks, values and records survive a round trip through the text."""
    session = Session("Fix order W-118 in src/app/a.py.")
    session.call("get_order", '{"order_id": "W-118", "status": "paid"}', order_id="W-118")
    session.call("Read", "x", file_path="/srv/app/src/read.py")
    edit(session, "/srv/app/src/a.py", "LIMIT = 3", "LIMIT = 500")
    session.call("Bash", "", command="rm /srv/app/src/gone.py").call("Bash", "3 passed", command="pytest -q")
    summary = session.summary(style=style)
    parsed = StructuredSummary.parse(summary.render())
    assert parsed is not None
    assert {file.path: file.state for file in parsed.files} == {file.path: file.state for file in summary.files}
    for name in ("checks", "changed_values", "records"):
        assert [entry.text for entry in getattr(parsed, name)] == [entry.text for entry in getattr(summary, name)]
        assert getattr(summary, name)
    assert parsed.render() == summary.render()


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize(
    "unit",
    [
        "<command-{n}>",
        "<system-reminder>",
        "<!--",
        "cat <<EOF > a{n}.py\n",
        "key: value{n}\n",
        "| a | b |\n",
        "a=b.c(d",
        '{{"id": "a{n}"}}\n',
        "/a/b",
        "Traceback (most recent call last):\n",
        "=== FAILURES ===\n",
        "<<<<<<< SEARCH\n",
        "/ask {n}\n",
        "# \n",
        "flake8.....Failed\n\n",
        "diff --git a\n+\n",
    ],
)
def test_hostile_text_is_summarized_in_linear_time(unit):
    """In a request, a command and a result."""

    def session(size: int) -> list[Message]:
        text = "".join(unit.format(n=n) for n in range(size // len(unit)))
        return Session(text).call("Bash", text, command=text).messages

    def summarize(messages: list[Message]) -> object:
        return ExtractiveSummarizer().summarize_span(messages, max_tokens=300)

    assert_linear(summarize, session)


def short_session() -> Session:
    session = Session("Add rate limiting to the API, please.")
    session.messages.append(Message("assistant", "I'll use Redis because the API runs on several nodes.", id="a1"))
    edit(session, "src/api/limits.py", "LIMIT = 10", "LIMIT = 100")
    session.user("Let's go with a sliding window. See https://example.org/sliding-window for details.")
    session.call("Bash", "FAILED tests/test_limits.py::test_burst\n1 failed", command="pytest -q tests/test_limits.py")
    session.messages.append(Message("assistant", "The burst test still fails.", id="a9"))
    return session


@pytest.mark.req("P-SUM-1", "A-SUM-2")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("count", [4, 9])
def test_a_short_remainder_is_copied_in_every_style(style, count):
    """The goal, the decision and the changed file are there word for word."""
    session = short_session()
    session.messages = session.messages[:count]
    text = session.text(style=style)
    assert "Add rate limiting to the API, please." in text
    assert "I'll use Redis" in text
    assert "src/api/limits.py: edited, `LIMIT = 100`" in text


def test_decisions_of_the_user_are_in_the_ledger_in_order():
    """Each line has its step, who decided, what it was based on and what it led to."""
    ledger = [line for line in short_session().text(style="decision_log").split("\n") if " :: " in line]
    assert ledger == [
        "[a1] I'll use Redis :: because the API runs on several nodes. :: Add rate limiting to the API, please."
        " :: Edit → ok",
        "[u4] user: Let's go with a sliding window. See https://example.org/sliding-window for details. :: -"
        " :: I'll use Redis because the API runs on several nodes."
        " :: Bash → FAILED tests/test_limits.py::test_burst",
    ]


def test_a_message_of_a_program_is_not_an_answer_of_the_user():
    """An answer that begins with "no" has a punctuation mark behind it."""
    session = Session("Show the settings.", "No model settings files loaded", "No, keep the old model.")
    session.user("Now show the settings of the old model.")
    assert [entry.decision for entry in session.summary().decisions] == ["user: No, keep the old model."]


def test_the_list_of_files_does_not_explain_them():
    """A line about a changed file is still worth something beside the list of changed files."""
    index = SpanIndex()
    index.add([Block(("src/limits.py: edited",), "edit", (), 0, field="files")])
    (line,) = index.candidates
    assert line.unexplained == line.entities


def test_sources_are_listed_by_name():
    """Web addresses that the user or the agent mentioned or opened have their own section."""
    assert short_session().text().endswith("## Sources\n- https://example.org/sliding-window")


def test_the_reason_of_an_error_is_not_a_decision():
    line = "ERROR: Cannot install tokenizers because these package versions have conflicting dependencies."
    session = Session("Update the requirements of the importer.")
    session.messages.append(Message("assistant", f"pip failed.\n\n{line}", id="a1"))
    assert session.summary().decisions == ()
    assert line in session.text()


def test_a_result_before_an_announcement_is_a_decision():
    """The colon belongs to the last sentence only."""
    line = "Found three issues that are already fixed. Let me check two more:"
    session = Session("Review the importer.")
    session.messages.append(Message("assistant", line, id="a1"))
    assert [entry.decision for entry in session.summary().decisions] == [line]


def test_the_room_that_shared_directories_leave_is_used():
    """Paths are written relative to their directory, so more lines fit than their sizes suggest."""
    session = Session("Clean up the package.")
    for number in range(200):
        path = f"/srv/importer/source/packages/readers/reader_{number}.py"
        edit(session, path, f"limit_{number} = 1", f"limit_{number} = 2")
        session.messages.append(
            Message("assistant", f"The rows of table_{number} are read by part {number}.", id=str(number))
        )
    tokens = estimate_tokens(session.text(max_tokens=4_500))
    assert 4_200 <= tokens <= 4_500


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: must be exactly one of the allowed values here",
        "Why does it not work without the flag?",
        "src/app.py:12: DeprecationWarning: the function is required to use abc instead of collections",
        "return self.limit(x, only=True, instead=False)",
        "You can use /undo to revert and discard commit f542c65.",
        "I don't remember the reservation number, sorry.",
        "What's the command that we need to use for that?",
        "$ 0.0271    9,021 repository map  use --map-tokens to resize",
        "Commit fd43cd4 feat: Use the spinner instead of the inlined one",
        "Model gpt-4-mini: Unknown which environment variables are required.",
        "No files matched 'aider/io_polling.py'. Do you want to create /srv/aider/io_polling.py? y",
    ],
)
def test_questions_and_tracebacks_are_not_constraints(text):
    """Only instructions are constraints."""
    summary = Session("Change my flight to Houston.", text, "Go on with the change now.").summary()
    assert [note.text for note in summary.constraints] == []


@pytest.mark.parametrize(
    "text",
    [
        "Return only JSON.",
        "I can't fly on Mondays.",
        "I don't remember the date, but use only the Visa card.",
        "Never edit src/app.py:12 manually.",
    ],
)
def test_instructions_that_resemble_code_or_excuses_are_constraints(text):
    """Losing an instruction is worse than keeping a line of code."""
    summary = Session("Change my flight to Houston.", text, "Now write the confirmation mail.").summary()
    assert [note.text for note in summary.constraints] == [text]


def test_a_kept_summary_does_not_lose_its_facts_over_ten_rounds():
    """The lines of a summary and of new messages are selected together, and the result fits its room."""
    session = Session("Never restart node-71 without asking. Ticket OPS-4411 concerns /srv/store/index.db.")
    summary = session.summary(max_tokens=400)
    for number in range(10):
        later = Session(f"Go on with part {number} of the plan.")
        later.call("Bash", f"{number} rows of table_{number} were read\n" * 30, command=f"cat part_{number}.log")
        summary = ExtractiveSummarizer().summarize_span(later.messages, max_tokens=400, previous=summary)
        assert estimate_tokens(summary.render()) <= 400
    text = summary.render()
    assert [fact for fact in ("Never restart node-71", "OPS-4411", "store/index.db") if fact not in text] == []


def test_a_decision_of_the_user_outlasts_those_of_the_assistant():
    """It is as binding in the tenth summary as in the first."""
    choice = "Agreed, the smaller schema with both nullable columns is better for the first version that customers see."
    requests = "Fix the importer so that it reads all rows.", choice, "Then run the tests of the importer again."
    summary = Session(*requests).summary(max_tokens=300)
    for number in "abcdefghij":
        later = Session(f"Go on with part {number}.")
        for part in "stuvwxyz":
            text = f"I decided to keep app/{number}_{part}.py because {number}/{part}/main.py imports it."
            later.messages.append(Message("assistant", text, id=f"{number}{part}"))
        summary = ExtractiveSummarizer().summarize_span(later.messages, max_tokens=300, previous=summary)
    assert f"user: {choice}" in [decision.decision for decision in summary.decisions]


def test_lines_that_a_summary_had_no_room_for_return_when_there_is_room():
    """A large message in the prompt leaves no room for one round. The round after it shows the earlier facts again."""
    messages = [
        Message("user", "Move the orders table to the new cluster.", id="u1"),
        Message("assistant", "The primary is db-eu-17 and the ticket is OPS-4411.", id="a1"),
        Message("assistant", "I decided to keep the replica db-eu-18 because the failover needs it.", id="a2"),
    ]
    summarizer = ExtractiveSummarizer()
    first = summarizer.summarize_span(messages, max_tokens=400)
    squeezed = fit(first, max_tokens=45)
    assert "OPS-4411" not in squeezed.render()
    stored = StructuredSummary.from_dict(squeezed.to_dict())
    later = summarizer.summarize_span([Message("assistant", "Copying has begun.", id="a3")], previous=stored)
    assert "OPS-4411" in later.render()
    assert "db-eu-18" in later.render()


def test_a_kept_error_line_of_a_tool_stays_tool_output():
    """The next summary does not treat the names in it as if the user or the assistant had said them."""
    note = Note("FAILED tests/test_io.py::test_read", ("t1",), 0, "tool")
    (block,) = summary_blocks(StructuredSummary(errors=(note,)))
    assert block.kind == "output"


def test_completed_items_of_an_earlier_to_do_list_are_done():
    """A new list replaces the old one, but what was completed stays known."""

    def todos(**states: str) -> list[dict[str, str]]:
        return [{"content": name.replace("_", " "), "status": state} for name, state in states.items()]

    session = Session("Fix the login.")
    session.call("TodoWrite", "ok", todos=todos(Reproduce_the_fault="in_progress", Write_a_test="pending"))
    session.call("TodoWrite", "ok", todos=todos(Reproduce_the_fault="completed", Write_a_test="completed"))
    text = session.call("TodoWrite", "ok", todos=todos(Update_the_docs="pending")).text()
    assert "- [pending] Update the docs" in text
    assert "- done: Reproduce the fault" in text
    assert "[completed]" not in text


def test_a_commit_shows_the_first_line_of_its_message():
    """The subject of a commit is the shortest account of a change."""
    command = "git add -A && git commit -m \"$(cat <<'EOF'\nReturn after t.Fatal in the tests\n\nLong text.\nEOF\n)\""
    text = Session("Fix the lint errors.").call("Bash", "1 file changed", command=command).text()
    assert "$ Bash(git add -A && git commit -m \"$(cat <<'EOF' Return after t.Fatal in the tests …)" in text


@pytest.mark.parametrize(
    "line",
    [
        "Now at:  d5ff892 fix: use get_head() in init_before_message",
        "HEAD is: 843eed8 fix: Use GitTemporaryDirectory instead",
        "Unexpected error: the model must be set",
    ],
)
def test_messages_of_programs_are_not_constraints(line):
    """Output that the user pasted is not an instruction."""
    assert Session(f"Fix the printer in pretty.py.\n{line}").summary().constraints == ()


def test_a_fact_after_sure_is_not_a_decision():
    """A user who gives an id has not decided anything."""
    session = Session("Cancel my flight.").user("Sure, my user ID is raj_brown_5782.").user("Yes, cancel both flights.")
    session.user("Now send the confirmation mail.")
    assert [entry.decision for entry in session.summary().decisions] == ["user: Yes, cancel both flights."]
