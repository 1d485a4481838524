/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sheaves of two CPUs, their barn, and who takes sheaves away from outside
 *
 * What is modelled, of mm/slab_sheaf.c unless said otherwise:
 *
 *	alloc		sheaf_alloc(), __sheaf_alloc(), replace_empty_main()
 *	full_main	trade_empty_main(), full_main_from_barn()
 *	refill		alloc_miss(), alloc_by_refill()
 *	free		sheaf_free(), __sheaf_free(), replace_full_main()
 *	empty_main	trade_full_main(), empty_main_from_barn()
 *	free_miss	free_miss()
 *	install		install_sheaf()
 *	put		put_sheaf(), put_full_sheaf(), put_empty_sheaf()
 *	take_spare	take_any_spare()
 *	give_spare	give_spare()
 *	barn_*		the functions of the same name, mm/slab_barn.c
 *	outside		sheaves_detach_spare(), detach_here(), flush_barn(),
 *			sheaves_resize(), mm/slab_sheaf_admin.c
 *	init		sheaves_shutdown(), mm/slab_sheaf_admin.c
 *
 * There are two tasks. Each may be moved to the other CPU where it fills or installs
 * a sheaf, without the lock. Where both are on one CPU, one has been interrupted, and
 * the other is what interrupts it, in each of its steps: the lock of the sheaves of a
 * CPU is tested and set in one step (trylock.pml has what happens inside), and who
 * finds it taken goes to the slabs. Who finds it free where it could not run only adds
 * cases.
 *
 * A step is what others can see at once: what is done to a barn under its lock, with
 * the peek, which is wrong at most as the answer under the lock is a moment later or
 * earlier; what is done to the spare by xchg(); what a CPU does to its own sheaves
 * between two of these. Memory is sequentially consistent: see ../litmus for what is
 * not.
 *
 * Sheaves hold one object or two, as slow start and resizing make it. There is memory
 * for NSHEAF of them. Each task allocates and frees OPS times, what any of them has
 * allocated; with START from whatever main, spare and the barn may hold at first.
 *
 * Must hold: an object is stored only by who frees it, and comes out of a sheaf only if
 * it was in there. After the destroyer has been there each is in its slab, or with a
 * user, and no memory of sheaves is missing. None is used after it was freed.
 *
 * Run: -DNOBJ=2 -DNSHEAF=3
 * Run: -DNOBJ=3 -DNSHEAF=4 -DCAP=1 -DOPS=1 -DSTART
 * Run: -DNOBJ=3 -DNSHEAF=3 -DOPS=1 -DSTART -DRESIZE
 */

#ifndef NOBJ
#define NOBJ	3
#endif
#ifndef NSHEAF
#define NSHEAF	4
#endif
#ifndef CAP
#define CAP	2
#endif
#ifndef OPS
#define OPS	2	/* of each task */
#endif
#ifndef TAKES
#define TAKES	1	/* from outside */
#endif

#define SLAB	0	/* where an object is */
#define USER	1
#define HAND	2	/* of a context that frees it, or has just got it */
#define SHEAF	3

typedef sheaf {
	bit live;
	byte size;
	byte cap;
	byte o[CAP];
};

/* 0 is NULL, and slab_no_sheaf: its size and its capacity are 0. */
sheaf S[NSHEAF + 1];
byte place[NOBJ + 1];	/* from 1 */
bit locked[2];
byte main[2];
byte spare[2];
byte bfull, bempty;	/* max_full and max_empty are 1 */
byte capacity = CAP;
byte running;

inline push(s, ob)
{
	assert(s && S[s].live && place[ob] == HAND && S[s].size < S[s].cap);
	S[s].o[S[s].size] = ob;
	S[s].size++;
	place[ob] = SHEAF;
}

inline pop(s, ob)
{
	assert(S[s].live && S[s].size);
	S[s].size--;
	ob = S[s].o[S[s].size];
	assert(place[ob] == SHEAF);
	place[ob] = HAND;
	S[s].o[S[s].size] = 0;
}

/* Of a sheaf that nobody else knows of. */
inline flush(s)
{
	do
	:: S[s].size ->
		pop(s, tmp);
		place[tmp] = SLAB;
	:: else -> break
	od;
	tmp = 0;
}

inline free_mem(s)
{
	assert(S[s].live && !S[s].size);
	S[s].live = 0;
	S[s].cap = 0;
}

/* NULL if there is no memory. */
inline alloc_mem(s, nr)
{
	s = 1;
	do
	:: s > NSHEAF -> s = 0; break
	:: s <= NSHEAF && !S[s].live -> S[s].live = 1; S[s].cap = nr; break
	:: else -> s++
	od;
	skip
}

inline move()
{
	if
	:: cpu = 1 - cpu
	:: true
	fi
}

inline lock()
{
	if
#ifdef BUG_TRYLOCK	/* an interrupt does not look whether the sheaves are in use */
	:: atomic { _pid == 1 && locked[cpu] -> got = 0 }
#else
	:: atomic { locked[cpu] -> got = 0 }
#endif
	:: atomic { else -> locked[cpu] = 1; got = 1 }
	fi
}

inline unlock()
{
	locked[cpu] = 0;
	got = 0
}

/* One step, as is all below that is not said to be several. */
inline take_spare(s)
{
	s = spare[cpu];
	spare[cpu] = 0
}

inline give_spare(s)
{
	if
	:: s ->
		assert(S[s].live && !spare[cpu]);
		spare[cpu] = s;
		s = 0
	:: else
	fi
}

inline barn_get_full(s)
{
	s = bfull;
	bfull = 0
}

inline barn_get_empty(s)
{
	s = bempty;
	bempty = 0
}

/* @s is set to NULL if the barn took it. */
inline barn_put_empty(s)
{
	if
	:: !bempty ->
		assert(S[s].live && !S[s].size);
		bempty = s;
		s = 0
	:: else
	fi
}

inline barn_put_full(s)
{
	if
	:: !bfull ->
		assert(S[s].live && S[s].size == S[s].cap);
		bfull = s;
		s = 0
	:: else
	fi
}

/* Changes @s for a full one in @f. */
inline barn_swap_empty(s, f)
{
	barn_get_full(f);
	if
	:: f && !bempty -> bempty = s; s = 0
	:: else
	fi
}

inline barn_swap_full(f, s)
{
	s = 0;
	if
	:: bempty && !bfull ->
		s = bempty;
		bempty = 0;
		bfull = f
	:: else
	fi
}

inline free_rest(s)
{
	if
	:: s -> free_mem(s); s = 0
	:: else
	fi
}

inline retire(s)
{
	if
	:: s ->
#ifdef BUG_RESIZE_DROP	/* what is in a sheaf of the old size is not flushed */
		S[s].size = 0;
#else
		flush(s);
#endif
		free_mem(s);
		s = 0
	:: else
	fi
}

/* Get rid of a sheaf, if there is one, whatever is in it. Several steps. */
inline put(s)
{
	if
	:: s && S[s].size == S[s].cap && capacity ->
		d_step { barn_put_full(s) }
	:: else
	fi;
	if
	:: s ->
		d_step {
			flush(s);
			if
			:: S[s].cap == capacity -> barn_put_empty(s)
			:: else
			fi;
			free_rest(s)
		}
	:: else
	fi
}

/* Give a sheaf to whatever CPU this is now. Several steps. */
inline install(s)
{
	move();
	got = 0;
	if
	:: capacity -> lock()
	:: else
	fi;
	if
	:: got ->
#ifdef BUG_SPARE_READ	/* the spare is read, and then set to NULL */
		sp = spare[cpu];
		spare[cpu] = 0;
#endif
		d_step {
#ifndef BUG_SPARE_READ
			take_spare(sp);
#endif
			mn = main[cpu];
			if
			:: !mn -> mn = s
#ifdef BUG_INSTALL	/* there is a main where the task is now: it is overwritten */
			:: else -> mn = s
#else
			:: mn && !sp -> sp = mn; mn = s
			:: mn && sp && !S[sp].size -> rest = sp; sp = s
			:: mn && sp && S[sp].size &&
			   (!S[mn].size || S[mn].size == S[mn].cap) ->
				rest = mn; mn = s
			:: else -> rest = s
#endif
			fi;
			main[cpu] = mn;
			mn = 0;
			s = 0;
			give_spare(sp);
			unlock()
		};
		put(rest)
	:: else -> put(s)
	fi
}

inline choose_fill()
{
	if
	:: fill = capacity
	:: capacity > 1 -> fill = 1
	fi
}

/* Several steps. The lock is held, and there is an empty sheaf, or none. */
inline refill(s)
{
	choose_fill();
	d_step {
		take_spare(s);
		if
		:: !fill -> mn = main[cpu]; main[cpu] = 0
		:: else
		fi;
		unlock()
	};
	if
	:: !fill -> d_step { retire(s); retire(mn) }
	:: else ->
#ifdef BUG_BARN_NOLOCK	/* an empty sheaf is taken out of the barn without its lock */
		if
		:: !s -> s = bempty; bempty = 0
		:: else
		fi;
#endif
		d_step {
			if
			:: s && (S[s].cap < fill || S[s].cap > capacity) -> free_rest(s)
			:: else
			fi;
			if
			:: !s -> barn_get_empty(s)
			:: else
			fi;
			if
			:: !s -> alloc_mem(s, fill)
			:: else
			fi
		};
		if
		:: s ->
			d_step {
				tmp = 1;
				do
				:: tmp <= NOBJ && fill && S[s].size < S[s].cap ->
					if
					:: place[tmp] == SLAB ->
						place[tmp] = HAND;
						push(s, tmp);
						fill--
					:: else
					fi;
					tmp++
				:: else -> break
				od;
				tmp = 0;
				fill = 0;
				if
				:: S[s].size -> pop(s, ob)
				:: else
				fi
			};
			if
			:: S[s].size -> install(s)
			:: else -> put(s)
			fi
		:: else -> fill = 0
		fi
	fi
}

inline slab_alloc()
{
	tmp = 1;
	do
	:: tmp > NOBJ -> tmp = 0; break
	:: tmp <= NOBJ && place[tmp] == SLAB -> break
	:: else -> tmp++
	od;
	if
	:: tmp -> place[tmp] = HAND; ob = tmp; tmp = 0
	:: else
	fi
}

/* There is no spare, or an empty one, as @mn says. */
inline full_main()
{
	if
	:: mn && S[main[cpu]].cap == capacity ->
		rest = main[cpu];
		barn_swap_empty(rest, sp);
		if
		:: sp -> main[cpu] = sp
		:: else -> rest = 0
		fi
	:: else ->
		barn_get_full(sp);
		if
		:: sp && mn -> rest = main[cpu]; main[cpu] = sp
		:: sp && !mn ->
			mn = main[cpu];
			main[cpu] = sp;
			give_spare(mn)
		:: else
		fi
	fi;
	sp = 0;
	mn = 0
}

/* Several steps. */
inline alloc()
{
	lock();
	if
	:: got && S[main[cpu]].size ->
#ifdef BUG_TRYLOCK
		tmp = S[main[cpu]].size;
		d_step {
			ob = S[main[cpu]].o[tmp - 1];
			assert(place[ob] == SHEAF);
			place[ob] = HAND;
			S[main[cpu]].size = tmp - 1;
			tmp = 0;
			unlock()
		}
#else
		d_step { pop(main[cpu], ob); unlock() }
#endif
	:: got && !S[main[cpu]].size ->
		d_step {
			take_spare(sp);
			if
			:: sp && S[sp].size ->
				mn = main[cpu];
				main[cpu] = sp;
				sp = 0;
				if
				:: mn && S[mn].cap > capacity -> rest = mn; mn = 0
				:: else -> give_spare(mn)
				fi
			:: else ->
				mn = (sp != 0);
				give_spare(sp)
			fi
		};
		if
#ifdef BUG_BARN_STALE	/* what the peek has seen is taken for granted */
		:: !S[main[cpu]].size && bfull ->
			sp = bfull;
			d_step {
				bfull = 0;
				rest = main[cpu];
				main[cpu] = sp;
				sp = 0;
				mn = 0
			}
		:: !S[main[cpu]].size && !bfull -> mn = 0
#else
		:: !S[main[cpu]].size -> d_step { full_main() }
#endif
		:: else
		fi;
		if
		:: S[main[cpu]].size ->
			d_step { pop(main[cpu], ob); unlock(); free_rest(rest) }
		:: else -> refill(new)
		fi
	:: else
	fi;
	d_step {
		if
		:: !ob -> slab_alloc()
		:: else
		fi;
		if
		:: ob -> assert(place[ob] == HAND); place[ob] = USER; ob = 0
		:: else
		fi
	}
}

inline empty_main()
{
	if
	:: mn ->
		barn_swap_full(main[cpu], sp);
		if
		:: sp -> main[cpu] = sp
		:: else
		fi
	:: else ->
		barn_get_empty(sp);
		if
		:: sp ->
			mn = main[cpu];
			main[cpu] = sp;
			give_spare(mn)
		:: else
		fi
	fi;
	sp = 0;
	mn = 0
}

/* Several steps. */
inline free_miss()
{
	choose_fill();
	d_step {
		if
		:: !fill -> take_spare(sp); mn = main[cpu]; main[cpu] = 0
		:: else
		fi;
		unlock()
	};
	if
	:: !fill -> d_step { retire(sp); retire(mn) }
	:: else ->
		d_step {
			barn_get_empty(new);
			if
			:: !new -> alloc_mem(new, fill)
			:: else
			fi;
			fill = 0;
			if
			:: new -> push(new, ob); ob = 0
			:: else
			fi
		};
		if
		:: new -> install(new)
		:: else
		fi
	fi
}

/* Several steps. */
inline free()
{
	lock();
	if
	:: got && S[main[cpu]].size < S[main[cpu]].cap ->
		d_step { push(main[cpu], ob); ob = 0; unlock() }
	:: got && S[main[cpu]].size == S[main[cpu]].cap ->
		if
		:: capacity ->
			d_step {
				take_spare(sp);
				if
				:: sp && S[sp].size < S[sp].cap ->
					mn = main[cpu];
					main[cpu] = sp;
					sp = 0;
					give_spare(mn)
				:: else ->
					mn = (sp != 0);
					give_spare(sp)
				fi
			};
			if
			:: S[main[cpu]].size == S[main[cpu]].cap -> d_step { empty_main() }
			:: else
			fi
		:: else
		fi;
		if
		:: capacity && S[main[cpu]].size < S[main[cpu]].cap ->
			d_step { push(main[cpu], ob); ob = 0; unlock() }
		:: else -> free_miss()
		fi
	:: else
	fi;
	d_step {
		if
		:: ob -> assert(place[ob] == HAND); place[ob] = SLAB; ob = 0
		:: else
		fi
	}
}

#if NOBJ > 2
#define ANY_USER	(place[1] == USER || place[2] == USER || place[3] == USER)
#else
#define ANY_USER	(place[1] == USER || place[2] == USER)
#endif

/* What somebody has allocated, on any CPU. All objects are alike. */
inline choose_object()
{
	if
	:: place[1] == USER -> ob = 1
	:: place[1] != USER && place[2] == USER -> ob = 2
#if NOBJ > 2
	:: place[1] != USER && place[2] != USER -> ob = 3
#endif
	fi;
	place[ob] = HAND
}

proctype task(byte cpu)
{
	byte sp, mn, rest, new, ob, tmp, fill, ops;
	bit got;

	do
	:: ops < OPS -> ops++; alloc()
	:: atomic { ops < OPS && ANY_USER -> ops++; choose_object() }; free()
	:: break
	od;
	atomic { cpu = 0; ops = 0; running-- }
}

inline flush_and_free(s)
{
	if
	:: s -> flush(s); free_mem(s); s = 0
	:: else
	fi
}

/*
 * Takes away what it can get at: the spare of a CPU by xchg(); all of it by an interrupt,
 * which finds the lock free; and what is in the barn. Or the size of sheaves changes.
 */
proctype outside()
{
	byte a, tmp, ops;

	do
	:: atomic {
		ops < TAKES -> ops++;
		if
		:: spare[0] -> a = spare[0]; spare[0] = 0
		:: spare[1] -> a = spare[1]; spare[1] = 0
		:: !locked[0] ->
			a = spare[0];
			spare[0] = 0;
			flush_and_free(a);
			a = main[0];
			main[0] = 0
		:: bfull -> a = bfull; bfull = 0
		:: bempty -> a = bempty; bempty = 0
#ifdef RESIZE
		:: capacity = 0
		:: capacity = 1
		:: capacity = CAP
#else
		:: else
#endif
		fi;
		flush_and_free(a)
	}
	:: break
	od;
	atomic { ops = 0; running-- }
}

/* There is nothing yet, or an empty sheaf, or a full one. */
inline start_with(s)
{
	if
	:: true
	:: d_step { alloc_mem(s, CAP) }
	:: d_step {
		alloc_mem(s, CAP);
		do
		:: s && S[s].size < CAP && nr < NOBJ ->
			nr++;
			place[nr] = HAND;
			push(s, nr)
		:: else -> break
		od;
		skip
	}
	fi
}

init {
	byte cpu, a, tmp, nr;

	atomic {
#ifdef START
		start_with(main[0]);
		if
		:: main[0] -> start_with(spare[0])
		:: else
		fi;
		start_with(a);
		if
		:: a && S[a].size == CAP -> bfull = a
		:: a && S[a].size < CAP -> flush_and_free(a)
		:: else
		fi;
		a = 0;
		if
		:: true
		:: d_step { alloc_mem(bempty, CAP) }
		fi;
		if
		:: true
		:: nr < NOBJ -> nr++; place[nr] = USER
		fi;
		nr = 0;
#endif
		running = 3;
		run task(0);
		run task(1);
		run outside()
	};
	running == 0;
	/* The destroyer. */
	d_step {
		cpu = 0;
		do
		:: cpu < 2 ->
			assert(!locked[cpu]);
			a = main[cpu];
			flush_and_free(a);
			a = spare[cpu];
			flush_and_free(a);
			cpu++
		:: else -> break
		od;
		flush_and_free(bfull);
		flush_and_free(bempty);
		tmp = 1;
		do
		:: tmp <= NOBJ -> assert(place[tmp] == SLAB || place[tmp] == USER); tmp++
		:: else -> break
		od;
		tmp = 1;
		do
		:: tmp <= NSHEAF -> assert(!S[tmp].live); tmp++
		:: else -> break
		od;
		tmp = 0
	}
}
