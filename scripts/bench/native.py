#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Run slab-native programs by turns, and tell how long an object takes in each.

native.py [--launches N] [--groups A,B] [--out FILE] [--json] NAME=VERSION=PROGRAM...

A machine that others use as well makes a round longer, never shorter: by the time
that they ran, by what they threw out of the caches. So the figure of a launch is its
fastest round, and the figure of a kernel the lower quartile of its launches: that of
a launch that was hardly disturbed, but not of the one that had most luck. The spread
is the distance of the octiles on both sides of it, relative to the figure. A launch
of each program comes before the next launch of any, all on the same processors.

What two threads do depends on how near their processors are to each other. Under a
hypervisor this changes: two virtual processors may share a core now and not even a
cache a minute later. So each launch measures how long a cache line takes there and
back (ping), and cases of two threads are told apart by it: near and far. Who waits for
whom, and how long, settles in one of several ways, some of them seldom and short; so
these rounds are long, a launch has the median of them, a kernel the median of its
launches, and the spread is the distance of the quartiles.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import collect
import report

ONE_THREAD = ["one_thread", "bulk", "fresh", "kmalloc"]
# Machines of slab-native, what is run there, rounds in a launch and objects in a round:
# so few that many rounds are not interrupted. (Ten times as many of two threads.)
JOBS = [
    ("1cpu", ONE_THREAD, 12, 5000),
    ("4cpu", ["pairs"], 5, 100000),
    ("2node", ["pairs"], 5, 100000),
    ("memoryless", ["pairs"], 5, 100000),
]
MACHINES = {
    "1cpu": "1 CPU, 1 node",
    "4cpu": "4 CPUs, 1 node",
    "2node": "4 CPUs, 2 nodes",
    "memoryless": "32 CPUs, 8 nodes, memory on nodes 1 and 5",
}
TWO_THREADS = ["pairs"]
# Beyond this the processors share no core, and maybe no cache.
FAR_NS = 120
# Fewer launches say nothing.
LEAST_LAUNCHES = 4
EVENTS = ["cycles:u", "instructions:u", "cache-misses:u"]
TIMEOUT = 120


def command(program, job, groups):
    machine, _, rounds, objects = job
    return [program, "bench", "-m", machine, "-g", ",".join(groups),
            "-r", str(rounds), "-n", str(objects)]


def prepare(processors):
    def fn():
        os.sched_setaffinity(0, processors)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -10)
        except PermissionError:
            pass
    return fn


def launch(argv, processors, directory):
    """Returns results, what was skipped, and the ping."""
    path = os.path.join(directory, "out")
    with open(path, "w", encoding="utf-8") as f:
        status = subprocess.run(argv, stdout=f, stderr=subprocess.STDOUT, timeout=TIMEOUT,
                                stdin=subprocess.DEVNULL, preexec_fn=prepare(processors),
                                check=False).returncode
    _, results, skipped, failed, ended = collect.parse(path)
    if status or failed or not ended:
        with open(path, encoding="utf-8", errors="replace") as f:
            sys.stderr.write("".join("  | " + line for line in f.readlines()[-5:]))
        raise collect.Bad(f"{' '.join(argv)}: status {status}, failed: {', '.join(failed)}")
    with open(path, encoding="utf-8", errors="replace") as f:
        ping = re.search(r"^slab-native: ping ([0-9.]+) ns$", f.read(), re.M)
    return results, skipped, float(ping.group(1)) if ping else 0.0


def measure(kernels, jobs, launches, directory, progress):
    """{(group, machine, case): {kernel: [(ping, [result...]) of each launch]}}, skipped."""
    cases, skipped = {}, []
    processors = sorted(os.sched_getaffinity(0))
    for n in range(launches):
        for job in jobs:
            one = job[0] == "1cpu"
            where = {processors[n % len(processors)]} if one else set(processors)
            order = list(kernels)
            # nobody is always the first
            order = order[n % len(order):] + order[:n % len(order)]
            for k in order:
                results, skips, ping = launch(command(kernels[k][1], job, job[1]), where, directory)
                for s in skips:
                    s = {"machine": job[0], "kernel": k, **s}
                    if s not in skipped:
                        skipped.append(s)
                for r in results:
                    kinds = cases.setdefault((r["group"], job[0], r["case"]), {})
                    runs = kinds.setdefault(k, [])
                    if len(runs) <= n:
                        runs.append((ping, []))
                    runs[n][1].append(r)
        progress(n + 1)
    return cases, skipped


def place(ping):
    return "near" if ping < FAR_NS else "far"


def by_place(cases):
    """Cases of two threads, apart by how near the processors were; and the pings."""
    out, pings = {}, {}
    for (group, machine, case), kernels in cases.items():
        if group not in TWO_THREADS:
            out[group, machine, case] = {k: [r for _, r in runs] for k, runs in kernels.items()}
            continue
        for where in ("near", "far"):
            split = {k: [(p, r) for p, r in runs if place(p) == where] for k, runs in kernels.items()}
            if min(map(len, split.values())) < LEAST_LAUNCHES:
                continue
            out[group, machine, f"{case}, {where}"] = {k: [r for _, r in v] for k, v in split.items()}
            pings.setdefault(where, []).extend(p for v in split.values() for p, _ in v)
    return out, {where: statistics.median(p) for where, p in pings.items()}


def figures(runs, two_threads):
    best, n = (statistics.median, 4) if two_threads else (min, 8)
    launches = [best(map(collect.value, rounds)) for rounds in runs]
    figure, spread = launches[0], None
    if len(launches) > 1:
        low, figure, high = statistics.quantiles(launches, n=n, method="inclusive")[:3]
        spread = (high - low) / figure
    everything = [r for rounds in runs for r in rounds]
    names = sorted({c for r in everything for c in r["counters"]})
    counters = {c: statistics.median(collect.per_million(r, c) for r in everything) for c in names}
    return {"ns_per_object": figure, "spread": spread,
            "counters_per_million": {c: round(v, 1) for c, v in counters.items() if v},
            "launches": [round(v, 4) for v in launches]}


def events_of(argv, processors):
    """{event: count} from perf stat, of those that the machine counts."""
    done = subprocess.run(["perf", "stat", "-x", ",", "-e", ",".join(EVENTS), "--"] + argv,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          timeout=TIMEOUT, preexec_fn=prepare(processors), check=False)
    found = re.findall(r"^(\d+),[^,]*,([a-z-]+)", done.stderr, re.M)
    return {event: int(count) for count, event in found}


def perf_figures(kernels, jobs):
    """{kernel: {group, machine: {event: per object}}}: what more rounds cost more."""
    if not shutil.which("perf") or not events_of(["true"], os.sched_getaffinity(0)):
        return {}
    out = {}
    for k, (_, program) in kernels.items():
        for job in jobs:
            for group in job[1]:
                counts, objects = [], []
                for rounds in (2, 22):
                    argv = command(program, (job[0], None, rounds, job[3]), [group])
                    counts.append(events_of(argv, os.sched_getaffinity(0)))
                    text = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT,
                                          check=False).stdout
                    objects.append(sum(map(int, re.findall(r'"objects":(\d+)', text))))
                more = objects[1] - objects[0]
                out.setdefault(k, {})[f"{group}, {job[0]}"] = {
                    e: round((counts[1][e] - counts[0][e]) / more, 2)
                    for e in counts[0] if e in counts[1] and more}
    return out


def chosen_jobs(groups):
    known = {g for job in JOBS for g in job[1]}
    wanted = groups.replace(" ", ",").split(",") if groups else sorted(known)
    for g in wanted:
        if g not in known:
            sys.exit(f"error: no group {g}, choose among {' '.join(sorted(known))}")
    jobs = [(m, [g for g in gs if g in wanted], r, n) for m, gs, r, n in JOBS]
    return [job for job in jobs if job[1]]


def perf_lines(data):
    if not data["perf"]:
        return ["", "No cycles, instructions or cache misses: perf stat counts none on this machine."]
    kernels = list(data["kernels"])
    rows = []
    for where in next(iter(data["perf"].values())):
        for e in sorted({e for k in kernels for e in data["perf"][k][where]}):
            rows.append([where, e] + [report.show(data["perf"][k][where].get(e)) for k in kernels])
    return ["", "By perf stat, per object, with all that happens between the rounds:", "",
            report.table(["group", "event"] + kernels, rows, text_columns=2)]


def skip_lines(data):
    reasons = {}
    for s in data["skipped"]:
        # a machine that lacks a kind of node: another one has it
        if not s["reason"].startswith("this machine has no such pair"):
            reasons.setdefault(s["reason"], set()).add(f"{s['group']} {s['case']}")
    return [f"Not measured ({reason}): {', '.join(sorted(cases))}." for reason, cases in reasons.items()]


def tables(data):
    kernels = list(data["kernels"])
    out = []
    for group, machine, cases in report.sections(data):
        what = report.GROUPS.get(group, "")
        out += ["", f"## {group}, {data['machines'][machine]}", "",
                f"{what[:1].upper()}{what[1:]}. In ns per object.", "",
                report.times(cases, kernels, True)]
        if group in TWO_THREADS:
            out += [""] + [f"{where.capitalize()}: a cache line took {ns:.0f} ns to the other processor and back."
                           for where, ns in data["ping_ns"].items()]
    out += [""] + skip_lines(data) + perf_lines(data)
    return out + [""] + report.verdicts(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int, default=14)
    parser.add_argument("--groups", default="")
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("kernels", nargs="+", metavar="NAME=VERSION=PROGRAM")
    args = parser.parse_args()
    kernels = {k: (v, p) for k, v, p in (a.split("=", 2) for a in args.kernels)}
    jobs = chosen_jobs(args.groups)
    start = time.monotonic()
    if len(os.sched_getaffinity(0)) < 2 and any(job[0] != "1cpu" for job in jobs):
        sys.exit("error: two threads need two processors, choose other groups")

    def progress(n):
        if n % 5 == 0 and not args.json:
            print(f"        {n}/{args.launches} launches, {time.monotonic() - start:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as directory:
        cases, skipped = measure(kernels, jobs, args.launches, directory, progress)
    cases, pings = by_place(cases)
    data = {
        "kernels": {k: {"version": v} for k, (v, _) in kernels.items()},
        "machines": {job[0]: MACHINES[job[0]] for job in jobs},
        "launches": args.launches,
        "ping_ns": pings,
        "skipped": skipped,
        "perf": perf_figures(kernels, jobs),
        "cases": [{"group": g, "machine": m, "case": c,
                   "kernels": {k: figures(runs[k], g in TWO_THREADS) for k in kernels if k in runs}}
                  for (g, m, c), runs in cases.items()],
    }
    if args.out:
        with open(args.out + ".new", "w", encoding="utf-8") as f:
            collect.dump(data, f)
        os.replace(args.out + ".new", args.out)
    if args.json:
        json.dump(data, sys.stdout, indent=1)
        print()
    else:
        print("\n".join(tables(data)))


if __name__ == "__main__":
    try:
        main()
    except (collect.Bad, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"error: {error}")
