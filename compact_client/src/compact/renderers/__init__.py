"""Three shapes of one plan.

Pure: the same messages and plan render to the same bytes. What the plan does not name is included where it stands.
"""

from __future__ import annotations

from compact.renderers.base import Renderer
from compact.renderers.bridge import BridgeRenderer
from compact.renderers.inplace import InplaceRenderer
from compact.renderers.layered import LayeredRenderer

__all__ = ["BridgeRenderer", "InplaceRenderer", "LayeredRenderer", "Renderer", "renderer_named"]

_BY_NAME: dict[str, Renderer] = {
    "layered": LayeredRenderer(),
    "inplace": InplaceRenderer(),
    "bridge": BridgeRenderer(),
}


def renderer_named(name: str) -> Renderer:
    return _BY_NAME[name]
