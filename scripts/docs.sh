#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The documents of the series: build the pages of Documentation/admin-guide/mm and
# Documentation/mm, and say what sphinx and kernel-doc warn of that they do not in the base;
# then, that all files in /sys/kernel/slab/<cache>/, all tracepoints and all parameters of the
# series are described. The pages are put into build/docs/pages; those of the base are built once.
#
# Needs python3 with venv, perl, make, and the network the first time: sphinx is installed
# in build/docs/venv. Takes two minutes, the first time four. Prints the findings, then
# where the pages are; fails when there are any findings.

. "$(dirname "$0")/lib.sh"
no_arguments "$@"

DOCS=$OUT/docs
VENV=$DOCS/venv
PAGES=$DOCS/pages
# What Documentation/sphinx/requirements.txt of 6.12 asks for. It names no versions, and
# the warnings of different ones differ.
SPHINX=(Sphinx==7.4.7 docutils==0.21.2 alabaster==0.7.16 pyyaml)
DIRS="admin-guide/mm mm"
WANTED=(admin-guide/mm/slab-sheaves.html mm/slab-sheaves.html)
ABI=Documentation/ABI/testing/sysfs-kernel-slab
PARAMETERS=Documentation/admin-guide/kernel-parameters.txt
EVENTS=include/trace/events/slab_sheaf.h
GUIDES=(Documentation/mm/slab-sheaves.rst Documentation/admin-guide/mm/slab-sheaves-watch.rst)
FOUND=0

# From its input, not at the end of a pipe, which is another process.
found() {
	sed 's/^/  | /'
	FOUND=1
}

install_sphinx() {
	"$VENV/bin/sphinx-build" --version 2>/dev/null | grep -qF " ${SPHINX[0]#*==}" && return
	rm -rf "$VENV"
	run_logged "$LOGS/docs-venv.log" python3 -m venv "$VENV" ||
		die "python3 makes no venv, install python3-venv"
	run_logged "$LOGS/docs-venv.log" "$VENV/bin/pip" install "${SPHINX[@]}" ||
		die "sphinx cannot be installed, see $(rel "$LOGS/docs-venv.log")"
}

# pages_of TREE DIR LOG: all anew, as sphinx only warns of what it reads.
pages_of() {
	rm -rf "$2"
	mkdir -p "$2"
	PATH=$VENV/bin:$PATH run_logged "$3" \
		make -C "$1" O="$2" SPHINXDIRS="$DIRS" SPHINXOPTS="-j $JOBS" htmldocs
}

# complaints TREE LOG: without the places, as lines move. One that comes twice counts twice.
complaints() {
	{ grep -iE '\b(warning|error|critical|severe)\b' "$2" || :; } |
		sed -E -e "s,$1/,,g" -e 's,^(\./)*([^ :]+):[0-9]+(:[0-9]+)?:,\2:,' | sort
}

check_pages() {
	local base new page log base_log

	base=$(tgit rev-parse base)
	log=$LOGS/docs.log base_log=$LOGS/docs-base-${base:0:12}-${SPHINX[0]#*==}.log
	if [ ! -e "$base_log" ]; then
		say "1/3 building the pages of the base"
		side_tree base
		pages_of "$OUT/side/linux" "$DOCS/base" "$base_log.new" ||
			die "the pages of the base do not build, see $(rel "$base_log.new")"
		complaints "$OUT/side/linux" "$base_log.new" >"$base_log"
	fi
	say "2/3 building the pages of the series"
	pages_of "$TREE" "$DOCS/obj-pages" "$log" ||
		die "the pages do not build, see $(rel "$log")"
	for page in "${WANTED[@]}"; do
		[ -s "$DOCS/obj-pages/Documentation/output/$page" ] || found <<<"$page was not built"
	done
	new=$(complaints "$TREE" "$log" | comm -13 "$base_log" -)
	[ -z "$new" ] || found <<<"$new"
	rm -rf "$PAGES"
	mv "$DOCS/obj-pages/Documentation/output" "$PAGES"
}

# listed NAMES FILE WHAT: every one of the first is in the second.
listed() {
	local missing

	[ -n "$1" ] || die "$3: no names were found, so none can be missing"
	missing=$(comm -23 <(sort -u <<<"$1") <(sort -u <<<"$2"))
	[ -z "$missing" ] || found <<<"$3 does not describe: ${missing//$'\n'/ }"
}

attributes() {
	sed -nE 's/^(STAT_ATTR\([A-Z_]+, |SLAB_ATTR(_RO)?\()([a-z_]+)\);$/\3/p' "$@"
}

# With what MODULE_PARAM_PREFIX was before each.
parameters() {
	sed -nE -e 's/^__setup\("([a-z_]+=)".*/\1/p' \
		-e '/^#define MODULE_PARAM_PREFIX/{s/.*"(.*)".*/\1/;h}' \
		-e '/^module_param[a-z_]*\(/{s/^[a-z_]+\(([a-z_]+),.*/\1=/;G;s/(.*)\n(.*)/\2\1/p}' "$@"
}

# The event of DEFINE_EVENT is the second word.
events() {
	tr '\n' ' ' <"$1" | grep -oE '\b(TRACE_EVENT\(\w+|DEFINE_EVENT\(\w+,\s*\w+)' | sed 's/.*[(, \t]//'
}

# Each file of a cache, each event, each parameter that is set at boot or in /sys/module.
check_described() {
	say "3/3 looking for what is not described"
	listed "$(attributes "$TREE"/mm/slub.c "$TREE"/mm/slab_sheaf_sysfs.c)" \
		"$(sed -n 's,^What:.*/sys/kernel/slab/<cache>/,,p' "$TREE/$ABI")" "$ABI"
	listed "$(events "$TREE/$EVENTS")" \
		"$(grep -ohE '\bslab_[a-z]+_[a-z_]+' "$TREE/${GUIDES[0]}" "$TREE/${GUIDES[1]}")" "${GUIDES[*]}"
	listed "$(parameters "$TREE"/mm/slab_*.c)" \
		"$(sed -nE 's/^\t([a-z_.]+=).*/\1/p' "$TREE/$PARAMETERS")" "$PARAMETERS"
}

args_end_here
need_tool make perl python3
[ -e "$TREE/.git" ] || die "there is no $(rel "$TREE"), run: make tree"
mkdir -p "$DOCS" "$LOGS"
lock docs
install_sphinx
check_pages
check_described
[ $FOUND -eq 0 ] || die "the documents want mending, see above"
say "no new warnings; the pages: $(rel "$PAGES")/${WANTED[0]}, $(rel "$PAGES")/${WANTED[1]}"
