# SPDX-License-Identifier: GPL-2.0
#
# SLUB sheaves for Linux 6.12: every target is a script in scripts/; this file
# only names them. `make help` lists them.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

S := scripts
CONFIG ?= guest
export SHEAVES_T0 := $(shell date +%s)
export KERNEL_SRC CPUS TOPOLOGY MEMORY APPEND FORCE JOBS AM_TO
export CHECK_SECS ROUNDS BENCH PEER FIXED OURS RESULTS STRESS_SECS STRESS_ALL FAULTS_SECS FAULTS_ALL KEEP RESUME
export SUITES STEPS SHARE_CCACHE MUTANTS CASES MACHINES PERIOD LOCKS
export LOCALMOD LSMOD TESTS DEBUG_INFO SUITE KSELFTESTS

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14
	@echo
	@echo 'KERNEL_SRC=DIR    your own 6.12.y tree instead of Debian'"'"'s (tree, kernel, run, ...)'
	@echo "CONFIG=NAME       $$($(S)/kernel.sh --list) (run, kernel, boot, shell)"
	@echo "TOPOLOGY=NAME     $$($(S)/guest.sh --list); CPUS=N for N CPUs on one node"
	@echo 'MEMORY=MIB        of the guest; APPEND=... more kernel command line (run, boot, shell)'
	@echo 'JOBS=N            compile so many files at once'
	@echo 'What else a target takes, and what it prints: the first lines of its script in $(S)/'

tree: deps ## lay base, new files and patches into build/linux, a commit per patch
	@$(S)/tree.sh

# First of all, in every target that installs or builds: wrong values fail at once.
args:
	@GIVEN='$(foreach v,$(.VARIABLES),$(if $(filter command,$(origin $v)),$v))' $(S)/args.sh $(MAKECMDGOALS)

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

check: checkdeps tree ## the tests that fit into three quarters of an hour, as CI runs them (CHECK_SECS=)
	@$(S)/check.sh

check-all: alldeps tree ## all there is to check, in a day or more; goes on where it was interrupted (CASES=groups or names, RESUME=1 from what is recorded)
	@$(S)/check-all.sh

selftest: checkdeps kernel ## run the kselftests (ublk null target, sysfs, hotplug, isolated CPUs, stress) in the guest, on each topology
	@$(S)/kernel.sh isolated
	@$(S)/selftest.sh

cross: crossdeps keep ## build for arm64, arm and s390x, boot with KUnit in QEMU, and tell in build/cross.md (ARCHS="arm s390x")
	@$(S)/cross.sh $(ARCHS)

mutants: checkdeps keep ## a kernel with mutants: that every KUnit test can fail, in build/mutants.md (MUTANTS="3 5-9")
	@$(S)/tests/mutants.sh

demo-tune: demodeps kernel ## in a guest, sizes follow a burst from node to node, drawn to build/demo-tune.svg
	@$(S)/tune.sh

bench: benchdeps tree ## measure against plain 6.12; PEER=7.2 against mainline too, FIXED=1 itself with fixed sizes, HARDENED=1 hardened (ROUNDS=, BENCH=groups)
	@$(S)/bench.sh

bench-native: benchdeps tree ## the same in real time: the allocators' objects in user space (PEER=, HARDENED=, SMALL=, ROUNDS=, BENCH=, COUNT=)
	@$(S)/bench-native.sh

bench-real: realdeps tree ## real programs, instructions on one CPU, time on 4 and 32 (PEER=, ROUNDS=, CASES=, MACHINES=)
	@$(S)/bench-real.sh

profile: realdeps tree ## where the time of CASE= of bench-real goes, in base and ours, and what locks are waited for (TOPOLOGY=, LOCKS=1)
	@$(S)/profile.sh

attacks: attackdeps tree ## what a heap bug gets, of plain 6.12 and of the series, in build/attacks.md (PEER=, VIEW=debug, WITH=)
	@$(S)/attacks.sh

fresh: args freshdeps ## make run and make check in new chroots of Debian 12 and 13 (SUITES=, STEPS=)
	@$(S)/fresh.sh

bases: checkdeps tree ## whether the oldest and the newest 6.12.y that Debian offers take the series, and what it changes builds there
	@$(S)/bases.sh

bisect: tree ## build, boot and KUnit-test every commit of the series, or those of COMMITS=
	@$(S)/bisect.sh -- $(COMMITS)

lint: checkdeps tree ## checkpatch, W=1, sparse, shellcheck
	@$(S)/lint.sh

docs: tree ## the series' documents as pages, what sphinx warns of anew, and whether all files are described
	@$(S)/docs.sh

deb: debdeps keep ## Debian packages to install (CONFIG=running, debian, PATH or NAME; LOCALMOD=1, LSMOD=FILE; TESTS=0, DEBUG_INFO=1)
	@$(S)/deb.sh

deb-try: debtrydeps keep ## the same, and a Debian that installs them, boots, tests, uninstalls, and boots its own kernel (SUITE=)
	@$(S)/deb.sh
	@$(S)/tests/deb.sh

debuggers: debuggerdeps tree ## drgn and gdb on a guest that runs, and drgn on its dump, in a minute once the kernel is built
	@$(S)/tests/debuggers.sh

series: tree ## the series as mails with a cover letter, in build/series (AM_TO=DIR tries them there)
	@$(S)/series.sh

refresh: args ## bring edits and commits of build/linux back into patches/ and the new files
	@$(S)/refresh.sh

deps: args ## install the Debian packages that are missing
	@$(S)/deps.sh

checkdeps: args
	@$(S)/deps.sh check

alldeps: args
	@$(S)/deps.sh all

demodeps: args
	@$(S)/deps.sh demo

benchdeps: args
	@$(S)/deps.sh bench

realdeps: args
	@$(S)/deps.sh real

crossdeps: args
	@$(S)/deps.sh cross

debuggerdeps: args
	@$(S)/deps.sh debuggers

attackdeps: args
	@$(S)/deps.sh $(if $(filter debug,$(VIEW)),debug,bench)

debdeps: args
	@$(S)/deps.sh deb

debtrydeps: args
	@$(S)/deps.sh debtry

freshdeps: args
	@$(S)/deps.sh fresh

clean: ## remove what was built; downloads stay
	@$(S)/clean.sh

.PHONY: help args tree keep kernel run shell boot check check-all selftest cross mutants demo-tune bench bench-native bench-real profile attacks fresh bases bisect lint deb deb-try debuggers \
	docs series refresh deps checkdeps alldeps benchdeps realdeps attackdeps demodeps crossdeps debuggerdeps debdeps debtrydeps freshdeps clean
