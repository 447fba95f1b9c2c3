"""Lines are decisions, open items and instructions by what they say, not by single words."""

from __future__ import annotations

import pytest
from compact.messages import Message
from compact.reading.lines.line_classifier import summary_field

from tests.summary_session import Session, edit


@pytest.mark.parametrize(
    "line",
    [
        "To fix the error, we need to import the `GitRepo` class.",
        "I need to rename mine in `common_test.go`.",
        "We'd need to derive it from the working directory.",
        "This updated SEARCH/REPLACE block should now match the existing code.",
        "The changes should now be complete.",
        "The endpoint returns the next pending prompt if available.",
        "It returns a placeholder that can be resolved later.",
        "An agent waiting on a permission prompt is still active.",
        "Rebase in progress: the transition is skipped.",
    ],
)
def test_announcements_and_descriptions_are_not_open_items(line):
    """The agent changes the file in its next step, and states of a program are not work."""
    assert summary_field(line, "prose") != "open_items"


@pytest.mark.parametrize(
    "line",
    [
        "Need to verify the flags of the command.",
        "2. `noctx` - need to use the context of the command",
        "Issue #4 needs to be verified against the stored sessions.",
        "You'll need to update the places where `show_undo_hint` is called.",
        "The migration is still pending.",
        "The burst test still fails.",
        "The release is blocked by the review.",
        "We should also add a test for the empty list.",
    ],
)
def test_work_that_remains_is_an_open_item(line):
    """No step of the agent follows from these lines."""
    assert summary_field(line, "prose") == "open_items"


@pytest.mark.parametrize(
    "line",
    [
        "It seems the content of the file has changed since it was last shown to me.",
        "The directory may have changed since the crash.",
        "Let me check where the id comes from to decide on the right approach.",
        "When the hook sees an active session, it has to decide:",
    ],
)
def test_times_and_questions_to_decide_are_not_decisions(line):
    """Only what was decided counts."""
    assert summary_field(line, "prose") != "decisions"


@pytest.mark.parametrize(
    "line",
    [
        "I'll use `git rev-parse HEAD` in the trigger function.",
        "Since settings tests change the directory, they can't be parallel.",
        "I decided on the second option.",
    ],
)
def test_the_choice_of_a_method_is_a_decision(line):
    """Also at the beginning of an answer."""
    assert summary_field(line, "prose") == "decisions"


@pytest.mark.parametrize(
    "line",
    [
        "@siefkenj Do you think this has to do with your matrix refactor?",
        "/ask is there a portable way to know the user's preferred language?",
        "ok, will the new loop only run on windows?",
        "why exactly didn't you write the agent/transcript.go with the wrapper functions",
    ],
)
def test_a_question_is_not_an_instruction(line):
    """A name, a command or a short word may precede it, and the question mark may be missing."""
    assert summary_field(line, "user") in ("questions", "requests")


def test_a_proposal_of_the_user_stays_an_instruction():
    """It says how to go on, also if a question follows."""
    line = "thank you. let's go through each of these - but start with the TTL - do we even need it?"
    assert summary_field(line, "user") == "constraints"


@pytest.mark.parametrize("answer", ["yes, please do", "ok, let's implement this", "yes, let's add it"])
def test_an_answer_without_its_question_is_neither_a_decision_nor_an_instruction(answer):
    """It stays in the record, below what it answers."""
    session = Session("Add rate limiting to the API.").user(answer).user("Now write the release notes.")
    summary = session.summary()
    assert summary.decisions == summary.constraints == ()


@pytest.mark.parametrize(
    "line",
    [
        "why exactly didn't you write the proposed agent/transcript.go with the wrapper functions",
        "I don't know I agree with the solution that it proposed",
    ],
)
def test_doubts_and_file_names_are_not_decisions_of_the_user(line):
    """`.go with` and "I don't know I agree" contain the words of a choice."""
    session = Session("Add rate limiting to the API.").user(line).user("Now write the release notes.")
    assert session.summary().decisions == ()


@pytest.mark.parametrize(
    "line", ["but that checkpoint does not exist in entire/checkpoints", "yes please, draft the revised plan"]
)
def test_a_statement_and_a_request_are_not_instructions(line):
    """An instruction says how to work, or how not to."""
    session = Session("Add rate limiting to the API.").user(line).user("Now write the release notes.")
    assert session.summary().constraints == ()


def test_a_preference_without_its_object_is_no_instruction():
    """A prohibition is one, however short."""
    session = Session("Add rate limiting to the API.").user("I'd prefer that").user("never do that")
    assert [note.text for note in session.user("Write the notes.").summary().constraints] == ["never do that"]


@pytest.mark.parametrize(
    "answer",
    ["I don't remember the reservation number.", "Sure, my user id is mia_li_3668.", "It's the trip to Denver."],
)
def test_an_answer_is_not_the_current_task(answer):
    """The task is still the request before it."""
    summary = Session("Change my flight to Houston.").user("Find the fastest one.").user(answer).summary()
    assert summary.current_task is not None
    assert summary.current_task.text == "Find the fastest one."
    assert f"- user: {answer}" in summary.render()


def test_an_answer_that_asks_for_something_is_the_current_task():
    """Its first sentence does not decide."""
    answer = "It's a one-way trip. I'd like to fly in economy class."
    summary = Session("Book a flight to Seattle.").user(answer).summary()
    assert summary.current_task is not None
    assert summary.current_task.text == answer


def test_the_current_task_is_not_repeated_as_a_decision():
    """A decision log has it in both places, because it would be empty otherwise."""
    session = Session("Port the selectors.").user("ok, i think the themes need tokens for the border of the editor")
    assert session.summary().decisions == ()
    assert session.text(style="decision_log").count("the themes need tokens") == 2


def test_sentences_about_changes_are_not_edits_if_the_edits_are_known():
    """A file has one line, with what was changed."""
    session = edit(Session("Port the selectors."), "src/editor.ts", "a = 1", "a = 2")
    session.messages.append(Message("assistant", "Now I fixed the import of encoding/hex in src/editor.ts.", id="a9"))
    lines = session.text(style="code_delta").split("\n")[2:]
    assert [line for line in lines[: lines.index("## Goals")] if line.startswith("- ")] == ["- src/editor.ts: edited"]
