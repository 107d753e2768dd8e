"""The ReFrame tests. One class per kind of job; a job is a test parameter and carries everything
that is needed.

ReFrame gives the pipeline, the schedulers, modules, time limits, stage directories and its own
session database. The launcher and what is recorded beside a run are ours: its built-in launchers
call a bare `mpirun`.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher, register_launcher
from reframe.core.containers import ContainerPlatform, Docker
from reframe.core.launchers import JobLauncher

from hpcaas.running.jobs import Job
from hpcaas.running.record import PRINTED_BYTES, append, record_run

_BATCH = json.loads(Path(os.environ["HPCAAS_BATCH"]).read_text())
_JOBS = [Job.model_validate(j) for j in _BATCH["jobs"]]
_JOURNAL = Path(_BATCH["journal"])
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


class Podman(Docker):
    """Podman takes Docker's words. ReFrame has no platform of that name. Nothing is pulled: what
    runs is what is there."""

    def emit_prepare_commands(self, stagedir):
        return []

    def launch_command(self, stagedir):
        return "podman run --pull=never" + super().launch_command(stagedir).removeprefix(
            "docker run"
        )


# Ranks of one job must see each other, and their environment, as if there were no container.
_OPEN = ["--net=host", "--ipc=host", "--pid=host"]
_OPTIONS = {"Podman": [*_OPEN, "--env-host"], "Docker": _OPEN}


def container(job: Job, command: str, stage: str):
    """ReFrame's platform for a job's image. Paths are the same inside and outside, so that a build
    or an input is found."""
    wanted = job.container
    platform = (
        Podman() if wanted.platform == "Podman" else ContainerPlatform.create(wanted.platform)
    )
    platform.image, platform.command, platform.pull_image = wanted.image, command, False
    # .../cache/build/KEY and .../CAMPAIGN/records/ID both lie in the directory of --out
    places = [str(Path(job.destination).parents[2]), stage, *wanted.mounts]
    platform.mount_points = [(place, place) for place in dict.fromkeys(places)]
    platform.mount_stagedir, platform.workdir = None, stage
    platform.options = [*_OPTIONS.get(wanted.platform, []), *wanted.options]
    return platform


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
    """A build, with its log kept. It is a run-only test so that a scheduler may place it and a time
    limit holds."""

    which = parameter(_named("build") + _named("prepare"))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    # Builds run where the program will: its compiler then sees the processor that it builds for.
    local = _BATCH["build_here"]

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
        self.postrun_cmds = ['echo "hpcaas-done on $(cat /proc/sys/kernel/hostname)"']

    @run_before("run")
    def place(self):
        self.job.launcher = getlauncher("local")()
        job = _job(self.which)
        if job.container:
            script = Path(self.stagedir) / "hpcaas_job.sh"
            script.write_text("\n".join(["set -e", *job.commands]) + "\n")
            self.prerun_cmds = [f": hpcaas job {job.id}", "set -e"]
            self.container_platform = container(job, f"bash {script}", self.stagedir)

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
        """Moves the result to the cache in one step: a cache entry is whole or absent, also after
        Ctrl-C."""
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
        words = (Path(self.stagedir) / self.stdout.evaluate()).read_text(errors="replace")
        append(_JOURNAL, {"done": job.id, "host": words.rpartition("hpcaas-done on ")[2].strip()})


@rfm.simple_test
class LookJob(rfm.RunOnlyRegressionTest, _Common):
    """Asks every node of a job what it is."""

    which = parameter(_named("look"))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]

    @run_after("init")
    def describe(self):
        job = _job(self.which)
        self.descr = job.id
        self._apply(job)
        self.sourcesdir = None
        self.num_tasks, self.num_tasks_per_node = job.nodes, 1
        # The whole node: a job that gets some CPUs only would describe those.
        self.exclusive_access = True
        Path(job.destination).mkdir(parents=True, exist_ok=True)
        self.executable = sys.executable
        self.executable_opts = ["-m", "hpcaas.running.node_profile", job.destination]

    @sanity_function
    def all_answered(self):
        job = _job(self.which)
        answers = len(list(Path(job.destination).glob("*.json")))
        return sn.assert_eq(answers, job.nodes, msg=f"{answers} of {job.nodes} nodes answered")


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
        self.num_gpus_per_node = job.gpus_per_node or None
        self.exclusive_access = True
        self.executable = job.executable
        self.executable_opts = job.args
        watch = Path(job.destination) / "watch"
        shutil.rmtree(watch, ignore_errors=True)
        watch.mkdir(parents=True)
        self.env_vars.update(
            HPCAAS_WATCH=str(watch),
            HPCAAS_PYTHON=sys.executable,
            HPCAAS_WATCHER=str(_HERE / "watch.py"),
            HPCAAS_STACK=job.stack,
            HPCAAS_WATCH_EARLY="yes" if _BATCH["remote"] else "no",
        )
        here = f"{sys.executable} -S -E {_HERE}"
        probe, left = f"{here}/node_probe.py", f"{here}/leftovers.py"
        node = Path(job.destination) / "node.json"
        # bash's `times` is the only portable account of the CPU time of everything that the
        # launcher started and waited for.
        self.prerun_cmds = job.before + [
            f"{probe} begin {node}",
            # A program that prints without end is cut, before it fills the disk.
            "exec 5>&1 6>&2",
            f"exec 1> >(exec head -c {PRINTED_BYTES} >&5); hpcaas_out=$!",
            f"exec 2> >(exec head -c {PRINTED_BYTES} >&6); hpcaas_err=$!",
            f"times > {job.destination}/times.begin",
            # The kernel's own clock beside the one that can be set.
            "read -r hpcaas_up _ < /proc/uptime",
            "hpcaas_begin=$EPOCHREALTIME",
        ]
        self.postrun_cmds = (
            [
                "hpcaas_code=$?",
                "hpcaas_end=$EPOCHREALTIME",
                "read -r hpcaas_down _ < /proc/uptime",
                f"times > {job.destination}/times.end",
                'echo "$hpcaas_begin $hpcaas_end $hpcaas_code $hpcaas_up $hpcaas_down"'
                f" > {job.destination}/wall",
                f"{probe} end {node}",
                "exec 1>&5 2>&6 5>&- 6>&-",
                f"{left} {watch} {job.destination}/left.json $hpcaas_out $hpcaas_err",
            ]
            + job.after
            + ["exit $hpcaas_code"]
        )

    @run_before("run")
    def set_launcher(self):
        job = _job(self.which)
        launcher = InstalledLauncher()
        # rank.sh stays outside a container: it writes down where the launcher put the rank.
        launcher.argv = [*job.launcher, str(_HERE / "rank.sh")]
        self.job.launcher = launcher
        if job.container:
            command = " ".join([job.executable, *job.args])
            self.container_platform = container(job, command, self.stagedir)

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
