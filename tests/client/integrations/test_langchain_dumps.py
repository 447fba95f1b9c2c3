"""A LangChain message is dumped once, and again after any change."""

from __future__ import annotations

import gc

import pytest
from compact import CompactConfig, CompactManager

messages = pytest.importorskip("langchain_core.messages")

from compact.messages.codecs.langchain_dumps import DumpCache  # noqa: E402

SECRETS = {"acme": "sk-proj-" + "a1B2c3D4" * 5, "globex": "sk-proj-" + "z9Y8x7W6" * 5}


def plain_dump(message) -> dict:
    unread = {"artifact", "response_metadata", "usage_metadata"}
    return message.model_dump(mode="json", exclude_none=True, exclude=unread)


def call(**arguments) -> dict:
    return {"name": "read", "args": arguments, "id": "c1", "type": "tool_call"}


def test_an_unchanged_message_is_dumped_once():
    cache = DumpCache()
    message = messages.AIMessage([{"type": "text", "text": "Hello"}], tool_calls=[call(path="a.py")])
    dump = cache.read(message)
    assert dump == plain_dump(message)
    assert cache.read(message) is dump


@pytest.mark.parametrize(
    "change",
    [
        lambda message: setattr(message, "content", "new"),
        lambda message: message.content[0].update(text="new"),
        lambda message: message.content.append({"type": "text", "text": "more"}),
        lambda message: message.tool_calls[0]["args"].update(path="b.py"),
        lambda message: message.additional_kwargs.update(protected=True),
        lambda message: setattr(message, "id", "m2"),
        lambda message: setattr(message, "undeclared", "value"),
    ],
)
def test_a_change_in_place_is_noticed(change):
    cache = DumpCache()
    message = messages.AIMessage([{"type": "text", "text": "Hello"}], tool_calls=[call(path="a.py")])
    before = cache.read(message)
    change(message)
    assert cache.read(message) == plain_dump(message) != before


def test_an_object_without_a_json_form_is_dumped_each_time():
    class Mark:
        text = "one"

        def __str__(self) -> str:
            return self.text

    cache, mark = DumpCache(), Mark()
    message = messages.HumanMessage("Hello", additional_kwargs={"mark": mark})
    assert cache.read(message)["additional_kwargs"] == {"mark": "one"}
    mark.text = "two"
    assert cache.read(message)["additional_kwargs"] == {"mark": "two"}
    assert len(cache) == 0


def test_an_object_that_cannot_be_compared_counts_as_a_change():
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparison")

        __hash__ = None

    cache = DumpCache()
    message = messages.HumanMessage("Hello", additional_kwargs={"mark": "one"})
    cache.read(message)
    message.additional_kwargs["mark"] = Odd()
    assert "Odd" in cache.read(message)["additional_kwargs"]["mark"]


def test_an_incomplete_message_is_dumped_each_time():
    cache = DumpCache()
    message = messages.HumanMessage("Hello")
    del message.__dict__["name"]
    assert cache.read(message)["content"] == "Hello"
    assert len(cache) == 0


def test_the_dumps_of_collected_messages_are_forgotten():
    cache = DumpCache()
    kept = messages.HumanMessage("kept")
    for number in range(20):
        cache.read(messages.HumanMessage(f"dropped {number}"))
    cache.read(kept)
    gc.collect()
    assert len(cache) == 1


def test_tenants_with_equal_histories_get_their_own_messages():
    manager = CompactManager(CompactConfig("gpt-5", 100_000))
    histories = {
        tenant: [messages.HumanMessage("Hello"), messages.AIMessage("Hi"), messages.HumanMessage(f"Use {secret}")]
        for tenant, secret in SECRETS.items()
    }
    for _ in range(2):
        for tenant, history in histories.items():
            request = manager.preflight(tenant, history)
            assert all(sent is own for sent, own in zip(request, history, strict=True))
            assert [SECRETS[name] in str(request) for name in SECRETS] == [name == tenant for name in SECRETS]
