#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Count what programs of tools/testing/slab-native execute, exactly, by case.

    count.py [--groups A,B] [--case TEXT] [--out FILE] NAME=VERSION=PROGRAM...

Runs each program once under callgrind, on one CPU, and prints a table of what one
object takes, allocated and freed: instructions; instructions with a lock prefix;
double cmpxchg (the freelist of a slab); locks taken (of lists and of barns); lines
that come from beyond the first level of the cache, and from beyond the second one, in
callgrind's model of a processor with 48 KB and 2 MB. Writes the same to FILE, as JSON.

Needs valgrind and objdump. A round is what lies between the last two calls of
ktime_get() before the benchmark calls report(): callgrind dumps its counters there.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import collect
import native

WHAT = [
    ("instructions", "instructions"),
    ("locked", "locked"),
    ("cmpxchg16b", "double cmpxchg"),
    ("locks", "locks"),
    ("d1", "lines"),
    ("ll", "lines of memory"),
]
# Of this size everywhere, so that counts can be compared: 48 KB, and 2 MB of a core
CACHES = ["--D1=49152,12,64", "--LL=2097152,16,64"]
MARKS = ["ktime_get", "report"]
ROUNDS = 2


def run(argv, **more):
    try:
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, **more).stdout
    except FileNotFoundError as e:
        raise collect.Bad(f"there is no {argv[0]}, install it") from e
    except subprocess.CalledProcessError as e:
        last = (e.stdout or "").strip().splitlines()[-1:]
        raise collect.Bad(f"{' '.join(argv)}: status {e.returncode}, {''.join(last)}") from e


def special_instructions(program):
    """Addresses of instructions with a lock prefix, of double cmpxchg, of calls of locks."""
    locked, double, locks = set(), set(), set()
    for line in run(["objdump", "-d", "--no-show-raw-insn", program]).splitlines():
        head = re.match(r"([0-9a-f]+) <_raw_spin_(try)?lock(_irqsave|_irq|_bh)?>:", line)
        if head:
            locks.add(int(head.group(1), 16))
        found = re.match(r" *([0-9a-f]+):\t(lock |xchg +.*\()", line)
        if found:
            locked.add(int(found.group(1), 16))
            if "cmpxchg16b" in line:
                double.add(int(found.group(1), 16))
    return locked, double, locks


def counts_of(path, special):
    """What one dump counts: lines `0xADDRESS LINE COSTS', but for those behind calls=."""
    locked, double, locks = special
    count = collections.Counter()
    events, inclusive = [], False
    with open(path, encoding="ascii") as f:
        for line in f:
            if line.startswith("events:"):
                events = line.split()[1:]
            if not line.startswith("0x"):
                inclusive = line.startswith("calls=")
                continue
            if not inclusive:
                address, _, *costs = line.split()
                cost = dict(zip(events, map(int, costs)))
                executed = cost.get("Ir", 0)
                at = int(address, 16)
                count["instructions"] += executed
                count["locked"] += executed * (at in locked)
                count["cmpxchg16b"] += executed * (at in double)
                count["locks"] += executed * (at in locks)
                count["d1"] += cost.get("D1mr", 0) + cost.get("D1mw", 0)
                count["ll"] += cost.get("DLmr", 0) + cost.get("DLmw", 0)
            inclusive = False
    return count


def trigger_of(path):
    with open(path, encoding="ascii") as f:
        for line in f:
            if line.startswith("desc: Trigger:"):
                return line.split("=")[-1].strip()
            if line.startswith("events:"):
                break
    return ""


def dumps_of(directory):
    found = [(int(name.rpartition(".")[2]), name) for name in os.listdir(directory)
             if re.fullmatch(r"out\.\d+", name)]
    return [os.path.join(directory, name) for _, name in sorted(found)]


def measured(directory, special):
    """For each call of report(): what was counted up to the last ktime_get() before it."""
    last = None
    for path in dumps_of(directory):
        if trigger_of(path) == "ktime_get":
            last = path
        elif last:
            yield counts_of(last, special)


def cases_of(output):
    for found in map(collect.LINE.match, output.splitlines()):
        if found:
            yield collect.result_of(found.group(1))


def count(program, groups, case):
    special = special_instructions(program)
    with tempfile.TemporaryDirectory() as directory:
        argv = ["valgrind", "--quiet", "--tool=callgrind", "--cache-sim=yes", *CACHES,
                "--dump-instr=yes",
                "--compress-pos=no", "--compress-strings=no",
                f"--callgrind-out-file={directory}/out"]
        argv += [f"--dump-before={mark}" for mark in MARKS]
        argv += native.command(program, ("1cpu", None, ROUNDS, 5000), [groups])
        if case:
            argv += ["-c", case]
        # two processors would play ping-pong first, for ever under valgrind
        output = run(argv, stderr=subprocess.STDOUT,
                     preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]))
        results, totals = list(cases_of(output)), list(measured(directory, special))
    if not results:
        raise collect.Bad(f"there is no case with \"{case or ''}\" in {groups}")
    if len(results) != len(totals):
        raise collect.Bad(f"{program}: {len(results)} results, {len(totals)} dumps")
    # the last round of a case: sheaves, and slabs, are where they will be then
    return {f"{r['group']}, {r['case']}": {what: t[what] / r["objects"] for what, _ in WHAT}
            for r, t in zip(results, totals) if r.get("objects")}


def table(programs, counted):
    names = [name for name, _, _ in programs]
    print("| case | what | " + " | ".join(f"{n}, {v}" for n, v, _ in programs) + " |")
    print("|---|---|" + "---|" * len(names))
    for case in counted[names[0]]:
        for i, (what, title) in enumerate(WHAT):
            cells = [f"{counted[n][case][what]:.{1 if i == 0 else 3}f}" if case in counted[n]
                     else "-" for n in names]
            print(f"| {case if i == 0 else ''} | {title} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", default="one_thread,bulk,fresh,kmalloc")
    parser.add_argument("--case")
    parser.add_argument("--out")
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()
    programs = [p.split("=", 2) for p in args.programs]
    counted = {}
    for name, _, program in programs:
        print(f"counting {name}", file=sys.stderr, flush=True)
        counted[name] = count(program, args.groups, args.case)
    table(programs, counted)
    if args.out:
        with open(args.out, "w", encoding="ascii") as f:
            json.dump(counted, f, indent=1)


if __name__ == "__main__":
    try:
        main()
    except collect.Bad as e:
        sys.exit(f"count.py: {e}")
