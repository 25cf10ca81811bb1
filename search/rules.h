/* rules.h - which dims lie on which axes of a mesh, where the layout says nothing but the mesh.
 *
 * Nothing is known of names: what may be split is read off the types of the program of one rank,
 * and what is fastest is said by plans. */
#ifndef MGC_SEARCH_RULES_H
#define MGC_SEARCH_RULES_H

#include "search/try.h"

enum { LIST_MAX = 12, TOKENS_MAX = 62 };

typedef enum TokenKind {
    TOKEN_data,  /* a dim of the inputs: what ranks compute for each other does not depend on it */
    TOKEN_stack, /* a dim of a repeat: stages are cut along it */
    TOKEN_inner, /* any other dim */
    TOKEN_class  /* state, grads, params */
} TokenKind;

/* The left side of a rule, with the words behind its axis. */
typedef struct Token {
    const char *dim, *words; /* words: axis_options[AXIS_zigzag], or NULL */
    TokenKind kind;
    int plain; /* the token of the same dim without words; its own number if it has none */
} Token;

/* An instruction's arithmetic, and the dims that it could be split along: bits by token. */
typedef struct Work {
    double flops;
    uint64_t dims;
} Work;

/* Rules of one axis, in their order: an instruction is split along the first dim that it has.
 */
typedef struct RuleList {
    int n;
    uint8_t token[LIST_MAX];
} RuleList;
typedef VEC(RuleList) RuleLists;

/* The program of one rank, as far as its types say what may be split. */
typedef struct Splits {
    VEC(Token) tokens;
    VEC(Work) work;
} Splits;

/* m: as it is elaborated. */
void splits_of(Splits *s, const Module *m, Arena *a);
/* Lists for one axis that are worth a plan: each alone, and orders of dims of which each has what
 * those before it leave, with and without a dim of the inputs and the classes behind them. allowed:
 * bits by token, of those that the compiler takes. */
void splits_lists(const Splits *s, uint64_t allowed, Arena *a, RuleLists *lists);
bool list_has(const RuleList *l, int token);

typedef struct RuleAxis {
    const char *name;
    int64_t size; /* ranks; above 1 */
} RuleAxis;

typedef struct Rules {
    /* Given. The text that is elaborated is lines of a layout: its mesh, and rules. */
    Arena *arena;
    SearchElaborate *elaborate;
    void *ctx;
    const Module *one; /* the program of one rank, as it is elaborated */
    VEC(RuleAxis) axes;

    /* Found. */
    const char *text; /* lines: rules alone */
    int plans;        /* how many were made */
    int failed;       /* on how many of these mgc itself failed; */
    const char *why;  /* ... how on the first, and its lines */
} Rules;

/* Finds the fastest rules that fit; the ones that need least if none fits. False: no rules split
 * all axes. The result depends on nothing but the input. */
bool rules_find(Rules *r);

#endif
