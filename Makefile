# A newcomer needs `make run`, `make test` and `make help`. Set-up happens once, and again when its inputs change.

PYTHON ?= python3
LISTENERS ?= PLAINTEXT://localhost:9092
DATA ?= data
# What a soak runs: files, directories or single tests. How often each test repeats itself; unset, as often as it declares.
TESTS ?=
TRIALS ?=
# The system's own Python, as Kafka runs on the system's own Java: both are built with optimisation. A Python that pyenv
# builds by default is not, and serves a fifth less.
BENCH_PYTHON ?= $(firstword $(wildcard /usr/bin/python3) $(PYTHON))

VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip --quiet
# The extra that compiles the hot path is installed only if a C compiler exists.
NATIVE := $(shell command -v $${CC:-cc} >/dev/null && echo '[native]')
# In plain Python, because an edited module is then the tested module.
FAST_TESTS := OTTLA_PLAIN=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" tests
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help run setup tests-ready test check fast versions soak steady bench measure compare compare-here compat docs
.DELETE_ON_ERROR:

run: $(VENV)/run.stamp ## Set up, then serve Kafka clients on localhost:9092 with data under ./data.
	@$(BIN)/python -m ottla.build_native --background
	@exec $(BIN)/python -m ottla serve --override listeners=$(LISTENERS) --override log.dirs=$(DATA)

help: ## Print this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | expand -t 13

setup: $(VENV)/native.stamp $(VENV)/test.stamp ## Set up for work on the code, without Java.

tests-ready: $(VENV)/native.stamp $(VENV)/test.stamp $(VENV)/jars.stamp $(VENV)/hosts.stamp $(VENV)/classes.stamp ## Set up all that tests need.

test: tests-ready ## Run every test, and a failed test once more, alone.
	@$(BIN)/python -m tests.harness

steady: tests-ready ## Run `make test` three times, with a busy process on each core.
	@$(BIN)/python -m tests.harness --steady

check: $(VENV)/test.stamp ## Run ruff, mypy, the import contracts and the fast tests, in under two minutes.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(FAST_TESTS)

fast: $(VENV)/test.stamp ## Run the fast tests.
	$(FAST_TESTS)

# A name on the PATH may be pyenv's shim for a version that is not chosen: a Python that does not run is skipped.
versions: ## Set up and run the fast tests on every Python from 3.11 on that this machine has, each in its own .venv-3.N.
	@tested=; for minor in $$(seq 11 30); do \
		for python in python3.$$minor "$$(pyenv root 2>/dev/null)"/versions/3.$$minor.*/bin/python; do \
			$$python -c '' 2>/dev/null || continue; \
			echo "Python 3.$$minor ($$python) ..."; \
			$(MAKE) --no-print-directory PYTHON=$$python VENV=.venv-3.$$minor setup fast || exit; \
			tested="$$tested 3.$$minor"; break; \
		done; done; \
	test -n "$$tested" && echo "The fast tests pass on Python$$tested."

soak: tests-ready ## Run the tests with random input, or TESTS=..., with many more trials.
	$(BIN)/python -m pytest --timeout 0 --soak $(if $(TRIALS),--trials $(TRIALS)) $(TESTS)
	$(if $(TESTS),,@$(MAKE) --no-print-directory versions)

# Measurements run on BENCH_PYTHON, in an environment of their own.
ON_BENCH_PYTHON = $(BENCH_PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends python3-venv; }; \
	$(MAKE) --no-print-directory PYTHON=$(BENCH_PYTHON) VENV=.venv-bench

bench: ## Measure Apache Kafka and Ottla side by side; write docs/benchmarks.md.
	@$(ON_BENCH_PYTHON) measure

compare: ## Compare a request's cost with REF=commit; WITHIN=per cent judges the result, ROUNDS=n replaces 10 rounds.
	@test -n "$(REF)" || { echo "say which commit: make compare REF=..." >&2; exit 1; }
	@$(ON_BENCH_PYTHON) compare-here

compare-here: $(VENV)/native.stamp $(VENV)/test.stamp
	@$(BIN)/python -m benchmarks.compare $(REF) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(WITHIN),--within $(WITHIN))

measure: $(VENV)/native.stamp $(VENV)/jars.stamp $(VENV)/spark.stamp $(VENV)/kcat.stamp
	$(BIN)/python -m benchmarks --output docs/benchmarks.md
	$(BIN)/python -m pytest --measure

compat: $(VENV)/classes.stamp $(VENV)/clients.stamp ## Try stock clients with Ottla and two Apache Kafkas; write docs/compatibility.md.
	$(BIN)/python -m compat_tests.compatibility
	$(BIN)/python -m pytest --compat -m compat compat_tests

docs: $(VENV)/run.stamp ## Write docs/configuration.md and docs/transforms.md, which derive from the code.
	$(BIN)/python -m ottla.broker.config.document > docs/configuration.md
	$(BIN)/python -m ottla.pipeline.transform_docs > docs/transforms.md

$(VENV)/run.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Ottla needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Say make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV) with $$($(PYTHON) --version) ..." >&2; $(PYTHON) -m venv $(VENV); }
	@echo "Installing Ottla and what it needs into $(VENV) ..." >&2
	@$(PIP) install hatchling editables setuptools
	@$(PIP) install --no-build-isolation --editable '.$(NATIVE)'
	@touch $@

$(VENV)/native.stamp: $(VENV)/run.stamp ottla/native.py ottla/build_native.py $(wildcard $(foreach room,wire log coordinator broker pipeline,$(room)/*.py $(room)/*/*.py))
	@$(BIN)/python -m ottla.build_native --if-possible
	@touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp
	@$(PIP) install --no-build-isolation --editable '.[test]'
	@touch $@

# Half a gigabyte, which only tests and measurements of Spark need.
$(VENV)/spark.stamp: $(VENV)/test.stamp
	@$(PIP) install --no-build-isolation --editable '.[spark]'
	@touch $@

# Clients in other languages, with the compilers of these: only `make compat` needs them.
$(VENV)/clients.stamp: $(VENV)/spark.stamp $(VENV)/kcat.stamp $(addprefix compat_tests/compatibility/,toolchains.py programs/node/package.json) $(wildcard compat_tests/compatibility/programs/go/go.* compat_tests/compatibility/programs/go/*/*.go)
	@$(PIP) install --no-build-isolation --editable '.[compat]'
	@$(BIN)/python -m compat_tests.compatibility.toolchains
	@touch $@

$(VENV)/kcat.stamp: $(VENV)/test.stamp
	@command -v kcat >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends kcat; }
	@touch $@

# Spark, Kafka and ZooKeeper are started often.
$(VENV)/classes.stamp: $(VENV)/spark.stamp $(VENV)/jars.stamp $(addprefix compat_tests/,support/class_archives.py support/java.py support/Tools.java groups/GroupMember.java)
	@$(BIN)/python -m compat_tests.support.class_archives
	@touch $@

# Apache Kafka is what Ottla is tested against.
$(VENV)/jars.stamp: $(VENV)/test.stamp compat_tests/support/jars.py
	@if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then \
		$(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends default-jre-headless maven; fi
	@$(BIN)/python -m compat_tests.support.jars
	@touch $@

# Brokers on hosts of their own, with links that break, are network namespaces; jobs write to a database, too.
$(VENV)/hosts.stamp: $(VENV)/test.stamp
	@{ command -v ip && { command -v pg_ctl || ls /usr/lib/postgresql/*/bin/pg_ctl; }; } >/dev/null 2>&1 || \
		{ $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends iproute2 postgresql; }
	@touch $@
