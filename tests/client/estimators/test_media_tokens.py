"""Images, audio and documents are counted by the rules of their provider, in every message format."""

from __future__ import annotations

import base64
import io
import json
import struct
import wave
import zlib

import pytest
from compact import CompactConfig, CompactManager, Message, TiktokenEstimator
from compact.estimators.media_tokens import media_tokens
from compact.messages.codecs import get_codec
from compact.messages.codecs.langchain import HostMessages
from compact.messages.media import Media, describe, media_in

COUNT = TiktokenEstimator()


def png(width: int, height: int, padding: int = 0) -> bytes:
    """The header of a PNG, followed by incompressible bytes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    return b"\x89PNG\r\n\x1a\n" + chunk + bytes(n * 89 % 251 for n in range(padding))


def pdf(pages: int, padding: int = 0) -> bytes:
    body = b"".join(b"%d 0 obj << /Type /Page /Parent 1 0 R >> endobj\n" % n for n in range(pages))
    return b"%%PDF-1.7\n1 0 obj << /Type /Pages /Count %d >> endobj\n" % pages + body + b"x" * padding


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def tokens(item: object, fmt: str, model: str) -> int:
    return COUNT.count_message(get_codec(fmt).decode(item, 0), model)


@pytest.mark.req("K-ACC-1", "A-TOK-1")
@pytest.mark.parametrize(
    ("model", "size", "detail", "expected"),
    [
        ("gpt-4o", (1024, 1024), "high", 765),  # OpenAI's own examples
        ("gpt-4o", (2048, 4096), "high", 1105),
        ("gpt-4o", (4096, 8192), "low", 85),
        ("gpt-4o-mini", (1024, 1024), "", 2833 + 4 * 5667),
        ("gpt-5", (1024, 1024), "", 70 + 4 * 140),
        ("o3", (512, 512), "", 75 + 150),
        ("gpt-4.1-mini", (1024, 1024), "", 1659),
        ("gpt-5-nano", (1800, 2400), "", 3779),  # more than 1,536 patches
        ("openai/gpt-5-mini", (32, 32), "", 2),
        ("claude-sonnet-4-5", (200, 200), "", 54),  # Anthropic's own examples
        ("claude-sonnet-4-5", (1000, 1000), "", 1334),
        ("claude-sonnet-4-5", (8000, 8000), "", 1600),
        ("gemini-2.5-pro", (384, 384), "", 258),
        ("gemini-2.5-pro", (1000, 700), "", 516),
        ("unknown-model", (1024, 1024), "", 765),
    ],
)
def test_images_follow_the_published_rule_of_the_model(model, size, detail, expected):
    """Tiles, patches or pixels, with the provider's own limits."""
    assert media_tokens(Media("image", *size, detail=detail), model) == expected


@pytest.mark.req("K-ACC-1")
def test_the_size_is_read_from_the_header_of_every_image_format():
    """PNG, GIF, JPEG with a preview, WebP and BMP."""
    jpeg = b"\xff\xd8\xff\xe1" + struct.pack(">H", 5000) + b"e" * 4998
    jpeg += b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, 480, 640, 3) + b"0" * 40
    webp = b"RIFF\x00\x00\x00\x00WEBPVP8X" + b"\x00" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
    bitmap = b"BM" + b"\x00" * 16 + struct.pack("<ii", 640, -480) + b"\x00" * 20
    gif = b"GIF89a" + struct.pack("<HH", 640, 480) + b"\x00" * 20
    for data in (png(640, 480), jpeg, webp, bitmap, gif):
        media = describe(base64_text(data), "")
        assert (media.kind, media.width, media.height) == ("image", 640, 480)
    assert describe(base64_text(b"\x89PNG broken"), "").width is None


IMAGE = base64_text(png(1000, 1000, padding=60_000))
PDF = base64_text(pdf(3, padding=200_000))
DATA_URL = f"data:image/png;base64,{IMAGE}"
FORMS = {
    "chat": [
        ("chat", {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]}),
        ("chat", {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": DATA_URL}]}),
        ("chat", {"role": "user", "content": [{"type": "image", "base64": IMAGE, "mime_type": "image/png"}]}),
        ("chat", {"role": "user", "content": [{"type": "image", "source_type": "base64", "data": IMAGE}]}),
    ],
    "responses": [
        ("responses", {"role": "user", "content": [{"type": "input_image", "image_url": DATA_URL}]}),
        ("responses", {"type": "image_generation_call", "id": "i", "result": IMAGE, "status": "completed"}),
        ("responses", {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_image", "image_url": DATA_URL}]}),
        ("responses", {"type": "computer_call_output", "call_id": "c", "output": {
            "type": "computer_screenshot", "image_url": DATA_URL}}),
        ("responses", {"type": "code_interpreter_call", "id": "i", "outputs": [{"type": "image", "url": DATA_URL}]}),
        ("responses", {"type": "something_new", "payload": {"picture": DATA_URL}}),
    ],
    "anthropic": [
        ("anthropic", {"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}]}),
        ("anthropic", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}]}]}),
        ("anthropic", {"role": "user", "content": [{"type": "something_new", "picture": IMAGE}]}),
    ],
}  # fmt: skip


@pytest.mark.req("K-ACC-1")
@pytest.mark.parametrize(("fmt", "item"), [form for forms in FORMS.values() for form in forms])
def test_an_image_costs_the_same_in_every_form(fmt, item):
    """60 kB of base64 count as one image of 1000 x 1000 pixels: 1,334 tokens for Claude, 630 for GPT-5."""
    assert 1334 <= tokens(item, fmt, "claude-sonnet-4-5") <= 1334 + 80
    assert 630 <= tokens(item, fmt, "gpt-5") <= 630 + 80


@pytest.mark.req("K-ACC-1")
def test_native_messages_with_parts_are_counted_too():
    """A Message whose content is a list of parts."""
    message = Message("user", [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": DATA_URL}}])
    assert COUNT.count_message(message, "claude-sonnet-4-5") == 1334 + 5


@pytest.mark.req("K-ACC-1", "A-TOK-1")
@pytest.mark.parametrize(
    ("fmt", "part"),
    [
        ("anthropic", {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}),
        ("chat", {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}}),
        ("chat", {"type": "file", "base64": PDF, "mime_type": "application/pdf"}),
        ("responses", {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}"}),
    ],
)
def test_a_pdf_is_counted_by_its_pages(fmt, part):
    """Three pages, whatever the size of the file. Gemini publishes 258 tokens per page."""
    item = {"role": "user", "content": [part]}
    assert tokens(item, fmt, "gemini-2.5-pro") == 3 * 258 + 4
    assert tokens(item, fmt, "claude-sonnet-4-5") == 3 * (2250 + 1600) + 4


@pytest.mark.req("K-ACC-1", "A-TOK-1")
@pytest.mark.parametrize(
    ("fmt", "part"),
    [
        ("anthropic", {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "TEXT"}}),
        ("anthropic", {"type": "document", "source": {
            "type": "content", "content": [{"type": "text", "text": "TEXT"}]}}),
        ("chat", {"type": "text-plain", "text": "TEXT", "mime_type": "text/plain"}),
        ("chat", {"type": "file", "file": {"file_data": "TEXT64", "mime_type": "text/plain"}}),
        ("responses", {"type": "input_file", "file_data": "TEXT64", "mime_type": "text/markdown"}),
    ],
)  # fmt: skip
def test_a_text_document_is_counted_by_its_text(fmt, part):
    """100,000 tokens of text are 100,000 tokens, and the text can be searched and summarized."""
    text = "one two three four five " * 20_000
    item = {"role": "user", "content": [json.loads(
        json.dumps(part).replace("TEXT64", base64_text(text.encode())).replace("TEXT", text)
    )]}  # fmt: skip
    assert tokens(item, fmt, "gpt-5") == pytest.approx(100_000, rel=0.01)
    assert get_codec(fmt).decode(item, 0).text.startswith("one two three")


@pytest.mark.req("K-ACC-1", "A-TOK-1")
def test_audio_is_counted_by_its_duration():
    """20 seconds of WAV: OpenAI counts 10 tokens per second, Gemini 32."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, 16_000, 0, "NONE", ""))
        out.writeframes(b"\x00\x01" * 16_000 * 20)
    part = {"type": "input_audio", "input_audio": {"data": base64_text(file.getvalue()), "format": "wav"}}
    item = {"role": "user", "content": [part]}
    assert tokens(item, "chat", "gpt-4o-audio-preview") == 201 + 4
    assert tokens(item, "chat", "gemini-2.5-pro") == pytest.approx(20 * 32 + 4, abs=1)


@pytest.mark.req("K-ACC-1")
def test_truncating_a_tool_output_keeps_its_images():
    """The text of a result with an image is cut, and the image stays."""
    content = [{"type": "text", "text": "word " * 9_000}, {"type": "image_url", "image_url": {"url": DATA_URL}}]
    for fmt, item in (
        ("chat", {"role": "tool", "tool_call_id": "c", "content": content}),
        ("anthropic", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
            content[0], {"type": "image", "source": {"type": "base64", "data": IMAGE}}]}]}),
    ):  # fmt: skip
        message = get_codec(fmt).map_outputs(get_codec(fmt).decode(item, 0), lambda _, text: text[:50])
        assert len(message.media) == 1
        assert len(media_in(message.source["content"])) == 1
        assert len(message.text) == 50


@pytest.mark.req("K-ACC-1")
def test_frameworks_keep_binary_content_out_of_the_text():
    """pydantic-ai and LangChain: 100 kB of image are one image, also in tool results and unusual blocks."""
    pydantic_ai = pytest.importorskip("pydantic_ai.messages")
    langchain = pytest.importorskip("langchain_core.messages")
    from compact.integrations.pydantic_ai import _part_dict

    image = pydantic_ai.BinaryContent(png(1000, 1000, padding=100_000), media_type="image/png")
    parts = [
        pydantic_ai.UserPromptPart(["look at this", image]),
        pydantic_ai.ToolReturnPart("shot", [image, {"ok": True}], "c"),
        pydantic_ai.ToolReturnPart("shot", image, "c"),
    ]
    for part in parts:
        assert 1334 <= tokens(_part_dict(part), "chat", "claude-sonnet-4-5") <= 1334 + 20
    video = langchain.HumanMessage([{"type": "video", "base64": IMAGE, "mime_type": "video/mp4"}])
    assert tokens(HostMessages([video]).items[0], "langchain", "gemini-2.5-pro") == 295 + 4
    notes = langchain.ToolMessage(
        [{"type": "text-plain", "text": "a few words", "mime_type": "text/plain"}], tool_call_id="c"
    )
    assert tokens(HostMessages([notes]).items[0], "langchain", "gpt-5") == 3 + 4


@pytest.mark.req("K-ACC-1", "A-TOK-1")
def test_a_session_of_screenshots_is_not_compacted_for_its_base64():
    """Ten screenshots of 60 kB are about 6,300 tokens of GPT-5, not 550,000."""
    manager = CompactManager(CompactConfig("gpt-5", 16_000))
    items = [{"role": "user", "content": "Watch the page."}]
    for number in range(10):
        items += [
            {"type": "function_call", "call_id": f"c{number}", "name": "screenshot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": [
                {"type": "input_image", "image_url": DATA_URL}]},
        ]  # fmt: skip
    assert manager.preflight("s", items) == items
    assert 6_300 < manager.remember("s").tokens < 7_000
