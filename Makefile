# What one does with dtrain, by name. `make` lists it. Everything that a target needs it installs itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell scripts/jobs.sh)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
PREFIX ?= /usr/local
# Tests wait for processes, sockets and deadlines for a third of their time.
TEST_JOBS ?= $(shell expr $(JOBS) + \( $(JOBS) + 1 \) / 2)
# Extra arguments of ctest, e.g. CTEST_ARGS='-R store', and of the benchmarks, e.g. BENCH_ARGS=--help.
CTEST_ARGS ?=
BENCH_ARGS ?=

# $(call build,PRESET,TARGETS): configure (about a second if nothing changed) and build.
build = scripts/configure.sh $(1) && cmake --build --preset $(1) $(if $(2),--target $(2))
test = ctest --preset $(1) -j $(TEST_JOBS) $(CTEST_ARGS)

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | \
	  while IFS=$$'\t' read -r name what; do printf '  make %-13s %s\n' "$$name" "$$what"; done

##  Use

.PHONY: demo
demo: ## set up, build, and train on handwritten digits with two workers
	@scripts/setup.sh launcher train
	@$(call build,demo,dtrain train)
	@echo '$$ cd build/bin && ./dtrain run --nproc 2 ./train --lr=0.01'
	@cd build/bin && ./dtrain run --nproc 2 ./train --lr=0.01

.PHONY: launcher
launcher: ## build build/bin/dtrain alone, without LibTorch
	@scripts/setup.sh launcher
	@$(call build,launcher,dtrain)

.PHONY: library
library: ## build the training layer for C++ programs
	@scripts/setup.sh launcher train
	@$(call build,demo,dtrain_strategies)

.PHONY: install
install: launcher library ## install the launcher and the training layer into PREFIX (/usr/local)
	@cmake --install build --prefix $(PREFIX) --strip --component launcher
	@cmake --install build --prefix $(PREFIX) --strip --component library

.PHONY: install-launcher
install-launcher: launcher ## install the launcher alone, without LibTorch, into PREFIX
	@cmake --install build --prefix $(PREFIX) --strip --component launcher

.PHONY: deb
deb: launcher library ## build the Debian packages dtrain and libdtrain-dev into build/package
	@cd build && cpack --config CPackConfig.cmake

.PHONY: wheel
wheel: ## build the pip wheel and the sdist into build/wheel/dist
	@scripts/setup.sh wheel
	@scripts/wheel.sh

.PHONY: setup
setup: ## install everything that any target here needs
	@scripts/setup.sh launcher train test docs lint tidy fuzz packages bench wheel peers

##  Test

.PHONY: test
test: ## set up, build everything and run all tests
	@scripts/setup.sh launcher train test peers
	@$(call build,release)
	@$(call test,release)

.PHONY: check
check: lint ## format, tidy, layering, unit tests, a short simulation, goldens: two minutes, no LibTorch
	@scripts/setup.sh launcher test tidy
	@$(call build,check)
	@scripts/clang_tidy.sh build/check
	@$(call test,check) -L '^(unit|sim|check)$$'

.PHONY: lint
lint: ## the parts of check that need no compiler
	@scripts/setup.sh lint
	@scripts/format.sh --check
	@scripts/tidy.py

.PHONY: format
format: ## write the sources as clang-format wants them
	@scripts/setup.sh lint
	@scripts/format.sh

.PHONY: tidy
tidy: ## the project's own rules, then clang-tidy over rendezvous, launcher and cli
	@scripts/setup.sh launcher test tidy
	@scripts/tidy.py
	@cmake --preset tidy -Wno-dev --log-level=WARNING >/dev/null
	@scripts/clang_tidy.sh build/tidy --all

.PHONY: asan
asan: ## all tests under AddressSanitizer and UBSan
	@scripts/setup.sh launcher train test
	@$(call build,asan)
	@$(call test,asan)

.PHONY: tsan
tsan: ## all tests under ThreadSanitizer
	@scripts/setup.sh launcher train test
	@$(call build,tsan)
	@$(call test,tsan)

.PHONY: fuzz
fuzz: ## run every fuzzer for FUZZ_SECONDS (60) each
	@scripts/setup.sh launcher test fuzz
	@$(call build,fuzz)
	@scripts/fuzz.sh build/fuzz $${FUZZ_SECONDS:-60}

.PHONY: sim
sim: ## simulate SEEDS (100000) jobs: the group, the rounds, whole jobs and their store under faults
	@scripts/setup.sh launcher test
	@$(call build,sim,sim_tests)
	@DTRAIN_SIM_COUNT=$${SEEDS:-100000} $(call test,sim) -L '^sim$$'

.PHONY: planted
planted: ## plant each of test/sim/planted and demand that the simulator finds it
	@scripts/setup.sh launcher
	@scripts/planted.py

.PHONY: soak
soak: ## start and end CYCLES (2000) jobs, one host and two, in every way; nothing may be left
	@scripts/setup.sh launcher test
	@$(call build,check,dtrain hostile)
	@DTRAIN_BIN_DIR=build/check/bin python3 -B test/process/netlab/cycles_soak.py --cycles $${CYCLES:-2000}

.PHONY: soak-syscalls
soak-syscalls: ## let each system call of dtrain's fail once, on each level of containment; nothing may be left
	@scripts/setup.sh launcher test
	@$(call build,check,dtrain hostile fail_call)
	@DTRAIN_BIN_DIR=build/check/bin python3 -B test/process/launcher/soak_syscalls.py

.PHONY: soak-kills
soak-kills: ## torch DDP on four hosts of a lab through ROUNDS (50) random kills; no step may be missing
	@scripts/setup.sh launcher train test
	@$(call build,check,dtrain hostile)
	@DTRAIN_BIN_DIR=build/check/bin .venv/bin/python -B test/process/torch/kills_soak.py --rounds $${ROUNDS:-50}

.PHONY: soak-kept
soak-kept: ## SIGKILL of a rank KILLS (1000) times while the launcher keeps the state; no completed step may be lost
	@scripts/setup.sh launcher train test
	@$(call build,release,dtrain kept_worker)
	@DTRAIN_BIN_DIR=build/bin DTRAIN_TEST_BIN_DIR=build/test/bin DTRAIN_TEST_KILLS=$${KILLS:-1000} \
	  .venv/bin/python -B test/process/torch/kept_state_test.py KeptState.test_a_killed_rank_costs_no_completed_step

.PHONY: soak-checkpoint
soak-checkpoint: ## kill examples/gpt while it starts, loads, trains and saves, SEEDS (100) times; it must go on to the same losses
	@scripts/setup.sh launcher train test
	@$(call build,release,dtrain gpt)
	@DTRAIN_BIN_DIR=build/bin DTRAIN_TEST_KILLS=$${SEEDS:-100} .venv/bin/python -B test/process/torch/gpt_kills_test.py

.PHONY: soak-headline
soak-headline: ## one rank fails in every way, TRIALS (200) times, on one host and three; the report must name it
	@scripts/setup.sh launcher train test
	@$(call build,release,dtrain dtrain_python headline_worker)
	@DTRAIN_BIN_DIR=build/bin .venv/bin/python -B test/process/torch/headline_soak.py --trials $${TRIALS:-200}
	@DTRAIN_BIN_DIR=build/bin .venv/bin/python -B test/process/torch/headline_soak.py --trials $${TRIALS:-200} --hosts 3

.PHONY: soak-harms
soak-harms: ## kill and stop ranks inside collectives, SEEDS (1000) times; the right one must be named
	@scripts/setup.sh launcher train test
	@$(call build,release,harms_test)
	@DTRAIN_SIM_COUNT=$${SEEDS:-1000} build/test/bin/harms_test

.PHONY: soak-loss
soak-loss: ## a job over a slow network that loses and stalls, for MINUTES (60); no node may be given up
	@scripts/setup.sh launcher test
	@$(call build,check,dtrain hostile)
	@DTRAIN_BIN_DIR=build/check/bin python3 -B test/process/netlab/loss_soak.py --minutes $${MINUTES:-60}

.PHONY: test-torchrun
test-torchrun: ## beside torchrun 2.15 and 2.11: the command lines, Lightning, Accelerate, 50 restarts
	@scripts/setup.sh launcher train test peers
	@TORCH=2.11 scripts/setup.sh train
	@$(call build,release)
	@DTRAIN_RESTARTS=50 $(call test,release) -R '^torchrun'
	@DTRAIN_BIN_DIR=build/bin python3 test/process/torchrun/compare_test.py .venv-torch2.11/bin/python

.PHONY: test-oldest-torch
test-oldest-torch: ## build with the oldest torch that is supported, and run the tests that use torch
	@scripts/setup.sh launcher train test
	@TORCH=2.11 scripts/setup.sh train
	@$(call build,oldest-torch)
	@$(call test,oldest-torch) -L '^torch$$' -E '^torchrun'

.PHONY: test-packages
test-packages: ## install dtrain in every way, also in a bare Debian (root), and build projects that use the library
	@scripts/setup.sh launcher train test packages wheel
	@$(call build,release)
	@scripts/wheel.sh
	@DTRAIN_TEST_ALL=1 python3 -B test/process/packages/cmake_test.py build
	@DTRAIN_TEST_ALL=1 python3 -B test/process/packages/wheel_test.py build .venv/bin/python
	@DTRAIN_TEST_ALL=1 python3 -B test/process/packages/deb_test.py build .venv/bin/python
	@DTRAIN_TEST_ALL=1 python3 -B test/process/packages/bare_test.py .venv/bin/python

.PHONY: bench-launch
bench-launch: ## measure dtrain beside torchrun and mpirun; writes docs/benchmarks
	@scripts/setup.sh launcher train test bench
	@$(call build,bench)
	@python3 test/bench/launch/run.py --write docs/benchmarks $(BENCH_ARGS)

.PHONY: bench-engines
bench-engines: ## measure what dtrain adds to ssh, mpirun, mpiexec, srun, Ray and Spark, and ends without them; writes docs/benchmarks
	@scripts/setup.sh launcher train test bench
	@$(call build,release,dtrain survivors_worker dtrain_python)
	@python3 test/bench/engines/run.py --write docs/benchmarks $(BENCH_ARGS)

.PHONY: engines-matrix
engines-matrix: ## let jobs fail in each way under each engine, and under torchrun and TorchDistributor; writes docs/engines.md
	@scripts/setup.sh launcher train test peers
	@$(call build,release,dtrain train)
	@DTRAIN_BIN_DIR=build/bin python3 -B test/process/engines/matrix.py --peers --write docs/engines.md $(BENCH_ARGS)

.PHONY: bench-rendezvous
bench-rendezvous: ## measure nodes lost, rounds of thousands, links, the store across nodes; writes docs/benchmarks
	@scripts/setup.sh launcher test bench
	@$(call build,bench)
	@python3 test/bench/rendezvous/run.py --build build --write docs/benchmarks $(BENCH_ARGS)

.PHONY: bench-collectives
bench-collectives: ## measure collectives beside gloo and OpenMPI, and DDP; writes docs/benchmarks
	@scripts/setup.sh launcher train test bench
	@$(call build,bench)
	@python3 test/bench/collectives/run.py --build build --write docs/benchmarks $(BENCH_ARGS)

.PHONY: bench-checkpoint
bench-checkpoint: ## measure checkpoints beside raw writes and Python's; writes docs/benchmarks
	@scripts/setup.sh launcher train test
	@$(call build,bench)
	@python3 test/bench/checkpoint/run.py --build build --write docs/benchmarks $(BENCH_ARGS)
	@python3 test/bench/checkpoint/background.py --build build --write docs/benchmarks
	@$(call build,release,kept_worker)
	@python3 test/bench/checkpoint/kept.py --build build --write docs/benchmarks

.PHONY: bench-build
bench-build: ## measure builds from bare clones, sizes and starts; writes docs/benchmarks
	@scripts/setup.sh launcher train wheel
	@python3 test/bench/build/run.py --write docs/benchmarks $(BENCH_ARGS)
	@$(call build,demo,dtrain dtrain_strategies) && (cd build && cpack --config CPackConfig.cmake) && scripts/wheel.sh
	@python3 test/bench/build/sizes.py --write docs/benchmarks

.PHONY: bench-gpu
bench-gpu: ## measure training and all_reduce on GPUs beside Python (PY=python with a full CUDA torch)
	@scripts/setup.sh launcher train test bench
	@cmake --preset cuda -DDTRAIN_BENCH=ON -Wno-dev --log-level=WARNING $(if $(PY),-DDTRAIN_TORCH_PYTHON=$(PY)) >/dev/null
	@cmake --build --preset cuda --target dtrain gpu_bench
	@python3 test/bench/gpu/run.py --build build/cuda --python $(or $(PY),.venv/bin/python) $(BENCH_ARGS)

.PHONY: bench-optim
bench-optim: ## measure AdamW beside LibTorch's and beside copying, and with state on disk; writes docs/benchmarks
	@scripts/setup.sh launcher train test bench
	@$(call build,bench,optim_bench state_bench)
	@python3 test/bench/optim/run.py --build build --write docs/benchmarks $(BENCH_ARGS)
	@python3 test/bench/optim/state.py --build build --write docs/benchmarks

.PHONY: bench-sharding
bench-sharding: ## measure steps, memory and prices of each strategy beside Python's DDP and FSDP2; writes docs/benchmarks
	@scripts/setup.sh launcher train test bench
	@$(call build,bench,dtrain gpt memory_bench price_bench unshard_bench)
	@python3 test/bench/sharding/run.py --build build --python .venv/bin/python --write docs/benchmarks $(BENCH_ARGS)

.PHONY: bench-data
bench-data: ## measure reading of Parquet files beside Ray Data, Grain, Lance and others, how well rows are mixed, and preprocessing beside Polars and Dask; writes docs/benchmarks
	@scripts/setup.sh launcher train test bench loaders
	@$(call build,bench,loader_bench node_bench dtrain_data_c dtrain_python dtrain-data)
	@python3 test/bench/data/run.py --build build --python .venv/bin/python --peers .venv-loaders/bin/python --write docs/benchmarks $(BENCH_ARGS)
	@.venv/bin/python -W ignore test/bench/data/quality.py --build build --write docs/benchmarks
	@python3 test/bench/data/preprocess.py --build build --python .venv/bin/python --polars .venv-loaders/bin/python \
	  --dask .venv-spark/bin/python --write docs/benchmarks

.PHONY: bench-resnet
bench-resnet: ## measure how the ResNet example scales, beside Python's DDP; writes docs/benchmarks
	@scripts/setup.sh launcher train test bench
	@$(call build,bench)
	@python3 test/bench/resnet/run.py --build build --write docs/benchmarks --plot docs/resnet-scaling.svg $(BENCH_ARGS)

.PHONY: test-gpu
test-gpu: ## build with NCCL and test on this machine's GPUs (PY=python with a full CUDA torch; GPU_TESTS=CLASS...)
	@scripts/setup.sh launcher train test
	@cmake --preset cuda -Wno-dev --log-level=WARNING $(if $(PY),-DDTRAIN_TORCH_PYTHON=$(PY)) >/dev/null
	@cmake --build --preset cuda --target dtrain train resnet three_ways every_call ddp_steps gpu_worker dtrain_python
	@# 77: skipped. The suite has said what this machine lacks.
	@DTRAIN_BIN_DIR=build/cuda/bin $(or $(PY),.venv/bin/python) -B test/process/gpu/gpu_test.py $(GPU_TESTS) || test $$? = 77

##  Keep

.PHONY: docs
docs: ## build the documentation as a site with a search and an API reference, in build/docs
	@scripts/setup.sh docs
	@.venv-docs/bin/python -B scripts/site/build.py

.PHONY: picture
picture: demo ## record the README's terminal picture anew
	@python3 scripts/record_terminal.py docs/demo.svg --cwd build/bin -- ./dtrain run --nproc 2 ./train --lr=0.01

.PHONY: clean
clean: ## remove what was built (the .venv and .cache stay)
	rm -rf build
