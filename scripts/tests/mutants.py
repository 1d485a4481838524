#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Mutants of the slab allocator, all in one kernel, and what the KUnit tests saw of them.

mutants.py lay LIST FROM TO          write the files of FROM with all mutants in them to TO
mutants.py files LIST                the files that mutants change
mutants.py todo LIST FROM RESULTS WHICH   which are to be run: number, topology, tests, kernel, boots, append
mutants.py record LIST FROM RESULTS N LOG     what the guest's log says of mutant N
mutants.py report LIST FROM RESULTS  the tables; fails when a mutant went unnoticed
mutants.py checker LIST LOGS RST     the table of what DEBUG_SLAB_SHEAVES said, from the logs
                                     LOGS/checker-N.log, also as RST; fails when of one it said
                                     nothing

LIST, scripts/tests/kunit.mutants, says what a mutant looks like. A mutant is a condition,
(slab_mutant == N), and slab_mutant is what the command line of the kernel says, when all
initcalls have run. Results are kept until the mutant, what it changes, or a test changes.
"""

import collections
import fnmatch
import glob
import hashlib
import json
import os
import re
import sys

HOME = "mm/slub.c"
HOST = """
/* Which mutant this is, and from the time on that all is set up: scripts/tests/mutants.sh */
int slab_mutant_early __ro_after_init;
int slab_mutant __ro_after_init;
EXPORT_SYMBOL(slab_mutant);

static int __init set_slab_mutant(char *str)
{
	return kstrtoint(str, 0, &slab_mutant_early);
}
early_param("slab_mutant", set_slab_mutant);

static int __init wake_slab_mutant(void)
{
	slab_mutant = slab_mutant_early;
	if (slab_mutant)
		pr_info("slab_mutant: %d\\n", slab_mutant);
	return 0;
}
late_initcall_sync(wake_slab_mutant);
"""
KNOWN = {"file", "in", "tests", "topology", "append", "selftests", "machine", "kernel",
         "checker", "boots"}
SELFTESTS = "tools/testing/selftests/slab"
TESTS = "lib/tests/slab_*_kunit.c"


def die(what):
    print("error: " + what, file=sys.stderr)
    sys.exit(1)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Mutant:
    def __init__(self, number, title):
        self.number, self.title = number, title
        self.head = {"topology": "4cpu", "append": "", "machine": "4cpu",
                     "kernel": "plain", "boots": "1"}
        self.hunks = []     # [file, function or None, old lines, new lines]

    def key(self, tree, selftests=False):
        """What its result depends on."""
        if selftests:
            return self.hash(tree, [os.path.join(tree, SELFTESTS, f)
                                    for f in ["functions.sh"] + self.head["selftests"].split()])
        return self.hash(tree, [f for f in sorted(glob.glob(os.path.join(tree, TESTS)))
                                if fnmatch.fnmatch(suite_of(f), self.head["tests"].split(".")[0])])

    def hash(self, tree, tests):
        head = {k: self.head[k] for k in ("topology", "append", "tests") if k in self.head}
        if self.head["kernel"] != "plain":
            head["kernel"] = self.head["kernel"]
        text = [self.title, json.dumps(head), json.dumps(self.hunks)]
        text += [read(os.path.join(tree, f)) for f in sorted({h[0] for h in self.hunks})]
        text += [read(f) for f in tests]
        return hashlib.sha256("\0".join(text).encode()).hexdigest()


def suite_of(path):
    return os.path.basename(path).removesuffix("_kunit.c")


def parse(path):
    mutants, m, where, hunk, last = {}, None, {}, None, None
    for nr, line in enumerate(read(path).split("\n"), 1):
        at = f"{path}:{nr}"
        # What is taken out after something was put in is another change.
        if hunk is not None and line[:1] in "+- " and line and (line[0] != "-" or last != "+"):
            last = line[0]
            if line[0] in "- ":
                hunk[2].append(line[1:])
            if line[0] in "+ ":
                hunk[3].append(line[1:])
            continue
        if line[:1] in "+- " and line:
            if m is None or "file" not in where:
                die(f"{at}: a change of no file")
            hunk, last = [where["file"], where.get("in"), [], []], line[0]
            m.hunks.append(hunk)
            hunk[2 if line[0] == "-" else 3].append(line[1:])
            if line[0] == " ":
                hunk[2].append(line[1:])
            continue
        hunk = None
        if not line or line.startswith("#"):
            continue
        head = re.fullmatch(r"mutant (\d+): (\S.*)", line)
        if head:
            number = int(head[1])
            if number in mutants or not number:
                die(f"{at}: there is a mutant {number} already")
            m = mutants[number] = Mutant(number, head[2])
            where = {}
            continue
        word = re.fullmatch(r"(\w+): (\S.*)", line)
        if not word or word[1] not in KNOWN or m is None:
            die(f"{at}: what is `{line}'?")
        if word[1] in ("file", "in"):
            if word[1] == "file":
                where.pop("in", None)
            where[word[1]] = word[2]
        else:
            m.head[word[1]] = word[2]
    for m in mutants.values():
        new = "\n".join(line for h in m.hunks for line in h[3])
        if not re.search(r"\bMUTANT(_EARLY)?\b", new):
            die(f"{path}: mutant {m.number} has no MUTANT in it")
        if "tests" not in m.head and "selftests" not in m.head:
            die(f"{path}: mutant {m.number} does not say which tests should see it")
    return mutants


def body(text, function):
    """Where the definition of a function is."""
    for found in re.finditer(rf"^[A-Za-z_][^\n;]*\b{function}\(", text, re.M):
        rest = re.match(r"[^;{]*\n\{", text[found.end():])
        if rest:
            return found.start(), text.index("\n}", found.end()) + 2
    return None


def find(text, function, old):
    """Where the lines are: a list of places."""
    start, end = 0, len(text)
    if function:
        span = body(text, function)
        if not span:
            return []
        start, end = span
    places, at = [], text.find(old, start, end)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            places.append(at)
        at = text.find(old, at + 1, end)
    return places


def mutated(mutants, tree):
    """{file: text with all mutants}"""
    texts, originals = {}, {}
    for m in mutants.values():
        for file, function, old, new in m.hunks:
            if file not in texts:
                if not os.path.exists(os.path.join(tree, file)):
                    die(f"mutant {m.number}: there is no {file}")
                texts[file] = originals[file] = read(os.path.join(tree, file))
            before = "\n".join(old) + "\n"
            where = file + (f", {function}()" if function else "")
            places = len(find(originals[file], function, before))
            if places != 1:
                die(f"mutant {m.number}: its text is found {places} times in {where}")
            places = find(texts[file], function, before)
            if len(places) != 1:
                die(f"mutant {m.number}: its text in {where} is another mutant's, too")
            after = "\n".join(new) + "\n" if new else ""
            after = re.sub(r"\bMUTANT\b", f"(unlikely(slab_mutant == {m.number}))", after)
            after = re.sub(r"\bMUTANT_EARLY\b", f"(unlikely(slab_mutant_early == {m.number}))",
                           after)
            at = places[0]
            texts[file] = texts[file][:at] + after + texts[file][at + len(before):]
    if HOME not in texts:
        texts[HOME] = read(os.path.join(tree, HOME))
    for file, text in texts.items():
        first, rest = text.split("\n", 1)
        texts[file] = f"{first}\nextern int slab_mutant, slab_mutant_early;\n{rest}"
    texts[HOME] += HOST
    return texts


def lay(mutants, tree, to):
    for file, text in mutated(mutants, tree).items():
        path = os.path.join(to, file)
        if os.path.exists(path) and read(path) == text:
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def cases(tree):
    """{suite: its tests, in order}"""
    found = {}
    for path in sorted(glob.glob(os.path.join(tree, TESTS))):
        names = re.findall(r"^\tKUNIT_CASE\w*\((\w+)", read(path), re.M)
        if suite_of(path) != "slab_bench":
            found[suite_of(path)] = names
    return found


def asked(tree, tests):
    """What of that a filter_glob leaves."""
    suite, _, test = tests.partition(".")
    found = {s: [n for n in names if fnmatch.fnmatch(n, test or "*")]
             for s, names in cases(tree).items() if fnmatch.fnmatch(s, suite)}
    return {s: names for s, names in found.items() if names}


# As in guest.sh: plain 6.12 does that.
KNOWN_SPLAT = re.compile(r"deadline\.c:\d+ task_non_contending")
SPLAT = re.compile(r"(?:\[ )?(WARNING: .*|BUG: .*|BUG .*|Oops: .*|Kernel panic - not syncing: .*)")
STAMP = re.compile(r"^\[ *\d+\.\d+\] ?")
RESULT = re.compile(r"^( *)(not )?ok \d+ ([^#\n]*?)(?: # (SKIP)?.*)?$")


def first_splat(lines):
    """What the kernel complained of first, in a line of its log, or None."""
    for line in lines:
        splat = SPLAT.match(STAMP.sub("", line.rstrip()))
        if splat and STAMP.match(line) and not KNOWN_SPLAT.search(splat[1]):
            return splat[1].strip()[:110]
    return None


def judge(log, tree, tests):
    """What the log of a guest says: failed, passed and skipped tests, and how it ended."""
    result = {"failed": {}, "passed": [], "skipped": [], "died": None, "how": None, "splat": None}
    todo = asked(tree, tests)
    text = read(log) if os.path.exists(log) else ""
    here, params, skips, done, ended, planned = None, {}, [], [], 0, len(todo)
    for line in text.split("\n"):
        line = STAMP.sub("", line.rstrip())
        begun = re.fullmatch(r" +# Subtest: (\S+)", line)
        if begun and begun[1] in todo:
            here, params, done = begun[1], {}, []
            continue
        # Not each kernel has each suite.
        plan = re.fullmatch(r"1\.\.(\d+)", line)
        if plan:
            planned = int(plan[1])
        found = RESULT.fullmatch(line)
        if not found:
            continue
        depth, name = len(found[1]), found[3]
        if depth >= 8:
            params.setdefault("bad" if found[2] else "good", []).append(name)
            skips.append(bool(found[4]))
        elif depth >= 4 and here and name in todo[here]:
            done.append(name)
            if found[2]:
                result["failed"][f"{here}.{name}"] = params.get("bad", [])
            elif found[4] or (skips and all(skips)):
                result["skipped"].append(f"{here}.{name}")
            else:
                result["passed"].append(f"{here}.{name}")
            params, skips = {}, []
        elif not depth:
            ended += 1
            here = None
    result["splat"] = first_splat(text.split("\n"))
    if ended < planned:
        if here:
            left = [n for n in todo[here] if n not in done]
            # which of its parameters have failed by then counts as well
            result["died"] = f"{here}.{left[0]}" if left else here
        else:
            result["died"] = "no test"
        panic = re.search(r"Kernel panic - not syncing: (.*)", text)
        result["how"] = panic[1].strip() if panic else "no end within the time"
    return result


def result_of(results, number):
    path = os.path.join(results, f"{number}.json")
    return json.loads(read(path)) if os.path.exists(path) else None


def numbers(which, mutants):
    if not which:
        return list(mutants)
    found = []
    for word in which.replace(",", " ").split():
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if not span:
            die(f"MUTANTS={which}: `{word}' is neither a number nor a range")
        last = int(span[2] or span[1])
        found += [n for n in mutants if int(span[1]) <= n <= last]
    if not found:
        die(f"MUTANTS={which}: there are none of these")
    return list(dict.fromkeys(found))


def todo(mutants, tree, results, which):
    mutants = {n: m for n, m in mutants.items() if "tests" in m.head}
    for n in numbers(which, mutants):
        m, old = mutants[n], result_of(results, n)
        if not asked(tree, m.head["tests"]):
            die(f"mutant {n}: no test is called {m.head['tests']}")
        if not old or old["key"] != m.key(tree):
            print(n, m.head["topology"], m.head["tests"], m.head["kernel"], m.head["boots"],
                  m.head["append"], sep="\t")


def record(m, tree, results, log):
    store(results, str(m.number), judge(log, tree, m.head["tests"]), m.key(tree))


def store(results, name, result, key):
    result["key"] = key
    os.makedirs(results, exist_ok=True)
    path = os.path.join(results, f"{name}.json")
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    os.rename(path + ".new", path)
    print(summary(result))


def summary(result):
    said = []
    if result["failed"]:
        said.append("seen by " + ", ".join(result["failed"]))
    if result["died"]:
        said.append(f"the guest died in {result['died']}: {result['how']}")
    elif result["splat"]:
        said.append("a splat: " + result["splat"])
    return "; ".join(said) or "NOBODY NOTICED"


def noticed(result):
    return bool(result["failed"] or result["died"] or result["splat"])


COMPLAINT = re.compile(r"SLUB .*: DEBUG_SLAB_SHEAVES: (.*) \([0-9a-fx]+\)$", re.M)


def complaints(log):
    """What DEBUG_SLAB_SHEAVES has said, most often first."""
    said = collections.Counter(COMPLAINT.findall(read(log) if os.path.exists(log) else ""))
    return said.most_common()


def checked(mutants, which):
    """Those that it should see."""
    mutants = {n: m for n, m in mutants.items() if "checker" in m.head}
    return {n: mutants[n] for n in numbers(which, mutants)}


def todo_checker(mutants, which):
    for n, m in checked(mutants, which).items():
        print(n, m.head["topology"], m.head["tests"], "checked", m.head["boots"],
              m.head["append"], sep="\t")


def report_checker(mutants, logs, rst):
    """Prints Markdown, and writes the table for Documentation. Returns how many mutants it did
    not see."""
    unseen, races, rows, table = [], 0, [], []
    for n, m in checked(mutants, "").items():
        said = complaints(os.path.join(logs, f"checker-{n}.log"))
        races += m.head["checker"] == "race"
        if not said:
            unseen.append(n)
        what = "; ".join(f"{text} ({times} times)" if times > 1 else text
                         for text, times in said[:2])
        rows.append(f"| {n} | {m.title} | {m.head['checker']} | {what or '**nothing**'} |")
        table += [f"   * - {m.title}", f"     - {m.head['checker']}",
                  f"     - {said[0][0] if said else '**nothing**'}"]
    with open(rst, "w", encoding="utf-8") as f:
        print(".. list-table::\n   :header-rows: 1\n   :widths: 50 8 42\n\n"
              "   * - What is wrong\n     - Kind\n     - What it says of it, most often", file=f)
        print("\n".join(table), file=f)
    print("# What DEBUG_SLAB_SHEAVES says of bugs that are put in\n")
    print(f"{len(rows)} bugs, {races} of them races; of {len(unseen)} it said nothing.\n")
    print("| number | what is wrong | kind | what it says |\n|---|---|---|---|")
    print("\n".join(rows))
    return len(unseen)


def todo_selftests(mutants, tree, results, which):
    mutants = {n: m for n, m in mutants.items() if "selftests" in m.head}
    for n in numbers(which, mutants):
        m, old = mutants[n], result_of(results, f"selftests-{n}")
        if not old or old["key"] != m.key(tree, True):
            print(n, m.head["machine"], m.head["selftests"], sep="\t")


def judge_selftests(out, log):
    """What the KTAP of kselftests, and the console, say: as judge()."""
    result = {"failed": {}, "passed": [], "skipped": [], "died": None, "how": None, "splat": None}
    here = None
    for line in read(out).split("\n") if os.path.exists(out) else []:
        begun = re.fullmatch(r"# selftests: slab: (\S+)", line)
        ended = re.match(r"(not )?ok \d+ selftests: slab: (\S+)", line)
        found = re.match(r"# (not )?ok \d+ (.*?)( # SKIP.*)?$", line)
        if begun:
            here = begun[1]
        elif ended:
            if ended[1] and not any(t.startswith(here + ": ") for t in result["failed"]):
                result["failed"][f"{here}: all of it"] = []
            here = None
        elif found and here:
            test = f"{here}: {found[2].lstrip('- ')}"
            if found[1]:
                result["failed"][test] = []
            else:
                result["skipped" if found[3] else "passed"].append(test)
    text = read(log) if os.path.exists(log) else ""
    panic = re.search(r"Kernel panic - not syncing: (.*)", text)
    if panic or here:
        result["died"] = here or "no test"
        result["how"] = panic[1].strip() if panic else "no end within the time"
    result["splat"] = first_splat(text.split("\n"))
    return result


def record_selftests(m, tree, results, out, log):
    store(results, f"selftests-{m.number}", judge_selftests(out, log), m.key(tree, True))


def report_selftests(mutants, tree, results):
    known = {n: result_of(results, f"selftests-{n}") for n in mutants}
    known = {n: r for n, r in known.items() if r and r["key"] == mutants[n].key(tree, True)}
    unnoticed = [n for n, r in known.items() if not noticed(r)]
    seen, ran = {}, {}
    for n, r in known.items():
        for test in r["failed"]:
            seen.setdefault(test, []).append(str(n))
        if r["died"]:
            seen.setdefault(r["died"], []).append(f"{n}†")
        for test in r["passed"] + list(r["failed"]):
            ran[test] = ran.get(test, 0) + 1
    print("# kselftests, and the mutants that make them fail\n")
    print(f"{len(known)} mutants have been run, {len(unnoticed)} went unnoticed.")
    print("`†`: the guest died in that test.\n")
    print("| test | mutants |\n|---|---|")
    for test in sorted(set(seen) | set(ran)):
        print(f"| {test} | {' '.join(seen.get(test, ['**none**']))} |")
    print(f"\n## Mutants that nobody noticed: {len(unnoticed)}\n")
    for n in unnoticed:
        print(f"- {n}: {mutants[n].title} ({mutants[n].head['selftests']})")
    print("\n## Mutants\n")
    for n, r in known.items():
        print(f"- {n}: {mutants[n].title}: {summary(r)}")
    return len(unnoticed)


def report(mutants, tree, results):
    """Prints Markdown. Returns how many mutants went unnoticed."""
    mutants = {n: m for n, m in mutants.items() if "tests" in m.head}
    known = {n: result_of(results, n) for n in mutants}
    known = {n: r for n, r in known.items() if r and r["key"] == mutants[n].key(tree)}
    unnoticed = [n for n, r in known.items() if not noticed(r)]
    seen, ran, blind = {}, set(), []
    for n, r in known.items():
        for test in r["failed"]:
            seen.setdefault(test, []).append(str(n))
        if r["died"]:
            seen.setdefault(r["died"], []).append(f"{n}†")
        ran.update(r["passed"], r["failed"], [r["died"]] if r["died"] else [])
    total = sum(len(names) for names in cases(tree).values())
    print("# KUnit tests, and the mutants that make them fail\n")
    print(f"{len(known)} of {len(mutants)} mutants have been run, {len(unnoticed)} went unnoticed.")
    print("`†`: the guest died in that test.\n")
    print("| test | mutants |\n|---|---|")
    for suite, names in cases(tree).items():
        for name in names:
            test = f"{suite}.{name}"
            if test not in seen:
                blind.append((test, "passed with all mutants that it was run with"
                              if test in ran else "was not run with any mutant, or skipped"))
            print(f"| {test} | {' '.join(seen.get(test, ['**none**']))} |")
    print(f"\n## Tests that no mutant made fail: {len(blind)} of {total}\n")
    for test, why in blind:
        print(f"- {test}: {why}")
    print(f"\n## Mutants that nobody noticed: {len(unnoticed)}\n")
    for n in unnoticed:
        print(f"- {n}: {mutants[n].title} ({mutants[n].head['topology']}, "
              f"{mutants[n].head['tests']})")
    print("\n## Mutants\n")
    for n, m in mutants.items():
        print(f"- {n}: {m.title}: {summary(known[n]) if n in known else 'not run'}")
    return len(unnoticed)


def main():
    what, mutants, rest = sys.argv[1], parse(sys.argv[2]), sys.argv[3:]
    if what == "lay":
        lay(mutants, *rest)
    elif what == "files":
        print("\n".join(sorted({HOME} | {h[0] for m in mutants.values() for h in m.hunks})))
    elif what == "todo":
        todo(mutants, *rest)
    elif what == "record":
        tree, results, number, log = rest
        record(mutants[int(number)], tree, results, log)
    elif what == "todo-selftests":
        todo_selftests(mutants, *rest)
    elif what == "record-selftests":
        tree, results, number, out, log = rest
        record_selftests(mutants[int(number)], tree, results, out, log)
    elif what == "report-selftests":
        sys.exit(1 if report_selftests(mutants, *rest) else 0)
    elif what == "todo-checker":
        todo_checker(mutants, *rest)
    elif what == "checker":
        sys.exit(1 if report_checker(mutants, *rest) else 0)
    elif what == "judge":       # a guest without any mutant
        tree, tests, log = rest
        result = judge(log, tree, tests)
        print(summary(result) if noticed(result) else
              f"{len(result['passed'])} passed, {len(result['skipped'])} skipped")
        sys.exit(noticed(result))
    elif what == "report":
        sys.exit(1 if report(mutants, *rest) else 0)
    else:
        die(f"mutants.py: what is `{what}'?")


if __name__ == "__main__":
    main()
