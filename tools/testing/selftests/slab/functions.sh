# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# What the tests of the slab allocator share: KTAP, the counters in
# /sys/kernel/slab, lists of CPUs. Sourced, by bash. The functions leave what they
# found in a variable, since a fork takes its time on an emulated machine.

DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=/dev/null
. "$DIR/../kselftest/ktap_helpers.sh"

export LC_ALL=C
SLAB=${SLAB_SYSFS:-/sys/kernel/slab}
MODULE=test_slab_load
export MODULE_PARAMS=/sys/module/$MODULE/parameters

msg() { echo "# $*"; }

# The machine, or the kernel, cannot run any of the tests.
skip_all() {
	ktap_skip_all "$@"
	exit "$KSFT_SKIP"
}

# skip NAME REASON: the machine cannot run this test.
skip() {
	__ktap_test ok "$1" "SKIP $2"
	KTAP_CNT_SKIP=$((KTAP_CNT_SKIP + 1))
}

# verdict NAME COMMAND...: a test that passes if the command succeeds. Unlike
# ktap_test_result, it takes arguments with spaces.
verdict() {
	local name=$1

	shift
	if "$@"; then
		ktap_test_pass "$name"
	else
		ktap_test_fail "$name"
	fi
}

# with TOOL NAME COMMAND...: a test that needs a program that not every machine has.
with() {
	local tool=$1

	shift
	if command -v "$tool" >/dev/null; then
		verdict "$@"
	else
		skip "$1" "no $tool"
	fi
}

# hold_sizes [FEEDBACK]: sizes that follow the load, and what is given back meanwhile, are not
# in the counters that must add up. What is in somebody's hands for that is nowhere else.
FEEDBACK=/sys/module/slab_sheaf/parameters/feedback
FEEDBACK_WAS=
hold_sizes() {
	[ -w "$FEEDBACK" ] || return 0
	read -r FEEDBACK_WAS <"$FEEDBACK"
	echo "${1:-none}" >"$FEEDBACK" || ktap_exit_fail_msg "$FEEDBACK: cannot write ${1:-none}"
}

let_sizes_go() {
	[ -z "$FEEDBACK_WAS" ] || echo "$FEEDBACK_WAS" >"$FEEDBACK"
}

# Whether there never is another CPU.
one_cpu() { [ "$(</sys/devices/system/cpu/possible)" = 0 ]; }

# Whether what holds a spinlock may sleep.
is_rt() { [[ $(uname -v) == *PREEMPT_RT* ]]; }

need_root() {
	[ "$(id -u)" -eq 0 ] || skip_all "needs root"
}

need_stats() {
	local file

	[ -d "$SLAB" ] || skip_all "no $SLAB, needs CONFIG_SYSFS and CONFIG_SLUB_DEBUG"
	for file in "$SLAB"/*/alloc_fastpath; do
		[ ! -e "$file" ] || return 0
	done
	skip_all "no counters in $SLAB, needs CONFIG_SLUB_STATS"
}

# Where the module is: built in the tree, or installed.
need_module() {
	KO=$DIR/test_modules/$MODULE.ko
	[ -e "$KO" ] || skip_all "$KO is not built, needs a built kernel, KDIR="
	[ -e /proc/modules ] || skip_all "needs CONFIG_MODULES"
	if [ -d "/sys/module/$MODULE" ]; then
		rmmod "$MODULE" || skip_all "cannot unload $MODULE"
	fi
	RCU_KO=$DIR/test_modules/test_slab_rcu.ko
}

# without_kfence CACHE...: what KFENCE has is in no slab, and in no counter.
without_kfence() {
	local name

	for name; do
		[ ! -e "$SLAB/$name/skip_kfence" ] || echo 1 >"$SLAB/$name/skip_kfence"
	done
}

# Whether a cache has no sheaves for being debugged, as by slab_debug=.
is_debugged() {
	local file

	total "$1" sheaf_capacity
	[ "$VALUE" = 0 ] || return
	for file in sanity_checks red_zone poison store_user trace; do
		total "$1" $file
		[ "$VALUE" != 1 ] || return 0
	done
	return 1
}

# with_room CACHE...: where the command line has only tiny sheaves, those of a test are not, if it
# is about what is in them.
with_room() {
	local name

	for name; do
		total "$name" sheaf_capacity
		[ "${VALUE:-0}" -eq 0 ] || [ "$VALUE" -ge 60 ] ||
			echo 124 2>/dev/null >"$SLAB/$name/sheaf_capacity" || :
	done
}

# Generic KASAN keeps what is freed for some time, in no sheaf, and takes it to slabs or sheaves
# when somebody frees something else.
has_quarantine() { grep -q ' kasan_quarantine_put$' /proc/kallsyms; }

# unless_kept NAME COMMAND...: a test of where objects are once they are freed.
unless_kept() {
	if has_quarantine; then
		skip "$1" "KASAN keeps what is freed"
	else
		verdict "$@"
	fi
}

# total CACHE FILE: the number that FILE starts with, in VALUE; empty if there is
# no such file.
total() {
	VALUE=
	[ ! -e "$SLAB/$1/$2" ] || read -r VALUE _ <"$SLAB/$1/$2"
	VALUE=${VALUE%%[!0-9]*}
}

# Whether it is told how many slabs CACHE has, and objects in them: with CONFIG_SLUB_DEBUG.
slabs_are_counted() { [ -e "$SLAB/$1/slabs" ]; }

# if_counted NAME COMMAND...: a test that needs what slabs have.
if_counted() {
	if slabs_are_counted kmalloc-64; then
		verdict "$@"
	else
		skip "$1" "/sys/kernel/slab/*/objects needs CONFIG_SLUB_DEBUG"
	fi
}

# A file like "12 C0=10 C3=2": the array named by $2 gets [total], [C0], [C3]. Fails
# if the file is no such thing.
declare -A COUNTER
parse_counter() {
	local file=$1 words word

	COUNTER=()
	read -r -a words <"$file" || return 1
	[[ ${words[0]:-} =~ ^[0-9]+$ ]] || return 1
	COUNTER[total]=${words[0]}
	for word in "${words[@]:1}"; do
		[[ $word =~ ^(C[0-9]+)=([0-9]+)$ ]] || return 1
		COUNTER[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
	done
}

# --- what adds up --------------------------------------------------------

COUNTERS="alloc_fastpath alloc_slowpath free_fastpath free_slowpath sheaf_alloc sheaf_free
	sheaf_refill sheaf_flush barn_get barn_get_fail barn_put barn_put_fail
	sheaf_prefill_fast sheaf_prefill_slow sheaf_prefill_oversize sheaf_return_fast
	sheaf_return_slow free_rcu_sheaf free_rcu_sheaf_fail list_lock"

# bad REASON: counts, and says it, unless there is too much to say.
BAD=0
bad() {
	BAD=$((BAD + 1))
	if [ $BAD -le 10 ]; then
		msg "$*"
	elif [ $BAD -eq 11 ]; then
		msg "and more"
	fi
}

# judged NAME: whether there was anything bad since BAD was set to 0.
judged() {
	if [ $BAD -eq 0 ]; then
		ktap_test_pass "$1"
	else
		ktap_test_fail "$1"
	fi
	BAD=0
}

# A kernel for one CPU has no parts to add up.
find_smp() {
	SMP=
	[ ! -e /sys/devices/system/cpu/cpu0/topology ] || SMP=1
	! one_cpu || SMP=
}

# adds_up FILE: it parses, and the total is the sum of its parts.
adds_up() {
	local key sum=0 line

	parse_counter "$1" || {
		read -r line <"$1"
		bad "$1: cannot be parsed: $line"
		return
	}
	for key in "${!COUNTER[@]}"; do
		[ "$key" = total ] || sum=$((sum + COUNTER[$key]))
	done
	# One CPU may be enough not to tell.
	[ ${#COUNTER[@]} -gt 1 ] || [ "$SMP" ] || sum=${COUNTER[total]}
	[ "$sum" -eq "${COUNTER[total]}" ] ||
		bad "$1: total ${COUNTER[total]}, the CPUs have $sum"
}

# nodes_add_up FILE: what the nodes have is the sum, also if it is not at rest.
nodes_add_up() {
	local words word sum=0

	read -r -a words <"$1"
	for word in "${words[@]:1}"; do
		[[ $word =~ ^N[0-9]+=([1-9][0-9]*)$ ]] || bad "$1: cannot be parsed: ${words[*]}"
		sum=$((sum + BASH_REMATCH[1]))
	done
	[[ ${words[0]} =~ ^[0-9]+$ ]] || bad "$1: not a number: ${words[0]}"
	[ "$sum" -eq "${words[0]}" ] || [ ! -d /sys/devices/system/node ] ||
		bad "$1: ${words[0]}, the nodes have $sum"
}

# The numbers of a cache, in V: counters as they are, and some more files. What is held is in
# HELD; of a cache of which nobody knows it, it is what slabs have that is not in sheaves.
declare -A V HELD
read_cache() {
	local name

	V=()
	for name in $COUNTERS sheaf_capacity sheaf_objects alloc_slab free_slab order_fallback \
		slabs objects total_objects objs_per_slab partial objects_partial; do
		total "$1" "$name"
		V[$name]=${VALUE:-0}
	done
	V[allocs]=$((V[alloc_fastpath] + V[alloc_slowpath]))
	V[frees]=$((V[free_fastpath] + V[free_slowpath]))
	V[held]=${HELD[$1]:-$((V[objects] - V[sheaf_objects]))}
}

# equal CACHE WHAT A B, at_most CACHE WHAT A B: arithmetic expressions.
equal() { (($3 == $4)) || bad "$1: $2: $3 is $(($3)), $4 is $(($4))"; }
at_most() { (($3 <= $4)) || bad "$1: $2: $3 is $(($3)), $4 is $(($4))"; }

# At rest, what read_cache() has read.
check_objects() {
	equal "$1" "objects in use" 'V[allocs] - V[frees]' 'V[held]'
	equal "$1" "objects in sheaves" \
		'V[sheaf_refill] + V[free_fastpath] - V[sheaf_flush] - V[alloc_fastpath]' \
		'V[sheaf_objects]'
	slabs_are_counted "$1" || return 0
	equal "$1" "objects by slabs" 'V[objects] - V[sheaf_objects]' 'V[held]'
	at_most "$1" "objects in slabs" 'V[objects]' 'V[total_objects]'
	at_most "$1" "objects in partial slabs" 'V[objects_partial]' 'V[objects]'
	at_most "$1" "partial slabs" 'V[partial]' 'V[slabs]'
}

# expand LIST: "0-2,5" is (0 1 2 5), in EXPANDED.
expand() {
	local part i

	EXPANDED=()
	for part in ${1//,/ }; do
		for ((i = ${part%-*}; i <= ${part#*-}; i++)); do
			EXPANDED+=("$i")
		done
	done
}

# make_cgroup NAME FILE: a cgroup of version 2 with a memory controller that has FILE,
# in CGROUP; its root in CGROUP_ROOT. Where version 2 is mounted, it is used as it is; if
# it is not, it is for this test, at a place of its own: what is at /sys/fs/cgroup may
# be version 1, for others. Fails, with WHY: with version 1 the controller is there.
make_cgroup() {
	local type dir fields

	CGROUP='' CGROUP_ROOT='' CGROUP_MOUNTED='' CGROUP_ENABLED='' WHY="no cgroup v2"
	while read -r _ dir type _; do
		[ "$type" != cgroup2 ] || CGROUP_ROOT=$dir
	done </proc/self/mounts
	if [ -z "$CGROUP_ROOT" ]; then
		CGROUP_ROOT=$(mktemp -d) || return
		if ! mount -t cgroup2 none "$CGROUP_ROOT" 2>/dev/null; then
			rmdir "$CGROUP_ROOT"
			CGROUP_ROOT=
			return 1
		fi
		CGROUP_MOUNTED=1
	fi
	WHY="no memory controller in cgroup v2"
	read -r -a fields <"$CGROUP_ROOT/cgroup.controllers" || return
	[[ " ${fields[*]} " = *" memory "* ]] || return
	read -r -a fields <"$CGROUP_ROOT/cgroup.subtree_control"
	if [[ " ${fields[*]} " != *" memory "* ]]; then
		WHY="the memory controller cannot be enabled"
		echo +memory >"$CGROUP_ROOT/cgroup.subtree_control" || return
		CGROUP_ENABLED=1
	fi
	WHY="no $2 in a memory cgroup"
	mkdir "$CGROUP_ROOT/$1.$$" 2>/dev/null || return
	CGROUP=$CGROUP_ROOT/$1.$$
	[ -e "$CGROUP/$2" ]
}

# All is as it was before make_cgroup().
remove_cgroup() {
	[ -z "${CGROUP:-}" ] || rmdir "$CGROUP"
	[ -z "${CGROUP_ENABLED:-}" ] || echo -memory >"$CGROUP_ROOT/cgroup.subtree_control"
	[ -z "${CGROUP_MOUNTED:-}" ] || { umount "$CGROUP_ROOT" && rmdir "$CGROUP_ROOT"; }
	CGROUP='' CGROUP_ENABLED='' CGROUP_MOUNTED=''
}

# What the kernel has to say from here on.
COMPLAINTS='WARNING:|\bBUG\b|Oops|KASAN:|KFENCE:|UBSAN:|ODEBUG:|Call Trace:|INFO: (rcu|task|trying)'
COMPLAINTS+='|Objects remaining|still has objects|possible (circular|recursive)|suspicious RCU'
COMPLAINTS+='|general protection fault|unable to handle|list_(add|del) corruption|FAILED:'
mark_log() {
	MARK="slab selftest $RANDOM.$$"
	echo "$MARK" >/dev/kmsg
}

# What KCSAN found others at, which may be the timers and the scheduler, whatever they
# interrupt. It names two functions, and here ours are known by their names.
OURS='sl[au]b|shea[fv]|barn|kmem|k(v|z|m|re)?(free|alloc)|object|partial|prefill|balance_|squeeze'
OURS+='|_(miss|spare|refill|idle|main|queue|away|batches|home|grow|limit)([.]|$)|trim_|look_at'
OURS+='|(soon|collect|after_gp|scan|count)_fn'
without_races() {
	awk -v ours="$OURS" '
		/BUG: KCSAN: data-race in / {
			split($0, two, /data-race in | \/ /)
			theirs = two[2] !~ ours && two[3] !~ ours
		}
		!theirs { print }
		/==========/ { theirs = 0 }'
}

# without_reports BEGIN [FROM TO]: without what begins in a line like BEGIN, and ends where it says
# what memory there is. Only between lines with FROM and with TO, if there are these.
without_reports() {
	awk -v begin="$1" -v from="${2-}" -v to="${3-}" '
		from == "" || index($0, from) { expected = 1 }
		to != "" && index($0, to) { expected = 0 }
		expected && $0 ~ begin { report = 1 }
		!report
		/Mem-Info:|memory: usage/ { report = 0 }'
}

# log_is_clean [FILTER...]: behind a filter, what there is since the mark.
log_is_clean() {
	local log

	[ $# -gt 0 ] || set -- cat
	log=$(dmesg | sed -n "/$MARK/,\$p" | without_races | "$@")
	[ -n "$log" ] || {
		msg "the log does not reach back to the beginning of the test"
		return 1
	}
	log=$(grep -E -A 30 "$COMPLAINTS" <<<"$log" | head -n 60)
	[ -z "$log" ] && return
	msg "the log: ${log//$'\n'/$'\n# '}"
	return 1
}
