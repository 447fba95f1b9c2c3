"""Offer the bare names of entities as candidates for a summary.

A name says little by itself, but it can be copied and searched for, and it needs a fifth of the space of its line. It
competes with the last lines for the same tokens, and it is dropped again if one of them mentions the entity.
"""

from __future__ import annotations

import re
from heapq import nlargest
from typing import Final

from compact.reading.blocks import Block
from compact.reading.entities import NUMBER_TYPES
from compact.summarizers.extraction.entity_usage import CHARS_PER_TOKEN, EntityUsage
from compact.summarizers.extraction.span_index import ARGUMENT_LABEL, FIELD_LABEL, Candidate, SpanIndex
from compact.summary.entries import Entity
from compact.summary.renderer import PHRASE_END, SAID, SHOWN

# How much of an entity's value its bare name keeps. With a higher worth, a summary has more facts, and fewer of them
# next to their words. At 0.8, FUR-LR is 0.9 points higher than at 0.5, and GFUR 0.6 points lower.
NAME_WORTH: Final = 0.8
_NAME_TOKENS: Final = 10  # enough candidates for the share of the budget that names can take
_SEPARATOR_TOKENS: Final = 1.5
_WORD_PAIR: Final = re.compile(r"[A-Za-z]+/[A-Za-z]+")  # `key/value` is not a path, and `os/exec` says little
# A list of names is only readable if its label says what they are.
ROLE_LABELS: Final = {
    "id": "identifiers",
    "uuid": "identifiers",
    "code": "identifiers",
    "ticket": "identifiers",
    "hex": "identifiers",
    "branch": "identifiers",
    "path": "paths",
    "file": "files",
    "url": "web addresses",
    "email": "mail addresses",
    "date": "dates",
    "money": "amounts",
    "unit": "amounts",
    "num": "amounts",
    "number": "amounts",
    "error": "error types",
    "version": "versions",
    "flag": "command options",
    "option": "command options",
    "ident": "code symbols",
    "dotted": "code symbols",
    "field": FIELD_LABEL,
    "argument": ARGUMENT_LABEL,
    "acronym": "abbreviations",
    "name": "names and titles",
    "quoted": "quoted texts",
}
# The words before an amount in its clause, as in `Total price: $112` and `Economy ($112)`, or else those after it.
_WORDS: Final = r"([A-Za-z][A-Za-z-]{2,20}(?: [A-Za-z][A-Za-z-]{2,20})?)"
_WORDS_BEFORE: Final = re.compile(rf"(?<![\w-]){_WORDS}(?: is| was| of| at| for)?[ :(=*~]*$")
_WORDS_AFTER: Final = re.compile(rf" {_WORDS}(?![\w-])")
_MAX_CHARS_BEFORE: Final = 60


def _is_name(index: SpanIndex, entity: int, *, is_required: bool) -> bool:
    """True if an entity says something by itself.

    Bare numbers, emphasized words, pairs with a slash and string literals of programs do not. A bare amount is only
    useful if the user mentioned it, and the bare value of a record does not say which record it belongs to. The name of
    a field tells what the records contain.
    """
    usage = index.usages[entity]
    if usage.type in ("acronym", "num") or (usage.type == "quoted" and not usage.is_in_conversation):
        return False
    if usage.type == "path" and _WORD_PAIR.fullmatch(index.keys[entity]):
        return False
    if is_required or usage.type == "field":
        return True
    return usage.type not in NUMBER_TYPES and not index.is_only_in_records(entity)


def _role(usage: EntityUsage, name: str) -> str:
    """Return the label of the list that a name belongs to. Amounts of money are listed with the words beside them."""
    label = f"{SAID if usage.is_in_conversation else SHOWN} {ROLE_LABELS[usage.type]}"
    words = _words_beside(name, usage.first_line) if usage.type == "money" else ""
    return f"{label} ({words})" if words else label


def _words_beside(name: str, line: str) -> str:
    mention = re.search(rf"{re.escape(name)}(?![.,]?\d)", line)  # not `$30` in `$300`
    if mention is None:
        return ""
    before, after = line[max(0, mention.start() - _MAX_CHARS_BEFORE) : mention.start()], line[mention.end() :]
    words = _WORDS_BEFORE.search(before) or _WORDS_AFTER.match(after)
    return words.group(1).lower() if words else ""


def name_candidates(index: SpanIndex, values: list[float], required: set[int], budget_tokens: float) -> list[Candidate]:
    """Return the required names and the most valuable others that could fit the budget, in order of first mention.

    `values` are those of the names. A name without a value is mentioned already.
    """
    listed = {entity for line in index.candidates if line.field == "entities" for entity in line.entities}
    densities = [
        (entity in required, value / (len(key) / CHARS_PER_TOKEN + _SEPARATOR_TOKENS), entity)
        for entity, (key, value) in enumerate(zip(index.keys, values, strict=True))
        if value > 0.0 and entity not in listed and _is_name(index, entity, is_required=entity in required)
    ]
    best = nlargest(int(budget_tokens) // _NAME_TOKENS, densities)
    first_order = len(index.candidates)
    names: list[Candidate] = []
    for entity in sorted(entity for _, _, entity in best):
        name, usage, sources = index.name(entity), index.usages[entity], index.sources(entity)
        if PHRASE_END in name or "\n" in name:
            continue
        role = _role(usage, name)
        order = first_order + len(names)
        block = Block((name,), "prose", sources, usage.last_position, entry=Entity(name, role, sources, order))
        tokens = len(name) / CHARS_PER_TOKEN + _SEPARATOR_TOKENS
        entities = index.with_parts(entity)
        names.append(Candidate(name, block, "entities", entities, 0.0, tokens, order, is_priority=False))
    return names
