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
from compact.partition import Partition
from compact.units import Unit

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,40}")
_SIMILAR = 0.35  # two units of one cluster; chosen so that edits of one file group and different files do not
_RELATED = 0.12  # a cluster worth keeping at all
_ROOM_PCT = 0.2  # of the room for unpinned messages, so that the summary and the recent window keep theirs
_READ_CHARS = 8_000

Vector = dict[str, float]


def keep_related(part: Partition, messages: Sequence[Message], counts: Sequence[int], room_tokens: int) -> Partition:
    """Move the units nearest to the recent ones from the remainder to what is kept, within their share of the room."""
    if not part.remainder or not part.recent:
        return part
    texts = [_text(unit, messages) for unit in (*part.remainder, *part.recent)]
    vectors = vectorize(texts)
    old, new = vectors[: len(part.remainder)], vectors[len(part.remainder) :]
    focus = _sum(new)
    clusters = cluster(old)
    ranked = sorted(clusters, key=lambda members: (-cosine(_sum(old[place] for place in members), focus), members[0]))
    left = int(room_tokens * _ROOM_PCT)
    kept: set[int] = set()
    for members in ranked:
        if cosine(_sum(old[place] for place in members), focus) < _RELATED:
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
    vectors = []
    for count in counts:
        vector = {
            word: (1 + math.log(times)) * math.log(1 + len(texts) / documents[word]) for word, times in count.items()
        }
        length = math.sqrt(sum(weight * weight for weight in vector.values())) or 1.0
        vectors.append({word: weight / length for word, weight in vector.items()})
    return vectors


def cosine(left: Vector, right: Vector) -> float:
    if len(left) > len(right):
        left, right = right, left
    product = sum(weight * right[word] for word, weight in left.items() if word in right)
    lengths = math.sqrt(sum(w * w for w in left.values())) * math.sqrt(sum(w * w for w in right.values()))
    return product / lengths if lengths else 0.0


def cluster(vectors: Sequence[Vector]) -> list[list[int]]:
    """Greedy clusters: a unit joins the first cluster whose founder it resembles."""
    clusters: list[list[int]] = []
    for place, vector in enumerate(vectors):
        for members in clusters:
            if cosine(vectors[members[0]], vector) >= _SIMILAR:
                members.append(place)
                break
        else:
            clusters.append([place])
    return clusters


def _sum(vectors: Iterable[Vector]) -> Vector:
    total: Vector = {}
    for vector in vectors:
        for word, weight in vector.items():
            total[word] = total.get(word, 0.0) + weight
    return total


def _text(unit: Unit, messages: Sequence[Message]) -> str:
    parts = []
    for index in unit.indices:
        parts.append(messages[index].text[:_READ_CHARS])
        parts.extend(f"{call.name} {call.arguments}" for call in messages[index].tool_calls)
    return " ".join(parts)
