# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What memory the slab allocator has now, and the most of it that was seen: for scripts in
# the guest, which source this. Into NOW and PEAK go Slab and SUnreclaim of /proc/meminfo in
# kB; what lies free in sheaves and barns, in kB, of kernels that have the file
# sheaf_objects; and partial slabs, those that CPUs keep for themselves included. No
# function forks, as they are called while others run. SLAB and MEMINFO say where to look.

SLAB=${SLAB_SYSFS:-/sys/kernel/slab}
MEMINFO=${MEMINFO:-/proc/meminfo}
# shellcheck disable=SC2034 # is who sources this one's
declare -A NOW PEAK

# As a whole: by lines, the file would be made anew for each of them.
look_at_meminfo() {
	local line lines

	mapfile -t lines <"$MEMINFO"
	for line in "${lines[@]}"; do
		[[ $line =~ ^(Slab|SUnreclaim):\ *([0-9]+)\ kB$ ]] || continue
		NOW[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
	done
}

# number FILE: what it starts with, in VALUE; 0 where the cache has gone meanwhile.
number() {
	VALUE=0
	{ read -r VALUE _ <"$1"; } 2>/dev/null || :
	[[ $VALUE =~ ^[0-9]+$ ]] || VALUE=0
}

# "objects(slabs) C0=..." is what the file says.
cpu_partial() {
	local text=

	VALUE=0
	{ read -r text _ <"$1"; } 2>/dev/null || :
	[[ ! $text =~ ^[0-9]+\(([0-9]+)\)$ ]] || VALUE=${BASH_REMATCH[1]}
}

# Merged caches have one directory, and symbolic links to it.
look_at_caches() {
	local cache objects bytes=0 slabs=0 sheaves=

	for cache in "$SLAB"/*; do
		[ ! -L "$cache" ] || continue
		number "$cache/partial"
		slabs=$((slabs + VALUE))
		cpu_partial "$cache/slabs_cpu_partial"
		slabs=$((slabs + VALUE))
		[ -e "$cache/sheaf_objects" ] || continue
		sheaves=1
		number "$cache/sheaf_objects"
		objects=$VALUE
		[ "$objects" -ne 0 ] || continue
		number "$cache/object_size"
		bytes=$((bytes + objects * VALUE))
	done
	NOW["partial slabs"]=$slabs
	[ -z "$sheaves" ] || NOW["free in sheaves"]=$((bytes / 1024))
}

look() {
	look_at_meminfo
	look_at_caches
}

keep_highest() {
	local name

	for name in "${!NOW[@]}"; do
		[ "${NOW[$name]}" -le "${PEAK[$name]:--1}" ] || PEAK[$name]=${NOW[$name]}
	done
}
