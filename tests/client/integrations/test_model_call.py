"""The loop that all integrations share: preflight, send, recover, report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from builders import Recorder, small_manager
from compact import CompactError, CompactManager, NoopEstimator
from compact.integrations.model_call import ModelCall

OVERFLOW = ValueError("This model's maximum context length is 100 tokens, you requested 150")
MESSAGES = [{"role": "user", "content": f"{n} " + "word " * 10} for n in range(12)]


class Provider:
    """Fails with the given errors, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.requests: list[list[Any]] = []

    def send(self, messages: list[Any]) -> dict[str, int]:
        self.requests.append(messages)
        if self.errors:
            raise self.errors.pop(0)
        return {"input_tokens": 400}

    async def send_async(self, messages: list[Any]) -> dict[str, int]:
        return self.send(messages)

    async def stream(self, messages: list[Any]) -> AsyncIterator[str]:
        self.send(messages)
        yield "first"
        yield "second"

    @property
    def sizes(self) -> list[int]:
        return [len(request) for request in self.requests]


def model_call(manager: CompactManager, **arguments: Any) -> ModelCall:
    return ModelCall(manager, "s", MESSAGES, options=lambda: {"format": "chat"}, **arguments)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def manager(recorder: Recorder) -> CompactManager:
    return small_manager(recorder, buffer=50, policy={"keep_recent_turns": 1}, token_estimator=NoopEstimator())


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize("way", ["run", "arun", "astream"])
async def test_a_call_is_retried_with_fewer_messages_after_each_overflow(
    way: str, manager: CompactManager, recorder: Recorder
) -> None:
    """Two overflows lead to three requests, each shorter than the one before. The caller's list stays unchanged."""
    provider = Provider(OVERFLOW, OVERFLOW)
    call = model_call(manager)
    if way == "run":
        call.run(provider.send)
    elif way == "arun":
        await call.arun(provider.send_async)
    else:
        assert [event async for event in call.astream(provider.stream)] == ["first", "second"]
    first, second, third = provider.sizes
    assert third < second < first == len(MESSAGES)
    assert len(recorder.of("compact.overflow_recovered")) == 2


async def test_an_overflow_that_cannot_be_recovered_raises_the_providers_error(manager: CompactManager) -> None:
    """The caller sees the error of its own client, with the reason as its cause."""
    provider = Provider(*[OVERFLOW] * 10)
    with pytest.raises(ValueError, match="maximum context length") as raised:
        await model_call(manager).arun(provider.send_async)
    assert isinstance(raised.value.__cause__, CompactError)
    assert 1 < len(provider.requests) <= 1 + manager.cfg.policy.overflow_max_retries


def test_other_errors_are_raised_without_a_retry(manager: CompactManager) -> None:
    """A rate limit is not an overflow."""
    provider = Provider(RuntimeError("rate limit"))
    with pytest.raises(RuntimeError, match="rate limit"):
        model_call(manager).run(provider.send)
    assert len(provider.requests) == 1


async def test_a_stream_is_not_retried_after_its_first_event(manager: CompactManager) -> None:
    """The consumer already has a part of the response, so the error is raised."""
    requests = []

    async def stream(messages: list[Any]) -> AsyncIterator[str]:
        requests.append(messages)
        yield "first"
        raise OVERFLOW

    events = []
    with pytest.raises(ValueError, match="maximum context length"):
        async for event in model_call(manager).astream(stream):
            events.append(event)  # noqa: PERF401 - a comprehension would lose the first event
    assert (events, len(requests)) == (["first"], 1)


def test_a_failed_compaction_sends_the_messages_unchanged(
    manager: CompactManager, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tool whose schema cannot be read must not fail the call."""

    def options() -> Any:
        raise TypeError("no schema")

    provider = Provider()
    ModelCall(manager, "s", MESSAGES, options=options).run(provider.send)
    assert provider.requests == [MESSAGES]
    assert "sending the request unchanged: TypeError: no schema" in capsys.readouterr().err


def test_reported_usage_corrects_the_next_estimate(manager: CompactManager, recorder: Recorder) -> None:
    """`read_usage` finds the token counts in the response. Without any, nothing is reported."""
    model_call(manager).run(Provider().send)
    model_call(manager, read_usage=lambda response: response).run(Provider().send)
    assert recorder.last("compact.token_estimate")["source"] == "estimate"
    model_call(manager).run(Provider().send)
    assert recorder.last("compact.token_estimate")["source"] == "provider"


@pytest.mark.parametrize("module", ["openai", "anthropic", "generic", "model_call"])
def test_modules_named_after_a_package_do_not_import_it(module: str) -> None:
    """The client is passed in, so its package is not needed to import the integration."""
    code = f"import sys, compact.integrations.{module}; sys.exit('openai' in sys.modules or 'anthropic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
