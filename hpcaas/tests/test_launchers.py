"""One policy, four launchers' words. The words for OpenMPI and MPICH are also tried on the real ones where installed."""

import subprocess
import os

import pytest

from hpcaas.errors import BadInput
from hpcaas.launchers import launch
from hpcaas.model import Configuration
from hpcaas.toolchain import Mpi, target_flags

OPENMPI4 = Mpi("openmpi", "openmpi", "4.1.4", "mpirun", "mpicxx", ("ob1", "ucx", "ofi"))
OPENMPI5 = Mpi("openmpi5", "openmpi", "5.0.11", "mpirun", "mpicxx", ("ob1", "ucx", "ofi"))
MPICH = Mpi("mpich", "mpich", "4.0.2", "mpiexec", "mpicxx", ("ucx",))
INTEL = Mpi("intelmpi", "intelmpi", "2021.18", "mpiexec.hydra", "mpicxx", ("ofi",))


def config(**values):
    return Configuration(app="a", size="s", **{"ranks": 4, "threads": 2, **values})


def words(mpi, **values):
    return " ".join(launch(config(**values), mpi).argv)


def test_srun_speaks_slurm():
    text = " ".join(
        launch(
            config(
                launcher="srun", nodes=2, binding="cores", distribution="cyclic:block", smt="on"
            ),
            None,
            wide_cores=True,
        ).argv
    )
    assert (
        text
        == "srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=2 --cpu-bind=cores --distribution=cyclic:block --hint=multithread"
    )


def test_auto_is_what_slurm_does_when_asked_to_be_verbose():
    assert "--cpu-bind=verbose" in launch(config(launcher="srun", binding="auto"), None).argv


def test_openmpi_words():
    assert words(OPENMPI4, binding="none") == "mpirun -n 4 --bind-to none --map-by slot"
    assert (
        words(OPENMPI4, binding="cores", distribution="block:block")
        == "mpirun -n 4 --map-by slot:PE=2 --bind-to core"
    )
    assert (
        words(OPENMPI4, binding="cores", distribution="block:cyclic")
        == "mpirun -n 4 --map-by socket:PE=2 --bind-to core"
    )
    assert (
        words(OPENMPI5, binding="sockets", distribution="block:cyclic")
        == "mpirun -n 4 --map-by package --bind-to package"
    )
    assert "--map-by node:PE=2" in words(
        OPENMPI4, binding="cores", distribution="cyclic:block", nodes=2
    )
    assert "-x OMP_NUM_THREADS" in words(OPENMPI4, binding="cores", nodes=2)
    assert "--mca pml ucx" in words(OPENMPI4, framework="ucx")


def test_what_openmpi_cannot_say_is_remarked():
    assert launch(config(nodes=2, binding="cores", distribution="cyclic:cyclic"), OPENMPI4).remarks


def test_hydra_words():
    assert (
        words(MPICH, binding="cores", distribution="block:cyclic")
        == "mpiexec -n 4 -bind-to core:2 -map-by socket"
    )
    assert words(MPICH, binding="auto") == "mpiexec -n 4"
    assert "-ppn 1" in words(MPICH, binding="none", nodes=2, distribution="cyclic:block")
    with pytest.raises(BadInput, match="was built for ucx"):
        words(MPICH, framework="ofi")


def test_intel_speaks_in_variables():
    env = launch(config(binding="cores", distribution="block:cyclic"), INTEL).env
    assert (env["I_MPI_PIN"], env["I_MPI_PIN_DOMAIN"], env["I_MPI_PIN_ORDER"]) == (
        "1",
        "omp",
        "scatter",
    )
    assert launch(config(binding="none"), INTEL).env["I_MPI_PIN"] == "0"
    with pytest.raises(BadInput, match="ofi only"):
        launch(config(framework="ucx"), INTEL)


def test_threads_are_told_too():
    assert launch(config(binding="cores"), MPICH).env["OMP_PLACES"] == "cores"
    assert launch(config(binding="none"), OPENMPI4).env["OMP_NUM_THREADS"] == "2"


def test_without_an_mpi_there_is_one_rank():
    assert launch(config(ranks=1), None).argv == []
    with pytest.raises(BadInput, match="need an MPI"):
        launch(config(), None)


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
@pytest.mark.parametrize("binding", ["none", "cores", "sockets", "auto", "threads"])
def test_the_real_launchers_understand_every_binding(tools, name, binding):
    if name not in tools.mpis:
        pytest.skip(f"{name} is not installed")
    built = launch(config(ranks=1, threads=1, binding=binding), tools.mpis[name])
    done = subprocess.run(  # of `true`, MPICH can die of SIGPIPE: input to who has ended
        [*built.argv, "sleep", "0.2"],
        capture_output=True,
        text=True,
        env={**os.environ, **built.env},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_targets_of_the_paper_are_known_to_every_compiler():
    assert target_flags("gcc", "rome") == ["-march=znver2"]
    assert target_flags("cray", "genoa") == ["-hcpu=x86-genoa"]
    assert target_flags("gcc", "baseline") == []
