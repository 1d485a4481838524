#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run slab-balance with each trace in traces/, and compare what it prints with what it
# should. Prints KTAP.

cd "$(dirname "$0")" || exit 1
n=0 failed=0
set -- traces/*.trace
echo "KTAP version 1"
echo "1..$#"
for trace; do
	n=$((n + 1))
	name=${trace#traces/}
	if ./slab-balance "$trace" 2>&1 | diff "${trace%.trace}.expected" - >diff.out; then
		echo "ok $n ${name%.trace}"
	else
		failed=$((failed + 1))
		sed 's/^/# /' diff.out
		echo "not ok $n ${name%.trace}"
	fi
done
rm -f diff.out
[ $failed -eq 0 ]
