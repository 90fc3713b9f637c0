"""An FMU does what its policy or controller does, driven by ctypes and by FMPy."""

import ctypes
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest

import crosslearning.export.fmu as fmu_module
from crosslearning.errors import NumericalError
from crosslearning.export import export_policy
from crosslearning.export.c_compiler import FLAGS, compile_library, find_compiler
from crosslearning.export.c_loop import c_loop_files
from crosslearning.export.c_source import c_files
from crosslearning.export.episodes import arguments_of, random_episodes
from crosslearning.export.fmu import FMU, fmu_sources, run_fmu, this_platform
from crosslearning.export.signals import ports_of
from crosslearning.export.states import expected_actions, sensible_ends
from crosslearning.learner.policy import BoxSpec
from tests.export.examples import CONTROLLERS, compare, controller_of, policy_of
from tests.export.test_loop import EVERYTHING, LOOPS

COMPILER = find_compiler()
with_compiler = pytest.mark.skipif(COMPILER is None, reason="this machine has no C compiler")
with_library = pytest.mark.skipif(
    COMPILER is None or this_platform() is None, reason="no library of an FMU can be made here"
)
pytestmark = pytest.mark.filterwarnings("ignore:the controller asks for the action")
QUICK = (*FLAGS, "-O0")


def made(exported, precision="double", flags=QUICK):
    """Return the library and the description of an FMU, its arguments and its rate."""
    if hasattr(exported, "loop"):
        files = c_loop_files(exported, "policy", precision, precision)
        arguments, rate = arguments_of(exported), exported.policy.rate
    else:
        files, arguments, rate = (
            c_files(exported, "policy", precision, precision),
            [],
            exported.rate,
        )
    given = "policy", ports_of(exported), arguments, (precision, rate)
    sources, description = fmu_sources(files, *given)
    return compile_library(COMPILER, sources, flags), description, bool(arguments), rate


def runner(*of):
    library, description, *how = of
    return lambda rows: run_fmu(library, description, rows, *how)


def parts(path):
    """Return the contents of an archive by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@with_library
def test_an_fmu_is_its_policy_in_ten_thousand_states(tmp_path):
    policy = policy_of()
    written = export_policy(policy, "fmu", tmp_path / "policy")
    assert (written.platform, written.agreement.share < 1e-12) == (this_platform()[0], True)
    inside = parts(tmp_path / "policy.fmu")
    assert next(iter(inside)) == "modelDescription.xml"
    assert {"sources/fmi2.c", "sources/policy.c", "sources/policy.h"} < set(inside)
    (binary,) = (inside[name] for name in inside if name.startswith("binaries/"))
    states = np.random.default_rng(0).uniform(*sensible_ends(policy), (10_000, 3))
    actions = run_fmu(binary, inside["modelDescription.xml"], states, False, None)
    np.testing.assert_allclose(actions, expected_actions(policy, states), rtol=1e-6, atol=1e-12)


@with_compiler
@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize("name", ["all-around-pid-of-two", "circle-and-all", "rates", "3-lags"])
def test_controllers_with_memory(name, precision):
    around, options = LOOPS[name]
    controller = controller_of(CONTROLLERS[around], **options)
    compare(controller, runner(*made(controller, precision)), precision, episodes=12)


@with_compiler
def test_what_code_gave_is_an_input():
    controller = controller_of(CONTROLLERS["code-with-memory"], **EVERYTHING)
    of = made(controller)
    compare(controller, runner(*of), "double", episodes=12)
    names = [one.get("name") for one in ElementTree.fromstring(of[1]).iter("ScalarVariable")]
    inputs = ["x", "y", "phase", "controller push", "controller turn"]
    assert names == [*inputs, "controller memory 0", "controller memory 1", "push", "turn"]


@with_library
def test_a_whole_controller_in_ten_thousand_steps(tmp_path):
    controller = controller_of(CONTROLLERS["pid"], **EVERYTHING)
    written = export_policy(controller, "fmu", tmp_path / "policy.fmu")
    assert written.agreement.states == 10_000
    assert written.agreement.share < 1e-12
    inside = parts(tmp_path / "policy.fmu")
    root = ElementTree.fromstring(inside["modelDescription.xml"])
    units = [real.get("unit") for real in root.iter("Real")]
    assert units == ["m", None, "rad", "N", None]
    assert root.find("DefaultExperiment").get("stepSize") == "0.05"


@with_compiler
def test_one_policy_is_one_file_bit_for_bit(tmp_path):
    for name in ("one", "two"):
        export_policy(policy_of(), "fmu", tmp_path / name / "policy.fmu")
    assert (tmp_path / "one/policy.fmu").read_bytes() == (tmp_path / "two/policy.fmu").read_bytes()


@pytest.fixture
def loaded(tmp_path):
    """Return a function that loads the FMU of a controller at 20 actions a second."""

    def load(controller):
        library, description, *_ = made(controller)
        (tmp_path / "library").write_bytes(library)
        guid = ElementTree.fromstring(description).get("guid")
        return FMU(tmp_path / "library", guid, (3, 2), 0.05)

    return load


def after(fmu, time, step, given):
    """Return the action after a step that begins at a time, and the status of the step."""
    fmu.given[:] = given
    fmu.call("SetReal", fmu.inputs, ctypes.c_size_t(3), fmu.given)
    real = ctypes.c_double
    status = fmu.library.fmi2DoStep(fmu.component, real(time), real(step), 1)
    fmu.call("GetReal", fmu.outputs, ctypes.c_size_t(2), fmu.gave)
    return np.array(fmu.gave[:]), status


@with_compiler
def test_it_acts_at_its_own_rate_whatever_the_step(loaded):
    controller = controller_of(CONTROLLERS["pid"], dtype=np.float64, **EVERYTHING)
    fmu, states = loaded(controller), np.random.default_rng(0).uniform(-1.0, 1.0, (8, 3))
    start = np.array(fmu.gave[:])
    fmu.call("GetReal", fmu.outputs, ctypes.c_size_t(2), fmu.gave)
    np.testing.assert_allclose(fmu.gave[:], [0.25, -0.05], atol=1e-6)
    assert not np.any(start)
    expected = controller.act(states[0])
    first, _ = after(fmu, 3.0, 0.02, states[0])
    np.testing.assert_allclose(first, expected, atol=1e-12)
    # Between two instants of its clock the action is held.
    for time in (3.02, 3.04 - 1e-12):
        held, _ = after(fmu, time, 0.01, states[1])
        np.testing.assert_array_equal(held, first)
    # The next instant is 3.05; a step over two of them acts twice.
    controller.act(states[2])
    expected = controller.act(states[2])
    np.testing.assert_allclose(after(fmu, 3.05, 0.1, states[2])[0], expected, atol=1e-12)
    fmu.begin()
    controller.reset()
    expected = controller.act(states[3])
    np.testing.assert_allclose(after(fmu, 0.0, 0.05, states[3])[0], expected, atol=1e-12)
    fmu.close()


@with_compiler
def test_what_is_no_number_is_refused_and_memory_can_be_put_back(loaded):
    fmu, states = loaded(controller_of(CONTROLLERS["pid"], **EVERYTHING)), np.eye(3)
    before, _ = after(fmu, 0.0, 0.05, states[0])
    kept, size = ctypes.c_void_p(), ctypes.c_size_t()
    fmu.call("GetFMUstate", ctypes.byref(kept))
    action, status = after(fmu, 0.05, 0.05, [np.nan, 0.0, 0.0])
    np.testing.assert_array_equal(action, before)
    assert status == 3
    once, status = after(fmu, 0.05, 0.05, states[1])
    assert status == 0
    fmu.call("SerializedFMUstateSize", kept, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value)
    fmu.call("SerializeFMUstate", kept, content, size)
    fmu.call("FreeFMUstate", ctypes.byref(kept))
    after(fmu, 0.1, 0.05, states[2])
    fmu.call("DeSerializeFMUstate", content, size, ctypes.byref(kept))
    fmu.call("SetFMUstate", kept)
    np.testing.assert_array_equal(after(fmu, 0.05, 0.05, states[1])[0], once)
    fmu.call("FreeFMUstate", ctypes.byref(kept))
    assert fmu.library.fmi2SetReal(fmu.component, fmu.outputs, ctypes.c_size_t(2), fmu.gave) == 3
    assert (
        fmu.library.fmi2GetInteger(fmu.component, fmu.inputs, ctypes.c_size_t(1), fmu.inputs) == 3
    )
    fmu.close()


@with_compiler
def test_the_description_of_another_is_refused(tmp_path):
    library, *_ = made(policy_of())
    (tmp_path / "library").write_bytes(library)
    with pytest.raises(NumericalError, match="refuses the description"):
        FMU(tmp_path / "library", "another", (3, 2), 1.0)


@with_compiler
def test_functions_can_have_a_prefix(tmp_path):
    library, *_ = made(policy_of(), flags=(*QUICK, "-DFMI2_FUNCTION_PREFIX=policy_"))
    (tmp_path / "library").write_bytes(library)
    loaded = ctypes.CDLL(str(tmp_path / "library"))
    loaded.policy_fmi2GetVersion.restype = ctypes.c_char_p
    assert loaded.policy_fmi2GetVersion() == b"2.0"
    for hidden in ("fmi2GetVersion", "policy_act"):
        with pytest.raises(AttributeError):
            getattr(loaded, hidden)


@with_compiler
@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (
            "c->now.given[which[i]] = (policy_real)value[i]",
            "c->now.given[0] = (policy_real)value[i]",
        ),
        ("c->now.action[which[i] - INPUTS]", "c->now.action[0]"),
        ("policy_reset(&now->state)", "(void)0"),
        ("time + step - slack", "time - step - slack"),
    ],
)
def test_a_wrong_line_is_noticed(line, wrong, tmp_path, monkeypatch):
    def spoilt(*given):
        sources, description = fmu_sources(*given)
        assert sources["fmi2.c"].count(line) == 1
        return {**sources, "fmi2.c": sources["fmi2.c"].replace(line, wrong)}, description

    monkeypatch.setattr(fmu_module, "fmu_sources", spoilt)
    monkeypatch.setattr(random_episodes, "__defaults__", (12, 50, 0))
    controller = controller_of(CONTROLLERS["constant"], lags=1, past_actions=1)
    with pytest.raises(NumericalError, match="does not do what the policy does"):
        export_policy(controller, "fmu", tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


HOSTILE = ('a"/><Real/>\n*/ #error', "ε <!-- ]]> &amp; [<m>&]", "ε <!-- ]]> &amp; [\x00/*]")


@with_compiler
def test_names_cannot_break_out_of_the_description(tmp_path):
    policy = policy_of(name='"/> */ #error <!--')
    ends = np.ones(3)
    policy.observations = BoxSpec(-ends, ends, HOSTILE)
    export_policy(policy, "fmu", tmp_path / "policy")
    text = parts(tmp_path / "policy.fmu")["modelDescription.xml"]
    root = ElementTree.fromstring(text)
    assert len(list(root.iter("Real"))) == 5
    names = [one.get("name") for one in root.iter("ScalarVariable")]
    assert names[:2] == ['a"/><Real/>?*/ #error', "ε <!-- ]]> &amp;"]
    assert len(set(names)) == 5
    assert [one.get("unit") for one in root.iter("Real")][1:3] == ["<m>&", "?/*"]


def test_without_a_compiler_there_are_sources_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", "")
    written = export_policy(policy_of(), "fmu", tmp_path / "policy.fmu")
    assert (written.agreement, written.platform) == (None, None)
    assert not [name for name in parts(tmp_path / "policy.fmu") if name.startswith("binaries")]


@with_library
def test_fmpy_simulates_it(tmp_path):
    fmpy = pytest.importorskip("fmpy", reason="the extra fmu is not installed")
    controller = controller_of(CONTROLLERS["pid"], dtype=np.float64, **EVERYTHING)
    export_policy(controller, "fmu", tmp_path / "policy.fmu")
    path, steps = str(tmp_path / "policy.fmu"), 40
    assert fmpy.validation.validate_fmu(path) == []
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (steps, 3))
    rows = [(0.05 * k, *state) for k, state in enumerate(states)]
    signal = np.array(rows, dtype=[(name, np.float64) for name in ("time", "x", "y", "phase")])
    # FMPy interpolates between rows; at the beginning of a step it has that row's numbers.
    result = fmpy.simulate_fmu(
        path, stop_time=0.05 * (steps - 1), output_interval=0.05, input=signal
    )
    controller.reset()
    expected = np.array([controller.act(state) for state in states[: steps - 1]])
    actions = np.column_stack([result["push"], result["turn"]])[1:]
    np.testing.assert_allclose(actions, expected, rtol=1e-6, atol=1e-9)


def test_what_fmpy_refuses_is_not_written():
    pytest.importorskip("fmpy", reason="the extra fmu is not installed")
    content = fmu_module.fmu_archive("policy", {}, b"<fmiModelDescription/>", None)
    with pytest.raises(NumericalError, match="FMPy refuses the FMU"):
        fmu_module.validate(content)
