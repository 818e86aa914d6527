"""Errors that a test expects: of which kind and id, with which words, and always with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import ERRORS, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = type[ReleaseError]


def refused(
    action: Callable[[], object], id: str = "", said: str = "", kind: Kind | tuple[Kind, ...] = ReleaseError
) -> ReleaseError:
    """Check that an action ends with an error that a person can act on, and return the error.

    :param id: of the error. It implies the kind, which is checked, too
    :param said: is in the sentence that says what happened
    """
    with pytest.raises(kind) as caught:
        action()
    return check_error(caught.value, id, said)


def check_error(error: BaseException | None, id: str = "", said: str = "") -> ReleaseError:
    """Check the error that a command ended with, as :func:`refused` does."""
    assert isinstance(error, ReleaseError), error
    assert not id or error.id == id, error
    assert error.id in ERRORS[error.exit_code], error
    assert said in error.what, error
    assert error.remedy, error
    return error
