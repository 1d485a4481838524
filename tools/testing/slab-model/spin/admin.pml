/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who takes sheaves from CPUs and barns, while others do, and while the cache is destroyed
 *
 * What is modelled:
 *
 *	flush		sheaves_flush(), as by the file "shrink" of a cache: with
 *			visit_mutex, and with cpus_read_lock(), but without slab_mutex;
 *			mm/slab_sheaf_admin.c
 *	trim		trim_caches(), mm/slab_sheaf_trim.c, and squeeze(),
 *			mm/slab_sheaf_shrinker.c: with slab_mutex
 *	cpu_dead	sheaves_cpu_dead(), by slub_cpu_dead(), mm/slub.c: CPU 1 goes
 *			offline, with the lock for CPU hotplug and slab_mutex
 *	destroyer	kmem_cache_destroy(), mm/slab_common.c, with
 *			sheaves_shutdown() and sheaves_destroy()
 *
 * The CPUs use the cache no more; what they have is one sheaf in main of each, one in
 * spare of each, and one in the barn, with an object each. Only what is taken away is in
 * more than one step: there are the moments when objects are in somebody's hands.
 *
 * Must hold: when the destroyer looks whether all objects are in their slabs, they are;
 * and nobody has anything of the cache in his hands when it is gone. Nobody waits for ever.
 *
 * Run:
 */

#define NOBJ	5

byte place[NOBJ + 1];	/* 2: in a sheaf, 0: in its slab */
byte main[2], spare[2], barn;
bit offline;
bit cpus_write;		/* the lock for CPU hotplug */
byte cpus_read;
bit slab_mutex, visit_mutex;
bit listed = 1;		/* the cache is on slab_caches */
bit file = 1;		/* the files of the cache are there */
byte in_file;
bit gone;

inline lock(m)
{
	atomic { !m -> m = 1 }
}

inline lock_cpus()
{
	atomic { !cpus_write -> cpus_read++ }
}

#ifdef BUG_NOT_XCHG	/* a sheaf is read, and then set to NULL */
#define take(from)	s = from; from = 0
#else
#define take(from)	d_step { s = from; from = 0 }
#endif

inline give_to_slab()
{
	if
	:: s ->
		assert(!gone && place[s] == 2);
		d_step { place[s] = 0; s = 0 }
	:: else
	fi
}

proctype flush()
{
	byte s;

	if
	:: atomic { file -> in_file++ };
		lock_cpus();
#ifndef BUG_NO_VISIT	/* nobody sees what is in the hands of who flushes */
		lock(visit_mutex);
#endif
		/* CPU 0 by interrupt, CPU 1 as well, unless it is offline: no difference. */
		take(main[0]);
		give_to_slab();
		take(spare[0]);
		give_to_slab();
		take(main[1]);
		give_to_slab();
		take(spare[1]);
		give_to_slab();
		take(barn);
		give_to_slab();
#ifndef BUG_NO_VISIT
		visit_mutex = 0;
#endif
		cpus_read--;
		in_file--
	:: atomic { !file -> skip }
	fi
}

proctype trim()
{
	byte s, n;

	do
	:: n < 2 -> n++;
#ifndef BUG_NO_SLAB_MUTEX
		lock(slab_mutex);
#endif
		if
		:: listed ->
			if
			:: take(spare[0])
			:: take(spare[1])
			:: take(barn)
			:: !offline -> take(main[1])
			:: take(main[0])
			fi;
			give_to_slab()
		:: else
		fi
#ifndef BUG_NO_SLAB_MUTEX
		;
		slab_mutex = 0
#endif
	:: break
	od;
	n = 0
}

proctype cpu_dead()
{
	byte s;

	atomic { !cpus_write && !cpus_read -> cpus_write = 1 };
	offline = 1;
#ifdef BUG_ORDER	/* slab_mutex outside of the lock for hotplug, elsewhere */
	skip;
#endif
	lock(slab_mutex);
	if
	:: listed ->
		take(main[1]);
		give_to_slab();
		take(spare[1]);
		give_to_slab()
	:: else
	fi;
	slab_mutex = 0;
	cpus_write = 0
}

proctype destroyer()
{
	byte s;

#ifdef BUG_ORDER
	lock(slab_mutex);
	lock_cpus();
#else
	lock_cpus();
	lock(slab_mutex);
#endif
#ifndef BUG_NO_VISIT
	lock(visit_mutex);
#endif
	take(main[0]);
	give_to_slab();
	take(spare[0]);
	give_to_slab();
	take(main[1]);
	give_to_slab();
	take(spare[1]);
	give_to_slab();
	take(barn);
	give_to_slab();
#ifndef BUG_NO_VISIT
	visit_mutex = 0;
#endif
	/* __kmem_cache_shutdown() */
	assert(!place[1] && !place[2] && !place[3] && !place[4] && !place[5]);
	listed = 0;
	slab_mutex = 0;
	cpus_read--;
	/* sysfs_slab_unlink() waits for who is in a file. */
	file = 0;
#ifndef BUG_NO_DRAIN
	in_file == 0;
#endif
	gone = 1;
	assert(!in_file)
}

init {
	atomic {
		main[0] = 1;
		spare[0] = 2;
		main[1] = 3;
		spare[1] = 4;
		barn = 5;
		place[1] = 2;
		place[2] = 2;
		place[3] = 2;
		place[4] = 2;
		place[5] = 2;
		run flush();
		run trim();
		run cpu_dead();
		run destroyer()
	}
}
