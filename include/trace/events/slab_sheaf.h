/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM slab_sheaf

#if !defined(_TRACE_SLAB_SHEAF_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_SLAB_SHEAF_H

#include <linux/tracepoint.h>
#include <linux/topology.h>
#include <linux/types.h>

struct kmem_cache;
struct node_barn;

/*
 * What moves between the tiers: sheaves between CPUs and barns, objects between sheaves and
 * slabs. All of it happens where a CPU's sheaves could not serve, and out of line. None of
 * these is told under the lock of a barn, so its counts may be those of a moment later:
 * they are read when the event is recorded, and not at all if nobody listens.
 */

/* A barn that gave, took or refused something, and what it has then. */
DECLARE_EVENT_CLASS(slab_barn,

	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),

	TP_ARGS(s, barn),

	TP_STRUCT__entry(
		__string(	name,	s->name	)
		__field(	int,	node	)
		__field(	unsigned int,	full	)
		__field(	unsigned int,	empty	)
		__field(	unsigned int,	limit	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->node = barn->node;
		__entry->full = READ_ONCE(barn->nr_full);
		__entry->empty = READ_ONCE(barn->nr_empty);
		__entry->limit = READ_ONCE(barn->max_full);
	),

	TP_printk("name=%s node=%d full=%u empty=%u limit=%u",
		__get_str(name), __entry->node, __entry->full,
		__entry->empty, __entry->limit)
);

/* A CPU got an empty sheaf, and gave none. */
DEFINE_EVENT(slab_barn, slab_barn_get_empty,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),
	TP_ARGS(s, barn)
);

/* An empty sheaf was put, and none taken. */
DEFINE_EVENT(slab_barn, slab_barn_put_empty,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),
	TP_ARGS(s, barn)
);

/* There was no full sheaf: a refill follows. */
DEFINE_EVENT(slab_barn, slab_barn_lack,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),
	TP_ARGS(s, barn)
);

/* There was no room for a full sheaf: the barn grows, or a flush follows. */
DEFINE_EVENT(slab_barn, slab_barn_refuse,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),
	TP_ARGS(s, barn)
);

/* The same where a full sheaf moved; swap, if an empty one went the other way. */
DECLARE_EVENT_CLASS(slab_barn_full,

	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn,
		 bool swap),

	TP_ARGS(s, barn, swap),

	TP_STRUCT__entry(
		__string(	name,	s->name	)
		__field(	int,	node	)
		__field(	unsigned int,	full	)
		__field(	unsigned int,	empty	)
		__field(	unsigned int,	limit	)
		__field(	bool,	swap	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->node = barn->node;
		__entry->full = READ_ONCE(barn->nr_full);
		__entry->empty = READ_ONCE(barn->nr_empty);
		__entry->limit = READ_ONCE(barn->max_full);
		__entry->swap = swap;
	),

	TP_printk("name=%s node=%d full=%u empty=%u limit=%u swap=%d",
		__get_str(name), __entry->node, __entry->full,
		__entry->empty, __entry->limit, __entry->swap)
);

/* A CPU got a full sheaf. */
DEFINE_EVENT(slab_barn_full, slab_barn_get,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn,
		 bool swap),
	TP_ARGS(s, barn, swap)
);

/* A full sheaf was put. */
DEFINE_EVENT(slab_barn_full, slab_barn_put,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn,
		 bool swap),
	TP_ARGS(s, barn, swap)
);

/* That barn was one of another node than the CPU's. A get or a put came before. */
DECLARE_EVENT_CLASS(slab_sheaf_travel,

	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),

	TP_ARGS(s, barn),

	TP_STRUCT__entry(
		__string(	name,	s->name	)
		__field(	int,	node	)
		__field(	int,	barn	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->node = numa_node_id();
		__entry->barn = barn->node;
	),

	TP_printk("name=%s node=%d barn=%d",
		__get_str(name), __entry->node, __entry->barn)
);

/* A full sheaf went to the node that its objects lie on. */
DEFINE_EVENT(slab_sheaf_travel, slab_sheaf_send,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),
	TP_ARGS(s, barn)
);

/* A CPU without memory of its own got one from where its memory comes from. */
DEFINE_EVENT(slab_sheaf_travel, slab_sheaf_fetch,
	TP_PROTO(const struct kmem_cache *s, const struct node_barn *barn),
	TP_ARGS(s, barn)
);

/* Objects came from slabs to a sheaf, or there were none to be had. */
TRACE_EVENT(slab_sheaf_refill,

	TP_PROTO(const struct kmem_cache *s, unsigned int wanted,
		 unsigned int objects),

	TP_ARGS(s, wanted, objects),

	TP_STRUCT__entry(
		__string(	name,	s->name	)
		__field(	int,	node	)
		__field(	unsigned int,	wanted	)
		__field(	unsigned int,	objects	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->node = numa_node_id();
		__entry->wanted = wanted;
		__entry->objects = objects;
	),

	TP_printk("name=%s node=%d wanted=%u objects=%u",
		__get_str(name), __entry->node, __entry->wanted,
		__entry->objects)
);

TRACE_DEFINE_ENUM(SHEAF_FLUSH_REFUSED);
TRACE_DEFINE_ENUM(SHEAF_FLUSH_PARTIAL);
TRACE_DEFINE_ENUM(SHEAF_FLUSH_MIXED);
TRACE_DEFINE_ENUM(SHEAF_FLUSH_RESERVES);
TRACE_DEFINE_ENUM(SHEAF_FLUSH_RELEASED);

/* Objects go from a sheaf to their slabs. */
TRACE_EVENT(slab_sheaf_flush,

	TP_PROTO(const struct kmem_cache *s, unsigned int objects,
		 unsigned int why),

	TP_ARGS(s, objects, why),

	TP_STRUCT__entry(
		__string(	name,	s->name	)
		__field(	int,	node	)
		__field(	unsigned int,	objects	)
		__field(	unsigned int,	why	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->node = numa_node_id();
		__entry->objects = objects;
		__entry->why = why;
	),

	TP_printk("name=%s node=%d objects=%u why=%s",
		__get_str(name), __entry->node, __entry->objects,
		__print_symbolic(__entry->why,
			{ SHEAF_FLUSH_REFUSED,	"refused" },
			{ SHEAF_FLUSH_PARTIAL,	"partial" },
			{ SHEAF_FLUSH_MIXED,	"mixed" },
			{ SHEAF_FLUSH_RESERVES,	"reserves" },
			{ SHEAF_FLUSH_RELEASED,	"released" }))
);

/* All CPUs' sheaves of a cache are taken: it is shrunk, destroyed, or to have none. */
TRACE_EVENT(slab_sheaf_drain,

	TP_PROTO(const struct kmem_cache *s, unsigned int cpus),

	TP_ARGS(s, cpus),

	TP_STRUCT__entry(
		__string(	name,	s->name	)
		__field(	unsigned int,	cpus_interrupted	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->cpus_interrupted = cpus;
	),

	TP_printk("name=%s cpus_interrupted=%u",
		__get_str(name), __entry->cpus_interrupted)
);

/*
 * What is decided about the sizes of sheaves and barns, and what comes of it. None of
 * these is on a path that finds what it looks for in a sheaf or a barn.
 */

/* A CPU needed objects, or room, from slabs: how many it gets now. */
TRACE_EVENT(slab_sheaf_fill,

	TP_PROTO(const char *name, unsigned int from, unsigned int to),

	TP_ARGS(name, from, to),

	TP_STRUCT__entry(
		__string(	name,	name	)
		__field(	unsigned int,	from	)
		__field(	unsigned int,	to	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->from = from;
		__entry->to = to;
	),

	TP_printk("name=%s objects=%u->%u",
		__get_str(name), __entry->from, __entry->to)
);

/* New sheaves of a cache have another size. */
TRACE_EVENT(slab_sheaf_capacity,

	TP_PROTO(const char *name, unsigned int from, unsigned int to,
		 unsigned int contended),

	TP_ARGS(name, from, to, contended),

	TP_STRUCT__entry(
		__string(	name,	name	)
		__field(	unsigned int,	from	)
		__field(	unsigned int,	to	)
		__field(	unsigned int,	contended	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->from = from;
		__entry->to = to;
		__entry->contended = contended;
	),

	TP_printk("name=%s objects=%u->%u contended=%u",
		__get_str(name), __entry->from, __entry->to,
		__entry->contended)
);

/* A barn accepts more full sheaves, or fewer. */
TRACE_EVENT(slab_barn_limit,

	TP_PROTO(const char *name, int node, unsigned int from,
		 unsigned int to),

	TP_ARGS(name, node, from, to),

	TP_STRUCT__entry(
		__string(	name,	name	)
		__field(	int,	node	)
		__field(	unsigned int,	from	)
		__field(	unsigned int,	to	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->node = node;
		__entry->from = from;
		__entry->to = to;
	),

	TP_printk("name=%s node=%d sheaves=%u->%u",
		__get_str(name), __entry->node, __entry->from, __entry->to)
);

/* A sheaf that was not needed, or while memory is short, is given back. */
TRACE_EVENT(slab_sheaf_trim,

	TP_PROTO(const char *name, unsigned int objects,
		 unsigned int capacity),

	TP_ARGS(name, objects, capacity),

	TP_STRUCT__entry(
		__string(	name,	name	)
		__field(	unsigned int,	objects	)
		__field(	unsigned int,	capacity	)
	),

	TP_fast_assign(
		__assign_str(name);
		__entry->objects = objects;
		__entry->capacity = capacity;
	),

	TP_printk("name=%s objects=%u capacity=%u",
		__get_str(name), __entry->objects, __entry->capacity)
);

/* Somebody has looked through all caches. */
TRACE_EVENT(slab_sheaf_round,

	TP_PROTO(unsigned int quiet, unsigned int cpus, bool more),

	TP_ARGS(quiet, cpus, more),

	TP_STRUCT__entry(
		__field(	unsigned int,	quiet_rounds	)
		__field(	unsigned int,	cpus_interrupted	)
		__field(	bool,	more	)
	),

	TP_fast_assign(
		__entry->quiet_rounds = quiet;
		__entry->cpus_interrupted = cpus;
		__entry->more = more;
	),

	TP_printk("quiet_rounds=%u cpus_interrupted=%u more=%d",
		__entry->quiet_rounds, __entry->cpus_interrupted, __entry->more)
);

/* Memory is short: how many objects were wanted, and given back. */
TRACE_EVENT(slab_sheaf_shrink,

	TP_PROTO(int node, unsigned long wanted, unsigned long freed),

	TP_ARGS(node, wanted, freed),

	TP_STRUCT__entry(
		__field(	int,	node	)
		__field(	unsigned long,	wanted	)
		__field(	unsigned long,	freed	)
	),

	TP_fast_assign(
		__entry->node = node;
		__entry->wanted = wanted;
		__entry->freed = freed;
	),

	TP_printk("node=%d wanted=%lu freed=%lu",
		__entry->node, __entry->wanted, __entry->freed)
);

#endif /* _TRACE_SLAB_SHEAF_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
