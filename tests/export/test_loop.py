"""Whole controllers in C and JSON do what they do in Python, step by step."""

import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning import CrossLearner, Policy, task_set
from crosslearning._base.files import read_document
from crosslearning.errors import FileFormatError, InputError, NumericalError
from crosslearning.export import episodes, export_policy, open_policy
from crosslearning.export.c_compiler import FLAGS, compile_and_run, find_compiler
from crosslearning.export.c_loop import c_loop_files
from crosslearning.export.episodes import (
    arguments_of,
    random_episodes,
    run_episodes,
    without_code,
)
from crosslearning.export.program import TYPES
from crosslearning.export.signals import machine_signals
from crosslearning.export.sources import renamed
from crosslearning.export.states import sensible_ends
from crosslearning.learner.deployment import LearnedController
from crosslearning.rkhs import Gaussian
from crosslearning.tasks.controllers import PID, Constant, as_controller, read_controller
from crosslearning.tasks.loop import CorrectedController, Loop
from tests.export.examples import (
    CONTROLLERS,
    SETPOINTS,
    Remembering,
    compare,
    controller_of,
    policy_of,
)
from tests.export.test_export import schema

COMPILER = find_compiler()
#: Some controllers here are meant to ask for what is beyond the bounds.
pytestmark = pytest.mark.filterwarnings("ignore:the controller asks for the action")
with_compiler = pytest.mark.skipif(COMPILER is None, reason="this machine has no C compiler")
CLEAN = (*FLAGS, "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
EVERYTHING = {"lags": 2, "past_actions": 3, "setpoints": SETPOINTS, "rates": {"push": 0.1}}
#: Loops around every controller, and every part of a loop around one.
LOOPS = {f"around-{name}": (name, {}) for name in CONTROLLERS if name != "none"}
LOOPS |= {f"all-around-{name}": (name, EVERYTHING) for name in CONTROLLERS}
LOOPS |= {f"{n}-lags": ("none", {"lags": n}) for n in (1, 3)}
LOOPS |= {f"{n}-past-actions": ("feedback", {"past_actions": n}) for n in (1, 2)}
LOOPS |= {
    "setpoint": ("none", {"setpoints": {"x": 0.3}}),
    "setpoint-observed": ("pid", {"setpoints": {"y": "x"}}),
    "rates": ("constant", {"rates": {"push": 0.05, "turn": 0.2}}),
    "circle": ("pid", {"lags": 2, "circles": [(0, 1)]}),
    "circle-of-others": ("code-with-memory", {"lags": 3, "circles": [(2, 0)]}),
    "circle-and-all": ("pid-of-two", {**EVERYTHING, "circles": [(1, 0)]}),
}


@pytest.fixture
def few_episodes(monkeypatch):
    """Let exports check themselves on a tenth of their episodes."""
    monkeypatch.setattr(episodes, "EPISODES", 20)


def run_c(controller, rows, precision="double", arithmetic=None, flags=(*FLAGS, "-O0")):
    files = c_loop_files(controller, "policy", precision, arithmetic or precision)
    return compile_and_run(COMPILER, files, rows, flags, arguments_of(controller)).actions


def agreement(controller, precision, arithmetic=None, episodes=12, flags=(*FLAGS, "-O0")):
    def act(rows):
        return run_c(controller, rows, precision, arithmetic, flags)

    return compare(controller, act, precision, episodes=episodes)


@with_compiler
@pytest.mark.parametrize(("name", "options"), LOOPS.values(), ids=LOOPS)
def test_c_is_python(name, options):
    controller = controller_of(CONTROLLERS[name], **options)
    assert agreement(controller, "double", flags=CLEAN, episodes=6).share <= 1e-12
    assert agreement(controller, "float", episodes=6).share <= 1e-5


@with_compiler
@settings(max_examples=6, deadline=None)
@given(
    name=st.sampled_from(sorted(CONTROLLERS)),
    lags=st.integers(0, 3),
    past=st.integers(0, 3),
    aims=st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([0.1, "phase"])),
    rates=st.dictionaries(st.sampled_from(["push", "turn"]), st.floats(0.01, 1.0)),
    circles=st.sampled_from([[], [(0, 1)], [(2, 1)]]),
    single=st.booleans(),
)
def test_c_is_python_in_any_loop(name, lags, past, aims, rates, circles, single):
    options = {"lags": lags, "past_actions": past, "setpoints": aims, "rates": rates}
    options["circles"] = circles
    controller = controller_of(CONTROLLERS[name], **options)
    agreement(controller, "float" if single else "double", episodes=5)


@with_compiler
def test_floats_computed_in_doubles_and_actions_that_the_machine_rounds():
    controller = controller_of(CONTROLLERS["pid-of-two"], dtype=np.float64, **EVERYTHING)
    assert agreement(controller, "float", "double").share <= 1e-7


@with_compiler
@pytest.mark.parametrize("precision", ["double", "float"])
def test_a_controller_around_a_learned_one(precision):
    once = controller_of(CONTROLLERS["pid"], **EVERYTHING, circles=[(0, 1)])
    twice = controller_of(once, lags=1, setpoints=SETPOINTS)
    assert twice.is_plain
    agreement(twice, precision, flags=CLEAN)
    # Around what corrects code, all inside is code.
    of_code = controller_of(controller_of(CONTROLLERS["code"], lags=1))
    assert not of_code.is_plain
    agreement(of_code, precision)


@with_compiler
@pytest.mark.usefixtures("few_episodes")
def test_angles_of_cosines_and_sines(tmp_path):
    """Of pendulums the loop finds the circle by itself; exports show its angle turning."""
    task = replace(task_set("pendulums:1")[0], lags=2)
    learner = CrossLearner([task], around=PID(kp=2.0, kd=0.1, measured=1), epsilon=0.3)
    controller = learner.controller(0)
    spec = controller.loop.spec
    assert spec.circles == ((0, 1),)
    assert controller.policy.observations.size == 3 + 2 * 2 + 1
    policy = controller.policy.to_dict()
    generator = np.random.default_rng(0)  # one that does depend on the angle
    policy["knots"] = generator.normal(size=(9, 8)).tolist()
    policy["weights"] = generator.normal(size=(9, 1)).tolist()
    controller = LearnedController(Policy.from_dict(policy), spec)
    rows = random_episodes(controller, sensible_ends(controller.policy), 20, 20)
    np.testing.assert_allclose(rows[:, 1] ** 2 + rows[:, 2] ** 2, 1.0)
    angles = np.arctan2(rows[:, 2], rows[:, 1])
    assert np.sum(np.abs(np.diff(angles))[rows[1:, 0] == 0] > np.pi) > 10
    for target, precision in (("c", "double"), ("c", "float"), ("json", "double")):
        made = export_policy(controller, target, tmp_path / precision, precision)
        assert made.agreement.share <= (1e-5 if precision == "float" else 1e-12)
        schema("contract").validate(json.loads(made.files[-1].read_text()))
    again = open_policy(tmp_path / "double.json").controller
    assert again.loop.spec.circles == ((0, 1),)


def test_the_episodes_of_the_check_are_telling():
    """They limit actions and do not, correct much, wrap angles, and start anew."""
    controller = controller_of(CONTROLLERS["pid"], **EVERYTHING)
    rows = random_episodes(controller, sensible_ends(controller.policy))
    assert len(rows) == 10_000
    assert rows[:, 0].sum() == 200
    low, high = controller.loop.spec.observations.low, controller.loop.spec.observations.high
    assert np.all((low <= rows[:, 1:]) & (rows[:, 1:] <= high))
    actions = run_episodes(controller, rows)
    bare = run_episodes(_without_correction(controller), rows)
    assert np.mean(np.abs(actions - bare) > 0.05) > 0.2
    assert 0.01 < np.mean(actions == controller.loop.spec.high) < 0.5
    jumps = np.abs(np.diff(rows[:, 3]))[rows[1:, 0] == 0]
    assert np.sum(jumps > np.pi) > 100


def _without_correction(controller):
    data = controller.policy.to_dict()
    zero = np.zeros_like(data["weights"]).tolist()
    return LearnedController(Policy.from_dict({**data, "weights": zero}), controller.loop.spec)


@pytest.mark.usefixtures("few_episodes")
@pytest.mark.parametrize("wrong", ["reset", "order", "wind-up"])
def test_a_memory_that_is_wrong_is_noticed(wrong, monkeypatch, tmp_path):
    controller = controller_of(CONTROLLERS["pid"], **EVERYTHING)
    read = LearnedController.from_document

    def spoilt(*arguments):
        again = read(*arguments)
        loop = again.loop
        if wrong == "reset":
            again.reset = lambda: None
        elif wrong == "order":
            observe, spec = loop.observe, loop.spec
            at = slice(3, 3 + 3 * spec.lags)

            def swapped(observation):
                seen = observe(observation)
                seen[at] = seen[at].reshape(spec.lags, 3)[::-1].ravel()
                return seen

            loop.observe = swapped
        else:
            remember = loop._remember

            def forgetting(action):
                loop._clipped = False
                remember(action)

            loop._remember = forgetting
        return again

    monkeypatch.setattr(LearnedController, "from_document", spoilt)
    monkeypatch.setattr("crosslearning.export.episodes.without_code", lambda given: given)
    with pytest.raises(NumericalError, match="does not do what the policy does"):
        export_policy(controller, "json", tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


# Bounds -----------------------------------------------------------------------------------


def test_no_action_departs_farther_than_the_bound_in_a_million_states():
    controller = controller_of(Constant([0.1, -0.2]), bound=0.3, lags=1)
    policy, spec = controller.policy, controller.loop.spec
    most = controller.change
    np.testing.assert_allclose(most, 0.3 * 0.5 * (spec.high - spec.low))
    generator, largest = np.random.default_rng(0), np.zeros(2)
    asked = np.array([0.1, -0.2])
    for _ in range(20):
        states = generator.uniform(-2.0, 2.0, (50_000, policy.observations.size))
        states[::2] = policy.plain.knots[generator.integers(15, size=25_000)]
        states[::2] += 0.3 * generator.standard_normal((25_000, policy.observations.size))
        corrections = policy.predict(states)[0]
        actions = np.clip(asked + corrections, spec.low, spec.high)
        largest = np.maximum(largest, np.abs(actions - asked).max(axis=0))
    assert np.all(largest <= most)
    assert np.all(largest > 0.2 * most)  # it is no idle bound


@with_compiler
@pytest.mark.parametrize("precision", ["double", "float"])
def test_c_keeps_bounds_limits_and_rates(precision):
    controller = controller_of(
        CONTROLLERS["code"], bound=0.2, rates={"push": 0.1}, dtype=np.float64
    )
    ends = sensible_ends(controller.policy)
    rows = random_episodes(controller, ends, 400, 50).astype(TYPES[precision])
    actions, spec = run_c(controller, rows, precision).astype(np.float64), controller.loop.spec
    assert np.all((spec.low <= actions) & (actions <= spec.high))
    within = rows[1:, 0] == 0
    assert np.all(np.abs(np.diff(actions[:, 0]))[within] <= 0.1)
    assert np.max(np.abs(np.diff(actions[:, 0]))[within]) > 0.0999
    asked = np.clip(rows[:, 4:], spec.low, spec.high)
    slack = 2e-7 if precision == "float" else 0.0
    assert np.all(np.abs(actions[:, 1] - asked[:, 1]) <= controller.change[1] + slack)


def test_the_learner_knows_its_bound(tmp_path):
    learner = CrossLearner("pendulums:2", around=PID(kp=2.0, measured=1), epsilon=0.2)
    controller = learner.learn(2, progress=False).controller(0)
    np.testing.assert_allclose(controller.change, [0.4])
    for policy in (learner.central, learner.average, learner.policy(1)):
        assert (policy.bound, policy.corrects) == (0.2, True)
        assert np.sqrt(np.sum(policy.function.norms() ** 2)) <= 0.2 * (1 + 1e-9)
        policy.save(tmp_path / "policy.json")
        again = Policy.load(tmp_path / "policy.json")
        assert (again.bound, again.corrects) == (0.2, True)
        schema("policy").validate(json.loads((tmp_path / "policy.json").read_text()))
    assert "bound" not in CrossLearner("pendulums:2", epsilon=0.2).central.to_dict()


# C ----------------------------------------------------------------------------------------

CALLS = """\
#include "policy.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    policy_state state, before;
    policy_real s[POLICY_OBSERVATIONS] = {0.1, 0.2, 0.3}, a[POLICY_ACTIONS] = {7.0, 8.0};
    int i;

    memset(&state, 0, sizeof state);
    policy_reset(&state);
    for (i = 0; i < 3; i++) {
        policy_act(&state, s, a);
        s[0] += 0.1;
    }
    printf("%.17g %.17g\\n", a[0], a[1]);
    before = state;
    a[0] = 7.0;
    s[1] = NAN;
    printf("%d ", policy_act(&state, s, a));
    s[1] = -INFINITY;
    printf("%d ", policy_act(&state, s, a));
    printf("%g %d\\n", a[0], memcmp(&before, &state, sizeof state));
    s[1] = 0.2;
    policy_act(&state, s, a);
    printf("%.17g %.17g\\n", a[0], a[1]);
    policy_reset(&state);
    policy_act(&state, s, a);
    printf("%.17g %.17g\\n", a[0], a[1]);
    return 0;
}
"""


@with_compiler
@pytest.mark.parametrize("language", [["-std=c99"], ["-x", "c++", "-std=c++17"]])
def test_resets_and_what_is_no_number(tmp_path, language):
    if "c++" in language and shutil.which("g++") is None:
        language = ["-std=c11"]
    controller = controller_of(CONTROLLERS["pid-of-two"], **EVERYTHING)
    files = c_loop_files(controller, "policy", "double", "double")
    for name, text in {**files, "main.c": CALLS}.items():
        (tmp_path / name).write_text(text)
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    for unit, standard in (("policy.c", ["-std=c99"]), ("main.c", language)):
        command = [COMPILER, *strict, *standard, "-c", unit, "-o", f"{unit}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
    link = [COMPILER, "policy.c.o", "main.c.o", "-lm", "-o", "program"]
    subprocess.run(link, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    third, refused, fourth, anew = said.stdout.splitlines()
    assert refused == "1 1 7 0"  # neither the action nor the state has changed
    expected, s = [], np.array([0.1, 0.2, 0.3])
    for _ in range(4):
        controller.act(s)
        expected.append(controller.loop.action)
        s[0] += 0.1
    controller.reset()
    s[0] -= 0.1
    controller.act(s)
    for line, wanted in (
        (third, expected[2]),
        (fourth, expected[3]),
        (anew, controller.loop.action),
    ):
        np.testing.assert_allclose([float(word) for word in line.split()], wanted, rtol=1e-12)


def test_the_header_says_what_is_inside():
    controller = controller_of(CONTROLLERS["code-with-memory"], bound=0.2, **EVERYTHING)
    header = c_loop_files(controller, "policy", "double", "double")["policy.h"]
    assert "[0] x [m], from -1 to 1" in header
    assert "differs from the controller's by at most, before the limits of rates:" in header
    assert "[0] +-0.25 N" in header
    assert "Action [0] changes by at most 0.1 from call to call." in header
    assert "const policy_real controller_action[POLICY_ACTIONS]" in header
    assert "controller_memory what it remembered before" in header
    assert "#define POLICY_MEMORY 2" in header
    plain = controller_of(None, lags=1)
    header = c_loop_files(plain, "policy", "double", "double")["policy.h"]
    assert "It corrects no controller." in header
    assert "controller_action" not in header


# JSON, contracts and sources --------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), LOOPS.values(), ids=LOOPS)
def test_json_holds_all_but_code(name, options, tmp_path):
    controller = controller_of(CONTROLLERS[name], **options)
    path = tmp_path / "policy.json"
    controller.save(path)
    data = json.loads(path.read_text())
    schema("policy").validate(data)
    if name.startswith("code"):
        assert data["loop"]["controller"] == "code"
        with pytest.raises(InputError, match="files never carry; pass the controller"):
            LearnedController.load(path)
        with pytest.raises(InputError, match="holds no controller"):
            read_controller(path.read_text(), str(path))
        again = LearnedController.load(path, CONTROLLERS[name])
        assert again.document() == controller.document()
        return
    again, inside = LearnedController.load(path), read_controller(path.read_text(), str(path))
    assert again.document() == controller.document()
    assert isinstance(inside, CorrectedController)
    rows = random_episodes(controller, sensible_ends(controller.policy), 3, 20)
    for row in rows:
        for one in (controller, again, inside):
            if row[0]:
                one.reset()
        expected = controller.act(row[1:])
        np.testing.assert_allclose(again.act(row[1:]), expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(inside.act(row[1:]), expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(inside.memory, controller.memory, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"lags": 101},
        {"lags": -1},
        {"lags": 1},
        {"rates": ["0.1"]},
        {"rates": ["-1", "1"]},
        {"rate": 0.0},
        {"setpoints": [[3, 0.0, None]]},
        {"setpoints": [[0, None, 7]]},
        {"setpoints": [[0, None, None]]},
        {"action_names": ["one"]},
        {"controller": 5},
        {"controller": {"controller": "no"}},
        {"spaces": []},
    ],
)
def test_loops_that_are_none_are_refused(change):
    data = controller_of(CONTROLLERS["constant"]).document()
    LearnedController.from_document(data)
    with pytest.raises((FileFormatError, InputError)):
        LearnedController.from_document({**data, "loop": {**data["loop"], **change}})
    with pytest.raises(FileFormatError, match=r"lacks|no loop"):
        LearnedController.from_document({k: v for k, v in data.items() if k != "loop"})


def test_a_correction_alone_is_no_controller(tmp_path):
    controller = controller_of(CONTROLLERS["pid"])
    controller.policy.save(tmp_path / "correction.json")
    text = (tmp_path / "correction.json").read_text()
    with pytest.raises(InputError, match="export the whole controller"):
        read_controller(text, "correction.json")


@pytest.mark.usefixtures("few_episodes")
@pytest.mark.parametrize("target", ["c", "json", "onnx"])
def test_the_contract_of_a_controller(target, tmp_path):
    if target == "onnx":
        pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    controller = controller_of(CONTROLLERS["pid"], bound=0.2, **EVERYTHING)
    made = export_policy(controller, target, tmp_path / "some", largest_seen=[0.1, 0.05])
    text = made.files[-1].read_text()
    schema("contract").validate(json.loads(text))
    contract = read_document(made.files[-1], "contract", 1)
    assert contract["loop"] == json.loads(json.dumps(controller.loop.spec.to_dict()))
    np.testing.assert_allclose(contract["change"]["largest_possible"], [0.25, 0.19])
    assert contract["change"]["largest_seen"] == [0.1, 0.05]
    whole = target != "onnx"
    assert contract["part"] == ("controller" if whole else "correction")
    assert len(contract["observations"]["names"]) == (3 if whole else 3 * 3 + 2 * 3 + 1 + 2 + 1)
    assert contract["actions"]["names"] == (
        ["push", "turn"] if whole else ["correction of push", "correction of turn"]
    )
    if made.agreement is not None and whole:
        assert made.agreement.states == episodes.EPISODES * episodes.STEPS


def test_a_loop_that_only_limits_actions_is_the_policy(tmp_path):
    controller = controller_of()
    made = export_policy(controller, "json", tmp_path / "some")
    assert "loop" not in json.loads(made.files[0].read_text())
    assert "part" not in json.loads(made.files[-1].read_text())


def test_names_of_the_machine_can_be_given():
    controller = renamed(controller_of(CONTROLLERS["pid"], lags=1), ["a [m]", "b", "c"], None, 5.0)
    assert machine_signals(controller)[0].names == ("a [m]", "b", "c")
    assert controller.policy.observations.names[3] == "change 1 of a [m]"
    assert (controller.policy.rate, controller.loop.spec.rate) == (5.0, 20.0)
    with pytest.raises(InputError, match="2 names were given for the 3 numbers"):
        renamed(controller, ["a", "b"])


@pytest.mark.usefixtures("few_episodes")
def test_controllers_of_learners_and_files(tmp_path):
    pids = [PID(kp=2.0, measured=1), PID(kp=1.0, measured=1)]
    learner = CrossLearner("pendulums:2", around=pids, epsilon=0.2).learn(1, progress=False)
    file = tmp_path / "learner.safetensors"
    learner.save(file)
    with pytest.raises(InputError, match=r"tasks differ in their controllers.*--correction-only"):
        open_policy(file)
    assert open_policy(file, correction_only=True).controller is None
    opened = open_policy(file, "1")
    assert opened.controller.loop.spec.controller.kp == 1.0
    export_policy(opened.controller, "json", tmp_path / "one")
    again = open_policy(tmp_path / "one.json").controller
    assert again.document() == opened.controller.document()
    # Learning may go on around it.
    further = CrossLearner("pendulums:2", around=str(tmp_path / "one.json"), epsilon=0.1)
    inside = further.learn(1, progress=False).controller(0).loop.controller
    state = np.array([0.9, 0.2, 0.1])
    np.testing.assert_allclose(inside.act(state), again.act(state), rtol=1e-6)


def test_a_learner_around_code_is_exported_without_the_code(tmp_path):
    learner = CrossLearner("pendulums:2", around=Remembering(1, 1), epsilon=0.2)
    learner.learn(1, progress=False).save(tmp_path / "learner.safetensors")
    loaded = CrossLearner.load(tmp_path / "learner.safetensors", around=Remembering(1, 1))
    loaded.controller(0).save(tmp_path / "some.json")
    opened = open_policy(tmp_path / "some.json").controller
    assert arguments_of(opened) == [3, 1, 1]
    made = export_policy(opened, "c", tmp_path / "some")
    assert "controller_memory" in made.files[0].read_text()


def test_a_subclass_of_a_controller_is_code():
    class Careful(PID):
        def act(self, observation):
            return 0.5 * super().act(observation)

    controller = controller_of(Careful(kp=[[1.0], [1.0]]))
    assert arguments_of(controller) == [3, 2]
    assert controller.loop.spec.to_dict()["controller"] == "code"


def test_a_policy_as_the_controller_is_data():
    policy = policy_of(Gaussian(std=[1.0, 2.0, 3.0]), outputs=1)
    learner = CrossLearner("pendulums:2", around=policy, epsilon=0.2)
    controller = learner.controller(0)
    assert controller.is_plain
    assert controller.loop.spec.to_dict()["controller"]["controller"] == "policy"
    for state in np.random.default_rng(0).normal(size=(5, 3)):
        np.testing.assert_allclose(
            controller.loop.controller.act(state), policy.predict(state)[0], rtol=1e-6
        )

    class Careful(Policy):
        def predict(self, observation, deterministic=True, **more):
            return 0.5 * super().predict(observation)[0], None

    careful = Careful.from_dict(policy.to_dict())
    assert not CrossLearner("pendulums:2", around=careful, epsilon=0.2).controller(0).is_plain


def test_loops_pass_plain_controllers_flat_observations():
    controller = controller_of(CONTROLLERS["feedback"])
    box = type(controller.loop.spec.observations)
    shaped = replace(controller.loop.spec, observations=box(-1.0, 1.0, (3, 1)))
    loop = Loop(shaped)
    loop.reset(np.ones((3, 1)))
    expected = as_controller(CONTROLLERS["feedback"]).act(np.ones(3))
    np.testing.assert_allclose(loop.act(np.zeros(2)), np.clip(expected, shaped.low, shaped.high))
    assert without_code(controller).loop.spec is controller.loop.spec
