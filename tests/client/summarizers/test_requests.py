"""Summaries name the first and the newest request, without what programs wrote around them."""

from __future__ import annotations

import json

import pytest
from compact.messages import Message

from tests.summary_session import STYLES, Session


@pytest.mark.req("A-SUM-1")
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


def test_a_ledger_without_decisions_lists_the_requests():
    """A decision log is never empty."""
    session = Session("Find the fastest flight to Houston.").call("search", '[{"flight_number": "HAT266"}]', to="IAH")
    first = session.text(style="decision_log").split("\n")[2]
    assert first.startswith("[u0] user: Find the fastest flight to Houston. :: - :: - :: search → ")


RESERVATIONS = json.dumps(
    [{"reservation_id": f"AB{number}CD", "origin": "SEA", "destination": "DFW", "seats": 2} for number in range(40)]
)
LOG = "\n".join(f"the {word} part of the log says nothing of interest" for word in "abcdefghijklmnopqrstuvwxyz")


def test_short_messages_of_the_user_are_kept_in_order():
    """They answer the assistant's questions, and no tool can show them again."""
    answers = "I don't have the reservation number with me.", "It was the trip to Chicago, I believe.", "In economy."
    session = Session("Change my flight to Houston.").user(answers[0]).call("list", RESERVATIONS).user(answers[1])
    session.call("find", RESERVATIONS, city="ORD").user(answers[2]).user("Now write the confirmation mail.")
    lines = session.text(max_tokens=250).split("\n")
    assert [line for line in lines if line.startswith("- user: I")] == [f"- user: {answer}" for answer in answers]


def test_a_request_below_the_messages_of_a_program_is_kept():
    """A program adds its own lines to the user's turn. Pasted text is worth less."""
    turn = """Tokens: 9,413 sent, 135 received. Cost: $0.03 request, $0.03 session.
Applied edit to aider/commands.py
move the imports to the top"""
    session = Session("Add a pager to cmd_web.", turn, LOG).call("list", RESERVATIONS).user("Write the release notes.")
    assert "- user: move the imports to the top" in session.text(max_tokens=200)


@pytest.mark.parametrize(
    "report",
    [
        "ValueError: the name of a node must not be a constant",
        "src/maps.py:3: DeprecationWarning: importing from collections instead of collections.abc is deprecated",
        "Only 4 reflections allowed, stopping.",
    ],
)
def test_a_report_of_a_program_about_what_is_not_possible_is_kept(report):
    """It is no instruction of the user, but tells what has to be fixed."""
    turn = f"{LOG}\n{report}\nand the rest is empty"
    session = Session("Fix the parser.", turn).call("list", RESERVATIONS).user("Now write the release notes.")
    summary = session.summary(max_tokens=200)
    assert report in [note.text for note in (*summary.facts, *summary.errors)]
    assert report not in [note.text for note in summary.constraints]


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
