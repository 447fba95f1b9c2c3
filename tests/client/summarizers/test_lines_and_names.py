"""Names, and lines without markup, in a summary."""

from __future__ import annotations

import json

import pytest
from compact.messages import Message, ToolCall
from compact.reading.entities import find_entities
from compact.summarizers import ExtractiveSummarizer
from compact.summarizers.extraction.argument_names import argument_names

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


def test_escaped_line_breaks_separate_lines():
    """A program prints a text of several lines as one string."""
    model = (
        "class People(models.Model):\\n    name = models.CharField(max_length=255)\\n\\n    ssn = models.IntegerField()"
    )
    output = f'AssertionError: "db_column" not found in "# This is generated.\\n{model}"'
    lines = Session("Fix inspectdb.").call("Bash", output, command="python runtests.py").text().split("\n")
    assert " name = models.CharField(max_length=255)" in lines
    assert not any("\\n" in line for line in lines)


def test_decoration_of_comments_is_left_out():
    """Badges and comments of services are for a browser."""
    badge = '<p><a href="https://cursor.com/open?data=4411" target="_blank"><picture><img alt="Fix"></picture></a></p>'
    comment = f"<!-- BUGBOT_BUG_ID: 2a2e29a4 -->\n{badge}\nThe offset in read_tokens() is wrong.<sub>Bugbot</sub>"
    text = Session("Read the review.").call("Bash", comment, command="gh api comments").text()
    assert "The offset in read_tokens() is wrong." in text
    assert not any(part in text for part in ("BUGBOT", "cursor.com", "<p>", "sub>"))


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


def test_the_period_of_a_sentence_is_not_part_of_a_quoted_name():
    """American English puts the period inside the quotation marks."""
    assert find_entities('Your reservation ID is "OBUT9V."') == (("obut9v", "code"), ("obut9v", "quoted"))
    assert ("the request timed out.", "quoted") in find_entities('It prints "The request timed out."')


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


def _names(session: Session, label: str, **options: object) -> set[str]:
    return {entity.name for entity in session.summary(**options).entities if entity.role.endswith(label)}


def test_the_names_of_fields_without_room_are_listed():
    """A reader learns what the records contain, even if their values do not fit."""
    notes = {f"{name}_note": f"{name} " * 25 for name in ("gift", "billing", "shipping")}
    order = {"order_id": "W4776164", "status": "pending", **notes}
    session = Session("Cancel order W4776164.").call("get_order", json.dumps(order), order_id="W4776164")
    assert _names(session, "record fields", max_tokens=80) == {"gift_note", "billing_note"}
    assert not _names(session, "record fields", max_tokens=100)


def test_the_names_of_arguments_that_no_line_shows_are_listed():
    """The line of an edit is its change, and that of a to-do list is its plan."""
    todos = [{"content": "Fix the parser", "status": "in_progress", "activeForm": "Fixing the parser"}]
    session = Session("Fix the parser in src/parser.py.")
    session.call("edit", "ok", path="src/parser.py", oldText="a = 1", newText="a = 2", Detection="", Scope="")
    session.call("TodoWrite", "ok", todos=todos).call("view", "a = 2", path="src/parser.py", view_range=[1, 9])
    names = _names(session, "tool arguments")
    assert names == {"oldText", "newText", "activeForm", "view_range"}  # The plan shows `in_progress`.


def test_the_names_of_arguments_in_the_prompt_are_not_listed():
    session = Session("Fix src/parser.py.").call("edit", "ok", path="src/parser.py", oldText="a = 1", newText="a = 2")
    visible = Session().call("edit", "ok", path="src/parser.py", oldText="b = 1", newText="b = 2").messages
    summary = ExtractiveSummarizer().summarize_span(session.messages, visible=visible)
    assert not [entity.name for entity in summary.entities if entity.role.endswith("tool arguments")]


def test_names_in_deeply_nested_arguments_are_left_out():
    value: object = "deep_name"
    for _ in range(100):
        value = {"level_name": [value]}
    call = ToolCall("c1", "store", json.dumps(value))
    assert argument_names(call) == ("level_name",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("path.joinAll(parts) drops a slash", ("path.joinAll", "said code symbols")),
        ("src/app.go-12-x src/app.go:13:func src/app.go-14-", ("src/app.go", "said paths")),
        ('Your reservation ID is "OBUT9V."', ("OBUT9V", "said identifiers")),
        ("Economy ($112), Business ($438)", ("$112", "said amounts (economy)")),
    ],
)
def test_a_name_is_listed_once_with_what_it_is(line, expected):
    """Neither its parts, the line numbers of a search nor the period of a sentence make it another name."""
    session = Session("Book the trip.")
    talk = "Then we talked about other things for a while. " * 60
    session.messages.append(Message("assistant", f"{line} {talk}", id="a1"))
    assert [(entity.name, entity.role) for entity in session.summary(max_tokens=40).entities] == [expected]


def test_the_names_of_arguments_stay_such_in_the_next_summary():
    """They do not become symbols of code, which an earlier summary keeps in any case."""
    session = Session("Fix src/parser.py.").call("edit", "ok", path="src/parser.py", oldText="a = 1", newText="a = 2")
    first, later = session.summary(), [Message("user", "Go on.", id="n")]
    names = ExtractiveSummarizer().summarize_span(later, previous=first, max_tokens=800).entities
    assert {(entity.name, entity.role) for entity in names} == {
        ("oldText", "said tool arguments"),
        ("newText", "said tool arguments"),
    }
    assert len(ExtractiveSummarizer().summarize_span(later, previous=first, max_tokens=30).entities) < 2
