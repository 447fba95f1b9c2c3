"""Find the entities in a line that a conversation may refer to again: paths, ids, numbers, names, errors.

Runs in linear time. Each line is split into chunks once, and each distinct chunk is classified once per process.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from itertools import chain
from typing import Final

from compact.reading.text_cache import TextCache

# An entity's comparable key and its type. A plain tuple, because each compaction creates thousands of them.
Mention = tuple[str, str]

# The relative cost of losing an entity, by type. Types that can only be copied, such as ids and paths, rank highest.
TYPE_WEIGHTS: Final[dict[str, float]] = {
    "branch": 1.0,
    "code": 1.0,
    "email": 1.0,
    "error": 1.0,
    "id": 1.0,
    "money": 1.0,
    "path": 1.0,
    "ticket": 1.0,
    "url": 1.0,
    "uuid": 1.0,
    "date": 0.9,
    "file": 0.8,
    "hex": 0.8,
    "quoted": 0.7,
    "version": 0.7,
    "name": 0.6,
    "unit": 0.6,
    "flag": 0.5,
    "ident": 0.5,
    "num": 0.5,
    "dotted": 0.4,
    "acronym": 0.3,
    # Only `span_index` finds these, because it knows which lines are calls and records.
    "argument": 0.5,  # the name of an argument
    "field": 0.5,  # the name of a field
    "option": 0.3,  # the value of an argument
}

# Numbers mean nothing without the text around them.
NUMBER_TYPES: Final = frozenset({"num", "unit"})

_DRIVE: Final = re.compile(r"\b[A-Za-z]:\\[A-Za-z]")
_ESCAPE: Final = re.compile(r"\\+[nrtbfv\"'/]?")
# Listed explicitly because a category such as \s makes this character class slower at every position.
_SPACE: Final = r"\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SEPARATORS: Final = rf"{_SPACE}\"'`,;()\[\]{{}}<>|=!?*…→│。，、；：！？（）「」『』《》【】“”"
_CHUNK: Final = re.compile(rf"[^{_SEPARATORS}]++")
# For ASCII lines, translating separators to spaces is several times faster than the regular expression.
_SEPARATORS_TO_SPACES: Final = bytes(32 if re.match(f"[{_SEPARATORS}]", chr(byte)) else byte for byte in range(256))
# Look-behinds follow the first character, so that the engine can skip to the next candidate before it checks them.
_QUOTED: Final = re.compile(r"`([^`\n]{2,60})`|\"([^\"\n]{2,48})\"|'(?<![A-Za-z0-9]')([^'\n]{2,48})'(?![A-Za-z])")
_WORD_AND_PERIOD: Final = re.compile(r"\S*\w[.,]")
_UNIT: Final = re.compile(
    r"\d(?<![\w.$-]\d)(?:[\d,]*\d)?(?:\.\d+)?\s?"
    r"(?:[%€£]|[kKMG]?i?B\b|ms\b|(?!(?:a|i|wa|ha|it|thi|doe|u)s\b)[a-z]{1,12}s\b"  # codespell:ignore thi
    r"|min\b|hour\b|sec\b|px\b|[kKMG]\b"
    r"|°[CF]\b|km/h\b|mph\b|[kcm]?[gml]\b|[kMG]?Hz\b|k?Wh?\b)"
)
_UNIT_CHARS: Final = string.ascii_letters + string.whitespace + "%€£°/"
_GROUPED: Final = re.compile(r"(?<![\w.,])([$€£¥₹]?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?!\d)")
_NAME: Final = re.compile(r"[A-Z](?<![\w.][A-Z])[a-z]{1,20}(?: (?:[A-Z][a-z]{1,20}|[A-Z]\.))+(?!\w)")
_MONTHS: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DATE: Final = re.compile(
    rf"{_MONTHS} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?(?!\d)"  # codespell:ignore nd
    rf"|(?<!\d)\d{{1,2}} {_MONTHS}(?: \d{{4}})?"
)
_NUMBERED_REFERENCE: Final = re.compile(
    r"\b(?:PR|pull request|[Ii]ssue|[Tt]icket|[Bb]ug|[Cc]ase(?! \d+:)|[Oo]rder|[Tt]ask) #?\d+\b"
)
# Cheap necessary conditions for the patterns above. Each starts with a rare character to reject most lines quickly.
_HAS_DIGIT: Final = re.compile(r"\d")
_HAS_GROUPED: Final = re.compile(r",(?<=\d,)\d{3}")
_HAS_NAME: Final = re.compile(r" (?<=[a-z] )[A-Z][a-z.]")
_HAS_MONTH: Final = re.compile("Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec")
_HAS_NUMBERED_REFERENCE: Final = re.compile(r" (?<=[Rtegrk] )#?\d")

_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_HEX: Final = re.compile(r"(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}")
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP: Final = re.compile(r"(\d{4}-\d{2}-\d{2})t\d{2}:\d{2}[\d:.]*(?:z|[+-]\d{2}:?\d{2})?")
_SLASHED_DATE: Final = re.compile(r"\d{1,2}/\d{1,2}/\d{2}(?:\d{2})?|\d{4}/\d{1,2}/\d{1,2}")
_ASCII: Final = re.compile(r"[!-~]{2,}")
_RELEASE: Final = re.compile(r"[A-Za-z][\w-]*[-@]v?(\d+\.\d+\.\d+[\w.+-]*)")
_VERSION: Final = re.compile(r"v?\d+\.\d+\.\d+[\w.+-]*|v\d+(?:\.\d+)*[\w.+-]*")
_TICKET: Final = re.compile(r"#\d+|[A-Z][A-Z0-9]+-\d+")
_MONEY: Final = re.compile(r"[$€£¥₹]\d[\d.]*")
_FLAG: Final = re.compile(r"--?[A-Za-z][\w-]+")
_CODE: Final = re.compile(r"(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{4,12}")
_NUMBER: Final = re.compile(r"[-+]?(?:\d{3,}|\d+\.\d+)")
_IDENT: Final = re.compile(r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+_*|_+[A-Za-z]\w+|[A-Za-z]*[a-z0-9][A-Z]\w*")
_SERIAL: Final = re.compile(r"[_A-Za-z]\d{3,}$")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_ERROR: Final = re.compile(r"[A-Z]\w*(?:Error|Exception|Warning|Fault|Failure)|E[A-Z]{3,}|E\d{3,}|SIG[A-Z]{3,}")
_ACRONYM: Final = re.compile(r"[A-Z]{3,5}")
_FILE: Final = re.compile(r"[\w@.+-]*\w\.([A-Za-z][A-Za-z0-9]{0,5})")


def _first_of(**types: re.Pattern[str]) -> re.Pattern[str]:
    """Combine patterns into one whose `lastgroup` is the first type that matches the whole word."""
    return re.compile("|".join(f"(?P<{name}>{pattern.pattern})" for name, pattern in types.items()))


_NUMERIC: Final = _first_of(
    money=_MONEY,
    date=_ISO_DATE,
    version=_VERSION,
    ticket=_TICKET,
    num=_NUMBER,
    hex=_HEX,
    error=_ERROR,
    code=_CODE,
)
# Types that a word of only letters, digits and underscores can have.
_IDENTIFIER: Final = _first_of(version=_VERSION, hex=_HEX, error=_ERROR, code=_CODE, ident=_IDENT, acronym=_ACRONYM)
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]+://\w")  # not a comment after a line number: `92://`
_PART_SEPARATOR: Final = re.compile(r"[^\w.$#-]+")
_LINE_SUFFIX: Final = re.compile(r":\d+(?:[:-]\d+)*:?$")
# A line of `grep -n`, with context after a dash: `src/app.go:12:func`, `src/app.go-13-`.
_GREP_LINE: Final = re.compile(r"(.*\.[A-Za-z]\w{0,5})(?::\d+:|-\d+-)(.*)")
# Not a comment such as `//nolint:gosec`, and not a format such as `%s/%d`.
_PATH_OK: Final = re.compile(r"(?!//|(?:\S*/)?%[a-z])[\w.@~+%:#/-]+")
_HAS_ALPHA: Final = re.compile(r"[A-Za-z]")

_EXTENSION_NAMES: Final = """
py pyi ipynb go rs c h cc cpp hpp cs java kt scala rb php pl lua swift m mm js jsx mjs cjs ts tsx vue svelte html htm
css scss less json jsonl yaml yml toml ini cfg conf env lock xml csv tsv parquet sql db sqlite md mdx rst txt log sh
bash zsh fish ps1 bat dockerfile mk cmake gradle tf proto graphql patch diff zip gz tar xz img png jpg jpeg gif svg pdf
docx xlsx pptx pem key crt in out tmp bak so dll exe bin whl jar mod sum pony tex
"""
_EXTENSIONS: Final = frozenset(_EXTENSION_NAMES.split())
_ABBREVIATIONS: Final = frozenset({"e.g", "i.e", "etc.", "a.k.a", "vs.", "p.s"})

_CACHE_LIMIT: Final = 200_000


class _ChunkMentions(dict[str, tuple[Mention, ...]]):
    """The mentions in each chunk, classified on first access. Later lookups run entirely in C."""

    def __missing__(self, chunk: str) -> tuple[Mention, ...]:
        # Clearing the whole cache is cheaper than tracking an eviction order, and entries are cheap to rebuild.
        if len(self) >= _CACHE_LIMIT:
            self.clear()
        mentions = self[chunk] = () if _is_plain(chunk) else tuple(_classify(chunk))
        return mentions


def _is_plain(word: str) -> bool:
    """True for ordinary words, which are never entities. Most chunks are ordinary words."""
    return word.isalpha() and (word.islower() or word.istitle())


_chunk_mentions: Final = _ChunkMentions()


def scan_entities(line: str) -> tuple[Mention, ...]:
    """Return the same as `find_entities`, for a text that is not read again."""
    if "\\" not in line:
        return _scan(line)
    if _DRIVE.search(line):
        mentions = _scan(line.replace("\\", "/"))
        return tuple((key.replace("/", "\\") if kind == "path" else key, kind) for key, kind in mentions)
    # Escape sequences such as `\\n` in quoted text separate words.
    return _scan(_ESCAPE.sub(" ", line))


find_entities: Final = TextCache(scan_entities, max_chars=6_000_000).__getitem__
"""Return the distinct entities of a line in a deterministic order."""


def _scan(line: str) -> tuple[Mention, ...]:
    has_digit = _HAS_DIGIT.search(line) is not None
    mentions = _scan_grouped_numbers(line) if has_digit and _HAS_GROUPED.search(line) else _scan_chunks(line)
    if "`" in line or '"' in line or "'" in line:
        mentions += _scan_quoted(line)
    if has_digit:
        mentions = _add_numeric_phrases(line, mentions)
    if _HAS_NAME.search(line):
        mentions += [(text.lower(), "name") for text in _NAME.findall(line)]
    return tuple(dict.fromkeys(mentions)) if len(mentions) > 1 else tuple(mentions)


def _scan_chunks(line: str) -> list[Mention]:
    chunks = line.encode().translate(_SEPARATORS_TO_SPACES).decode().split() if line.isascii() else _CHUNK.findall(line)
    return list(chain.from_iterable(map(_chunk_mentions.__getitem__, chunks)))


def _scan_grouped_numbers(line: str) -> list[Mention]:
    """Scan chunks in a line with numbers such as 6,745. Commas separate chunks, but not within these numbers."""
    numbers = [(sign + number, "money" if sign else "num") for sign, number in _GROUPED.findall(line)]
    return _scan_chunks(_GROUPED.sub(" ", line)) + numbers


def _scan_quoted(line: str) -> list[Mention]:
    quotations = [(groups[0] or groups[1] or groups[2]).strip().lower() for groups in _QUOTED.findall(line)]
    # American English puts the period of the sentence inside the quotation marks: "OBUT9V."
    phrases = [text[:-1] if _WORD_AND_PERIOD.fullmatch(text) else text for text in quotations]
    # Skip the punctuation between the end of one quotation and the start of the next.
    return [(phrase, "quoted") for phrase in phrases if len(phrase) > 2 and phrase[0] not in ",:;)]}"]


def _add_numeric_phrases(line: str, mentions: list[Mention]) -> list[Mention]:
    """Add amounts with units, numbered references such as `issue 7`, and dates with a month name."""
    if units := _UNIT.findall(line):
        # "45.3%" already contains the number 45.3.
        amounts = {text.rstrip(_UNIT_CHARS) for text in units}
        mentions = [mention for mention in mentions if mention[1] != "num" or mention[0] not in amounts]
        mentions += [(text.lower(), "unit") for text in units]
    if _HAS_NUMBERED_REFERENCE.search(line):
        mentions += [(text.lower(), "ticket") for text in _NUMBERED_REFERENCE.findall(line)]
    if _HAS_MONTH.search(line):
        mentions += [(text.lower(), "date") for text in _DATE.findall(line)]
    return mentions


def original_spelling(line: str, key: str) -> str:
    """Return an entity as it is spelled in its line."""
    lowered = line.lower()
    at = lowered.find(key)
    # A few letters change length in lower case. The positions then differ, so return the key.
    return line[at : at + len(key)] if at >= 0 and len(line) == len(lowered) else key


def _classify(chunk: str) -> list[Mention]:
    word = chunk.rstrip(".:…").lstrip(":…")
    if "/" not in word:
        # A leading dot is part of a path such as .git/config. Elsewhere it is punctuation.
        word = word.lstrip(".").rstrip("-")
    if len(word) < 2 or len(word) > 300:
        return []
    if word.isascii() and word.isidentifier():
        return [] if _is_plain(word) else _classify_identifier(word)
    return _classify_compound(word)


def _classify_identifier(word: str) -> list[Mention]:
    match = _IDENTIFIER.fullmatch(word)
    kind = match.lastgroup if match else None
    return [(word.lower(), _identifier_type(word) if kind == "ident" else kind)] if kind else []


def _classify_address(word: str) -> list[Mention]:
    if "://" in word and _SCHEME.match(word):
        return [(word.lower().rstrip("/."), "url")]
    return [(word.lower(), "email")] if "@" in word and _EMAIL.fullmatch(word) else []


def _classify_compound(word: str) -> list[Mention]:
    """Classify a word with punctuation or non-ASCII characters."""
    if address := _classify_address(word):
        return address
    if "::" in word:
        return _classify_each(word.split("::"))
    if "/" in word:
        return _classify_path(word)
    if _HAS_DIGIT.search(word) and (mentions := _classify_numeric(word)):
        return mentions
    if word[0] == "-":
        return [(word.lower(), "flag")] if _FLAG.fullmatch(word) else []
    if ":" in word:
        word = _LINE_SUFFIX.sub("", word)
        if ":" in word:
            return _classify_each(word.split(":"))
    return _classify_word(word) or _classify_parts(word)


def _classify_each(parts: list[str]) -> list[Mention]:
    return [mention for part in parts if part for mention in _classify(part)]


def _classify_numeric(word: str) -> list[Mention]:
    lowered = word.lower()
    if kind := _numeric_type(word):
        return [(lowered, kind)]
    if "-" not in word:
        return []
    if match := _UUID.search(lowered):
        return [(match.group(), "uuid")]
    if match := _TIMESTAMP.fullmatch(lowered):
        # Users refer to the day. The full timestamp is only a number.
        return [(match.group(1), "date"), (lowered, "num")]
    return []


def _numeric_type(word: str) -> str | None:
    if word.isdecimal():
        return "num" if len(word) > 2 else None
    match = _NUMERIC.fullmatch(word)
    return match.lastgroup if match else None


def _classify_parts(word: str) -> list[Mention]:
    """Classify the parts of a word that is not an entity itself: `&git.CommitOptions`, `a@b+c`, a number in Chinese."""
    parts = [part for part in _PART_SEPARATOR.split(word) if len(part) > 2] if word.isascii() else _ASCII.findall(word)
    return _classify_each(parts) if parts != [word] else []


def _classify_word(word: str) -> list[Mention]:
    lowered = word.lower()
    if _ERROR.fullmatch(word):
        return [(lowered, "error")]
    if "." in word:
        return _classify_dotted(word, lowered)
    if _IDENT.fullmatch(word):
        return [(lowered, _identifier_type(word))]
    if _ACRONYM.fullmatch(word):
        return [(lowered, "acronym")]
    return []


def _classify_dotted(word: str, lowered: str) -> list[Mention]:
    if lowered in _ABBREVIATIONS:
        return []
    if _is_file_name(word):
        return _classify_file(word)
    if match := _RELEASE.fullmatch(word):
        return [(lowered, "version"), (match.group(1).lower(), "version")]
    if _DOTTED.fullmatch(word):
        identifiers = [(part.lower(), "ident") for part in word.split(".") if _IDENT.fullmatch(part)]
        return [(lowered, "dotted"), *identifiers]
    return []


def _identifier_type(word: str) -> str:
    return "id" if _SERIAL.search(word) else "ident"


def _is_file_name(word: str) -> bool:
    match = _FILE.fullmatch(word)
    return match is not None and match.group(1).lower() in _EXTENSIONS


def _classify_file(name: str) -> list[Mention]:
    stem = name.rpartition(".")[0]
    identifier = [(stem.lower(), "ident")] if _IDENT.fullmatch(stem) else []
    return [(name.lower(), "file"), *identifier]


def _classify_path(word: str) -> list[Mention]:
    if _SLASHED_DATE.fullmatch(word):
        return [(word, "date")]
    if match := _GREP_LINE.fullmatch(word):
        return [*_classify_path(match.group(1)), *(_classify(match.group(2)) if match.group(2) else ())]
    path = _LINE_SUFFIX.sub("", word).rstrip("/.:")
    if not _PATH_OK.fullmatch(path) or not _HAS_ALPHA.search(path):
        return []
    parts = [part for part in path.split("/") if part and part not in (".", "..", "~")]
    if not parts:
        return []
    mentions = [("/".join(parts[-2:]).lower(), "path")] if len(parts) > 1 else []
    if match := _ISO_DATE.match(parts[-1]):
        mentions.append((match.group(), "date"))
    return [*mentions, *_classify_last_part(path, parts)]


def _classify_last_part(path: str, parts: Sequence[str]) -> list[Mention]:
    last = parts[-1]
    if _is_file_name(last):
        return _classify_file(last)
    if len(parts) == 1:
        return [(path.lower(), "path")]
    return [(last.lower(), "ident")] if _IDENT.fullmatch(last) else []
