"""Start pi behind the gateway. It has no switch for addresses, but extensions, one of which sets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from compact.agents.launch import Address, Environment, Launch

_EXTENSION = Path(__file__).with_name("gateway_extension.mjs")


def _more_variables(address: Address, environment: Environment) -> Mapping[str, str]:
    return {
        "ARIADNE_PI_ANTHROPIC": address("anthropic"),
        "ARIADNE_PI_OPENAI": address("openai") + "/v1",
        "ARIADNE_PI_GOOGLE": address("gemini") + "/v1beta",
    }


def _arguments(address: Address, environment: Environment) -> Sequence[str]:
    return "--extension", str(_EXTENSION)


LAUNCH = Launch(name="pi", title="pi", more_variables=_more_variables, arguments=_arguments)
