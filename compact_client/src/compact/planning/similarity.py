"""Keep the older units that are about the same thing as the newest ones.

A light vectoriser (words weighted by how rare they are) and cosine similarity: no model, no vector database, the
same answer every time. Similar units form a cluster; the clusters nearest to the current work stay.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.partition import Partition

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,40}")
_SIMILAR = 0.35  # two units of one cluster; chosen so that edits of one file group and different files do not
_RELATED = 0.12  # a cluster worth keeping at all
_ROOM_PCT = 0.2  # of the room for unpinned messages, so that the summary and the recent window keep theirs
_READ_CHARS = 8_000
_LATEST = 64  # clusters a unit is compared with: work moves on, and the time stays linear

Vector = dict[str, float]


def keep_related(part: Partition, messages: Sequence[Message], counts: Sequence[int], room_tokens: int) -> Partition:
    """Move the units nearest to the recent ones from the remainder to what is kept, within their share of the room."""
    if not part.remainder or not part.recent:
        return part
    texts = [_text(unit, messages) for unit in (*part.remainder, *part.recent)]
    vectors = vectorize(texts)
    old, new = vectors[: len(part.remainder)], vectors[len(part.remainder) :]
    focus = _mean(new)
    nearness = [(cosine(_mean([old[place] for place in members]), focus), members) for members in cluster(old)]
    left = int(room_tokens * _ROOM_PCT)
    kept: set[int] = set()
    for near, members in sorted(nearness, key=lambda item: (-item[0], item[1][0])):
        if near < _RELATED:
            break
        tokens = sum(counts[index] for place in members for index in part.remainder[place].indices)
        if tokens <= left:
            kept.update(members)
            left -= tokens
    related = [part.remainder[place] for place in sorted(kept)]
    return replace(
        part,
        recent=tuple(sorted((*part.recent, *related), key=lambda unit: unit.first)),
        remainder=tuple(unit for place, unit in enumerate(part.remainder) if place not in kept),
        rules={**part.rules, **{unit.first: "semantic cluster near the current work" for unit in related}},
    )


def vectorize(texts: Sequence[str]) -> list[Vector]:
    """Unit vectors of term frequency times rarity."""
    counts = [Counter(word.lower() for word in _WORD.findall(text)) for text in texts]
    documents = Counter(word for count in counts for word in count)
    return [
        _unit(
            {word: (1 + math.log(times)) * math.log(1 + len(texts) / documents[word]) for word, times in count.items()}
        )
        for count in counts
    ]


def cosine(left: Vector, right: Vector) -> float:
    """How alike two unit vectors are."""
    if len(left) > len(right):
        left, right = right, left
    return sum([weight * right[word] for word, weight in left.items() if word in right])


def cluster(vectors: Sequence[Vector]) -> list[list[int]]:
    """Greedy clusters: a unit joins the first of the latest clusters whose founder it resembles."""
    clusters: list[list[int]] = []
    for place, vector in enumerate(vectors):
        for members in clusters[-_LATEST:]:
            if cosine(vectors[members[0]], vector) >= _SIMILAR:
                members.append(place)
                break
        else:
            clusters.append([place])
    return clusters


def _mean(vectors: Iterable[Vector]) -> Vector:
    total: Vector = {}
    for vector in vectors:
        for word, weight in vector.items():
            total[word] = total.get(word, 0.0) + weight
    return _unit(total)


def _unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(weight * weight for weight in vector.values())) or 1.0
    return {word: weight / length for word, weight in vector.items()}


def _text(unit: Unit, messages: Sequence[Message]) -> str:
    parts = []
    for index in unit.indices:
        parts.append(messages[index].text[:_READ_CHARS])
        parts.extend(f"{call.name} {call.arguments}" for call in messages[index].tool_calls)
    return " ".join(parts)
