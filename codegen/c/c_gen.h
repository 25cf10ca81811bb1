/* c_gen.h - one kernel while it is written as plain C; private to the files of codegen/c.
 *
 * The loops are those of the nest by which the plan counts units (nest_on_host, with its tiles). So
 * a kernel in C has the same units as LLVM's kernel. A unit is a box: each loop is cut into pieces
 * of some size, and the number of the unit gives one piece of each loop, with the last loop
 * fastest. The boxes of different units have no element in common, and together they cover all
 * elements.
 *
 * Every kernel is written twice. The first time counts the uses of each value, offset and index.
 * The second time makes variables of those with more than one use, and declares no index that
 * nothing reads. Both times go through them in the same order, and the counts belong to places in
 * that order. */
#ifndef MGC_C_GEN_H
#define MGC_C_GEN_H

#include "codegen/code/code.h"
#include "codegen/emit/emit.h"

/* A name in scope. For an index, `order` is the number under which its uses are counted. */
typedef struct CLive {
    const char *name;
    int order;
} CLive;

/* The offset of an element, as a sum; `name` is its variable, or the sum itself. */
typedef struct COffset {
    const char *sum, *name;
    int order;
} COffset;

/* The pieces into which a loop is cut. In its piece the unit loops over [from, to), or the index is
 * fixed. */
typedef struct CCut {
    int64_t pieces, size;
    const char *from, *to, *index;
} CCut;

typedef struct CGen {
    Code c; /* first: the dialect's functions find the rest by it */
    const Emitter *e;
    KernelText text;
    CCut cut[NEST_DIMS];
    const char *pointer[MAX_OPERANDS];
    int read[MAX_OPERANDS]; /* the number under which its uses are counted */
    const Names *taken;     /* words of C, and the names that the file defines */
    VEC(CLive) live;
    VEC(COffset) offset;
    size_t live_at[NEST_DIMS * 2], offset_at[NEST_DIMS * 2]; /* per open brace: counts before it */
    int braces;
    Value root; /* the value that the current statement is for */
} CGen;

/* ---- c_names.c ---- */

/* A name made of `base`, with no other meaning here until the brace around it closes. */
const char *c_fresh(CGen *g, const char *base);
/* The same for an index. is_read: it is read, as far as is known. */
const char *c_index(CGen *g, const char *base, bool *is_read);
void c_read(Code *c, const char *text); /* a use of an index, or of an element's offset */
void c_open(CGen *g);                   /* after a "{" was written */
void c_close(CGen *g);
void c_close_to(CGen *g, int braces);
void c_name_operands(CGen *g);
Names *c_taken(const Emitter *e, Arena *a);
/* The name of a variable for v. */
const char *c_value_name(const CGen *g, Value v);

/* ---- c_value.c ---- */

extern const Dialect c_dialect;
/* A value for a statement. */
Text c_eval(CGen *g, Value v, const CodeEnv *e);
/* A value in the type of memory; and an element in memory in the type of computation. */
const char *c_stored(CGen *g, DType t, Text x);
Text c_loaded(CGen *g, DType t, const char *element);
/* Stores the results that `which` selects (NULL: all), at the indices of e. */
void c_store(CGen *g, const CodeEnv *e, const bool *which);

/* ---- c_loops.c ---- */

int c_loops(const CGen *g);
void c_cut(CGen *g); /* fills the cuts of a unit */
/* Opens the loop over the units of [begin, end), and enters the indices that a unit fixes into e.
 */
void c_units(CGen *g, CodeEnv *e);
/* Opens the loops of [first, end) that satisfy `which` (-1: all, 0: kept, 1: reduced) and whose
 * index the unit does not fix. */
void c_open_loops(CGen *g, int first, int end, int which, CodeEnv *e);
/* Opens one loop over [from, to): with an index named after `base`, or a loop of the nest. */
const char *c_for(CGen *g, const char *base, const char *from, const char *to);
const char *c_open_loop(CGen *g, int loop, const char *from, const char *to, CodeEnv *e);
/* Computes the indices of the loops [first, end) from the number `of`, which counts through all of
 * them. */
void c_split(CGen *g, int first, int end, const char *of, CodeEnv *e);

/* ---- c_sum.c ---- */

void c_row(CGen *g);
void c_col(CGen *g);
void c_partial(CGen *g);
void c_combine(CGen *g);

#endif
