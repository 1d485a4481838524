# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# Allocations that fail because they are told to (failslab, fail_page_alloc). Sourced, after
# functions.sh, by bash.

DEBUGFS=/sys/kernel/debug
# All that can fail, but for what user space has, and without a word from the injection. Of a
# task that may fail, pages do: as many as `times' says, once it has had as many as `space'.
FAULT_SETTINGS="failslab/ignore-gfp-wait=N failslab/verbose=0 failslab/probability=0
	fail_page_alloc/ignore-gfp-wait=N fail_page_alloc/verbose=0 fail_page_alloc/min-order=0
	fail_page_alloc/times=0 fail_page_alloc/space=0 fail_page_alloc/task-filter=Y
	fail_page_alloc/probability=100"
declare -A FAULTS_WERE
DEBUGFS_MOUNTED=

# Fails, with WHY, if nothing can fail in this kernel.
faults_begin() {
	local setting name

	if ! mountpoint -q "$DEBUGFS" && mount -t debugfs none "$DEBUGFS" 2>/dev/null; then
		DEBUGFS_MOUNTED=1
	fi
	WHY="no fault injection, needs CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC"
	WHY+=", CONFIG_FAULT_INJECTION_DEBUG_FS"
	for setting in $FAULT_SETTINGS; do
		name=${setting%=*}
		[ -w "$DEBUGFS/$name" ] || return
		read -r "FAULTS_WERE[$name]" <"$DEBUGFS/$name"
		echo "${setting#*=}" >"$DEBUGFS/$name"
	done
}

# The last one first: as long as pages fail, they must be those of some tasks only.
faults_end() {
	local setting names=() name

	for setting in $FAULT_SETTINGS; do
		names=("${setting%=*}" "${names[@]}")
	done
	for name in "${names[@]}"; do
		[ -z "${FAULTS_WERE[$name]:-}" ] || echo "${FAULTS_WERE[$name]}" >"$DEBUGFS/$name"
	done
	[ -z "$DEBUGFS_MOUNTED" ] || umount "$DEBUGFS"
	FAULTS_WERE=() DEBUGFS_MOUNTED=
}

# failing N COMMAND...: of the shell's allocations in it, the Nth one fails. In LEFT how many
# more there would have to be for that. What is opened here has its memory.
failing() {
	local nth=$1 rc

	shift
	exec 8>/proc/self/fail-nth 9</proc/self/fail-nth
	echo "$nth" >&8
	"$@"
	rc=$?
	read -r LEFT <&9
	echo 0 >&8
	exec 8>&- 9<&-
	return $rc
} 2>/dev/null

# For a trap, which may come in the middle of failing(). If it is this that fails, there is
# nothing more to come.
disarm() {
	[ ! -e /proc/self/fail-nth ] || echo 0 >/proc/self/fail-nth
} 2>/dev/null

# To and from what is open as 7.
put() { echo "$1" >&7; }
get() { read -r -u 7 _; }
