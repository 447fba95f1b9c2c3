"""Renderers: three prompt layouts for a plan.

Pure: the same messages and plan render to the same bytes. Messages that the plan does not name are included unchanged.
"""

from __future__ import annotations

from compact.rendering.base import Renderer
from compact.rendering.bridge import BridgeRenderer
from compact.rendering.inplace import InplaceRenderer
from compact.rendering.layered import LayeredRenderer

__all__ = ["BridgeRenderer", "InplaceRenderer", "LayeredRenderer", "Renderer", "get_renderer"]

_RENDERERS: tuple[Renderer, ...] = (LayeredRenderer(), InplaceRenderer(), BridgeRenderer())
_BY_NAME = {renderer.name: renderer for renderer in _RENDERERS}


def get_renderer(name: str) -> Renderer:
    """Return the renderer with this name, one of `RendererName`."""
    return _BY_NAME[name]
