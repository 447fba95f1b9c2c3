"""Tokens of images, audio and documents, by the rules that the providers publish.

OpenAI counts tiles of 512 pixels or patches of 32 pixels, depending on the model. Anthropic counts an image as
width * height / 750. Gemini counts tiles of 768 pixels, seconds of audio and video, and pages. An unknown model is
counted like the provider of its message format, or else like GPT-4o.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from compact.messages.media import Media

_TYPICAL_SIDE = 1024  # of an image whose size is not known, such as one behind a URL
_BYTES_PER_PDF_PAGE = 60_000
_BYTES_PER_FILE_TOKEN = 4
_VIDEO_BYTES_PER_SECOND = 250_000

_ANTHROPIC_PIXELS_PER_TOKEN = 750
_ANTHROPIC_MAX_SIDE = 1568
_ANTHROPIC_MAX_TOKENS = 1600
# A page costs 1,500 to 3,000 tokens for its text, and an image of the page.
_PDF_PAGE_TEXT_TOKENS = 2250

_GEMINI_TILE_TOKENS = 258
_GEMINI_TILE = 768
_GEMINI_SMALL = 384
_GEMINI_AUDIO_TOKENS_PER_SECOND = 32
_GEMINI_VIDEO_TOKENS_PER_SECOND = 295

_OPENAI_AUDIO_TOKENS_PER_SECOND = 10
_MAX_PATCHES = 1536


@dataclass(frozen=True, slots=True)
class _Tiles:
    """An image in high detail: a base, and a cost for each tile of 512 pixels."""

    base: int
    tile: int


@dataclass(frozen=True, slots=True)
class _Patches:
    """An image in patches of 32 pixels, at most 1,536 of them, times a factor."""

    factor: float


# By the longest prefix of the model's name.
_OPENAI_RULES: dict[str, _Tiles | _Patches] = {
    "": _Tiles(85, 170),
    "gpt-4o": _Tiles(85, 170),
    "gpt-4.1": _Tiles(85, 170),
    "gpt-4.5": _Tiles(85, 170),
    "gpt-4o-mini": _Tiles(2833, 5667),
    "o1": _Tiles(75, 150),
    "o3": _Tiles(75, 150),
    "computer-use": _Tiles(65, 129),
    "gpt-5": _Tiles(70, 140),
    "gpt-4.1-mini": _Patches(1.62),
    "gpt-4.1-nano": _Patches(2.46),
    "gpt-5-mini": _Patches(1.62),
    "gpt-5-nano": _Patches(2.46),
    "o4-mini": _Patches(1.72),
}


def media_tokens(media: Media, model: str) -> int:
    """Return the tokens of one attachment."""
    provider = _provider(model) or media.provider
    match media.kind:
        case "image":
            return _image_tokens(media, provider, model)
        case "audio":
            rate = _GEMINI_AUDIO_TOKENS_PER_SECOND if provider == "gemini" else _OPENAI_AUDIO_TOKENS_PER_SECOND
            return math.ceil((media.seconds or 0) * rate) or rate
        case "video":
            seconds = media.seconds or media.size_bytes / _VIDEO_BYTES_PER_SECOND
            return math.ceil(max(1.0, seconds) * _GEMINI_VIDEO_TOKENS_PER_SECOND)
        case "pdf":
            pages = media.pages or max(1, media.size_bytes // _BYTES_PER_PDF_PAGE)
            return pages * _page_tokens(provider, model)
    # A file of an unknown type. Providers extract its text, which is at most its bytes.
    return max(_page_tokens(provider, model) if not media.size_bytes else 1, media.size_bytes // _BYTES_PER_FILE_TOKEN)


@cache
def _provider(model: str) -> str:
    name = model.lower()
    for provider, words in {"anthropic": ("claude",), "gemini": ("gemini",), "openai": ("gpt", "chatgpt")}.items():
        if any(word in name for word in words):
            return provider
    is_reasoning = name[:1] == "o" and name[1:2].isdigit()
    return "openai" if is_reasoning or name.startswith("computer-use") else ""


def _image_tokens(media: Media, provider: str, model: str) -> int:
    width, height = media.width or _TYPICAL_SIDE, media.height or _TYPICAL_SIDE
    if provider == "anthropic":
        scale = min(1.0, _ANTHROPIC_MAX_SIDE / max(width, height))
        return min(_ANTHROPIC_MAX_TOKENS, math.ceil(width * scale * height * scale / _ANTHROPIC_PIXELS_PER_TOKEN))
    if provider == "gemini":
        if max(width, height) <= _GEMINI_SMALL:
            return _GEMINI_TILE_TOKENS
        return math.ceil(width / _GEMINI_TILE) * math.ceil(height / _GEMINI_TILE) * _GEMINI_TILE_TOKENS
    rule = _openai_rule(model)
    if isinstance(rule, _Patches):
        return _patch_tokens(width, height, rule.factor)
    if media.detail == "low":
        return rule.base
    return rule.base + rule.tile * _tiles(width, height)


@cache
def _openai_rule(model: str) -> _Tiles | _Patches:
    name = model.lower().rpartition("/")[2]
    return _OPENAI_RULES[max((prefix for prefix in _OPENAI_RULES if name.startswith(prefix)), key=len)]


def _tiles(width: float, height: float) -> int:
    """Return the tiles of an image that is scaled into 2,048 pixels, and then to a short side of 768."""
    scale = min(1.0, 2048 / max(width, height))
    width, height = width * scale, height * scale
    scale = min(1.0, 768 / min(width, height))
    return math.ceil(round(width * scale) / 512) * math.ceil(round(height * scale) / 512)


def _patch_tokens(width: int, height: int, factor: float) -> int:
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    return math.ceil(min(patches, _MAX_PATCHES) * factor)


def _page_tokens(provider: str, model: str) -> int:
    if provider == "gemini":
        return _GEMINI_TILE_TOKENS
    return _PDF_PAGE_TEXT_TOKENS + _image_tokens(Media("image", 1224, 1584), provider, model)
