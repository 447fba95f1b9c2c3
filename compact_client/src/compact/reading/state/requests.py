"""The requests of the user, without greetings, wrappers and program banners."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from compact.messages import Message
from compact.reading.lines.pasted_text import without_banners, without_reports
from compact.reading.text_cache import TextCache

_WRAPPER: Final = re.compile(
    r"<(system-reminder|command-[a-z-]+|local-command-[a-z-]+|task-notification|bash-[a-z-]+|environment_details)\b"
)
_WORD: Final = re.compile(r"[^\W_][\w'./:-]*")  # a path is one word
_STOP: Final = (
    "a an and are as at be by can could do does for from had has have how i if in is it its me my no not of on or our"
    " so that the their them then there these they this to was we were what when which who will with would you your"
)
_STOP_WORDS: Final = frozenset(_STOP.split())
_FILLER: Final = (
    "hi hello hey there thanks thank you please ok okay yes no yep yeah sure great good morning afternoon evening day"
    " fine perfect cool nice continue go ahead proceed on done bye goodbye welcome correct right exactly absolutely"
    " awesome help need some with my i'd i'm that sounds works looks do it like let's lets"
)
_FILLER_WORDS: Final = frozenset(_FILLER.split())
_MIN_REQUEST_CHARS: Final = 60
_MORE: Final = " …"  # ends a request that was shortened
_MIN_SHARE: Final = 1 / 3  # of the room. A request that ends after fewer sentences says too little.
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n")
# Commands of the user are wrapped in elements. The first one repeats the name of the command.
_COMMAND_TAG: Final = re.compile(r"<command-message>[^<]*</command-message>|</?command-(?:name|args)>")
_BARE_COMMAND: Final = re.compile(r"/[\w:-]+")
_BARE_COMMAND_LINE: Final = re.compile(r"^/[a-z]+$", re.MULTILINE)
_PATH_LINE: Final = re.compile(r"^[\w.-]+(?:/[\w.-]+)+$", re.MULTILINE)
_NOISE: Final = re.compile(r"Use /help .*|\^C .*|\[Request interrupted by user.*\]|/[a-z]+")
_MAX_UNCLOSED_TAGS: Final = 16
# "Sure, my user id is …", "I don't have the number with me."
_ANSWER: Final = re.compile(
    r"(?:(?:hi|hello|yes|yeah|no|ok(?:ay)?|sure|certainly|thank you|thanks|sorry)[,.!]? )*"
    r"(?:my [\w ]{1,40} (?:is|are)|it'?s|it (?:is|was)|here(?:'s| is| are)"
    r"|(?:unfortunately,? )?i (?:don'?t|do not|can'?t|cannot|only) (?:remember|recall|know|have))\b"
)
_ASKS: Final = re.compile(
    r"\?|\b(?:i'?d (?:like|prefer)|i (?:want|need|would|prefer)|please|can you|could you|let'?s|make sure|must)\b"
)
_MIN_WORDS: Final = 3
_MIN_FIRST_WORDS: Final = 2  # Later, a text this short mostly answers a question.
_MAX_SHORT_CHARS: Final = 80  # A longer request has enough words.
_MAX_SPOKEN_CHARS: Final = 600  # Most of a longer message is pasted.
_MAX_WORDS: Final = 66  # content words: what is pasted below a request is material


def request_text(message: Message) -> str:
    """Return the beginning of a user's request as one line, or an empty text if the message asks for nothing."""
    text = _one_line(_requests[message.text])
    return text if len(text) > _MAX_SHORT_CHARS or len(_content_words(text)) >= _MIN_WORDS else ""


def shorten_requests(messages: Sequence[Message], max_chars: int) -> list[str]:
    """Return the requests of some messages with at most `max_chars` in total. The longer one is shortened first."""
    texts = [_requests[message.text] for message in messages]
    left = max_chars
    shortened: dict[int, str] = {}
    for count, index in enumerate(sorted(range(len(texts)), key=lambda index: len(texts[index]))):
        room = max(_MIN_REQUEST_CHARS, left // (len(texts) - count))
        shortened[index] = _shorten(texts[index], room)
        left -= len(shortened[index])
    return [_one_line(shortened[index]) for index in range(len(texts))]


def _shorten(text: str, max_chars: int) -> str:
    """Return the first sentences of a text that fit, or the beginning of the first one."""
    if len(text) <= max_chars:
        return text
    limit = max_chars - len(_MORE)
    ends = [match.start() for match in _SENTENCE_END.finditer(text, 0, limit)]
    end = ends[-1] if ends and ends[-1] >= limit * _MIN_SHARE else text.rfind(" ", 0, limit + 1)
    return text[: end if end > 0 else limit].rstrip() + _MORE


def first_request(messages: Sequence[Message]) -> tuple[int, str]:
    """Return the position and text of the first request, which may be short, or -1 and an empty text."""
    requests = ((position, _requests[message.text]) for position, message in enumerate(messages) if _is_user(message))
    return next(((position, _one_line(text)) for position, text in requests if text), (-1, ""))


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _read_request(source: str) -> str:
    """Return the beginning of a request, one sentence per line."""
    text = _clean(source)
    if len(_content_words(_PATH_LINE.sub("", text[:4_000]))) < _MIN_FIRST_WORDS:
        return ""
    words = 0
    parts: list[str] = []
    for part in _SENTENCE_END.split(text[:8_000]):
        stripped = " ".join(part.split())
        if not stripped or (not parts and len(_content_words(stripped)) < 2):
            continue
        parts.append(stripped)
        words += len(_WORD.findall(stripped)) - sum(word in _STOP_WORDS for word in _WORD.findall(stripped.lower()))
        if words >= _MAX_WORDS:
            break
    return " ".join("\n".join(parts).split(" ")[: 3 * _MAX_WORDS])


_requests: Final = TextCache(_read_request, max_chars=2_000_000)


def is_filler(text: str) -> bool:
    """True if a text of the user is only a greeting, thanks or a confirmation."""
    return _fillers[text]


def _is_filler(text: str) -> bool:
    # Most texts have a content word near their start.
    return not any(_is_content_word(match.group()) for match in _WORD.finditer(text.lower()))


_fillers: Final = TextCache(_is_filler, max_chars=1_000_000)


def is_bare_answer(text: str) -> bool:
    """True if a text means little without what it answers, as in "yes, let's add this"."""
    return len(text) <= _MAX_SHORT_CHARS and len(_content_words(text)) < _MIN_FIRST_WORDS


def is_answer(text: str) -> bool:
    """True if a message of the user only says what the assistant asked for."""
    return _ANSWER.match(text.lower()) is not None and not _ASKS.search(text.lower())


def is_banner(text: str) -> bool:
    """True if a program wrote all of a text in the user's turn, or if it is only the name of a command."""
    rest = without_banners(without_wrappers(text)).strip()
    return not rest or _BARE_COMMAND.fullmatch(rest) is not None


def is_noise(text: str) -> bool:
    """True if a line of the user's turn says nothing that could be needed again."""
    return _NOISE.fullmatch(text) is not None


def _read_spoken(source: str) -> str:
    text = _clean(source)
    return text if len(text) <= _MAX_SPOKEN_CHARS else ""


_spoken: Final = TextCache(_read_spoken, max_chars=2_000_000)


def spoken_text(message: Message) -> str:
    """Return a short message of the user without what programs added to it, or an empty text if it is long."""
    return _spoken[message.text]


def request_positions(messages: Sequence[Message]) -> list[int]:
    """Return the positions of the user messages that ask for something."""
    return [position for position, message in enumerate(messages) if _is_user(message) and request_text(message)]


def _is_user(message: Message) -> bool:
    return message.role == "user" and not message.answers and not message.is_summary


def _clean(text: str) -> str:
    """Return what the user asks for, without what programs wrote and without commands that have no arguments."""
    said = without_banners(without_reports(without_wrappers(_with_command(text)))).strip()
    return _BARE_COMMAND_LINE.sub("", said).strip() if "\n" in said else said


def _with_command(text: str) -> str:
    """Return a command and its arguments as one line, so that they are read as one request."""
    return " ".join(without_command_tags(text).split()) if "<command-name>" in text else text


def without_command_tags(text: str) -> str:
    """Return a message of the user with the name and the arguments of a command, but without their tags."""
    return _COMMAND_TAG.sub("", text) if "<command-" in text else text


def without_wrappers(text: str) -> str:
    """Remove the elements in which programs wrap their own text. A tag without its end stays."""
    parts: list[str] = []
    start = 0
    unclosed: set[str] = set()
    while match := _WRAPPER.search(text, start):
        tag = match.group(1)
        # Searching for the same missing end tag again would take quadratic time.
        end = -1 if tag in unclosed or len(unclosed) > _MAX_UNCLOSED_TAGS else text.find(f"</{tag}>", match.end())
        if end < 0:
            unclosed.add(tag)
            parts.append(text[start : match.end()])
            start = match.end()
            continue
        parts += (text[start : match.start()], " ")
        start = end + len(tag) + 3
    return "".join((*parts, text[start:]))


def _content_words(text: str) -> set[str]:
    return set(filter(_is_content_word, _WORD.findall(text.lower())))


def _is_content_word(word: str) -> bool:
    return word not in _STOP_WORDS and word not in _FILLER_WORDS
