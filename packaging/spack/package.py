# Spack's recipe: `spack repo create DIR`, put this into DIR/packages/skerry/, `spack repo add DIR`.
# Without a release to fetch, build a tree of your own: `spack dev-build --source-path TREE skerry`.
from spack.package import *


class Skerry(CMakePackage, PythonExtension):
    """One-sided communication and distributed or mirrored arrays for clusters."""

    license("BSD-3-Clause", checked_by="the Skerry authors")

    version("0.1.0")

    variant("fortran", default=True, description="the Fortran module")
    variant("python", default=False, description="the Python package")
    variant("ofi", default=True, description="libfabric: InfiniBand, RoCE and others")
    variant("mpi", default=False, description="libarmci and windows of MPI programs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("libsodium")
    depends_on("blas")
    depends_on("libfabric@1.3:", when="+ofi")
    depends_on("mpi", when="+mpi")
    with when("+python"):
        extends("python@3.10:")
        depends_on("py-numpy@1.24:", type=("build", "run"))
        depends_on("py-nanobind@2.4:", type="build")
    conflicts("%gcc@:11", msg="needs C++20 of gcc 12 or newer")
    generator("ninja")

    def cmake_args(self):
        args = [
            self.define_from_variant("SKERRY_OFI", "ofi"),
            self.define_from_variant("SKERRY_PYTHON", "python"),
        ]
        if "+fortran" not in self.spec:
            args.append(self.define("CMAKE_Fortran_COMPILER", "NOTFOUND"))
        if "+python" in self.spec:
            args.append(self.define("Python_EXECUTABLE", self.spec["python"].command.path))
            args.append(self.define("SKERRY_PYTHON_SITE", python_platlib))
        return args
