"""An endpoint that fails, answers late or sends something else than a completion."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from client.chat_endpoint import BODY_START, HEADERS_START, Response, completion, failure
from client.model_span import GOOD, SPAN, summarizer
from compact.exceptions import SummarizationError, SummarizerOverflow
from compact.summarizers import ModelSummarizer
from wait import wait_until


@pytest.mark.req("C-SUM-3")
@pytest.mark.parametrize(
    "reply",
    [
        failure(400, "This model's maximum context length is 8192 tokens", code="context_length_exceeded"),
        failure(413, "large"),
    ],
)
def test_a_prompt_that_is_too_long_raises_summarizer_overflow(endpoint, reply):
    """The manager then writes a canned summary instead of retrying."""
    endpoint.respond(reply)
    with pytest.raises(SummarizerOverflow):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)


@pytest.mark.req("S-FAIL-1")
def test_a_busy_endpoint_is_retried_after_the_requested_delay(endpoint):
    """A 429 response with `Retry-After` is followed by a second request."""
    endpoint.respond(failure(429, "slow down", retry_after="0.01"), completion(GOOD))
    assert summarizer(endpoint).summarize_span(SPAN, max_tokens=600).decisions
    assert len(endpoint.requests) == 2


def test_a_long_retry_delay_fails_immediately(endpoint):
    """An agent cannot wait an hour for a summary."""
    endpoint.respond(failure(429, "slow down", retry_after="3600"))
    with pytest.raises(SummarizationError, match="429"):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    assert len(endpoint.requests) == 1


def test_a_failing_endpoint_is_retried_twice(endpoint):
    """The third 500 response raises an error."""
    endpoint.respond(failure(500, "boom", retry_after="0"))
    with pytest.raises(SummarizationError, match="500"):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"<html>no</html>",
        b"{}",
        b'{"choices": []}',
        b"[1]",
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": "text"}]}',
        b"[" * 100_000,
        b'{"choices": [{"message": {"content": "x"}, "finish_reason": "length"}], "usage": ["many"]}',
    ],
)
def test_a_response_that_is_not_a_completion_is_an_error(endpoint, body):
    """An unexpected response, for example from a proxy, does not become a summary."""
    endpoint.respond((200, {}, body))
    with pytest.raises(SummarizationError):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)


def test_a_repair_has_only_the_rest_of_the_time(endpoint):
    """The reply took half of the timeout, and the repair hangs."""

    def late(body: dict) -> Response:
        endpoint.released.wait(1.0)
        return completion("The user wants a refund for ORD-4711.")

    endpoint.respond(late, endpoint.hang)
    started = time.monotonic()
    text = summarizer(endpoint, timeout_s=2.0).summarize_span(SPAN, max_tokens=600).render()
    assert time.monotonic() - started < 2.9  # A repair with a timeout of its own would end after 3 s.
    assert "The user wants a refund for ORD-4711." in text


def test_a_connection_that_is_cut_in_the_middle_is_an_error(endpoint):
    """The beginning of a reply is not a summary."""
    status, headers, payload = completion(GOOD)
    endpoint.respond((status, {**headers, "x-cut-after": "40"}, payload))
    with pytest.raises(SummarizationError, match="failed"):
        summarizer(endpoint).summarize_span(SPAN, max_tokens=600)


def test_unsupported_parameters_are_removed(endpoint):
    """The schema, the JSON mode, the name of the limit and the seed are dropped one by one."""
    endpoint.respond(
        failure(400, "response_format type json_schema is not supported"),
        failure(400, "response_format is unknown"),
        failure(400, "Unsupported parameter: max_tokens"),
        failure(400, "seed is not supported"),
        completion(GOOD),
    )
    assert summarizer(endpoint).summarize_span(SPAN, max_tokens=600).decisions
    last = endpoint.requests[-1]
    assert "response_format" not in last
    assert "seed" not in last
    assert last["max_completion_tokens"] == 300


@pytest.mark.req("S-FAIL-1")
def test_a_hanging_endpoint_times_out(endpoint):
    """The agent waits no longer than `timeout_s`."""
    endpoint.respond(endpoint.hang)
    with pytest.raises(SummarizationError, match=r"within 0\.2 s"):
        summarizer(endpoint, timeout_s=0.2).summarize_span(SPAN, max_tokens=600)


@pytest.mark.req("S-FAIL-1")
@pytest.mark.parametrize("start", [HEADERS_START, BODY_START])
async def test_a_slow_trickle_of_bytes_times_out(endpoint, start):
    """Incoming bytes do not extend the deadline, in the headers or the body, sync or async."""
    endpoint.respond(start)
    slow = summarizer(endpoint, timeout_s=0.2)
    with pytest.raises(SummarizationError, match=r"within 0\.2 s"):
        slow.summarize_span(SPAN, max_tokens=600)
    with pytest.raises(SummarizationError, match=r"within 0\.2 s"):
        await slow.asummarize_span(SPAN, max_tokens=600)


def test_ctrl_c_does_not_wait_for_the_model(endpoint):
    """Interrupting a program during a request stops it long before the timeout."""
    endpoint.respond(HEADERS_START)
    program = (
        "import signal\n"
        "from compact.messages import Message\n"
        "from compact.summarizers import ModelSummarizer\n"
        # A shell that runs the tests in the background makes them ignore SIGINT.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"summarizer = ModelSummarizer('m', base_url={endpoint.url!r}, api_key='k', timeout_s=60)\n"
        "summarizer.summarize_span([Message('user', 'Never refund more than $80.')])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert wait_until(lambda: bool(endpoint.requests))
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in stderr


@pytest.mark.req("S-FAIL-1")
def test_retry_delays_count_toward_the_timeout(endpoint):
    """A long `Retry-After` delay ends at the deadline."""
    endpoint.respond(failure(429, "busy", retry_after="15"))
    with pytest.raises(SummarizationError, match=r"within 1 s"):
        summarizer(endpoint, timeout_s=1.0).summarize_span(SPAN, max_tokens=600)
    assert len(endpoint.requests) == 1


def test_an_invalid_url_is_an_error():
    """An unparsable URL raises `SummarizationError`, not an httpx error."""
    with pytest.raises(SummarizationError):
        ModelSummarizer("m", base_url="http://[bad", api_key="k").summarize_span(SPAN, max_tokens=600)


def test_an_unreachable_endpoint_is_an_error():
    """A refused connection raises `SummarizationError`, not an httpx error."""
    with pytest.raises(SummarizationError, match="failed: ConnectError"):
        ModelSummarizer("m", base_url="http://127.0.0.1:9/v1", api_key="", timeout_s=2).summarize_span(
            SPAN, max_tokens=600
        )
