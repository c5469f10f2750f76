# What people type; `make help` lists it. What a target needs is found, said and installed by scripts/setup.

CARGO ?= cargo
PREFIX ?= /usr/local
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
DEMO_TRACE ?= traces/sqlite.parquet
DEMO_DIR := $(TARGET_DIR)/demo
ISOTHERM := $(TARGET_DIR)/release/isotherm
RECORDER := $(TARGET_DIR)/release/valgrind
# rustup puts cargo there; shells know it only after the next login.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

engine = $(MAKE) --no-print-directory -C recorder/valgrind OUT=$(abspath $(RECORDER)) || \
	echo "Programs cannot be started under the recorder then (isotherm record -- CMD). All else works." >&2

.PHONY: deb tarball image python
.PHONY: help build recorder lab module module-install module-test demo check check-fast test nightly hooks bench
.PHONY: install install-recorder uninstall clean
.DEFAULT_GOAL := help

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

build: ## The isotherm command and the recorder's engine, optimised
	@scripts/setup $@
	@$(engine)
	$(CARGO) build --release --locked --package isotherm-cli

recorder: ## The engine that records under Valgrind's core; where its headers are missing, says what to install and goes on
	@scripts/setup $@
	@$(engine)

lab: ## isotherm-lab, which compares with real kernels, and the program that runs in them
	@scripts/setup $@
	cd lab && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) build --release --locked --package isotherm-lab
	$(CARGO) xtask guest

module: ## The accessed-bit kernel module, for the kernel that runs
	@scripts/setup $@
	@test -d /lib/modules/$$(uname -r)/build || { echo "There are no headers of Linux $$(uname -r) here: as root" \
		"'apt-get install linux-headers-$$(uname -r)', or what your system calls the package." >&2; exit 1; }
	$(MAKE) -C module

module-install: ## The module for this and later kernels, by DKMS; as root
	@command -v dkms >/dev/null || { echo "dkms is missing: as root 'apt-get install dkms'." >&2; exit 1; }
	install -d /usr/src/isotherm-1
	install -m644 $(addprefix module/,isotherm.c isotherm.h Makefile dkms.conf LICENSE README.md) /usr/src/isotherm-1
	dkms install isotherm/1

module-test: ## The module built for Linux 6.1, 6.12 and 7.2, tested in virtual machines, and installed by DKMS; as root
	$(CARGO) xtask guest
	$(CARGO) xtask module
	cd lab && CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) ISOTHERM_REQUIRE_ALL=1 \
		$(CARGO) test --locked --package isotherm-rig --test main module -- --include-ignored
	ISOTHERM_REQUIRE_ALL=1 $(CARGO) xtask dkms

demo: build ## Advise on a bundled recording; writes target/demo/report.html
	@mkdir -p $(DEMO_DIR)
	$(ISOTHERM) advise $(DEMO_TRACE) --report $(DEMO_DIR)/report.html --config $(DEMO_DIR)/config.toml
	@echo
	@echo "The report is $(DEMO_DIR)/report.html (open it in a browser). What next:"
	@echo "  $(ISOTHERM) record -o my.parquet -- CMD         record a program of yours"
	@echo "  $(ISOTHERM) advise my.parquet                   the same question about it"
	@echo "  $(ISOTHERM) doctor                              what works on this machine"

check: ## Formatting, lints, documentation, house rules, licences
	@scripts/setup $@
	$(CARGO) xtask check

check-fast: ## Formatting; lints and unit tests of the packages that were changed
	@scripts/setup $@
	$(CARGO) xtask check --fast

python: ## The Python package as a wheel, into target/wheels
	@scripts/setup $@
	@scripts/python wheel

test: ## Everything that a change can break, as CI runs it; a table of times at the end
	@# Root is asked nothing: packages come while sources are checked and built. Others are asked once, before.
	@scripts/setup $(if $(filter 0,$(shell id -u)),check,test)
	$(if $(filter 0,$(shell id -u)),,SETUP=no )$(CARGO) xtask test

nightly: ## What `make test` runs, and what takes longer (docs/developing.md#testing)
	NIGHTLY=1 scripts/install-test-needs
	$(if $(filter 0,$(shell id -u)),,SETUP=no )$(CARGO) xtask nightly

hooks: ## Has git refuse commits with too long a subject, in this clone
	git config core.hooksPath .githooks

bench: build ## All benchmarks with their bars; writes target/bench.json
	scripts/install-test-needs
	$(CARGO) xtask bench

install: build ## Into PREFIX (default /usr/local); the lab too, if it was built
	install -Dm755 $(ISOTHERM) $(DESTDIR)$(PREFIX)/bin/isotherm
	@$(MAKE) --no-print-directory install-recorder
	test ! -f $(TARGET_DIR)/release/isotherm-lab || \
		install -Dm755 $(TARGET_DIR)/release/isotherm-lab $(DESTDIR)$(PREFIX)/bin/isotherm-lab
	test ! -f $(TARGET_DIR)/guest/isotherm-guest || \
		install -Dm755 $(TARGET_DIR)/guest/isotherm-guest $(DESTDIR)$(PREFIX)/lib/isotherm/isotherm-guest
	$(ISOTHERM) --quiet man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	$(ISOTHERM) completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/isotherm
	$(ISOTHERM) completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_isotherm
	$(ISOTHERM) completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/isotherm.fish
	install -d $(DESTDIR)$(PREFIX)/share/isotherm/traces
	install -m644 traces/*.parquet $(DESTDIR)$(PREFIX)/share/isotherm/traces

install-recorder:
	test ! -f $(RECORDER)/isorec-amd64-linux || { \
		install -d $(DESTDIR)$(PREFIX)/lib/isotherm/valgrind && \
		install -m755 $(addprefix $(RECORDER)/,isorec-launcher isorec-amd64-linux vgpreload_core-amd64-linux.so) \
			$(DESTDIR)$(PREFIX)/lib/isotherm/valgrind; }

uninstall: ## Removes what `make install` put into PREFIX
	rm -f $(DESTDIR)$(PREFIX)/bin/isotherm $(DESTDIR)$(PREFIX)/bin/isotherm-lab \
		$(DESTDIR)$(PREFIX)/lib/isotherm/isotherm-guest
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/isotherm.1 $(DESTDIR)$(PREFIX)/share/man/man1/isotherm-*.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/isotherm $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_isotherm \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/isotherm.fish
	rm -rf $(DESTDIR)$(PREFIX)/share/isotherm $(DESTDIR)$(PREFIX)/lib/isotherm/valgrind

deb: build ## A Debian package, into target/package; for the release that builds it and later ones
	@scripts/package deb

tarball: recorder ## The static program with its pages, into target/package; for any Linux
	@scripts/setup $@
	$(CARGO) xtask static
	@scripts/package tarball

image: ## An OCI image of the static program, by podman or docker
	@scripts/setup $@
	$(CARGO) xtask static
	@scripts/package image

clean: ## Removes everything that was built
	$(CARGO) clean
