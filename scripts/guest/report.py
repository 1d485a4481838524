#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""In the guest: what runs, a short load, and who served the busiest caches.

Reads /sys/kernel/slab/<cache>/. An object that a CPU frees and allocates again
is served by its sheaves; one that moves with a whole sheaf, by the barn; one
that is refilled, flushed, or takes the slow path, by the slab. What a kernel
does not count is shown as `-'.
"""

import os
import platform
import subprocess
import sys
import tempfile

SLAB = "/sys/kernel/slab"
ROWS = 12


def read(path):
    try:
        with open(path, encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return None


def counter(cache, name):
    """The total; per-CPU shares follow it in the file."""
    text = read(f"{SLAB}/{cache}/{name}")
    return int(text.split()[0]) if text else None


def caches():
    """Real caches: merged ones appear as symbolic links."""
    for name in os.listdir(SLAB):
        if not os.path.islink(f"{SLAB}/{name}"):
            yield name


def title(cache):
    """Merged caches have a made-up name; show the first alias instead."""
    if not cache.startswith(":"):
        return cache
    aliases = sorted(n for n in os.listdir(SLAB)
                     if os.path.islink(f"{SLAB}/{n}")
                     and os.path.basename(os.readlink(f"{SLAB}/{n}")) == cache)
    return aliases[0] + ("+" if len(aliases) > 1 else "") if aliases else cache


def load():
    """Forks, files, pipes: bounded, on tmpfs."""
    subprocess.run("for i in $(seq 100); do /bin/true; done", shell=True, check=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else "/tmp") as d:
        for i in range(1500):
            with open(f"{d}/{i}", "w", encoding="ascii") as f:
                f.write("x" * 512)
        subprocess.run(f"tar -C {d} -cf - . | tar -tf - | wc -l", shell=True, check=True,
                       stdout=subprocess.DEVNULL)


def served(cache):
    """(allocs, frees) as (total, sheaf, barn, slab), None where not counted."""
    capacity = counter(cache, "sheaf_capacity")

    def split(fast, slow, barn, slab):
        f, s = counter(cache, fast), counter(cache, slow)
        if f is None or s is None:
            return None
        total = f + s
        if capacity is None:
            return total, None, None, None
        by_slab = min(total, s + (counter(cache, slab) or 0))
        by_barn = min(total - by_slab, (counter(cache, barn) or 0) * capacity)
        return total, total - by_slab - by_barn, by_barn, by_slab

    return (split("alloc_fastpath", "alloc_slowpath", "barn_get", "sheaf_refill"),
            split("free_fastpath", "free_slowpath", "barn_put", "sheaf_flush"))


def topology():
    def count(path):
        text = read(path) or "0"
        return sum(int(r.split("-")[-1]) - int(r.split("-")[0]) + 1 for r in text.split(","))

    node = "/sys/devices/system/node"
    cpus, nodes = os.cpu_count(), count(f"{node}/online")
    text = f"{cpus} CPU{'s' if cpus > 1 else ''}"
    if os.path.isdir(node):
        text += f" on {nodes} node{'s' if nodes > 1 else ''}"
        with_memory = read(f"{node}/has_memory") or "0"
        if with_memory != read(f"{node}/online"):
            text += f" (memory on {with_memory})"
    kib = int(next(l for l in read("/proc/meminfo").splitlines()
                   if l.startswith("MemTotal")).split()[1])
    return f"{text}, {kib / 1024:.0f} MB"


def number(n):
    if n is None:
        return "-"
    for limit, unit in ((10_000_000, "M"), (10_000, "k")):
        if n >= limit:
            return f"{n // (limit // 10)}{unit}"
    return str(n)


def table():
    rows = []
    for cache in caches():
        allocs, frees = served(cache)
        if allocs and frees:
            rows.append((allocs[0] + frees[0], cache, allocs, frees))
    if not rows:
        print("This kernel does not count allocations (CONFIG_SLUB_STATS).")
        return
    rows.sort(reverse=True)
    print(f"{'':<32}{'allocations served by':>28}{'frees served by':>28}")
    head = f"{'total':>7}{'sheaf':>7}{'barn':>6}{'slab':>6}"
    print(f"{'busiest caches':<22}{'size':>5}{'cap':>5}  {head}  {head}")
    for _, cache, allocs, frees in rows[:ROWS]:
        cols = "  ".join(f"{number(c[0]):>7}{number(c[1]):>7}{number(c[2]):>6}{number(c[3]):>6}"
                         for c in (allocs, frees))
        print(f"{title(cache)[:21]:<22}{counter(cache, 'object_size'):>5}"
              f"{number(counter(cache, 'sheaf_capacity')):>5}  {cols}")


def main():
    load()
    if not os.path.isdir(SLAB):
        print(f"Linux  {platform.release()}, no {SLAB}")
        print(f"Guest  {topology()}")
        return 0
    has = any(counter(c, "sheaf_capacity") for c in caches())
    print(f"Linux  {platform.release()}, {'sheaves' if has else 'no sheaves'}")
    print(f"Guest  {topology()}")
    table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
