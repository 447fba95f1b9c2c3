"""Summaries state what is true at the end: requests, files, the last check, values and records."""

from __future__ import annotations

import json

import pytest
from compact.messages import Message, ToolCall
from compact.summarizers import ExtractiveSummarizer
from compact.summarizers.extraction.blocks import Block
from compact.summarizers.extraction.entities import find_entities
from compact.summarizers.extraction.span_index import SpanIndex
from compact.summarizers.extraction.state.file_ledger import read_ledger
from compact.summarizers.extraction.summary_blocks import summary_blocks
from compact.summarizers.extraction.summary_builder import estimate_tokens, fit
from compact.summary.entries import Note
from compact.summary.structured_summary import StructuredSummary

from tests.growth import assert_linear


class Session:
    """Builds a conversation call by call."""

    def __init__(self, *requests: str) -> None:
        self.messages = [Message("user", text, id=f"u{number}") for number, text in enumerate(requests)]

    def call(self, name: str, result: str, **arguments: object) -> Session:
        number = len(self.messages)
        call = ToolCall(f"c{number}", name, json.dumps(arguments))
        self.messages.append(Message("assistant", "", tool_calls=(call,), id=f"a{number}"))
        self.messages.append(Message("tool", result, tool_call_id=call.id, id=f"t{number}"))
        return self

    def user(self, text: str) -> Session:
        self.messages.append(Message("user", text, id=f"u{len(self.messages)}"))
        return self

    def summary(self, *, max_tokens: int = 800, style: str = "task_state") -> StructuredSummary:
        return ExtractiveSummarizer().summarize_span(self.messages, max_tokens=max_tokens, style=style)

    def text(self, **options: object) -> str:
        return self.summary(**options).render()


def edit(session: Session, path: str, old: str, new: str, result: str = "ok") -> Session:
    return session.call("Edit", result, file_path=path, old_string=old, new_string=new)


def test_a_record_stays_on_one_line_with_its_id_first():
    """Every value stands with its record, and a child names its parent."""
    reservation = {
        "reservation_id": "OBUT9V",
        "cabin": "economy",
        "flights": [{"flight_number": "HAT266", "date": "2024-05-28", "price": 131}],
        "passengers": [{"first_name": "Sofia", "last_name": "Kim"}],
    }
    session = Session("Change my flight to Houston, please.")
    text = session.call("get_reservation", json.dumps(reservation), reservation_id="OBUT9V").text()
    assert "- reservation OBUT9V: cabin=economy, flights=HAT266, passengers(first_name=Sofia, last_name=Kim)" in text
    assert "- flight HAT266 (reservation OBUT9V): date=2024-05-28, price=131" in text


def test_the_lines_of_a_long_record_are_joined():
    """A record is split into lines that can be selected one by one, but its id is shown once."""
    issue = {"identifier": "ENT-221"} | {f"field{number}": f"a value of the issue {number}" for number in range(12)}
    text = Session("Read the issue.").call("get_issue", json.dumps(issue), id="ENT-221").text()
    (line,) = (line for line in text.split("\n") if line.startswith("- record ENT-221: "))
    assert "field0=a value of the issue 0, " in line
    assert line.endswith("field11=a value of the issue 11")


@pytest.mark.parametrize(
    ("key", "kind"),
    [("reservation_id", "reservation"), ("reservationId", "reservation"), ("oid", "oid"), ("headRefOid", "headRefOid")],
)
def test_the_kind_of_a_record_is_a_whole_word(key, kind):
    """Only a suffix that is a word of its own is removed from the name of the id."""
    text = Session("Look it up.").call("look_up", json.dumps({key: "74d4fd04a1", "status": "open"})).text()
    assert f"- {kind} 74d4fd04a1: status=open" in text


def test_a_result_without_an_id_belongs_to_the_id_that_the_call_asked_for():
    """The id of the call's argument is the id of the record."""
    text = Session("Is the order paid?").call("get_order", '{"status": "paid", "total": 75.5}', order_id="W-118").text()
    assert "- order W-118: status=paid, total=75.5" in text


def test_a_result_that_repeats_the_id_of_the_call_is_that_record():
    """An internal id is one more field, so that no line has to name two ids."""
    issue = json.dumps({"id": "864b2bd6-8b26-4965", "identifier": "ENT-108", "status": "Todo"})
    text = Session("Read the issue ENT-108.").call("get_issue", issue, id="ENT-108").text()
    assert "- record ENT-108: id=864b2bd6-8b26-4965, status=Todo" in text


def test_objects_without_ids_are_rows_of_a_table():
    """The values of one object stay together, and the names of their fields are written once."""
    legs = [
        {"flight": "AR173", "from": "LIS", "departs": "2026-12-17T17:45Z", "cabin": "economy", "fare_basis": "V80AR"},
        {"flight": "AR511", "from": "ATH", "departs": "2026-12-01T12:45Z", "cabin": "business", "fare_basis": "L27AR"},
    ]
    fees = [{"rule": "R0", "fee_eur": 67}, {"rule": "R1", "fee_eur": 164}, {"rule": "R2", "fee_eur": 115}]
    result = json.dumps({"total_eur": 688, "legs": legs, "fees": fees})
    session = Session("Which legs has order W-118?").call("get_order", result, order_id="W-118")
    first = session.summary()
    assert "order W-118: total_eur=688, " in first.render()
    assert (
        "legs(flight, from, departs, cabin, fare_basis: AR173, LIS, 2026-12-17T17:45Z, economy, V80AR; "
        "AR511, ATH, 2026-12-01T12:45Z, business, L27AR)"
    ) in first.render()
    assert "fees(rule, fee_eur: R0, 67; R1, 164; R2, 115)" in first.render()
    assert "fare_basis" not in [entity.name for entity in first.entities]
    again = ExtractiveSummarizer().summarize_span([Message("user", "And now?", id="n")], previous=first, max_tokens=900)
    assert [record.text for record in again.records] == [record.text for record in first.records]


def test_values_without_an_id_stand_under_their_call():
    """Nothing else says what they are about."""
    result = json.dumps({"available": 3, "cheapest": "AR982"})
    text = Session("Find a flight to Toronto.").call("search_flights", result, to="YYZ", day=14).text()
    assert "> search_flights(to=YYZ, day=14)\n available=3, cheapest=AR982" in text


def test_only_the_sentence_of_an_output_that_has_the_figures_is_kept():
    """A paragraph of prose in a tool result is split like one of the assistant."""
    figure = "1. In 2023 the island sites reported 34.8% curtailment over 6,305 MWh of storage, above the forecast."
    rest = "Nobody wanted to explain why this happened, and the authors of the report moved on to other matters."
    text = Session("What fails first?").call("fetch", f"{figure} {rest}", title="x").text(max_tokens=110)
    assert figure in text
    assert rest not in text


def test_templates_of_addresses_are_not_values_of_a_record():
    """A link with a placeholder takes space and leads nowhere."""
    user = {"user_id": "ada_42", "gists": "https://api.example.com/ada{/gist_id}", "page": "https://example.com/ada"}
    text = Session("Find Ada, please.").call("get_user", json.dumps(user), user_id="ada_42").text()
    assert "- user ada_42: page=https://example.com/ada" in text
    assert "gist" not in text


def test_a_long_value_is_not_part_of_its_line():
    """The line gives its length, and its sentences are lines of their own."""
    body = "The gateway gw-7781 closes after 20 seconds. " + "More words follow here. " * 20
    issue = json.dumps({"id": "ENT-194", "state": "open", "body": body})
    text = Session("Read the issue ENT-194.").call("get_issue", issue, issue_id="ENT-194").text()
    assert f"- issue ENT-194: state=open, body=<{len(body)} characters>" in text
    assert "The gateway gw-7781 closes after 20 seconds." in text


def test_the_length_of_a_long_value_is_not_an_old_value():
    """A later call may show the beginning of the same text."""
    whole = json.dumps({"id": "ENT-194", "body": "The gateway closes too early. " * 20})
    part = json.dumps({"id": "ENT-194", "body": "The gateway closes too early."})
    session = Session("Read the issue ENT-194.").call("get_issue", whole, issue_id="ENT-194")
    assert "body=The gateway closes too early.\n" in session.call("get_issue", part, issue_id="ENT-194").text() + "\n"


def test_key_value_output_with_an_id_is_one_record():
    """`gh pr view` and similar commands print one field per line."""
    output = "title:\tFix the login\nstate:\tOPEN\nnumber:\t142\nadditions:\t2136\n--\nBody text."
    text = Session("Review the pull request.").call("Bash", output, command="gh pr view 142").text()
    assert "142: title=Fix the login, state=OPEN, additions=2136" in text


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "| Phase | Condition |\n|---|---|\n| PhaseEnded | files touched |\n| PhaseIdle | normal commit |",
            "- phase PhaseEnded: Condition=files touched\n- phase PhaseIdle: Condition=normal commit",
        ),
        (
            "order,status,total\nW-118,paid,75.50\nW-119,open,12.00\nW-120,open,3.10",
            "- order W-118: status=paid, total=75.50\n- order W-119: status=open, total=12.00",
        ),
        (
            "NAME      READY   STATUS\nweb-7f9c  1/1     Running\ndb-0a1b   0/1     CrashLoopBackOff\n",
            "- name web-7f9c: READY=1/1, STATUS=Running\n- name db-0a1b: READY=0/1, STATUS=CrashLoopBackOff",
        ),
        (
            'Found 2 orders\n{"order_id": "W-118", "status": "paid"}\n{"order_id": "W-119", "status": "open"}\nDone',
            "- order W-118: status=paid\n- order W-119: status=open",
        ),
    ],
)
def test_rows_of_tables_are_records(output, expected):
    """Markdown, CSV, columns of a command and lines of JSON keep each value with its id and field."""
    assert expected in Session("Which of these have a problem?").call("list", output, path="x").text()


def test_calls_in_code_are_not_the_rows_of_a_table():
    """Each line has two commas, but the parenthesis spans its cells."""
    code = "\n".join(f"logging.{level}(ctx, msg, attrs...)" for level in ("Debug", "Info", "Warn", "Error"))
    summary = Session("How do we log?").call("read", code, path="logger.go").summary()
    assert not summary.records
    assert "logging.Info(ctx, msg, attrs...)" in summary.render()


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
    assert "questions" in {line.field for line in index.candidates}


def test_the_parts_of_a_dotted_name_are_not_listed_again():
    """`path.joinAll` already contains `joinAll`."""
    index = SpanIndex()
    index.add([Block(("path.joinAll(parts)",), "output", (), 0)])
    dotted, part = index.keys.index("path.joinall"), index.keys.index("joinall")
    assert index.with_parts(dotted) == (dotted, part)


def test_instructions_come_before_names():
    """Names do not take the room of what the user demands."""
    parts = ("id", "role", "time", "author", "name", "size")
    rules = [f"Never change the {part} of a stored message without a migration." for part in parts]
    files = " ".join(f"src/stored/part_{number}.py" for number in range(60))
    session = Session("Fix the storage.").user(" ".join(rules)).user(f"The files are {files}")
    session.user("Now write the release notes.")
    text = session.text(max_tokens=220)
    assert all(rule in text for rule in rules)


def test_a_later_result_replaces_the_earlier_one():
    """The newest state is on one line, and a value that changed is marked."""
    session = Session("Cancel reservation K1NW8N.")
    session.call("get", '{"reservation_id": "K1NW8N", "status": "confirmed", "cabin": "economy"}')
    session.call("cancel", '{"reservation_id": "K1NW8N", "status": "canceled"}')
    text = session.text()
    assert "status=canceled (was confirmed)" in text
    assert text.count("reservation K1NW8N: ") == 1
    assert "cabin=economy" in text


def test_a_later_result_replaces_a_record_of_an_earlier_summary():
    """Records are merged over several compactions too."""
    first = Session("Cancel reservation K1NW8N.")
    first.call("get", '{"reservation_id": "K1NW8N", "status": "confirmed", "cabin": "economy"}')
    earlier = Message("assistant", first.summary().render(), id="s1")
    later = Session("Go on with it.").call("cancel", '{"reservation_id": "K1NW8N", "status": "canceled"}')
    summary = ExtractiveSummarizer().summarize_span([earlier, *later.messages], max_tokens=800)
    assert [record.text for record in summary.records] == [
        "reservation K1NW8N: status=canceled (was confirmed), cabin=economy"
    ]


def test_the_same_id_on_another_day_is_another_record():
    """A flight number is used every day."""
    session = Session("Find a flight to Houston.")
    for day, price in ((27, 130), (28, 122)):
        session.call("search", json.dumps([{"flight_number": "HAT266", "date": f"2024-05-{day}", "price": price}]))
    text = session.text()
    assert "- flight HAT266: date=2024-05-27, price=130" in text
    assert "- flight HAT266: date=2024-05-28, price=122" in text


def test_the_fields_that_were_used_come_first():
    """The agent asked about the cabin, so the cabin is on the first line of every reservation."""
    session = Session("Which of my reservations are in business?")
    filler = {f"note_{number}": f"text {number} without use" for number in range(12)}
    for code in ("OBUT9V", "K1NW8N", "Q0ZF0J"):
        session.call("get", json.dumps({"reservation_id": code, **filler, "cabin": f"business {code}"}))
    session.messages.append(Message("assistant", "They are business OBUT9V and business K1NW8N.", id="a99"))
    first_lines = [line for line in session.text(max_tokens=2000).split("\n") if "cabin=" in line]
    assert len(first_lines) == 3
    assert all(": cabin=business" in line for line in first_lines)


def test_json_of_any_shape_is_read_without_an_error():
    """Deep, empty, numeric and invalid results are kept as text or records."""
    for result in ("[" * 500 + "]" * 500, "{}", "[]", "[1, 2]", '{"id": 7}', '{"id": "a1b2", "x": null}', "{broken"):
        assert Session("Look at this value 42.").call("get", result).summary() is not None


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
    assert "new.py: created, def start" in text
    assert "old.py: edited, def stop" in text
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
    assert "→ failed" in text


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


def test_the_first_and_the_newest_request_are_on_top_without_greetings():
    """Greetings, wrappers and banners are not requests."""
    session = Session(
        "Hi!", "<system-reminder>Use the tools.</system-reminder>Fix the login timeout in src/auth.py, please."
    )
    session.user("Thanks, great!").user("Now write the release notes for version 2.4.").user("ok")
    summary = session.summary()
    assert summary.current_task is not None
    assert summary.current_task.text == "Now write the release notes for version 2.4."
    assert [goal.text for goal in summary.goals] == ["Fix the login timeout in src/auth.py, please."]
    assert "Hi!" not in summary.render()


def test_a_short_first_request_is_a_goal_and_a_short_answer_is_no_task():
    """Two words of content are enough to ask for something at the beginning."""
    session = (
        Session("Hi there!", "Fix the importer.").user("Write tests for the CSV reader, too.").user("The second one.")
    )
    summary = session.summary()
    assert [goal.text for goal in summary.goals] == ["Fix the importer."]
    assert summary.current_task is not None
    assert summary.current_task.text == "Write tests for the CSV reader, too."


def test_a_rule_in_the_first_request_is_also_a_constraint():
    """A standing instruction keeps its own line."""
    summary = Session("Fix the login timeout.\nNever touch the production database.").summary()
    assert [note.text for note in summary.constraints] == ["Never touch the production database."]


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


@pytest.mark.parametrize(
    "unit",
    [
        "<command-{n}>",
        "<system-reminder>",
        "cat <<EOF > a{n}.py\n",
        "key: value{n}\n",
        "| a | b |\n",
        "a=b.c(d",
        '{{"id": "a{n}"}}\n',
        "/a/b",
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


STYLES = (
    "task_state",
    "brief",
    "extractive_brief",
    "decision_log",
    "code_delta",
    "step_ledger",
    "requirements_ledger",
)


def short_session() -> Session:
    session = Session("Add rate limiting to the API, please.")
    session.messages.append(Message("assistant", "I'll use Redis because the API runs on several nodes.", id="a1"))
    edit(session, "src/api/limits.py", "LIMIT = 10", "LIMIT = 100")
    session.user("Let's go with a sliding window. See https://example.org/sliding-window for details.")
    session.call("Bash", "FAILED tests/test_limits.py::test_burst\n1 failed", command="pytest -q tests/test_limits.py")
    session.messages.append(Message("assistant", "The burst test still fails.", id="a9"))
    return session


@pytest.mark.req("P-SUM-1")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("count", [4, 9])
def test_a_short_remainder_is_copied_in_every_style(style, count):
    """The goal, the decision and the changed file are there word for word."""
    session = short_session()
    session.messages = session.messages[:count]
    text = session.text(style=style)
    assert "Add rate limiting to the API, please." in text
    assert "I'll use Redis" in text
    assert "src/api/limits.py: edited, LIMIT = 100" in text


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
    texts = ("Show the settings.", "No model settings files loaded", "No, keep the old model.", "Go on.")
    assert [entry.decision for entry in Session(*texts).summary().decisions] == ["user: No, keep the old model."]


def test_code_that_only_repeats_a_name_explains_it_less():
    """The first line with a name introduces it, and a comment explains it. Another line of code does neither."""
    code = (
        "func parseConfig(path string) {",
        "cfg := parseConfig(p)",
        "// parseConfig reads the settings of a project",
    )
    index = SpanIndex()
    index.add([Block(code, "output", (), 0)])
    names = [[index.keys[entity] for entity in line.unexplained] for line in index.candidates]
    assert names == [[], ["parseconfig"], []]


def test_a_ledger_without_decisions_lists_the_requests():
    """A decision log is never empty."""
    session = Session("Find the fastest flight to Houston.").call("search", '[{"flight_number": "HAT266"}]', to="IAH")
    first = session.text(style="decision_log").split("\n")[2]
    assert first.startswith("[u0] user: Find the fastest flight to Houston. :: - :: - :: search → ")


AIDER_TURN = """Aider v0.35.1-dev
Models: gpt-4o with diff edit format, weak model gpt-3.5-turbo
Git repo: ../tmp9p9wnvlu/.git with 167 files
Repo-map: using 2048 tokens
Allow lists in the dict values of the hooks argument
Currently the Request class has a .register_hook() method, but it parses the dictionary that it expects strangely.
18319 prompt tokens, 253 completion tokens, $0.095390 cost"""


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("max_tokens", [150, 800])
def test_the_banner_of_a_program_is_neither_a_goal_nor_a_decision(style, max_tokens):
    summary = Session(AIDER_TURN, "requests/models.py").summary(style=style, max_tokens=max_tokens)
    (goal,) = summary.goals
    assert goal.text.startswith("Allow lists in the dict values")
    decisions = [entry.decision for entry in summary.decisions]
    assert not any(banner in text for text in decisions for banner in ("Aider v", "weak model", "prompt tokens"))


def test_messages_of_a_program_before_a_request_are_not_part_of_it():
    turn = """Tokens: 9,413 sent, 135 received. Cost: $0.03 request, $0.03 session.
Applied edit to aider/commands.py
Commit b057b30 fix: Handle an empty clipboard
You can use /undo to revert and discard commit b057b30.
Model openai/aws/claude-3.5-sonnet: Unknown context window size and costs, using sane defaults.
For more info, see: https://aider.chat/docs/llms/warnings.html
No models match "openai/aws/claude-3.5-sonnet".
^C again to exit
make a SuitableRepoNotFound class in repo.py"""
    summary = Session(turn, "Add the output to the chat?").summary()
    assert [note.text for note in summary.goals] == ["make a SuitableRepoNotFound class in repo.py"]
    assert summary.current_task is None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("max_tokens", [120, 300])
def test_a_request_that_is_too_long_keeps_its_beginning(style, max_tokens):
    """Both the first and the newest request have a place, however long they are."""
    details = " ".join(f"The invoice of client {number} goes to folder {number * 7}." for number in range(60))
    session = Session(f"Sort all invoices into folders. {details}", f"Now sort the receipts by date. {details}")
    text = session.text(style=style, max_tokens=max_tokens)
    assert "Sort all invoices into folders." in text
    assert "Now sort the receipts by date." in text


FAILED_EDIT = """Allow edits to tests/test_blueprints.py which was not previously added to chat? yes
The LLM did not conform to the edit format.
For more info see: https://aider.chat/docs/faq.html#aider-isnt-editing-my-files
# 1 SEARCH/REPLACE block failed to match!

## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in tests/test_blueprints.py
<<<<<<< SEARCH
def test_dotted_names(app, client):
=======
def test_names(app, client):
>>>>>>> REPLACE

The SEARCH section must exactly match an existing block of lines including all white space, comments and indentation
"""


LINT_ERRORS = """# Fix any errors below, if possible.

## Running: flake8 --select=E9,F821 --show-source --isolated sympy/sets/sets.py
sympy/sets/sets.py:1281:20: F821 undefined name 'Piecewise'
## See relevant line below marked with █.
"""


@pytest.mark.parametrize("report", [FAILED_EDIT, LINT_ERRORS])
def test_a_report_for_the_model_is_not_a_request(report):
    """The program sends the report to the model. After too many of them, the user starts again."""
    request = "Raise an error if the name of a blueprint contains a dot."
    again = f"{report}Only 4 reflections allowed, stopping.\n{AIDER_TURN}"
    summary = Session(request, report).summary()
    assert summary.current_task is None
    summary = Session(request, again).summary()
    assert summary.current_task is not None
    assert summary.current_task.text.startswith("Allow lists in the dict values of the hooks argument")


def test_a_request_that_the_user_repeats_is_listed_once():
    request = "Raise an error if the name of a blueprint contains a dot."
    summary = Session(request, "Use the newest version of the tests.", request).summary()
    assert summary.current_task is None
    assert [goal.text for goal in summary.goals] == [request]


@pytest.mark.parametrize(
    "request_text", ["Allow edits to invoices after they were paid.", "No models match the filter in the list, fix it."]
)
def test_a_request_that_begins_like_a_message_of_a_program_is_a_goal(request_text):
    assert [goal.text for goal in Session(request_text).summary().goals] == [request_text]


def test_a_request_is_shortened_after_a_line_so_that_the_next_one_is_an_instruction():
    request = "Raise an error if the name of a blueprint contains a dot\nNames must never contain dots, because "
    summary = Session(f"{request}every dot is now significant since blueprints can be nested.").summary(max_tokens=97)
    assert [goal.text for goal in summary.goals] == ["Raise an error if the name of a blueprint contains a dot …"]
    assert [note.text[:30] for note in summary.constraints] == ["Names must never contain dots,"]


def test_a_request_is_shortened_after_a_whole_word():
    goal = Session("Compare " + "ordinary " * 60).summary(max_tokens=120).goals[0].text
    assert goal.endswith("ordinary …")


def test_a_sentence_stays_if_the_request_only_has_its_beginning():
    trades = "baker, brewer, carpenter, dentist, farmer, gardener, grocer, hatter, printer, tailor, teacher and weaver"
    request = (
        f"Sort the letters of the {trades} by street, put each of them into its folder and then print the new list"
    )
    summary = Session(f"{request} of folders.").summary(max_tokens=150)
    assert summary.goals[0].text.endswith(" …")
    assert f"- user: {request} of folders." in summary.render()


@pytest.mark.parametrize("style", STYLES)
def test_no_style_is_empty_if_its_lines_are_longer_than_estimated(style):
    """The inputs and outputs of a decision are only known when its line is written."""
    session = Session("Hi! I need to change my flight back from Denver to Houston.")
    session.messages.append(Message("assistant", f"Could you give me the reservation id? {'It is in the mail. ' * 9}"))
    session.user("I don't remember the reservation ID, sorry.")
    session.messages.append(Message("assistant", f"Then your user id, please. {'It is in the profile. ' * 9}"))
    session.user("Sure, it's sofia_kim_7287.")
    session.call("get_user", '{"name": "Sofia", "city": "Denver"}', user_id="sofia_kim_7287")
    assert not session.summary(style=style, max_tokens=70).is_empty


def test_a_step_ledger_has_steps_beside_a_long_request():
    plan = "\n".join(f"- Create `cmd/part_{number}.go` and call `startPart{number}()` there." for number in range(80))
    session = Session(f"Implement the following plan.\n{plan}").call("Read", "package cmd", file_path="cmd/root.go")
    assert "1. > Read(file_path=cmd/root.go)" in session.text(style="step_ledger", max_tokens=300)


def test_a_ledger_without_decisions_leaves_out_what_programs_wrote():
    session = Session(
        "<command-name>/ide</command-name>",
        "<local-command-stdout>Connected to the editor.</local-command-stdout>",
        "<command-name>/plan</command-name>\n<command-args>split the parser in parse.go</command-args>",
    )
    assert [entry.decision for entry in session.summary(style="decision_log").decisions] == [
        "user: split the parser in parse.go"
    ]


def test_sources_are_listed_by_name():
    """Web addresses that the user or the agent mentioned or opened have their own section."""
    assert short_session().text().endswith("## Sources\n- https://example.org/sliding-window")


def test_the_reason_of_an_error_is_not_a_decision():
    line = "ERROR: Cannot install tokenizers because these package versions have conflicting dependencies."
    session = Session("Update the requirements of the importer.")
    session.messages.append(Message("assistant", f"pip failed.\n\n{line}", id="a1"))
    assert session.summary().decisions == ()
    assert line in session.text()


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


def test_a_path_in_the_output_of_grep_is_one_entity():
    """The line numbers of a search do not make each line name another file."""
    texts = ("src/app.go-12-x", "src/app.go:13:func", "src/app.go-14-")
    assert {key for text in texts for key, kind in find_entities(text) if kind == "path"} == {"src/app.go"}


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


def test_a_branch_of_a_switch_is_not_a_reference():
    """`case 0:` is code, and `case 1182` is a ticket."""
    assert find_entities("case 0:") == ()
    assert ("case 1182", "ticket") in find_entities("See case 1182 for the refund.")


def test_a_label_stands_with_the_line_that_it_announces():
    """`**First Leg:**` alone says nothing."""
    reply = (
        "This is your trip.\n\n**First Leg:**\n- Flight: HAT214\n- Seat: 4C\n\n**Key Files:**\n1. src/a.py reads CSV"
    )
    session = Session("Book the trip to Houston.")
    session.messages.append(Message("assistant", reply, id="a9"))
    lines = session.text().split("\n")
    assert "- **First Leg:** Flight: HAT214; Seat: 4C" in lines
    assert "- **Key Files:** 1. src/a.py reads CSV" in lines


def test_tags_control_sequences_and_reminders_are_not_part_of_a_summary():
    """Text that programs add for themselves or for a terminal is left out."""
    session = Session("Run the tests of the importer.")
    session.messages.append(Message("assistant", "<thinking>\nThe importer reads data.csv.\n</thinking>", id="a9"))
    reminder = "<system-reminder>\nUse TodoWrite.\n</system-reminder>"
    output = f"\x1b[38;2;144;144;144mFAILED\x1b[0m tests/test_csv.py \x1b[?25l\n{reminder}"
    text = session.call("Bash", output, command="pytest").text()
    assert "The importer reads data.csv." in text
    assert "FAILED tests/test_csv.py" in text
    assert not any(part in text for part in ("thinking>", "38;2", "\x1b", "reminder", "TodoWrite"))


def test_words_that_only_look_like_names_are_not_listed():
    """Emphasized words, pairs with a slash and line numbers before a comment are no names."""
    assert find_entities("92:// see https://example.com/a") == (("https://example.com/a", "url"),)
    filler = "\n".join(
        f"value_{number} = load('text {number}') and inserted/deleted MUST {number}17" for number in range(200)
    )
    session = Session("Explain the loader in src/loader.py.").call("Read", filler, file_path="src/loader.py")
    names = [entity.name for entity in session.summary(max_tokens=300).entities]
    assert not {"inserted/deleted", "MUST", "must"}.intersection(names)
    assert not [name for name in names if name.isdigit() or name.startswith("text ")]


def test_a_commit_shows_the_first_line_of_its_message():
    """The subject of a commit is the shortest account of a change."""
    command = "git add -A && git commit -m \"$(cat <<'EOF'\nReturn after t.Fatal in the tests\n\nLong text.\nEOF\n)\""
    text = Session("Fix the lint errors.").call("Bash", "1 file changed", command=command).text()
    assert "$ Bash(git add -A && git commit -m \"$(cat <<'EOF' Return after t.Fatal in the tests …)" in text


def test_a_command_of_the_user_is_shown_without_its_tags():
    """Some agents wrap commands of the user in elements."""
    command = "<command-message>plan</command-message>\n<command-name>/plan</command-name>"
    session = Session("Fix the lint errors in app.go.")
    text = session.user(f"{command}\n<command-args>split the parser in parse.go</command-args>").text()
    assert "split the parser in parse.go" in text
    assert "command-" not in text


@pytest.mark.parametrize(
    ("command", "goal"),
    [
        (
            "<command-message>plan</command-message>\n<command-name>/plan</command-name>\n"
            "<command-args>split the parser\nin parse.go</command-args>",
            "/plan split the parser in parse.go",
        ),
        ("<command-name>/review</command-name> <command-args>158</command-args>", "/review 158"),
    ],
)
def test_a_command_with_arguments_is_a_goal(command, goal):
    assert [note.text for note in Session(command).summary().goals] == [goal]


def test_a_command_without_arguments_is_no_goal():
    session = Session("<command-name>/ide</command-name>", "Review the importer and fix the lint errors.")
    assert [note.text for note in session.summary().goals] == ["Review the importer and fix the lint errors."]


def test_headings_and_labels_without_facts_take_no_room():
    """A heading announces what follows, and says nothing by itself."""
    answer = (
        "### The Core Problem\nPerfect!\n**Architecture:**\nThe hook in hooks.go writes twice.\n### Remaining: ENT-9"
    )
    session = Session("Why is the file wrong?")
    session.messages.append(Message("assistant", answer, id="a1"))
    text = session.text()
    assert "The hook in hooks.go writes twice." in text
    assert "ENT-9" in text
    assert not any(noise in text for noise in ("### The", "Perfect", "Architecture"))


def test_the_outline_of_a_file_stays_with_its_file():
    """In the map of a repository, the lines of a file follow its name."""
    outline = "app/diffs.py:\n⋮...\n│def find_last(lines):\n│def main():\n⋮...\napp/dump.py:\n│def dump(*vals):"
    session = Session("Show the map of the repository.")
    session.messages.append(Message("assistant", outline, id="a1"))
    lines = session.text().split("\n")
    assert "- app/diffs.py: def find_last(lines):; def main():" in lines
    assert "- app/dump.py: def dump(*vals):" in lines


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


def test_a_long_listing_is_a_list_of_names():
    """Permissions, owners and sizes of files take most of a listing, and are hardly ever needed again."""
    rows = ["total 300", "drwxr-xr-x 36 root root   4096 Apr 30 08:32 examples"]
    rows += [f"-rw-r--r--  1 root root 106625 Apr 30 08:32 {name}" for name in ("CHANGELOG.md", "make.ps1")]
    text = Session("Look around.").call("Bash", "\n".join(rows), command="ls -l").text()
    assert " listed files: examples/ CHANGELOG.md make.ps1" in text.split("\n")
    assert "root" not in text


def test_a_fact_after_sure_is_not_a_decision():
    """A user who gives an id has not decided anything."""
    session = Session("Cancel my flight.").user("Sure, my user ID is raj_brown_5782.").user("Yes, cancel both flights.")
    assert [entry.decision for entry in session.summary().decisions] == ["user: Yes, cancel both flights."]
