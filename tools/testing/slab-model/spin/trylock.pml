/* SPDX-License-Identifier: GPL-2.0 */
/*
 * local_trylock() on one CPU: a task, an interrupt, and one that interrupts that
 *
 * What is modelled: __local_trylock_try() and __local_trylock_drop(),
 * include/linux/local_lock_internal.h, around the steps of sheaf_pop() and
 * sheaf_push() of sheaf_alloc() and sheaf_free(), mm/slab_sheaf.h.
 *
 * The flag is read and written in two steps, without anything atomic, as only this CPU
 * looks at it. Who interrupts runs to its end before who was interrupted goes on, which is
 * what the provided clauses say.
 *
 * Must hold: nobody is in the critical section with another, an object comes out of the
 * sheaf once, none is overwritten, and the lock is free at the end.
 *
 * Run:
 * Build: -DNOREDUCE
 */

#define CAP	3

bit acquired;
byte level;		/* who runs: 0 the task, 1 an interrupt, 2 one in that */
byte size = 2;
byte slot[CAP + 1];
byte place[4];		/* of objects 1..3: 0 slab, 1 user, 2 sheaf */
byte inside;
byte ended;

inline try_lock(ok)
{
#ifdef BUG_BLIND	/* an interrupt does not look */
	if
	:: me -> old = 0
	:: else -> old = acquired
	fi;
#else
	old = acquired;
#endif
	if
	:: old -> ok = 0
	:: else ->
#ifdef BUG_LATE		/* the lock is used before it is taken */
		ok = 1
#else
		acquired = 1;
		ok = 1
#endif
	fi;
	old = 0
}

inline enter()
{
	assert(!inside);
	inside++
}

inline drop()
{
	inside--;
#ifdef BUG_KEEP		/* who was interrupted finds the lock taken for ever */
	if
	:: me
	:: else -> acquired = 0
	fi
#else
	acquired = 0
#endif
}

inline op()
{
	if
	:: try_lock(ok);
		if
		:: ok ->
			enter();
			n = size;
			if
			:: n ->
				ob = slot[n - 1];
				size = n - 1;
				assert(place[ob] == 2);
				place[ob] = 1
			:: else
			fi;
			drop()
		:: else
		fi
	:: atomic { place[3] == 1 -> place[3] = 3 };
		try_lock(ok);
		if
		:: ok ->
			enter();
			n = size;
			if
			:: n < CAP ->
				slot[n] = 3;
				place[3] = 2;
				size = n + 1
			:: else -> place[3] = 0
			fi;
			drop()
		:: else -> place[3] = 0	/* the slab tier */
		fi
	fi;
	n = 0; ob = 0; ok = 0
}

proctype task() provided (level <= _pid - 1)
{
	byte me = 0, n, ob, old;
	bit ok;

	op();
	op();
	op();
	ended++
}

/* Comes at any time, or never. */
proctype irq(byte me) provided (level <= _pid - 1)
{
	byte n, ob, old, was;
	bit ok;

	if
	:: atomic { was = level; level = me };
		op();
		op();
		level = was
	:: true
	fi;
	ended++
}

init {
	byte i;

	atomic {
		slot[0] = 1;
		slot[1] = 2;
		place[1] = 2;
		place[2] = 2;
		place[3] = 1;
		run task();
		run irq(1);
		run irq(2)
	};
	ended == 3;
	assert(!acquired && !inside);
	d_step {
		i = 0;
		do
		:: i < size -> assert(place[slot[i]] == 2); place[slot[i]] = 0; i++
		:: else -> break
		od;
		assert(place[1] < 2 && place[2] < 2 && place[3] < 2)
	}
}
