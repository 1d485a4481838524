/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM slab_sheaf

#if !defined(_TRACE_SLAB_SHEAF_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_SLAB_SHEAF_H

#include <linux/tracepoint.h>
#include <linux/types.h>

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
		__field(	unsigned int,	quiet	)
		__field(	unsigned int,	cpus	)
		__field(	bool,	more	)
	),

	TP_fast_assign(
		__entry->quiet = quiet;
		__entry->cpus = cpus;
		__entry->more = more;
	),

	TP_printk("quiet_rounds=%u cpus_interrupted=%u more=%d",
		__entry->quiet, __entry->cpus, __entry->more)
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
