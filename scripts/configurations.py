#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What the kernels of kernel.sh cover between them, by scripts/configs/pairs.

configurations.py pairs CONFIGS PAIRS [TREE [OBJ]]
    that each two options are seen in all ways, calculated from the fragments in CONFIGS; with
    TREE, also that its Kconfig has the rules; with OBJ, also that the kernels built there
    are what their fragments say. Fails when not.
configurations.py table CONFIGS PAIRS CASES OUTCOMES VERSION
    the document of what was tested: what there is of each kernel, of each machine of another
    architecture, and of all else, in OUTCOMES, which check-all.sh makes of the CASES. VERSION is
    that of the kernel.

What kernel.sh --fragments says, on standard input.
"""

import itertools
import os
import re
import shlex
import sys
import textwrap


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def wrong(what):
    sys.exit("error: " + what)


class Rule:
    """Where one option is on, another one is on, or off."""

    def __init__(self, words, where):
        self.has, self.other = words[0], words[2].lstrip("!")
        self.value = not words[2].startswith("!")
        self.where = where

    def __str__(self):
        return f"{self.has} {'without' if self.value else 'with'} {self.other}"

    def propagate(self, known):
        """Add to KNOWN what follows. Return whether something did, or None if it cannot be."""
        more = {}
        if known.get(self.has) is True:
            more[self.other] = self.value
        if self.other in known and known[self.other] != self.value:
            more[self.has] = False
        for name, value in more.items():
            if known.get(name, value) != value:
                return None
        new = not more.keys() <= known.keys()
        known.update(more)
        return new


class Pairs:
    """The list of what is to be covered."""

    def __init__(self, path):
        self.kernels, self.options, self.rules, self.has = [], [], [], []
        self.broken = []
        for n, line in enumerate(read(path).splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            parts = [p.strip() for p in line.split("|")]
            if words[0] == "kernels":
                self.kernels += words[1:]
            elif words[0] == "option" and len(words) == 2:
                self.options.append(words[1])
            elif words[0] == "has" and len(words) > 1:
                self.has.append(words[1:])
            elif words[0] == "rule" and len(parts) == 4 and len(words) > 3 and words[2] == "->":
                self.rules.append(Rule(words[1:4], parts[1:]))
            elif words[0] == "broken" and len(parts) == 2 and len(words) > 3 and words[2] == "->":
                self.broken.append(Rule(words[1:4], parts[1:]))
            else:
                wrong(f"{path}:{n}: what is `{line}'?")
        for rule in self.rules + self.broken:
            for name in (rule.has, rule.other):
                if name not in self.options:
                    wrong(f"{path}: a rule about {name}, which is no option")

    def possible(self, known):
        """By the rules; all that follows from KNOWN is found, as each rule is of two options."""
        known = dict(known)
        while True:
            results = [rule.propagate(known) for rule in self.rules + self.broken]
            if None in results:
                return False
            if not any(results):
                return True

    def wanted(self):
        for a, b in itertools.combinations(self.options, 2):
            for x, y in itertools.product((False, True), repeat=2):
                if self.possible({a: x, b: y}):
                    yield a, x, b, y


def symbols(text):
    """{symbol: value} of a fragment or .config, without CONFIG_."""
    return dict(re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.M))


def kernels(pairs, configs, table):
    """{kernel: {symbol: value}}, as the fragments give it."""
    fragments = {line.split()[0]: line.split()[1:] for line in table if line.strip()}
    found = {}
    for kernel in pairs.kernels:
        if kernel not in fragments:
            wrong(f"there is no kernel {kernel}")
        found[kernel] = {}
        for fragment in fragments[kernel]:
            found[kernel].update(symbols(read(os.path.join(configs, fragment + ".config"))))
    return found


def on(config, option):
    return any(config.get(name, "n") == "y" for name in option.split("|"))


def told(option, value):
    return option.replace("|", " or ") + ("" if value else " off")


def entry(text, name):
    """The lines of a Kconfig entry."""
    found = re.search(rf"^(?:menu)?config {name}$\n((?:(?!^\w).*\n?)*)", text, re.M)
    return found.group(1) if found else ""


def check_rules(pairs, tree):
    """The rules are the tree's. Return how many are not."""
    bad = 0
    for rule in pairs.rules:
        path, name, text = rule.where
        if text not in entry(read(os.path.join(tree, path)), name):
            print(f"error: {path} does not say `{text}' of {name}", file=sys.stderr)
            bad += 1
    return bad


def check_built(pairs, found, obj):
    """Kernels that are built are what is calculated with. Return how many are not."""
    bad = 0
    for kernel, config in found.items():
        path = os.path.join(obj, kernel, ".config")
        if not os.path.exists(path):
            continue
        built = symbols(read(path))
        for option in pairs.options:
            if on(built, option) != on(config, option):
                print(f"error: {kernel} is built with {told(option, on(built, option))}, its "
                      "fragments say otherwise", file=sys.stderr)
                bad += 1
    return bad


def covered(found, name, value):
    return {kernel for kernel, config in found.items() if on(config, name) == value}


def check_pairs(pairs, found):
    """Return how many ways there are, and those that no kernel has."""
    wanted = list(pairs.wanted())
    for kernel, config in found.items():
        if not pairs.possible({o: on(config, o) for o in pairs.options}):
            wrong(f"by its fragments, {kernel} is what the rules say cannot be")
    missing = [(a, x, b, y) for a, x, b, y in wanted
               if not covered(found, a, x) & covered(found, b, y)]
    for a, x, b, y in missing:
        print(f"error: no kernel has {told(a, x)} and {told(b, y)}", file=sys.stderr)
    lacking = [names for names in pairs.has
               if not set.intersection(*(covered(found, n.lstrip("!"), not n.startswith("!"))
                                         for n in names))]
    for names in lacking:
        print(f"error: no kernel has {' and '.join(names)}", file=sys.stderr)
    return len(wanted), missing + lacking


class Case:
    """One, and what it came to. What is known of another tree is not known of this one."""

    def __init__(self, line, command):
        (self.group, self.name, _, self.result, seconds, self.when, *counts) = line.split("\t")
        if self.result.endswith("before"):
            self.result = "not run"
        self.run = self.result != "not run"
        self.seconds = int(seconds or 0)
        self.counts = counts if self.run else [""] * 3
        self.kernel = command[0]
        words = shlex.split(command[1])
        given = dict(w.split("=", 1) for w in itertools.takewhile(lambda w: "=" in w, words))
        self.machine = given.get("TOPOLOGY", "4cpu")
        self.parameters = given.get("APPEND", "")
        if any(w.endswith("cross.sh") for w in words):
            self.suites = "KUnit, kselftests" if "-s" in words else "KUnit"
        else:
            self.suites = "kselftests" if any(w.endswith("selftest.sh") for w in words) else "KUnit"

    def outcome(self):
        return self.result + (", " + self.when.split()[0] if self.run else "")

    def tests(self):
        """The last cells of its row."""
        return (self.suites, *self.counts, self.outcome())

    def took(self):
        return f"{self.seconds // 3600}:{self.seconds // 60 % 60:02}" if self.run else ""


def rst_list(heads, widths, rows):
    print(".. list-table::\n   :header-rows: 1\n   :widths: " + " ".join(map(str, widths)) + "\n")
    for row in [heads] + rows:
        for n, cell in enumerate(row):
            lines = textwrap.wrap(cell, 80, break_on_hyphens=False, break_long_words=False) or [""]
            print((("   * - " if n == 0 else "     - ") + "\n       ".join(lines)).rstrip())


def all_cases(cases_file, outcomes):
    commands = {}
    for line in read(cases_file).splitlines():
        fields = line.split(None, 3)
        if len(fields) == 4 and not line.startswith("#"):
            commands[fields[1]] = fields[2:]
    for line in read(outcomes).splitlines():
        yield Case(line, commands[line.split("\t")[1]])


OUTCOME = ("Tests", "Passed", "Failed", "Skipped", "Result")


def document(pairs, found, covered_ways, ways, cases, version):
    """Print the document."""
    boots = [c for c in cases if c.group == "configs" and c.kernel in found]
    machines = [c for c in cases if c.group == "cross"]
    others = [c for c in cases if c not in boots + machines]
    rows = []
    for kernel, config in found.items():
        what = [name for option in pairs.options for name in option.split("|") if on(config, name)]
        # and what else is asked for, by name
        what += sorted({n for names in pairs.has for n in names
                        if not n.startswith("!") and on(config, n) and n not in what})
        rows.append((f"``{kernel}``", ", ".join(what)))
    title = "What slab sheaves are tested with"
    print(f".. SPDX-License-Identifier: GPL-2.0\n\n{len(title) * '='}\n{title}\n{len(title) * '='}\n")
    left_out = "; ".join(f"{rule}, where {rule.where[0]}" for rule in pairs.broken)
    if left_out:
        left_out = (" What Kconfig allows but the kernel without the series cannot, is left out: "
                    f"{left_out}.")
    print("Configurations\n==============\n")
    print(textwrap.fill(
        f"Between them, {len(found)} kernels have {len(pairs.options)} options of two values, "
        "each pair of which is on and off in all ways that Kconfig allows: "
        f"{covered_ways} of {ways}. That is calculated from their fragments, "
        "``scripts/configs`` of the series, as all on this page is made by its "
        "``make check-all``." + left_out, 80))
    print()
    rst_list(("Kernel", "What it has"), (15, 85), rows)
    print()
    run = sum(c.run for c in boots)
    print(textwrap.fill(
        f"Boots of them with {version}, {run} of {len(boots)}. A test is skipped for what the "
        "machine or the configuration lacks; a boot fails for a splat as well.", 80))
    print()
    rst_list(("Kernel", "Machine", "Parameters") + OUTCOME, (12, 10, 30, 10, 8, 8, 8, 14),
             [(f"``{c.kernel}``", c.machine, f"``{c.parameters}``" if c.parameters else "",
               *c.tests()) for c in boots])
    if machines:
        print("\nArchitectures\n=============\n")
        print(textwrap.fill(
            "Cross-built, and booted in QEMU; llsc is without atomic instructions of one step, "
            "checked with DEBUG_SLAB_SHEAVES and hardened.", 80))
        print()
        rst_list(("Machine",) + OUTCOME, (25, 20, 8, 8, 8, 14),
                 [(c.name, *c.tests()) for c in machines])
    if others:
        print("\nAll else\n========\n")
        print(textwrap.fill(
            "What each of them is, is in ``scripts/check-all.cases`` of the series. The time is "
            "hours and minutes on two cores, most often with something else beside it.", 80))
        print()
        rst_list(("Group", "Case", "Time", "Result"), (20, 40, 15, 25),
                 [(c.group, c.name, c.took(), c.outcome()) for c in others])


def main():
    if len(sys.argv) < 4 or (sys.argv[1], len(sys.argv)) not in (
            ("pairs", 4), ("pairs", 5), ("pairs", 6), ("table", 7)):
        wrong("usage: configurations.py pairs CONFIGS PAIRS [TREE [OBJ]], "
              "or table CONFIGS PAIRS CASES OUTCOMES VERSION")
    configs = sys.argv[2]
    pairs = Pairs(sys.argv[3])
    found = kernels(pairs, configs, sys.stdin)
    ways, missing = check_pairs(pairs, found)
    if sys.argv[1] == "table":
        cases = list(all_cases(*sys.argv[4:6]))
        document(pairs, found, ways - len(missing), ways, cases, sys.argv[6])
        return 0
    bad = len(missing)
    if len(sys.argv) > 4:
        bad += check_rules(pairs, sys.argv[4])
    if len(sys.argv) > 5:
        bad += check_built(pairs, found, sys.argv[5])
    print(f"{len(found)} kernels, {len(pairs.options)} options: "
          f"{ways - len(missing)} of {ways} pairs of values")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
