/* initial.c - initial values of parameters: a number, a distribution, or a formula of each element;
 * and numbers that are a formula of the step.
 *
 * A formula is made of numbers, index(d), normal(deviation), uniform(low, high) and functions of
 * each element. It becomes the words of a stack machine (ir/initial.h). One that draws once and
 * does nothing more is that distribution. A formula of the step has step() and draws nothing. */
#include "grammar/elab.h"
#include "ir/initial.h"

#include <stdlib.h>
#include <string.h>

typedef struct Formula {
    Elab *e;
    const Tensor *t; /* NULL: of the step */
    const DimList *own;
    FILE *out;
    int terms;
} Formula;

static bool distribution(Elab *e, const Node *n, double v[2])
{
    const char *name = text(e, n->name);
    const bool uniform = strcmp(name, "uniform") == 0;
    if (!uniform && strcmp(name, "normal") != 0) {
        static const char *const names[] = {"normal", "uniform"};
        fail(e, n->at, 260, "there is no distribution '%s'", name);
        suggest(e, name, names, 2);
        help(e, "write `~ normal(std)` or `~ uniform(a, b)`");
        return false;
    }
    if (n->list.n != (uniform ? 2u : 1u)) {
        fail(e, n->at, 260,
             uniform ? "uniform takes its bounds: uniform(a, b)"
                     : "normal takes its standard deviation: normal(std)");
        return false;
    }
    for (size_t i = 0; i < n->list.n; i++)
        if (!real_of(e, n->list.data[i], &v[i]))
            return false;
    if (uniform ? v[0] > v[1] : v[0] < 0) {
        fail(e, n->list.data[0]->span, 260,
             uniform ? "the lower bound %g is above the upper"
                     : "a standard deviation of %g; it must be at least 0",
             v[0]);
        return false;
    }
    return true;
}

static bool named(const Elab *e, const Node *n, const char *name)
{
    return n->kind == N_CALL && strcmp(text(e, n->name), name) == 0;
}

static bool draws(const Elab *e, const Node *n)
{
    return named(e, n, "normal") || named(e, n, "uniform");
}

static bool is_step(const Elab *e, const Node *n)
{
    return named(e, n, "step") && !n->list.n;
}

/* Does it differ from element to element (by_step: from step to step)? */
static bool differs(const Elab *e, const Node *n, bool by_step)
{
    bool found = by_step ? is_step(e, n) : draws(e, n) || named(e, n, "index");
    found = found || (n->a && differs(e, n->a, by_step)) || (n->b && differs(e, n->b, by_step));
    for (size_t i = 0; !found && i < n->list.n; i++)
        found = differs(e, n->list.data[i], by_step);
    return found;
}

static bool put_node(Formula *f, const Node *n);

static bool refuse(Formula *f, const Node *n)
{
    if (!f->t) {
        fail(f->e, n->span, 279, "no number by the step");
        help(f->e, "it is made of numbers, step(), + - * / and functions: 1 - 0.004 * "
                   "(cos(3.14159 * step() / steps) + 1) / 2");
        return false;
    }
    fail(f->e, n->span, 260, "no initial value of each element");
    help(f->e,
         "it is made of numbers, index(d), normal(deviation), uniform(low, high), + - * / and "
         "functions of each element: log(1 + index(heads))");
    return false;
}

/* Elements along a dim of the external form. */
static bool put_index(Formula *f, const Node *n)
{
    const Tensor *t = f->t;
    Dim d;
    if (n->list.n != 1 || node_bare(n->list.data[0])->kind != N_NAME)
        return refuse(f, n);
    if (!resolve_dim(f->e, node_bare(n->list.data[0]), &d))
        return false;
    int64_t every = 1, size = 0;
    for (int k = t->type.rank - t->stacked - 1; k >= 0 && !size; k--) {
        const int at = t->order[k];
        if (t->type.dims[at].name == d.name)
            size = t->valid[at];
        else
            every *= t->valid[at];
    }
    if (!size) {
        fail(f->e, n->list.data[0]->span, 260, "'%s' is no dim of this parameter in a checkpoint",
             text(f->e, d.name));
        help(f->e, "its dims are [%s]", dims_text(f->e, f->own));
        return false;
    }
    fprintf(f->out, "index:%lld:%lld ", (long long)every, (long long)size);
    return true;
}

static bool put_draw(Formula *f, const Node *n)
{
    double v[2];
    if (!distribution(f->e, n, v))
        return false;
    if (named(f->e, n, "uniform"))
        fprintf(f->out, "uniform:%.17g:%.17g ", v[0], v[1]);
    else
        fprintf(f->out, "normal:%.17g ", v[0]);
    return true;
}

static bool put_op(Formula *f, Op op, size_t operands, const Node *const *x)
{
    for (size_t k = 0; k < operands; k++)
        if (!put_node(f, x[k]))
            return false;
    fprintf(f->out, "%s ", op_info[op].name);
    return true;
}

static Op called_op(const Elab *e, const Node *n)
{
    const char *name = text(e, n->name);
    const Op op = op_find(name);
    const bool language = op_is(op, FUNCTION) || OP_AMONG(op, OP_max, OP_min, OP_select);
    return language && initial_op(op) && !map_find(&e->blocks, n->name) &&
                   n->list.n == (size_t)op_info[op].min
               ? op
               : OP_none;
}

static bool put_node(Formula *f, const Node *n)
{
    static const Op binary[] = {
        [B_ADD] = OP_add, [B_SUB] = OP_sub, [B_MUL] = OP_mul, [B_DIV] = OP_div, [B_LT] = OP_lt,
        [B_LE] = OP_le,   [B_GT] = OP_gt,   [B_GE] = OP_ge,   [B_EQ] = OP_eq,   [B_NE] = OP_ne};
    n = node_bare(n);
    if (++f->terms > INITIAL_TERMS) {
        fail(f->e, n->span, f->t ? 260 : 279, "a formula of more than %d terms", INITIAL_TERMS);
        return false;
    }
    if (!differs(f->e, n, !f->t)) {
        double d;
        if (!real_of(f->e, n, &d))
            return false;
        fprintf(f->out, "%.17g ", d);
        return true;
    }
    if (!f->t && is_step(f->e, n)) {
        fputs("step ", f->out);
        return true;
    }
    if (f->t && named(f->e, n, "index"))
        return put_index(f, n);
    if (f->t && draws(f->e, n))
        return put_draw(f, n);
    if (n->kind == N_NEG)
        return put_op(f, OP_neg, 1, (const Node *const[]){n->a});
    if (n->kind == N_BINARY && (size_t)n->op < sizeof binary / sizeof *binary && binary[n->op])
        return put_op(f, binary[n->op], 2, (const Node *const[]){n->a, n->b});
    const Op op = n->kind == N_CALL ? called_op(f->e, n) : OP_none;
    return op ? put_op(f, op, n->list.n, (const Node *const *)n->list.data) : refuse(f, n);
}

/* The words; 0 after an error. */
static Name words_of(Elab *e, const Node *n, const DimList *own, const Tensor *t)
{
    char *words;
    size_t size;
    Formula f = {.e = e, .t = t, .own = own, .out = open_memstream(&words, &size)};
    bool ok = put_node(&f, n);
    fclose(f.out);
    if (ok && !(t ? initial_valid(words) : step_formula_valid(words))) {
        fail(e, n->span, t ? 260 : 279, "a formula that holds more than %d numbers at once",
             INITIAL_DEPTH);
        ok = false;
    }
    const Name formula = ok ? name_intern(e->names, words) : 0;
    free(words);
    return formula;
}

static bool formula(Elab *e, const Node *n, const DimList *own, Tensor *t)
{
    t->init = INIT_formula;
    t->formula = words_of(e, n, own, t);
    return t->formula != 0;
}

bool step_formula(Elab *e, const Node *n, Name *words)
{
    double d;
    n = node_bare(n);
    if (!differs(e, n, true)) {
        if (!real_of(e, n, &d))
            return false;
        if (!(d >= 0 && d <= 1)) {
            fail(e, n->span, 279, "an average keeps %g of itself; it must be from 0 to 1", d);
            return false;
        }
    }
    *words = words_of(e, n, NULL, NULL);
    return *words != 0;
}

bool initial(Elab *e, const Node *n, const DimList *own, Tensor *t)
{
    const Node *one = n->b ? n->b : node_bare(n->a);
    if (n->b || draws(e, one)) {
        double v[2] = {0};
        if (!distribution(e, one, v))
            return false;
        const bool uniform = named(e, one, "uniform");
        t->init = uniform ? INIT_uniform : INIT_normal;
        t->a = uniform ? v[0] : 0;
        t->b = uniform ? v[1] : v[0];
        return true;
    }
    if (differs(e, one, false))
        return formula(e, one, own, t);
    t->init = INIT_const;
    return real_of(e, n->a, &t->a);
}
