#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Print the KUnit totals of a guest's console log, a line per suite, or group of them.

kunit.py TREE LOG DOTCONFIG. Parsing is left to TREE's tools/testing/kunit. Fails
when a test failed, or when a slab suite that TREE has and DOTCONFIG builds in did
not report.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile

# Where the suites of a symbol are; those of several files are named after them.
SOURCES = {
    "CONFIG_SLUB_KUNIT_TEST": "lib/slub_kunit.c",
    "CONFIG_SLAB_BARN_KUNIT_TEST": "lib/tests/slab_barn_kunit.c",
    "CONFIG_SLAB_SHEAF_KUNIT_TEST": "lib/tests/slab_sheaf_*_kunit.c",
    "CONFIG_SLAB_PREFILL_KUNIT_TEST": "lib/tests/slab_prefill_kunit.c",
    "CONFIG_SLAB_RCU_KUNIT_TEST": "lib/tests/slab_rcu_kunit.c",
}
NAMES = {"slub": "slub_test"}
# Those that are built with another symbol only.
NEEDS = {"slab_sheaf_debug": "CONFIG_DEBUG_SLAB_SHEAVES"}


def expected(tree, dotconfig):
    """In the middle of the series, a symbol may be there before its suite."""
    with open(dotconfig, encoding="utf-8") as f:
        lines = set(f.read().split())
    found = []
    for symbol, source in SOURCES.items():
        if symbol + "=y" in lines:
            files = sorted(glob.glob(os.path.join(tree, source)))
            names = [os.path.basename(f).removesuffix("_kunit.c") for f in files]
            found += [NAMES.get(n, n) for n in names
                      if n not in NEEDS or NEEDS[n] + "=y" in lines]
    return found


def group(suite):
    """What a suite is totalled as: the tests of sheaves are several by subject."""
    return "slab_sheaf" if suite.startswith("slab_sheaf_") else suite


def without_messages(lines):
    """What the kernel says between the two lines at the head of a test, the tool takes for
    the end of it."""
    behind_version = False
    for line in lines:
        if re.search(r"KTAP version|# Subtest: |\b1\.\.\d+$", line):
            behind_version = "KTAP version" in line
        elif behind_version:
            continue
        yield line


def parse(tree, log):
    """Return {suite: [(test, status)]}; empty when the log has no KTAP."""
    with open(log, encoding="utf-8", errors="replace") as f:
        lines = f.readlines()
    if not any("KTAP version" in line for line in lines):
        return {}
    tool = os.path.join(tree, "tools/testing/kunit/kunit.py")
    with tempfile.TemporaryDirectory() as tmp:
        out, ktap = os.path.join(tmp, "json"), os.path.join(tmp, "ktap")
        with open(ktap, "w", encoding="utf-8") as f:
            f.writelines(without_messages(lines))
        done = subprocess.run(
            [sys.executable, "-B", tool, "parse", "--json=" + out, ktap],
            capture_output=True, text=True, check=False)
        if not os.path.exists(out):
            sys.exit("error: kunit.py cannot parse " + log + ": " + done.stderr.strip()[-200:])
        with open(out, encoding="utf-8") as f:
            report = json.load(f)

    def cases(group):
        """A test of several parameters is a group."""
        found = [(c["name"], c["status"]) for c in group.get("test_cases", [])]
        for sub in group.get("sub_groups", []):
            found += [(sub["name"] + ": " + name, status) for name, status in cases(sub)]
        return found

    return {g["name"]: cases(g) for g in report.get("sub_groups", [])}


def main():
    tree, log, dotconfig = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3]
    suites = parse(tree, log)
    failed = 0
    for name in dict.fromkeys(group(suite) for suite in suites):
        tests = [(suite, test, status) for suite, found in suites.items() if group(suite) == name
                 for test, status in found]
        count = {"PASS": 0, "FAIL": 0, "SKIP": 0, "ERROR": 0}
        for _, _, status in tests:
            count[status] += 1
        bad = count["FAIL"] + count["ERROR"]
        print(f"KUnit  {name:<14}{count['PASS']:>4} passed{bad:>4} failed"
              f"{count['SKIP']:>4} skipped")
        for suite, test, status in tests:
            if status in ("FAIL", "ERROR"):
                print(f"       failed: {suite} {test}")
        failed += bad
    missing = [s for s in expected(tree, dotconfig) if not suites.get(s)]
    if not suites and not missing:
        print("KUnit  this kernel has no suites")
    sys.stdout.flush()
    for suite in missing:
        print(f"error: KUnit suite {suite} did not report, see {log}", file=sys.stderr)
    if failed:
        print(f"error: {failed} KUnit tests failed, see {log}", file=sys.stderr)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
