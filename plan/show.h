/* show.h - a plan as text. */
#ifndef MGC_PLAN_SHOW_H
#define MGC_PLAN_SHOW_H

#include "plan/plan.h"

const char *plan_owner(Owner o);           /* "activations" */
void plan_print(const Plan *p, FILE *out); /* --plan */
struct json_t *plan_json(const Plan *p);   /* of --plan=json, fields as in docs/plan.md */
void plan_print_schedule(const Plan *p, FILE *out);
void plan_print_layout(const Plan *p, FILE *out); /* what ranks send, and what each has */
/* --memory, MiniMalloc's columns: of the arena of one level. */
void plan_print_memory(const Plan *p, Level level, FILE *out);

/* show_generate.c: seconds of a program by kind of action, loops multiplied out; the memory of all
 * programs, by owner; and what the programs that generate do. */
void plan_seconds_by_kind(const Program *p, double out[ACT_count]);
void plan_print_bytes(const Plan *p, FILE *out);
/* Of a step that learns what it generates: the time of that, and the bytes of its caches. */
void plan_print_rollout(const Plan *p, FILE *out);
void plan_print_generation(const Plan *p, FILE *out);

/* show_levels.c: is a buffer of a step in the arena of a level? */
bool plan_has_buffer(const Buffer *b, Level level);
/* Seconds of a step's transfers between levels, and of those in which nothing computes. */
double plan_transfers(const Program *g, double *exposed);
/* "29.6 GiB of 119 GiB, offloaded"; NULL: nothing is there. */
const char *plan_level_text(const Plan *p, Level l);
/* "2.43 s a step, of them 1.51 s in which nothing computes"; NULL: there are none. */
const char *plan_transfers_text(const Plan *p);
/* Seconds of a step in which kernels run on the host of a GPU; as text, or NULL: none does. */
double plan_on_host(const Program *g);
const char *plan_on_host_text(const Plan *p);

/* show_pieces.c: nothing where nothing is cut; an object of what is. */
void plan_print_pieces(const Plan *p, FILE *out);
struct json_t *plan_pieces_json(const Module *m);

/* show_context.c: of rules that say whether keys go round a ring or heads are exchanged, one line;
 * added to an object, where there is any, as "context", an array. */
void plan_print_context(const Plan *p, FILE *out);
void plan_context_json(const Module *m, struct json_t *to);
/* Of rules for experts of grouped products that say, or were decided, what is moved: the same. */
void plan_print_experts(const Plan *p, FILE *out);
void plan_experts_json(const Module *m, struct json_t *to);
/* show_stages.c: of a pipeline how many layers its stages have, and what that was compared with:
 * one line; added as "stages", an object. */
void plan_print_stages(const Plan *p, FILE *out);
void plan_stages_json(const Plan *p, struct json_t *to);

/* show_tensors.c: dims of a tensor that are split on an axis, and by which rule; at most MAX_AXES,
 * how many. */
typedef struct TensorSplit {
    Name dim, axis;
    bool zigzag;
    const LayoutRule *rule;
} TensorSplit;
int tensor_splits(const Module *m, const Tensor *t, TensorSplit *out);
const char *split_rule(const Module *m, const TensorSplit *s); /* "kv_heads", "state" */
void plan_print_tensors(const Plan *p, FILE *out);             /* nothing where there is one rank */
int64_t plan_parameters(const Plan *p, bool adapter);          /* elements: all, or an adapter's */
/* An adapter: how much is trained, and what freezing the rest saves; nothing where there is none.
 */
void plan_print_adapter(const Plan *p, FILE *out);
void plan_adapter_json(const Plan *p, struct json_t *to);

#endif
