# `make run` and `make test` need Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench

.PHONY: env run test slow pythons lint soak operate observe failover bench figures no-corpora reference docs wheel sbom release pictures clean

# pip compiles the core as it installs. This compiles again what has changed since: some seconds.
COMPILE = @$(BIN)/python stream_dedup/core/build.py --changed

env: $(STAMP)
	$(COMPILE)

define venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is %d.%d; name another with PYTHON=..." % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
endef
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint deploy/constraints.txt

# Only the packages that `make run` needs, again whenever they change.
$(RUN_STAMP): pyproject.toml deploy/constraints.txt
	$(venv)
	@echo "Installing what the demo needs into $(VENV), once ..."
	$(PIP_INSTALL) --editable '.[embedded,files,page,feeds]'
	@touch $(RUN_STAMP)

# All packages, those of tests and extras included.
$(STAMP): pyproject.toml deploy/constraints.txt
	$(venv)
	$(PIP_INSTALL) --editable '.[embedded,all,spark,docs,dev]'
	@touch $(RUN_STAMP) $(STAMP)

# The peers of `make bench` are heavy, and no other target needs them.
$(BENCH_STAMP): $(STAMP)
	$(PIP_INSTALL) --editable '.[embedded,report,bench]'
	@touch $(BENCH_STAMP)

run: $(RUN_STAMP)
	$(COMPILE)
	$(BIN)/stream-dedup demo $(ARGS)

lint: env
	$(BIN)/ruff check stream_dedup tests docs deploy
	$(BIN)/ruff format --check stream_dedup tests docs deploy
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -m 'not slow and not soak and not operate' -n 2 --dist loadgroup $(ARGS)

# The tests that take long and rarely find anything. .ci/run starts them after `make test`.
slow: env
	$(BIN)/pytest -m 'slow and not soak and not operate' -n 2 --dist loadgroup $(ARGS)

# The quick tests that need no Kafka, on other versions of CPython, such as VERSIONS="3.12 3.13 3.14".
VERSIONS := 3.14
pythons: env
	for version in $(VERSIONS); do \
	  python=$$($(BIN)/python -m tests.deploy.pythons $$version) && export LD_LIBRARY_PATH=$${python%/bin/*} && \
	  $(MAKE) env PYTHON=$$python VENV=.venv-$$version && \
	  .venv-$$version/bin/pytest -m 'not kafka and not slow and not soak and not operate' -n 2 --dist loadgroup $(ARGS) || exit 1; done

# Long tests; the figures go to tests/lab/results. docs/benchmarks.md lists them with their variables and what they need. A single
# schedule of the model: .venv/bin/python -m tests.lab.model SEED --log; faults of one plan: -m tests.lab.soak SEED --nodes 3
soak: env
	$(BIN)/pytest -m soak --timeout 3600 $(ARGS)

# Builds the image from its Dockerfile in a clean Debian (needs root, and Debian's packages mmdebstrap and buildah).
operate: env
	$(BIN)/pytest -m operate --timeout 3600 $(ARGS)

# Quick: under three minutes. ARGS="--full" measures everything.
bench: $(BENCH_STAMP) env
	$(BIN)/python -m tests.lab.benchmarks.run $(ARGS)

# The query of every panel and rule, and every alert by a real fault; some fifteen minutes.
observe: env
	$(BIN)/python -m tests.lab.operate.run $(ARGS)

# Under load: a killed active member and a rolling restart with a million originals (sent one by one or by thousands),
# then a migration of 100,000 items; some fifteen minutes. With a corpus: ARGS="--corpus FILE.jsonl.gz".
failover: env
	$(BIN)/python -m tests.lab.operate.takeover
	$(BIN)/python -m tests.lab.operate.migrate $(ARGS)

# Figures of quality and agreement in the pages, on corpora and labels in a folder; some four minutes, then the pages.
# ARGS="--only families" measures one section. `make test` says when the figures are out of date.
figures: $(if $(CORPORA),env,no-corpora)
	$(BIN)/python -m tests.lab.figures "$(CORPORA)" $(ARGS)
	$(BIN)/python -m docs.build

no-corpora:
	@echo "Name the folder of corpora and labels: make figures CORPORA=DIR" >&2; exit 2

# Everything that is generated: settings, metrics, the dashboard, and the tables in the pages.
reference: env
	$(BIN)/python -m docs.build

# dist/: the source archive, and the wheels, whose cores zig compiles here for all platforms. Equal sources give equal
# bytes, whenever and wherever they are built.
wheel: env
	$(PIP_INSTALL) --editable '.[release]'
	for platform in manylinux_2_17_x86_64 manylinux_2_17_aarch64 macosx_11_0_arm64; do \
	  WHEEL_PLATFORM=$$platform $(BIN)/python -m hatchling build --target wheel --directory dist || exit 1; done
	$(BIN)/python -m hatchling build --target sdist --directory dist

# The packages of the image, of its extras (what they add) and of its build with the hashes of their files, and what the
# image contains as CycloneDX (in dist/), all from the versions of deploy/constraints.txt.
HASHED = $(BIN)/uv pip compile --quiet --python-version 3.13 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --constraint deploy/constraints.txt
sbom: env
	$(PIP_INSTALL) --editable '.[release]'
	$(HASHED) pyproject.toml --extra files --extra page --extra feeds --output-file deploy/requirements.txt
	for extra in pages registry; do \
	  $(HASHED) pyproject.toml --extra files --extra page --extra feeds --extra $$extra --output-file deploy/requirements-$$extra.txt \
	  $$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' deploy/requirements.txt) || exit 1; done
	echo hatchling | $(HASHED) - --output-file deploy/requirements-build.txt
	mkdir -p dist
	$(BIN)/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/stream-dedup.cdx.json

# What a release has, in dist/: wheels, the bill of materials, the image as an archive, and the notes. Publishes nothing.
# ENGINE: docker, podman or buildah; the last two need to be told of a format that keeps the health check.
ENGINE := docker
release: wheel sbom
	$(BIN)/python -m docs.build --notes > dist/NOTES.md
	version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) && \
	rm -f dist/stream-dedup-$$version.tar && $(ENGINE) build $(if $(filter docker,$(ENGINE)),,--format docker) \
	  --file deploy/Dockerfile --tag stream-dedup:$$version --build-arg VERSION=$$version \
	  --build-arg SCHEME=$$(cat stream_dedup/scheme.txt) --build-arg REVISION=$$(git rev-parse HEAD) . && \
	$(ENGINE) $(if $(filter buildah,$(ENGINE)),push stream-dedup:$$version docker-archive:dist/stream-dedup-$$version.tar,\
	  save --output dist/stream-dedup-$$version.tar stream-dedup:$$version)
	@cd dist && ls -l

# The pictures of the pages, by Chromium, from the made-up feed of the demo.
pictures: env
	$(BIN)/python -m tests.observe.pictures

# The pages as a site in build/site, which works without a network; a broken link or anchor ends it.
docs: env
	$(BIN)/mkdocs build --strict --config-file docs/mkdocs.yml
	@echo "Read it: $(BIN)/python -m http.server --directory build/site"

clean:
	rm -rf $(VENV) stream_dedup/core/_core.so .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
