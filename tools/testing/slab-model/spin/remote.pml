/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The remote sheaf of a CPU, on its way to the barn of another node
 *
 * What is modelled, of mm/slab_sheaf.c unless said otherwise:
 *
 *	free_remote	sheaf_free_remote()
 *	send_home	send_home(), with a sheaf of objects of one node
 *	install		install_remote()
 *	taker		sheaves_detach_all() by detach_here(), or from a CPU that is
 *			offline, mm/slab_sheaf_admin.c
 *	other		a CPU of the other node: full_main_from_barn(), and what is
 *			allocated then
 *	init		sheaves_shutdown(), mm/slab_sheaf_admin.c
 *
 * Two contexts free remote objects on the same CPU, or one on each if it has been moved:
 * where the lock is held by the other, that is what has been interrupted, and the object
 * goes to its slab. Sheaves hold two objects.
 *
 * Must hold: as in sheaves.pml.
 *
 * Run:
 */

#define NOBJ	4
#define NSHEAF	3
#define CAP	2

#define SLAB	0
#define USER	1
#define HAND	2
#define SHEAF	3

bit live[NSHEAF + 1];
byte size[NSHEAF + 1];
byte slot[NSHEAF * CAP + CAP];
byte place[NOBJ + 1];
bit locked[2];
byte remote[2];
byte bfull, bempty;	/* of the other node's barn */
byte running;

inline push(s, ob)
{
	assert(s && live[s] && size[s] < CAP && place[ob] == HAND);
	slot[s * CAP + size[s]] = ob;
	size[s]++;
	place[ob] = SHEAF;
	ob = 0
}

inline flush(s, to)
{
	assert(live[s]);
	do
	:: size[s] ->
		size[s]--;
		assert(place[slot[s * CAP + size[s]]] == SHEAF);
		place[slot[s * CAP + size[s]]] = to;
		slot[s * CAP + size[s]] = 0
	:: else -> break
	od;
	skip
}

inline flush_and_free(s)
{
	if
	:: s -> flush(s, SLAB); live[s] = 0; s = 0
	:: else
	fi
}

inline get_empty(s)
{
	if
	:: !live[1] -> s = 1; live[1] = 1
	:: live[1] && !live[2] -> s = 2; live[2] = 1
	:: live[1] && live[2] && !live[3] -> s = 3; live[3] = 1
	:: else
	fi
}

/* barn_swap_full(), or barn_put_full(), or nothing but a flush. */
inline send_home(s)
{
#ifdef BUG_HOME_TWICE	/* the barn has the sheaf, and so has the CPU */
	if
	:: !bfull -> bfull = s
	:: else -> flush(s, SLAB)
	fi
#else
	if
	:: !bfull && bempty -> bfull = s; s = bempty; bempty = 0
	:: !bfull && !bempty -> bfull = s; s = 0
	:: else -> flush(s, SLAB)
	fi
#endif
}

inline free_remote()
{
	if
	:: atomic { locked[cpu] -> got = 0 }
	:: atomic { else -> locked[cpu] = 1; got = 1 }
	fi;
	if
	:: got ->
		s = remote[cpu];
		if
		:: s && size[s] < CAP -> d_step { push(s, ob); s = 0; locked[cpu] = 0 }
		:: else ->
#ifdef BUG_STAYS	/* the sheaf stays where it is while it is used without the lock */
			locked[cpu] = 0;
#else
			d_step { remote[cpu] = 0; locked[cpu] = 0 };
#endif
			d_step {
				if
				:: s -> send_home(s)
				:: else
				fi
			};
			d_step {
				if
				:: !s -> get_empty(s)
				:: else
				fi
			};
			if
			:: s ->
				d_step { push(s, ob) };
				if
				:: cpu = 1 - cpu
				:: true
				fi;
				if
				:: atomic { locked[cpu] -> got = 0 }
				:: atomic { else -> locked[cpu] = 1; got = 1 }
				fi;
				d_step {
					if
#ifdef BUG_INSTALL	/* the remote sheaf that is there now is overwritten */
					:: got -> remote[cpu] = s; s = 0
#else
					:: got && !remote[cpu] -> remote[cpu] = s; s = 0
#endif
					:: else
					fi;
					if
					:: got -> locked[cpu] = 0
					:: else
					fi
				};
				d_step { flush_and_free(s) }
			:: else
			fi
		fi
	:: else
	fi;
	d_step {
		got = 0;
		if
		:: ob -> assert(place[ob] == HAND); place[ob] = SLAB; ob = 0
		:: else
		fi
	}
}

#define ANY_USER	(place[1] == USER || place[2] == USER || place[3] == USER || place[4] == USER)

proctype context()
{
	byte cpu, s, ob, ops;
	bit got;

	do
	:: atomic {
		ops < 2 && ANY_USER ->
		/* All objects are alike. */
		if
		:: place[1] == USER -> ob = 1
		:: place[1] != USER && place[2] == USER -> ob = 2
		:: place[1] != USER && place[2] != USER && place[3] == USER -> ob = 3
		:: else -> ob = 4
		fi;
		place[ob] = HAND;
		ops++
	};
	free_remote()
	:: break
	od;
	atomic { cpu = 0; ops = 0; running-- }
}

proctype taker()
{
	byte s, n;

	do
	:: n < 1 -> n++;
		if
		:: atomic { !locked[0] -> s = remote[0]; remote[0] = 0 }
		:: atomic { !locked[1] -> s = remote[1]; remote[1] = 0 }
		fi;
		d_step { flush_and_free(s) }
	:: break
	od;
	atomic { n = 0; running-- }
}

/* Takes what has come home, allocates all of it, and has an empty sheaf left. */
proctype other()
{
	byte s, n;

	do
	:: n < 1 -> n++;
		d_step { s = bfull; bfull = 0 };
		if
		:: s ->
			d_step { assert(size[s] == CAP); flush(s, USER) };
			d_step {
				if
				:: !bempty -> bempty = s; s = 0
				:: else
				fi;
				flush_and_free(s)
			}
		:: else
		fi
	:: break
	od;
	atomic { n = 0; running-- }
}

init {
	byte i;

	atomic {
		running = 4;
		i = 1;
		do
		:: i <= NOBJ -> place[i] = USER; i++
		:: else -> break
		od;
		i = 0;
		run context();
		run context();
		run taker();
		run other()
	};
	running == 0;
	d_step {
		assert(!locked[0] && !locked[1]);
		flush_and_free(remote[0]);
		flush_and_free(remote[1]);
		flush_and_free(bfull);
		flush_and_free(bempty);
		assert(!live[1] && !live[2] && !live[3]);
		assert(place[1] < HAND && place[2] < HAND && place[3] < HAND && place[4] < HAND)
	}
}
