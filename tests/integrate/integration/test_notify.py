"""Notifications, sent by the real apprise to a server on the loopback interface."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.errors import ForgeError
from mlir_release.integrate.deliver import deliver
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.deliver import notify
from mlir_release.integrate.report import WalkEnd, WalkReport
from tests.integrate.integration.in_process import invoke
from tests.loopback import Loopback, Quiet
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.integrate.integration.miniature import World

# One of apprise's plugins imports a module that Python is about to lose.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

VARIABLE = "MLIR_RELEASE_NOTIFY"
SECRET = "s3cretT0ken"


@dataclass
class Service:
    """A server that takes whatever is posted. ``refusing``: paths that contain this get a 403."""

    address: str
    refusing: str = ""
    posts: list[tuple[str, str, bytes]] = field(default_factory=list)  #: path, content type, body


@contextmanager
def listening() -> Iterator[Service]:
    class Handler(Quiet):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.posts.append((self.path, self.headers["Content-Type"], body))
            self.answer(403 if made.refusing and made.refusing in self.path else 200, b"ok")

    with Loopback(Handler) as server:
        made = Service(server.url.removeprefix("http://"))
        yield made


@pytest.fixture(name="service")
def listening_service() -> Iterator[Service]:
    with listening() as made:
        yield made


def report(log: str = "") -> WalkReport:
    end = WalkEnd(outcome="bad", branch="integrates/x", upstream="LLVM", base="", remaining=0)
    return WalkReport(end=end, findings=(), log=log, advice="")


#: What is said before the number of an address.
NOT_ACCEPTED = "the message was not accepted by notification address number"


def send() -> int:
    return notify(VARIABLE, title="Stopped", body="**a culprit**")


def test_nobody_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert send() == 0


def test_every_address_gets_the_message_even_if_one_refuses(
    service: Service, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    address = f"json://user:{SECRET}@{service.address}"
    urls = f"{address}/refused/{SECRET} no-such-service://{SECRET}\n{address}/taken"
    monkeypatch.setenv(VARIABLE, urls)
    service.refusing = "/refused"
    unknown = refused(send, "network-failed", "not a notification address that apprise understands: number 2 of 3")
    monkeypatch.setenv(VARIABLE, urls.replace(f"no-such-service://{SECRET}", ""))
    declined = refused(send, "network-failed", f"{NOT_ACCEPTED} 1 (JSON) of 2")
    assert [path for path, _, _ in service.posts].count("/taken") == 2
    assert json.loads(service.posts[-1][2])["title"] == "Stopped"
    assert SECRET not in str(unknown) + str(declined) + "".join(capfd.readouterr())


def test_a_server_that_is_not_there_is_an_error_without_the_address(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with listening() as gone:
        pass
    monkeypatch.setenv(VARIABLE, f"json://user:{SECRET}@{gone.address}/{SECRET}")
    assert SECRET not in str(refused(send, "network-failed", NOT_ACCEPTED)) + "".join(capfd.readouterr())


def test_the_report_and_the_end_of_the_log_are_attached(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"json://{service.address}/hook")
    log, end = tmp_path / "long.log", b"x" * deliver.ATTACHED + b"caf\xe9 error"
    log.write_bytes(b"y" + end)
    assert deliver.deliver(report(str(log)), text="## Fails\n", variable=VARIABLE, pulls=None) == []
    ((_, _, body),) = service.posts
    sent = json.loads(body)
    assert "Fails" in sent["message"]
    files = {item["filename"]: base64.b64decode(item["base64"]) for item in sent["attachments"]}
    assert files == {"report.md": b"## Fails\n", "smoke-test.log": end[-deliver.ATTACHED :]}


class Refusing:
    """A place for pull requests where nothing can be done."""

    def ensure_draft(self, **_: Any) -> str:
        raise ForgeError("forge-refused", "not today", remedy="come back tomorrow")

    comment = mark_ready = dispatch = ensure_ci = ensure_draft


def test_a_walk_that_stops_reports_though_the_forge_refuses(
    service: Service, plain: World, use_pulls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"json://{service.address}/hook")
    use_pulls(Refusing())
    start(plain.open(), publish=True)
    done = invoke(plain, "run", "--push")
    check_error(done.exception, "walk-needs-person")
    assert plain.commits["rename scale"][:12] in done.stdout
    assert done.stderr.count("not today") == 2  # the text, and the comment
    assert len(service.posts) == 1


@pytest.fixture
def at_service(service: Service, monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, str], None]:
    return lambda plugin, name, path: monkeypatch.setattr(plugin, name, f"http://{service.address}/{path}")


def test_discord_gets_what_it_takes_and_the_rest_attached(
    service: Service, tmp_path: Path, at_service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins.discord import NotifyDiscord

    at_service(NotifyDiscord, "notify_url", "api/webhooks")
    monkeypatch.setenv(VARIABLE, f"discord://1234/{SECRET}")
    log = tmp_path / "a.log"
    log.write_text("error: no\n")
    markdown = "## Fails\n" + "- a line\n" * 1000
    assert deliver.deliver(report(str(log)), text=markdown, variable=VARIABLE, pulls=None) == []
    assert {path.partition("?")[0] for path, _, _ in service.posts} == {f"/api/webhooks/1234/{SECRET}"}
    messages = [json.loads(body) for _, kind, body in service.posts if kind.startswith("application/json")]
    assert [0 < len(message["content"]) <= 2000 for message in messages] == [True]
    uploads = b"".join(body for _, kind, body in service.posts if kind.startswith("multipart/form-data"))
    assert markdown.encode() in uploads
    assert b"smoke-test.log" in uploads


def test_a_walk_that_stops_tells_and_is_not_failed_by_a_service_that_refuses(service: Service, plain: World) -> None:
    address = f"json://user:{SECRET}@{service.address}"
    environment = {**os.environ, VARIABLE: f"{address}/refused/{SECRET} {address}/taken"}
    service.refusing = "/refused"

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(plain.checkout), *arguments]
        return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)

    assert command("start").returncode == 0
    stopped = command("run")
    assert stopped.returncode == 7, stopped.stderr
    assert plain.commits["rename scale"][:12] in stopped.stdout
    assert "warning: the message was not accepted by notification address number 1" in stopped.stderr
    assert "error[walk-needs-person]" in stopped.stderr
    taken = [json.loads(body) for path, _, body in service.posts if path == "/taken"]
    assert len(taken) == 1
    assert taken[0]["title"].endswith(": culprit")
    assert plain.commits["rename scale"][:12] in taken[0]["message"]
    files = {item["filename"]: base64.b64decode(item["base64"]).decode() for item in taken[0]["attachments"]}
    report, _, remedy = files["report.md"].strip().rpartition("\n\n")  # in the terminal, the error ends with it
    assert report in stopped.stdout
    assert remedy in stopped.stderr
    assert "scale" in files["smoke-test.log"]
    assert SECRET not in stopped.stdout + stopped.stderr
    # A person who asks for the report to be sent learns that it was not.
    sent = command("report", "--send")
    assert sent.returncode == 3
    assert "error[network-failed]" in sent.stderr
    assert SECRET not in sent.stdout + sent.stderr
