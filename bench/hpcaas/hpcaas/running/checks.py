"""The ReFrame tests. One class per kind of job; a job is a test parameter and carries everything that is needed.

ReFrame gives the pipeline, the schedulers, modules, time limits, stage directories and its own session database. The launcher
and what is recorded beside a run are ours: its built-in launchers call a bare `mpirun`.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher

from hpcaas.running.jobs import Job
from hpcaas.running.record import append, record_run

_BATCH = Path(os.environ["HPCAAS_BATCH"])
_JOBS = [Job.model_validate(j) for j in json.loads(_BATCH.read_text())["jobs"]]
_JOURNAL = Path(json.loads(_BATCH.read_text())["journal"])
_HERE = Path(__file__).parent


def _named(kind: str) -> list[str]:
    return [f"{i:04d}.{job.id}" for i, job in enumerate(_JOBS) if job.kind == kind]


def _job(name: str) -> Job:
    return _JOBS[int(name.split(".")[0])]


@register_launcher("hpcaas")
class InstalledLauncher(JobLauncher):
    """Calls the launcher of one MPI installation with the words that hpcaas.launchers chose."""

    argv: list[str] = []

    def command(self, job):
        self.options = []
        return list(self.argv)


class _Common:
    """What every kind of job shares."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]

    def _apply(self, job: Job) -> None:
        self.env_vars = dict(job.env)
        self.modules = list(job.modules)
        self.time_limit = f"{job.time_limit_s}s"


@rfm.simple_test
class BuildJob(rfm.RunOnlyRegressionTest, _Common):
    """A build, with its log kept. It is a run-only test so that a scheduler may place it and a time limit holds."""

    which = parameter(_named("build") + _named("prepare"))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True

    @run_after("init")
    def describe(self):
        job = _job(self.which)
        self.descr = job.id
        self._apply(job)
        self.sourcesdir = None
        self.executable = "true"
        # A failing line ends the script there: the first error is the one that the log shows last.
        # The id in the script is how the log of a failure is found again.
        self.prerun_cmds = [f": hpcaas job {job.id}", "set -e"] + job.commands
        self.postrun_cmds = ["echo hpcaas-done"]

    @sanity_function
    def finished(self):
        job = _job(self.which)
        missing = [p for p in job.products if not (Path(self.stagedir) / p).exists()]
        return sn.all(
            [
                sn.assert_found("hpcaas-done", self.stdout, msg=f"{job.id} did not reach its end"),
                sn.assert_false(missing, msg=f"{job.id} did not produce {missing}"),
            ]
        )

    @run_after("sanity")
    def publish(self):
        """Moves the result to the cache in one step: a cache entry is whole or absent, also after Ctrl-C."""
        job = _job(self.which)
        final = Path(job.destination)
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = final.with_name(final.name + ".part")
        shutil.rmtree(temporary, ignore_errors=True)
        if job.kind == "build":
            temporary.mkdir()
            for product in job.products:
                shutil.copy2(Path(self.stagedir) / product, temporary / product)
        else:
            shutil.copytree(self.stagedir, temporary, symlinks=True)
        if not final.exists():
            os.replace(temporary, final)
        append(_JOURNAL, {"done": job.id})


@rfm.simple_test
class RunJob(rfm.RunOnlyRegressionTest, _Common):
    """One measured execution."""

    which = parameter(_named("run"))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]

    @run_after("init")
    def describe(self):
        job = _job(self.which)
        self.descr = job.configuration.label()
        self._apply(job)
        self.sourcesdir = None
        self.num_tasks = job.ranks
        self.num_tasks_per_node = job.per_node if job.ranks > 1 else 1
        self.num_cpus_per_task = job.threads
        self.executable = str(_HERE / "rank.sh")
        self.executable_opts = [job.executable] + job.args
        watch = Path(job.destination) / "watch"
        shutil.rmtree(watch, ignore_errors=True)
        watch.mkdir(parents=True)
        self.env_vars.update(
            HPCAAS_WATCH=str(watch),
            HPCAAS_PYTHON=sys.executable,
            HPCAAS_WATCHER=str(_HERE / "watch.py"),
            HPCAAS_STACK=job.stack,
        )
        probe = f"{sys.executable} -S -E {_HERE / 'node_probe.py'}"
        node = Path(job.destination) / "node.json"
        # bash's `times` is the only portable account of the CPU time of everything that the
        # launcher started and waited for.
        self.prerun_cmds = job.before + [
            f"{probe} begin {node}",
            f"times > {job.destination}/times.begin",
            "hpcaas_begin=$EPOCHREALTIME",
        ]
        self.postrun_cmds = (
            [
                "hpcaas_code=$?",
                "hpcaas_end=$EPOCHREALTIME",
                f"times > {job.destination}/times.end",
                f'echo "$hpcaas_begin $hpcaas_end $hpcaas_code" > {job.destination}/wall',
                f"{probe} end {node}",
            ]
            + job.after
            + ["exit $hpcaas_code"]
        )

    @run_before("run")
    def set_launcher(self):
        launcher = InstalledLauncher()
        launcher.argv = _job(self.which).launcher
        self.job.launcher = launcher

    @run_after("run")
    def record(self):
        self.sample = record_run(
            _JOURNAL,
            _job(self.which),
            Path(self.stagedir),
            self.stdout.evaluate(),
            self.stderr.evaluate(),
        )

    @sanity_function
    def ended_well(self):
        sample = self.sample
        return sn.assert_true(sample.ok, msg=f"{sample.status.value}: {sample.diagnosis or ''}")

    @performance_function("s")
    def seconds(self):
        return self.sample.seconds
