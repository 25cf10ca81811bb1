/* emit.h - the common part of the files that write the emitted C; private to codegen/. */
#ifndef MGC_EMIT_H
#define MGC_EMIT_H

#include "plan/plan.h"

/* C identifiers. Each name from a source gets a prefix and is reduced to letters, digits and '_'.
 * So it is never a keyword, and contains no other C text. Two different things never have one
 * identifier. */
typedef struct CNames {
    Arena *a;
    Names *used;
} CNames;

CNames cnames_new(Arena *a);
/* A fresh identifier: prefix, then s made safe, then _2, _3, ... if that is taken. */
const char *cname(CNames *n, const char *prefix, const char *s);

/* A C string literal, quotes included; and text fit for the inside of a comment. */
void emit_string(FILE *out, const char *s);
void emit_comment_text(FILE *out, const char *s, size_t n);

const char *emit_dtype(DType t); /* "MG_F32" */
/* The fewest digits that read back as x. */
const char *real_text(Arena *a, double x);
const char *short_real(Arena *a, double x, int digits);

typedef struct Emitter {
    const Plan *p;
    const Module *m;
    Arena *a;
    FILE *out;
    CNames names;
    const char **buffer; /* per buffer: its macro */
    int64_t *step;       /* per buffer: bytes that the macro's index counts in; 0: it has none */
    const char **desc;   /* per action id: the constant that describes it, or NULL */
    const char **begins; /* ... where it writes what it adds to (action_begins) */
    struct {             /* the constants, without duplicates */
        const char *name, *type, *body;
    } *described;
    size_t ndescribed;
    const char *features;
    bool cuda, kernels; /* kernels: the file contains them */
} Emitter;

/* codegen/emit/emit_wrap.c: writes text, and breaks its long lines. */
enum { EMIT_WIDTH = 110 };
void emit_wrapped(FILE *out, const char *text);

/* codegen/emit/emit_formula.c: the formula of a generated kernel, as one line. `operand` and
 * `value` are its names for the operands ("p'": the new value of p, in its place) and for values of
 * the body (NULL: written where they are used). */
typedef struct KernelText {
    const char *formula, *operand[MAX_OPERANDS], **value;
} KernelText;
KernelText kernel_text(const Emitter *e, const Kernel *k);
/* Does the name of an op say what a value is ("cos"), and not only how it was made ("mul")? */
bool emit_op_tells(const char *op);

/* codegen/emit/emit_places.c: macros for the buffers, places as uses of these macros, and the
 * offset of a buffer. */
const char *emit_short_name(const Emitter *e, const char *name); /* "mlp.up" of "layers.mlp.up" */
void emit_buffers(Emitter *e);
void emit_place(const Emitter *e, const Program *p, const char *const *loop, const Place *at);
void emit_offset(const Emitter *e, size_t buffer);

/* codegen/emit/emit_entry.c: one program of mg_main, or that there is none (NULL); nodes of its
 * graph */
void emit_entry(const Emitter *e, const char *name, const Program *p, int64_t nodes);
/* The two that generate. */
void emit_generation(const Emitter *e);
/* codegen/emit/emit_tables.c */
void emit_tensors(Emitter *e);
void emit_initial(const Emitter *e); /* initial values by formula: mg_init_N of tensor N */
void emit_actions(Emitter *e);
void emit_program(Emitter *e);
void emit_deaths(Emitter *e);
/* codegen/emit/emit_alike.c; true: there are any. */
bool emit_alike(Emitter *e);
bool emit_held(Emitter *e);
/* codegen/emit/emit_gpu.c: members of mg_main for the collectives of ranks; a table of its own for
 * memory. */
void emit_groups(const Emitter *e);
void emit_outside(const Emitter *e);
/* "AT(23)", a macro of the emitted file, for lines of the model's source; lines of other files in
 * full. */
const char *emit_where(const Emitter *e, Span s);

/* codegen/emit/emit_descs.c: descriptors are declared before the functions, and defined after them.
 */
void emit_descriptor_names(Emitter *e);
void emit_descriptors(const Emitter *e);
void emit_network(const Emitter *e); /* members of mg_main */
void emit_real(const Emitter *e, double x);
void emit_sizes(const Emitter *e, const int64_t *v, int n);
/* Writes ", .name = x". Writes nothing if x is 0, because fields without a name are 0. */
void emit_num(const Emitter *e, const char *name, int64_t x);

/* codegen/emit/emit_streams.c. Points: for each action of a program, 1 + its number among the
 * actions that others wait for, or 0. Beside: for each action of a processor's program, whether an
 * async collective may run beside it, so that the action has to advance it. This is so from the
 * begin of the collective to the wait for it. */
int *stream_points(const Program *p, Arena *a);
bool *stream_beside(const Emitter *e, const Program *p);

/* codegen/emit/emit_deaths.c: the number of the action or loop that ends at an action of a program,
 * and whether a buffer dies with it. */
uint32_t death_event(const Plan *p, const Program *prog, size_t action);
bool death_at(const Plan *p, const Program *prog, size_t action);

/* codegen/emit/emit_pipe.c: the layers of each stage; the tables of a pipeline (nothing if p has
 * none); and the code in functions that reads these tables. */
void emit_pipe_names(const Emitter *e);
void emit_stages(const Emitter *e);
void emit_pipe(const Emitter *e, const Program *p, const char *entry);
/* Is the loop that of the pipeline, or inside of it? loop may be -1. */
bool emit_in_pipe(const Program *p, int loop);
/* The condition under which an action runs, as C; NULL: always. Inside of a pipeline `o` is the
 * operation. */
const char *emit_condition(Emitter *e, const Program *p, const Action *a);
void emit_slot(const Emitter *e, const Program *p, uint32_t buffer);
bool emit_has_slot(const Emitter *e, const Program *p, uint32_t buffer); /* does it print any? */
void emit_stage_loop(const Emitter *e, const Program *p, const Loop *l, const char *i, int depth);
void emit_pipe_begin(const Emitter *e, const char *entry, int depth);
void emit_pipe_phase(const Emitter *e, const Program *p, const Action *a, int depth);

#endif
