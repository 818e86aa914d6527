from __future__ import annotations

import pytest

from mlir_release.errors import UsageError
from mlir_release.model.pin import parse_pin

SHA = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"


@pytest.mark.parametrize(
    ("content", "identifier"),
    [
        (None, "pin-missing"),
        (b"", "pin-empty"),
        (b"ca7933e47d3a\n", "pin-short"),
        (b"main\n", "pin-junk"),
        (SHA.upper().encode(), "pin-junk"),
        (f"{SHA}\n{SHA}\n".encode(), "pin-junk"),
        (b"\xff\xfe\x00" * 100, "pin-junk"),
    ],
)
def test_bad_pins(content: bytes | None, identifier: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pin(content, where="a file")
    assert caught.value.id == identifier
    assert caught.value.remedy
