# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D102, D103
"""Run by the interpreter under test: one module of upstream's tests, with the installed ``clang``.

Prints one JSON object a test: ``{"name": …, "outcome": …, "message": …, "seconds": …}``, and at last one with the name
``end``. ``bindings.py FOLDER MODULE``: the folder has ``tests/cindex/MODULE.py``.
"""

import json
import sys
import time
import unittest
import warnings

FOLDER, MODULE = sys.argv[1:]
PACKAGE = "tests.cindex."


class Result(unittest.TestResult):
    """Prints the outcome of each test at its end; the worst counts, as a test has several with subtests."""

    def startTest(self, test):
        super().startTest(test)
        self.began, self.outcome, self.message = time.time(), "pass", ""

    def stopTest(self, test):
        super().stopTest(test)
        emit(test.id(), self.outcome, self.message, time.time() - self.began)

    def addError(self, test, err):
        if not hasattr(self, "began"):  # of a class or a module
            emit(test.id(), "fail", self._exc_info_to_string(err, test), 0)
        self.fail(err, test)

    def addFailure(self, test, err):
        self.fail(err, test)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.fail(err, test)

    def addSkip(self, test, reason):
        self.outcome, self.message = "unsupported", reason

    def addUnexpectedSuccess(self, test):
        self.outcome, self.message = "fail", "upstream expects it to fail, and it passes"

    def fail(self, err, test):
        self.outcome, self.message = "fail", self._exc_info_to_string(err, test)


def emit(name, outcome, message, seconds):
    name = name[len(PACKAGE) :] if name.startswith(PACKAGE) else name
    line = {"name": name, "outcome": outcome, "message": message, "seconds": round(seconds, 3)}
    print("\n" + json.dumps(line), flush=True)  # on a line of its own, whatever a test printed


sys.path.insert(0, FOLDER)
warnings.simplefilter("default")  # as unittest's own runner does: tests of LLVM 23 count deprecations
unittest.defaultTestLoader.loadTestsFromName(PACKAGE + MODULE).run(Result())
emit("end", "pass", "", 0)
