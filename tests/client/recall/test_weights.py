"""The weights of the ranking belong to features that exist, and say where they come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compact.recall import PassageIndex, Source, relevance
from compact.recall.relevance import Prompt, features


@pytest.mark.parametrize("kind", ["question", "text"])
def test_each_weight_belongs_to_a_feature_and_has_a_held_out_score(kind):
    index = PassageIndex()
    index.add([Source("m1", "user", "The proxy listens on port 4319.")])
    ((_, values),) = features(index.candidates("proxy port"), Prompt())
    profile = json.loads(Path(relevance.__file__).with_name("weights.json").read_text())["profiles"][kind]
    assert profile["weights"].keys() <= values.keys()
    assert profile["data"] and profile["held_out"]
