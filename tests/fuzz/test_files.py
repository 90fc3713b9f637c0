"""Files of models and policies, damaged and crafted: refused with a sentence, or read."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning import CrossLearner
from crosslearning._base.files import document, read_tensors, write_tensors
from crosslearning.learner.policy import Policy
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION
from tests.fuzz.examples import cases, changed, damaged, safely, set_trap


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a model, a policy and a trap, which is where modules are found."""
    folder = tmp_path_factory.mktemp("fuzz")
    learner = CrossLearner("linear-quadratic", max_knots=6, batch_size=2).learn(3, progress=False)
    learner.save(folder / "model.safetensors")
    learner.central.save(folder / "policy.json")
    set_trap(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.chdir(folder)
        yield folder


@cases(share=0.4, few=60)
@given(data=st.data())
def test_a_damaged_model_is_refused_or_read(place, data):
    content = (place / "model.safetensors").read_bytes()
    path = place / "damaged.safetensors"
    path.write_bytes(data.draw(damaged(content)))
    with safely(path):
        CrossLearner.load(path)


ARRAYS = [
    lambda array: array[:-1],
    lambda array: array[None],
    lambda array: array.astype(np.float32),
    lambda array: array.astype(np.int64),
    lambda array: array.astype(np.bool_),
    lambda array: np.full_like(array, np.nan),
    lambda array: np.full_like(array, 1e308),
    lambda array: np.zeros((0, 3)),
    lambda array: np.asfortranarray(array).T.copy(),
]


@cases(share=0.15, few=30)
@given(data=st.data())
def test_a_crafted_model_with_a_right_checksum_is_refused_or_read(place, data):
    arrays, description = read_tensors(place / "model.safetensors", FILE_KIND, FILE_VERSION)
    del description["kind"]
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(arrays)))
        arrays[name] = data.draw(st.sampled_from(ARRAYS))(arrays[name])
    else:
        description = data.draw(changed(description))
    version = description.pop("version", FILE_VERSION)
    path = place / "crafted.safetensors"
    try:
        write_tensors(path, FILE_KIND, version, arrays, description)
    except (TypeError, ValueError):
        return  # what JSON cannot hold
    with safely(path):
        CrossLearner.load(path)


@cases(share=0.15, few=60)
@given(data=st.data())
def test_a_changed_policy_is_refused_or_acts(place, data):
    content = json.loads((place / "policy.json").read_bytes())
    crafted = data.draw(changed(content))
    if data.draw(st.booleans()):
        kind, version = crafted.pop("kind", "policy"), crafted.pop("version", 1)
        crafted.pop("sha256", None)
        try:
            crafted = document(kind, version, crafted)
        except (TypeError, ValueError):
            return
    path = place / "crafted.json"
    path.write_text(json.dumps(crafted), encoding="utf-8", errors="replace")
    with safely(path):
        policy = Policy.load(path)
        assert np.all(np.isfinite(policy.predict(np.zeros(policy.observations.size))[0]))


@cases(share=0.05, few=30)
@given(data=st.data())
def test_a_damaged_policy_is_refused_or_read(place, data):
    path = place / "damaged.json"
    path.write_bytes(data.draw(damaged((place / "policy.json").read_bytes())))
    with safely(path):
        Policy.load(path)
