"""The table of block kinds has every kind that the providers' SDKs can send."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import typing_extensions
from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam
from compact.messages.block_kinds import BLOCK_KINDS, Content
from openai.types.responses.response_input_item_param import ResponseInputItemParam


def type_names(union: Any) -> Iterator[str]:
    """Yield the values of `type` of the members of a union."""
    for member in typing.get_args(union):
        if typing_extensions.is_typeddict(member):
            hint = typing_extensions.get_type_hints(member).get("type")
            yield from (name for name in _literals(hint) if name)


def _literals(hint: Any) -> Iterator[str]:
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    for part in typing.get_args(hint):
        yield from _literals(part)


@pytest.mark.parametrize("union", [BetaContentBlockParam, ResponseInputItemParam])
def test_each_kind_of_the_sdks_has_a_row(union: Any) -> None:
    names = set(type_names(union))
    assert len(names) > 20
    assert names - set(BLOCK_KINDS) == set()


def test_a_call_is_answered_by_a_result() -> None:
    answers = [kind.answered_by for kind in BLOCK_KINDS.values() if kind.answered_by]
    assert {BLOCK_KINDS[name].content for name in answers} == {Content.RESULT}
    assert len(answers) == len(set(answers))
