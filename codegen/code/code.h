/* code.h - the body of one kernel while it is written as text. It is the common part of plain C
 * (codegen/c) and CUDA (codegen/cuda), and private to them.
 *
 * An expression is made by recursion from the expression that needs it, at the indices of an
 * environment. Values that are known at the current indices are remembered. The dialect chooses
 * names, and decides whether a value becomes a variable or is written where it is used. An
 * expression has the same tree as the body: it has brackets wherever C would otherwise read another
 * tree. */
#ifndef MGC_CODE_H
#define MGC_CODE_H

#include "plan/nest.h"

/* How tightly an operator binds. An operand of a lower level needs brackets. */
typedef enum Binding { CHOICE, COMPARED, ADDED, MULTIPLIED, SIGNED, CALLED, NAMED } Binding;

typedef struct Text {
    const char *s;
    Binding level;
} Text;

/* Operators of C; `sign` is NULL for other ops. Rounding makes the order of every operator matter,
 * so the text keeps it. `ordered`: the order matters in mathematics, too (a - b - c). */
typedef struct CodeOperator {
    const char *sign;
    Binding level;
    bool ordered;
} CodeOperator;
extern const CodeOperator code_operator[OP_count];

enum { CODE_EXTRA = 8 };

/* The index of every dim, as C expressions; NULL: the dim is merged into the loop of a neighbour.
 */
typedef struct CodeEnv {
    int n;
    Name dim[NEST_DIMS + CODE_EXTRA];
    const char *index[NEST_DIMS + CODE_EXTRA];
} CodeEnv;

typedef struct Code Code;

/* Variables of a counted place (OP_reindex): whether it is inside, and the index that is read;
 * NULL: not written yet. */
typedef struct CodePlace {
    const char *at, *is, *from;
} CodePlace;

typedef struct Dialect {
    const char *half[DT_count]; /* types of halves in memory */
    bool widened;               /* a variable is the float of the same value */
    const char *product;        /* of floats, which the compiler fuses with no sum; NULL: "*" */
    /* From a half to a float, and from a float to a half. */
    Text (*from_half)(Code *c, DType half, Text x);
    Text (*to_half)(Code *c, DType half, Text x);
    /* The element of operand o, which is argument o of the body. */
    Text (*load)(Code *c, int o, const CodeEnv *e);
    /* A variable for x, which is value v; or x itself. */
    Text (*keep)(Code *c, Value v, Text x, int order);
    const char *(*fresh)(Code *c, const char *base); /* a new variable's name */
    const char *(*pointer)(Code *c, int o);          /* an operand's name */
    const char *(*offset)(Code *c, const char *sum); /* the text in the brackets of an element */
    /* NULL, or called at each use of an index, and at each use of a value except the first. */
    void (*read)(Code *c, const char *text);
    /* NULL, or the element that a rotation by `half` along d reads, where neighbours that are
     * computed together read neighbours: *at becomes the index of the first of them, which says for
     * all whether they are in the first half. The result is NULL where each has its own. */
    const char *(*turn)(Code *c, Name d, int64_t half, const char **at);
    /* NULL, or the variables that stand for a place so described where neighbours are computed
     * together: of those that have it in common it is written once. */
    CodePlace *(*place)(Code *c, const char *described);
} Dialect;

/* A value at the current indices. */
typedef struct Known {
    Text text;
    int order; /* the number of values made before it */
} Known;

struct Code {
    const Dialect *dialect;
    const Module *m;
    const Kernel *k;
    const Region *body;
    Nest nest;
    FILE *out;
    Arena *a;
    int depth;            /* of indentation, in fours */
    const char *index;    /* type of indices */
    Known *known;         /* per value, at the current indices */
    const char **reduced; /* per value: the variable of a finished reduction */
    int *stage;           /* per value: the number of reductions before it is known */
    bool moved;           /* the current indices are not those of the loops */
    bool turned;          /* ... but those that `turn` of the dialect gave */
    int order;            /* values made so far */
    VEC(int) uses;        /* by order, while `counting` */
    bool counting;
};

/* Begins a kernel. `c` is zero, except for fields of the dialect. */
void code_begin(Code *c, const Dialect *d, const Module *m, const Kernel *k, Arena *a);

/* ---- code_value.c ---- */

const char *code_stored(const Dialect *d, DType t);   /* a type in memory; bool is a byte */
const char *code_computed(const Dialect *d, DType t); /* ... and of a variable */

void code_line(Code *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
Text code_variable(Code *c, const char *base, DType t, Text x);
void code_forget(Code *c); /* values computed before are not valid here */
void code_enter(CodeEnv *e, Name d, const char *index);
/* Enters the index of a loop of the nest for each dim of that loop. */
void code_env_loop(const Code *c, CodeEnv *e, int loop, const char *index);
/* The element of operand o at the indices of e: "p3[...]". base: terms that come first, or NULL. */
const char *code_element(Code *c, int o, const Operand *as, const CodeEnv *e, const char *base);
/* The operand that has the pointer of operand o. */
int code_place(const Kernel *k, int o);
bool code_written(const Kernel *k, int o); /* is anything stored at that pointer? */
/* Operand o as partial sums have it: dense; and the number of its elements. */
Operand code_dense(const Operand *o, int64_t *elements);
/* A variable: the element half a dim away from element `at`. */
const char *code_opposite(Code *c, const char *at, int64_t half);
/* The value at the indices of e. Statements that it needs are written out first. */
Text code_eval(Code *c, Value v, const CodeEnv *e);
const char *code_at(Code *c, Text x, Binding least); /* in brackets if its level is lower */
Text code_cast(Code *c, DType from, DType to, Text x);
Text code_number(Code *c, DType t, double x);
/* The number that a sum or maximum starts from. */
const char *code_start(Code *c, const Ins *reduction);

/* ---- code_pointwise.c ---- */

/* A pointwise op on operands of dtype t (the condition of a choice is a bool). */
Text code_pointwise(Code *c, Op op, DType t, int nin, const Text *x);

#endif
