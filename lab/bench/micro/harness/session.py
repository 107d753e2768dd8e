"""A benchmark from its options to its table: on hosts of its own, in a session of its own."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness import machine, report
from harness.runner import Runner


def parser(
    description: str, root: Path, name: str, turns: str, only: str
) -> argparse.ArgumentParser:
    """The options that all have. `name`: of out/NAME.json; `turns`: who takes turns; `only`: an
    example of rows."""
    made = argparse.ArgumentParser(
        prog="bench.py",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--quick", action="store_true", help="one shorter round, and less patience")
    add("--rounds", type=int, help=f"how often {turns} take turns (default 3, quick 1)")
    add("--only", metavar="PATTERN", default="*", help=f"rows, such as '{only}'")
    add("--build", type=Path, default=root / "build", help="build directory (default: %(default)s)")
    out = root / "out" / f"{name}.json"
    add("--out", type=Path, default=out, help="default: %(default)s")
    add("--no-install", action="store_true", help="fetch no MPI from PyPI")
    add("--no-hosts", action="store_true", help="no network namespaces, even as root")
    add(
        "--priority",
        action="store_true",
        help="weigh more than the machine's other work (root): for one that is not quiet",
    )
    add("--list", action="store_true", help="print the rows and their targets")
    add("--verbose", action="store_true", help="print every command")
    return made


class Session:
    """One run. It may start the script again, on so many hosts, if a case needs several."""

    def __init__(
        self,
        options: argparse.Namespace,
        root: Path,
        script: Path,
        arguments: list[str],
        hosts: int,
    ):
        can_host = os.geteuid() == 0 and not options.no_hosts
        if can_host and hosts:
            on_testbed(root, hosts, script, arguments)
        self.can_host = can_host and "TESTBED" in os.environ
        take_signals()
        own_session(options.priority)
        self.options, self.before, self.started = options, machine.load(), time.monotonic()
        self.name = f"bench/{script.parent.name}"
        self.rounds = options.rounds or (1 if options.quick else 3)
        self.runner = Runner(
            root, options.build.resolve(), self.can_host, options.quick, options.verbose
        )

    def case_done(self, turn: int, case: str) -> None:
        minutes = (time.monotonic() - self.started) / 60
        print(
            f"{self.name}: {minutes:.1f} min, round {turn + 1} of {self.rounds}, {case} done,"
            f" load {machine.load():.2f}",
            file=sys.stderr,
        )

    def save(self, records: list[dict], described: dict[str, str]) -> list[dict]:
        """What there is so far: an interrupted run keeps it."""
        load = self.runner.load_since(self.before)
        facts = {**machine.describe(), "load": load, **described}
        report.save(self.options.out, records, facts, self.runner.complaints)
        return records

    def run(
        self,
        measure: Callable[[], None],
        write: Callable[[], list[dict]],
        draw: Callable[[list[dict], Path, Path], None],
        shown: Callable[[dict], dict] = lambda record: record,
    ) -> None:
        """Measures, prints the table and draws it."""
        try:
            measure()
        except KeyboardInterrupt:
            print("bench.py: interrupted; what there is stays", file=sys.stderr)
        records, out = write(), self.options.out
        print(report.table([shown(record) for record in records]))
        draw(records, out.with_suffix(".svg"), out.with_suffix(".png"))
        print(
            f"\n{report.targets_met(records)}; load {self.before:.2f} before,"
            f" {max(self.runner.loads, default=self.before):.2f} at most during; {out}"
        )


def on_testbed(root: Path, hosts: int, script: Path, arguments: list[str]) -> None:
    """Starts `script` again on so many hosts, which go however it ends. Root; returns if it runs
    there already."""
    if "TESTBED" not in os.environ:
        testbed = str(root / "testbed" / "hosts.sh")
        again = [sys.executable, str(script), *arguments]
        os.execv(testbed, [testbed, "run", str(hosts), "--", *again])


def take_signals() -> None:
    """Ctrl-C and SIGTERM end the run by KeyboardInterrupt. A start in the background, or through
    the testbed, passes on an ignored SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def own_session(priority: bool) -> None:
    """The scheduler shares out time by session, so what is compared belongs into one. `priority`:
    it weighs more than the machine's other work, if we are root."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    if priority:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)
            Path("/proc/self/autogroup").write_text("-15")
