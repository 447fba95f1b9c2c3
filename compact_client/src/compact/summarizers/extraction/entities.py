"""Find the things a conversation may come back to: paths, ids, numbers, names, errors.

Linear in the text and cheap: a line is cut into chunks once, and each distinct chunk is classified once per process.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from itertools import chain
from typing import Final

# One recognised thing: its comparable form, and what sort of thing it is. Thousands are made for every compaction,
# so it is a plain tuple.
Mention = tuple[str, str]

# How much it hurts to lose one, by sort. What can only be copied (ids, paths) stands above what can be described.
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
    "option": 0.3,  # of a call; found by `coverage`, for only there a line is known to be one
}

_DRIVE: Final = re.compile(r"\b[A-Za-z]:\\[A-Za-z]")
_ESCAPE: Final = re.compile(r"\\+[nrtbfv\"'/]?")
# Spelled out: a category such as \s among the characters would be tested after all of them, at every place.
_SPACE: Final = r"\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_APART: Final = rf"{_SPACE}\"'`,;()\[\]{{}}<>|=!?*…→│。，、；：！？（）「」『』《》【】“”"
_CHUNK: Final = re.compile(rf"[^{_APART}]++")
# The same for a line of ASCII, several times faster: what parts becomes a space, byte by byte.
_PARTED: Final = bytes(32 if re.match(f"[{_APART}]", chr(byte)) else byte for byte in range(256))
# The look-behinds stand after the first character, so that the engine can skip to a candidate before testing it.
_QUOTED: Final = re.compile(r"`([^`\n]{2,60})`|\"([^\"\n]{2,48})\"|'(?<![A-Za-z0-9]')([^'\n]{2,48})'(?![A-Za-z])")
_UNIT: Final = re.compile(
    r"\d(?<![\w.$-]\d)(?:[\d,]*\d)?(?:\.\d+)?\s?"
    r"(?:[%€£]|[kKMG]?i?B\b|ms\b|(?!(?:a|i|wa|ha|it|thi|doe|u)s\b)[a-z]{1,12}s\b|min\b|hour\b|sec\b|px\b|[kKMG]\b"
    r"|°[CF]\b|km/h\b|mph\b|[kcm]?[gml]\b|[kMG]?Hz\b|k?Wh?\b)"
)
_NO_DIGITS: Final = string.ascii_letters + string.whitespace + "%€£°/"
_GROUPED: Final = re.compile(r"(?<![\w.,])([$€£¥₹]?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?!\d)")
_NAME: Final = re.compile(r"[A-Z](?<![\w.][A-Z])[a-z]{1,20}(?: (?:[A-Z][a-z]{1,20}|[A-Z]\.))+(?!\w)")
_MONTHS: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DATE: Final = re.compile(
    rf"{_MONTHS} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?(?!\d)|(?<!\d)\d{{1,2}} {_MONTHS}(?: \d{{4}})?"
)
_NUMBERED: Final = re.compile(r"\b(?:PR|pull request|[Ii]ssue|[Tt]icket|[Bb]ug|[Cc]ase|[Oo]rder|[Tt]ask) #?\d+\b")
# Without these a line holds none of the above. They begin with what is rare, so that most lines are done at a glance.
_HAS_DIGIT: Final = re.compile(r"\d")
_HAS_GROUPED: Final = re.compile(r",(?<=\d,)\d{3}")
_HAS_NAME: Final = re.compile(r" (?<=[a-z] )[A-Z][a-z.]")
_HAS_MONTH: Final = re.compile("Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec")
_HAS_NUMBERED: Final = re.compile(r" (?<=[Rtegrk] )#?\d")

_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_HEX: Final = re.compile(r"(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}")
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP: Final = re.compile(r"(\d{4}-\d{2}-\d{2})t\d{2}:\d{2}[\d:.]*(?:z|[+-]\d{2}:?\d{2})?")
_SLASHED_DATE: Final = re.compile(r"\d{1,2}/\d{1,2}/\d{2}(?:\d{2})?|\d{4}/\d{1,2}/\d{1,2}")
_ASCII: Final = re.compile(r"[!-~]{2,}")
_RELEASE: Final = re.compile(r"[A-Za-z][\w-]*[-@]v?(\d+\.\d+\.\d+[\w.+-]*)")
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
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


def _first_of(**kinds: re.Pattern[str]) -> re.Pattern[str]:
    """One pattern for all: of the alternatives that match a whole word, the first one named gives its kind."""
    return re.compile("|".join(f"(?P<{kind}>{pattern.pattern})" for kind, pattern in kinds.items()))


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
# The same for words of letters, digits and underscores alone, which nothing else can be.
_IDENTIFIER: Final = _first_of(version=_VERSION, hex=_HEX, error=_ERROR, code=_CODE, ident=_IDENT, acronym=_ACRONYM)
_PART: Final = re.compile(r"[^\w.$#-]+")
_LINE_SUFFIX: Final = re.compile(r":\d+(?:[:-]\d+)*:?$")
_PATH_OK: Final = re.compile(r"[\w.@~+%:#/-]+")
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


class _Classified(dict[str, tuple[Mention, ...]]):
    """What each chunk names, found out when first asked for; a known one is looked up without any Python."""

    def __missing__(self, chunk: str) -> tuple[Mention, ...]:
        # Cleared whole when full: entries are cheap to make again, and an eviction order would cost more than it saves.
        if len(self) >= _CACHE_LIMIT:
            self.clear()
        found = self[chunk] = () if _is_plain(chunk) else tuple(_classify(chunk))
        return found


def _is_plain(word: str) -> bool:
    """A plain word names nothing; most chunks are one."""
    return word.isalpha() and (word.islower() or word.istitle())


_classified: Final = _Classified()


@lru_cache(maxsize=32_768)  # a session is read again at its next compaction, and by the guard
def find_entities(line: str) -> tuple[Mention, ...]:
    """The entities of one line, each once, in no particular order but always the same one."""
    is_windows = False
    if "\\" in line:
        # Escaped text inside text: `\\n` ends a word. A drive letter makes it a path instead.
        is_windows = _DRIVE.search(line) is not None
        line = line.replace("\\", "/") if is_windows else _ESCAPE.sub(" ", line)
    has_digit = _HAS_DIGIT.search(line) is not None
    # A comma parts chunks; what it parts in 6,745 is one number, and no part of it means anything.
    grouped = _GROUPED.findall(line) if has_digit and _HAS_GROUPED.search(line) else []
    parted = _GROUPED.sub(" ", line) if grouped else line
    found = list(chain.from_iterable(map(_classified.__getitem__, _chunks(parted))))
    if grouped:
        found += [(sign + number, "money" if sign else "num") for sign, number in grouped]
    if is_windows:
        found = [(key.replace("/", "\\") if kind == "path" else key, kind) for key, kind in found]
    if "`" in line or '"' in line or "'" in line:
        for groups in _QUOTED.findall(line):
            text = (groups[0] or groups[1] or groups[2]).strip().lower()
            # A quoted phrase counts; punctuation between two closing quotes does not.
            if len(text) > 2 and text[0] not in ",:;)]}":
                found.append((text, "quoted"))
    if has_digit:
        if units := _UNIT.findall(line):
            # 45.3% is said once: whoever keeps it keeps 45.3.
            amounts = {text.rstrip(_NO_DIGITS) for text in units}
            found = [mention for mention in found if mention[1] != "num" or mention[0] not in amounts]
            found += [(text.lower(), "unit") for text in units]
        if _HAS_NUMBERED.search(line):
            found += [(text.lower(), "ticket") for text in _NUMBERED.findall(line)]
        if _HAS_MONTH.search(line):
            found += [(text.lower(), "date") for text in _DATE.findall(line)]
    if _HAS_NAME.search(line):
        found += [(text.lower(), "name") for text in _NAME.findall(line)]
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


def _chunks(line: str) -> list[str]:
    return line.encode().translate(_PARTED).decode().split() if line.isascii() else _CHUNK.findall(line)


def surface(line: str, key: str) -> str:
    """An entity as it is written in its line."""
    lowered = line.lower()
    at = lowered.find(key)
    # A few letters change length in lower case; then the places do not match and the key itself must do.
    return line[at : at + len(key)] if at >= 0 and len(line) == len(lowered) else key


def _classify(chunk: str) -> list[Mention]:
    word = chunk.rstrip(".:…").lstrip(":…")
    if "/" not in word:
        # A leading dot belongs to a path (.git/config); elsewhere it is punctuation.
        word = word.lstrip(".").rstrip("-")
    if len(word) < 2 or len(word) > 300:
        return []
    if word.isascii() and word.isidentifier():
        return [] if _is_plain(word) else _classify_identifier(word)
    return _classify_compound(word)


def _classify_identifier(word: str) -> list[Mention]:
    match = _IDENTIFIER.fullmatch(word)
    kind = match.lastgroup if match else None
    return [(word.lower(), _ident_kind(word) if kind == "ident" else kind)] if kind else []


def _classify_compound(word: str) -> list[Mention]:
    lowered = word.lower()
    if "://" in word:
        return [(lowered.rstrip("/."), "url")]
    if "@" in word and (match := _EMAIL.fullmatch(word)):
        return [(match.group().lower(), "email")]
    if "::" in word:
        return [mention for part in word.split("::") if part for mention in _classify(part)]
    if "/" in word:
        return _classify_path(word)
    if _HAS_DIGIT.search(word):
        if kind := _numeric_kind(word):
            return [(lowered, kind)]
        if "-" in word and (found := _classify_dashed(lowered)):
            return found
    if word[0] == "-":
        return [(lowered, "flag")] if _FLAG.fullmatch(word) else []
    if ":" in word:
        word = _LINE_SUFFIX.sub("", word)
        if ":" in word:
            return [mention for part in word.split(":") if part for mention in _classify(part)]
        lowered = word.lower()
    return _classify_word(word, lowered) or _classify_parts(word)


def _classify_dashed(lowered: str) -> list[Mention]:
    if match := _UUID.search(lowered):
        return [(match.group(), "uuid")]
    if match := _TIMESTAMP.fullmatch(lowered):
        # The day is what is asked about; the second is one more number.
        return [(match.group(1), "date"), (lowered, "num")]
    return []


def _classify_parts(word: str) -> list[Mention]:
    """What a word holds that is no entity as a whole: `&git.CommitOptions`, `a@b+c`, a number amid Chinese."""
    parts = [part for part in _PART.split(word) if len(part) > 2] if word.isascii() else _ASCII.findall(word)
    if not parts or parts == [word]:
        return []
    return [mention for part in parts for mention in _classify(part)]


def _numeric_kind(word: str) -> str | None:
    if word.isdecimal():
        return "num" if len(word) > 2 else None
    match = _NUMERIC.fullmatch(word)
    return match.lastgroup if match else None


def _classify_word(word: str, lowered: str) -> list[Mention]:
    if _ERROR.fullmatch(word):
        return [(lowered, "error")]
    if "." in word:
        if lowered in _ABBREVIATIONS:
            return []
        match = _FILE.fullmatch(word)
        if match and match.group(1).lower() in _EXTENSIONS:
            return _file(word)
        if match := _RELEASE.fullmatch(word):
            return [(lowered, "version"), (match.group(1).lower(), "version")]
        if _DOTTED.fullmatch(word):
            parts = word.split(".")
            inner = [(part.lower(), "ident") for part in parts if _IDENT.fullmatch(part)]
            return [(lowered, "dotted"), *inner]
        return []
    if _IDENT.fullmatch(word):
        return [(lowered, _ident_kind(word))]
    if _ACRONYM.fullmatch(word):
        return [(lowered, "acronym")]
    return []


def _ident_kind(word: str) -> str:
    return "id" if _SERIAL.search(word) else "ident"


def _file(name: str) -> list[Mention]:
    stem = name.rpartition(".")[0]
    inner = [(stem.lower(), "ident")] if _IDENT.fullmatch(stem) else []
    return [(name.lower(), "file"), *inner]


def _classify_path(word: str) -> list[Mention]:
    if _SLASHED_DATE.fullmatch(word):
        return [(word, "date")]
    path = _LINE_SUFFIX.sub("", word).rstrip("/.:")
    if not _PATH_OK.fullmatch(path) or not _HAS_ALPHA.search(path):
        return []
    parts = [part for part in path.split("/") if part and part not in (".", "..", "~")]
    if not parts:
        return []
    last = parts[-1]
    found = [("/".join(parts[-2:]).lower(), "path")] if len(parts) > 1 else []
    if match := _DATED.match(last):
        found.append((match.group(), "date"))
    match = _FILE.fullmatch(last)
    if match and match.group(1).lower() in _EXTENSIONS:
        found += _file(last)
    elif len(parts) == 1:
        found.append((path.lower(), "path"))
    elif _IDENT.fullmatch(last):
        found.append((last.lower(), "ident"))
    return found
