"""The endpoint of the model summarizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client.chat_endpoint import ChatEndpoint


@pytest.fixture
def endpoint() -> Iterator[ChatEndpoint]:
    with ChatEndpoint() as server:
        yield server
