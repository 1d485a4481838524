#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Processes that stay while others come and go.

residents.py NUMBER DIR

So many processes have mappings, open files in DIR, sockets with a message in them, and
pipes. For each line on standard input a quarter of them, whichever, end, each of them
followed by a new one, and the others replace a third of what they have. Prints a line
when they are there, and after each turn. Ends, and they with it, when the input does.
With fixed seeds: each kernel has the same to do. Fails when a resident does.
"""

import mmap
import os
import random
import resource
import select
import signal
import socket
import sys

MAPPINGS, FILES, SOCKETS, PIPES = 100, 30, 15, 10
LEAVE = 1 / 4
REPLACED = 1 / 3
PROTECTIONS = (mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ)


class Mapping:
    """A page; two with different protection beside each other do not become one area."""
    def __init__(self, rnd, _):
        protection = rnd.choice(PROTECTIONS)
        self.map = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
                             prot=protection)
        if protection & mmap.PROT_WRITE:
            self.map[0] = 1

    def close(self):
        self.map.close()


class File:
    """A file that has gone from its directory, for every second one."""
    def __init__(self, rnd, top):
        self.path = os.path.join(top, f"{os.getpid()}.{rnd.getrandbits(48):x}")
        self.fd = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        os.write(self.fd, b"resident")
        if rnd.random() < 0.5:
            os.unlink(self.path)
            self.path = None

    def close(self):
        os.close(self.fd)
        if self.path:
            os.unlink(self.path)


class Socket:
    def __init__(self, rnd, _):
        kind = rnd.choice((socket.SOCK_STREAM, socket.SOCK_DGRAM))
        self.ends = socket.socketpair(socket.AF_UNIX, kind)
        self.ends[0].send(b"x" * rnd.choice((10, 100, 1000)))

    def close(self):
        for end in self.ends:
            end.close()


class Pipe:
    """One that somebody waits for."""
    def __init__(self, *_):
        self.ends = os.pipe()
        self.poll = select.epoll()
        self.poll.register(self.ends[0], select.EPOLLIN)
        os.write(self.ends[1], b"resident")

    def close(self):
        self.poll.close()
        for fd in self.ends:
            os.close(fd)


class Resident:
    def __init__(self, seed, top):
        self.rnd = random.Random(seed)
        self.top = top
        kinds = [Mapping] * MAPPINGS + [File] * FILES + [Socket] * SOCKETS + [Pipe] * PIPES
        self.rnd.shuffle(kinds)
        self.things = [kind(self.rnd, top) for kind in kinds]

    def turn(self):
        for i in self.rnd.sample(range(len(self.things)), int(REPLACED * len(self.things))):
            kind = type(self.things[i])
            self.things[i].close()
            self.things[i] = kind(self.rnd, self.top)

    def end(self):
        for thing in self.things:
            thing.close()


def live(seed, top, go, done):
    resident = Resident(seed, top)
    os.write(done, b".")
    while os.read(go, 1):
        resident.turn()
        os.write(done, b".")
    resident.end()


class Process:
    def __init__(self, seed, top, others):
        go, self.go = os.pipe()
        self.done, done = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.child(seed, top, go, done, others)
        os.close(go)
        os.close(done)
        self.wait()

    def child(self, seed, top, go, done, others):
        status = 1
        try:
            # Or an other one would not see that it is to end.
            for other in others:
                os.close(other.go)
                os.close(other.done)
            os.close(self.go)
            os.close(self.done)
            live(seed, top, go, done)
            status = 0
        except Exception as error:  # pylint: disable=broad-except
            sys.stderr.write(f"residents.py: {error!r}\n")
        finally:
            os._exit(status)

    def wait(self):
        if not os.read(self.done, 1):
            sys.exit("residents.py: a resident has failed")

    def turn(self):
        os.write(self.go, b".")
        self.wait()

    def end(self):
        os.close(self.go)
        os.close(self.done)
        if os.waitpid(self.pid, 0)[1]:
            sys.exit("residents.py: a resident has failed")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: residents.py NUMBER DIR")
    number, top = int(sys.argv[1]), sys.argv[2]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    rnd = random.Random(42)
    there = []
    for seed in range(number):
        there.append(Process(seed, top, there))
    seed = number
    print(f"{number} are there", flush=True)
    for line in sys.stdin:
        leave = set(rnd.sample(range(number), int(LEAVE * number)))
        for i in range(number):
            if i not in leave:
                there[i].turn()
                continue
            there[i].end()
            there[i] = Process(seed, top, there[:i] + there[i + 1:])
            seed += 1
        print(f"turned {line.strip()}", flush=True)
    for process in there:
        process.end()


if __name__ == "__main__":
    main()
