# SPDX-License-Identifier: GPL-2.0
#
# gdb helper commands and functions for Linux kernel debugging
#
#  The sheaves and barns of slab caches, as tools/mm/sheaves-drgn.py has them
#

import gdb
import itertools

from linux import constants, cpus, lists, mm, utils

cache_type = utils.CachedType("struct kmem_cache")
sheaf_type = utils.CachedType("struct slab_sheaf")
slab_type = utils.CachedType("struct slab")
page_type = utils.CachedType("struct page")

CPU_SHEAVES = ("main", "spare", "remote", "rcu_free")
# What a CPU has of all caches, in that order: mm/slab_rcu.c
RCU_SHEAVES = (("filling", "collects for kfree_rcu()"),
               ("taken", "taken to wait for RCU"),
               ("full", "waits for RCU"))

# A list that is broken may have no end.
MOST_SHEAVES = 100000
MOST_CAPACITY = 1 << 20
MOST_CACHES = 10000


def address_of(value):
    """Of gdb's negative ones, too."""
    return int(value) & (1 << 8 * word_size()) - 1


def word_size():
    return utils.get_ulong_type().sizeof


def words(address, number):
    """So many unsigned longs from memory, in one piece."""
    size = word_size()
    data = bytes(gdb.selected_inferior().read_memory(address, number * size))
    order = "little" if utils.get_target_endianness() == utils.LITTLE_ENDIAN else "big"
    return [int.from_bytes(data[i:i + size], order) for i in range(0, len(data), size)]


def swab(word):
    return int.from_bytes(word.to_bytes(word_size(), "little"), "big")


def variable(name):
    """NULL where the kernel has none."""
    try:
        return gdb.parse_and_eval(name)
    except gdb.error:
        return None


class Cache:
    def __init__(self, pointer):
        self.s = pointer.dereference()
        self.address = address_of(pointer)
        self.name = self.s["name"].string()
        self.size = int(self.s["size"])
        self.secret = 0
        if constants.LX_CONFIG_SLAB_FREELIST_HARDENED:
            self.secret = address_of(self.s["random"])

    def decode(self, slot, value):
        """What is in a slot: with SLAB_SHEAF_HARDENED it is encoded."""
        if constants.LX_CONFIG_SLAB_SHEAF_HARDENED:
            return value ^ self.secret ^ swab(slot)
        return value

    def free_pointer(self, obj):
        where = obj + int(self.s["offset"])
        value = words(where, 1)[0]
        return value ^ self.secret ^ swab(where) if self.secret else value

    def is_marked(self, obj):
        """As all objects in sheaves are, with SLAB_SHEAF_MARKS."""
        secret = variable("slab_sheaf_secret")
        where = obj + int(self.s["offset"])
        return secret is not None and words(where, 1)[0] == address_of(secret) ^ where

    def cpu_sheaves(self, cpu):
        return cpus.per_cpu(self.s["cpu_sheaves"], cpu)

    def barns(self):
        if not self.s["barns"]:
            return
        for node in range(int(variable("nr_node_ids") or 1)):
            barn = self.s["barns"][node]
            if barn:
                yield node, barn.dereference()


def caches():
    pointers = lists.list_for_each_entry(gdb.parse_and_eval("slab_caches"),
                                         cache_type.get_type().pointer(), "list")
    return map(Cache, itertools.islice(pointers, MOST_CACHES))


def node_of(cpu):
    where = variable("&numa_node")
    return int(cpus.per_cpu(where, cpu)) if where is not None else 0


class Sheaf:
    def __init__(self, pointer):
        head = pointer.dereference()
        self.address = address_of(pointer)
        self.cache = address_of(head["cache"])
        self.size, self.capacity = int(head["size"]), int(head["capacity"])

    def __str__(self):
        return "{}/{}{}".format(self.size, self.capacity, "" if self.sound() else "?")

    def sound(self):
        return self.size <= self.capacity <= MOST_CAPACITY

    def count(self):
        """As the kernel counts: a size that cannot be is none."""
        return self.size if self.sound() else 0

    def objects(self, cache):
        """Those in the slots, in their order."""
        first = self.address + utils.offset_of(sheaf_type.get_type().pointer(), "objects")
        size = word_size()
        if not self.count():
            return []
        return [cache.decode(first + i * size, value)
                for i, value in enumerate(words(first, self.count()))]


def linked(head):
    """The sheaves on a list of them."""
    pointer = sheaf_type.get_type().pointer()
    for entry in itertools.islice(lists.list_for_each(head), MOST_SHEAVES):
        yield Sheaf(utils.container_of(entry, pointer, "barn_list"))


def queued(sheaf):
    """The sheaves of a queue for RCU."""
    for _ in range(MOST_SHEAVES):
        if not sheaf:
            return
        yield Sheaf(sheaf)
        sheaf = sheaf["next"]


def waiting(cpu):
    """Sheaves of kfree_rcu(), of all caches: where, and the sheaf."""
    where = variable("&rcu_sheaves")
    if where is None:
        return
    queues = cpus.per_cpu(where, cpu)
    for name, _ in RCU_SHEAVES:
        found = linked(queues[name]) if name == "filling" else queued(queues[name]["first"])
        for sheaf in found:
            yield name, sheaf


def runs(sheaves):
    """3/28 3/28 is 2 x 3/28."""
    text = []
    for what, group in itertools.groupby(map(str, sheaves)):
        n = len(list(group))
        text.append("{} x {}".format(n, what) if n > 1 else what)
    return ", ".join(text)


class View:
    """Of a cache: what it has, and the sums as in sheaf_objects."""

    def __init__(self, cache):
        self.cache = cache
        self.cpus = self.barns = self.rcu = 0
        self.by_node = {}

    def write(self, text):
        gdb.write(text + "\n")

    def add(self, node, n):
        self.by_node[node] = self.by_node.get(node, 0) + n

    def show_cpu(self, cpu):
        pcs = self.cache.cpu_sheaves(cpu)
        text = "CPU {}  node {}".format(cpu, node_of(cpu))
        for which in CPU_SHEAVES:
            sheaf = Sheaf(pcs[which]) if pcs[which] else None
            text += "  {} {}".format(which, sheaf or "-")
            if sheaf and which != "rcu_free":
                self.cpus += sheaf.count()
                self.add(node_of(cpu), sheaf.count())
        self.write(text)
        self.show_waiting(cpu)

    def show_waiting(self, cpu):
        found = {}
        for which, sheaf in waiting(cpu):
            if sheaf.cache == self.cache.address:
                found.setdefault(which, []).append(sheaf)
                self.rcu += sheaf.count()
        for which, what in RCU_SHEAVES:
            if which != "filling" and which in found:
                self.write("CPU {}  {}: {}".format(cpu, what, runs(found[which])))

    def show_barn(self, node, barn):
        for what in ("full", "empty"):
            sheaves = list(linked(barn["sheaves_" + what]))
            text = "node {}  barn  {} {} of {}".format(node, len(sheaves), what,
                                                       int(barn["max_" + what]))
            if sheaves:
                text += ": " + runs(sheaves)
            number = int(barn["nr_" + what])
            if number != len(sheaves):
                text += "  (counted as {})".format(number)
            self.write(text)
        self.barns += int(barn["nr_objects"])
        self.add(node, int(barn["nr_objects"]))

    def show(self):
        cache = self.cache
        encoded = ""
        if constants.LX_CONFIG_SLAB_SHEAF_HARDENED and cache.s["barns"]:
            encoded = ", slots are encoded"
        self.write("{}: {} bytes an object, {} objects a sheaf{}".format(
            cache.name, cache.size, int(cache.s["sheaf_capacity"]), encoded))
        if not cache.s["barns"]:
            self.write("no sheaves: the cache is debugged (slab_debug), was made before there "
                       "were any, or the capacity is 0")
            return
        for cpu in cpus.each_possible_cpu():
            self.show_cpu(cpu)
        for node, barn in cache.barns():
            self.show_barn(node, barn)
        self.write("objects in sheaves of CPUs {}, in barns {}, that wait for RCU {}".format(
            self.cpus, self.barns, self.rcu))
        nodes = ""
        if variable("&numa_node") is not None:
            nodes = "".join(" N{}={}".format(*item) for item in sorted(self.by_node.items())
                            if item[1])
        self.write("sheaf_objects {}{}".format(self.cpus + self.barns, nodes))


class X86Pages:
    """What mm.py has not as yet: the direct map of x86-64."""

    PAGE_SIZE = 4096

    def __init__(self):
        self.direct = address_of(variable("page_offset_base") or 0xffff888000000000)
        pages = address_of(variable("vmemmap_base") or 0xffffea0000000000)
        self.pages = gdb.Value(pages).cast(page_type.get_type().pointer())

    def virt_to_page(self, address):
        return self.pages + (address - self.direct) // self.PAGE_SIZE

    def page_to_virt(self, page):
        return self.direct + int(page - self.pages) * self.PAGE_SIZE


def page_ops():
    """NULL if nobody knows for this architecture."""
    if utils.is_target_arch("x86-64"):
        return X86Pages()
    try:
        return mm.page_ops().ops
    except gdb.GdbError:
        return None


class Slab:
    """That an address is in."""

    def __init__(self, ops, page, by_address):
        self.slab = page.cast(slab_type.get_type().pointer())
        self.address = address_of(page)
        self.cache = by_address[address_of(self.slab["slab_cache"])]
        self.first = address_of(ops.page_to_virt(page))
        self.guard = self.guard_of_page(ops.PAGE_SIZE)

    def guard_of_page(self, page_size):
        """What KFENCE knows of it, NULL if it is none of its pages."""
        pool = address_of(variable("__kfence_pool") or 0)
        number = (self.first - pool) // (2 * page_size) - 1
        if not pool or number < 0:
            return None
        guard = variable("kfence_metadata")[number]
        try:
            # How many there are no variable has, but each has its page.
            return guard if address_of(guard["addr"]) & -page_size == self.first else None
        except gdb.error:
            return None

    def object_at(self, address):
        """And its number."""
        index = (address - self.first) // self.cache.size
        if not 0 <= index < int(self.slab["objects"]):
            raise gdb.GdbError("{:#x} is in a slab of {}, behind its last object".format(
                address, self.cache.name))
        obj = self.first + index * self.cache.size
        if int(self.cache.s["flags"]) & int(constants.LX_SLAB_RED_ZONE):
            obj += int(self.cache.s["red_left_pad"])
        return obj, index

    def has_free(self, obj):
        """Whether its freelist has that object."""
        free = address_of(self.slab["freelist"])
        for _ in range(int(self.slab["objects"]) + 1):
            if not free or free == obj:
                break
            free = self.cache.free_pointer(free)
        return free == obj


def slab_of(address, by_address):
    """NULL if that is none. It is a slab if its cache is a cache."""
    ops = page_ops()
    if ops is None:
        return None
    try:
        page = ops.virt_to_page(address)
        head = int(page["compound_head"])
        if head & 1:
            page = gdb.Value(head - 1).cast(page_type.get_type().pointer())
        return Slab(ops, page, by_address)
    except (gdb.error, KeyError):
        return None


def sheaves_of(cache):
    """All that can be found, and how to call them."""
    if not cache.s["barns"]:
        return
    for cpu in cpus.each_possible_cpu():
        pcs = cache.cpu_sheaves(cpu)
        for which in CPU_SHEAVES:
            if which != "rcu_free" and pcs[which]:
                yield "CPU {}'s {} sheaf".format(cpu, which), Sheaf(pcs[which])
        for which, sheaf in waiting(cpu):
            if sheaf.cache == cache.address:
                name = "sheaf"
                if sheaf.address == address_of(pcs["rcu_free"]):
                    name = "rcu_free sheaf"
                yield "CPU {}'s {}, which {}".format(cpu, name, dict(RCU_SHEAVES)[which]), sheaf
    for node, barn in cache.barns():
        for i, sheaf in enumerate(linked(barn["sheaves_full"])):
            yield "full sheaf {} of the barn of node {}".format(i, node), sheaf


def find(cache, address, reach):
    """Each slot with an object that has that address in so many bytes: the object, and where."""
    for name, sheaf in sheaves_of(cache):
        for slot, obj in enumerate(sheaf.objects(cache)):
            if obj <= address < obj + reach:
                yield obj, "{}, slot {} of {}".format(name, slot, sheaf.size)


def from_object(address, obj):
    offset = address - obj
    how = "byte {} of".format(offset) if offset >= 0 else "{} bytes before".format(-offset)
    return "{:#x} is {} object {:#x}".format(address, how, obj)


def show_free(places):
    for where in places:
        gdb.write("it is free, in {}\n".format(where))
    if len(places) > 1:
        gdb.write("that is more than one place: it was freed twice\n")


def show_in_slab(slab, address):
    cache = slab.cache
    obj, index = slab.object_at(address)
    gdb.write("{}, number {} of {} in slab {:#x} of {}\n".format(
        from_object(address, obj), index, int(slab.slab["objects"]), slab.address, cache.name))
    places = [where for _, where in find(cache, obj, 1)]
    if slab.has_free(obj):
        places.append("the freelist of its slab")
    show_free(places)
    if places:
        return
    if cache.s["barns"] and cache.is_marked(obj):
        gdb.write("it is free, as it has the mark of objects in sheaves, but in no sheaf that can "
                  "be found: in one that is prefilled, or on its way\n")
    elif cache.s["barns"]:
        gdb.write("it is in use, or in a sheaf that no list has: one that is prefilled, or just "
                  "being filled or flushed\n")
    else:
        gdb.write("it is in use\n")


def show_guarded(slab, address):
    obj = address_of(slab.guard["addr"])
    gdb.write("{}, {} bytes, of {}, which KFENCE guards\n".format(
        from_object(address, obj), int(slab.guard["size"]), slab.cache.name))
    places = [where for _, where in find(slab.cache, obj, 1)]
    show_free(places)
    if not places:
        used = slab.guard["state"] == gdb.parse_and_eval("KFENCE_OBJECT_ALLOCATED")
        gdb.write("it is in use\n" if used else "it is free, in KFENCE\n")


def show_in_any_sheaf(everything, address):
    """Where there is no slab, or nobody knows which."""
    found = [(cache, obj, where) for cache in everything
             for obj, where in find(cache, address, cache.size)]
    for cache, obj, where in found:
        gdb.write("{} of {}\n".format(from_object(address, obj), cache.name))
        show_free([where])
    if not found:
        raise gdb.GdbError("{:#x} is in no sheaf{}".format(
            address, ", nor in a slab" if page_ops() else ""))


def show_place(address):
    everything = list(caches())
    slab = slab_of(address, {cache.address: cache for cache in everything})
    if slab is None:
        show_in_any_sheaf(everything, address)
    elif slab.guard is not None:
        show_guarded(slab, address)
    else:
        show_in_slab(slab, address)


def need_sheaves():
    if not constants.LX_CONFIG_SLAB_SHEAVES:
        raise gdb.GdbError("CONFIG_SLAB_SHEAVES is not enabled")


class LxSlabSheaves(gdb.Command):
    """Show the sheaves of a slab cache, of each CPU and in the barn of each node.

lx-slab-sheaves CACHE: the sums are those of /sys/kernel/slab/CACHE/sheaf_objects."""

    def __init__(self):
        super(LxSlabSheaves, self).__init__("lx-slab-sheaves", gdb.COMMAND_DATA)

    def invoke(self, arg, from_tty):
        argv = gdb.string_to_argv(arg)
        if len(argv) != 1:
            raise gdb.GdbError("usage: lx-slab-sheaves CACHE")
        need_sheaves()
        for cache in caches():
            if cache.name == argv[0]:
                View(cache).show()
                return
        raise gdb.GdbError("no cache {}; of those that are merged only the first has a name "
                           "here".format(argv[0]))


LxSlabSheaves()


class LxSlabSheafOf(gdb.Command):
    """Say in which sheaf the object of an address is.

lx-slab-sheaf-of ADDRESS: or whether it is free in its slab, or in use. ADDRESS may be any
expression. Where gdb cannot find the slab of an address, the sheaves of all caches are
searched, and no more can be said."""

    def __init__(self):
        super(LxSlabSheafOf, self).__init__("lx-slab-sheaf-of", gdb.COMMAND_DATA)

    def invoke(self, arg, from_tty):
        if not arg.strip():
            raise gdb.GdbError("usage: lx-slab-sheaf-of ADDRESS")
        need_sheaves()
        show_place(address_of(gdb.parse_and_eval(arg)))


LxSlabSheafOf()
