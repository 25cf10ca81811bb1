/* optimizer_check.h - declarations of optimizers: what they say, and what they lack.
 *
 * The prelude declares some and a file may declare more, in one form; the build reads the prelude's
 * (optimizer_table.c), a compilation those of its file (optimizer.c). */
#ifndef MGC_OPTIMIZER_CHECK_H
#define MGC_OPTIMIZER_CHECK_H

#include "grammar/ast.h"

/* No declaration is longer, so that checking one needs no care. */
enum {
    OPTIMIZERS_MAX = 256, /* of a file, and as many ranges */
    OPTIMIZER_SETTINGS = 23,
    OPTIMIZER_STATES = 8,
    OPTIMIZER_LINES = 1000, /* of a rule, with the lines of its states */
};

typedef struct Optimizers {
    Arena *arena;
    Names *names;
    Diag *diag;
    const Ast *ast;     /* whose declarations are checked */
    const Ast *prelude; /* with more, that they may refer to; NULL: it is `ast` itself */
} Optimizers;

/* Reports what is wrong with the optimizers and the ranges of `ast`, codes 0109, 0201 and 0202:
 *   - a setting has a default, which is of its range, and in the prelude a range;
 *   - the rule reads each setting (or that of the rest does), and nothing that it is not given;
 *   - the rule reads p's gradient and the rate, and gives p and each state its new value.
 * False if anything is. */
bool optimizers_hold(const Optimizers *t);

/* The one whose rule the rest follows: o, unless it says another that there is. */
const Node *optimizer_rest(const Optimizers *t, const Node *o);
/* Does its rule look at more than one element? */
bool optimizer_sums(const Optimizers *t, const Node *o);
/* The RANGE of a number, NULL: it has none. */
const Node *optimizer_range(const Optimizers *t, const char *number);
/* The value of a NUMBER, or of a NEG of one. False: n is neither. */
bool optimizer_literal(const Node *n, double *value);

/* A state, as its declaration says. */
typedef struct OptimizerSlot {
    const Node *node;
    const char *slot; /* its name in checkpoints */
    enum { SLOT_whole, SLOT_vector, SLOT_rows, SLOT_cols, SLOT_one } shape;
    const char *when; /* the setting without which there is none, or "" */
    double first;
} OptimizerSlot;
typedef VEC(OptimizerSlot) OptimizerSlots;
OptimizerSlots optimizer_slots(const Optimizers *t, const Node *o);

#endif
