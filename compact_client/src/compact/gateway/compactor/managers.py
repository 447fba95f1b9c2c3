"""The managers of a compactor: one for each model, all with the settings of `compact.yaml` and the environment."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compact.adapters import AriadneStorage
from compact.config import CompactConfig
from compact.config.factory import build
from compact.config.sources import resolve
from compact.delivery.endpoint import configured_url
from compact.exporters import AriadneExporter
from compact.manager import CompactManager

_MAX_MODELS = 16


class Managers:
    """Managers by model. They share exporter and storage."""

    def __init__(self, cfg: CompactConfig, agents: Sequence[str] = ()) -> None:
        self.agents = frozenset(agents)
        """The agents of the settings."""
        self._cfg = cfg
        self._managers: OrderedDict[str, CompactManager] = OrderedDict()

    @classmethod
    def of_settings(cls) -> Managers:
        """Return the managers of the file and the environment. Without an exporter there, events go to Ariadne."""
        settings = resolve().settings
        objects: dict[str, Any] = {}
        if configured_url() and settings.telemetry.exporter == ("none",):
            objects["exporter"] = AriadneExporter()
        cfg = build(settings, objects)
        if configured_url() and settings.storage.adapter == "none":
            # A server that is down must not keep an agent from its compaction.
            cfg = replace(cfg, storage=AriadneStorage(), archive_required=False)
        return cls(cfg, settings.gateway.compact)

    def get(self, model: str) -> CompactManager:
        """Return the manager of a model. The one that was used longest ago is forgotten first, with its sessions."""
        name = model or self._cfg.model
        manager = self._managers.get(name)
        if manager is None:
            manager = self._managers[name] = CompactManager(replace(self._cfg, model=name))
            if len(self._managers) > _MAX_MODELS:
                self._managers.popitem(last=False)
        self._managers.move_to_end(name)
        return manager

    def warm_up(self) -> None:
        """Load what the first request and the first compaction need."""
        self.get("").warm_up()

    def close(self, timeout_s: float) -> None:
        """Send what waits."""
        for target in (self._cfg.storage, self._cfg.exporter):
            if hasattr(target, "close"):
                target.close(timeout_s)
