#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tools in tools/mm that show sheaves say what the files in /sys/kernel/slab do:
# sheaves, which refreshes like top, sheaves-textfile for Prometheus, and slabinfo.
# test_modules/test_slab_cached.c has the caches, whose traffic is known: so many objects
# allocated, and freed, and nobody else uses them.

. "$(dirname "$0")/functions.sh"

MODULE=test_slab_cached
PARAMS=/sys/module/$MODULE/parameters
CACHE=test_slab_cached
OBJECTS=1000
TMP=
PID=

cleanup() {
	let_sizes_go
	[ -z "$PID" ] || kill "$PID" 2>/dev/null
	[ ! -d "/sys/module/$MODULE" ] || rmmod "$MODULE"
	[ -z "$TMP" ] || rm -rf "$TMP"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Installed, they are here; in the tree, where they belong.
find_tool() {
	local dir

	for dir in "$DIR" "$DIR/../../../mm"; do
		[ ! -x "$dir/$1" ] || {
			TOOL=$dir/$1
			return
		}
	done
	skip_all "no $1, build it in tools/mm"
}

# bad REASON: say it, and fail.
bad() {
	msg "$*"
	return 1
}

# same WHAT IS WANTED
same() { [ "$2" = "$3" ] || bad "$1: $2, the files say $3"; }

# --- what the files say, of $CACHE ---------------------------------------

declare -A F
FILES="alloc_fastpath alloc_slowpath free_fastpath free_slowpath sheaf_refill sheaf_flush
	barn_get barn_get_fail barn_put barn_put_fail sheaf_alloc sheaf_free list_lock
	free_rcu_sheaf free_rcu_sheaf_fail sheaf_prefill_fast sheaf_prefill_slow
	sheaf_prefill_oversize sheaf_return_fast sheaf_return_slow sheaf_capacity
	sheaf_objects slab_size slabs order"

read_files() {
	local name limit grow shrink trim

	for name in $FILES; do
		total "$CACHE" "$name"
		F[$name]=$VALUE
	done
	read -r limit <"$SLAB/$CACHE/barn_max_full"
	F[barn_max_full]=${limit##* }
	read -r _ grow _ shrink _ trim <"$SLAB/$CACHE/sheaf_decisions"
	F[grow]=$grow F[shrink]=$shrink F[trim]=$trim
	F[allocs]=$((F[alloc_fastpath] + F[alloc_slowpath]))
	F[frees]=$((F[free_fastpath] + F[free_slowpath]))
	F[through]=$((F[alloc_slowpath] + F[free_slowpath] + F[sheaf_refill] + F[sheaf_flush]))
	F[bytes]=$((F[sheaf_objects] * F[slab_size]))
	shares alloc "${F[allocs]}" $((F[alloc_slowpath] + F[sheaf_refill])) "${F[barn_get]}"
	shares free "${F[frees]}" $((F[free_slowpath] + F[sheaf_flush])) "${F[barn_put]}"
}

# shares WHICH ALL SLAB SHEAVES: in percent, of sheaf, barn and slab.
shares() {
	local slab=$3 barn=$(($4 * F[sheaf_capacity]))

	[ "$slab" -le "$2" ] || slab=$2
	[ "$barn" -le $(($2 - slab)) ] || barn=$(($2 - slab))
	F[$1_by_slab]=$((slab * 100 / $2))
	F[$1_by_barn]=$((barn * 100 / $2))
	F[$1_by_sheaf]=$((($2 - slab - barn) * 100 / $2))
}

# Objects come and go, through all tiers. On one CPU: who moves leaves full sheaves behind, and
# refills others.
traffic() {
	local on=(taskset -c 0)

	command -v taskset >/dev/null || on=()
	"${on[@]}" bash -c "echo $OBJECTS >$PARAMS/allocated && echo 0 >$PARAMS/allocated"
}

# A load that all columns show something of, or a column could as well be missing.
traffic_shows() {
	local name

	traffic && traffic && read_files || return
	for name in allocs frees through sheaf_objects alloc_by_barn alloc_by_sheaf alloc_by_slab \
		barn_put barn_get; do
		[ "${F[$name]}" -gt 0 ] || bad "$name is 0" || return
	done
}

# --- sheaves -------------------------------------------------------------

# line NAME: that line of the last view in $TMP/view, its words in LINE.
line() {
	local name=$1 words

	LINE=()
	while read -r -a words; do
		[ "${words[0]:-}" != "$name" ] || LINE=("${words[@]}")
	done <"$TMP/view"
	[ ${#LINE[@]} -eq 17 ] || bad "$name: ${#LINE[@]} words, not 17"
}

totals_match() {
	local want

	find_tool sheaves
	"$TOOL" -b -t -n 1 "^$CACHE\$" >"$TMP/view" || return
	read_files
	want="$CACHE ${F[slab_size]} ${F[bytes]}"
	want+=" ${F[allocs]} ${F[alloc_by_sheaf]} ${F[alloc_by_barn]} ${F[alloc_by_slab]}"
	want+=" ${F[frees]} ${F[free_by_sheaf]} ${F[free_by_barn]} ${F[free_by_slab]}"
	want+=" ${F[through]} ${F[sheaf_capacity]} ${F[barn_max_full]}"
	want+=" ${F[grow]} ${F[shrink]} ${F[trim]}"
	msg "$want"
	line $CACHE && same sheaves "${LINE[*]}" "$want" && line all || return
	same "sheaves, all" "${LINE[*]:2:10}" "$(cut -d' ' -f3-12 <<<"$want")"
}

# What nodes have is what there is, and what their CPUs did is what was done.
nodes_match() {
	local dir bytes=0 allocs=0 frees=0 has

	for dir in /sys/devices/system/node/node[0-9]*; do
		[ -d "$dir" ] || { msg "no NUMA"; return; }
		[ "$(cat "$dir/online" 2>/dev/null || echo 1)" = 1 ] || continue
		line "${dir##*/}" || return
		has=$(sed -n "s/.* N${dir##*node}=\([0-9]*\).*/\1/p" "$SLAB/$CACHE/sheaf_objects")
		same "${dir##*/}" "${LINE[2]}" $((${has:-0} * F[slab_size])) || return
		bytes=$((bytes + LINE[2])) allocs=$((allocs + LINE[3])) frees=$((frees + LINE[7]))
	done
	same bytes $bytes "${F[bytes]}" && same allocations $allocs "${F[allocs]}" &&
		same frees $frees "${F[frees]}"
}

# Objects of the views after the first one: rates, times seconds. A rate is rounded.
rated() {
	awk -v cache=$CACHE '
		$1 == "sheaves" { seconds = $3; view++ }
		$1 == cache && view > 1 { allocs += $4 * seconds; frees += $8 * seconds }
		END { printf "%d %d\n", allocs, frees }' "$TMP/view"
}

# views N: wait until so many were shown. How many in SEEN.
views() {
	local i

	for ((i = 0; i < 600; i++)); do
		SEEN=$(grep -c "^$CACHE " "$TMP/view")
		[ "$SEEN" -lt "$1" ] || return 0
		sleep 0.1
	done
	bad "$SEEN views in a minute, not $1"
}

# One view may be in the middle of the traffic, the one after it is not.
rates_match() {
	local allocs frees off=$((OBJECTS / 25)) failed=

	: >"$TMP/view"
	"$TOOL" -b -i 2 "^$CACHE\$" >"$TMP/view" &
	PID=$!
	views 1 && traffic && views 1 && views $((SEEN + 2)) || failed=1
	kill $PID
	wait $PID
	PID=
	[ -z "$failed" ] || return
	read -r allocs frees <<<"$(rated)"
	msg "$OBJECTS objects allocated and freed; by the rates, $allocs and $frees"
	[ "$allocs" -ge $((OBJECTS - off)) ] && [ "$allocs" -le $((OBJECTS + off)) ] &&
		[ "$frees" -ge $((OBJECTS - off)) ] && [ "$frees" -le $((OBJECTS + off)) ]
}

# fails_with TEXT COMMAND...: in one line, that has this in it.
fails_with() {
	local text=$1

	shift
	! "$@" >"$TMP/out" 2>&1 || bad "it does not fail: $*" || return
	[ "$(wc -l <"$TMP/out")" -eq 1 ] && grep -q "$text" "$TMP/out" && return
	msg "$(head -n 3 "$TMP/out")"
	return 1
}

# As on a kernel that has the directory of a cache, and no sheaves.
errors_are_clear() {
	local tool

	mkdir -p "$TMP/slab/kmalloc-8" && echo 8 >"$TMP/slab/kmalloc-8/slab_size" || return
	for tool in sheaves sheaves-textfile; do
		find_tool $tool
		fails_with "no /nonexistent" env SLAB_SYSFS=/nonexistent "$TOOL" &&
			fails_with "has no sheaves" env SLAB_SYSFS="$TMP/slab" "$TOOL" || return
	done
}

not_root() {
	local tool nobody=(setpriv --reuid=65534 --clear-groups)

	for tool in sheaves-textfile sheaves; do
		find_tool $tool
		# where it is may be closed to others
		cp "$TOOL" "$TMP/$tool" || return
		[ $tool != sheaves ] || "${nobody[@]}" python3 -c '' 2>/dev/null || {
			msg "not everybody can run python3 here"
			continue
		}
		fails_with "be root" "${nobody[@]}" "$TMP/$tool" || return
	done
}

# Without CONFIG_SLUB_STATS: what there is.
without_stats() {
	local want dir=$TMP/nostats/$CACHE

	mkdir -p "$dir" || return
	cp "$SLAB/$CACHE"/{slab_size,sheaf_capacity,sheaf_objects,barn_max_full} "$dir/" || return
	read_files
	find_tool sheaves
	SLAB_SYSFS=$TMP/nostats "$TOOL" -b -n 1 -i 0.1 >"$TMP/view" || return
	grep -q "no rates, they need CONFIG_SLUB_STATS" "$TMP/view" ||
		bad "it does not say so" || return
	want="$CACHE ${F[slab_size]} ${F[bytes]} - - - - - - - - -"
	want+=" ${F[sheaf_capacity]} ${F[barn_max_full]} - - -"
	line $CACHE && same sheaves "${LINE[*]}" "$want"
}

# --- sheaves-textfile ----------------------------------------------------

# Which file has which metric. KEYS are as they are written.
declare -A METRIC=(
	[slab_allocated_objects_total,from=sheaf]=alloc_fastpath
	[slab_allocated_objects_total,from=slab]=alloc_slowpath
	[slab_freed_objects_total,to=sheaf]=free_fastpath
	[slab_freed_objects_total,to=slab]=free_slowpath
	[slab_sheaf_refilled_objects_total]=sheaf_refill
	[slab_sheaf_flushed_objects_total]=sheaf_flush
	[slab_barn_sheaves_total,op=get,result=ok]=barn_get
	[slab_barn_sheaves_total,op=get,result=failed]=barn_get_fail
	[slab_barn_sheaves_total,op=put,result=ok]=barn_put
	[slab_barn_sheaves_total,op=put,result=failed]=barn_put_fail
	[slab_sheaves_allocated_total]=sheaf_alloc
	[slab_sheaves_freed_total]=sheaf_free
	[slab_sheaf_limit_changes_total,direction=up]=grow
	[slab_sheaf_limit_changes_total,direction=down]=shrink
	[slab_sheaf_trimmed_objects_total]=trim
	[slab_list_lock_total]=list_lock
	[slab_kfree_rcu_objects_total,in=sheaf]=free_rcu_sheaf
	[slab_kfree_rcu_objects_total,in=page]=free_rcu_sheaf_fail
	[slab_sheaf_prefilled_total,result=fast]=sheaf_prefill_fast
	[slab_sheaf_prefilled_total,result=slow]=sheaf_prefill_slow
	[slab_sheaf_prefilled_total,result=oversize]=sheaf_prefill_oversize
	[slab_sheaf_returned_total,result=fast]=sheaf_return_fast
	[slab_sheaf_returned_total,result=slow]=sheaf_return_slow
	[slab_sheaf_capacity_objects]=sheaf_capacity
	[slab_barn_max_full_sheaves]=barn_max_full
	[slab_cache_bytes]=cache_bytes
)

metrics_match() {
	local text value key bytes=0

	find_tool sheaves-textfile
	"$TOOL" -c "^$CACHE\$" -o "$TMP/prom/slab.prom" || return
	read_files
	F[cache_bytes]=$((F[slabs] * ($(getconf PAGESIZE) << F[order])))
	declare -A found=()
	while read -r text value; do
		[[ $text =~ ^([a-z_]+)'{cache="'$CACHE'"'(.*)'}'$ ]] || continue
		key=${BASH_REMATCH[1]}${BASH_REMATCH[2]//\"/}
		case $key in
		slab_sheaf_free_bytes*) bytes=$((bytes + value)) ;;
		*)
			[ -n "${METRIC[$key]:-}" ] || bad "$key: what is that?" || return
			same "$key" "$value" "${F[${METRIC[$key]}]}" || return
			found[$key]=1
			;;
		esac
	done <"$TMP/prom/slab.prom"
	slabs_are_counted $CACHE || found[slab_cache_bytes]=1
	for key in "${!METRIC[@]}"; do
		[ -n "${found[$key]:-}" ] || bad "$key is missing" || return
	done
	same slab_sheaf_free_bytes $bytes "${F[bytes]}"
}

# Prometheus takes nothing of a file with an error in it.
format_is_right() {
	find_tool sheaves-textfile
	"$TOOL" -c "^kmalloc|^$CACHE" -o "$TMP/prom/slab.prom" || return
	awk '
		function bad(why) { print "# line " NR ": " why ": " $0; failed = 1; exit 1 }
		/^# HELP / { if (seen[$3]++) bad("twice"); name = $3; helps++; next }
		/^# TYPE / {
			if ($3 != name || $4 !~ /^(counter|gauge)$/) bad("no type of " name)
			if (($4 == "counter") != (name ~ /_total$/)) bad("no name of a " $4)
			next
		}
		!/^[a-z_]+\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\} [0-9]+$/ { bad("no sample") }
		{ split($1, part, "{"); if (part[1] != name) bad("no part of " name) }
		series[$1]++ { bad("twice") }
		{ sub(/ [0-9]+$/, ""); samples++ }
		END { if (!failed) { print "# " helps " metrics, " samples " samples"
			exit helps < 15 || samples < 400 } }' "$TMP/prom/slab.prom" || return
	same "files" "$(ls "$TMP/prom")" slab.prom &&
		same mode "$(stat -c %a "$TMP/prom/slab.prom")" 644
}

# What is there stays, whatever goes wrong.
old_file_stays() {
	echo old >"$TMP/prom/slab.prom"
	fails_with "no /nonexistent" env SLAB_SYSFS=/nonexistent "$TOOL" -o "$TMP/prom/slab.prom" &&
		same "files" "$(ls "$TMP/prom")" slab.prom &&
		same contents "$(cat "$TMP/prom/slab.prom")" old || return
	[ -e /dev/full ] || return 0
	fails_with "cannot write" bash -c "'$TOOL' >/dev/full"
}

# --- slabinfo ------------------------------------------------------------

report_matches() {
	local text

	find_tool slabinfo
	"$TOOL" -r "^$CACHE\$" >"$TMP/report" || return
	read_files
	for text in "Capacity : ${F[sheaf_capacity]} objects" \
		"Free in them: ${F[sheaf_objects]} objects, ${F[bytes]} bytes" \
		"Refilled/flushed ${F[sheaf_refill]} ${F[sheaf_flush]}" \
		"Barn ${F[barn_get]} ${F[barn_put]}" \
		"Sheaves ${F[sheaf_alloc]} ${F[sheaf_free]}" \
		"Fastpath ${F[alloc_fastpath]} ${F[free_fastpath]}"; do
		tr -s ' ' <"$TMP/report" | grep -q "^$text" || bad "no line: $text" || return
	done
	! grep -E 'Cpu partial|CpuSlab|Flushes|Moved to|Unlocked' "$TMP/report" ||
		bad "a counter that there is not"
}

# In order, and the cache with what the files say. Not all caches, it takes its time.
through_matches() {
	local words last='' cache=''

	"$TOOL" -S "^[kt]" >"$TMP/list" || return
	read_files
	while read -r -a words; do
		[ "${words[0]}" != Name ] || continue
		[ "${words[11]}" -le "${last:-${words[11]}}" ] ||
			bad "${words[0]} after $last" || return
		last=${words[11]}
		[ "${words[0]}" != $CACHE ] || cache="${words[*]}"
	done <"$TMP/list"
	same "slabinfo -S" "$cache" "$CACHE ${F[sheaf_objects]} ${F[sheaf_capacity]} ${F[allocs]} \
${F[alloc_by_sheaf]} ${F[alloc_by_barn]} ${F[alloc_by_slab]} ${F[frees]} ${F[free_by_sheaf]} \
${F[free_by_barn]} ${F[free_by_slab]} ${F[through]}"
}

activity_matches() {
	local words

	"$TOOL" -D "^[kt]" >"$TMP/list" || return
	read -r -a words < <(grep "^$CACHE " "$TMP/list")
	same allocations "${words[2]:-}" "${F[allocs]}" &&
		same frees "${words[3]:-}" "${F[frees]}" &&
		same "what there is not" "${words[9]:-}" -
}

# -------------------------------------------------------------------------

ktap_print_header
need_root
need_stats
need_module
! has_quarantine || skip_all "KASAN keeps what is freed"
for name in sheaves sheaves-textfile slabinfo; do
	find_tool $name
done
hold_sizes
insmod "$KO" || ktap_exit_fail_msg "cannot load $KO"
total $CACHE sheaf_capacity
[ "${VALUE:-0}" -ne 0 ] || skip_all "the caches have no sheaves"
without_kfence "$CACHE"
with_room "$CACHE"
TMP=$(mktemp -d) && mkdir "$TMP/prom" && chmod 711 "$TMP" || exit 1
ktap_set_plan 13

verdict "the load has all tiers work" traffic_shows
with python3 "sheaves: sums are what the files say" totals_match
with python3 "sheaves: nodes add up to them" nodes_match
with python3 "sheaves: rates are those of the load" rates_match
with python3 "sheaves: without counters, it shows what there is" without_stats
with python3 "what is wrong is said in a line" errors_are_clear
with setpriv "who is not root is told so" not_root
verdict "sheaves-textfile: metrics are what the files say" metrics_match
verdict "sheaves-textfile: Prometheus can read them" format_is_right
verdict "sheaves-textfile: an old file is replaced as a whole or not at all" old_file_stays
verdict "slabinfo -r: the report is what the files say" report_matches
if_counted "slabinfo -S: sorts by what falls through" through_matches
if_counted "slabinfo -D: shows what there is, and nothing else" activity_matches
ktap_finished
