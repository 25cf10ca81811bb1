/* emit.h - the common part of the files that write the emitted C; private to codegen/. */
#ifndef MGC_EMIT_H
#define MGC_EMIT_H

#include "plan/plan.h"

/* C identifiers: every name from a source is prefixed and reduced to letters, digits and '_', so it
 * can neither be a keyword nor break out; two different things never get one identifier. */
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
    struct {             /* the constants, each once */
        const char *name, *type, *body;
    } *described;
    size_t ndescribed;
    const char *features;
    bool cuda, kernels; /* kernels: they are in the file, too */
} Emitter;

/* codegen/emit/emit_wrap.c: text, its long lines broken. */
enum { EMIT_WIDTH = 110 };
void emit_wrapped(FILE *out, const char *text);

/* codegen/emit/emit_formula.c: what a generated kernel computes, one line, and what it calls the
 * kernel's operands ("p'": the new value of p, in its place) and values of its body (NULL: written
 * where they are used). */
typedef struct KernelText {
    const char *formula, *operand[MAX_OPERANDS], **value;
} KernelText;
KernelText kernel_text(const Emitter *e, const Kernel *k);
/* Does the name of an op say what a value is ("cos"), and not only how it was made ("mul")? */
bool emit_op_tells(const char *op);

/* codegen/emit/emit_places.c: macros for the buffers; a place by them; a buffer's offset. */
const char *emit_short_name(const Emitter *e, const char *name); /* "mlp.up" of "layers.mlp.up" */
void emit_buffers(Emitter *e);
void emit_place(const Emitter *e, const Program *p, const char *const *loop, const Place *at);
void emit_offset(const Emitter *e, size_t buffer);

/* codegen/emit/emit_tables.c */
void emit_tensors(Emitter *e);
void emit_actions(Emitter *e);
void emit_program(Emitter *e);
void emit_deaths(Emitter *e);
/* "AT(23)", a macro of the file for lines of the model's source; another file in full. */
const char *emit_where(const Emitter *e, Span s);

/* codegen/emit/emit_descs.c: descriptors are declared before the functions, defined behind them. */
void emit_descriptor_names(Emitter *e);
void emit_descriptors(const Emitter *e);
void emit_real(const Emitter *e, double x);
void emit_sizes(const Emitter *e, const int64_t *v, int n);
/* ", .name = x", unless x is 0, as what is not named is. */
void emit_num(const Emitter *e, const char *name, int64_t x);

/* codegen/emit/emit_streams.c: per action of a program 1 + its number among those that something
 * waits for, or 0; and of a processor's program whether a collective may run beside it, from where
 * one begins in a stream of its own to where it is waited for, and has to be carried on. */
int *stream_points(const Program *p, Arena *a);
bool *stream_beside(const Emitter *e, const Program *p);

/* codegen/emit/emit_deaths.c: the number of what ends at a program's action, an action or a loop,
 * and whether a buffer dies with it. */
uint32_t death_event(const Plan *p, const Program *prog, size_t action);
bool death_at(const Plan *p, const Program *prog, size_t action);

/* codegen/emit/emit_pipe.c: layers by stage; a pipeline's tables (nothing where p has none); what
 * functions read of them. */
void emit_pipe_names(const Emitter *e);
void emit_stages(const Emitter *e);
void emit_pipe(const Emitter *e, const Program *p, const char *entry);
/* Is a loop, or -1, the pipeline's or inside of it? */
bool emit_in_pipe(const Program *p, int loop);
/* When an action is done, as C; NULL: always. Inside of a pipeline `o` is the operation. */
const char *emit_condition(Emitter *e, const Program *p, const Action *a);
void emit_slot(const Emitter *e, const Program *p, uint32_t buffer);
bool emit_has_slot(const Emitter *e, const Program *p, uint32_t buffer); /* does it print any? */
void emit_stage_loop(const Emitter *e, const Program *p, const Loop *l, const char *i, int depth);
void emit_pipe_begin(const Emitter *e, const char *entry, int depth);
void emit_pipe_phase(const Emitter *e, const Program *p, const Action *a, int depth);
void emit_pipe_end(const Emitter *e, const char *entry, int depth);

#endif
