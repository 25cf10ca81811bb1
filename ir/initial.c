/* initial.c - reads initial values by formula; see initial.h. */
#include "ir/initial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool initial_op(Op op)
{
    return OP_AMONG(op, OP_add, OP_sub, OP_mul, OP_div, OP_neg, OP_max, OP_min, OP_pow) ||
           OP_AMONG(op, OP_exp, OP_log, OP_sqrt, OP_rsqrt, OP_tanh, OP_erf, OP_sigmoid, OP_sin) ||
           OP_AMONG(op, OP_cos, OP_abs, OP_sign, OP_select, OP_lt, OP_le, OP_gt, OP_ge) ||
           op == OP_eq || op == OP_ne;
}

int initial_operands(const InitialTerm *t)
{
    return t->kind == INITIAL_op ? op_info[t->op].min : 0;
}

static bool real(const char **s, double *d)
{
    char *end;
    *d = strtod(*s, &end);
    const bool good = end != *s && isfinite(*d);
    *s = good ? end : *s;
    return good;
}

static bool whole(const char **s, int64_t *i)
{
    char *end;
    if (**s != ':')
        return false;
    *i = strtoll(*s + 1, &end, 10);
    const bool good = end != *s + 1 && *i > 0;
    *s = good ? end : *s;
    return good;
}

static bool word(const char **s, const char *w)
{
    const size_t n = strlen(w);
    if (strncmp(*s, w, n) != 0)
        return false;
    *s += n;
    return true;
}

static bool operation(const char **s, InitialTerm *t)
{
    char name[16];
    const size_t n = strcspn(*s, " ");
    if (n >= sizeof name)
        return false;
    memcpy(name, *s, n);
    name[n] = 0;
    t->kind = INITIAL_op;
    t->op = op_find(name);
    *s += initial_op(t->op) ? n : 0;
    return initial_op(t->op);
}

bool initial_next(const char **s, InitialTerm *t)
{
    *t = (InitialTerm){0};
    *s += strspn(*s, " ");
    if (!**s)
        return false;
    if (word(s, "index")) {
        t->kind = INITIAL_index;
        return whole(s, &t->every) && whole(s, &t->size);
    }
    if (word(s, "uniform:")) {
        t->kind = INITIAL_uniform;
        return real(s, &t->a) && word(s, ":") && real(s, &t->b);
    }
    if (word(s, "normal:")) {
        t->kind = INITIAL_normal;
        return real(s, &t->a);
    }
    if (word(s, "step")) {
        t->kind = INITIAL_step;
        return true;
    }
    return strchr("+-.0123456789", **s) ? real(s, &t->a) : operation(s, t);
}

static bool is_valid(const char *formula, bool by_step)
{
    InitialTerm t;
    int depth = 0, terms = 0;
    while (initial_next(&formula, &t)) {
        const bool either = t.kind == INITIAL_number || t.kind == INITIAL_op;
        depth += 1 - initial_operands(&t);
        if ((!either && (t.kind == INITIAL_step) != by_step) || depth < 1 ||
            depth > INITIAL_DEPTH || ++terms > INITIAL_TERMS)
            return false;
    }
    return !*formula && depth == 1;
}

bool initial_valid(const char *formula)
{
    return is_valid(formula, false);
}

bool step_formula_valid(const char *formula)
{
    return is_valid(formula, true);
}

bool formula_is_one(const char *formula)
{
    InitialTerm t;
    return initial_next(&formula, &t) && t.kind == INITIAL_number && t.a == 1 &&
           !initial_next(&formula, &t);
}
