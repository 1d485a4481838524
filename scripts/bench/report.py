#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""From DIR/results.json to tables and charts.

report.py DIR: writes results.md, counters.md and chart-*.svg beside it and prints
the tables. Needs nothing but Python 3.9.
"""

import json
import math
import os
import sys
from xml.sax.saxutils import escape

GROUPS = {
    "one_thread": "a batch is allocated, then freed, in order or shuffled",
    "bulk": "a batch is allocated by one call, and freed by one call",
    "fresh": "all objects of new slabs are allocated; what freeing takes does not count",
    "kmalloc": "as one_thread, with kmalloc() and kfree()",
    "kfree_rcu": "objects are freed by kfree_rcu()",
    "syscalls": "system calls that make mappings and processes, or read directly from a "
                "file, all that they do",
    "processes": "the same system calls, by four processes on a CPU each",
    "pairs": "one CPU allocates from a mempool, another one frees",
    "all_cpus": "each CPU allocates and frees batches",
    "remote": "each CPU frees what any CPU allocated",
    "ublk": "fio on a ublk null target",
    "admin": "all caches are shrunk or read after all CPUs have used them, or caches are "
             "destroyed; an object is a cache that is destroyed, else the whole",
    "hotplug": "a CPU goes offline and online after all CPUs have used the caches",
    "rcuscale": "the kernel's own benchmark of kfree_rcu(), 256 bytes",
    "flood": "objects are given to kfree_rcu() in a loop, until the last one is freed",
    "hog": "a task of the FIFO class keeps the CPU on which kfree_rcu() was called, with "
           "PREEMPT_RT, 15 seconds long",
    "memory": "after boot; at the peak of hackbench, forks by stress-ng and a find, each figure's "
              "own; after these, 20 seconds and drop_caches twice; a minute later",
    "mempools": "half the CPUs allocate from a mempool each, and the other half free, 128 objects "
                "in flight between each two; of a cache that is new at first. From slabs are "
                "slow allocations, which in base take a slab's free objects at once, and "
                "objects that sheaves were refilled with",
    "queues": "a ublk null target with as many queues as half the CPUs, of depth 128, that are "
              "served by CPUs of other nodes than fio submits on; of caches shrunk at first; "
              "what is counted is the same as in mempools",
    "fragmentation": "of 60,000 objects nine in ten die, whichever, and come back in four in ten "
                     "places, four times; then nine in ten die again, and 20 seconds pass. What "
                     "is counted is the objects that the slabs have room for, per 1000 alive, and "
                     "those that are free, be it in a slab or in a sheaf",
    "aging": "storm: files are made, looked for and removed in a cgroup with little memory, some, "
             "whichever, stay open, and what can be reclaimed is, four times; night: four hours of "
             "hackbench, forks and mappings by stress-ng, file trees, a find and safe writes, and a "
             "rest after each, among processes that stay; then one more, and drop_caches. What "
             "slabs have room for, in bytes, per 1000 bytes of objects alive, and what is free, be "
             "it in a slab or in a sheaf",
    "latency": "the longest stretch of a path with interrupts off, or with preemption off, by the "
               "hooks of the tracers irqsoff and preemptoff; control is what these take themselves. "
               "A batch is 512 objects, slabs are 600",
    "real": "real programs; on one CPU all instructions, those of the kernel's threads and of "
            "interrupts included, but none of an idle CPU; on several, iperf3 and redis take time of the host",
}
# Where waiting is part of what is measured, and counts in instructions, too.
SCENES = ("admin", "hotplug", "rcuscale", "flood", "hog", "mempools", "fragmentation", "latency")
# Less than this counts as equal, even where the spread is zero.
EQUAL = 0.0005
NO_FIGURE = "-"


def load(directory):
    with open(os.path.join(directory, "results.json"), encoding="utf-8") as f:
        return json.load(f)


def sections(data):
    """[(group, machine, cases)], in the order of GROUPS."""
    found = {}
    for c in data["cases"]:
        found.setdefault((c["group"], c["machine"]), []).append(c)
    order = list(GROUPS)
    rank = {g: order.index(g) if g in order else len(order) for g, _ in found}
    return [(g, m, cases) for (g, m), cases in sorted(found.items(), key=lambda i: rank[i[0][0]])]


def title(data, group, machine):
    several = len({c["machine"] for c in data["cases"] if c["group"] == group}) > 1
    return f"{group}, {machine}" if several else group


def counts_instructions(data, machine):
    return "count instructions" in data["machines"].get(machine, "")


def waits(group, machine):
    """Whether time passes while nothing is done, and belongs to the figure."""
    return group in SCENES or (group == "real" and machine != "1cpu")


def figure(case, kernel, key="ns_per_object"):
    return case["kernels"].get(kernel, {}).get(key)


def title_of(case):
    """The name of a case, and what its figures are where it is not time."""
    units = {v["unit"] for v in case["kernels"].values() if "unit" in v}
    return case["case"] + "".join(f" [{u}]" for u in sorted(units))


def ratio(case, a, b):
    """Of the times per object: below one, a is the faster."""
    x, y = figure(case, a), figure(case, b)
    return x / y if x is not None and y else None


def spread(case, *kernels):
    known = [s for s in (figure(case, k, "spread") for k in kernels) if s is not None]
    return max(known) if known else None


def behind(case, a="ours", b="base"):
    """Whether a takes longer than b by more than the spread of both."""
    r = ratio(case, a, b)
    return r is not None and r - 1 > max(spread(case, a, b) or 0, EQUAL)


# --- tables ----------------------------------------------------------------

def show(value):
    if value is None:
        return NO_FIGURE
    if value >= 10000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def show_ratio(value):
    return NO_FIGURE if value is None else f"{value:.3f}"


def show_spread(value):
    return NO_FIGURE if value is None else f"{100 * value:.1f} %"


def table(head, rows, text_columns=1):
    """Markdown with aligned columns, readable as it is; the first ones are text."""
    widths = [max(len(r[i]) for r in [head] + rows) for i in range(len(head))]

    def line(row):
        cells = [c.ljust(w) if i < text_columns else c.rjust(w)
                 for i, (c, w) in enumerate(zip(row, widths))]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * w if i < text_columns else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(head), line(rule)] + [line(r) for r in rows])


def compared(kernels):
    pairs = (("ours", "base"), ("peer", "base"), ("ours", "peer"), ("ours", "fixed"),
             ("hardened", "ours"))
    return [p for p in pairs if p[0] in kernels and p[1] in kernels]


def mean_row(cases, kernels):
    row = ["geometric mean"] + [""] * len(kernels)
    for a, b in compared(kernels):
        ratios = [r for r in (ratio(c, a, b) for c in cases) if r]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
        row.append(show_ratio(mean) + "  ")
    return row + [""]


def mark(case, a, b):
    """What to think of a ratio, in two characters."""
    r = ratio(case, a, b)
    if r is not None and abs(r - 1) > EQUAL and abs(r - 1) <= (spread(case, a, b) or 0):
        return " ?"
    return " !" if (a, b) == ("ours", "base") and behind(case) else "  "


def times(cases, kernels, exact):
    iops = any(figure(c, k, "iops") for c in cases for k in kernels)
    rows = []
    for c in cases:
        row = [title_of(c)] + [show(figure(c, k, "iops" if iops else "ns_per_object")) for k in kernels]
        row += [show_ratio(ratio(c, a, b)) + mark(c, a, b) for a, b in compared(kernels)]
        rows.append(row + [show_spread(spread(c, *kernels))])
        for part in ("alloc", "free"):
            values = [figure(c, k, part + "_ns_per_object") for k in kernels]
            if any(v is not None for v in values):
                rows.append([f"  of this, {part}"] + [show(v) for v in values] +
                            [""] * (len(compared(kernels)) + 1))
    if len(cases) > 1 and exact and compared(kernels) and cases[0]["group"] not in SCENES:
        rows.append(mean_row(cases, kernels))
    head = ["case"] + kernels + [f"{a}/{b}" for a, b in compared(kernels)] + ["spread"]
    return table(head, rows)


def memory_table(cases, kernels):
    """What the rounds have left behind, where that was looked at."""
    parts = (("slab_peak_kb", "Slab at the peak [kB]"), ("slab_kb", "Slab [kB]"),
             ("in_sheaves", "in sheaves"), ("partial_peak", "partial slabs at the peak"),
             ("partial", "partial slabs"))
    known = [c for c in cases if any(figure(c, k, "memory") for k in kernels)]
    shown = [(key, name, k) for key, name in parts for k in kernels
             if any(key in (figure(c, k, "memory") or {}) for c in known) and
             (key != "in_sheaves" or k in ("ours", "fixed", "hardened"))]
    rows = [[c["case"]] + [show((figure(c, k, "memory") or {}).get(key)) for key, _, k in shown]
            for c in known]
    return table(["case"] + [f"{name}, {k}" for _, name, k in shown], rows) if rows else ""


def longest(cases):
    """What in ours is longer than whatever base has of the kind, which is before the colon."""
    known = [c for c in cases if "where" in c["kernels"].get("base", {})]
    kinds = dict.fromkeys(c["case"].split(":")[0] for c in known)
    rows, out = [], []
    for kind in kinds:
        same = [c for c in known if c["case"].startswith(kind + ":")]
        most = max(same, key=lambda c: figure(c, "base"))
        over = [c for c in same if (figure(c, "ours") or 0) > figure(most, "base")]
        out.append(f"With {kind}, base's longest is {show(figure(most, 'base'))} ({most['case']}: "
                   f"{figure(most, 'base', 'where')}); ours is longer in {len(over)} of {len(same)} cases.")
        rows += [[c["case"], show(figure(c, "ours")), figure(c, "ours", "where")] for c in over]
    return out + (["", table(["case", "ours", "where"], rows)] if rows else [])


def no_time(cases):
    """Whether all figures have units of their own."""
    return all("unit" in v for c in cases for v in c["kernels"].values())


def unit(data, machine, cases):
    if no_time(cases):
        return "the unit that stands beside each"
    if any(figure(c, k, "iops") for c in cases for k in c["kernels"]):
        unit_of_time = ", each of a billion instructions" if counts_instructions(data, machine) else ""
        return f"operations per second{unit_of_time}; the ratios are those of the time per operation"
    if waits(cases[0]["group"], machine):
        clock = ", by a clock that an instruction of any CPU advances by one, and waiting by itself" \
            if counts_instructions(data, machine) else ""
        return f"ns per object{clock}; what is not time has its unit beside it"
    return "instructions per object" if counts_instructions(data, machine) else "ns per object"


def verdicts(data):
    """Sentences on where ours is behind, and a list of the cases."""
    out = []
    for b in ("base", "peer"):
        if b not in data["kernels"] or "ours" not in data["kernels"]:
            continue
        both = [c for c in data["cases"] if ratio(c, "ours", b) is not None]
        late = [c for c in both if behind(c, "ours", b)]
        named = b == "base" or {c["group"] for c in both} == {"real"}
        out.append(f"Ours is behind {b} by more than the spread in {len(late)} of {len(both)} cases"
                   + (":" if late and named else "."))
        if named:
            late.sort(key=lambda c: -ratio(c, "ours", b))
            out += [f"- {title(data, c['group'], c['machine'])}: {title_of(c)}, "
                    f"{show_ratio(ratio(c, 'ours', b))} (spread {show_spread(spread(c, 'ours', b))})"
                    for c in late]
    return out


def all_tables(data, charts=False):
    kernels = list(data["kernels"])
    out = []
    for group, machine, cases in sections(data):
        name = title(data, group, machine)
        what = GROUPS.get(group)
        out += ["", f"## {name}", ""]
        if what:
            out += [f"{what[0].upper()}{what[1:]}. In {unit(data, machine, cases)}.", ""]
        exact = counts_instructions(data, machine)
        out.append(times(cases, kernels, exact))
        longer = longest(cases)
        if longer:
            out += [""] + longer
        memory = memory_table(cases, kernels)
        if memory:
            out += ["", "All slab caches, at the peak of a case and after it:" if group == "real" else
                    "All slab caches after a round, and of the one that is measured the free "
                    "objects in sheaves and the partial slabs of nodes:", "", memory]
        if not exact:
            counters = counter_table(cases, kernels)
            if counters:
                out += ["", "Counters per million objects:", "", counters]
        if charts:
            out += ["", f"![{name}]({chart_name(data, group, machine)})"]
    return out


def config_lines(data):
    out = []
    for config, differences in data["config_differences"].items():
        kernels = list(data["kernels"])
        out += ["", f"`{config}`:" + (" no differences that matter." if not differences else "")]
        if differences:
            out += ["", table(["symbol"] + kernels,
                              [[d["symbol"]] + [d.get(k, "") for k in kernels] for d in differences])]
    return out


def how_often(data):
    if "how_often" in data:
        return data["how_often"]
    return (f"{data['guests']} guests of each kernel and machine, {data['rounds_per_guest']} rounds in a"
            f" guest, {data['ublk_rounds_per_guest']} of ublk and queues,"
            f" {data['scenes_rounds_per_guest']} of admin, rcuscale, flood, mempools and fragmentation,"
            f" {data['hotplug_rounds_per_guest']} of hotplug, one of hog, memory and aging.")


def results_md(data):
    host = data["host"]
    out = ["<!-- SPDX-License-Identifier: GPL-2.0 -->",
           "# Benchmarks of the slab allocator", "",
           f"`{data['command']}`, {data['date']}. Figures: results.json; counters:",
           f"[counters.md](counters.md). Made by {data.get('script', 'scripts/bench.sh')}, not by hand.", ""]
    out += [f"- {k}: {v['version']}, {v['what']}" for k, v in data["kernels"].items()]
    out += [f"- machine {m}: {how}" for m, how in data["machines"].items()]
    out += [f"- host: {host['cpu']}, {host['cpus']} CPUs, Linux {host['kernel']}, load {host['load']};"
            f" {data['qemu']}", "",
            how_often(data),
            "A figure is the median of the guests'",
            "medians; its spread the distance of the highest and the lowest of these (where there was",
            "one guest, of the quartiles of its rounds). The table shows the largest spread of the kernels. A ratio below 1 means",
            "faster, or less; `!` marks where ours is behind base by more than the spread, `?` a difference that",
            "is not larger than the spread and so says nothing.", "",
            "Counted instructions are exact, but they are not time: what an atomic operation or a cache",
            "miss takes does not show. Where the clock of many CPUs is the host's, the times depend on how",
            "that schedules them; the counters of those runs do not.", ""]
    out += verdicts(data) + all_tables(data, charts=True)
    out += ["", "## Configurations", "",
            "Symbols in which the kernels differ and that may matter for the figures."]
    out += config_lines(data)
    if data["skipped"]:
        out += ["", "## Skipped", ""]
        skips = {}
        for s in data["skipped"]:
            key = f"{s['group']}, {s['case']}, on {s['machine']}: {s['reason']}"
            skips.setdefault(key, []).append(s["kernel"])
        out += [f"- {key} ({', '.join(k)})" for key, k in skips.items()]
    return "\n".join(out) + "\n"


def counter_table(cases, kernels):
    rows = []
    for c in cases:
        names = sorted({n for k in c["kernels"].values() for n in k["counters_per_million"]})
        for n in names:
            values = ((figure(c, k, "counters_per_million") or {}).get(n) for k in kernels)
            rows.append([c["case"] if n == names[0] else "", n] +
                        [f"{v:,.0f}" if v else NO_FIGURE for v in values])
    return table(["case", "counter"] + kernels, rows, text_columns=2) if rows else ""


def counters_md(data):
    kernels = list(data["kernels"])
    out = ["<!-- SPDX-License-Identifier: GPL-2.0 -->", "# Counters per million objects", "",
           "The files in /sys/kernel/slab that have changed, medians of all rounds; see results.md."]
    for group, machine, cases in sections(data):
        counters = counter_table(cases, kernels)
        if counters:
            out += ["", f"## {title(data, group, machine)}", "", counters]
    return "\n".join(out) + "\n"


# --- charts ----------------------------------------------------------------

COLOURS = {"base": "#8a8a8a", "ours": "#1f6fb4", "peer": "#e08214", "fixed": "#7fb3dc",
           "hardened": "#12406a"}
# Longer bars are cut; their number stands.
MOST = 3
BAR, GAP, LEFT, WIDTH, RIGHT = 11, 9, 330, 430, 110


def chart_name(data, group, machine):
    return "chart-" + title(data, group, machine).replace(", ", "-") + ".svg"


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


def chart(data, group, machine, cases):
    """Bars of the time per object relative to base, which is the line at 1."""
    kernels = [k for k in data["kernels"] if k != "base"]
    rows = [(c, [(k, ratio(c, k, "base")) for k in kernels]) for c in cases]
    top = min(MOST, max([1.25] + [r for _, rs in rows for _, r in rs if r]) * 1.05)
    scale = WIDTH / top
    height = 66 + len(rows) * (len(kernels) * BAR + GAP)
    total = LEFT + WIDTH + RIGHT
    exact = counts_instructions(data, machine) and not waits(group, machine)
    what = "instructions per object" if exact else "time per object"
    if no_time(cases):
        what = "figures"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" '
           f'viewBox="0 0 {total} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{total}" height="{height}" fill="white"/>',
           text(10, 18, f"{title(data, group, machine)}: {what} relative to base "
                        f"({data['kernels']['base']['version']}), less is better", 'font-size="13"')]
    x = LEFT
    for k in kernels:
        out.append(f'<rect x="{x}" y="28" width="10" height="10" fill="{COLOURS.get(k, "black")}"/>')
        label = f"{k} ({data['kernels'][k]['version']})"
        out.append(text(x + 14, 37, label))
        x += 40 + 6 * len(label)
    y = 50
    iops = any("iops" in v for c in cases for v in c["kernels"].values())
    for c, ratios in rows:
        base = figure(c, "base", "iops" if iops else "ns_per_object")
        middle = y + len(kernels) * BAR / 2 + 4
        out.append(text(LEFT - 8, middle, f"{title_of(c)}  ({show(base)})", 'text-anchor="end"'))
        for k, r in ratios:
            if r is not None:
                half = r * (figure(c, k, "spread") or 0) / 2
                end, low, high = (LEFT + scale * min(max(v, 0), top) for v in (r, r - half, r + half))
                out.append(f'<rect x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR - 1}" '
                           f'fill="{COLOURS.get(k, "black")}"/>')
                if high - low > 2:
                    out.append(f'<path d="M{low:.1f} {y + BAR / 2 - 0.5:.1f}H{high:.1f}" stroke="black"/>')
                out.append(text(high + 4, y + BAR - 2, f"{r:.2f}", 'font-size="9"'))
            y += BAR
        y += GAP
    out.append(f'<path d="M{LEFT + scale:.1f} 44V{y}" stroke="#444" stroke-dasharray="3 2"/>')
    out.append(text(LEFT + scale, y + 10, "1 = base", 'text-anchor="middle" font-size="9"'))
    out.append(text(LEFT - 8, y + 10, "(in parentheses: base, in "
                    + ("operations per second" if iops else unit(data, machine, cases)) + ")",
                    'text-anchor="end" font-size="9"'))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: report.py DIR")
    directory = sys.argv[1]
    data = load(directory)
    files = {"results.md": results_md(data), "counters.md": counters_md(data)}
    if "base" in data["kernels"]:
        for group, machine, cases in sections(data):
            files[chart_name(data, group, machine)] = chart(data, group, machine, cases)
    for name, content in files.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as f:
            f.write(content)
    print("\n".join(all_tables(data)).replace("## ", "") + "\n")
    print("\n".join(verdicts(data)))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"error: {error}")
