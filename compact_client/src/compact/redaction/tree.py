"""Walk a tree of JSON values and replace some of its texts.

The walk is iterative, so that the depth of a tree is not limited by the stack. It takes time in proportion to the size
of the tree, also if the tree is deep or has many keys. `plain_texts` is faster, but it does not say where a text is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from compact.messages.redacted_types import RedactedText, RedactedTree
from compact.redaction.known_keys import REDACTION_COUNTS
from compact.redaction.plain_texts import MIN_CARD_NUMBER
from compact.redaction.secret_keys import inherited_rule, key_rule, rule_for_item, rule_for_pair

# Shorter keys are too short for a secret.
_MIN_KEY_CHARS = 6


# Most values are of these types. Hosts also use subclasses, such as OrderedDict.
_SCALARS = frozenset({str, int, float})


class _Frame(NamedTuple):
    """A container in the walk."""

    node: int
    items: Iterator[tuple[Any, Any]]
    inherited: str | None
    """The rule that its items inherit."""
    pair_key: str | None
    """The key of the value that belongs to a secret name in the same dict, and its rule."""
    pair_rule: str | None

    def rule_for(self, key: Any) -> str | None:
        return self.pair_rule if self.pair_rule and key == self.pair_key else self.inherited


Place = tuple[int, Any]
"""A value in a tree: the index of its container, and its key there. The root is in container 0, under the key 0."""


class Tree:
    """The texts of a value in document order, and the changes to the value, which itself is never changed.

    `places` and `texts` are the values to search, `key_places` and `keys` the names in dicts to search. `short_keys`
    are too short for that. `secrets` are the values that are secret because of their key, with the name of the rule.
    `clean_keys` are names without secrets.
    """

    def __init__(self, root: Any, clean_keys: Collection[str] = ()) -> None:
        self.places: list[Place] = []
        self.texts: list[str] = []
        self.key_places: list[Place] = []
        self.keys: list[str] = []
        self.short_keys: list[str] = []
        self.secrets: list[tuple[Place, Any, str]] = []
        self._parents: list[Place] = [(-1, None)]
        self._containers: list[Any] = [[root]]
        self._changes: dict[int, dict[Any, Any]] = {}
        self._names: dict[int, _UniqueNames] = {}
        self._clean_keys = clean_keys
        self._walk(root)

    def replace(self, place: Place, value: Any) -> None:
        """Replace one value of a container."""
        node, key = place
        self._changes.setdefault(node, {})[key] = value

    def rename(self, place: Place, name: str) -> None:
        """Rename one key of a dict. A name that is taken gets a number."""
        node, key = place
        if node not in self._names:
            self._names[node] = _UniqueNames(self._containers[node])
        self._names[node].add(key, name)

    def result(self) -> Any:
        """Return the value with all changes. Unchanged parts are shared with the original."""
        # A container is always after its parent, so its copy is complete before the parent is copied.
        for index in range(len(self._containers) - 1, 0, -1):
            if index in self._changes or index in self._names:
                names = self._names[index].names if index in self._names else {}
                copy = _changed_copy(self._containers[index], self._changes.get(index, {}), names)
                self.replace(self._parents[index], copy)
        return self._changes[0][0] if 0 in self._changes else self._containers[0][0]

    def _walk(self, root: Any) -> None:
        stack: list[_Frame] = [_Frame(0, iter([(0, root)]), None, None, None)]
        while stack:
            child = self._visit(stack[-1])
            if child is None:
                stack.pop()
            else:
                stack.append(child)

    def _visit(self, frame: _Frame) -> _Frame | None:
        """Collect the texts of a container up to its next nested container, and return that one."""
        node, items, inherited, _, pair_rule = frame
        places, texts, clean_keys = self.places, self.texts, self._clean_keys
        is_plain = inherited is None and pair_rule is None
        for key, item in items:
            if isinstance(key, str) and key not in clean_keys:
                self._add_key(node, key)
            kind = type(item)
            # Almost all texts.
            if kind is str and is_plain and key_rule(key) is None:
                places.append((node, key))
                texts.append(item)
                continue
            rule = frame.rule_for(key)
            if kind in _SCALARS or not isinstance(item, (dict, list, tuple)):
                self._add((node, key), item, rule)
            elif kind is RedactedTree:
                continue
            elif _is_redaction_counts(item, key):
                self._add_counts((node, key), item)
            else:
                return self._enter((node, key), item, inherited_rule(key, item, rule))
        return None

    def _add_key(self, node: int, key: str) -> None:
        if len(key) < _MIN_KEY_CHARS:
            self.short_keys.append(key)
        else:
            self.key_places.append((node, key))
            self.keys.append(key)

    def _add(self, place: Place, item: Any, inherited: str | None) -> None:
        if item is None or isinstance(item, bool):
            return
        rule = rule_for_item(place[1], item, inherited)
        if rule is not None:
            self.secrets.append((place, item, rule))
        elif isinstance(item, str):
            if type(item) is not RedactedText:
                self.places.append(place)
                self.texts.append(item)
        elif isinstance(item, int) and item >= MIN_CARD_NUMBER:
            self.places.append(place)
            self.texts.append(str(item))

    def _add_counts(self, place: Place, counts: dict[Any, int]) -> None:
        """Add the names of counts, and the counts that can be numbers of cards."""
        frame = self._enter(place, counts, None)
        for name, count in counts.items():
            if isinstance(name, str) and name not in self._clean_keys:
                self._add_key(frame.node, name)
            if count >= MIN_CARD_NUMBER:
                self.places.append((frame.node, name))
                self.texts.append(str(count))

    def _enter(self, place: Place, container: Any, rule: str | None) -> _Frame:
        self._containers.append(container)
        self._parents.append(place)
        node = len(self._containers) - 1
        if not isinstance(container, dict):
            return _Frame(node, enumerate(container), rule, None, None)
        return _Frame(node, iter(container.items()), rule, *rule_for_pair(container))


class _UniqueNames:
    """New names for keys of one dict, without collisions."""

    def __init__(self, container: Mapping[Any, Any]) -> None:
        self.names: dict[Any, str] = {}
        self._taken: set[Any] = set(container)
        self._last: dict[str, int] = {}

    def add(self, key: Any, name: str) -> None:
        unique = name
        while unique in self._taken:
            number = self._last[name] = self._last.get(name, 1) + 1
            unique = f"{name[:-1]}:{number}>" if name.endswith(">") else f"{name}:{number}"
        self._taken.add(unique)
        self.names[key] = unique


def _changed_copy(value: Any, changes: Mapping[Any, Any], names: Mapping[Any, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): changes.get(key, item) for key, item in value.items()}
    items = [changes.get(index, item) for index, item in enumerate(value)]
    return items if isinstance(value, list) else tuple(items)


def _is_redaction_counts(item: object, key: object) -> TypeGuard[dict[Any, int]]:
    """True for the counts per rule in an event: `{"redactions": {"password": 2}}`. Their keys are not secret keys."""
    return key == REDACTION_COUNTS and isinstance(item, dict) and all(type(count) is int for count in item.values())
