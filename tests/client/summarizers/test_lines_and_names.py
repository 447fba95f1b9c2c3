"""Names, and lines without markup, in a summary."""

from __future__ import annotations

import pytest
from compact.messages import Message
from compact.reading.entities import find_entities

from tests.summary_session import Session


def test_a_path_in_the_output_of_grep_is_one_entity():
    """The line numbers of a search do not make each line name another file."""
    texts = ("src/app.go-12-x", "src/app.go:13:func", "src/app.go-14-")
    assert {key for text in texts for key, kind in find_entities(text) if kind == "path"} == {"src/app.go"}


def test_comments_and_formats_with_a_slash_are_not_paths():
    lines = (
        "return nil //nolint:nilerr // The caller logs it.",
        'fmt.Sprintf("%s/%d", a, b)',
        "open(docs/%s/index.md)",
    )
    assert not [key for line in lines for key, kind in find_entities(line) if kind == "path"]


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


def test_items_without_a_text_of_their_own_stay_with_their_list():
    """`2. 5RJ7UH` says nothing alone."""
    session = Session("Which reservations do I have?")
    reply = (
        "You have these three reservations in your profile at the moment, all of them in economy:\n1. UM3OG5\n2. 5RJ7UH"
    )
    session.messages.append(Message("assistant", f"{reply}\n\n1. **Flight HAT069**\n- Seat: 4C", id="a1"))
    lines = session.text().split("\n")
    assert "- You have these three reservations" in session.text()
    assert any(line.endswith("all of them in economy: 1. UM3OG5; 2. 5RJ7UH") for line in lines)
    assert "- 1. **Flight HAT069** Seat: 4C" in lines


@pytest.mark.parametrize("line", ["/clear", "^C again to exit", "Use /help <question> for help"])
def test_commands_without_an_object_are_left_out(line):
    session = Session("Fix the importer in src/io.py.", f"{line}\nThe tests of src/io.py fail now.", "Go on.")
    assert line not in session.text()


def test_the_period_of_a_sentence_is_not_part_of_a_quoted_name():
    """American English puts the period inside the quotation marks."""
    assert find_entities('Your reservation ID is "OBUT9V."') == (("obut9v", "code"), ("obut9v", "quoted"))
    assert ("the request timed out.", "quoted") in find_entities('It prints "The request timed out."')
