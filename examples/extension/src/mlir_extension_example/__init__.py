"""An extension of the installed ``mlir``: a pass and a type over its C API, and a dialect defined by IRDL."""

# First: it makes sure that the mlir which is installed is the one that this package was built with.
from . import _mlir_check  # noqa: F401, I001
from . import dialect
from ._passes import add_counting_pass, vector_of

__all__ = ["add_counting_pass", "dialect", "vector_of"]
