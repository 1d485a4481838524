# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# Allocations that fail because they are told to (failslab, fail_page_alloc). Sourced, after
# functions.sh, by bash.

DEBUGFS=/sys/kernel/debug
KMEMLEAK=$DEBUGFS/kmemleak
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

# may_name_caches REGEX: those that the test makes, or may not be able to.
may_name_caches() {
	export ASKED_FOR="cache_create_args\\(($1)[a-z0-9_]*\\) failed with error -(12|22)"
}

# That no cache could be made is said with a stack, as it was asked for. Of each such report,
# two lines are dropped that would be complaints: the error, and where its stack begins, which
# must be soon after it. Lines of other CPUs may be in between, and stay.
without_asked_for() {
	awk '
	function missing() { print "FAILED: there is no stack to what was asked for" }
	$0 ~ ENVIRON["ASKED_FOR"] {
		if (left)
			missing()
		left = 40
		next
	}
	left && /Call [Tt]race:/ { left = 0; next }
	left && !--left { missing() }
	{ print }
	END { if (left) missing() }'
}

# Nobody else creates caches now: as many as before. In BARNS; they can be counted.
count_barns() {
	total sheaf-barns objects
	BARNS=$VALUE
	total sheaf-barn objects
	BARNS+=" and $VALUE"
	[[ $BARNS =~ ^[0-9]+' and '[0-9]+$ ]]
}

# If it is off, that it is to scan stacks, as it does, is an error, and `clear' is none.
begin_leaks() {
	LEAKS=
	if [ -e "$KMEMLEAK" ] && { echo stack=on && echo clear; } 2>/dev/null >"$KMEMLEAK"; then
		LEAKS=1
	fi
}

# What is not freed for a while may still be. Only what the allocator, or who uses it here,
# has allocated is looked at.
none_leaked() {
	local leaks i

	for ((i = 0; i < 3; i++)); do
		sleep 6
		echo scan >"$KMEMLEAK" || return
		leaks=$(awk 'BEGIN { RS = "unreferenced object" }
			/sheaf|sheaves|barn|slab|kmem_cache_create/ { print RS $0 }' "$KMEMLEAK")
		[ -n "$leaks" ] || return 0
	done
	msg "${leaks//$'\n'/$'\n# '}"
	return 1
}

verdict_on_leaks() {
	if [ -n "$LEAKS" ]; then
		verdict "nothing is leaked" none_leaked
	else
		skip "nothing is leaked" "no kmemleak, needs CONFIG_DEBUG_KMEMLEAK and kmemleak=on"
	fi
}
