#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# args.sh GOAL...: what make was asked for, looked at before anything is installed or
# built. Each script that takes a variable knows what it may be, and is asked
# (ARGS_ONLY=1); so this knows only who takes what. Wrong values fail whether or not
# the goals use them. GIVEN has the names of the variables on make's command line:
# one that nobody takes is a mistake, too.
#
# Needs bash, coreutils, sed, grep. Prints nothing, or one line that says what is wrong.

. "$(dirname "$0")/lib.sh"

export ARGS_ONLY=1
# What the Makefile hands on, and what is for a script alone, or for tools.
KNOWN=" APPEND ARCHS BENCH CASE CASES CHECK_SECS COMMITS CONFIG COUNT CPUS FAULTS_ALL FAULTS_SECS FIXED FORCE HARDENED JOBS KEEP KERNEL_SRC LOCKS MACHINES MEMORY AM_TO OURS PEER PERIOD RESULTS RESUME ROUNDS SMALL
	MUTANTS SHARE_CCACHE STEPS STRESS_ALL STRESS_SECS SUITES TOPOLOGY VIEW WITH
	LOCALMOD LSMOD TESTS DEBUG_INFO SUITE KSELFTESTS KDEB_COMPRESS
	CC DRGN HERD7 LIMIT MIRROR NEED_GB SECS SEED SELFTESTS TARBALL CCACHE_BASEDIR CCACHE_DIR CCACHE_MAXSIZE "

for name in ${GIVEN:-}; do
	[[ "$KNOWN" =~ [[:space:]]${name}[[:space:]] ]] || die "there is no argument $name=, see: make help"
done

asks() { [[ " $GOALS " == *" $1 "* ]]; }

GOALS=$*
"$SCRIPTS/tree.sh"
# packages have configurations of their own, too
CONFIGURATION=${CONFIG:-guest}
if asks deb || asks deb-try; then
	"$SCRIPTS/deb.sh"
	CONFIGURATION=guest
fi
! asks deb-try || "$SCRIPTS/tests/deb.sh"
"$SCRIPTS/kernel.sh" "$CONFIGURATION"
# selftests have machines of their own, and take several
if asks selftest; then
	"$SCRIPTS/selftest.sh"
elif asks shell; then
	"$SCRIPTS/guest.sh" "$CONFIGURATION" shell
else
	"$SCRIPTS/guest.sh" "$CONFIGURATION"
fi
# these take other cases, other groups, and more or fewer rounds, or want a case
if asks check-all; then
	"$SCRIPTS/check-all.sh"
	unset CASES
fi
if asks bench-native; then
	"$SCRIPTS/bench-native.sh"
elif asks profile; then
	"$SCRIPTS/profile.sh"
elif asks bench-real; then
	"$SCRIPTS/bench-real.sh"
else
	"$SCRIPTS/bench.sh"
fi
ROUNDS='' "$SCRIPTS/bench-real.sh"
# shellcheck disable=SC2086 # a list of words
"$SCRIPTS/bisect.sh" -- ${COMMITS:-}
# shellcheck disable=SC2086
"$SCRIPTS/cross.sh" ${ARCHS:-}
"$SCRIPTS/series.sh"
"$SCRIPTS/check.sh"
"$SCRIPTS/bases.sh"
"$SCRIPTS/attacks.sh"
"$SCRIPTS/fresh.sh"
"$SCRIPTS/tests/mutants.sh"
