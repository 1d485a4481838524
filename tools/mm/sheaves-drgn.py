#!/usr/bin/env drgn
# SPDX-License-Identifier: GPL-2.0
"""Show the sheaves and barns of slab caches, and in which of them an address is.

Of a cache: the sheaves of each CPU and of those that wait for RCU, the barn of each
node with its sheaves, and sums, which are those of /sys/kernel/slab/<cache>/sheaf_objects.
Of an address: the object, its cache and slab, in which slot of which sheaf it is, or
whether it is free in its slab or in use; and who has allocated and freed it, if that is kept:
in caches that are tracked (slab_debug=U), and of what KFENCE guards.

Run by drgn (https://drgn.readthedocs.io), 0.0.31 or newer:

    drgn -s vmlinux sheaves-drgn.py ...                  the kernel that runs
    drgn -c vmcore -s vmlinux sheaves-drgn.py ...        one that has crashed
    drgn --qemu SOCKET -s vmlinux sheaves-drgn.py ...    a guest

Nothing is locked or stopped: of a kernel that runs, what is shown may be from different
times, and what changes while it is looked at is said to. See
Documentation/admin-guide/mm/slab-sheaves-watch.rst.
"""

import argparse
import collections
import itertools
import os
import sys

from drgn import FaultError, Object, ProgramFlags, cast, offsetof, sizeof
from drgn.helpers.linux.cpumask import for_each_possible_cpu
from drgn.helpers.linux.list import list_for_each_entry
from drgn.helpers.linux.mm import (PageSlab, compound_head, in_direct_map, page_to_virt,
                                   virt_to_page, virt_to_pfn)
from drgn.helpers.linux.nodemask import for_each_online_node
from drgn.helpers.linux.percpu import per_cpu, per_cpu_ptr
from drgn.helpers.linux.stackdepot import stack_depot_fetch

# More than any list has: of one that changes, or is broken, one might never see the end.
MOST_SHEAVES = 100000
MOST_CAPACITY = 1 << 20
MOST_CACHES = 10000


class Error(Exception):
    """What is wrong, in a line."""


def has_symbol(name):
    try:
        prog.symbol(name)
        return True
    except LookupError:
        return False


def has_member(type_name, member):
    return any(m.name == member for m in prog.type(type_name).members)


WORD = sizeof(prog.type("unsigned long"))
BYTE_ORDER = "little" if prog.platform.flags.IS_LITTLE_ENDIAN in prog.platform.flags else "big"
LIVE = bool(prog.flags & ProgramFlags.IS_LIVE)


def words(address, number):
    """So many unsigned longs from memory."""
    data = prog.read(address, number * WORD)
    return [int.from_bytes(data[i:i + WORD], BYTE_ORDER) for i in range(0, len(data), WORD)]


def swab(word):
    return int.from_bytes(word.to_bytes(WORD, "little"), "big")


# --- caches ------------------------------------------------------------------

def flag(bit):
    """A slab flag by the name of its bit, 0 if this kernel has no such flag."""
    try:
        return 1 << int(prog.constant(bit))
    except LookupError:
        return 0


class Cache:
    """A cache, read once."""

    def __init__(self, pointer):
        self.pointer = pointer
        self.address = int(pointer)
        self.s = pointer[0].read_()
        self.name = pointer.name.string_().decode(errors="replace") if pointer.name else "?"
        self.size = int(self.s.size)
        self.capacity = int(self.s.sheaf_capacity)
        self.secret = int(self.s.random) if has_member("struct kmem_cache", "random") else 0
        self.flags = int(self.s.flags)

    def decode(self, slot, value):
        """What is in a slot: with SLAB_SHEAF_HARDENED it is encoded."""
        return value ^ self.secret ^ swab(slot) if ENCODED else value

    def free_pointer(self, obj):
        where = obj + int(self.s.offset)
        return words(where, 1)[0] ^ ((self.secret ^ swab(where)) if self.secret else 0)

    def is_marked(self, obj):
        """As all objects in sheaves are, with SLAB_SHEAF_MARKS."""
        where = obj + int(self.s.offset)
        return words(where, 1)[0] == int(prog["slab_sheaf_secret"]) ^ where

    def cpu_sheaves(self, cpu):
        return per_cpu_ptr(self.s.cpu_sheaves, cpu)[0].read_()

    def barns(self):
        """Node, barn, and where the barn is: a node that goes offline leaves its barn behind."""
        if not self.s.barns:
            return
        for node in range(int(prog["nr_node_ids"]) if has_symbol("nr_node_ids") else 1):
            barn = self.s.barns[node]
            if barn:
                yield node, barn[0].read_(), int(barn)


def caches():
    pointers = list_for_each_entry("struct kmem_cache", prog["slab_caches"].address_of_(), "list")
    return map(Cache, itertools.islice(pointers, MOST_CACHES))


def find_cache(name):
    for cache in caches():
        if cache.name == name:
            return cache
    raise Error(f"no cache {name}; of those that are merged only the first has a name here "
                "(--list, or slabinfo -a)")


def node_of(cpu):
    return int(per_cpu(prog["numa_node"], cpu)) if has_symbol("numa_node") else 0


# --- sheaves -----------------------------------------------------------------

class Sheaf:
    """Its head, read once. Its memory may be another sheaf's the next moment."""

    def __init__(self, pointer):
        self.address = int(pointer)
        head = pointer[0].read_()
        self.cache = int(head.cache)
        self.size, self.capacity = int(head.size), int(head.capacity)

    def __str__(self):
        return f"{self.size}/{self.capacity}{'' if self.sound() else '?'}"

    def sound(self):
        return self.size <= self.capacity <= MOST_CAPACITY

    def count(self):
        """As the kernel counts: a size that cannot be is none."""
        return self.size if self.sound() else 0

    def slots(self, cache):
        """Slot and object."""
        first = self.address + offsetof(prog.type("struct slab_sheaf"), "objects")
        for i, value in enumerate(words(first, self.count())):
            yield i, cache.decode(first + i * WORD, value)


def sheaf_or_none(pointer):
    return Sheaf(pointer) if pointer else None


class Walk:
    """The sheaves on a list, which may change meanwhile: it says so where it sees it."""

    def __init__(self):
        self.changed = False

    def linked(self, head):
        """On a list_head, by barn_list."""
        offset = offsetof(prog.type("struct slab_sheaf"), "barn_list")
        start, before = int(head), int(head)
        entry = words(start, 1)[0]
        for _ in range(MOST_SHEAVES):
            if entry == start:
                return
            try:
                following, previous = words(entry, 2)
                sheaf = Sheaf(Object(prog, "struct slab_sheaf *", entry - offset))
            except FaultError:
                break
            if previous != before:
                break
            yield sheaf
            before, entry = entry, following
        self.changed = True

    def queued(self, sheaf):
        """From one to the next."""
        for _ in range(MOST_SHEAVES):
            if not sheaf:
                return
            try:
                head, sheaf = Sheaf(sheaf), sheaf.next.read_()
            except FaultError:
                break
            yield head
        self.changed = True

    def note(self):
        if not self.changed:
            return ""
        return "  (changes while it is looked at)" if LIVE else "  (the list is broken here)"


CPU_SHEAVES = ("main", "spare", "remote", "rcu_free")
# What a CPU has of all caches, in that order: mm/slab_rcu.c
RCU_SHEAVES = (("filling", "collects for kfree_rcu()"),
               ("taken", "taken to wait for RCU"),
               ("full", "waits for RCU"))


def waiting(cpu, walk):
    """Sheaves of kfree_rcu(), of all caches: which list, and the sheaf."""
    try:
        variable = prog["rcu_sheaves"]
    except LookupError:
        return
    queues = per_cpu(variable, cpu)
    for name, _ in RCU_SHEAVES:
        if name == "filling":
            found = walk.linked(queues.filling.address_of_())
        else:
            found = walk.queued(getattr(queues, name).first.read_())
        for sheaf in found:
            yield name, sheaf


# --- a cache -----------------------------------------------------------------

class Sums:
    """Objects by node, as sheaf_objects has them."""

    def __init__(self):
        self.cpus = self.barns = self.rcu = 0
        self.by_node = collections.Counter()

    def total(self):
        return self.cpus + self.barns

    def __str__(self):
        nodes = "".join(f" N{node}={n}" for node, n in sorted(self.by_node.items()) if n)
        return f"{self.total()}{nodes if has_symbol('numa_node') else ''}"


def sum_up(cache):
    """Without the sheaves that wait for RCU."""
    sums = Sums()
    if not cache.s.barns:
        return sums
    for cpu in for_each_possible_cpu(prog):
        pcs = cache.cpu_sheaves(cpu)
        n = sum(Sheaf(getattr(pcs, which)).count()
                for which in ("main", "spare", "remote") if getattr(pcs, which))
        sums.cpus += n
        sums.by_node[node_of(cpu)] += n
    for node, barn, _ in cache.barns():
        sums.barns += int(barn.nr_objects)
        sums.by_node[node] += int(barn.nr_objects)
    return sums


def runs(sheaves):
    """3/28 3/28 is 2 x 3/28."""
    text = []
    for what, group in itertools.groupby(map(str, sheaves)):
        n = len(list(group))
        text.append(f"{n} x {what}" if n > 1 else what)
    return ", ".join(text)


def list_in_barn(barn, what):
    return barn + offsetof(prog.type("struct node_barn"), f"sheaves_{what}")


def show_barn(node, barn, address):
    for what, limit in (("full", barn.max_full), ("empty", barn.max_empty)):
        walk = Walk()
        sheaves = list(walk.linked(list_in_barn(address, what)))
        text = f"node {node}  barn  {len(sheaves)} {what} of {int(limit)}"
        number = int(getattr(barn, f"nr_{what}"))
        if sheaves:
            text += f": {runs(sheaves)}"
        if number != len(sheaves) and not walk.changed:
            text += f"  (counted as {number})"
        print(text + walk.note())


def show_waiting(cache, cpu, sums):
    walk = Walk()
    found = collections.defaultdict(list)
    for which, sheaf in waiting(cpu, walk):
        if sheaf.cache == cache.address:
            found[which].append(sheaf)
            sums.rcu += sheaf.count()
    for which, what in RCU_SHEAVES:
        # That of the CPU itself is in the line above.
        sheaves = found[which]
        if which != "filling" and sheaves:
            print(f"CPU {cpu}  {what}: {runs(sheaves)}{walk.note()}")


def show_cache(cache):
    print(f"{cache.name}: {cache.size} bytes an object, {cache.capacity} objects a sheaf"
          f"{', slots are encoded' if ENCODED and cache.s.barns else ''}")
    if not cache.s.barns:
        print("no sheaves: " + why_none(cache))
        return
    sums = sum_up(cache)
    for cpu in for_each_possible_cpu(prog):
        pcs = cache.cpu_sheaves(cpu)
        sheaves = [sheaf_or_none(getattr(pcs, which)) for which in CPU_SHEAVES]
        print(f"CPU {cpu}  node {node_of(cpu)}" +
              "".join(f"  {which} {sheaf or '-'}" for which, sheaf in zip(CPU_SHEAVES, sheaves)))
        show_waiting(cache, cpu, sums)
    for barn in cache.barns():
        show_barn(*barn)
    print(f"objects in sheaves of CPUs {sums.cpus}, in barns {sums.barns}, "
          f"that wait for RCU {sums.rcu}")
    print(f"sheaf_objects {sums}")


def why_none(cache):
    if cache.flags & DEBUG_FLAGS:
        return "it is debugged (slab_debug)"
    return "the cache was made before there were any, or the capacity is 0"


def show_list():
    rows = []
    for cache in caches():
        sums = sum_up(cache)
        rows.append((sums.total() * cache.size, sums, cache))
    print(f"{'BYTES':>10} {'OBJECTS':>9} {'IN CPUS':>9} {'IN BARNS':>9} {'CAPACITY':>9} "
          f"{'SIZE':>6}  CACHE")
    for nr_bytes, sums, cache in sorted(rows, key=lambda row: (-row[0], row[2].name)):
        print(f"{nr_bytes:>10} {sums.total():>9} {sums.cpus:>9} {sums.barns:>9} "
              f"{cache.capacity:>9} {cache.size:>6}  {cache.name}")


# --- an address --------------------------------------------------------------

def slab_page(address):
    """None if it is in no slab."""
    if in_direct_map(prog, address):
        try:
            page = compound_head(virt_to_page(prog, address))
            if PageSlab(page):
                return page
        except FaultError:
            pass
    return None


def from_object(address, obj):
    return f"byte {address - obj} of" if address >= obj else f"{obj - address} bytes before"


class Place:
    """The object that an address is of, in a slab."""

    def __init__(self, address, page):
        self.address = address
        slab = cast("struct slab *", page)
        self.slab = slab[0].read_()
        self.slab_address = int(slab)
        self.cache = Cache(self.slab.slab_cache)
        self.first = int(page_to_virt(page))
        self.index = (address - self.first) // self.cache.size
        if self.index >= int(self.slab.objects):
            raise Error(f"{address:#x} is in a slab of {self.cache.name}, behind its last object")
        self.object = self.first + self.index * self.cache.size
        if self.cache.flags & flag("_SLAB_RED_ZONE"):
            self.object += int(self.cache.s.red_left_pad)

    def node(self):
        """By the range of the nodes, which must not overlap for that."""
        if not has_symbol("node_data"):
            return ""
        pfn = int(virt_to_pfn(prog, self.object))
        found = [node for node in for_each_online_node(prog)
                 for data in [prog["node_data"][node]]
                 if 0 <= pfn - int(data.node_start_pfn) < int(data.node_spanned_pages)]
        return f", on node {found[0]}" if len(found) == 1 else ""

    def in_freelist(self):
        """True, False, or None if the list changes."""
        obj = int(self.slab.freelist)
        for _ in range(int(self.slab.objects) + 1):
            if not obj:
                return False
            if obj == self.object:
                return True
            try:
                obj = self.cache.free_pointer(obj)
            except FaultError:
                break
        return None


def places_of_cpu(cache, cpu):
    """All sheaves that a CPU has of a cache, and how to call them."""
    pcs = cache.cpu_sheaves(cpu)
    for which in CPU_SHEAVES:
        if which != "rcu_free" and getattr(pcs, which):
            yield f"CPU {cpu}'s {which} sheaf", Sheaf(getattr(pcs, which))
    walk = Walk()
    collecting = int(pcs.rcu_free)
    for which, sheaf in waiting(cpu, walk):
        if sheaf.cache == cache.address:
            what = dict(RCU_SHEAVES)[which]
            name = "rcu_free sheaf" if sheaf.address == collecting else "sheaf"
            yield f"CPU {cpu}'s {name}, which {what}", sheaf
    if walk.changed:
        print(f"CPU {cpu}'s lists of sheaves that wait for RCU:{walk.note()}")


def all_places(cache):
    if not cache.s.barns:
        return
    for cpu in for_each_possible_cpu(prog):
        yield from places_of_cpu(cache, cpu)
    for node, _, address in cache.barns():
        walk = Walk()
        for i, sheaf in enumerate(walk.linked(list_in_barn(address, "full"))):
            yield f"full sheaf {i} of the barn of node {node}", sheaf
        if walk.changed:
            print(f"the barn of node {node}:{walk.note()}")


def find_in_sheaves(cache, wanted):
    """Where an object is: each place that has it, for there should be one."""
    found = []
    for name, sheaf in all_places(cache):
        try:
            found += [f"{name}, slot {slot} of {sheaf.size}"
                      for slot, obj in sheaf.slots(cache) if obj == wanted]
        except FaultError:
            print(f"{name}: cannot be read{', it changes' if LIVE else ''}")
    return found


def say_where(place):
    found = find_in_sheaves(place.cache, place.object)
    listed = place.in_freelist()
    for where in found + ["the freelist of its slab"] * bool(listed):
        print(f"it is free, in {where}")
    if len(found) + bool(listed) > 1:
        print("that is more than one place: it was freed twice" +
              (", or moves while it is looked at" if LIVE else ""))
    if listed is None:
        print("the freelist of its slab cannot be followed, it "
              f"{'changes or ' if LIVE else ''}is broken")
    if found or listed:
        return
    if MARKS and place.cache.s.barns and place.cache.is_marked(place.object):
        print("it is free, as it has the mark of objects in sheaves, but in no sheaf that can "
              "be found: in one that is prefilled, or on its way")
    elif place.cache.s.barns:
        print("it is in use, or in a sheaf that no list has: one that is prefilled, or just "
              "being filled or flushed")
    else:
        print("it is in use")


def hz():
    """Ticks in a second, which no variable has; 0 if they are not known."""
    try:
        clock = prog["clocksource_jiffies"]
    except LookupError:
        return 0
    ns = int(clock.mult) >> int(clock.shift)
    return round(10**9 / ns) if ns else 0


def show_track(place, which, what):
    """What set_track() has left behind the object."""
    s = place.cache.s
    end = int(s.inuse) + (WORD if int(s.offset) >= int(s.inuse) else 0)
    address = place.object + end + int(prog.constant(which)) * sizeof(prog.type("struct track"))
    track = Object(prog, "struct track", address=address).read_()
    if not track.addr:
        print(f"{what}: not known, or not yet")
        return
    age = (int(prog["jiffies"]) - int(track.when)) & ((1 << 8 * WORD) - 1)
    ticks = hz()
    age = f"{age / ticks:.2f} s" if ticks else f"{age} jiffies"
    print(f"{what}: by {name_of(int(track.addr))}, CPU {int(track.cpu)}, PID {int(track.pid)}, "
          f"{age} ago")
    show_stack(depot_stack(track))


def name_of(address):
    try:
        symbol = prog.symbol(address)
        return f"{symbol.name}+{address - symbol.address:#x}"
    except LookupError:
        return f"{address:#x}"


def depot_stack(track):
    """Empty if none was kept, or it is gone."""
    if not has_member("struct track", "handle") or not track.handle:
        return []
    try:
        return [frame.pc for frame in stack_depot_fetch(track.handle) or []]
    except (FaultError, LookupError):
        return []


def show_stack(addresses):
    for address in addresses:
        print(f"    {name_of(address)}")


def say_who(place):
    if place.cache.flags & flag("_SLAB_STORE_USER"):
        show_track(place, "TRACK_ALLOC", "allocated")
        show_track(place, "TRACK_FREE", "freed")
    else:
        print("who has allocated or freed it is not known: that is kept with "
              f"slab_debug=U,{place.cache.name}, and then the cache has no sheaves")
        if has_member("struct kmem_cache", "kasan_info"):
            print("KASAN keeps it, too, which is not read here")


def guard_of(address):
    """What KFENCE knows of it, None if it is none of its addresses."""
    pool = int(prog["__kfence_pool"]) if has_symbol("__kfence_pool") else 0
    page_size = int(prog["PAGE_SIZE"])
    number = (address - pool) // (2 * page_size) - 1
    if not pool or number < 0:
        return None
    try:
        guard = prog["kfence_metadata"][number].read_()
    except FaultError:
        return None
    # How many there are no variable has, but each has its page.
    return guard if int(guard.addr) // page_size == address // page_size else None


def show_guard_track(track, what):
    """When is by the clock of the log."""
    print(f"{what}: CPU {int(track.cpu)}, PID {int(track.pid)}, "
          f"at {int(track.ts_nsec) / 1e9:.6f} s")
    show_stack(int(track.stack_entries[i]) for i in range(int(track.num_stack_entries)))


def show_guarded(address, guard):
    if not guard.cache:
        raise Error(f"{address:#x} is KFENCE's, which has not used it, or its cache is gone")
    obj, cache = int(guard.addr), Cache(guard.cache)
    print(f"{address:#x} is {from_object(address, obj)} object {obj:#x}, {int(guard.size)} bytes, "
          f"of {cache.name}, which KFENCE guards")
    used = guard.state == prog.constant("KFENCE_OBJECT_ALLOCATED")
    found = find_in_sheaves(cache, obj)
    for where in found:
        print(f"it is free, in {where}")
    if not found:
        print("it is in use" if used else "it is free, in KFENCE")
    show_guard_track(guard.alloc_track, "allocated")
    if not used:
        show_guard_track(guard.free_track, "freed")


def show_address(address):
    guard = guard_of(address)
    if guard is not None:
        show_guarded(address, guard)
        return
    page = slab_page(address)
    if page is None:
        raise Error(f"{address:#x} is in no slab")
    place = Place(address, page)
    print(f"{address:#x} is {from_object(address, place.object)} object {place.object:#x}"
          f", number {place.index} of {int(place.slab.objects)} in slab {place.slab_address:#x} of "
          f"{place.cache.name}{place.node()}")
    say_where(place)
    say_who(place)


# --- the program -------------------------------------------------------------

def number(text):
    value = int(text, 0)
    if not 0 <= value < 1 << 8 * WORD:
        raise ValueError
    return value


def arguments():
    parser = argparse.ArgumentParser(prog="sheaves-drgn.py",
                                     description=__doc__.split("\n\n", 1)[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=__doc__.split("\n\n", 1)[1])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true",
                      help="all caches, those with the most memory in sheaves first")
    what.add_argument("--address", type=number, metavar="ADDRESS",
                      help="where the object of that address is")
    what.add_argument("cache", nargs="?", metavar="CACHE", help="the sheaves of one cache")
    return parser.parse_args()


def main():
    args = arguments()
    if not has_symbol("slab_caches") or not has_member("struct kmem_cache", "cpu_sheaves"):
        raise Error("this kernel has no sheaves")
    if args.list:
        show_list()
    elif args.address is not None:
        show_address(args.address)
    else:
        show_cache(find_cache(args.cache))


ENCODED = has_symbol("__sheaf_code")
MARKS = has_symbol("slab_sheaf_secret")
DEBUG_FLAGS = (flag("_SLAB_RED_ZONE") | flag("_SLAB_POISON") | flag("_SLAB_STORE_USER") |
               flag("_SLAB_TRACE") | flag("_SLAB_CONSISTENCY_CHECKS"))

try:
    main()
except Error as e:
    sys.exit(f"sheaves-drgn.py: {e}")
except FaultError as e:
    sys.exit(f"sheaves-drgn.py: memory cannot be read{', it changes' if LIVE else ''}: {e}")
except BrokenPipeError:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
