"""Policies for other machines: C, FMU, Structured Text, ONNX, JSON, each checked against Python."""

from typing import TYPE_CHECKING, Literal

from crosslearning._base.lazy import lazy_exports

if TYPE_CHECKING:
    from crosslearning.export.export import Export, export_policy
    from crosslearning.export.sources import Source, open_policy

__all__ = ["Export", "Precision", "Source", "Target", "export_policy", "open_policy"]

Target = Literal["onnx", "c", "json", "fmu", "st"]
Precision = Literal["double", "float"]

__getattr__ = lazy_exports(
    __name__,
    {
        "Export": "crosslearning.export.export",
        "Source": "crosslearning.export.sources",
        "export_policy": "crosslearning.export.export",
        "open_policy": "crosslearning.export.sources",
    },
)
