/* streams.h - what the order of actions (arrange.c), their streams (streams.c) and their times
 * (timeline.c) have in common; private to passes/. check_streams.c shares nothing with it. */
#ifndef MGC_PASSES_STREAMS_H
#define MGC_PASSES_STREAMS_H

#include "plan/plan.h"

/* The bytes [lo, hi) that an operand is in any iteration of the loops around it: of the arena, or
 * of its buffer while buffers have no place yet. */
typedef struct Bytes {
    int64_t lo, hi;
} Bytes;

Bytes operand_bytes(const Plan *p, const Program *g, const Operand *o, bool placed);
/* The same of the first iteration. */
Bytes operand_bytes_once(const Plan *p, const Operand *o, bool placed);
bool bytes_meet(Bytes x, Bytes y);

/* Do all streams meet at it? A stretch is what stands between two such actions. */
bool meets_all(const Action *a);

/* The resource that bounds an action; for a collective that sends nothing, memory's bandwidth. */
Resource resource_of(const Action *a);

/* Times its seconds that a collective is given when an order, or what is sent when, is chosen:
 * ranks do not come to it at once, and what leaves some room stays good when they do not. */
#define PLAN_LATE 1.5

bool needs_links(const Action *a); /* a collective among ranks */
/* Do two places move alike with the loops around? Then in each iteration they are as far from each
 * other as in the first. */
bool moves_with(const Place *x, const Place *y);
/* Do two actions of a program touch the same bytes, one of them writing? Before buffers are placed:
 * of one buffer. */
bool conflict(const Plan *p, const Program *g, const Action *a, const Action *b, bool placed);
/* Have two of a program whose buffers are placed to run in their order? There is a conflict, or
 * both are collectives of one stream: small ones, near ones, or others. once: they are of one
 * iteration of the loops around both; else of any. */
bool in_order(const Plan *p, const Program *g, size_t x, size_t y, bool once);
/* Such a conflict. */
bool conflict_once(const Plan *p, const Program *g, const Action *a, const Action *b);

/* May actions run beside others? Not on a processor without links, unless something lies on another
 * level. */
bool has_streams(const Module *m, const Device *d);

/* queue.c: where one thread computes and carries on what is sent, collectives are a queue. That is
 * so on processors, but not in pipelines, whose iterations come in another order, nor beside
 * transfers, which are none of the queue's. */
bool has_queue(const Plan *p, const Program *g);
/* Streams and waits of such a program, and its times. */
void queue_streams(const Plan *p, Program *g);
void queue_times(const Plan *p, Program *g);

/* queue_late.c: per action before the stretch that begins at `from`, outside of all loops: seconds
 * that it, a collective, is still under way then. */
double *queue_late(const Program *g, int from, Arena *tmp);

/* When the actions [from, end), none of which meets all streams, begin and end, from a time on;
 * returns when all are done. */
double timeline_stretch(const Plan *p, Program *g, int from, int end, double now);

/* Streams and waits of the actions [from, end) of a stretch, and of the one at `end`, which comes
 * after all of them; the one before `from` is a mark. */
void stretch_streams(const Plan *p, Program *g, size_t from, size_t end);

/* Makes Pipe.join, where the table has pairs and that is faster. After all else has its streams. */
void pipe_join(Plan *p);

/* fetches.c: puts those fetches of the stretch [from, end) that nothing in it reads, as they are
 * for the next iteration, where the way from another level has nothing more urgent to bring. Before
 * buffers are placed. Did anything move? */
bool place_fetches(const Plan *p, Program *g, int from, int end, Arena *tmp);

/* sink.c: before an order is made in stretches. Did anything move? */
bool sink_waits(const Plan *p, Program *g, Arena *tmp);

/* beside.c: lets collectives that a step makes once run beside the table of its pipeline, and puts
 * them at the program's begin and behind the loop. Before buffers are placed. Did anything move? */
bool pipe_beside(const Plan *p, Program *g, Arena *tmp);
/* None does, though they stay where they were put. */
void pipe_alone(const Plan *p, Program *g);

/* pipe_time.c: seconds of a message of a pipeline. */
double pipe_message(const Plan *p, const Pipe *pipe);
/* Replaces the iterations of a pipeline in a program's time by a run of its table. */
void pipe_time(Plan *p, Program *g);
/* Seconds that a step grows by if the most critical rank of a pipeline computes slower by a factor.
 */
double pipe_slowest(const Plan *p, const Program *g, double factor);

/* Puts the actions [from, end) of one stretch into the order in which they take least time in as
 * many streams as the device has, with never more than `limit` bytes of buffers alive (beside what
 * lives through them all). Before buffers are placed; their lifetimes are those of the order there
 * is; program: its number in Buffer.program, or PLACED: buffers have their places, and actions that
 * touch the same bytes keep their order. False: no order is faster, nothing is changed. */
enum { PLACED = -1 };
bool arrange_stretch(const Plan *p, Program *g, int program, int from, int end, int64_t limit,
                     Arena *tmp);

#endif
