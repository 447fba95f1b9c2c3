"""The event loop does no work of an async call, and a worker does none in one long step. Times are in `tests/bench`."""

from __future__ import annotations

import base64
import hashlib
import random
import threading
from typing import Any

import pytest
from builders import small_manager
from compact.engine import session as sessions
from compact.messages import canonical, canonical_json, json_hash
from compact.messages.codecs.langchain import HostMessages
from compact.messages.media import is_opaque
from compact.redaction.labels import redact_items
from compact.redaction.outbound import OutboundRedactor
from compact.redaction.view import RedactionView
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x04\x00\x00\x00\x03\x00"
SECRETS = {tenant: f"sk-proj-{tenant}" + "Zk3Lm9Qw7Rt5Yp" * 3 for tenant in ("acme", "globex")}


def file_base64(header: bytes = PNG, size: int = 30_000) -> str:
    return base64.b64encode(header + random.Random(1).randbytes(size)).decode()


def picture_message(data: str, text: str = "Look.") -> dict[str, Any]:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return {"role": "user", "content": [{"type": "text", "text": text}, part]}


@pytest.mark.req("A-ASY-1")
async def test_no_part_of_an_async_call_runs_on_the_event_loop(monkeypatch):
    """The messages of a framework are read by the worker, and so are an edited history and a recall."""
    threads: list[int] = []

    def record(owner, name):
        original = getattr(owner, name)

        def wrapper(*args, **kwargs):
            threads.append(threading.get_ident())
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)

    record(HostMessages, "__init__")
    record(HostMessages, "restore")
    record(sessions.Session, "match")
    record(RedactionView, "update")
    manager = small_manager()
    history = [kind(f"Message {number}") for number in range(5) for kind in (HumanMessage, AIMessage)]
    assert await manager.apreflight("s", history) == history
    edited = [*history[:4], HumanMessage("Something else"), *history[5:]]
    assert await manager.apreflight("s", edited) == edited
    assert await manager.arecall("s", "Message", messages=edited)
    assert len(threads) > 6
    assert threading.get_ident() not in threads


@pytest.mark.req("A-ASY-1")
def test_the_base64_of_a_picture_is_not_searched():
    """Only the texts beside it are, and it stays as it is. Each tenant's secret is masked."""
    redactor = OutboundRedactor()
    data = file_base64()
    searched: list[Any] = []

    def search(values):
        searched.extend(values)
        return redactor.redact_values(values)

    items = [picture_message(data, f"The key of {tenant} is {secret}.") for tenant, secret in SECRETS.items()]
    clean = [item for item, _ in redact_items(items, search)]
    assert data not in str(searched)
    assert not any(secret in str(clean) for secret in SECRETS.values())
    assert [item["content"][1] for item in clean] == [item["content"][1] for item in items]
    assert [list(item) for item in clean] == [list(item) for item in items]


@pytest.mark.parametrize(
    "hidden",
    [
        file_base64()[:-200] + " password=hunter2-Zk3Lm9Qw7Rt5Yp " + "A" * 166,
        "password=hunter2-Zk3Lm9Qw7Rt5Yp " + "word " * 5_000,
        f"data:image/png;base64,password=hunter2-Zk3Lm9Qw7Rt5Yp {file_base64()}",
    ],
    ids=["text in a picture", "no picture", "text after a prefix"],
)
def test_what_only_looks_like_a_picture_is_searched(hidden):
    assert not is_opaque(hidden)
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": hidden}}]}
    ((clean, _),) = redact_items([message], OutboundRedactor().redact_values)
    assert "hunter2" not in str(clean)


def test_only_large_pictures_and_recordings_are_opaque():
    """A document may contain text, and a secret key hides any value."""
    assert is_opaque(file_base64())
    assert is_opaque(f"data:image/png;base64,{file_base64(size=30_001)}")
    assert is_opaque(file_base64(b"OggS\0"))
    assert is_opaque(file_base64(b"RIFF\0\0\1\0WEBP"))
    assert not is_opaque(file_base64(b"RIFF is a format. "))
    assert not is_opaque(file_base64(b"ID3 is a format. "))
    assert not is_opaque(file_base64(b"%PDF-1.7"))
    assert not is_opaque(file_base64(b"BM"))
    assert not is_opaque(file_base64(size=300))
    ((clean, _),) = redact_items([{"role": "user", "api_key": file_base64()}], OutboundRedactor().redact_values)
    assert file_base64() not in str(clean)


texts = st.text(st.sampled_from('ab"\\\n\u00e9\u4e2d\U0001f600\ud83d\ude00\udc00'), max_size=12)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda nested: st.lists(nested, max_size=3) | st.dictionaries(texts, nested, max_size=3),
)


@pytest.mark.req("A-ASY-1")
@given(values)
def test_a_hash_in_pieces_is_that_of_the_whole_text(value):
    """Also with escapes, characters of several bytes, and pairs of surrogates where a piece would end."""
    whole = hashlib.sha256(canonical_json(value)).hexdigest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical, "PIECE_CHARS", 2)
        assert json_hash(value) == whole


@pytest.mark.req("A-ASY-1")
def test_a_long_text_is_hashed_in_short_steps(monkeypatch):
    sizes: list[int] = []

    def spy(value):
        sizes.append(len(str(value)))
        return canonical_json(value)

    monkeypatch.setattr(canonical, "canonical_json", spy)
    message = picture_message(file_base64(size=3_000_000))
    assert json_hash(message) == hashlib.sha256(canonical_json(message)).hexdigest()
    assert max(sizes) <= canonical.PIECE_CHARS
