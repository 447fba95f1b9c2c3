"""The bills of materials of both distributions list what is installed with them."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
from docs.pages import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import sbom


@pytest.mark.parametrize("name", sbom.OWN)
def test_every_dependency_is_listed_with_its_locked_version(name: str) -> None:
    """Its own dependencies are required, those of extras are optional, and every reference is defined."""
    document = sbom.bill_of_materials(name)
    listed = {component["name"]: component for component in document["components"]}
    project = tomllib.loads((sbom.OWN[name] / "pyproject.toml").read_text())["project"]
    required = {str(canonicalize_name(Requirement(text).name)) for text in project["dependencies"]}
    assert required and {name for name in required if listed[name]["scope"] != "required"} == set()
    assert any(component["scope"] == "optional" for component in listed.values())
    versions = sbom.locked_versions()
    assert {name: component["version"] for name, component in listed.items()} == {n: versions[n] for n in listed}
    refs = {component["bom-ref"] for component in (document["metadata"]["component"], *listed.values())}
    assert {ref for entry in document["dependencies"] for ref in (entry["ref"], *entry["dependsOn"])} == refs


def test_the_bill_of_the_server_covers_its_lock_file() -> None:
    """A package that `make up` installs is listed, unless it is for another platform."""
    lines = (ROOT / "requirements/runtime.txt").read_text().splitlines()
    locked = [Requirement(line.rstrip("\\ ")) for line in lines if re.match(r"[\w.-]+(\[.*\])?==", line)]
    here = {str(canonicalize_name(entry.name)) for entry in locked if entry.marker is None or entry.marker.evaluate()}
    build = {"editables", "hatchling", "pathspec", "pluggy", "tomlkit", "trove-classifiers", "packaging"}
    assert (
        here - build - {component["name"] for component in sbom.bill_of_materials("ariadne-server")["components"]}
        == set()
    )


def test_the_workflow_audits_every_lock_file() -> None:
    """A lock file that is added later cannot be forgotten."""
    workflow = (ROOT / ".github/workflows/nightly.yml").read_text()
    audited = set(re.findall(r"requirements/\w+\.txt", workflow))
    tracked = subprocess.run(["git", "ls-files", "requirements"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "pip-audit" in workflow and audited == set(tracked.stdout.split())
