# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What a guest's console log says: whether the kernel complained, and of what. For
# guest.sh and cross.sh, which boot kernels. Sourced, after lib.sh; LOG is the log. Who boots
# kernels with KCSAN has racers() say which functions' races count.

SPLAT='WARNING:|\bBUG\b|Oops|KASAN:|KFENCE:|UBSAN:|ODEBUG:|INFO: (rcu|task|lockdep|trying)'
SPLAT+='|suspicious RCU|possible (circular|recursive|irq)|inconsistent lock|invalid wait context'
SPLAT+='|scheduling while atomic|general protection fault|[Uu]nable to handle|Call [Tt]race:'
SPLAT+='|Kernel panic|list_(add|del) corruption|soft lockup|insane'
# of other architectures
SPLAT+='|Internal error|Alignment trap|Krnl PSW'

# A splat is the kernel's, whose lines have a time. User space writes to the console,
# too: without it, or by way of /dev/kmsg, with its name.
STAMP='\[ *[0-9]+\.[0-9]{6}\] '
USER_SPACE='(virtme-ng-init|[[:alnum:]_.-]+\[[0-9]+\]): '

# Plain 6.12 has a warning of its own when the time of the fair server is set, as
# isolated.sh does: "dl_rq->running_bw > old". No other one has this function in its stack.
KNOWN='sched_fair_server_write'

racers() { :; }

# The log with the lines of known warnings left empty: numbers of lines stay. The same for
# the stack of who runs out of memory at somebody's request (order=-1: SysRq-f), or while
# stress.sh says that it takes all of it.
without_known() {
	awk -v known="$KNOWN" -v racers="$(racers)" '
		BEGIN { n = split(racers, names, " "); while (n) racer[names[n--]] }
		{ line[NR] = $0 }
		/slab_stress: somebody takes all memory/ { taken = 1 }
		/slab_stress: it is given back/ { taken = 0 }
		/BUG: KCSAN: data-race in / {
			split($0, two, /data-race in | \/ /)
			theirs = !(two[2] in racer || two[3] in racer)
		}
		theirs { line[NR] = "" }
		/==========/ { theirs = 0 }
		/invoked oom-killer: .* order=-1,/ { asked = NR }
		taken && /invoked oom-killer:|page allocation failure:/ { asked = NR }
		asked && /Mem-Info:|memory: usage/ {
			for (i = asked; i < NR; i++)
				line[i] = ""
			asked = 0
		}
		/-+\[ cut here \]-+/ { from = NR; is_known = 0 }
		from && $0 ~ known { is_known = 1 }
		from && /---\[ end trace / {
			for (i = from; is_known && i <= NR; i++)
				line[i] = ""
			from = 0
		}
		END { for (i = 1; i <= NR; i++) print line[i] }' "$LOG"
}

# Plain 6.12 counts the fair server as a task, and on a host that has much else to do it may not
# have stopped yet when its CPU goes offline: two there are, and the list has who takes it down.
# stress.sh excuses the same in the guest's own log.
without_fair_server() {
	awk -v splat="${SPLAT//\\b/}" '
		{ line[NR] = $0 }
		/-+\[ cut here \]-+/ { from = NR; cpu = dying = others = at = 0 }
		/WARNING: CPU: .* sched_cpu_dying[+]/ {
			cpu = $0
			gsub(/.* CPU: | .*/, "", cpu)
			dying = from
			next
		}
		dying && !/Call Trace:/ && $0 ~ splat { others = 1 }
		dying && / enqueued tasks [(]2 total[)]:/ { at = NR }
		at && NR == at + 1 && $0 !~ (" name: migration/" cpu "$") { at = 0 }
		at && NR == at + 2 && !/\tpid: / {
			for (i = dying; !others && i < NR; i++)
				line[i] = ""
			dying = at = 0
		}
		END { for (i = 1; i <= NR; i++) print line[i] }'
}

# Tests that fail their allocations: that a cache cannot be made is said with a stack, and that
# KASAN has no shadow for memory that comes, or a module.
without_failures() {
	local cache='test_slab_(faulty|late|unload)'

	awk -v failure="kmem_cache_create_args[(]${cache}[)] failed with error -(12|22)|(memhotplug[.]sh|fail_nth): vmalloc error: .* mode:" '
		$0 ~ failure { from = NR }
		{ print from && NR < from + 90 ? "" : $0 }
		/<\/TASK>/ { from = 0 }'
}

# Print the first splat, if there is one.
splat() {
	without_known | without_fair_server | without_failures | { grep -nE "$STAMP.*($SPLAT)" || :; } |
		{ grep -vE "$STAMP$USER_SPACE" || :; } | cut -d: -f1 | {
		read -r line || return 1
		sed -n "$line,$((line + ${1:-40}))p" "$LOG" | sed 's/^/  | /'
	}
}

# Print what shows that it failed: the first splat, or how it ended.
show_log() { splat >&2 || tail -n 10 "$LOG" | sed 's/^/  | /' >&2; }

# what_went_wrong RC SECONDS: of a guest that timeout ended with RC, in a line; or nothing.
what_went_wrong() {
	if [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
		echo "the guest hung: no end within $2 s"
	elif grep -qE "${STAMP}Kernel panic" "$LOG"; then
		echo "the guest panicked: $(sed -n 's/.*Kernel panic - not syncing: //p' "$LOG" | head -n 1)"
	elif [ -n "$(splat 0)" ]; then
		echo "the guest's log has a splat"
	fi
}
