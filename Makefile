# Thin front doors; the work is done by CMake, tools/ and the programs themselves.
JOBS ?= $(shell nproc)
PRESET ?= release
export PYTHONPATH := $(CURDIR)/build/python

.PHONY: help setup build demo demo-hosts test test-hosts test-launchers test-fresh test-rdma test-armci test-nwchem bench bench-quick bench-armci sim format clean
.DEFAULT_GOAL := help

help:            ## what there is to make
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:           ## install what the build, the tests and the demo need (root), or say what to install
	@tools/setup.sh

# configure PRESET: quiet unless it fails.
configure = cmake --preset $(1) > build.log 2>&1 || { cat build.log; exit 1; }; rm -f build.log

build: setup     ## build what users install into build/
	@$(call configure,$(PRESET))
	@cmake --build --preset $(PRESET) -j $(JOBS)

.PHONY: all
all: setup       ## build everything: also tests, examples and the laboratory
	@$(call configure,all)
	@cmake --build --preset all -j $(JOBS)

demo: setup      ## density-functional theory on 4 ranks and 2 virtual nodes, distributed and mirrored: out/demo.png, out/demo.json
	@$(call configure,$(PRESET))
	@began=$$(date +%s); \
	  cmake --build --preset $(PRESET) -j $(JOBS) --target skerry_python skerry_program && \
	  echo "built in $$(($$(date +%s) - began)) s"
	@.venv/bin/python examples/dft/demo.py

demo-hosts: build ## the same on 4 hosts made of network namespaces, at 100 Mbit/s and unshaped (root)
	@.venv/bin/python examples/dft/demo_hosts.py

.PHONY: demo-failure
demo-failure: build ## the same on 4 hosts, of which one is lost: out/demo-failure.svg (root)
	@.venv/bin/python examples/dft/demo_failure.py; status=$$?; [ $$status = 77 ] || exit $$status

test: setup    ## what finds most a second: units, jobs, Python, documents; minutes, build included
	@$(call configure,tests)
	@cmake --build --preset tests -j $(JOBS)
	@tools/test.sh

.PHONY: test-rest test-all test-lab-sanitized
test-rest: all ## all other tests that need no root, VM or peer library, sanitizers among them
	@tools/test.sh --rest

test-all:      ## make test, then make test-rest and test-split
	@$(MAKE) test
	@$(MAKE) test-rest
	@$(MAKE) test-split

.PHONY: test-split
test-split: setup ## compile every file (or those of TARGETS) by itself: missing includes show
	@cmake --preset split > /dev/null
	@cmake --build --preset split -j $(JOBS) $(if $(TARGETS),--target $(TARGETS))

test-lab-sanitized: ## the laboratory's own tests under AddressSanitizer
	@cmake --preset asan -B build-lab-asan -DSKERRY_LAB=ON > /dev/null
	@cmake --build build-lab-asan -j $(JOBS) --target checked
	@ctest --test-dir build-lab-asan/lab -LE no_sanitizers --output-on-failure -j 2

test-hosts: all ## separate hosts (network namespaces; root), started by skerry, OpenMPI and MPICH
	@tools/setup.sh --with-peers
	@tools/test_hosts.sh

.PHONY: test-slurm
test-slurm:      ## HPCaaS-Bench on a Slurm cluster of two hosts (network namespaces; root)
	@$(MAKE) -C hpcaas test-slurm

test-launchers: all ## the same binary under mpirun, prterun and hydra on this host
	@tools/setup.sh --with-peers
	@ctest --test-dir build -L launchers --output-on-failure

.PHONY: test-srun
test-srun: build ## a program under srun and qsub, on a Slurm cluster of two hosts (root)
	@$(MAKE) -C hpcaas deps-slurm
	@testbed/hosts.sh run 2 -- .venv/bin/python tests/launchers/slurm.py

test-fresh:      ## follow the README in a fresh Debian (root, debootstrap)
	@tools/test_fresh.sh

.PHONY: test-packages site
test-packages: all ## every package that can be built here, installed and used (root)
	@tools/setup.sh --with-peers --with-packaging
	@$(call configure,all)
	@cmake --build --preset all -j $(JOBS)
	@.venv/bin/python tests/packages/run.py

site:            ## all pages and the reference of C, C++, Fortran and Python, searchable: out/site
	@[ -e .venv-site/.complete ] || { python3 -m venv .venv-site && \
	  .venv-site/bin/pip install -q 'mkdocs-material>=9.5,<10' && touch .venv-site/.complete; }
	@NO_MKDOCS_2_WARNING=1 .venv-site/bin/python tools/site.py

.PHONY: chaos models
chaos: all     ## break BREAKS (10000) connections under a storm on 4 hosts, then let unauthenticated peers attack one, then kill DEATHS (200) ranks of jobs with spares, then add hosts to others: out/chaos.json, out/deaths.json (root)
	@tests/chaos/chaos.py $(if $(BREAKS),--breaks $(BREAKS))
	@tests/chaos/unauthenticated.py
	@tests/chaos/deaths.py $(if $(DEATHS),--deaths $(DEATHS))
	@.venv/bin/python tests/chaos/elastic.py

.PHONY: soak
soak: all      ## storms in random shapes (threads, caps, sharing, breaks, locks) for MINUTES (60)
	@tests/soak/soak.py --minutes $(or $(MINUTES),60)

models: setup    ## search the protocols' models completely, also the larger configurations (spin; minutes, 2 GB)
	@lab/models/check.py --long

.PHONY: test-adapters
test-adapters: setup ## jobs over libfabric's software providers of datagrams
	@$(call configure,tests)
	@cmake --build --preset tests -j $(JOBS)
	@tests/adapters.py

test-rdma: all ## operation tests over verbs on software InfiniBand in a VM (root, qemu)
	@tools/test_rdma.sh

test-armci: all ## C and Fortran programs over Debian's Global Arrays on our libarmci; as root also on several hosts
	@tools/setup.sh --with-peers
	@$(call configure,all)
	@cmake --build --preset all -j $(JOBS)
	@tests/armci/run.py

.PHONY: test-mpi
test-mpi: all  ## MPI programs, windows on ours, under each MPI (root: on hosts too)
	@tools/setup.sh --with-peers
	@$(call configure,all)
	@cmake --build --preset all -j $(JOBS)
	@tests/mpi/run.py --fetch --hosts

.PHONY: test-mpi-sanitized
test-mpi-sanitized: ## MPI windows under sanitizers: mpi_check
	@for kind in asan=address,undefined tsan=thread; do preset=$${kind%%=*}; \
	  cmake --preset $$preset -B build-mpi-$$preset -DSKERRY_JOBS=ON > /dev/null && \
	  cmake --build build-mpi-$$preset -j $(JOBS) \
	    --target skerry_program skerry_mpi skerry_mpi_all && \
	  tests/mpi/run.py --build build-mpi-$$preset --sanitize $${kind#*=} --quick \
	    --mpi openmpi4 --mpi mpich4 || exit 1; \
	done

.PHONY: test-array-api
test-array-api: build ## the array API's own tests on skerry.xp: out/array_api.json
	@.venv/bin/python tests/array_api/run.py

.PHONY: test-numpy
test-numpy: build ## NumPy's own tests on divided arrays too, 1 to 4 ranks: out/numpy.json
	@.venv/bin/python tests/numpy/run.py

.PHONY: test-array-libraries
test-array-libraries: build ## programs and libraries of others on arrays: out/array_libraries.json
	@.venv/bin/python tests/array_api/libraries.py

test-nwchem: all ## NWChem's own tests on our libarmci: builds Debian's NWChem in NWCHEM_CACHE, by default ~/.cache/skerry-nwchem (2 GB)
	@tools/test_nwchem.sh

bench: all     ## the benchmark table beside the machine's limits and peers: out/bench.json
	@lab/bench/micro/bench.py

bench-quick: all ## the same in a minute, rougher
	@lab/bench/micro/bench.py --quick

bench-armci: all ## our libarmci beside ARMCI-MPI and, with COMEX=PREFIX, ComEx MPI-PR: out/armci.json (hosts: root)
	@lab/bench/armci/bench.py $(if $(COMEX),--comex $(COMEX))

sim: all       ## simulate the connection caps of the ACTS paper's jobs: out/sim.json, out/sim.png (an hour; figures are simulated)
	@build/bin/skerry-sim paper
	@.venv/bin/python lab/sim/figure.py out/sim.json

.PHONY: bench-locks
bench-locks: all ## locks of windows beside four MPIs: out/locks.json, .svg (hosts: root)
	@tools/setup.sh --with-peers
	@.venv/bin/python lab/bench/locks/bench.py

.PHONY: bench-locks-rdma
bench-locks-rdma: all ## the same over software RoCE in a VM: out/locks_rdma.json (root, qemu)
	@lab/bench/locks/rdma.py

.PHONY: bench-collectives
bench-collectives: all ## collective calls beside OpenMPI and MPICH: out/collectives.json
	@.venv/bin/python lab/bench/collectives/bench.py

.PHONY: bench-mpi
bench-mpi: all ## unmodified MPI programs, stock and preloaded: out/mpi.json, .svg (hosts: root)
	@tools/setup.sh --with-peers
	@.venv/bin/python lab/bench/mpi/bench.py

.PHONY: bench-arrays
bench-arrays: all ## arrays beside NumPy, Heat, Dask, GA: out/arrays.json, .png (5 GB of peers)
	@tools/setup.sh --with-peers
	@.venv/bin/python lab/bench/arrays/bench.py

.PHONY: bench-npbench
bench-npbench: all ## NPBench beside NumPy; NPBENCH=DIR, a checkout: out/npbench.json, .png
	@.venv/bin/python lab/bench/arrays/npbench.py $(or $(NPBENCH),none)

.PHONY: bench-life
bench-life: all ## what programs make and free, jobs started and ended: out/life.json
	@tools/setup.sh --with-peers
	@.venv/bin/python lab/bench/life/bench.py

.PHONY: bench-acts
bench-acts: all ## what a bound on connections costs: 64 and 32 virtual nodes at several caps: out/acts.json, out/acts.png
	@.venv/bin/python lab/bench/acts/acts.py

.PHONY: bench-clusters
bench-clusters: all ## cost and gain of clusters of data servers: out/clusters.json, .png
	@.venv/bin/python lab/bench/clusters/clusters.py

format:          ## clang-format over the C and C++ sources
	@git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format -i

clean:           ## remove what was built (not .venv, not out)
	@rm -rf build build-*
