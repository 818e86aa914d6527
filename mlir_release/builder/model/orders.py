"""What a job of a release makes, as its row of the matrix says it: so the job needs no forge and no token.

The plan job derives the orders from the tag, whose pin it has checked. :mod:`mlir_release.release.model.matrix_jobs`
divides them among jobs.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from msgspec import Struct

from mlir_release.builder.model.regalloc_model import ModelPath
from mlir_release.ground.documents.decode import (
    Line,
    MalformedError,
    PlainName,
    PlainNameOrEmpty,
    Sha1,
    Sha1OrEmpty,
    from_json,
)
from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.python.requirements import Override

#: Code generators of an SDK: the host's and GPUs', or all of upstream's stable ones.
CodeGenerators = Literal["usual", "all"]

#: What pages, release notes and wheels say of their standing, until LLVM says otherwise.
NOTICE = "These are not official LLVM releases."

#: Minutes of a target in a job, beside four times what is expected: an image or packages may come slowly.
TARGET_MINUTES = 30

T = TypeVar("T")

#: Of wheels that belong to no release.
LOCAL_TAG = "local"
LOCAL_VERSION = "20200101.dev0"


class SdkOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The SDK of a platform: ``sdk provide --order``."""

    revision: Sha1
    upstream: Line  #: URL or path of llvm-project, whose public git is asked for the revision
    floor: PlainName  #: the oldest platform that its wheels are for, without the architecture: ``manylinux_2_28``
    assertions: bool = False
    code_generators: CodeGenerators = "usual"
    regalloc_model: ModelPath = ""  #: folder of the repository
    project: PlainName = DEFAULT_PROJECT


class WheelOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A wheel, or a source distribution: ``wheels build --orders``. By default it belongs to no release."""

    tag: PlainName = LOCAL_TAG
    version: PlainName = LOCAL_VERSION
    revision: Sha1OrEmpty = ""  #: empty: the SDK's
    target: PlainName
    runtime: PlainName
    distribution: PlainName
    project: PlainName = DEFAULT_PROJECT
    profile: PlainName
    floor: PlainNameOrEmpty = ""  #: the oldest platform that it must install on: ``manylinux_2_28_x86_64``
    python: PlainNameOrEmpty = ""  #: ``cp312``; empty: it is for every CPython
    serves: tuple[PlainName, ...] = ()  #: of a wheel for the stable ABI: the CPythons that it is for, the oldest first
    assertions: bool = False
    regalloc_model: ModelPath = ""  #: folder of the repository
    sdk_wheel: bool = False  #: whether the same release makes ``mlir-sdk`` of the SDK that it is built with
    overrides: tuple[Override, ...] = ()
    notice: Line = NOTICE  #: of the wheel's description
    minutes: float = TARGET_MINUTES  #: after which it is ended


class TestOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of a suite: ``wheels test --orders``."""

    __test__ = False  # not a pytest class, whatever its name

    name: str
    suite: str
    python: str  #: ``cp312``; empty: any
    wheel: str  #: the wheel's target; empty for a suite that needs none
    minutes: float = TARGET_MINUTES  #: after which it is ended


def read_orders(text: str, kind: type[T]) -> T:
    """Read the orders of a job. :raises UsageError: ``option-invalid``

    :param kind: ``SdkOrder``, ``list[WheelOrder]`` or ``list[TestOrder]``
    """
    try:
        return from_json(text, kind)
    except MalformedError as error:
        raise UsageError(
            "option-invalid",
            "the orders of the job can't be read",
            why=str(error),
            remedy="give those of a row that mlir-release matrix --kind platforms --missing TAG prints",
        ) from None
