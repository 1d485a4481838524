#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What a barn's lock carries, by calculation: see Documentation/mm/slab-barn-lock.rst.

barn-lock.py [--hold NS] [--lines K] [--line NS...] [--work NS] [--grow G...]
             [--cpus N...] [CACHE:OBJECTS:CAPACITY...]
barn-lock.py --check FILE...

The first prints at how many CPUs of a barn its lock saturates, and what part of the
throughput is lost at --cpus: if they come at any time, and if all free at the same time.
An iteration of the load takes a CPU so much --work, and allocates and frees OBJECTS of
CACHE, whose sheaves hold CAPACITY, or have --grow times the size. The second reads what
`slab-native barn' printed, and compares two threads with the calculation.
"""

import argparse
import re
import statistics
import sys

HEAD = 4        # words of a sheaf that are not slots
QUEUE = 1       # one more line with three or more: the next in the queue is told so
# mmap() and munmap() of a mapping, as will-it-scale's mmap1 does it
MMAP = ["vm_area_struct:1:124", "vma_lock:1:60", "maple_node:2:28"]
CASE = re.compile(r"^barn (\w+) +(\S+) +slots +(\d+) pause +(\d+): ([\d.]+) ([\d.]+) [\d.]+ ns, "
                  r"line ([\d.]+) ns, taken (\d+)", re.M)


def closed_queue(cpus, work, demands):
    """Iterations in a ns (mean value analysis), and how busy the locks are for who comes."""
    queue, x, busy = [0.0] * len(demands), 0.0, []
    for n in range(1, cpus + 1):
        busy = [x * d for d in demands]
        stay = [d * (1 + q) for d, q in zip(demands, queue)]
        x = n / (work + sum(stay))
        queue = [x * s for s in stay]
    return x, busy


def rst(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    rule = "  ".join("=" * w for w in widths)
    lines = ["  ".join(text.ljust(w) for text, w in zip(row, widths)).rstrip() for row in rows]
    print("\n".join([rule, lines[0], rule] + lines[1:] + [rule]))


def forecast(args):
    rows = [["line", "exchange", "capacity", "saturates"] + [f"lost at {n:g}" for n in args.cpus]]
    for line, grow in ((line, grow) for line in args.line for grow in args.grow):
        exchange = args.hold + (args.lines + QUEUE) * line
        capacities = [(c + HEAD) * grow - HEAD for _, _, c in args.caches]
        # A sheaf comes, and goes again.
        demands = [2 * n / c * exchange for (_, n, _), c in zip(args.caches, capacities)]
        row = [f"{line:g} ns", f"{exchange:.0f} ns", ", ".join(f"{c:.0f}" for c in capacities),
               f"{(args.work + sum(demands)) / max(demands):.0f} CPUs"]
        for n in map(int, args.cpus):
            any_time = 1 - closed_queue(n, args.work, demands)[0] * args.work / n
            at_once = 1 - args.work / (args.work + n * max(demands) / 2)
            row.append(f"{100 * any_time:.0f} to {100 * max(any_time, at_once):.0f} %")
        rows.append(row)
    rst(rows)


def read_cases(names):
    """{(case, place, slots, pause): [lower quartile, median, line, taken]} of all files"""
    cases = {}
    for name in names:
        with open(name, encoding="utf-8") as f:
            for case, place, slots, pause, *figures in CASE.findall(f.read()):
                key = (case, place, int(slots), int(pause))
                cases.setdefault(key, []).append([float(v) for v in figures])
    # Others make one thread slower, never faster; of two they may also stop one.
    return {k: [(min if k[0] == "alone" else statistics.median)(column) for column in zip(*v)]
            for k, v in cases.items()}


def check(cases):
    hold = cases["alone", "-", 0, 0][0]
    for place in sorted({place for case, place, _, _ in cases if case == "remote"}):
        _, remote, line, _ = cases["remote", place, 0, 0]
        moved = remote - line - hold
        print(f"{place}: --hold {hold:.1f} --line {line:.0f} --lines {moved / line:.1f}\n")
        rows = [["slots", "pause", "exchange each", "by turns", "in any order",
                 "found taken", "in any order"]]
        for (case, where, slots, pause), (_, ns, _, taken) in sorted(cases.items()):
            if (case, where) != ("both", place):
                continue
            work = cases["alone", "-", slots, pause][0] - hold
            by_turns, _ = closed_queue(2, work, [hold + moved])
            any_order, busy = closed_queue(2, work, [hold + moved / 2])
            # The line of the lock is fetched before it is taken.
            busy = busy[0] * (1 - line / 2 / (hold + moved / 2))
            times = [f"{t:.0f} ns" for t in (work, ns, 1 / by_turns, 1 / any_order)]
            rows.append([str(slots)] + times + [f"{taken / 10:.0f} %", f"{100 * busy:.0f} %"])
        rst(rows)
        print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", nargs="+", metavar="FILE")
    for name, default in (("hold", 10.2), ("lines", 3), ("work", 4400)):
        parser.add_argument(f"--{name}", type=float, default=default)
    for name, default in (("line", [30, 50, 100, 150, 200]), ("grow", [1, 2, 4]),
                          ("cpus", [32, 64, 128])):
        parser.add_argument(f"--{name}", type=float, nargs="+", default=default)
    parser.add_argument("caches", nargs="*", default=MMAP, metavar="CACHE:OBJECTS:CAPACITY")
    args = parser.parse_args()
    if args.check:
        cases = read_cases(args.check)
        if ("alone", "-", 0, 0) not in cases or not any(case == "remote" for case, *_ in cases):
            sys.exit("error: this is not all that `slab-native barn' prints")
        return check(cases)
    if not all(re.fullmatch(r"[^:]+:[\d.]+:[1-9]\d*", c) for c in args.caches):
        parser.error("a cache is CACHE:OBJECTS:CAPACITY, for instance maple_node:2:28")
    if min([args.hold, args.lines, args.work, *args.line, *args.grow, *args.cpus]) <= 0:
        parser.error("all figures are more than 0")
    args.caches = [(n, float(o), int(c)) for n, o, c in (c.split(":") for c in args.caches)]
    return forecast(args)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"error: {error}")
