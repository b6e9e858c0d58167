# `make book` builds the website, `make test` proves it (some minutes on two cores; more with FULL=1 or SLOW=1). Both make .venv first if it is missing.
.NOTPARALLEL:
.PHONY: help book test serve notebooks lint unit nbval chapters site site-tests slow weekly test-machines \
        bench gpu picture pdf slides cards set-repository lock clean env-book env-test

PYTHON ?= python3
WORKERS ?= 2
PORT ?= 8000
NOTEBOOK ?= $(sort $(wildcard book/*.ipynb labs/*.ipynb))
# The stored outputs were computed so; a machine with a GPU must compare with them, not with its own.
export OMP_NUM_THREADS ?= 1
export ATTNBOOK_THREADS ?= 1
export ATTNBOOK_DEVICE ?= cpu
export PIP_ARGS
# The module, its types checked, is compiled once and not by each of a hundred kernels and workers.
unexport PYTHONDONTWRITEBYTECODE

CHAPTERS := $(foreach n,0 1,$(filter-out $(wildcard book/*-deeper-*),$(wildcard book/$(n)*.ipynb)))
RUN := .venv/bin/python
BUILD := .venv/bin/jupyter-book build . -W -n --keep-going
PYTEST = $(RUN) -m pytest --durations=15 --durations-min=5
NBVAL = $(RUN) tools/kernels.py $(RUN) -m pytest --nbval --nbval-kernel-name forked --nbval-sanitize-with tools/nbval.cfg \
         --nbval-cell-timeout=600 --timeout=1800 \
         --dist loadscope $(NOTEBOOK)
FULL ?= $(SLOW)
QUICK = not weekly$(if $(SLOW),, and not slow)
START := $(shell date +%s)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

book: env-book ## build the website from the stored outputs, say where to open it
	@echo "== website"
	@# A second build after a failed one would not repeat its warnings: forget what was read.
	@if $(RUN) tools/whole.py; then echo "built already, of the same files"; else \
	    new=$$([ -e _build ] || echo whole); rm -f _build/whole; \
	    $(BUILD) -q || { rm -rf _build/.doctrees; exit 1; }; $(RUN) tools/whole.py --note $$new; fi
	@$(RUN) -c 'from pathlib import Path as P; print("Open", P("_build/html/index.html").resolve().as_uri())'

test: env-test lint unit $(if $(FULL),nbval site-tests,chapters site) ## must be green; FULL=1: every notebook, the browser; SLOW=1: what takes long, too
	@echo "== all green, $$(( $$(date +%s) - $(START) )) s"

lint: env-test ## code style, notebooks included; types; workflows
	@echo "== lint"
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@mkdir -p _build
	@.venv/bin/lint-imports --no-cache >_build/imports.log || { cat _build/imports.log; exit 1; }
	@.venv/bin/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@.venv/bin/check-jsonschema -q --builtin-schema vendor.citation-file-format --default-filetype yaml CITATION.cff

unit: env-test ## the packages' tests, shapes enforced; FULL=1: the browser's, too; SLOW=1: those that take long
	@echo "== unit tests"
	@$(PYTEST) tests -n $(WORKERS) --dist worksteal -m "$(QUICK)$(if $(FULL),, and not browser) and not site"

chapters: NOTEBOOK := $(CHAPTERS)
chapters: nbval ## the main chapters again, every output compared

nbval: env-test ## every notebook again, every output compared
	@echo "== notebooks"
	@$(NBVAL) -n $(WORKERS)

site: env-test ## the website built from nothing, if it is not; warnings are errors
	@echo "== website"
	@if $(RUN) tools/whole.py whole; then echo "built from nothing already, of the same files"; else \
	    rm -f _build/whole; $(BUILD) -q --all || { rm -rf _build/.doctrees; exit 1; }; $(RUN) tools/whole.py --note whole; fi

site-tests: site ## the same, then in a browser
	@echo "== website's tests"
	@$(PYTEST) tests/site -n $(WORKERS) --dist loadfile -m "$(QUICK)"

slow: site ## of these what takes long: each notebook alone, as on Colab; compiled models; classes graded; the printed book
	@echo "== slow tests (as on Colab; of the last commit)"
	@$(PYTEST) $$(grep -rl --include='test_*.py' mark.slow tests) -n $(WORKERS) --dist worksteal -m "slow and not weekly"

weekly: site ## claims about one more lab, page or family of models, which `make test` takes a few of
	@$(PYTEST) tests -n $(WORKERS) --dist loadfile -m weekly

test-machines: env-test ## notebooks as other processors and thread counts would run them
	@set -e; for threads in 1 2; do for capability in default avx2 ""; do \
	    workers=$(WORKERS); [ $$threads = 1 ] || workers=1; \
	    echo "== notebooks, instruction set: $${capability:-best}, threads: $$threads"; \
	    env -u ATEN_CPU_CAPABILITY $${capability:+ATEN_CPU_CAPABILITY=$$capability} \
	        OMP_NUM_THREADS=$$threads ATTNBOOK_THREADS=$$threads $(NBVAL) -n $$workers; \
	done; done

notebooks: env-test ## run notebooks and store their outputs (one: NOTEBOOK=book/01-….ipynb)
	@$(RUN) tools/execute.py $(NOTEBOOK)

bench: env-test ## every side-by-side table, measured anew (half an hour; NANOGPT=clone of nanoGPT)
	@for name in attention block models; do $(RUN) benchmarks/$$name.py; done
	@rm -rf _build/bench; mkdir -p _build/bench
	@$(RUN) results/speedrun.py --seeds 0 --out _build/bench
	@if [ -n "$(NANOGPT)" ]; then $(RUN) results/speedrun.py --nanogpt "$(NANOGPT)" --out _build/bench; \
	    else echo "nanoGPT's own run: NANOGPT=path/to/its/clone"; fi
	@$(RUN) results/fast.py speed/ --out _build/bench/fast.json
	@$(RUN) benchmarks/decoding.py --out _build/bench/decoding.json
	@$(RUN) benchmarks/print_tables.py _build/bench

gpu: export ATTNBOOK_DEVICE = cuda
gpu: env-test ## nanoGPT's setting for a GPU, and the speed run's ladder in it (on an A100 some minutes)
	@$(RUN) results/gpu.py

serve: book ## build, then serve the website on this machine (PORT=8000)
	@$(RUN) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

picture: env-test book ## take the README's picture anew, with Chromium
	@$(RUN) tools/picture.py

pdf: book env-test ## the book as one PDF (some minutes; needs Chromium)
	@$(RUN) tools/pdf.py

slides: book env-test ## slides of each chapter as one file (one: CHAPTER=book/05-…)
	@$(RUN) tools/slides.py $(CHAPTER)

cards: book env-test ## the pictures of shared links, stored in book/_static/cards (one: CHAPTER=book/05-…)
	@$(RUN) tools/cards.py $(CHAPTER)

set-repository: env-book ## move to another address: URL=https://github.com/owner/name
	@$(RUN) tools/set_repository.py "$(URL)"

lock: ## resolve all versions anew into the two requirements.txt (needs uv)
	@$(PYTHON) tools/lock.py

clean: ## remove everything that was installed or built
	rm -rf .venv _build .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

env-book env-test:
	@command -v $(PYTHON) >/dev/null || { echo "make: there is no $(PYTHON) here; install Python 3.10 or newer, or name one: make book PYTHON=…" >&2; exit 1; }
	@$(PYTHON) tools/bootstrap.py $(@:env-%=%)
