#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Where the time goes in several kernels, side by side.

profile.py TITLE PERIOD KERNEL=FILE...: FILE is what real.sh profile printed. Prints tables:
symbols by the difference to the first kernel, as time per operation and as shares of all
samples of the kernel, by themselves and with what they call; then the locks that were
waited for. Programs are a line each, not one for each function of theirs. Needs nothing but
Python 3.9.
"""

import collections
import sys

# Less of a difference than this share of all of the first kernel is not shown ...
LEAST = 0.001
# ... nor more symbols than so many.
MOST = 60


class Bad(Exception):
    """What is wrong with an output, in one line."""


def name_of(dso, symbol):
    return symbol[4:] if symbol.startswith("[k] ") else f"({dso})"


def read(path):
    """Samples by symbol, and with what it calls, operations, and lines of locks."""
    samples, called, operations, locks = collections.Counter(), collections.Counter(), 0, []
    in_round = 0
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            what, _, rest = line.rstrip("\n").partition("|")
            if what == "operations":
                operations += int(rest)
                in_round = 0
            elif what == "lock":
                locks.append(rest)
            elif what == "self":
                number, dso, symbol = (p.strip() for p in rest.split("|", 2))
                samples[name_of(dso, symbol)] += int(number)
                in_round += int(number)
            elif what == "all":
                share, dso, symbol = (p.strip() for p in rest.split("|", 2))
                # what a program calls of itself would count several times
                if symbol.startswith("[k] ") and dso != "[unknown]":
                    called[name_of(dso, symbol)] += float(share.rstrip("%")) / 100 * in_round
    if not operations or not samples:
        raise Bad(f"{path} has no samples")
    return samples, called, operations, locks


def table(head, rows):
    widths = [max(len(r[i]) for r in [head] + rows) for i in range(len(head))]

    def line(row):
        cells = [c.ljust(w) if not i else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * w if not i else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(head), line(rule)] + [line(r) for r in rows])


def symbols(per, total):
    """The table, by what the second kernel takes more than the first."""
    names = list(per)
    first, second = per[names[0]], per[names[1]]
    more = {s: second.get(s, 0) - first.get(s, 0) for s in set().union(*per.values())}
    shown = [s for s, d in more.items() if abs(d) >= LEAST * total[names[0]]]
    shown = sorted(shown, key=lambda s: (-abs(more[s]), s))[:MOST]
    shown.sort(key=lambda s: (-more[s], s))

    def row(name, values, difference):
        return ([name] + [f"{values[k]:,.0f}" for k in names] + [f"{difference:+,.0f}"] +
                [f"{100 * values[k] / total[k]:.2f} %" for k in names])

    rows = [row(s, {k: per[k].get(s, 0) for k in names}, more[s]) for s in shown]
    rows.append(row("in all", total, total[names[1]] - total[names[0]]))
    return table(["symbol"] + names + [f"{names[1]} - {names[0]}"] +
                 [f"share, {k}" for k in names], rows)


def main():
    if len(sys.argv) < 5:
        sys.exit("usage: profile.py TITLE PERIOD KERNEL=FILE KERNEL=FILE...")
    period = int(sys.argv[2])
    kernels = {k: read(path) for k, path in (a.split("=", 1) for a in sys.argv[3:])}
    counts = ", ".join(f"{sum(s.values()):,} of {k} in {ops:,} operations"
                       for k, (s, _, ops, _) in kernels.items())
    own, called = ({k: {s: n * period / v[2] for s, n in v[part].items()}
                    for k, v in kernels.items()} for part in (0, 1))
    total = {k: sum(v.values()) for k, v in own.items()}
    print(f"# {sys.argv[1]}\n\nNanoseconds per operation, by samples each {period:,} ns: {counts}.\n")
    print(symbols(own, total))
    print("\nThe same with what they call:\n")
    print(symbols(called, total))
    for k, (_, _, _, locks) in kernels.items():
        if locks:
            print(f"\nLocks that were waited for, {k}:\n\n" +
                  "\n".join("    " + line for line in locks))


if __name__ == "__main__":
    try:
        main()
    except (Bad, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
