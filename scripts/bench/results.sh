# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What those have in common that boot kernels, measure, and write results, tables and charts
# (bench.sh, bench-real.sh): sourced after lib.sh. They collect in the directory NEW, know the
# VERSION of each of their KERNELS and what() it is, the LOAD there was before, and
# install_results(). collect.py reads NEW/meta.

meta() { printf '%s\t%s\n' "$1" "$2" >>"$NEW/meta"; }

load() { cut -d' ' -f1 /proc/loadavg; }

# What ran, and where.
meta_machine() {
	local k

	meta qemu "$(qemu-system-x86_64 --version | head -n 1)"
	meta host.cpu "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
	meta host.cpus "$(nproc)"
	meta host.kernel "$(uname -r)"
	meta host.load "$LOAD before, $(load) after"
	for k in "${KERNELS[@]}"; do
		meta "kernels.$k.version" "${VERSION[$k]}"
		meta "kernels.$k.what" "$(what "$k")"
	done
}

# All of it, or nothing, and the tables.
show_results() {
	local tables

	python3 -B "$SCRIPTS/bench/collect.py" write "$NEW" || die "the results cannot be collected"
	python3 -B "$SCRIPTS/bench/report.py" "$NEW" >"$NEW/tables" || die "the report cannot be written"
	tables=$(cat "$NEW/tables")
	install_results
	printf '%s\n' "$tables"
}
