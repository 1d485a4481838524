#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh [-i] [-m DIR] [-s SANITIZER] TREE OBJ PROGRAM [MAKE-ARGUMENT...]: link the slab allocator of the kernel
# source in TREE, configured and prepared (make prepare) in OBJ, into PROGRAM, an
# ordinary program. See README.rst. The objects are compiled by the kernel's own
# build in OBJ, which is best not used for anything else: cli and sti are missing in
# them. The other arguments are for the kernel's make.
#
# With -i there are interrupts, for the stress: see kernel/nops.h.
#
# With -m the files slab_*.c in DIR are taken instead of those in mm: to see whether
# the stress finds what is wrong with them.
#
# With -s address or -s thread, the files mm/slab_*.c that a kernel without sheaves
# does not have are compiled with this sanitizer. Then OBJ is not for PROGRAMs without.

set -euo pipefail

die() {
	echo "error: $*" >&2
	exit 1
}

SANITIZER='' FLAGS='' MUTANTS=''
while getopts im:s: opt; do
	case $opt in
	m) MUTANTS=$(cd "$OPTARG" && pwd -P) ;;
	i) FLAGS=-DSLAB_NATIVE_IRQS ;;
	s) SANITIZER=$OPTARG ;;
	*) die "usage: build.sh [-i] [-m DIR] [-s SANITIZER] TREE OBJ PROGRAM [MAKE-ARGUMENT...]" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 3 ] || die "usage: build.sh [-i] [-m DIR] [-s SANITIZER] TREE OBJ PROGRAM [MAKE-ARGUMENT...]"
HERE=$(cd "$(dirname "$0")" && pwd -P)
TREE=$(cd "$1" && pwd -P)
OBJ=$(cd "$2" && pwd -P)
mkdir -p "$(dirname "$3")"
PROGRAM=$(cd "$(dirname "$3")" && pwd -P)/$(basename "$3")
WORK=$PROGRAM.build
# Our own objects are the same for all programs of OBJ.
GLUE=$OBJ/slab-native
shift 3
ARGS=("$@")

# The objects of the allocator, as its Makefile has them, and what they rest upon.
SHEAVES=$(make -s --no-print-directory -f - <<END
include $OBJ/include/config/auto.conf
include $TREE/mm/Makefile
\$(info \$(addprefix mm/,\$(filter-out slab_common.o,\$(filter slab_%.o,\$(obj-y)))))
all:;
END
)
OBJECTS="mm/slub.o mm/slab_common.o $SHEAVES mm/mempool.o
	kernel/locking/spinlock.o kernel/locking/qspinlock.o
	lib/string.o lib/ctype.o lib/kstrtox.o lib/sort.o lib/bitmap.o lib/find_bit.o lib/hweight.o
	lib/vsprintf.o lib/hexdump.o lib/cmdline.o lib/llist.o lib/math/reciprocal_div.o lib/random32.o
	lib/tests/slab_bench_kunit.o"
# These are reached on two ways, which gets in the way of make -j.
LIB_OBJECTS="arch/x86/lib/memcpy_64.o arch/x86/lib/memmove_64.o arch/x86/lib/memset_64.o
	arch/x86/lib/cmpxchg16b_emu.o"
mapfile -t OURS < <(cd "$HERE/kernel" && for f in *.c *.S; do echo "${f%.?}.o"; done)

kmake() {
	make -C "$TREE" O="$OBJ" LOCALVERSION= KCFLAGS="-include $HERE/kernel/nops.h $FLAGS" "${ARGS[@]}" "$@"
}

# They are compiled as modules are, and would not be initialised as what they are.
not_a_module() {
	printf '#undef MODULE\n#line 1\n'
	cat "$1"
}

mkdir -p "$WORK" "$GLUE/kernel"
cp -u "$HERE/abi.h" "$GLUE/"
cp -u "$HERE"/kernel/* "$GLUE/kernel/"

# shellcheck disable=SC2086 # words
kmake $OBJECTS
# shellcheck disable=SC2086
kmake -j1 $LIB_OBJECTS
kmake M="$GLUE/kernel" "${OURS[@]}"

# Copies of the files that are not compiled as the others are.
rm -rf "$WORK/copies"
mkdir -p "$WORK/copies"
if [ -n "$SANITIZER" ]; then
	for o in $SHEAVES; do
		not_a_module "$TREE/${o%.o}.c" >"$WORK/copies/$(basename "$o" .o).c"
	done
fi
if [ -n "$MUTANTS" ]; then
	for f in "$MUTANTS"/slab_*.c; do
		not_a_module "$f" >"$WORK/copies/$(basename "$f")"
	done
fi

# The stack that the kernel gives is aligned to 8 bytes, the sanitizers want 16.
SAN_FLAGS="-fsanitize=$SANITIZER -mpreferred-stack-boundary=4 -mincoming-stack-boundary=3"
SAN_SYMBOLS=(--redefine-sym kmalloc_nosheaf=native_san_kmalloc_nosheaf
	--redefine-sym kfree_nosheaf=native_san_kfree_nosheaf
	--redefine-sym __kmalloc_noprof=native_san_kmalloc
	--redefine-sym __kmalloc_cache_node_noprof=native_san_kmalloc_node
	--redefine-sym kfree=native_san_kfree
	--redefine-sym _raw_spin_lock_irqsave=native_san_spin_lock_irqsave
	--redefine-sym _raw_spin_unlock_irqrestore=native_san_spin_unlock_irqrestore)
case $SANITIZER in
'') SAN_FLAGS='' ;;
address)
	SAN_FLAGS+=" --param=asan-globals=0 --param=asan-stack=0"
	SAN_SYMBOLS+=(--redefine-sym memcpy=__asan_memcpy --redefine-sym memset=__asan_memset)
	;;
thread) SAN_FLAGS+=" --param=tsan-distinguish-volatile=1 -include $HERE/kernel/ordered.h" ;;
*) die "no sanitizer $SANITIZER, choose address or thread" ;;
esac

# shellcheck disable=SC2016 # for make
printf 'ccflags-y += -I$(srctree)/mm %s\n' "$SAN_FLAGS" >"$WORK/copies/Kbuild"
for f in "$WORK"/copies/*.c; do
	[ -e "$f" ] || break
	o=$(basename "$f" .c).o
	echo "obj-m += $o" >>"$WORK/copies/Kbuild"
	kmake M="$WORK/copies" "$o"
	[ -z "$SANITIZER" ] || objcopy "${SAN_SYMBOLS[@]}" "$WORK/copies/$o"
	OBJECTS=${OBJECTS/mm\/$o/$WORK/copies/$o}
done

# One object of all that, whose symbols are nobody else's business: the kernel and
# the C library both have a memcpy(). Sections that are looked through at run time
# get names that the linker makes symbols of.
cd "$OBJ"
# shellcheck disable=SC2086
ld -r -z noexecstack -o "$WORK/all.o" $OBJECTS $LIB_OBJECTS "${OURS[@]/#/$GLUE/kernel/}"
mapfile -t rename < <(objdump -h "$WORK/all.o" |
	awk '$2 ~ /^\.data\.\.percpu/ { print "--rename-section=" $2 "=percpu_data" }
	     sub(/^\.initcall/, "", $2) && sub(/\.init$/, "", $2) && $2 ~ /^(early|[0-9])$/ {
		     print "--rename-section=.initcall" $2 ".init=initcalls" $2
	     }' | sort -u)
# How code lies in pages and cache lines matters, and must not depend on what is ours.
align=(.text .rodata .data .bss)
align=("${align[@]/#/--set-section-alignment=}")
align=("${align[@]/%/=4096}")
objcopy "${rename[@]}" --rename-section=.altinstructions=altinstructions \
	--rename-section=.kunit_test_suites=kunit_suites \
	"${align[@]}" --remove-section='.discard*' --wildcard --keep-global-symbol='native_*' "$WORK/all.o" "$WORK/kernel.o"

# What is still missing is never called by what we do; if it is, it says its name.
# Data cannot be made up in that way: text refers to them, but not by a call.
nm -u "$WORK/kernel.o" | awk '$1 == "U" { print $2 }' |
	grep -vE '^(host_|__start_|__stop_|__executable_start$|etext$|__asan_|__tsan_)' | sort >"$WORK/missing" || :
data=$(readelf -rW "$WORK/kernel.o" | awk '
	/^Relocation section/ { text = $3 ~ /text/ }
	text && $3 == "R_X86_64_PLT32" { called[$5] = 1 }
	text && $3 ~ /^R_X86_64_(PC32|32S?|64)$/ { used[$5] = 1 }
	END { for (s in used) if (!called[s]) print s }' | sort | comm -12 - "$WORK/missing" | paste -sd' ')
[ -z "$data" ] || die "there is nothing to stand for these data: $data"
{
	echo '	.section .rodata.missing, "a"'
	n=0
	while read -r name; do
		n=$((n + 1))
		printf '%d:\t.asciz "%s"\n\t.text\n\t.globl %s\n%s:\tpushq %%rbp\n\tmovq $%db, %%rdi\n\tcall native_missing\n\t.section .rodata.missing, "a"\n' \
			$n "$name" "$name" "$name" $n
	done <"$WORK/missing"
	echo '	.section .note.GNU-stack, "", @progbits'
} >"$WORK/missing.S"

link=(-static -no-pie)
[ -z "$SANITIZER" ] || link=(-no-pie -fsanitize="$SANITIZER")
gcc -O2 -g -Wall -fno-pie "${link[@]}" -Wl,--no-relax -Wl,-z,noexecstack -pthread \
	-o "$PROGRAM" "$HERE"/user/*.c "$WORK/missing.S" "$WORK/kernel.o"
