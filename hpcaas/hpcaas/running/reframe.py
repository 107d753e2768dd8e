"""Calls ReFrame: settings from the site file, one session per batch of jobs, always the serial
policy. Its default policy runs cases side by side, and then they measure each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Optional

from .. import slurm
from ..errors import HpcaasError, Missing
from .jobs import Job

_CHECKS = Path(__file__).parent / "checks.py"


# ReFrame's launcher that starts one process per task of a job, for what every node is asked.
_NODE_LAUNCHER = {"local": "local", "slurm": "srun", "squeue": "srun"}


def is_remote(site: dict[str, Any]) -> bool:
    """Whether runs happen on other machines than this one."""
    return site.get("scheduler", "local") != "local"


def settings(site: dict[str, Any], campaign: Path, module_system: Optional[str]) -> dict[str, Any]:
    """ReFrame's configuration. Scheduler and access options are the site's; everything else is
    ours."""
    scheduler = site.get("scheduler", "local")
    partition: dict[str, Any] = {
        "name": "default",
        "scheduler": slurm.backend(scheduler),
        # replaced for builds and measured runs
        "launcher": site.get("node_launcher", _NODE_LAUNCHER.get(scheduler, "mpiexec")),
        # without it a job that leaves cores idle may get fewer nodes than it asks for
        "sched_options": {"use_nodes_option": True},
        "resources": [{"name": "_rfm_gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
        "access": site.get("access", []),
        "environs": ["builtin"],
        "max_jobs": 1,
    }
    system: dict[str, Any] = {"name": "hpcaas", "hostnames": [".*"], "partitions": [partition]}
    if module_system:
        system["modules_system"] = module_system
    log = str(campaign / "reframe.log")
    return {
        "systems": [system],
        "environments": [{"name": "builtin", "features": []}],
        "general": [
            {"resolve_module_conflicts": False, "remote_detect": False, "purge_environment": False}
        ],
        "storage": [{"enable": True, "sqlite_db_file": str(campaign / "reframe.db")}],
        "logging": [
            {
                "handlers": [
                    {
                        "type": "file",
                        "name": log,
                        "level": "debug2",
                        "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                        "append": True,
                    }
                ],
                "handlers$": [
                    {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}
                ],
            }
        ],
    }


def run_batch(
    jobs: list[Job], campaign: Path, site: dict[str, Any], tick: Callable[[], None]
) -> dict[str, str]:
    """Executes jobs one after the other; returns, for jobs that failed, ReFrame's words for why.
    `tick` is called about twice a second. KeyboardInterrupt is passed on to ReFrame, which ends the
    job in progress, and raised again."""
    if not jobs:
        return {}
    program = Path(sys.executable).parent / "reframe"
    if not program.exists():
        raise Missing("the `reframe` command is not beside this Python", "pip install reframe-hpc")
    failures: dict[str, str] = {}
    # A session has one module system and one place for stage directories.
    for kind in dict.fromkeys((job.module_system, job.stage) for job in jobs):
        failures.update(
            _session(
                [j for j in jobs if (j.module_system, j.stage) == kind],
                kind[0],
                program,
                campaign,
                site,
                tick,
            )
        )
    return failures


def _write_batch(path: Path, jobs: list[Job], campaign: Path, site: dict[str, Any]) -> None:
    """What checks.py reads: the jobs, and where they run."""
    content = {
        "journal": str(campaign / "journal.jsonl"),
        "remote": is_remote(site),
        "build_here": not is_remote(site) or site.get("build_on") == "login",
        "jobs": [json.loads(j.model_dump_json()) for j in jobs],
    }
    path.write_text(json.dumps(content))


def _session(
    jobs: list[Job],
    module_system: Optional[str],
    program: Path,
    campaign: Path,
    site: dict[str, Any],
    tick: Callable[[], None],
) -> dict[str, str]:
    config, batch, report = (
        campaign / "settings.json",
        campaign / "batch.json",
        campaign / "report.json",
    )
    config.write_text(json.dumps(settings(site, campaign, module_system), indent=1))
    _write_batch(batch, jobs, campaign, site)
    report.unlink(missing_ok=True)
    argv = [
        str(program),
        "-C",
        str(config),
        "-c",
        str(_CHECKS),
        "-r",
        "--exec-policy=serial",
        f"--prefix={campaign / 'reframe'}",
        f"--report-file={report}",
        "--nocolor",
        *(["--stage", f"{jobs[0].stage}/hpcaas-stage"] if jobs[0].stage else []),
        "--timestamp=%FT%H%M%S",
    ]
    with (campaign / "reframe.out").open("a") as output:
        # A login shell where modules are loaded: on many systems only that one knows the command
        # `module`.
        # Its own session: a Ctrl-C of the terminal reaches only us, and we pass it on once, so that
        # its clean-up is not cut.
        process = subprocess.Popen(
            argv,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={
                **os.environ,
                "HPCAAS_BATCH": str(batch),
                "RFM_USE_LOGIN_SHELL": "yes" if module_system else "no",
            },
        )
        try:
            while True:
                try:
                    process.wait(timeout=0.5)
                    break
                except subprocess.TimeoutExpired:
                    tick()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
    tick()
    return _failures(report, process.returncode, campaign)


def _failures(report: Path, code: int, campaign: Path) -> dict[str, str]:
    try:
        content = json.loads(report.read_text())
    except (OSError, json.JSONDecodeError):
        tail = " | ".join(
            (campaign / "reframe.out").read_text(errors="replace").strip().splitlines()[-3:]
        )
        raise HpcaasError(
            f"ReFrame ended with code {code} and no report: {tail}",
            f"see '{campaign / 'reframe.out'}'",
        )
    failures: dict[str, str] = {}
    sessions = content.get("runs") or content.get("sessions") or []
    for run in sessions:
        for case in run.get("testcases", []):
            if case.get("result") in ("fail", "abort"):
                which = next(
                    (v for k, v in case.get("check_params", {}).items() if k.endswith("which")),
                    case.get("display_name", ""),
                )
                name = str(which).split("which=")[-1]
                failures[name.partition(".")[2] or name] = (
                    f"{case.get('fail_phase')}: {str(case.get('fail_reason', '')).strip()}"
                )
    return failures
