"""Policies for other languages: ONNX, C and JSON, each checked against Python."""

from typing import TYPE_CHECKING

from crosslearning._base.lazy import lazy_exports

if TYPE_CHECKING:
    from crosslearning.export.export import Export, export_policy
    from crosslearning.export.sources import Source, open_policy

__all__ = ["Export", "Source", "export_policy", "open_policy"]

__getattr__ = lazy_exports(
    __name__,
    {
        "Export": "crosslearning.export.export",
        "Source": "crosslearning.export.sources",
        "export_policy": "crosslearning.export.export",
        "open_policy": "crosslearning.export.sources",
    },
)
