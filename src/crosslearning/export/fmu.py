"""A policy or a controller as an FMU: its C behind the functions of FMI 2.0 for co-simulation.

The archive holds the description, the sources, and a library for the platform that it was made on.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import io
import platform
import re
import tempfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from crosslearning import __version__
from crosslearning.errors import NumericalError
from crosslearning.export import Precision
from crosslearning.export.c_source import TEMPLATES, Numbers
from crosslearning.export.signals import Port, middle_of

#: Names that FMI 2.0 has for platforms, and how their libraries end.
_PLATFORMS = {
    ("Linux", "x86_64"): ("linux64", ".so"),
    ("Darwin", "x86_64"): ("darwin64", ".dylib"),
    ("Darwin", "arm64"): ("darwin64", ".dylib"),
    ("Windows", "AMD64"): ("win64", ".dll"),
}
_WRAPPER = "fmi2.c"
#: What XML may hold in one line.
_NOT_IN_XML = re.compile("[^ -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def this_platform() -> tuple[str, str] | None:
    """Return this platform's name in FMI 2.0, if it has one, and the ending of its libraries."""
    return _PLATFORMS.get((platform.system(), platform.machine()))


def fmu_sources(
    files: dict[str, str],
    name: str,
    ports: tuple[list[Port], list[Port]],
    arguments: list[int],
    numbers: tuple[Precision, float | None],
) -> tuple[dict[str, str], bytes]:
    """Return the sources of an FMU and its description.

    Parameters
    ----------
    files : dict
        The texts of ``name.h`` and ``name.c``.
    ports : tuple
        Inputs and outputs.
    arguments : list of int
        The lengths of the arguments of a controller with a state; empty without one.
    numbers : tuple
        The precision of observations and actions, and the rate.
    """
    (inputs, outputs), (precision, rate) = ports, numbers
    title = files[f"{name}.c"].splitlines()[0].removeprefix("/* ").removesuffix(" */")
    start = [min(max(0.0, port.low), port.high) for port in inputs]
    told = repr([*files.items(), ports, rate, __version__])
    guid = hashlib.sha256(told.encode()).hexdigest()[:32]
    starts = [sum(arguments[:i]) for i in range(len(arguments))] or [0]
    given = [f"now->given + {at}" if at else "now->given" for at in starts]
    call = ", ".join(["&now->state", *given] if arguments else given)
    wrapper = TEMPLATES.get_template("fmu.c.j2").render(
        title=title,
        name=name,
        NAME=name.upper(),
        level=bool(arguments),
        inputs=len(inputs),
        guid=guid,
        start=start,
        middle=[
            port.low if port.whole else middle
            for port, middle in zip(outputs, _middle_of(outputs), strict=True)
        ],
        act=f"{name}_act({call}, now->action)",
        rate=rate,
        outside=Numbers(precision),
        wide=Numbers("double"),
    )
    description = _description(title, name, guid, ports, (start, rate))
    return {_WRAPPER: wrapper, **files}, description


def _middle_of(ports: list[Port]) -> NDArray[np.float64]:
    return middle_of(*(np.array([port[i] for port in ports]) for i in (2, 3)))


def _description(
    title: str,
    name: str,
    guid: str,
    ports: tuple[list[Port], list[Port]],
    numbers: tuple[list[float], float | None],
) -> bytes:
    """Return ``modelDescription.xml``; value references count inputs, then outputs."""
    start, rate = numbers
    head = {"fmiVersion": "2.0", "modelName": name, "guid": guid, "description": title}
    head |= {"generationTool": f"crosslearning {__version__}", "variableNamingConvention": "flat"}
    root = ElementTree.Element("fmiModelDescription", head)
    flags = ("VariableCommunicationStepSize", "GetAndSetFMUstate", "SerializeFMUstate")
    able = {f"can{'Handle' * (not i)}{flag}": "true" for i, flag in enumerate(flags)}
    able |= {"modelIdentifier": name, "canNotUseMemoryManagementFunctions": "true"}
    sources = ElementTree.SubElement(
        ElementTree.SubElement(root, "CoSimulation", able), "SourceFiles"
    )
    for file in (_WRAPPER, f"{name}.c"):
        ElementTree.SubElement(sources, "File", name=file)
    everything = [*ports[0], *ports[1]]
    units = dict.fromkeys(_plain(port.unit) for port in everything if port.unit)
    if units:
        parent = ElementTree.SubElement(root, "UnitDefinitions")
        for unit in units:
            ElementTree.SubElement(parent, "Unit", name=unit)
    if rate is not None:
        ElementTree.SubElement(root, "DefaultExperiment", startTime="0", stepSize=repr(1.0 / rate))
    variables = ElementTree.SubElement(root, "ModelVariables")
    taken: set[str] = set()
    for number, port in enumerate(everything):
        is_input = number < len(ports[0])
        label = plain = _plain(port.name)
        while label in taken:
            label = f"{plain} {len(taken)}"
        taken.add(label)
        variable = {"name": label, "valueReference": str(number)}
        variable |= {"causality": "input"} if is_input else {"causality": "output"}
        variable |= {} if is_input else {"variability": "discrete"}
        real = {"unit": _plain(port.unit)} if port.unit else {}
        real |= {k: repr(float(v)) for k, v in port.ends.items()}
        real |= {"start": repr(float(start[number]))} if is_input else {}
        ElementTree.SubElement(
            ElementTree.SubElement(variables, "ScalarVariable", variable), "Real", real
        )
    structure = ElementTree.SubElement(root, "ModelStructure")
    for what in ("Outputs", "InitialUnknowns"):
        parent = ElementTree.SubElement(structure, what)
        for number in range(len(ports[0]), len(everything)):
            ElementTree.SubElement(parent, "Unknown", index=str(number + 1))
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return content + b"\n"


def _plain(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)


def fmu_archive(
    name: str, sources: dict[str, str], description: bytes, library: bytes | None
) -> bytes:
    """Return the bytes of the FMU, which depend on nothing but what is in it."""
    known = this_platform()
    contents = {"modelDescription.xml": description}
    if library is not None and known is not None:
        contents[f"binaries/{known[0]}/{name}{known[1]}"] = library
    contents |= {f"sources/{file}": text.encode() for file, text in sources.items()}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for place, content in contents.items():
            entry = zipfile.ZipInfo(place)  # of the first day of 1980
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            entry.create_system = 3
            file.writestr(entry, content)
    return archive.getvalue()


def validate(content: bytes) -> None:
    """Refuse an FMU that FMPy finds faults with, if FMPy is installed."""
    if importlib.util.find_spec("fmpy") is None:
        return
    from fmpy.validation import validate_fmu

    with tempfile.TemporaryDirectory(prefix="crosslearning-") as folder:
        path = Path(folder, "policy.fmu")
        path.write_bytes(content)
        problems = validate_fmu(str(path))
    if problems:
        raise NumericalError(
            f"FMPy refuses the FMU, and nothing was written: {'; '.join(problems)}. This is an "
            "error of crosslearning's: please report it with the policy"
        )


class FMU:
    """An FMU at work, by the functions of its library."""

    def __init__(self, library: Path, guid: str, sizes: tuple[int, int], period: float) -> None:
        self.library, self.period = ctypes.CDLL(str(library)), period
        create = self.library.fmi2Instantiate
        create.restype = ctypes.c_void_p
        callbacks = (ctypes.c_void_p * 5)()
        made = create(b"check", 1, guid.encode(), b"", callbacks, 0, 0)
        if made is None:
            raise NumericalError("the library refuses the description of its FMU")
        self.component, self._kept = ctypes.c_void_p(made), callbacks
        inputs, outputs = sizes
        self.given, self.gave = (ctypes.c_double * inputs)(), (ctypes.c_double * outputs)()
        self.inputs = (ctypes.c_uint * inputs)(*range(inputs))
        self.outputs = (ctypes.c_uint * outputs)(*range(inputs, inputs + outputs))
        self.begin()

    def call(self, function: str, *arguments: object) -> None:
        """Call a function, whose status must be good."""
        if status := getattr(self.library, f"fmi2{function}")(self.component, *arguments):
            raise NumericalError(f"fmi2{function} of the FMU returned the status {status}")

    def begin(self) -> None:
        """Begin anew, as a simulation does."""
        self.call("Reset")
        number = ctypes.c_double
        self.call("SetupExperiment", 0, number(0.0), number(0.0), 0, number(0.0))
        self.call("EnterInitializationMode")
        self.call("ExitInitializationMode")
        self.steps = 0

    def step(self, given: NDArray[np.floating]) -> list[float]:
        """Return the action after a step with these inputs."""
        self.given[:] = given.tolist()
        self.call("SetReal", self.inputs, ctypes.c_size_t(len(self.given)), self.given)
        times = (ctypes.c_double(time) for time in (self.steps * self.period, self.period))
        self.call("DoStep", *times, 1)
        self.call("GetReal", self.outputs, ctypes.c_size_t(len(self.gave)), self.gave)
        self.steps += 1
        return list(self.gave)

    def close(self) -> None:
        """Free the instance."""
        self.call("Terminate")
        self.library.fmi2FreeInstance.restype = None
        self.library.fmi2FreeInstance(self.component)


def run_fmu(
    library: bytes,
    description: bytes,
    rows: NDArray[np.floating],
    has_state: bool,
    rate: float | None,
) -> NDArray[np.float64]:
    """Return the actions (n, p) of an FMU for rows of its inputs.

    With a state, a number before the inputs tells whether to begin anew.
    """
    root = ElementTree.fromstring(description)
    causes = [one.get("causality") for one in root.iter("ScalarVariable")]
    sizes = causes.count("input"), causes.count("output")
    with tempfile.TemporaryDirectory(prefix="crosslearning-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "policy.library")
        path.write_bytes(library)
        fmu = FMU(path, str(root.get("guid")), sizes, 1.0 if rate is None else 1.0 / rate)
        actions = []
        for row in rows:
            if has_state and row[0]:
                fmu.begin()
            actions.append(fmu.step(row[int(has_state) :]))
        fmu.close()
    return np.array(actions)
