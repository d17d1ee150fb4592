# `make demo` and `make test` need nothing before them but Python 3.11 or newer and cargo.

PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(shell \
	$(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)))
CARGO ?= $(firstword $(shell command -v cargo 2>/dev/null) $(wildcard $(HOME)/.cargo/bin/cargo))
VENV := .venv
OLDEST := .venv-oldest
REFERENCE := .venv-reference
LIBTPU := .libtpu
INPUTS := pyproject.toml rust/Cargo.toml rust/Cargo.lock rust/build.rs \
	$(shell find rust/src -name '*.rs')
PYTEST := -m pytest -n 2 --dist loadfile -q
QUICK := -m "not thorough"

JPEG_BENCH := rust/bench/Cargo.toml

.PHONY: bench-jpeg demo test test-failed test-thorough test-keras test-tutorials test-oldest test-newest-python test-newest-essential lint \
	lint-rust test-rust test-reference test-slurm test-postgresql install-services test-ssh test-ray \
	test-kubernetes test-console install-browser test-tpu test-tpu-essential fuzz coverage bench docs install install-oldest \
	install-reference clean

demo: install
	$(VENV)/bin/drumline demo

test: install
	@rm -f $(ENDED)
	$(VENV)/bin/python $(PYTEST) $(QUICK) --ignore=tests/jobs/slurm --ignore=tests/jobs/kubernetes \
		--ignore=tests/jobs/engines/ssh --ignore=tests/jobs/console \
		|| { status=$$?; echo $$status >$(ENDED); exit $$status; }

# The tests that failed in the run before, at most three of them, with nothing beside them. A run that
# was cut short, as by an error of pytest's own, has another status than 1, and did not run them all.
ENDED := .pytest_cache/ended
test-failed: install
	@grep -qx 1 $(ENDED) || { echo "make test did not run to its end."; exit 1; }
	@$(VENV)/bin/python -c 'import json, sys; failed = json.load(open(".pytest_cache/v/cache/lastfailed")); \
		print("Failed, and run again alone:", *failed, sep="\n"); sys.exit(not 0 < len(failed) <= 3)'
	$(VENV)/bin/python -m pytest -n 0 -q --last-failed

# A real Slurm of two nodes on this machine; as root, which starts its services.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n -E)
install-services:
	scripts/install_services.sh
	scripts/install_services.sh apptainer

test-slurm: install install-services
	$(AS_ROOT) env DRUMLINE_REQUIRE_SLURM=1 $(VENV)/bin/python -m pytest -n 0 -q tests/jobs/slurm

# Two hosts with OpenSSH's server on this machine; as root, for network namespaces.
test-ssh: install install-services
	$(AS_ROOT) env DRUMLINE_REQUIRE_SSHD=1 $(VENV)/bin/python -m pytest -n 0 -q tests/jobs/engines/ssh

# A real Ray on this machine, in an environment of its own.
.ray/bin/ray: | install
	$(VENV)/bin/python -m venv .ray
	.ray/bin/pip install -q 'ray[default]>=2.40'

test-ray: .ray/bin/ray
	DRUMLINE_REQUIRE_RAY=1 DRUMLINE_RAY=$(CURDIR)/.ray/bin/ray \
		$(VENV)/bin/python -m pytest -n 0 -q tests/jobs/engines/ray

# Servers of PostgreSQL in folders of the tests: whatever a list of jobs is asked, on both databases.
test-postgresql: install install-services
	env DRUMLINE_REQUIRE_POSTGRESQL=1 $(VENV)/bin/python -m pytest -n 0 -q tests/jobs/store \
		tests/jobs/supervisor tests/jobs/engines/test_job_engine.py tests/jobs/server \
		-k "postgresql or alike or lost_database"

# With DRUMLINE_KUBERNETES_IMAGE on the cluster of KUBECONFIG, too.
test-kubernetes: install
	$(AS_ROOT) env DRUMLINE_REQUIRE_PODS=1 $(VENV)/bin/python -m pytest -n 2 -q tests/jobs/kubernetes

# The console, and its pages in Chromium.
install-browser:
	scripts/install_services.sh browser

test-console: install install-browser
	DRUMLINE_REQUIRE_BROWSER=1 $(VENV)/bin/python -m pytest -n 0 -q tests/jobs/console

test-thorough: install $(REFERENCE)/.installed
	$(VENV)/bin/python $(PYTEST) -m thorough
	$(REFERENCE)/bin/python $(PYTEST) -m thorough tests/differential
	$(MAKE) test-keras

# Keras's own tests; KERAS_SHARE=10 runs every tenth, KERAS_ARGS="--way imported models" some.
KERAS_SHARE ?= 1
test-keras: install
	$(VENV)/bin/python -m tests.keras_suite.run -n 2 --share $(KERAS_SHARE) $(KERAS_ARGS)

# TensorFlow's tutorials with their import changed: NOTEBOOKS=DIR, a checkout of tensorflow/docs;
# TUTORIALS="tutorials/keras/classification" some, TUTORIALS=--tabulate all that guides name.
test-tutorials: install
	@if [ -z "$(NOTEBOOKS)" ]; then \
		echo "test-tutorials: skipped, as NOTEBOOKS names no checkout of tensorflow/docs"; \
	else $(MAKE) $(VENV)/.installed-tutorials \
		&& $(VENV)/bin/python -m tests.tutorials.run $(NOTEBOOKS) $(TUTORIALS); fi

# What is compared with TensorFlow, which has an environment of its own.
WITH_REFERENCE := tests/differential tests/data/test_tf_data_names.py \
	$(wildcard tests/test_*_like_tf*.py tests/*/test_*like_tf*.py tests/datasets/*/test_*like_tfds.py)
test-reference: $(REFERENCE)/.installed
	$(REFERENCE)/bin/python $(PYTEST) $(QUICK) $(WITH_REFERENCE)

# Steps compiled for a TPU that is not there, by libtpu. It lies beside the environment: in it, JAX
# would look for a TPU in all other tests.
WITH_LIBTPU := JAX_PLATFORMS=cpu PYTHONPATH=$(CURDIR)/$(LIBTPU) $(VENV)/bin/python
test-tpu: $(LIBTPU)/.installed
	$(WITH_LIBTPU) -m pytest -q -s tests/compiled_for_tpus tests/plan/test_plan_for_tpus.py

# The steps that tests/compiled_for_tpus itself has, in a minute or two.
test-tpu-essential: install
	@if $(MAKE) -s $(LIBTPU)/.installed; then \
		$(WITH_LIBTPU) -m pytest -q $(QUICK) tests/compiled_for_tpus; \
	else echo "test-tpu-essential: skipped, as libtpu could not be installed"; fi

# What depends most on the versions of jax and keras, without what takes longest.
WITH_OLDEST := $(addprefix tests/,distribute/functions distribute/parameter_server/compiler \
	distribute/parameter_server/test_training.py distribute/step keras training) $(addprefix --ignore=tests/,distribute/step/test_equal_loops.py \
	keras/callbacks keras/parameter_server keras/test_equal_losses.py keras/test_equal_training.py \
	keras/test_many_steps.py keras/test_metrics.py keras/test_sidecar_evaluator.py \
	training/checkpoint training/test_gradient_tape_functions.py)

test-oldest: $(OLDEST)/.installed
	HYPOTHESIS_PROFILE=brief $(OLDEST)/bin/python $(PYTEST) $(QUICK) $(WITH_OLDEST)

# What depends most on the version of jax, in a few minutes.
NEWEST_ESSENTIAL := $(addprefix tests/,test_private_parts.py data/elements/test_dtype_rules.py \
	data/functions/test_function_tracing.py data/plan/test_fingerprints.py \
	distribute/functions/test_function.py keras/test_dataset_input.py profiler/test_trace_file.py \
	training/test_gradient_tape.py training/test_value_and_grad.py)
NEWEST := $(addprefix tests/,test_private_parts.py data cpu_kernels distribute keras profiler training)
IN_NEWEST := PATH="$(dir $(CARGO)):$$PATH" HYPOTHESIS_PROFILE=brief $(VENV)/bin/python \
	scripts/test_newest_python.py

# Debian's newer Python in a folder, with the newest jax and keras; as root.
test-newest-python: install
	$(IN_NEWEST) -- $(PYTEST) $(QUICK) $(NEWEST)

test-newest-essential: install
	$(IN_NEWEST) --or-skip -- $(PYTEST) $(QUICK) $(NEWEST_ESSENTIAL)

lint: install lint-rust
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python scripts/check_file_lengths.py
	$(VENV)/bin/python scripts/tf_data_names.py --check
	$(VENV)/bin/python scripts/check_words.py

lint-rust: install
	@if $(CARGO) fmt --version >/dev/null 2>&1; then \
		echo "cargo fmt --check"; $(CARGO) fmt --manifest-path rust/Cargo.toml --check \
		&& $(CARGO) fmt --manifest-path $(JPEG_BENCH) --check; \
	else echo "rustfmt is not installed: skipped"; fi
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
		PYO3_PYTHON=$(CURDIR)/$(VENV)/bin/python \
		$(CARGO) clippy --manifest-path rust/Cargo.toml --locked --all-targets -- -D warnings; \
	else echo "clippy is not installed: skipped"; fi

test-rust: check-tools
	$(CARGO) test --manifest-path rust/Cargo.toml --locked --no-default-features

# FUZZ_SECONDS for each target of rust/fuzz; needs a nightly toolchain.
fuzz: check-tools
	PATH="$(dir $(CARGO)):$$PATH" rust/fuzz/run

# The lines of parsers that tests run; needs `rustup component add llvm-tools`.
coverage: check-tools
	PATH="$(dir $(CARGO)):$$PATH" $(PYTHON) scripts/coverage.py

bench: $(VENV)/.installed-bench
	$(VENV)/bin/python -m benchmarks

# Decoding alone, beside libjpeg-turbo and zune-jpeg; needs cmake and nasm. JPEG="FOLDER ..." for
# photographs of your own instead of generated images.
bench-jpeg: check-tools
	$(CARGO) run --release --locked --manifest-path $(JPEG_BENCH) -- $(JPEG)

# Into build/docs; nothing is fetched but the packages of the extra, once.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

install: $(VENV)/.installed

install-oldest: $(OLDEST)/.installed

install-reference: $(REFERENCE)/.installed

$(VENV)/.installed: $(INPUTS) | check-tools
	$(PYTHON) -m venv $(VENV)
	PATH="$(dir $(CARGO)):$$PATH" $(VENV)/bin/python -m pip install -q -e '.[dev]'
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	PATH="$(dir $(CARGO)):$$PATH" $(VENV)/bin/python -m pip install -q -e '.[bench]'
	touch $@

$(VENV)/.installed-tutorials: $(VENV)/.installed
	PATH="$(dir $(CARGO)):$$PATH" $(VENV)/bin/python -m pip install -q -e '.[tutorials]'
	touch $@

# Of the extra alone: what depends on drumline is installed.
$(VENV)/.installed-docs: $(VENV)/.installed
	$(VENV)/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
		| xargs -d '\n' $(VENV)/bin/python -m pip install -q
	touch $@

$(OLDEST)/.installed: $(INPUTS) constraints/oldest.txt | check-tools
	$(PYTHON) -m venv $(OLDEST)
	PATH="$(dir $(CARGO)):$$PATH" $(OLDEST)/bin/python -m pip install -q \
		-c constraints/oldest.txt -e '.[dev]'
	touch $@

# What the environment for development has, beside TensorFlow.
$(REFERENCE)/.installed: $(VENV)/.installed
	$(PYTHON) -m venv $(REFERENCE)
	PATH="$(dir $(CARGO)):$$PATH" $(REFERENCE)/bin/python -m pip install -q -e '.[dev,reference]'
	touch $@

# The release that the installed jax asks for.
$(LIBTPU)/.installed: $(VENV)/.installed
	rm -rf $(LIBTPU)
	$(VENV)/bin/python -c 'from importlib.metadata import requires; print(*(each.partition(";")[0] for each in requires("jax") if each.startswith("libtpu")))' \
		| xargs $(VENV)/bin/python -m pip install -q --no-deps --target $(LIBTPU)
	touch $@

.PHONY: check-tools
check-tools:
	@test -n "$(PYTHON)" || { echo "drumline needs Python 3.11 or newer: install one, or name it\
 with 'make PYTHON=/path/to/python'." >&2; exit 1; }
	@test -n "$(CARGO)" || { echo "drumline builds a Rust extension and needs cargo 1.85 or newer:\
 install Rust with rustup or your system's packages." >&2; exit 1; }

clean:
	rm -rf --one-file-system $(VENV) $(OLDEST) $(REFERENCE) $(LIBTPU) .newest rust/target drumline/_core*.so
