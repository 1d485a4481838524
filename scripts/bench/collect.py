#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""From what the guests printed to results.json.

collect.py check FILE GROUPS ROUNDS   judge the output of one guest
collect.py write DIR                  DIR/raw/*, DIR/meta, DIR/configs/* -> DIR/results.json

A file in raw is named ROUND.MACHINE.KERNEL.PART and has lines "slab_bench: {...}", see
lib/tests/slab_bench_kunit.c, and KTAP; those of ublk_null.sh --figures are bare
JSON. meta has lines "key<tab>value", with dots in the key for what is in what.

The figure of a kernel is the time per object, or a value that has its own unit: the
median of the guests' medians.
Its spread is the distance of the highest and the lowest of the guests' medians; where
there was one guest, that of the quartiles of its rounds; relative to the figure.
"""

import json
import os
import re
import statistics
import sys

LINE = re.compile(r"^(?:\[ *[0-9.]+\] )?(?:\S+: )?slab_bench: (\{.*)$")
KTAP = re.compile(r"^(?:\[ *[0-9.]+\] )?( *)(ok|not ok) \d+ ?-? ?(.*?)(?: # SKIP ?(.*))?$")
SUBTEST = re.compile(r"# Subtest: (\S+)")
HOW = re.compile(r"booting \S+: (.*), under (.*)$")
IGNORED = re.compile(r"group \S+ is not chosen")
# What is left behind by a round: kB of all slab caches, and of the cache that is measured
# objects in sheaves, and partial slabs; where all caches are looked at, the most of both, too.
MEMORY = ("slab_kb", "in_sheaves", "partial", "slab_peak_kb", "partial_peak")
# These are not run by the suite, whose verdict is the last line.
SCRIPTS = (["ublk"], ["syscalls"], ["processes"], ["hotplug"], ["rcuscale"], ["memory"], ["queues"],
           ["aging"], ["real"])
# Configuration symbols that may make one kernel faster than another.
MATTERS = re.compile(
    r"^CONFIG_(SL[AU]B|PREEMPT|JUMP_LABEL|NUMA|NODES_|NR_CPUS|SMP|MEMCG|OBJCG|HZ|NO_HZ|RCU|TREE_RCU|TASKS_RCU|"
    r"KASAN|KFENCE|KMSAN|KCSAN|KCOV|UBSAN|DEBUG_|INIT_O|RANDOM_KMALLOC|RANDOMIZE|HARDENED|FORTIFY|"
    r"STACKPROTECTOR|CC_VERSION|CC_OPTIMIZE|MITIGATION|CPU_MITIGATIONS|SCHED|LOCKDEP|PROVE|LOCK_|"
    r"VMAP_STACK|SHADOW|UNWINDER|MEM_ALLOC_PROFILING|PAGE_|TRANSPARENT|CFI|X86_KERNEL_IBT|CALL_|FRAME_|"
    r"PERCPU|KVFREE|HIGH_RES|GENERIC_ENTRY|MODULES$|BLK_DEV_UBLK)")


class Bad(Exception):
    """What is wrong with an output, in one line."""


def number(result, key, least):
    value = result.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
        raise Bad(f"{key} is {value!r}")
    return value


def result_of(text):
    try:
        result = json.loads(text)
    except ValueError:
        raise Bad("no JSON") from None
    for key in ("group", "case"):
        if not isinstance(result.get(key), str) or not result[key]:
            raise Bad(f"no {key}")
    number(result, "round", 0)
    if "unit" in result:
        number(result, "value", 0)
        number(result, "objects", 1)
        if not isinstance(result["unit"], str) or not result["unit"]:
            raise Bad(f"unit is {result['unit']!r}")
    elif "iops" in result:
        number(result, "iops", 1)
    else:
        number(result, "objects", 1)
        number(result, "ns", 0)
    for key in MEMORY:
        if key in result:
            number(result, key, 0)
    if not isinstance(result.setdefault("counters", {}), dict):
        raise Bad("counters are no dictionary")
    for key in result["counters"]:
        number(result["counters"], key, float("-inf"))
    return result


def parse(path):
    """Return how the guest ran, its results, what was skipped, what failed, whether it ended."""
    how, results, skipped, failed, ended, subtest = "", [], [], [], False, ""
    with open(path, encoding="utf-8", errors="replace") as f:
        for n, line in enumerate(f, 1):
            line = line.rstrip("\n")
            found = LINE.match(line)
            text = found.group(1) if found else line if line.startswith('{"group"') else None
            if text is not None:
                try:
                    results.append(result_of(text))
                except Bad as err:
                    raise Bad(f"line {n} is not a result ({err}): {line[:120]}") from None
                continue
            found = HOW.search(line)
            # what a second guest adds is little
            if found and not how:
                how = f"{found.group(1)}, {found.group(2)}"
            found = SUBTEST.search(line)
            if found:
                subtest = re.sub("_test$", "", found.group(1))
            found = KTAP.match(line)
            if not found:
                continue
            indent, verdict, name, reason = found.groups()
            if verdict == "not ok":
                failed.append(name)
            elif reason and not IGNORED.search(reason):
                skipped.append({"group": subtest, "case": name, "reason": reason})
            if not indent and name == "slab_bench":
                ended = True
    return how, results, skipped, failed, ended


def check(path, groups, rounds):
    _, results, skipped, failed, ended = parse(path)
    if failed:
        raise Bad("these failed: " + ", ".join(dict.fromkeys(failed)))
    if not ended and groups not in SCRIPTS:
        raise Bad("the benchmarks did not run to their end")
    seen = {}
    for r in results:
        if r["group"] not in groups:
            raise Bad(f"a result of the group {r['group']}, which was not asked for")
        seen.setdefault((r["group"], r["case"]), []).append(r["round"])
    for (group, case), got in seen.items():
        # they may be counted from 0 or from 1
        if sorted(got) not in (list(range(rounds)), list(range(1, rounds + 1))):
            raise Bad(f"{group}, {case}: rounds {got} instead of {rounds} of them")
    for group in groups:
        if group not in {g for g, _ in seen} | {s["group"] for s in skipped}:
            raise Bad(f"the group {group} gave no results")
    return f"{len(seen)} cases, {len(skipped)} skipped"


# --- results.json ----------------------------------------------------------

def value(result, part=""):
    """Nanoseconds per object, or what has a unit of its own as it is."""
    if "unit" in result:
        return result["value"]
    if "iops" in result:
        return 1e9 / result["iops"]
    return result[part + "ns"] / result["objects"]


def summary(boots, part=""):
    """The figure and its spread, from lists of results."""
    values = [[value(r, part) for r in boot] for boot in boots]
    medians = [statistics.median(v) for v in values]
    figure = statistics.median(medians)
    if len(medians) > 1:
        low, high = min(medians), max(medians)
    elif len(values[0]) > 1:
        low, _, high = statistics.quantiles(values[0], n=4, method="inclusive")
    else:
        return figure, None
    return figure, (high - low) / figure if figure else None


def per_million(result, counter):
    n = result["counters"].get(counter, 0)
    return n if "iops" in result else n * 1e6 / result["objects"]


def kernel_figures(boots):
    everything = [r for boot in boots for r in boot]
    figure, spread = summary(boots)
    out = {"ns_per_object": figure, "spread": spread}
    if "unit" in everything[0]:
        out["unit"] = everything[0]["unit"]
    if "iops" in everything[0]:
        out["iops"] = 1e9 / figure
    if "where" in everything[0]:
        out["where"] = max(everything, key=value)["where"]
    for part in ("alloc_", "free_"):
        if all(part + "ns" in r for r in everything):
            out[part + "ns_per_object"] = summary(boots, part)[0]
    counters = sorted({c for r in everything for c in r["counters"]})
    medians = {c: statistics.median(per_million(r, c) for r in everything) for c in counters}
    out["counters_per_million"] = {c: round(m, 1) for c, m in medians.items() if m}
    out["memory"] = {k: statistics.median(r[k] for r in everything)
                     for k in MEMORY if all(k in r for r in everything)}
    keys = [k for k in ("objects", "ns", "alloc_ns", "free_ns", "iops", "value")
            if k in everything[0]]
    out["rounds"] = {k: [[r.get(k) for r in boot] for boot in boots] for k in keys}
    out["rounds"]["counters"] = {
        c: [[r["counters"].get(c, 0) for r in boot] for boot in boots] for c in counters}
    return out


def read_meta(path):
    meta = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            key, text = line.rstrip("\n").split("\t", 1)
            *outer, last = key.split(".")
            where = meta
            for k in outer:
                where = where.setdefault(k, {})
            where[last] = int(text) if text.isdigit() else text
    return meta


def config_differences(directory):
    """{configuration: [{symbol, kernel: value...}]}, only what may matter."""
    configs = {}
    for name in sorted(os.listdir(directory)):
        config, kernel = name.rsplit(".", 1)
        with open(os.path.join(directory, name), encoding="utf-8") as f:
            pairs = (l.rstrip("\n").split("=", 1) for l in f if l.startswith("CONFIG_"))
            configs.setdefault(config, {})[kernel] = dict(pairs)
    out = {}
    for config, kernels in configs.items():
        symbols = sorted({s for values in kernels.values() for s in values if MATTERS.match(s)})
        out[config] = []
        for s in symbols:
            values = {k: v.get(s, "n") for k, v in kernels.items()}
            if len(set(values.values())) > 1:
                out[config].append({"symbol": s[len("CONFIG_"):], **values})
    return out


def collect(directory):
    cases, machines, skipped = {}, {}, []
    raw = os.path.join(directory, "raw")
    for name in sorted(os.listdir(raw), key=lambda n: [int(p) if p.isdigit() else p
                                                       for p in n.split(".")]):
        boot, machine, kernel, _ = name.split(".")
        how, results, skips, _, _ = parse(os.path.join(raw, name))
        machines[machine] = how
        for s in skips:
            s = {"machine": machine, "kernel": kernel, **s}
            if s not in skipped:
                skipped.append(s)
        for r in results:
            boots = cases.setdefault((r["group"], machine, r["case"]), {}).setdefault(kernel, {})
            boots.setdefault(int(boot), []).append(r)
    meta = read_meta(os.path.join(directory, "meta"))
    order = list(meta["kernels"])
    meta["machines"] = machines
    meta["config_differences"] = config_differences(os.path.join(directory, "configs"))
    meta["skipped"] = skipped
    meta["cases"] = []
    for (group, machine, case), kernels in cases.items():
        meta["cases"].append({
            "group": group, "machine": machine, "case": case,
            "kernels": {k: kernel_figures([kernels[k][b] for b in sorted(kernels[k])])
                        for k in order if k in kernels}})
    return meta


def dump(data, f):
    """One line a case, so that a diff of two runs can be read."""
    head = {k: v for k, v in data.items() if k != "cases"}
    text = json.dumps(head, indent=1)
    f.write(text[:text.rindex("}")].rstrip() + ',\n "cases": [\n')
    f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in data["cases"]))
    f.write("\n]}\n")


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "check":
        print(check(sys.argv[2], sys.argv[3].split(","), int(sys.argv[4])))
    elif len(sys.argv) == 3 and sys.argv[1] == "write":
        data = collect(sys.argv[2])
        with open(os.path.join(sys.argv[2], "results.json"), "w", encoding="utf-8") as f:
            dump(data, f)
    else:
        sys.exit("usage: collect.py check FILE GROUPS ROUNDS | write DIR")


if __name__ == "__main__":
    try:
        main()
    except (Bad, OSError) as error:
        sys.exit(f"error: {error}")
