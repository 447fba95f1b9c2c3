"""The settings of a gateway process, and their way from `compactctl` to it."""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from compact.gateway.upstreams import Upstream, parse_upstreams

DEFAULT_PORT = 4319
VARIABLE = "ARIADNE_GATEWAY_SETTINGS"
RECORDER = (sys.executable, "-m", "compact.gateway.recorder")
COMPACTOR = (sys.executable, "-m", "compact.gateway.compactor")
CompactScope = Literal["all", "listed", "runs"]
DEFAULT_DEADLINE_S = 10.0
_BUFFER_BYTES = 10 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Everything that a gateway process needs, except the server and its key: the recorder has its environment."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Upstreams by name that replace providers or are added."""
    token: str = ""
    is_http_only: bool = False
    """True to answer the request for a websocket with 426."""
    recorder: tuple[str, ...] = RECORDER
    """The command of the recorder. Empty for a gateway that only forwards."""
    compactor: tuple[str, ...] = ()
    """The command of the compactor. Empty for a gateway that compacts nothing."""
    compact_scope: CompactScope = "runs"
    """The requests that may be compacted: of all agents, of those that the compactor's settings list, or of those that
    `compactctl run --compact` has started."""
    compact_profile: str = ""
    """A digest of the compactor's settings, so that a run joins only a gateway that compacts as it would itself."""
    deadline_s: float = DEFAULT_DEADLINE_S
    """The time that a request waits for the compactor."""
    is_leased: bool = False
    """True to stop after the last `compactctl run` has ended."""
    buffer_bytes: int = _BUFFER_BYTES
    """The limit of the copies that wait for the recorder."""
    listener: int = -1
    """The descriptor of a listening socket, from the process before an upgrade."""
    ready: int = -1
    """The descriptor of a pipe to write to when the gateway accepts connections."""
    version: str = ""
    """The version of the distribution. Reading it costs memory that the relay does not spend."""
    upstreams: Mapping[str, Upstream] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "upstreams", parse_upstreams(self.addresses))

    @property
    def is_loopback(self) -> bool:
        """Return True if only this machine can connect."""
        return is_loopback(self.host)

    def write(self, environment: MutableMapping[str, str]) -> None:
        """Put the settings into the environment of a process. Its arguments would be visible to other users."""
        values = asdict(self)
        del values["upstreams"]
        environment[VARIABLE] = json.dumps(values)


def read_settings(environment: MutableMapping[str, str] = os.environ) -> GatewaySettings:
    """Return the settings of this process, and keep them from its children."""
    return GatewaySettings(**json.loads(environment.pop(VARIABLE, "{}")))


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and the addresses of the loopback interface."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
