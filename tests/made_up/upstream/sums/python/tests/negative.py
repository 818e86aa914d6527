# mypy: ignore-errors
import sums

assert sums.add(-1, 1) == 0
