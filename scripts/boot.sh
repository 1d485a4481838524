#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boot a kernel (guest.sh, same options and arguments) and judge its KUnit
# suites, which run at boot. Prints the guest's output and a line per suite;
# fails when the guest or a test does.

. "$(dirname "$0")/lib.sh"

config='' name=''
args=("$@")
while getopts a:n:t: opt; do
	case $opt in
	n) name=$OPTARG ;;
	*) ;;
	esac
done
shift $((OPTIND - 1))
config=${1:?usage: boot.sh [-n NAME] [-t SECONDS] CONFIG [COMMAND]}
[ -n "$name" ] || name=guest-$config-${CPUS:-${TOPOLOGY:-4cpu}}

"$SCRIPTS/guest.sh" "${args[@]}"
python3 "$SCRIPTS/kunit.py" "$TREE" "$LOGS/$name.log" "$OBJ/$config/.config"
