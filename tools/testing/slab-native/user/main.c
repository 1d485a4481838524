// SPDX-License-Identifier: GPL-2.0
/* The command line of slab-native. */

#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../abi.h"
#include "runtime.h"

static const struct native_machine machines[] = {
	{ "1cpu", 1, 1, 0x1 },
	{ "4cpu", 4, 1, 0x1 },
	{ "2node", 4, 2, 0x3 },
	{ "memoryless", 32, 8, 0x22 },
};

static const char usage[] =
"usage: slab-native bench [-m MACHINE] [-g GROUPS] [-c CASES] [-r ROUNDS] [-n OBJECTS]\n"
"       slab-native stress [-m MACHINE] [-s SEED] [-t SECONDS] [-j TASKS] [-H] [-I]\n"
"       slab-native barn [-r ROUNDS] [-n EXCHANGES]\n"
"\n"
"MACHINE is 1cpu, 4cpu, 2node or memoryless. See README.rst.\n";

static const struct native_machine *find_machine(const char *name)
{
	unsigned int i;

	for (i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		if (!strcmp(machines[i].name, name))
			return &machines[i];
	fprintf(stderr, "slab-native: no machine %s\n", name);
	exit(2);
}

/* A hypervisor may change its mind, so this is asked for each time. */
static unsigned int print_ping(void)
{
	unsigned int ping;

	runtime_pin(0);
	ping = runtime_ping();
	if (ping)
		printf("slab-native: ping %u.%u ns\n", ping / 10, ping % 10);
	return ping;
}

int main(int argc, char **argv)
{
	const struct native_machine *machine = NULL;
	struct native_stress stress = { .ms = 2000, .hotplug = 1, .irqs = 1 };
	const char *groups = "one_thread,bulk,fresh,kmalloc", *match = "";
	unsigned int rounds = 5, objects = 10000;
	int opt;

	if (argc < 2) {
		fputs(usage, stderr);
		return 2;
	}
	if (!strcmp(argv[1], "barn")) {
		rounds = 300;
		objects = 400;
	}
	stress.seed = time(NULL);
	optind = 2;
	while ((opt = getopt(argc, argv, "m:g:c:r:n:s:t:j:HI")) != -1) {
		switch (opt) {
		case 'm':
			machine = find_machine(optarg);
			break;
		case 'g':
			groups = optarg;
			break;
		case 'c':
			match = optarg;
			break;
		case 'r':
			rounds = strtoul(optarg, NULL, 0);
			break;
		case 'n':
			objects = strtoul(optarg, NULL, 0);
			break;
		case 's':
			stress.seed = strtoul(optarg, NULL, 0);
			break;
		case 't':
			stress.ms = strtod(optarg, NULL) * 1000;
			break;
		case 'j':
			stress.tasks = strtoul(optarg, NULL, 0);
			break;
		case 'H':
			stress.hotplug = 0;
			break;
		case 'I':
			stress.irqs = 0;
			break;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	runtime_init();
	if (!strcmp(argv[1], "bench")) {
		print_ping();
		native_boot(machine ? machine : &machines[0], 42);
		return native_bench(groups, match, rounds, objects);
	}
	if (!strcmp(argv[1], "barn")) {
		if (!print_ping()) {
			fputs("slab-native: two threads need two processors\n", stderr);
			return 2;
		}
		native_boot(&machines[1], 42);
		return native_barn(rounds, objects);
	}
	if (!strcmp(argv[1], "stress")) {
		machine = machine ? machine : &machines[1];
		if (!stress.tasks)
			stress.tasks = machine->nr_cpus < 6 ? machine->nr_cpus + 1 : 6;
		alarm(stress.ms / 1000 + 60);
		native_boot(machine, stress.seed);
		return native_stress(&stress);
	}
	fputs(usage, stderr);
	return 2;
}
