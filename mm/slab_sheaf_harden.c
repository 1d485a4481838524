// SPDX-License-Identifier: GPL-2.0
/*
 * Sheaves of which a heap bug can make no use
 *
 * A sheaf is an array of addresses, and whoever can write to it chooses what is allocated
 * next. In SLAB_FREELIST_HARDENED nobody gets there by way of what users allocate, and a
 * sheaf that is overwritten as a whole is noticed by its head. But who has a bug that
 * writes anywhere, or a sheaf whose memory he can still get at, has the slots: against that
 * is what is done here.
 *
 * Slots are encoded as the pointers of freelists are: with a number that is drawn for each
 * cache, and with the address of the slot. So what is written there becomes an address that
 * nobody knows beforehand, mostly none at all; what is copied from another slot does, too;
 * and who reads a slot reads no address. A sheaf is encoded whenever anybody else could find
 * it. Only who has it to himself, to fill it from slabs, or to flush it, makes an array of
 * objects of it, for as long as that takes.
 *
 * An object in a sheaf has a mark where it would have its free pointer: a number that is
 * drawn at boot, and its address. Whoever frees an object that has it frees it for the second
 * time, and is stopped, whatever others have allocated and freed in between, as long as
 * nobody has allocated it again, or written to that word, nor it has gone back to its slab.
 * Objects that wait for a grace period are not marked, as their readers may still be there:
 * only if two CPUs have done with the same one at the same time that is not noticed.
 *
 * With SLAB_FREELIST_RANDOM the objects of a refill change places. The objects of a new slab
 * come in an order of its own in any case; those of a slab that was used before come as they
 * were freed, which is up to who freed them.
 *
 * The links of sheaves that wait in a barn, or are to be given back, are looked at before
 * anybody writes to where they point: sheaf_is_linked(); those of the few that collect for
 * kfree_rcu() are in any case. Those that wait for a grace period have one way only, to be
 * read; whoever comes from there must prove his cache by its secret: sheaf_has_its_cache().
 * So can a sheaf that is in use elsewhere, if somebody has made one of these lead to it.
 */

#include <linux/kernel.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/spinlock.h>
#include <kunit/visibility.h>

#include "slab_sheaf.h"

#ifdef CONFIG_SLAB_SHEAF_MARKS
/* Not that of any cache, as who reads the mark of an object that he knows has it. */
unsigned long slab_sheaf_secret __ro_after_init;
EXPORT_SYMBOL_IF_KUNIT(slab_sheaf_secret);
#endif

/* Before the first sheaf. Addresses mostly begin with ones, or with zeros; no mark does. */
void __init sheaf_harden_init(void)
{
#ifdef CONFIG_SLAB_SHEAF_MARKS
	slab_sheaf_secret = get_random_long();
	slab_sheaf_secret &= ~BIT(BITS_PER_LONG - 1);
	slab_sheaf_secret |= BIT(BITS_PER_LONG - 2);
#endif
}

/* Both ways, and nothing else. */
void __sheaf_code(struct kmem_cache *s, void **slots, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		slots[i] = sheaf_code(s, &slots[i], slots[i]);
}
EXPORT_SYMBOL_IF_KUNIT(__sheaf_code);

void __sheaf_encode(struct kmem_cache *s, void **slots, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		sheaf_mark(s, slots[i]);
	__sheaf_code(s, slots, nr);
}
EXPORT_SYMBOL_IF_KUNIT(__sheaf_encode);

/*
 * The mark does not stay behind in a slab: where an object of a new slab is allocated that
 * was never in a sheaf, it would look as if it was.
 */
void __sheaf_decode(struct kmem_cache *s, void **slots, unsigned int nr)
{
	unsigned int i;

	__sheaf_code(s, slots, nr);
	for (i = 0; i < nr; i++)
		sheaf_unmark(s, slots[i]);
}
EXPORT_SYMBOL_IF_KUNIT(__sheaf_decode);

/* Before they are encoded. One of 2^32 orders for each refill, which nobody can guess. */
void __sheaf_shuffle(void **slots, unsigned int nr)
{
	struct rnd_state state;

	if (!IS_ENABLED(CONFIG_SLAB_FREELIST_RANDOM) || nr < 2)
		return;
	prandom_seed_state(&state, get_random_u64());
	for (; nr > 1; nr--) {
		u32 other = reciprocal_scale(prandom_u32_state(&state), nr);

		swap(slots[nr - 1], slots[other]);
	}
}
