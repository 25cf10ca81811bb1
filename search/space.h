/* space.h - the layouts that a search chooses from: which dims may lie on which axes, and points,
 * each of which is a layout.
 *
 * The rules of a layout of the file, the template, say which dims go to which axis; where they say
 * nothing of an axis, the conventions of the shipped models do: repeats are cut into stages,
 * batches and then positions are split, experts are, and of the rest heads, ffn and vocab. Experts
 * on several machines are on an axis of machines beside their own where a point sends rows once to
 * each (`experts -> node (once), ep`). A point is a choice of numbers. Nothing here knows what is
 * legal: a layout of a point is text, which the compiler reads as any other, and may refuse. */
#ifndef MGC_SEARCH_SPACE_H
#define MGC_SEARCH_SPACE_H

#include "base/device.h"
#include "grammar/ast.h"
#include "ir/ir.h"
#include "pipeline/pipeline.h"

/* Roles of axes, in the order in which a mesh has them where the template does not say. */
typedef enum SearchRole { ROLE_pp, ROLE_dp, ROLE_ep, ROLE_cp, ROLE_tp, ROLE_count } SearchRole;

/* One axis of a rule, with its words in parentheses ("ring, zigzag"), or NULL. */
typedef struct SpaceAxis {
    SearchRole role;
    const char *words;
} SpaceAxis;

typedef struct SpaceRule {
    const char *dims; /* "kv_heads, ffn, vocab" */
    bool optional;    /* a point says whether it is there: Point.sequence */
    VEC(SpaceAxis) axes;
} SpaceRule;

typedef struct Space {
    Arena *arena;
    const char *axis[ROLE_count]; /* its name; NULL: the model has nothing for it */
    SearchRole order[ROLE_count]; /* of the mesh, the outermost first; all roles */
    VEC(SpaceRule) rules;         /* without those of classes and stages */
    const char *layers;           /* the dim of the rule that cuts stages; NULL: none */
    const char *cut; /* the dim that is cut: that one, or of the longest run of layers alike */
    const char *batch, *seq;    /* dims of the inputs; seq NULL: they have no second one */
    const char *experts;        /* NULL: none */
    const char *machines;       /* the axis that Point.once has beside that of experts */
    VEC(const char *) settings; /* lines that all points have: "pad kv_heads to 16" */
    const char *sequence;       /* the axis and dims of the optional rule, for people; NULL: none */

    /* Set by space_sizes. */
    int64_t nbatch, nseq, nlayers, nexperts; /* 0: it has none; nlayers: of `cut` */
    int64_t node;                            /* ranks of a node */

    /* Numbers that are given, and not chosen; 0: free. */
    int64_t fixed[ROLE_count], microbatch;
    const char *recompute, *offload; /* as text; NULL: auto, and `none` or `auto` */
} Space;

typedef struct Point {
    int64_t size[ROLE_count]; /* ranks along each axis; 1: it is not there */
    int64_t microbatch;
    int chunks; /* stages a rank */
    PipeSchedule schedule;
    int zero; /* ZeRO level: state, grads and params are split over the axes of data up to it */
    bool sequence; /* the optional rule is there */
    bool once;     /* a row goes once to each machine, and not to each expert */
    bool offload;  /* `offload auto`; else none */
} Point;
typedef VEC(Point) Points;

/* The space of a file. from: the layout whose rules are the template; NULL: there is none. ast's
 * other layouts are parents. NULL: the model has no inputs, so nothing is split (a model in
 * pieces that the parser took). */
Space *space_new(Arena *a, const Ast *ast, const Node *from);
/* Takes the numbers of the settings of a layout, and its other lines, as given. The setting that is
 * no number, or of an axis that the space has not; NULL: there is none. */
const Node *space_fix(Space *s, const Ast *ast, const Node *layout);
/* A layout of the file by its name; NULL: there is none. The one without a name is "default". */
const Node *space_layout(const Ast *ast, const char *name);

/* Sizes of the dims, of the program of one rank. */
void space_sizes(Space *s, const Module *m, const Device *d);

/* All points of so many ranks, in one order that nothing else changes. */
void space_points(const Space *s, int64_t ranks, bool offload, Arena *a, Points *points);
/* Ranks over which batches and positions are split, and tensors of a class with them. */
int64_t point_data(const Point *p);
/* Of the ranks of experts those on one machine; 0: all are, or machines have unlike parts of them.
 */
int64_t point_near(const Space *s, const Point *p);
int64_t point_microbatches(const Space *s, const Point *p);

/* The text of a point: `layout NAME { ... }`. device: NULL: no line of it. */
const char *point_text(const Space *s, const Point *p, const char *name, const char *device,
                       Arena *a);
/* On one line, for tables: "pp 4 x 5, dp 2, tp 8, ZeRO 1, microbatch 2". */
const char *point_label(const Space *s, const Point *p, Arena *a);

#endif
