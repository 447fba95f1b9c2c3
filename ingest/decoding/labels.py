"""Labels of a session: the environment, the users, the tags and the services that traces name.

Pure. Labels come from the metadata of traces, which for OpenTelemetry are the attributes of the resource and the label
attributes of its spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LABEL_KEYS: Mapping[str, tuple[str, ...]] = {
    "environment": ("deployment.environment.name", "deployment.environment", "langfuse.environment", "environment"),
    "user": ("user.id", "enduser.id", "langfuse.user.id", "user_id", "user"),
    "tag": ("tags", "tag.tags", "langfuse.trace.tags"),
    "service": ("service.name", "service.version"),
}
"""The keys of metadata that carry each kind of label."""
_KEYS = frozenset(key for keys in LABEL_KEYS.values() for key in keys)
# Longer values describe something and are no labels. They stay in the metadata of the trace.
MAX_CHARS = 200
MAX_LABELS = 50
"""The number of labels that one trace gives its session. Further ones stay in its metadata."""
Label = tuple[str, str]
"""A key of the metadata and one of its values."""


def labels_of(metadata: Mapping[str, Any]) -> list[Label]:
    """Return the labels in the metadata of a trace. A list of texts has one label for each."""
    labels = []
    for key in _KEYS & metadata.keys():
        value = metadata[key]
        for item in value if isinstance(value, list) else (value,):
            text = str(item) if type(item) in {str, int} else ""
            if text.strip() and len(text) <= MAX_CHARS:
                labels.append((key, text))
    return sorted(set(labels))[:MAX_LABELS]


def label_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span that label its trace."""
    if _KEYS.isdisjoint(attributes):
        return {}
    return {key: attributes[key] for key in _KEYS & attributes.keys()}
