"""Adapters read what their applications print: recorded output, and the same output damaged in the ways that matter."""

import shutil
from pathlib import Path

import pytest

from hpcaas.apps import registry
from hpcaas.apps.base import Context, Installation, Size, Unreadable, installations_from_site
from hpcaas.apps.openfoam import split_in_three
from hpcaas.errors import BadInput, Missing
from hpcaas.model import Configuration
from hpcaas.toolchain import Mpi

RECORDED = Path(__file__).parent / "recorded"
APPS = registry()


def config(app, **more):
    return Configuration(app=app, size="tiny", **more)


def damaged_openfoam(old, new, count=1):
    """What the check says of the recorded output with its last occurrence(s) changed."""
    text = (RECORDED / "openfoam/stdout").read_text()
    parts = text.rsplit(old, count)
    assert len(parts) == count + 1
    app = APPS["openfoam"]
    return app.read(new.join(parts), RECORDED / "openfoam", config("openfoam")).wrong


def test_openfoam_is_checked_by_more_than_a_residual_that_fell():
    """Bug guarded against: a run that skipped an equation or lost mass passed, as the pressure
    residual alone was looked at."""
    assert damaged_openfoam("Solving for k,", "Skipping k,").startswith("'k' was solved for 19")
    assert "no equation for 'Uy'" in damaged_openfoam("Solving for Uy,", "Skipping Uy,", 20)
    worse = damaged_openfoam("Final residual = 0.0226661", "Final residual = 0.9")
    assert "a linear solve for 'Ux' made its residual larger" in worse
    lost = damaged_openfoam("sum local = 0.0576474", "sum local = 0.8")
    assert "mass is not conserved" in lost
    drift = damaged_openfoam("cumulative = -0.0375693", "cumulative = -400")
    assert "mass is not conserved" in drift
    growing = damaged_openfoam("sum local = 0.0576474", "sum local = 0.48")
    assert "continuity error grows" in growing


def test_openfoam(tmp_path):
    app, text = APPS["openfoam"], (RECORDED / "openfoam/stdout").read_text()
    reading = app.read(text, RECORDED / "openfoam", config("openfoam", ranks=2))
    assert (
        reading.wrong == ""
        and reading.seconds == pytest.approx(4.55454)
        and reading.figure.value == pytest.approx(4.55454 / 20)
    )
    assert reading.extra["cells"] == 32668 < 60000 and reading.figure.better == "lower"
    with pytest.raises(Unreadable, match="iteration 12 of 20"):
        app.read(
            text[: text.index("Time = 13")], RECORDED / "openfoam", config("openfoam", ranks=2)
        )
    assert (
        "not finite"
        in app.read(
            text.replace(
                "Solving for Ux, Initial residual = ",
                "Solving for Ux, Initial residual = nan, was ",
                1,
            ),
            RECORDED / "openfoam",
            config("openfoam"),
        ).wrong
    )
    # Without the profile only whole seconds are left, which are refused for a short run.
    with pytest.raises(Unreadable, match="whole seconds"):
        app.read(text, tmp_path, config("openfoam", ranks=2))


@pytest.mark.parametrize(
    "ranks, parts",
    [
        (1, (1, 1, 1)),
        (2, (2, 1, 1)),
        (6, (3, 2, 1)),
        (8, (2, 2, 2)),
        (128, (8, 4, 4)),
        (7, (7, 1, 1)),
    ],
)
def test_openfoam_cuts_the_domain_into_equal_boxes(ranks, parts):
    assert split_in_three(ranks) == parts


def test_openfoam_for_another_mpi_needs_its_source(tmp_path):
    app = APPS["openfoam"]
    debian = Installation("debian", Path("/usr/bin"), options={"project": "/usr/share/openfoam"})
    mpich = Mpi("mpich", "mpich", "4.0.2", "mpirun.mpich", "mpicxx.mpich", ("ucx",))
    openmpi = Mpi("openmpi", "openmpi", "4.1.4", "mpirun", "mpicxx", ())
    assert app.build(config("openfoam"), Context(None, openmpi, debian, {})) is None
    with pytest.raises(Missing, match="apt-get source openfoam"):
        app.build(config("openfoam"), Context(None, mpich, debian, {}))
    root = tmp_path / "openfoam-OpenFOAM-v1912.200626"
    (root / "src/Pstream/mpi").mkdir(parents=True)
    for name in ("UOPwrite.C", "UIPread.C", "UPstream.C", "PstreamGlobals.C"):
        (root / "src/Pstream/mpi" / name).write_text("//")
    build = app.build(
        config("openfoam"), Context(None, mpich, debian, {"openfoam_source": str(root)})
    )
    assert build.products == ["libPstream.so"] and "-DOPENFOAM=1912" in build.flags
    run = app.run(config("openfoam", ranks=2), Context(None, mpich, debian, {}))
    assert run.env["LD_LIBRARY_PATH"].startswith("$HPCAAS_BUILD")


def test_gromacs(tmp_path):
    app = APPS["gromacs"]
    shutil.copy(RECORDED / "gromacs_run.log", tmp_path / "run.log")
    reading = app.read("", tmp_path, config("gromacs", threads=2))
    assert (
        reading.wrong == ""
        and reading.figure.unit == "ns/day"
        and reading.figure.better == "higher"
    )
    assert 285 < reading.extra["temperature_k"] < 315 and reading.extra["simd"] == "SSE4.1"
    assert "used 1 ranks x 2 threads" in app.read("", tmp_path, config("gromacs", ranks=2)).wrong
    text = (tmp_path / "run.log").read_text()
    (tmp_path / "run.log").write_text(text[: text.index("Performance:")])
    with pytest.raises(Unreadable):
        app.read("", tmp_path, config("gromacs", threads=2))


def test_mpas(tmp_path):
    app = APPS["mpas"]
    text = (RECORDED / "mpas_log.atmosphere.0000.out").read_text()
    (tmp_path / "log.atmosphere.0000.out").write_text(text)
    reading = app.read("", tmp_path, config("mpas", ranks=2))
    assert (
        reading.wrong == ""
        and reading.seconds == pytest.approx(24.02778)
        and reading.figure.value == pytest.approx(2.402778)
    )
    assert (
        reading.extra["max_u"] == pytest.approx(35.0789, abs=1e-3)
        and reading.extra["cells"] == 2562
    )
    (tmp_path / "log.atmosphere.0000.out").write_text(
        text.replace("35.0789081571112", "95.0789081571112")
    )
    assert "not the jet's 35" in app.read("", tmp_path, config("mpas")).wrong
    (tmp_path / "log.atmosphere.0000.out").write_text(text[: text.index("Finished running")])
    with pytest.raises(Unreadable):
        app.read("", tmp_path, config("mpas"))


def test_namd():
    app, text = APPS["namd"], (RECORDED / "namd/stdout").read_text()
    reading = app.read(text, RECORDED, config("namd", threads=2))
    assert (
        reading.wrong == ""
        and reading.figure.value == pytest.approx((23.3 - 4.4) / 18)
        and reading.extra["total_0"] == -223539.1745
    )
    assert (
        "step-0 TOTAL"
        in app.read(text.replace("-223539.1745", "-223000.0000"), RECORDED, config("namd")).wrong
    )
    assert (
        "not finite"
        in app.read(text.replace("23251.1001", "   -nan   "), RECORDED, config("namd")).wrong
    )
    # NAMD cuts numbers off at the width of its columns: what blew up is printed as a large finite
    # number.
    assert (
        "blew up"
        in app.read(
            text.replace("   23252.2627", "9999999999.9999"), RECORDED, config("namd")
        ).wrong
    )
    assert (
        "blew up"
        in app.read(
            text.replace("   -337758.3060", " -99999999.9999"), RECORDED, config("namd")
        ).wrong
    )
    # Version 3 says nanoseconds per day on the same line.
    with_days = text.replace("/step, ", "/step, 0.0823 ns/days, ")
    assert (
        app.read(
            with_days.replace("CPU: 4.18, 1/step, 0.0823 ns/days, ", "CPU: 4.18, 1/step  "),
            RECORDED,
            config("namd"),
        ).figure.value
        == reading.figure.value
    )
    with pytest.raises(Unreadable, match="step 18 of 20"):
        app.read(text[: text.index("TIMING: 20")], RECORDED, config("namd"))
    with pytest.raises(Unreadable):
        app.read(text[: text.index("WallClock:")], RECORDED, config("namd"))


def test_namd_reserves_a_thread_for_communication():
    smp = Installation("smp", Path("/opt/namd2"), options={"smp": True})
    mpi = Mpi("openmpi", "openmpi", "4", "mpirun", None)
    assert APPS["namd"].run(config("namd", ranks=4, threads=24), Context(None, mpi, smp, {})).args[
        :2
    ] == ["+ppn", "23"]


def test_namd_and_its_inputs_are_never_fetched():
    app = APPS["namd"]
    assert "licence" in app.find({}).remedy or app.find({}).installations
    with pytest.raises(Missing, match="unpack apoa1 from the NAMD site"):
        app.prepare(config("namd"), Context(None, None, Installation("x", Path("/opt/namd2")), {}))


def test_openradioss(monkeypatch):
    app = APPS["openradioss"]
    ends = {"tiny": 2.0, "small": 5.0}  # of the recorded run, and of one that ended too early
    sizes = {name: Size(name, name, {"neon": end}, 1, 10, 10) for name, end in ends.items()}
    monkeypatch.setattr(app, "sizes", sizes)
    reading = app.read("", RECORDED / "openradioss", config("openradioss"))
    assert (
        reading.wrong == ""
        and reading.seconds == 6.75
        and reading.extra == {"cycles": 4400, "energy_error_percent": -0.4}
    )
    text = (RECORDED / "openradioss/NEON1M11_0001.out").read_text()

    def wrong(changed, size="tiny"):
        return app.read(
            changed, Path("/nowhere"), Configuration(app="openradioss", size=size)
        ).wrong

    assert wrong(text) == "" and "energy error" in wrong(text.replace("-0.4%", "-40.0%"))
    with pytest.raises(Unreadable):
        wrong(text.replace("NORMAL TERMINATION", "ERROR TERMINATION"))
    # The engine ends `normally` too when a limit stops it, a control file breaks it, or the deck
    # asks for less.
    assert "ENERGY ERROR LIMIT" in wrong(
        text.replace("     NORMAL", " ** RUN KILLED: ENERGY ERROR LIMIT REACHED\n     NORMAL")
    )
    with pytest.raises(Unreadable, match="USER BREAK"):
        wrong(text.replace("     NORMAL TERMINATION", "     NORMAL TERMINATION\n     USER BREAK"))
    half = "\n".join(
        line
        for line in text.splitlines()
        if not line.startswith(tuple(f"{100 * k:8d} " for k in range(22, 45)))
    )
    assert "of 2" in wrong(half) and "of 5" in wrong(text, "small")
    assert "of 2" in wrong(text.replace("-0.4%", " NaN%").replace("-0.3%", " NaN%"))
    # What the engine says on the way to its standard output is not the final time.
    on_the_way = " NC=    4300 T= 1.9544E+00 DT= 4.5460E-04 ERR= -0.4% DM/M= 0.0000E+00\n ELAPSED TIME=          6.60 s  REMAINING TIME=          0.15 s\n"
    assert app.read(on_the_way + text, Path("/nowhere"), config("openradioss")).seconds == 6.75


def test_sites_describe_installations_in_four_ways(tmp_path):
    site = {
        "modules_system": "lmod",
        "installations": {
            "namd": [
                {"name": "a", "path": str(tmp_path)},
                {"name": "b", "modules": ["namd/3.0", "fftw"]},
                {"name": "c", "spack": "namd@2.14 %gcc"},
                {"name": "d", "easybuild": "NAMD-2.14-foss-2022a.eb"},
            ]
        },
    }
    found = {i.name: i for i in installations_from_site(site, "namd")}
    assert found["a"].path == tmp_path and found["a"].module_system is None
    assert (found["b"].modules, found["b"].module_system) == (("namd/3.0", "fftw"), "lmod")
    assert (found["c"].modules, found["c"].module_system) == (("namd@2.14 %gcc",), "spack")
    assert (found["d"].modules, found["d"].module_system) == (("NAMD/2.14-foss-2022a",), "lmod")


@pytest.mark.parametrize(
    "entry, words",
    [
        ({"path": "/nowhere/at/all", "name": "x"}, "does not exist"),
        ({"name": "x"}, "exactly one"),
        ({"path": "/"}, "has no name"),
        ({"name": "x", "path": "/", "spack": "y"}, "exactly one"),
    ],
)
def test_bad_installations_are_refused(entry, words):
    with pytest.raises(BadInput, match=words):
        installations_from_site({"installations": {"namd": [entry]}}, "namd")


@pytest.mark.parametrize("name", list(APPS))
def test_every_adapter_says_what_it_must(name):
    app = APPS[name]
    assert all(
        getattr(app, field)
        for field in ("title", "vertical", "origin", "licence", "check", "figure", "sizes", "axes")
    )
    assert all(size.what and (size.omits or size.name == "paper") for size in app.sizes.values())
    state = app.find({})
    assert state.installations or (state.missing and state.remedy)
