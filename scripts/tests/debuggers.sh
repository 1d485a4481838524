#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of what shows sheaves to debuggers, tools/mm/sheaves-drgn.py and the commands of
# scripts/gdb/linux/slab_sheaves.py: on a guest that runs, by drgn from inside and outside
# and by gdb, and on the dump of its memory when it has crashed. They must agree with each
# other, with /sys/kernel/slab, and with a module that knows where its objects are.
# -d DIR: of the tree DIR/linux, built in DIR/obj. Builds the kernel with debug information;
# needs gdb, drgn in build/venv (or DRGN=), 2 GB in build; prints TAP.

. "$(dirname "$0")/../lib.sh"

DIR_ARGS=()
while getopts d: opt; do
	case $opt in
	d)
		dir=$(cd "$OPTARG" && pwd -P) || die "-d $OPTARG is not a directory"
		TREE=$dir/linux OBJ=$dir/obj
		DIR_ARGS=(-d "$dir")
		;;
	*) die "usage: debuggers.sh [-d DIR]" ;;
	esac
done

O=$OBJ/debuggers
DIR=$OUT/debuggers
LOG=$LOGS/debuggers.log
SCRIPT=$TREE/tools/mm/sheaves-drgn.py
MODULE=$DIR/test_debuggers.ko
CORE=$DIR/vmcore
DRGN=${DRGN:-$BUILD/venv/bin/drgn}
# Sockets have short names only.
SOCKETS=$(mktemp -d)
GUEST=''
# Half a minute of the host may be ten in the guest's inside, where there is no KVM.
READY=900

export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache}
unset TOPOLOGY CPUS APPEND

stop() {
	[ -z "$GUEST" ] || kill "$GUEST" 2>/dev/null || :
	rm -rf "$SOCKETS"
	rm -f "$CORE"
}
trap stop EXIT
trap 'exit 130' INT TERM

# ok NAME COMMAND...: the command succeeds.
ok() {
	local name=$1

	shift
	if "$@" >"$DIR/out" 2>&1 </dev/null; then
		echo "ok - $name"
	else
		echo "not ok - $name"
		tail -n 30 "$DIR/out" | sed 's/^/#   /'
		return 1
	fi
}

# In chains of &&, as ok() runs these where set -e does not count.

build_module() {
	cp "$SCRIPTS/tests/debuggers/test_debuggers.c" "$DIR/" &&
	echo "obj-m += test_debuggers.o" >"$DIR/Makefile" &&
	make -C "$TREE" O="$O" CC="ccache gcc" HOSTCC="ccache gcc" M="$DIR" KCFLAGS=-Werror modules
}

# QEMU with a door for debuggers: guest.sh takes the one that is first in PATH.
wrap_qemu() {
	local qemu

	qemu=$(command -v qemu-system-x86_64) &&
	mkdir -p "$DIR/bin" &&
	printf '#!/bin/bash\nexec %q "$@" -device vmcoreinfo %s %s %s\n' "$qemu" \
		"-gdb unix:$SOCKETS/gdb,server=on,wait=off" "-qmp unix:$SOCKETS/drgn,server=on,wait=off" \
		"-qmp unix:$SOCKETS/qmp,server=on,wait=off" >"$DIR/bin/qemu-system-x86_64" &&
	chmod +x "$DIR/bin/qemu-system-x86_64"
}

# Nothing moves in the cache once it is as wanted. Then drgn in the guest, and the rest from
# outside, until the file `go' says so.
boot() {
	cat >"$DIR/command" <<-GUEST
		/sbin/insmod $MODULE || exit
		cd /sys/kernel/slab/debuggers || exit
		echo none >sheaf_feedback
		echo 10 >barn_max_full
		echo 1 >skip_kfence
		echo 0 >/sys/devices/system/cpu/cpu2/online || exit
		echo 1 >/sys/module/kfence/parameters/sample_interval
		echo 1 >/sys/module/test_debuggers/parameters/act || exit
		echo 1000000 >/sys/module/kfence/parameters/sample_interval
		echo "sysfs: sheaf_objects \$(cat sheaf_objects)"
		$DRGN -q --main-symbols -s $O/vmlinux $SCRIPT debuggers 2>&1 | sed 's/^/inside: /'
		echo ready
		until grep -q go $DIR/go; do sleep 1; done
		echo 2 >/sys/module/test_debuggers/parameters/act
	GUEST
	echo wait >"$DIR/go"
	# panic=0: it stays as it is, to be dumped.
	PATH=$DIR/bin:$PATH TOPOLOGY=2node MEMORY=768 APPEND="panic=0" \
		"$SCRIPTS/guest.sh" -n debuggers -t 2400 "${DIR_ARGS[@]}" debuggers "bash $DIR/command" \
		>"$DIR/guest" 2>&1 </dev/null &
	GUEST=$!
}

# until_in FILE REGEXP SECONDS: not longer than the guest lives.
until_in() {
	local i

	for ((i = 0; i < $3; i++)); do
		! grep -qE "$2" "$1" 2>/dev/null || return 0
		kill -0 "$GUEST" 2>/dev/null || break
		sleep 1
	done
	grep -qE "$2" "$1" || { tail -n 20 "$DIR/guest"; return 1; }
}

# What the module has told.
told() { sed -nE "s/.*debuggers: $1 (0x[0-9a-f]+).*/\1/p" "$LOG"; }
from_guest() { sed -n "s/^$1: //p" "$DIR/guest"; }

# Without colours or paging, on the guest (live) or the dump (dump).
drgn_on() {
	local where=$1

	shift
	case $where in
	live) set -- --qemu "$SOCKETS/drgn" -s "$O/vmlinux" -s "$MODULE" "$SCRIPT" "$@" ;;
	dump) set -- -c "$CORE" -s "$O/vmlinux" -s "$MODULE" "$SCRIPT" "$@" ;;
	esac
	timeout 240 "$DRGN" -q "$@"
}

# The guest stands still while gdb looks. Not on dumps: gdb wants them with virtual addresses,
# and then QEMU leaves out the memory of all nodes but the first.
gdb_on() {
	timeout 240 gdb -q -nx -batch -iex "add-auto-load-safe-path $O" -iex "add-auto-load-safe-path $TREE" \
		-iex "set pagination off" "$O/vmlinux" -ex "target remote $SOCKETS/gdb" -ex "$1" -ex detach 2>&1
}

# qmp COMMAND [ARGUMENTS]: and wait for its end.
qmp() {
	/usr/bin/python3 - "$SOCKETS/qmp" "$@" <<-'PY'
		import json, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.settimeout(300)
		s.connect(sys.argv[1])
		f = s.makefile("rw")
		f.readline()
		def run(name, args):
		    f.write(json.dumps({"execute": name, "arguments": args}) + "\n")
		    f.flush()
		    for line in f:
		        reply = json.loads(line)
		        if "return" in reply:
		            return
		        if "error" in reply:
		            sys.exit(line)
		run("qmp_capabilities", {})
		run(sys.argv[2], json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
	PY
}

# --- what they must say --------------------------------------------------

same() { diff "$1" "$2"; }
sums() { grep '^sheaf_objects ' "$1" | grep -qxF "$(from_guest sysfs)"; }
some_objects() { from_guest sysfs | grep -E '^sheaf_objects ([4-9]|[1-9][0-9]+) N0=[0-9]+ N1=1$'; }

inside() { from_guest inside | tee "$DIR/inside" | grep . && sums "$DIR/inside"; }
outside() { drgn_on live debuggers | tee "$DIR/live"; sums "$DIR/live" && same "$DIR/inside" "$DIR/live"; }
by_gdb() {
	gdb_on "lx-slab-sheaves debuggers" | tee "$DIR/gdb.all" | grep -E '^(debuggers:|CPU|node|objects|sheaf_objects) *' >"$DIR/gdb"
	cat "$DIR/gdb.all" && same "$DIR/live" "$DIR/gdb"
}

# place WHICH ADDRESS REGEXP: drgn, live or on the dump, says what it is, and in which place.
place() {
	local address what='number [0-9]+ of [0-9]+ in slab 0x[0-9a-f]+ of debuggers(-tracked)?, on node 0'

	case $2 in guarded_*) what='200 bytes, of debuggers-guarded, which KFENCE guards' ;; esac
	address=$(told "$2") && [ -n "$address" ] &&
	drgn_on "$1" --address "$address" | tee "$DIR/place" &&
	grep -qE "^$address is byte 0 of object $address, $what$" "$DIR/place" &&
	[ "$(grep -c '^it is ' "$DIR/place")" -eq 1 ] && grep -qE "^it is $3$" "$DIR/place"
}

# both ADDRESS REGEXP: gdb says the same, but for the node.
both() {
	place live "$1" "$2" &&
	gdb_on "lx-slab-sheaf-of $(told "$1")" | tee "$DIR/gdb.place" &&
	same <(grep -E ' is byte |^it is ' "$DIR/place" | sed 's/, on node [0-9]*$//') \
		<(grep -E ' is byte |^it is ' "$DIR/gdb.place")
}

within() {
	local address

	address=$(told last) &&
	drgn_on live --address "$(printf '0x%x' $((address + 57)))" | tee "$DIR/place" &&
	grep -q " is byte 57 of object $address," "$DIR/place" &&
	grep -q "^it is free, in CPU 0's main sheaf, slot" "$DIR/place"
}

# The last one is on top.
on_top() {
	both last "free, in CPU 0's main sheaf, slot [0-9]+ of [0-9]+" &&
	sed -nE 's/^it is.*slot ([0-9]+) of ([0-9]+)$/\1 \2/p' "$DIR/place" | { read -r slot size && [ $((slot + 1)) -eq "$size" ]; }
}

# Who has freed it, KFENCE knows.
guarded() {
	both guarded_used 'in use' && ! grep '^freed' "$DIR/place" &&
	both guarded_freed 'free, in KFENCE' &&
	grep -qE '^allocated: CPU 1, PID [0-9]+, at [0-9.]+ s$' "$DIR/place" &&
	grep -qE '^freed: CPU 1, PID [0-9]+, at [0-9.]+ s$' "$DIR/place" &&
	[ "$(grep -cE '^    keep_guarded\+0x[0-9a-f]+$' "$DIR/place")" -eq 2 ]
}

# tracked live|dump: what the module knows of itself.
tracked() {
	local by

	by=$(sed -nE 's/.*debuggers: by (CPU [0-9]+, PID [0-9]+).*/\1/p' "$LOG") &&
	place "$1" tracked_freed "free, in the freelist of its slab" &&
	grep -qE "^allocated: by track\+0x[0-9a-f]+, $by, [0-9.]+ s ago$" "$DIR/place" &&
	grep -qE "^freed: by debuggers_free\+0x[0-9a-f]+, $by, [0-9.]+ s ago$" "$DIR/place" &&
	grep -qE '^    track\+0x' "$DIR/place" &&
	place "$1" tracked_used 'in use' &&
	grep -q '^freed: not known, or not yet' "$DIR/place"
}

listed() {
	drgn_on live --list | tee "$DIR/list" &&
	[ "$(awk '$7 == "debuggers" { print "sheaf_objects " $2 }' "$DIR/list")" = "$(from_guest sysfs | cut -d' ' -f1,2)" ] &&
	[ "$(wc -l <"$DIR/list")" -gt 50 ]
}

# refused REGEXP ARGUMENT...: one line, and a status.
refused() {
	local want=$1

	shift
	! drgn_on live "$@" >"$DIR/refused" 2>&1 &&
	cat "$DIR/refused" && [ "$(wc -l <"$DIR/refused")" -eq 1 ] && grep -qE "^sheaves-drgn.py: $want" "$DIR/refused"
}
refused_gdb() { gdb_on "$2" | tee "$DIR/refused"; grep -qE "$1" "$DIR/refused"; }

crash() {
	echo go >"$DIR/go"
	until_in "$LOG" 'Kernel panic - not syncing: test_debuggers' 120 &&
	qmp dump-guest-memory "{\"paging\": false, \"protocol\": \"file:$CORE\"}" &&
	ls -l "$CORE" && qmp quit
}

# But for one that was freed by kfree_rcu() when it crashed.
after_crash() {
	drgn_on dump debuggers | tee "$DIR/dump" &&
	grep -qE '^CPU 0 .* rcu_free 1/[0-9]+$' "$DIR/dump" && sums "$DIR/dump" &&
	grep -qE '^objects in sheaves of CPUs .* that wait for RCU 1$' "$DIR/dump" &&
	same "$DIR/live" <(sed -E '/^CPU 0 /s,rcu_free 1/[0-9]+$,rcu_free -,; s/RCU 1$/RCU 0/' "$DIR/dump")
}

# -------------------------------------------------------------------------

args_end_here
need_tool make gcc ccache gdb qemu-system-x86_64
[ -x "$DRGN" ] || die "drgn is missing, run: make deps"
[ -e "$SCRIPT" ] || die "there is no $(rel "$SCRIPT"), run: make tree"
need_space "$OUT" 2 "a dump of a guest"
rm -rf "$DIR"
mkdir -p "$DIR"
trap 'stop; rm -rf "$DIR"' EXIT

ok "debuggers: the kernel with debug information builds" "$SCRIPTS/kernel.sh" "${DIR_ARGS[@]}" debuggers || exit 1
ok "debuggers: so does the module" build_module || exit 1
ok "debuggers: QEMU can be debugged" wrap_qemu || exit 1
rm -f "$LOG"
boot
ok "debuggers: the guest has objects in sheaves" until_in "$DIR/guest" '^ready$' $READY || exit 1
ok "debuggers: on both nodes" some_objects || :
ok "drgn in the guest: the sums are those of sysfs" inside || :
ok "drgn on the guest: the same" outside || :
ok "gdb on the guest: the same" by_gdb || :
ok "both: the object freed last is on top of main" on_top || :
ok "both: one in the barn" both in_barn 'free, in full sheaf [0-9]+ of the barn of node 0, slot [0-9]+ of 60' || :
ok "both: one that another node has freed" both remote "free, in CPU 3's remote sheaf, slot 0 of 1" || :
ok "both: one that is in use" both in_use 'in use, or in a sheaf that no list has.*' || :
ok "both: one in a prefilled sheaf" both prefilled 'free, as it has the mark .* prefilled, or on its way' || :
ok "both: one that is free in its slab" both tracked_freed 'free, in the freelist of its slab' || :
ok "both: those that KFENCE guards" guarded || :
ok "drgn: an address within" within || :
ok "drgn: who has allocated and freed" tracked live || :
ok "drgn: all caches" listed || :
ok "drgn: refused: what is no address of a slab" refused '0xffffffff8[0-9a-f]* is in no slab' --address \
	"0x$(awk '$3 == "_stext" { print $1 }' "$O/System.map")" || :
ok "drgn: refused: an unknown cache" refused 'no cache no_such_cache' no_such_cache || :
ok "gdb: refused: an unknown cache" refused_gdb 'no cache no_such_cache' 'lx-slab-sheaves no_such_cache' || :
ok "gdb: refused: what is no address of a slab" refused_gdb 'is in no sheaf, nor in a slab' 'lx-slab-sheaf-of &init_task' || :
ok "the guest crashes and is dumped" crash || exit 1
wait "$GUEST" 2>/dev/null || :
GUEST=''
ok "drgn on the dump: as it was, and one in rcu_free" after_crash || :
RCU_FREE="free, in CPU 0's rcu_free sheaf, which collects for kfree_rcu\(\), slot 0 of 1"
ok "drgn on the dump: and there it is" place dump rcu_free "$RCU_FREE" || :
ok "drgn on the dump: one of KFENCE, too" place dump guarded_rcu "$RCU_FREE" || :
ok "drgn on the dump: the one freed last" place dump last "free, in CPU 0's main sheaf, slot [0-9]+ of [0-9]+" || :
ok "drgn on the dump: one in the barn" place dump in_barn 'free, in full sheaf [0-9]+ of the barn of node 0, slot [0-9]+ of 60' || :
ok "drgn on the dump: who has allocated and freed" tracked dump || :
