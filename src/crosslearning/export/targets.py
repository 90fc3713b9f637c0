"""What a policy can be written as, and how precisely."""

from typing import Literal, get_args

Target = Literal["onnx", "c", "json"]
Precision = Literal["double", "float"]
TARGETS: tuple[Target, ...] = get_args(Target)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
