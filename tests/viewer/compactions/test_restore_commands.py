"""The commands on the page of a compaction can be pasted into a shell."""

from __future__ import annotations

import shlex

import pytest
from compact.cli.parser import build_parser

from viewer.compactions.restore_commands import restore_commands


@pytest.mark.parametrize(
    "session", ["checkout-7", "a b", "$(touch x)", "it's; rm -rf .", "--url=http://127.0.0.1:1", "-"]
)
def test_a_session_id_stays_one_argument(session: str) -> None:
    """An id is neither shell code nor an option."""
    for _, command in restore_commands(session)[:2]:
        program, *arguments = shlex.split(command)
        options = build_parser().parse_args(arguments)
        assert (program, options.session, options.server) == ("compactctl", session, True)


def test_every_command_exists() -> None:
    for _, command in restore_commands("s1"):
        build_parser().parse_args(shlex.split(command)[1:])
