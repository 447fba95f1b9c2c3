"""Write a software bill of materials of each distribution to build/sbom, in the CycloneDX format.

The components are the dependencies of the distribution and what they need, with the versions of the lock file. Those of
extras are optional. `make dist` runs this. The same lock file and Python version give the same bytes.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
OWN = {"ariadne-server": ROOT, "compact-client": ROOT / "compact_client"}
_NAMESPACE = uuid.UUID("6f6d3c2e-6a52-5e0f-9a5b-0c5a4f2f7d11")
_LOCKED = re.compile(r"(?m)^([\w.-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")


@dataclass(slots=True)
class Component:
    """A package with the packages that it needs. `is_required` is False if only extras need it."""

    name: str
    version: str
    license: str
    needs: list[str]
    is_required: bool = False

    @property
    def ref(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def main() -> None:
    folder = ROOT / "build/sbom"
    folder.mkdir(parents=True, exist_ok=True)
    for name in OWN:
        target = folder / f"{name}.cdx.json"
        target.write_text(json.dumps(bill_of_materials(name), indent=2) + "\n")


def bill_of_materials(name: str) -> dict[str, Any]:
    """Return the document of a distribution."""
    project = _project(name)
    components = find_components(name)
    root = Component(name, project["version"], project["license"], _names(project["dependencies"]), is_required=True)
    root.needs = [need for need in root.needs if need in components]
    listed = [components[key] for key in sorted(components)]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**_entry(root), "type": "application"}},
        "components": [_entry(component) for component in listed],
        "dependencies": [
            {"ref": component.ref, "dependsOn": sorted(components[need].ref for need in component.needs)}
            for component in (root, *listed)
        ],
    }
    return {**document, "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, json.dumps(document))}"}


def find_components(name: str) -> dict[str, Component]:
    """Return everything that a distribution and its extras need, by name."""
    project, components = _project(name), dict[str, Component]()
    versions = locked_versions()
    _add(components, versions, project["dependencies"], is_required=True)
    for requirements in project.get("optional-dependencies", {}).values():
        _add(components, versions, requirements, is_required=False)
    components.pop(name, None)
    return components


def locked_versions() -> dict[str, str]:
    """Return the version of each locked package, by name, and of our own packages."""
    text = (ROOT / "requirements/dev.txt").read_text() + (ROOT / "requirements/runtime.txt").read_text()
    versions = {str(canonicalize_name(name)): version for name, version in _LOCKED.findall(text)}
    return versions | {name: _project(name)["version"] for name in OWN}


def _add(
    components: dict[str, Component], versions: dict[str, str], requirements: Iterable[str], *, is_required: bool
) -> None:
    """Add packages and what they need. A package that is already there may become required."""
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = str(canonicalize_name(requirement.name)), frozenset(requirement.extras)
        if (name, extras) in seen or name not in versions or not _applies(requirement, ""):
            continue
        seen.add((name, extras))
        package = _find_distribution(name)
        needs = [need for need in _needs(package, extras) if canonicalize_name(need.name) in versions]
        component = components.get(name) or Component(name, versions[name], _license(package), [])
        component.needs = sorted({*component.needs, *(str(canonicalize_name(need.name)) for need in needs)})
        component.is_required = component.is_required or is_required
        components[name] = component
        waiting += needs


def _needs(package: Distribution | None, extras: Iterable[str]) -> list[Requirement]:
    """Return what a package and its extras need on this machine, without the markers that say so."""
    requirements = map(Requirement, (package.requires if package else None) or ())
    needs = [need for need in requirements if any(_applies(need, extra) for extra in ("", *extras))]
    for need in needs:
        need.marker = None
    return needs


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _find_distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _license(package: Distribution | None) -> str:
    """Return the license as the package declares it: an expression, else its classifiers."""
    if package is None:
        return ""
    if expression := package.metadata.get("License-Expression"):
        return str(expression)
    names = [
        text.rsplit("::", 1)[-1].strip()
        for text in package.metadata.get_all("Classifier") or ()
        if text.startswith("License ::")
    ]
    return " / ".join(names)


def _names(requirements: Iterable[str]) -> list[str]:
    return [str(canonicalize_name(Requirement(text).name)) for text in requirements]


def _entry(component: Component) -> dict[str, Any]:
    entry = {
        "type": "library",
        "bom-ref": component.ref,
        "name": component.name,
        "version": component.version,
        "scope": "required" if component.is_required else "optional",
        "purl": component.ref,
    }
    return {**entry, "licenses": [{"license": {"name": component.license}}]} if component.license else entry


def _project(name: str) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((OWN[name] / "pyproject.toml").read_text())["project"]
    return project


if __name__ == "__main__":
    main()
