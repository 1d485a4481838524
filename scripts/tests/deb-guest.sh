#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What runs in the Debian of scripts/tests/deb.sh once it has booted: what the kernel's
# command line says as sheaves.try=.
#
#   ours    the KUnit modules of the kernel's package and the kselftests
#   old     the kernel that was there before: ours is uninstalled
#   gone    ours has been uninstalled: nothing is done
#
# Says what it does on the second serial line, leaves what there is to judge in
# /var/lib/sheaves-try/MODE, and turns the machine off.

mode=$(sed -nE 's/.*\bsheaves\.try=([a-z]+).*/\1/p' /proc/cmdline)
[ -n "$mode" ] || exit 0
out=/var/lib/sheaves-try/$mode
exec >/dev/ttyS1 2>&1 </dev/null
rm -rf "$out"
mkdir -p "$out"

# systemd's job to start this one has to be done first, or it would wait for itself
state=$(timeout 1800 systemctl is-system-running --wait)
echo "$state" >"$out/state"
uname -r >"$out/uname"
systemctl --failed --no-legend --plain >"$out/units"
echo "guest: $(. /etc/os-release && echo "$PRETTY_NAME"), $(uname -r) $(uname -v), systemd: $state"

case $mode in
ours)
	dmesg --clear
	find "/lib/modules/$(uname -r)" -name 'slub_kunit.ko*' -o -name 'slab_*_kunit.ko*' |
		sed 's,.*/,,; s/\.ko.*//' | grep -v bench | sort >"$out/modules"
	while read -r module; do
		echo "guest: modprobe $module"
		modprobe "$module" || echo "$module" >>"$out/modprobe.failed"
	done <"$out/modules"
	dmesg >"$out/kunit.dmesg"
	# the last one that goes is kunit itself
	while read -r module; do
		modprobe -r "$module" || echo "-r $module" >>"$out/modprobe.failed"
	done <"$out/modules"
	dmesg >"$out/modules.dmesg"
	dmesg --clear
	if [ -s /opt/sheaves/tests ]; then
		read -r -a tests </opt/sheaves/tests
		# a pipe: the runner opens its output a second time
		KSELFTEST_STRESS_SH_ARGS='-t 10' /opt/sheaves/kselftest/run_kselftest.sh "${tests[@]}" |
			tee "$out/kselftest.ktap" | grep --line-buffered -E '^(not )?ok '
	fi
	dmesg >"$out/kselftest.dmesg"
	;;
old)
	dpkg-query -W -f '${Package}\n' 'linux-*-sheaves' >"$out/before"
	# as deb.sh tells
	DEBIAN_FRONTEND=noninteractive apt-get -y purge 'linux-*-sheaves' >"$out/purge.log" 2>&1
	echo $? >"$out/purge.rc"
	echo "guest: apt-get purge $(paste -sd' ' "$out/before"): $(cat "$out/purge.rc")"
	;;
esac
find /boot /lib/modules/ /usr/src /usr/share/doc /etc/kernel -name '*-sheaves*' >"$out/left"
dpkg-query -W 'linux-*-sheaves' >>"$out/left" 2>/dev/null
sync
echo "guest: turning off"
touch "$out/done"
sync
systemctl --no-block poweroff
