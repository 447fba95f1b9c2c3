"""The extractive summarizer: verbatim lines within a budget, deterministic to the byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from compact.messages import Message, ToolCall
from compact.summarizers import ExtractiveSummarizer
from compact.summarizers.extraction.summary_builder import fit
from compact.summary.entries import Mentions, Note
from compact.summary.structured_summary import StructuredSummary

STYLES = ("task_state", "brief", "step_ledger", "requirements_ledger", "code_delta", "decision_log")


def call(number: int, name: str, arguments: str, **message: object) -> Message:
    return Message("assistant", "", tool_calls=(ToolCall(f"c{number}", name, arguments),), id=f"a{number}", **message)


def result(number: int, text: str) -> Message:
    return Message("tool", text, tool_call_id=f"c{number}", id=f"t{number}")


def coding_session() -> list[Message]:
    return [
        Message("user", "Fix the login timeout in src/auth/login.py.\nNever touch the production database.", id="u1"),
        Message("assistant", "I'll look at the retry code first.", id="a0"),
        call(1, "Read", '{"file_path": "/srv/app/src/auth/login.py"}'),
        result(1, "     1→import time\n     2→RETRY_LIMIT = 3\n     3→def login(user_id):\n     4→    time.sleep(30)"),
        Message("assistant", "The root cause is the sleep(30) because the gateway closes after 20 seconds.", id="a2"),
        call(
            3,
            "Edit",
            '{"file_path": "/srv/app/src/auth/login.py", "old_string": "sleep(30)", "new_string": "sleep(3)"}',
        ),
        result(3, "ok"),
        call(4, "Bash", '{"command": "pytest tests/test_login.py -q"}'),
        result(4, "FAILED tests/test_login.py::test_slow - TimeoutError: gateway gw-7781\n1 failed, 12 passed"),
        Message("user", "Also keep the retry limit at most 5, ticket ENT-221.", id="u5"),
        Message("assistant", "Still need to raise RETRY_LIMIT and rerun test_slow.", id="a6"),
    ]


def summarize(messages: list[Message], **options: object) -> StructuredSummary:
    return ExtractiveSummarizer().summarize_span(messages, **{"max_tokens": 400, **options})


@pytest.mark.req("P-SUM-1", "S-SUM-4")
@pytest.mark.parametrize("style", STYLES)
def test_summaries_are_deterministic(style):
    """Repeated runs give identical text."""
    texts = {summarize(coding_session(), style=style).render() for _ in range(3)}
    assert len(texts) == 1


@pytest.mark.req("P-SUM-1", "P-KR-4")
@pytest.mark.parametrize("style", STYLES)
def test_every_style_keeps_constraints_ids_paths_and_errors(style):
    """Facts that can only be copied are in every style."""
    text = summarize(coding_session(), style=style).render()
    for fact in (
        "Never touch the production database",
        "at most 5",
        "ENT-221",
        "src/auth/login.py",
        "pytest tests/test_login.py -q",
        "gw-7781",
        "RETRY_LIMIT",
    ):
        assert fact in text, fact


@pytest.mark.req("S-SUM-1", "A-SUM-1")
def test_task_state_assigns_lines_to_fields():
    """Constraints, decisions with their rationale, open items, files and commands contain the right lines."""
    summary = summarize(coding_session())
    assert "Never touch the production database." in [note.text for note in summary.constraints]
    assert any(
        "root cause" in decision.decision and "gateway closes" in decision.rationale for decision in summary.decisions
    )
    assert any("RETRY_LIMIT" in item.description for item in summary.open_items)
    assert [file.path for file in summary.files] == ["/srv/app/src/auth/login.py"]
    assert any("pytest" in command.command for command in summary.commands)


def ledger(messages: list[Message]) -> list[str]:
    lines = summarize(messages, style="decision_log").render().split("\n")
    return [line for line in lines if line.startswith("[") and " :: " in line]


@pytest.mark.req("S-SUM-2", "A-SUM-2")
def test_decision_log_has_the_ledger_format():
    """Each line has the source message, the decision, its rationale, the call before it and the result after it."""
    assert ledger(coding_session()) == [
        "[a2] The root cause is the sleep(30) :: because the gateway closes after 20 seconds."
        " :: Read(file_path=/srv/app/src/auth/login.py) :: Edit → ok"
    ]


@pytest.mark.req("S-SUM-2")
def test_a_decision_after_the_last_call_of_a_turn_shows_its_result():
    """Results of the next turn do not count. Without a call, the input is the user's request and the output a dash."""
    service = [
        Message("user", "The kettle of order W-118 broke, I want my money back.", id="u1"),
        call(1, "refund", '{"order_id": "W-118"}'),
        result(1, '{"refund_id": "RF-90", "amount": 75.5, "lines": [{"sku": 1}], "note": ""}'),
        Message("assistant", "Decided to refund in full because the warranty holds.", id="a2"),
        Message("user", "Ship the next one by air or by sea?", id="u3"),
        Message("assistant", "We go with sea because it is not urgent.", id="a4"),
        Message("user", "Book it.", id="u5"),
        call(6, "book", '{"way": "sea"}'),
        result(6, "booked as S-4"),
    ]
    assert ledger(service) == [
        "[a2] Decided to refund in full :: because the warranty holds."
        " :: refund(order_id=W-118) :: refund → refund_id=RF-90, amount=75.5",
        "[a4] We go with sea :: because it is not urgent. :: Ship the next one by air or by sea? :: -",
    ]


@pytest.mark.req("S-SUM-2")
def test_the_ledger_shows_the_key_line_of_a_long_result():
    """The key line is the first error, or else the last line of a command's output. It is clipped and can be parsed."""
    passed = "\n".join(f"collecting part {n}" for n in range(3_000)) + "\n41 passed in 3.02s"
    failed = "collecting\nE   TimeoutError: gateway gw-7781 " + "closed " * 40 + "\ndone"
    messages = [
        Message("user", "Make the tests pass.", id="u0"),
        Message("assistant", "Going with a longer timeout since the gateway is slow.", id="a0"),
        call(1, "Bash", '{"command": "pytest -q"}'),
        result(1, failed),
        Message("assistant", "Switched to one retry because the timeout was not enough.", id="a2"),
        call(3, "Bash", '{"command": "pytest -q"}'),
        result(3, passed),
    ]
    first, second = ledger(messages)
    assert " :: Make the tests pass. :: Bash → E TimeoutError: gateway gw-7781 closed" in first
    assert len(first) < 240
    assert second.endswith(" :: Bash(pytest -q) :: Bash → 41 passed in 3.02s")
    summary = summarize(messages, style="decision_log")
    parsed = StructuredSummary.parse(summary.render())
    assert parsed is not None
    assert [(item.inputs, item.outputs) for item in parsed.decisions] == [
        (item.inputs, item.outputs) for item in summary.decisions
    ]


@pytest.mark.req("S-SUM-3", "A-SUM-2")
def test_code_delta_has_a_bullet_per_file():
    """The bullet has the path and the first line that the edit adds."""
    text = summarize(coding_session(), style="code_delta").render()
    assert "- /srv/app/src/auth/login.py: edited, `sleep(3)`" in text


@pytest.mark.req("S-SUM-3")
def test_code_delta_has_a_bullet_for_a_change_described_in_prose():
    """Without a recognizable edit call, the agent's own sentence is listed under the file."""
    sentence = "I modified src/auth/login.py: added validate_token() because tokens were never checked."
    messages = [
        Message("user", "Please make the login safe.", id="m1"),
        Message("assistant", sentence, id="m2"),
        Message("assistant", "TODO: update docs/api.md.", id="m3"),
        Message("assistant", "Did you change src/other.py?", id="m4"),
    ]
    text = summarize(messages, style="code_delta").render()
    assert f"- src/auth/login.py: {sentence}" in text
    assert "- TODO: update docs/api.md." in text
    assert "src/other.py: " not in text


@pytest.mark.req("S-SUM-2")
@pytest.mark.parametrize("style", STYLES)
def test_every_line_is_copied_from_the_messages(style):
    """Apart from headings and markers, the summary contains only input text."""
    messages = coding_session()
    summary = summarize(messages, style=style)
    source = "\n".join(message.text + " ".join(call.arguments for call in message.tool_calls) for message in messages)
    for note in (*summary.constraints, *summary.facts, *summary.goals, *summary.errors):
        assert note.text in " ".join(source.split())
    for decision in summary.decisions:
        assert decision.decision in source
        assert decision.rationale in source


def test_every_line_has_a_source():
    """Every entry except for bare names refers to existing messages."""
    messages = coding_session()
    summary = summarize(messages)
    ids = {message.id for message in messages}
    lines = [entry for entry in summary.entries() if entry not in summary.entities]
    assert lines
    assert all(entry.sources and ids.issuperset(entry.sources) for entry in lines)


@pytest.mark.parametrize("max_tokens", [60, 120, 400, 4000])
def test_the_rendered_text_fits_the_budget(max_tokens):
    """The given counter decides, for small and large budgets."""
    messages = [message for number in range(20) for message in _renumber(coding_session(), number)]

    def count(text: str) -> int:
        return len(text) // 4 + 1

    summary = summarize(messages, max_tokens=max_tokens, count_tokens=count)
    assert count(summary.render(version=12)) <= max_tokens


def test_visible_facts_are_not_repeated():
    """A fact in the recent messages makes room for other facts."""
    old = [
        Message("user", "Look at service gamma_ray_17 and at beta_test_99", id="u1"),
        Message("assistant", "ok", id="a1"),
    ]
    recent = [Message("assistant", "gamma_ray_17 is up", id="a2")]
    old.append(Message("assistant", "checked gamma_ray_17", id="a3"))
    assert "checked gamma_ray_17" in summarize(old, visible=recent).render()
    short = summarize(old, visible=recent, max_tokens=42).render()
    assert "beta_test_99" in short
    assert "checked gamma_ray_17" not in short


@pytest.mark.req("D-SUM-1", "S-LAY-2")
def test_ten_summaries_in_a_row_lose_no_constraint_id_number_or_path():
    """Each summary keeps the lines of the previous one as long as they fit."""
    history: list[Message] = []
    facts: list[str] = []
    text = ""
    for step in range(10):
        constraint = f"Never use more than {step}50 workers for job_{step}."
        facts += [constraint, f"data/run{step}/out_{step}.csv", f"ORD-{step}117"]
        new = [
            Message("user", constraint, id=f"u{step}"),
            Message("assistant", f"Wrote data/run{step}/out_{step}.csv for order ORD-{step}117.", id=f"a{step}"),
        ]
        old = [Message("assistant", text, id=f"s{step}")] if text else []
        history = old + new
        text = summarize(history, max_tokens=2000).render(version=step + 1)
    missing = [fact for fact in facts if fact not in text]
    assert missing == []
    assert text.count("<COMPACT-SUMMARY") == 1


@pytest.mark.parametrize(
    ("tool", "list_key", "text_key"),
    [("TodoWrite", "todos", "content"), ("update_plan", "plan", "step"), ("manage_todo_list", "todoList", "title")],
)
def test_a_to_do_list_is_kept_with_the_status_of_each_item(tool, list_key, text_key):
    """The whole list is the plan, and finished items are also recorded as completed."""
    items = [{"status": "completed", text_key: "Write parser"}, {"status": "pending", text_key: "Write docs"}]
    arguments = json.dumps({"explanation": "", list_key: items})
    summary = summarize([call(1, tool, arguments), result(1, "ok")])
    assert [note.text for note in summary.current_plan] == ["[completed] Write parser", "[pending] Write docs"]
    assert [note.text for note in summary.completed] == ["Write parser"]


def test_only_the_latest_to_do_list_is_the_plan():
    """An older list is dropped, even if the newer one is still in the prompt."""
    older = call(1, "TodoWrite", '{"todos": [{"content": "Write parser", "status": "pending"}]}')
    newer = call(2, "TodoWrite", '{"todos": [{"content": "Write docs", "status": "pending"}]}')
    assert [note.text for note in summarize([older, newer]).current_plan] == ["[pending] Write docs"]
    assert summarize([older], visible=[newer]).current_plan == ()


def test_repetitive_program_output_does_not_displace_user_wishes():
    """Of lines that differ only in a number, only the first few count as wishes."""
    boilerplate = [f"You can use /undo to discard commit {number}f2c7ba." for number in range(40)]
    wishes = ["please write the tests with pytest and no mocks", "we want the report in German, thanks a lot"]
    messages = [Message("user", text, id=f"u{index}") for index, text in enumerate([*boilerplate, *wishes])]
    text = summarize(messages, max_tokens=220).render()
    assert all(wish in text for wish in wishes)
    assert text.count("You can use /undo") < 15


def test_a_mentioned_id_is_kept_even_if_only_tool_output_still_shows_it():
    """When the line of tool output is dropped, the id itself stays in the summary."""
    tool_lines = [
        Note(f"row {number}: part_{number}_of_many is at /store/{number}.bin", order=number, role="tool")
        for number in range(60)
    ]
    summary = StructuredSummary(facts=tool_lines, mentions=(Mentions("store/30.bin", said=1),))
    text = fit(summary, max_tokens=160).render()
    assert "store/30.bin" in text
    assert "store/30.bin" not in fit(replace(summary, mentions=()), max_tokens=160).render()


def test_option_values_of_calls_are_kept_as_names():
    """The next call is likely to use the same value, even if it is a plain word."""
    calls = [
        call(n, "Task", json.dumps({"kind": "Explore", "prompt": f"look at part_{n}_of_it " * 6})) for n in range(30)
    ]
    assert "Explore" in summarize(calls, max_tokens=80).render()


def test_summarize_returns_one_assistant_message():
    """`summarize(messages, style, keep_keys)` implements the `Summarizer` protocol of document 000."""
    message = ExtractiveSummarizer().summarize(coding_session(), "brief", ())
    assert message.role == "assistant"
    assert message.is_summary


def test_lines_with_a_key_to_keep_are_selected_first():
    """With a small budget, the line that contains the key stays."""
    messages = [Message("tool", f"row {n}: value_{n}_x", tool_call_id="c", id=f"t{n}") for n in range(50)]
    messages.insert(25, Message("tool", "customer_ref is zz", tool_call_id="c", id="k"))
    assert "customer_ref is zz" in summarize(messages, max_tokens=60, keep_keys=("customer_ref",)).render()


def _renumber(messages: list[Message], number: int) -> list[Message]:
    return [
        replace(message, id=f"{number}-{message.id}", content=message.text.replace("7", str(number)))
        for message in messages
    ]
