"""Sessions of every kind are accepted by the providers, call by call, in every layout.

`make test` plays 100 sessions, always the same. `make histories` plays 2,000 others.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from compact.messages.block_kinds import BLOCK_KINDS, Format
from providers.histories.anthropic_history import AnthropicHistory
from providers.histories.examples import NOT_SENT, UNIONS, example, formats_of, place_of
from providers.histories.gemini_history import GeminiHistory
from providers.histories.grammar import Compact, Instruct, Respond, Say, Session, Switch, ToolCall, draw_session
from providers.histories.history import History
from providers.histories.openai_histories import ChatHistory, ResponsesHistory
from providers.histories.play import Player
from providers.histories.reduction import Failure, reduce_session
from providers.histories.routes import ROUTES, UNNAMED
from providers.shapes import ShapeError, check

HISTORIES: tuple[type[History], ...] = (AnthropicHistory, ResponsesHistory, ChatHistory, GeminiHistory)
FIRST, COUNT = int(os.environ.get("HISTORIES_FIRST") or 0), int(os.environ.get("HISTORIES_COUNT") or 100)


def failure_of(session: Session, kind: type[History]) -> Failure:
    """Play a session and return the name of its failure, or None."""
    try:
        Player(session, kind).play()
    except Exception as error:
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        return f"{type(error).__name__} in {frame.tb_frame.f_code.co_name}" if frame else type(error).__name__
    return None


@pytest.mark.req("A-WIRE-1", "A-WIRE-2", "A-END-1", "A-END-2")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_prompt_of_a_session_is_right(seed: int) -> None:
    """Each prompt is accepted, ends with the newest message, keeps what must stay, and fits or reports its size."""
    kind, session = HISTORIES[seed % len(HISTORIES)], draw_session(seed)
    try:
        Player(session, kind).play()
    except Exception as error:
        smallest = reduce_session(session, lambda candidate: failure_of(candidate, kind))
        text = f"{error}\nPlayer({smallest}, {kind.__name__}).play()\nRepeat: make histories FIRST={seed} COUNT=1"
        raise AssertionError(text) from error


def rows() -> list[tuple[str, Format]]:
    sent = (kind for kind in BLOCK_KINDS.values() if kind.name not in NOT_SENT)
    return [(kind.name, form) for kind in sent for form in formats_of(kind) or {kind.format}]


@pytest.mark.req("A-WIRE-1")
@pytest.mark.parametrize(("name", "form"), sorted(rows()))
def test_each_row_of_the_table_has_an_example(name: str, form: Format) -> None:
    """The grammar writes every row. A new one needs an entry in `examples.py` only if the SDK's type leaves it open."""
    item = example(name, form)
    assert place_of(BLOCK_KINDS[name], form)
    assert any(is_accepted(item, union) for union in UNIONS[form])


def is_accepted(item: object, union: object) -> bool:
    try:
        check(item, union)
    except ShapeError:
        return False
    return True


def test_a_row_that_is_not_sent_exists() -> None:
    assert set(NOT_SENT) <= set(BLOCK_KINDS)


def test_a_failing_session_is_reduced_to_what_fails() -> None:
    session = draw_session(7)

    def fail(candidate: Session) -> Failure:
        return "too long" if any(isinstance(step, Say) and step.words == 2_500 for step in candidate.steps) else None

    wanted = Say(2_500)
    session = Session((*session.steps, Say(2_500, (3,), is_protected=True), Compact()), window=8_000)
    assert reduce_session(session, fail) == Session((wanted,))


def test_a_reduction_ends_in_time() -> None:
    """The session is returned as far as it was reduced."""
    assert reduce_session(draw_session(7), lambda candidate: "fails", max_seconds=0) == draw_session(7)


# Failures that the grammar found.

READ = ToolCall()


@pytest.mark.parametrize("renderer", ["layered", "bridge", "inplace"])
def test_instructions_among_the_messages_follow_the_user(renderer: str) -> None:
    """A compaction moves instructions before the summary. Each is alone between the user and the assistant."""
    steps = [part for number in range(3) for part in (Say(), Instruct(extra=number + 1), Respond(calls=(READ,)))]
    Player(Session((*steps, Compact(), Respond(times=3)), renderer), AnthropicHistory).play()


def test_the_input_of_a_call_may_end_with_an_instruction() -> None:
    """The newest user message is not one of the older ones that `bridge` puts before the summary."""
    steps = (Respond(calls=(READ,)), Say(), Instruct(extra=1), Compact(), Respond())
    Player(Session(steps, "bridge"), AnthropicHistory).play()


@pytest.mark.parametrize("extra", [0, 3])
def test_items_that_instruct_the_model_stay(extra: int) -> None:
    """Tools and settings that the host adds in the middle of a conversation are valid until its end."""
    steps = (Say(), Instruct(extra=extra), Respond(calls=(ToolCall(output_words=600),), times=8))
    player = Player(Session(steps), ResponsesHistory)
    player.play()
    assert player.compactions


def test_a_stopped_todo_call_does_not_replace_the_newest_list() -> None:
    """The results of parallel calls say nothing about the state of the todo list."""
    stopped = (ToolCall(tool="manage_todo_list", is_answered=False), ToolCall(output_words=2_500))
    steps = (Respond(calls=(ToolCall(tool="manage_todo_list"),)), Respond(calls=stopped, times=10))
    Player(Session(steps), ChatHistory).play()


def test_a_stopped_todo_call_of_an_adopted_list_does_not_either() -> None:
    """Another manager continues a list in which one message has the outputs of stopped and of other calls."""
    stopped = (ToolCall(tool="manage_todo_list", is_answered=False), READ, ToolCall(output_words=600))
    steps = (Respond(calls=(ToolCall(tool="manage_todo_list"),)), Respond(calls=stopped, times=5), Switch(), Say(30))
    Player(Session(steps, window=30_000, has_thinking=True, adopts=True), GeminiHistory).play()


def test_an_instruction_that_a_layout_moved_stays_where_it_is() -> None:
    """The host goes on with the list that it got, and moves its cache marks. Its own messages still lead."""
    calls = (ToolCall(tool="manage_todo_list", output_words=2_500), ToolCall(output_words=150))
    steps = (Say(150), Instruct(30), Respond(150, calls, times=6))
    Player(Session(steps, "bridge", window=30_000, has_cache_marks=True, adopts=True), AnthropicHistory).play()


def test_an_instruction_after_the_newest_result_does_not_age_it() -> None:
    """The newest todo list is pinned, but it stays where it is: after the summary."""
    todo = Respond(calls=(ToolCall(tool="manage_todo_list"),), times=2)
    steps = (Respond(150, (ToolCall(output_words=2_500),), (3, 8)), todo, Instruct(), Respond())
    Player(Session(steps, adopts=True, has_thinking=True, keep_tool_io_pairs=0), AnthropicHistory).play()


def test_a_truncated_user_message_stays_so_without_its_cache_mark() -> None:
    """The mark moves to a newer message, and the text of the older one is the same: the provider's cache is used."""
    work = Respond(calls=(ToolCall(output_words=600),), times=8)
    steps = (work, Say(2_500), Say(30), Respond(calls=(READ,), times=2))
    player = Player(
        Session(steps, "bridge", window=12_000, has_cache_marks=True, keep_recent_turns=1), AnthropicHistory
    )
    player.play()
    assert player.compactions


@pytest.mark.parametrize("answered", [(False, True), (True, False, True)])
@pytest.mark.parametrize("thinks", [True, False])
def test_a_stopped_call_among_messages_of_one_response(answered: tuple[bool, ...], thinks: bool) -> None:
    """All outputs come after the last of the messages, because the API merges them into one response."""
    calls = tuple(ToolCall(is_answered=is_answered) for is_answered in answered)
    steps = (Respond(calls=calls, layout="split", times=2), Respond())
    Player(Session(steps, has_thinking=thinks), AnthropicHistory).play()


def test_a_mark_on_the_output_of_a_stopped_call_stays() -> None:
    """The host goes on with the list that it got, and marks a message that this library wrote."""
    steps = (Respond(calls=(ToolCall(is_answered=False),)), Respond(layout="paused"))
    Player(Session(steps, has_cache_marks=True, adopts=True), AnthropicHistory).play()


def test_a_protected_message_stays_so_without_its_cache_mark() -> None:
    """The list that the host got back has no marks of protection, and the mark of the cache moves on."""
    steps = (Say(is_protected=True), Respond(calls=(READ,), layout="program", times=10))
    player = Player(Session(steps, has_cache_marks=True, adopts=True), AnthropicHistory)
    player.play()
    assert player.compactions


def test_the_opening_of_a_reduced_list_stays() -> None:
    """The host goes on with a list that was reduced. Only an instruction and our opening are before the calls."""
    calls = (READ, ToolCall(tool="manage_todo_list", output_words=2_500), ToolCall(attachment=1))
    work = Respond(30, (ToolCall(32, output_words=150, attachment=2),), times=2)
    steps = (Instruct(), Respond(calls=calls, extras=(22,)), Respond(extras=(4, 1), layout="paused"), Switch(), work)
    session = Session(
        steps, window=12_000, has_cache_marks=True, adopts=True, keep_recent_turns=4, keep_tool_io_pairs=1
    )
    Player(replace(session, route=3), AnthropicHistory).play()


@pytest.mark.parametrize("kind", HISTORIES)
@pytest.mark.parametrize("extras", [(), (12,), (38,)])
def test_a_loop_that_does_not_name_its_format(kind: type[History], extras: tuple[int, ...]) -> None:
    """Until a message shows the format, a prompt is valid in each. A block that several formats have shows nothing."""
    route = ROUTES[kind.form].index(UNNAMED)
    steps = (Say(600), Say(600), Respond(calls=(ToolCall(output_words=2_500),), extras=extras), Say(2_500, (1, 2, 3)))
    Player(Session((*steps, Respond(times=3)), route=route), kind).play()
