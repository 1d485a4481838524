# SPDX-License-Identifier: GPL-2.0
#
# SLUB sheaves for Linux 6.12: every target is a script in scripts/; this file
# only names them. `make help` lists them.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

S := scripts
CONFIG ?= guest
export SHEAVES_T0 := $(shell date +%s)
export KERNEL_SRC CPUS TOPOLOGY APPEND FORCE JOBS AM_TO
export ROUNDS BENCH PEER OURS RESULTS STRESS_SECS KEEP

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
	@echo
	@echo 'KERNEL_SRC=DIR    your own 6.12.y tree instead of Debian'"'"'s (tree, kernel, run, ...)'
	@echo 'CONFIG=NAME       guest, debug, rt, isolated or tiny (kernel, boot, shell)'
	@echo 'TOPOLOGY=NAME     1cpu, 4cpu, 2node, 3node, memoryless or memonly; CPUS=N for N CPUs on one node'
	@echo 'APPEND=...        more kernel command line (run, boot, shell)'

tree: deps ## lay base, new files and patches into build/linux, a commit per patch
	@$(S)/tree.sh

# A tree that is being worked on is built as it is.
keep: deps
	@$(S)/tree.sh --keep

kernel: keep ## build a kernel (CONFIG=guest) in build/obj
	@$(S)/kernel.sh $(CONFIG)

run: kernel ## build, boot, run the KUnit slab tests, show who serves the busiest caches
	@$(S)/run.sh

shell: kernel ## an interactive shell in the booted guest
	@$(S)/guest.sh $(CONFIG) shell

boot: kernel ## boot a kernel (CONFIG=guest) and judge its KUnit suites
	@$(S)/boot.sh $(CONFIG)

check: checkdeps tree ## all tests, as CI runs them
	@$(S)/check.sh

selftest: checkdeps kernel ## run the kselftests (ublk null target, sysfs, hotplug, stress) in the guest, on each topology
	@$(S)/selftest.sh

bench: benchdeps tree ## measure against plain 6.12; PEER=7.2 against mainline too (ROUNDS=, BENCH=groups)
	@$(S)/bench.sh

bench-native: benchdeps tree ## the same in real time: the allocators' objects in user space (PEER=, ROUNDS=, BENCH=)
	@$(S)/bench-native.sh

bisect: tree ## build, boot and KUnit-test every commit of the series, or those of COMMITS=
	@$(S)/bisect.sh $(COMMITS)

lint: checkdeps tree ## checkpatch, W=1, sparse, shellcheck
	@$(S)/lint.sh

series: tree ## the series as mails with a cover letter, in build/series (AM_TO=DIR tries them there)
	@$(S)/series.sh

refresh: ## bring edits and commits of build/linux back into patches/ and the new files
	@$(S)/refresh.sh

deps: ## install the Debian packages that are missing
	@$(S)/deps.sh

checkdeps:
	@$(S)/deps.sh check

benchdeps:
	@$(S)/deps.sh bench

clean: ## remove what was built; downloads stay
	@$(S)/clean.sh

.PHONY: help tree keep kernel run shell boot check selftest bench bench-native bisect lint series refresh \
	deps checkdeps benchdeps clean
