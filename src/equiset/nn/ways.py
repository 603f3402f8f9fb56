"""Which of two ways a layer takes to the same result: one place that chooses by device.

On a CPU arithmetic is dear, and looking at values costs nothing: which rows have a gradient at all, where a tree finds
the neighbours of a point. On a GPU arithmetic is cheap. Looking means that the host waits until all before is done, and
then that the GPU waits for the host: a layer that looks keeps it idle, and none can be captured in a CUDA graph.
"""

import torch
from torch import Tensor


def may_look(values: Tensor) -> bool:
    """Say whether a layer may look at values to save arithmetic."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()
