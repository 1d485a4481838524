#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of the judge of other architectures: a guest that is another machine than it should
# be, that ends early, splats, or does without sheaves, must not pass; and of the Debian for the
# kselftests. On a small fake kernel, with compilers and a QEMU that print what they are told, and
# an archive that has what they are told; prints TAP.

. "$(dirname "$0")/lib.sh"

unset LIMIT
fake_repo
BIN=$DIR/bin
SAYS=$DIR/says
INSTRUCTIONS=$DIR/instructions
OUT=${LINUX%/*}
mkdir -p "$BIN"

# stub NAME TEXT: a program
stub() {
	printf '#!/bin/bash\n%s\n' "$2" >"$BIN/$1"
	chmod +x "$BIN/$1"
}
# built NAME IMAGE: a kernel that is there
built() {
	mkdir -p "$OUT/obj/cross-$1/${2%/*}" "$OUT/obj/cross-$1/usr"
	touch "$OUT/obj/cross-$1/$2" "$OUT/obj/cross-$1/.config"
	stub gen_init_cpio :
	mv "$BIN/gen_init_cpio" "$OUT/obj/cross-$1/usr/"
}
for prefix in aarch64-linux-gnu arm-linux-gnueabihf s390x-linux-gnu; do
	stub $prefix-gcc :
	stub $prefix-objdump "cat $INSTRUCTIONS"
done
for arch in aarch64 arm s390x; do
	stub qemu-system-$arch "[ \"\$1\" = --version ] || cat $SAYS"
done
built arm arch/arm/boot/zImage
built s390x arch/s390/boot/bzImage
export PATH=$BIN:$PATH

cross() { "$REPO/scripts/cross.sh" -u "$@"; }
# says LINE...: the guest, in the end
says() {
	echo '[    0.000000] Linux version 6.12.117' >"$SAYS"
	printf '%s\n' "$@" >>"$SAYS"
}
ARM='cross: machine cpus=4 nodes=1 page=4096 bits=32 endian=little atomics=LL/SC'
SERVED='cross: allocations sheaves=900 slabs=100 held=0'
END='cross: end'
echo '  10: ldrex r1, [r2]' >"$INSTRUCTIONS"

says "$ARM" "$SERVED" "$END"
ok "cross: a guest that is as it should be" cross arm
in_table() { grep -qE '^\| arm +\| 4K \| 32, little \| LL/SC \| none \| 4 \| 1 \| .* \| 90 % \| ok \|$' "$OUT/cross.md"; }
ok "cross: and it is in the table" in_table
says "${ARM/page=4096/page=65536}" "$SERVED" "$END"
refused "cross: other pages" 'the machine is another one: .*page=65536' cross arm
failed_in_table() { grep -qE '^\| arm .* failed \|$' "$OUT/cross.md" && [ "$(grep -c '^| arm ' "$OUT/cross.md")" -eq 1 ]; }
ok "cross: and it has failed in the table" failed_in_table
says "${ARM/cpus=4/cpus=1}" "$SERVED" "$END"
refused "cross: fewer CPUs" 'the machine is another one: cpus=1' cross arm
says "$ARM" "$SERVED"
refused "cross: an early end" 'ended before its /init did' cross arm
says "$ARM" 'cross: error: shrink /sys/kernel/slab/x: Invalid argument'
refused "cross: an error of /init" 'the guest failed: shrink' cross arm
says "$ARM" "$SERVED" '[    9.000000] Unable to handle kernel NULL pointer dereference' "$END"
refused "cross: a splat" 'has a splat' cross arm
says "$ARM" 'cross: allocations sheaves=100 slabs=900 held=0' "$END"
refused "cross: hardly anything from sheaves" 'served but 10 %' cross arm
says "$ARM" "$SERVED" "$END"
echo CONFIG_SLUB_KUNIT_TEST=y >"$OUT/obj/cross-arm/.config"
mkdir -p "$LINUX/lib"
touch "$LINUX/lib/slub_kunit.c"
refused "cross: a suite that did not report" 'KUnit suite slub_test did not report' cross arm
says "${ARM/bits=32 endian=little atomics=LL?SC/bits=64 endian=big atomics=cs}" "$SERVED" "$END"
refused "cross: no instruction for two words" 'has nothing to exchange two words at once, not cdsg' cross s390x
echo '  10: cdsg %r2,%r4,0(%r1)' >"$INSTRUCTIONS"
ok "cross: and with it" cross s390x
refused "cross: an unknown machine" 'ARCHS: no .sparc., choose among arm64-4k' cross sparc
refused "cross: a kernel that is not built" 'there is no kernel arm64-4k to boot' cross arm64-4k

# The archive: one package, and what is linked with.
# shellcheck disable=SC2016 # for the stubs
{
stub apt-get "[ ! -e $DIR/offline ] || exit 100"'
case " $* " in
*" download "*) touch liburing-dev_1_armhf.deb ;;
*" install "*)
	cache=$(printf "%s\n" "$@" | sed -n s/^Dir::Cache=//p)
	touch "$cache/archives/bash_1_armhf.deb"
	;;
esac'
stub dpkg-deb '
mkdir -p "$3/usr/bin" "$3/usr/lib/arm-linux-gnueabihf"
case $2 in
*liburing*) touch "$3"/usr/lib/arm-linux-gnueabihf/liburing.{a,so} ;;
*) touch "$3/usr/bin/bash" ;;
esac'
}
ROOT=$OUT/cross/root-armhf
dev_is_there() {
	[ "$(cross -d arm)" = "$ROOT-dev" ] &&
		[ "$(ls "$ROOT-dev/usr/lib/arm-linux-gnueabihf")" = liburing.a ]
}
ok "cross: what is linked with is fetched, and is static" dev_is_there
root_is_apart() {
	cpio -t --quiet <"$ROOT.cpio" >"$DIR/list" &&
		grep -qx usr/bin/bash "$DIR/list" && ! grep liburing "$DIR/list"
}
ok "cross: none of it is in the guest" root_is_apart
touch "$DIR/offline"
ok "cross: it is fetched once" cross -d arm
touch -d '1 minute' "$REPO/scripts/cross/root.sh"
refused "cross: unless what makes it has changed" 'cannot fetch a Debian of armhf' cross -d arm
not_half() { ! compgen -G "$ROOT"'[-.][dn]*' && [ ! -e "$ROOT" ]; }
ok "cross: and then nothing is there" not_half
rm "$DIR/offline"
says 'cross: output' 'hello' 'cross: rc 0' "$END"
mkdir -p "$DIR/tests"
runs() { cross -r "$DIR/tests" -c 'echo hello' "$@" arm; }
prints() { [ "$(runs)" = hello ] && [ -e "$OUT/logs/cross-arm-command.log" ]; }
ok "cross: a command, and what it prints" prints
named() { runs -n name && grep -q hello "$OUT/logs/name.log"; }
ok "cross: its console has the name that it is given" named
says 'cross: output' 'cross: rc 3' "$END"
refused "cross: it fails as its command" 'the command failed in the guest \(3\)' runs

says "$ARM" "$SERVED" "$END"
: >"$OUT/obj/cross-arm/.config"
echo '  10: ldrex r1, [r2]' >"$INSTRUCTIONS"
# shellcheck disable=SC2016 # for the stub
stub selftest.sh 'echo "on $TOPOLOGY"'
mv "$BIN/selftest.sh" "$REPO/scripts/"
tests_on() { cross "$1" arm >"$DIR/said" && grep -x "on $2" "$DIR/said"; }
ok "cross: the kselftests, and once more for what fails" tests_on -s 'arm arm+faults'
ok "cross: or not" tests_on -S arm

# What assembly includes may be a kernel: the one of today.
printf '\t.incbin\t"%s"\n' "$DIR/included" >"$DIR/piggy.S"
included() {
	echo "$1" >"$DIR/included" &&
		"$SELF/scripts/cc.sh" gcc -Wp,-MMD,"$DIR/piggy.d" -c -o "$DIR/$1.o" "$DIR/piggy.S"
}
includes_what_is_there() { included one && included other && grep -q other "$DIR/other.o"; }
export CCACHE_DIR=$DIR/ccache CCACHE_DEPEND=1
ok "cc.sh: what assembly includes is not that of another time" includes_what_is_there
