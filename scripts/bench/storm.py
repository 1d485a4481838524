#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A storm of dentries and inodes, in waves.

storm.py WORKERS WAVES FILES DIR...

Each worker, on a CPU of its own, does the same in each DIR in each wave: what the wave
before it has left is removed, and half of what was kept open then is closed. So many empty
files are made, a few of them are kept open; as many names are looked for that are not
there; half of the files are removed, whichever; and some of those left are looked for.
With fixed seeds: each kernel has the same to do.

Prints a line after each wave and waits for one on standard input before the next, and
after the last until the input ends; what is open is open until then. Does not wait if
there is no input. Fails when a worker does.
"""

import os
import random
import resource
import sys

PER_DIRECTORY = 100
KEPT_OPEN = 1 / 40
REMOVED = 1 / 2
VISITED = 1 / 4


class Worker:
    def __init__(self, number, files, directories):
        self.rnd = random.Random(number)
        self.files = files
        self.tops = [os.path.join(d, f"worker{number}") for d in directories]
        self.left = {top: [] for top in self.tops}
        self.made = {top: [] for top in self.tops}
        self.kept = []
        for top in self.tops:
            os.makedirs(top)

    def wave(self, number):
        self.rnd.shuffle(self.kept)
        for fd in self.kept[len(self.kept) // 2:]:
            os.close(fd)
        del self.kept[len(self.kept) // 2:]
        for top in self.tops:
            self.ebb(top)
            self.flow(top, os.path.join(top, str(number)))

    def ebb(self, top):
        for path in self.left[top]:
            os.unlink(path)
        for path in reversed(self.made[top]):
            os.rmdir(path)

    def flow(self, top, where):
        self.made[top] = [where]
        os.mkdir(where)
        paths = []
        for i in range(self.files):
            if i % PER_DIRECTORY == 0:
                directory = os.path.join(where, str(i))
                os.mkdir(directory)
                self.made[top].append(directory)
            path = os.path.join(directory, f"file{i}")
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            if self.rnd.random() < KEPT_OPEN:
                self.kept.append(fd)
            else:
                os.close(fd)
            paths.append(path)
            os.access(path + ".missing", os.F_OK)
        # An inode that is not written yet is not one that can be reclaimed.
        os.sync()
        self.rnd.shuffle(paths)
        removed = int(REMOVED * len(paths))
        for path in paths[:removed]:
            os.unlink(path)
        self.left[top] = paths[removed:]
        for path in self.rnd.sample(self.left[top], int(VISITED * len(self.left[top]))):
            os.stat(path)


def work(worker, waves, cpu, go, done):
    """Until nobody says go any more."""
    os.sched_setaffinity(0, {cpu})
    for number in range(waves):
        if not os.read(go, 1):
            return
        worker.wave(number)
        os.write(done, b".")
    os.read(go, 1)


def start(number, waves, files, directories):
    """The worker's pid, and the pipes to it and from it."""
    cpus = sorted(os.sched_getaffinity(0))
    go, say_go = os.pipe()
    done, say_done = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(say_go)
            work(Worker(number, files, directories), waves, cpus[number % len(cpus)], go, say_done)
            status = 0
        except Exception as error:  # pylint: disable=broad-except
            sys.stderr.write(f"storm.py: worker {number}: {error!r}\n")
        finally:
            os._exit(status)
    os.close(go)
    os.close(say_done)
    return pid, say_go, done


def main():
    if len(sys.argv) < 5:
        sys.exit("usage: storm.py WORKERS WAVES FILES DIR...")
    workers, waves, files = map(int, sys.argv[1:4])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    team = [start(n, waves, files, sys.argv[4:]) for n in range(workers)]
    for number in range(waves):
        for _, go, _ in team:
            os.write(go, b".")
        if not all(os.read(done, 1) for _, _, done in team):
            sys.exit("storm.py: a worker has failed")
        print(f"wave {number + 1}", flush=True)
        sys.stdin.readline()
    while sys.stdin.readline():
        pass
    for _, go, _ in team:
        os.close(go)
    if any([os.waitpid(pid, 0)[1] for pid, _, _ in team]):
        sys.exit("storm.py: a worker has failed")


if __name__ == "__main__":
    main()
