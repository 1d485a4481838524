/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kfree_rcu() in sheaves: the CPU, who takes its sheaf away, readers, the destroyer
 *
 * What is modelled, of mm/slab_rcu.c:
 *
 *	cpu		kfree_rcu_sheaf(), kfree_rcu_slow(), install_rcu_free(),
 *			rcu_free_is_full()
 *	take_away	kfree_rcu_sheaves_give(), collect_now(), take_away()
 *	free_one	free_one(), move_taken(), free_rcu_sheaf()
 *	reader		anybody in a read-side critical section, who may have found an
 *			object before it was given to kfree_rcu()
 *	destroyer	kfree_rcu_sheaves_barrier_on_cache(), none_under_way(),
 *			free_all(), take_queues(), and then sheaves_shutdown()
 *
 * Grace periods. start_gp() remembers who reads at that time; the grace period is over
 * when none of these still does (gp_over). Everybody has at most one critical section
 * going on. The CPU is in one from where it looks at its rcu_free sheaf to where it has
 * stored there, as it has preemption disabled. A reader may only begin to look at an
 * object that was not yet given to kfree_rcu(), "published".
 *
 * A sheaf holds two objects. Of the two in the model one is given to kfree_rcu() after
 * the other. What is under rs->lock is one step. Memory is sequentially consistent.
 *
 * Must hold: no object is freed while a reader looks at it, or twice; all that
 * kfree_rcu() got is freed, and nobody uses the cache, once the destroyer goes on;
 * no sheaf is lost.
 *
 * Run:
 * Run: -DOTHERS
 */

#define NOBJ	2
#define CAP	2
#define NSHEAF	2

#define PUB	0	/* where an object is: readers find it */
#define GIVEN	1	/* removed, and in kfree_rcu() */
#define FREED	2

/* Who may be in a read-side critical section. A worker is one who calls free_one(). */
#define CPU	0
#define READER	1
#define WORKER	2
#define NREADERS 3

bit reading[NREADERS];

byte place[NOBJ + 1];
byte seen;		/* what the reader looks at */

bit live[NSHEAF + 1];
byte size[NSHEAF + 1];
byte slot[NSHEAF * CAP + CAP];

byte rcu_free;
byte taken_q, full_q;	/* one sheaf each at most, but for the second one below */
byte full_q2, taken_q2;
byte wait_for[NSHEAF + 1];	/* a bit for each critical section that a sheaf waits for */
byte nr_taken, nr_done, busy;
bit no_more;		/* nobody calls kfree_rcu() any more */
bit gone;		/* the cache is destroyed */
byte barn;		/* empty sheaves that came back */

/* A grace period for a sheaf begins: it waits for who reads now. */
inline start_gp(s)
{
	wait_for[s] = reading[CPU] + 2 * reading[READER] + 4 * reading[WORKER];
}

/* Whoever leaves a critical section is waited for no longer. */
inline end_reading(who, mask)
{
	reading[who] = 0;
	wait_for[1] = wait_for[1] & (7 - mask);
	wait_for[2] = wait_for[2] & (7 - mask);
	gp_all = gp_all & (7 - mask)
}

byte gp_all;		/* of synchronize_rcu() of the destroyer */

inline add_taken(s)
{
	if
	:: !taken_q -> taken_q = s
	:: else -> assert(!taken_q2); taken_q2 = s
	fi;
	start_gp(s)
}

inline add_full(s)
{
	if
	:: !full_q -> full_q = s
	:: else -> assert(!full_q2); full_q2 = s
	fi;
	start_gp(s)
}

inline free_sheaf(s, i)
{
	assert(live[s] && !gone);
	i = 0;
	do
	:: i < size[s] ->
		assert(place[slot[s * CAP + i]] == GIVEN && seen != slot[s * CAP + i]);
		place[slot[s * CAP + i]] = FREED;
		slot[s * CAP + i] = 0;
		i++
	:: else -> break
	od;
	size[s] = 0;
	live[s] = 0;
	i = 0
}

/* One kfree_rcu() after the other. */
proctype cpu()
{
	byte ob, s, n;

	ob = 1;
	do
	:: ob <= NOBJ ->
		/* With preemption disabled from here on. */
		atomic { reading[CPU] = 1; s = rcu_free };
		if
		:: s
		:: else ->
			/* There may be no sheaf: then it goes the old way. */
			d_step {
				if
				:: !live[1] -> s = 1
				:: live[1] && !live[2] -> s = 2
				:: else
				fi;
				if
				:: s ->
					live[s] = 1;
					rcu_free = s;
#ifndef BUG_COUNT_LATE	/* a sheaf is counted when it is full or taken away */
					nr_taken++
#else
					skip
#endif
				:: else
				fi
			}
		fi;
		if
		:: s ->
			/* The store, in two steps. */
			n = size[s];
			slot[s * CAP + n] = ob;
			/* That it was removed may become visible as late as that. */
			d_step { place[ob] = GIVEN; size[s] = n + 1 };
			if
			:: n + 1 == CAP ->
				d_step {
#ifdef BUG_FULL_BLIND	/* a full sheaf is queued though it was taken away */
					if
					:: true ->
#else
					if
					:: rcu_free == s ->
#endif
#ifdef BUG_COUNT_LATE
						nr_taken++;
#endif
						rcu_free = 0;
						add_full(s)
					:: else
					fi
				}
			:: else
			fi
		:: else ->
			/* The old way: somebody else waits for its readers. */
			d_step { seen != ob -> place[ob] = FREED }
		fi;
		d_step { end_reading(CPU, 1); s = 0; n = 0; ob++ }
	:: else -> break
	od;
	no_more = 1
}

/* Once, at any time. */
proctype taker()
{
	byte i;

	if
	:: atomic {
		rcu_free ->
#ifdef BUG_COUNT_LATE
		nr_taken++;
#endif
#ifdef BUG_FREE_NOW	/* what is taken away is freed at once */
		free_sheaf(rcu_free, i);
		barn++;
		nr_done++;
#else
#ifdef BUG_ONE_GP	/* what is taken away waits for one grace period only */
		add_full(rcu_free);
#else
		add_taken(rcu_free);
#endif
#endif
		rcu_free = 0
	}
	:: true
	fi
}

inline move_taken()
{
	do
	:: taken_q && !wait_for[taken_q] ->
		add_full(taken_q);
		taken_q = taken_q2;
		taken_q2 = 0
	:: else -> break
	od;
	skip
}

/* The work item: free_one(), as often as there is something to be freed. */
proctype worker()
{
	byte s, i;

end:	do
	:: d_step { taken_q && !wait_for[taken_q] -> move_taken() }
	:: atomic {
		full_q && !wait_for[full_q] ->
#ifndef BUG_NO_READER	/* who frees is no reader of RCU */
		reading[WORKER] = 1;
#endif
		s = full_q;
		full_q = full_q2;
		full_q2 = 0;
#ifndef BUG_NOT_BUSY	/* nobody sees that there is somebody who frees */
		busy++
#else
		skip
#endif
	};
#ifdef BUG_DONE_EARLY	/* a sheaf is counted before it is freed */
		nr_done++;
		d_step { free_sheaf(s, i); assert(!gone) };
		d_step { assert(!gone); barn++ };
#else
		d_step { free_sheaf(s, i); assert(!gone) };
		d_step { assert(!gone); barn++ };
		nr_done++;
#endif
		d_step {
			s = 0;
#ifndef BUG_NOT_BUSY
			busy--;
#endif
			end_reading(WORKER, 4)
		}
	od
}

/* A few critical sections; in each it may find an object, if that is still there. */
proctype reader()
{
	byte n;

	do
	:: n < 2 ->
		reading[READER] = 1;
		if
		:: atomic { place[1] == PUB -> seen = 1 }
		:: atomic { place[2] == PUB -> seen = 2 }
		:: true
		fi;
		d_step {
			assert(!seen || place[seen] != FREED);
			seen = 0;
			end_reading(READER, 2)
		};
		n++
	:: break
	od;
	n = 0
}

inline synchronize_rcu()
{
	d_step { gp_all = reading[CPU] + 2 * reading[READER] + 4 * reading[WORKER] };
	gp_all == 0
}

proctype destroyer()
{
	byte done, t[2], f[2], i;
	bit any;

	/* The user has made sure of that. */
	no_more;
	done = nr_done;
	if
	:: done == nr_taken
	:: else ->
#ifndef BUG_NO_BARRIER	/* nobody waits */
		d_step {
			if
			:: rcu_free ->
#ifdef BUG_COUNT_LATE
				nr_taken++;
#endif
				add_taken(rcu_free);
				rcu_free = 0
			:: else
			fi;
			any = taken_q || full_q || busy;
			t[0] = taken_q; t[1] = taken_q2; taken_q = 0; taken_q2 = 0;
			f[0] = full_q; f[1] = full_q2; full_q = 0; full_q2 = 0
		};
		if
		:: any -> synchronize_rcu()
		:: else
		fi;
		d_step {
			if
			:: f[0] -> free_sheaf(f[0], i); barn++; nr_done++
			:: else
			fi;
			if
			:: f[1] -> free_sheaf(f[1], i); barn++; nr_done++
			:: else
			fi;
			f[0] = 0; f[1] = 0
		};
#ifdef OTHERS		/* nobody says that the cache is quiet */
		if
		:: t[0] -> synchronize_rcu()
		:: else
		fi;
#endif
		d_step {
			if
			:: t[0] -> free_sheaf(t[0], i); barn++; nr_done++
			:: else
			fi;
			if
			:: t[1] -> free_sheaf(t[1], i); barn++; nr_done++
			:: else
			fi;
			t[0] = 0; t[1] = 0
		}
#else
		skip
#endif
	fi;
	d_step {
		gone = 1;
		assert(place[1] == FREED && place[2] == FREED);
		assert(!live[1] && !live[2]);
		assert(nr_done == nr_taken && barn == nr_taken)
	}
}

init {
	atomic {
		run cpu();
		run taker();
		run worker();
		run reader();
		run destroyer()
	}
}
