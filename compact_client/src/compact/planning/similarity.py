"""Keep older units that are about the same subject as the newest ones.

Texts become vectors of words weighted by rarity, and cosine similarity groups them into clusters. The clusters closest
to the recent units stay. There is no model and no vector database, so the result is deterministic.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from compact.messages import Message
from compact.messages.units import Unit
from compact.planning.partition import Partition

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,40}")
# Minimum similarity of two units in a cluster. Edits of one file group together, edits of different files do not.
_CLUSTER_SIMILARITY = 0.35
# Minimum similarity of a kept cluster to the recent units.
_RELATED_SIMILARITY = 0.12
# Share of the available tokens for related units. The rest belongs to the summary and the recent units.
_RELATED_PCT = 0.2
_MAX_CHARS = 8_000
# A unit is compared only with the latest clusters, which keeps the running time linear.
_LATEST_CLUSTERS = 64

Vector = dict[str, float]


def keep_related(
    partition: Partition, messages: Sequence[Message], sizes: Mapping[int, int], available_tokens: int
) -> Partition:
    """Keep the clusters of the remainder that are closest to the recent units, within their share of the tokens."""
    if not partition.remainder or not partition.recent:
        return partition
    texts = [_text(unit, messages) for unit in (*partition.remainder, *partition.recent)]
    vectors = vectorize(texts)
    older, recent = vectors[: len(partition.remainder)], vectors[len(partition.remainder) :]
    focus = _mean(recent)
    clusters = [(cosine(_mean([older[place] for place in members]), focus), members) for members in cluster(older)]
    left = int(available_tokens * _RELATED_PCT)
    related: list[Unit] = []
    for similarity, members in sorted(clusters, key=lambda item: (-item[0], item[1][0])):
        if similarity < _RELATED_SIMILARITY:
            break
        units = [partition.remainder[place] for place in members]
        tokens = sum(sizes[unit.first] for unit in units)
        if tokens <= left:
            related.extend(units)
            left -= tokens
    return partition.keep(related, "semantic cluster near the current work")


def vectorize(texts: Sequence[str]) -> list[Vector]:
    """Return unit vectors of term frequency times inverse document frequency."""
    counts = [Counter(word.lower() for word in _WORD.findall(text)) for text in texts]
    documents = Counter(word for count in counts for word in count)
    return [
        _normalize(
            {word: (1 + math.log(times)) * math.log(1 + len(texts) / documents[word]) for word, times in count.items()}
        )
        for count in counts
    ]


def cosine(left: Vector, right: Vector) -> float:
    """Return the cosine similarity of two unit vectors."""
    if len(left) > len(right):
        left, right = right, left
    return sum([weight * right[word] for word, weight in left.items() if word in right])


def cluster(vectors: Sequence[Vector]) -> list[list[int]]:
    """Group vectors greedily: each joins the first of the latest clusters whose first member is similar to it."""
    clusters: list[list[int]] = []
    for place, vector in enumerate(vectors):
        for members in clusters[-_LATEST_CLUSTERS:]:
            if cosine(vectors[members[0]], vector) >= _CLUSTER_SIMILARITY:
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
    return _normalize(total)


def _normalize(vector: Vector) -> Vector:
    length = math.sqrt(sum(weight * weight for weight in vector.values())) or 1.0
    return {word: weight / length for word, weight in vector.items()}


def _text(unit: Unit, messages: Sequence[Message]) -> str:
    parts = []
    for index in unit.indices:
        parts.append(messages[index].text[:_MAX_CHARS])
        parts.extend(f"{call.name} {call.arguments}" for call in messages[index].tool_calls)
    return " ".join(parts)
