"""Matrix products in the thread that asks for them.

numpy's BLAS divides a larger product among all processors, and its threads then wait actively for the next one: they
would take a second processor from the application for as long as an evaluation lasts, and the evaluation would cost
twice the processor time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MATRIX_WORK = 200_000
"""Multiplications in one call. OpenBLAS uses one thread up to 262,144 (GEMM_MULTITHREAD_THRESHOLD)."""
_VECTOR_WORK = 9_000
"""The same where one side is a vector: up to 9,216. A part may have a single row left over."""


def product(left: Any, right: Any) -> NDArray[np.float32]:
    """(n, k) times (k, m) or (k,): (n, m) or (n,), as `left @ right`."""
    import numpy as np

    if right.ndim == 1:
        by_column: NDArray[np.float32] = product(left, right[:, None])[:, 0]
        return by_column
    (rows, inner), columns = left.shape, right.shape[1]
    result = np.empty((rows, columns), np.result_type(left, right))
    inner = max(1, inner)
    wide = max(1, min(columns, _VECTOR_WORK // inner))
    high = max(1, (_MATRIX_WORK if wide > 1 else _VECTOR_WORK) // (inner * wide))
    for top in range(0, rows, high):
        for at in range(0, columns, wide):
            np.matmul(left[top : top + high], right[:, at : at + wide], out=result[top : top + high, at : at + wide])
    return result
