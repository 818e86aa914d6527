# mypy: ignore-errors
import sums

assert sums.add(2**31 - 1, 1) == 2**31
