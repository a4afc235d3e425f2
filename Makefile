# Odradek: every target makes the virtual environment it needs. `make help` lists them.
# A Debian-like machine with Python >= 3.11, a JDK and git is enough; as root, missing
# packages (python3-venv, maven, kcat, iproute2, nftables, chromium-headless-shell, a JDK) are
# installed through apt-get.

SHELL       := /bin/bash
PYTHON      ?= python3
VENV        := .venv
BIN         := $(VENV)/bin
CACHE       := .cache
SPARK_3_5   := .venv-spark-3.5
SPARK_4_0   := .venv-spark-4.0
SITE        := .venv-docs
DATA_DIR    ?= data
LISTEN      ?= 127.0.0.1:9092
SEED        ?= 0..99
MINUTES     ?= 120
PYTEST      := $(BIN)/python -m pytest
# Twice as many processes as cores, because many tests wait. tests/scheduling.py deals the files out.
WORKERS     ?= 4
PARALLEL     = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
# Unit tests need no disk: in memory they take half the time.
IN_MEMORY   := $(shell [ -w /dev/shm ] && [ "$$(df --output=avail /dev/shm | tail -1)" -gt 2000000 ] && echo TMPDIR=/dev/shm)
KEEP_LITTLE := -o tmp_path_retention_policy=failed -o tmp_path_retention_count=1
NEEDS_JAVA  := java or kcat or spark or chromium or wire or soak

# Broker processes start in half the time if their bytecode is kept, wherever the checkout lies and
# whatever the environment says.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(CACHE)/pyc
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help needs run fmt check unit coverage test soak bench demo docs site sim release clean tools jars \
	clients spark

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

run: $(VENV)/.runtime ## start a broker: make run LISTEN=127.0.0.1:9092 DATA_DIR=data
	$(BIN)/python -m odradek serve --listen $(LISTEN) --data-dir $(DATA_DIR)

fmt: $(VENV)/.dev ## format and sort imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(VENV)/.dev ## linters, types, the rules between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.sizes
	$(BIN)/hadolint docker/Dockerfile
	@for file in compose.yaml compose.cluster.yml; do \
	if docker compose version >/dev/null 2>&1; then docker compose -f docker/$$file config -q || exit 1; \
	elif command -v docker-compose >/dev/null; then docker-compose -f docker/$$file config -q || exit 1; \
	else echo "no docker compose here: docker/$$file is not checked"; fi; done

# These tests wait for nothing, so a third process would only collect them once more; and of two
# rooms there are none.
unit: WORKERS = 2
unit: $(VENV)/.dev ## unit tests: no Java, no network, nothing slow, 40 s
	$(IN_MEMORY) $(PYTEST) -q $(PARALLEL) $(KEEP_LITTLE) -m "not ($(NEEDS_JAVA) or slow)" --durations=5 \
	--ignore=tests/wire --ignore=tests/spark

# Child processes are measured too, unless they are killed.
COVERAGE    := $(BIN)/coverage
coverage: $(VENV)/.dev ## what the tests without Java cover, the slow ones included; MARKS=... for others
	$(COVERAGE) erase
	mkdir -p $(CACHE)/coverage
	$(IN_MEMORY) $(COVERAGE) run -m pytest -q $(PARALLEL) $(KEEP_LITTLE) -m "$(or $(MARKS),not ($(NEEDS_JAVA) or untraced))"; \
	status=$$?; $(COVERAGE) combine -q && $(COVERAGE) html -q && \
	$(COVERAGE) json -q -o - | $(BIN)/python -m tests.support.room_coverage && \
	echo "artifacts/coverage/index.html shows it line by line" || status=1; exit $$status

sim: $(VENV)/.dev ## brokers and groups in the simulator: make sim SEED=7, or a range SEED=0..99
	ODRADEK_SIM_SEED=$(SEED) $(PYTEST) -q -m "not soak" \
	tests/sim/test_broker.py tests/sim/test_storage.py tests/sim/test_groups.py \
	tests/sim/brokers/test_storms.py tests/broker/core/groups

test: needs $(VENV)/.dev tools jars clients spark ## everything: unit tests, real clients, real servers
	ODRADEK_REQUIRE=all $(PYTEST) -q $(PARALLEL) -m "not soak" --part-times

# Each part goes on where it was ended, unless RESTART=1; but storms and examples have new seeds each
# time, which are printed (ODRADEK_SEED=… repeats one), and steady is one process's life, of MINUTES.
SOAK_kills   := tests/lab/test_leader_kills.py
SOAK_cuts    := tests/lab/test_cuts.py
SOAK_zombies := tests/lab/test_zombies.py
SOAK_rolling := tests/lab/test_rolling.py
SOAK_sim     := tests/sim/cluster tests/sim/brokers tests/sim/transactions
SOAK_steady  := tests/lab/test_steady.py
SOAK_archive := tests/pipeline tests/spark tests/docs
SOAK_tools   := tests/wire/test_java_tools.py tests/wire/test_configs.py tests/wire/test_groups_java.py \
	tests/wire/test_acls.py tests/wire/test_sasl.py tests/wire/test_secure_clients.py
SOAK_mutants := tests/mutants
SOAK_examples := tests/test_examples.py
SOAK_transcript := tests/cli/transcript tests/cli/test_signals_at_start.py
SOAK_fixture := tests/testing/test_flaky_hunt.py
SOAK_situations := tests/situations tests/testing/test_example_suites.py \
	tests/testing/test_languages.py
SOAK_storms  := $(addprefix tests/,broker/replication/test_hostile_leaders.py cluster/test_kills.py \
	$(addprefix wire/test_,kill.py kill_storage.py groups_kill.py compaction.py retention.py \
	log_dirs.py rebalances.py directory_exchange.py))
SOAK_transactions := tests/cluster/test_transaction_kills.py $(addprefix tests/wire/test_, \
	transactions.py transactions_kill.py transactions_version_2.py late_transactions.py streams.py)
SOAK_hostile := tests/fuzz
SOAK_image   := tests/docker
SOAK_recorded := $(sort $(wildcard tests/wire/test_*against_kafka.py)) tests/wire/test_control_fences.py \
	tests/wire/test_cluster_actions.py tests/broker/rights
PARTS        := $(sort $(patsubst SOAK_%,%,$(filter SOAK_%,$(.VARIABLES))))
$(if $(filter-out $(PARTS),$(PART)),$(error PART is one of: $(PARTS)))
soak: TOOLS += $(if $(filter 0,$(shell id -u)),buildah debootstrap)
soak: $(VENV)/.dev tools jars spark ## the large counts: one PART of them (README of tests), or all
	@ODRADEK_REQUIRE=all MINUTES=$(MINUTES) RESTART=$(RESTART) \
	MUTANTS_SEED=$(if $(filter file,$(origin SEED)),,$(SEED)) \
	$(PYTEST) -q -m soak --part-times --timeout=10800 $(SOAK_$(PART)); status=$$?; \
	$(BIN)/python -m tests.lab.soak $(PART); exit $$status

bench: $(VENV)/.dev jars spark ## compare with Apache Kafka, in one run
	$(BIN)/python -m benchmarks

demo: $(SPARK_4_0)/.made ## a broker, a load, an archive, a rollup and an audit with plots
	$(SPARK_4_0)/bin/python -m tests.pipeline.demo

docs: $(VENV)/.dev ## regenerate the reference pages of settings, APIs and commands
	$(BIN)/python -m tests.docs.reference

release: $(VENV)/.release ## build wheel and sdist and try them on each Python here; uploads nothing
	$(BIN)/python -m tests.release

site: $(SITE)/.made ## the documents as web pages: artifacts/site/index.html
	$(SITE)/bin/sphinx-build -q -W --keep-going -c docs -d $(CACHE)/site . artifacts/site
	@echo "artifacts/site/index.html"

clean: ## remove environments, caches and benchmark results; never the data directory
	rm -rf $(VENV) $(SPARK_3_5) $(SPARK_4_0) $(SITE) $(CACHE) build dist *.egg-info benchmarks/results artifacts
	rm -rf .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- what the targets stand on -------------------------------------------------------------

# bin/python is there at once: it is pip's own command that comes last, when pip is complete.
$(VENV)/bin/pip:
	.ci/packages venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.runtime: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.runtime

$(VENV)/.release: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/python -m pip install --quiet -e '.[release]'
	touch $@ $(VENV)/.runtime

# Sphinx and its libraries stay out of the environment that the tests run in.
$(SITE)/.made: pyproject.toml
	.ci/packages venv
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade pip
	$(@D)/bin/python -m pip install --quiet -e '.[docs]'
	touch $@

# What tests of networks need only root can use.
TOOLS := java maven kcat chromium cc $(if $(filter 0,$(shell id -u)),ip nft)

needs: ## say what `make test` needs, and what of it is not here yet
	@echo "make test needs:"
	@.ci/packages --list venv $(TOOLS)
	@$(PYTHON) -m tests.needs
	@echo "a few tests of other languages are skipped without:"
	@.ci/packages --list curl node npm go

tools: ## Java, Maven, kcat, ip, nft, Chromium and a C compiler, from the distribution if missing
	.ci/packages $(TOOLS)

jars: $(VENV)/.dev tools ## Apache Kafka's jars, into .cache/jars, and what its JVMs start with
	$(BIN)/python -m tests.kafka.jars
	$(BIN)/python -m tests.kafka.classes

clients: $(VENV)/.dev jars ## other clients than Python's for tests/situations: KafkaJS, franz-go
	$(BIN)/python -m tests.situations.programs

spark: $(SPARK_3_5)/.made $(SPARK_4_0)/.made ## one environment per tested Spark, and its connector
	$(SPARK_4_0)/bin/python -m tests.spark.prepare

# Spark's own environments: two releases of pyspark cannot share one. The newer has the newest of all
# that the extra `spark` allows, as a user gets it, the older has the oldest. pip is not quiet: half a
# gigabyte is to come, and the first `make demo` shows how it comes.
$(SPARK_3_5)/.made: SPARK := 'pyspark[sql]==3.5.7' 'pandas==2.3.*' 'pyarrow==20.*' 'numpy==1.26.*'
$(SPARK_3_5)/.made $(SPARK_4_0)/.made: pyproject.toml
	.ci/packages venv java
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade pip
	$(@D)/bin/python -m pip install -e '.[test,spark]' $(SPARK)
	touch $@
