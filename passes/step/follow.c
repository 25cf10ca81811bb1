/* follow.c - the new values of tensors that follow others: averages of parameters over the steps.
 *
 *   new = beta old + (1 - beta) followed        followed: its value after this step's update
 *
 * beta is a formula of the step, computed in f64; it and 1 - beta are rounded once, to the tensor's
 * type. Between the steps that change a follower (Tensor.every) beta is 1: so it keeps its bits,
 * and with beta = 0 it takes those of the other. */
#include "ir/initial.h"
#include "passes/step/update.h"
#include "passes/walk.h"

/* It begins as the parameter, whatever `first` is (Tensor.follows). */
static const StateInfo average = {.slot = "average", .shape = WHOLE, .when = ALWAYS};

static Value number(Update *u, double x)
{
    return build_const(&u->b, DT_f64, x);
}

static Value op2(Update *u, Op op, Value x, Value y)
{
    return build2(&u->b, op, x, y);
}

/* A condition as the number 1 or 0. */
static Value as_number(Update *u, Value x)
{
    return build_cast(&u->b, x, DT_f64);
}

static Value applied(Update *u, Op op, const Value *x)
{
    if (op == OP_select) {
        Value in[] = {op2(u, OP_ne, x[0], number(u, 0)), x[1], x[2]};
        return build(&u->b, op, NULL, 3, in);
    }
    return as_number(u, build(&u->b, op, NULL, op_info[op].min, x));
}

static Value leaf(Update *u, const InitialTerm *t)
{
    return t->kind == INITIAL_step ? op2(u, OP_sub, up_time(u), number(u, 1)) : number(u, t->a);
}

static Value formula(Update *u, const char *words)
{
    Value stack[INITIAL_DEPTH + 1];
    InitialTerm t;
    int depth = 0;
    while (initial_next(&words, &t)) {
        depth -= initial_operands(&t);
        stack[depth] = t.kind == INITIAL_op ? applied(u, t.op, &stack[depth]) : leaf(u, &t);
        depth++;
    }
    return op2(u, OP_max, op2(u, OP_min, stack[0], number(u, 1)), number(u, 0));
}

/* Is the number of this step, from 1, a multiple of n? Whole numbers are exact. */
static Value is_multiple(Update *u, int64_t n)
{
    const Value step = up_time(u), by = number(u, (double)n);
    const Value times = build_cast(&u->b, op2(u, OP_div, step, by), DT_i64); /* rounded down */
    return op2(u, OP_eq, op2(u, OP_mul, build_cast(&u->b, times, DT_f64), by), step);
}

static void write_beta(Update *u, Name beta, int64_t every)
{
    if (u->keeps && u->beta == beta && u->every == every)
        return;
    u->beta = beta;
    u->every = every;
    u->keeps = formula(u, name_str(u->m->names, beta));
    if (every > 1) {
        Value in[] = {is_multiple(u, every), u->keeps, number(u, 1)};
        u->keeps = build(&u->b, OP_select, NULL, 3, in);
    }
    u->takes = op2(u, OP_sub, number(u, 1), u->keeps);
}

static Value scaled(Update *u, Value x, Value by)
{
    return op2(u, OP_mul, x, build_cast(&u->b, by, type_of(u->m, x)->dtype));
}

/* The value of a parameter behind this step: what follows it may come before it. */
static void follow(Update *u, uint32_t tensor)
{
    const Tensor t = u->m->tensors.data[tensor];
    const uint32_t of = t.follows - 1;
    if (tensor < u->parameters && u->now[tensor])
        return;
    if (u->m->tensors.data[of].follows)
        follow(u, of);
    up_mark(u, tensor);
    write_beta(u, t.beta, t.every);
    const Value now = u->now[of] ? u->now[of] : up_old_value(u, of); /* frozen: as it was */
    const Value old = up_old_value(u, tensor);
    up_new_value(u, tensor, op2(u, OP_add, scaled(u, old, u->keeps), scaled(u, now, u->takes)));
}

/* The averages of the parameters that a goal trains. */
static void add_averages(Update *u)
{
    Module *m = u->m;
    for (uint32_t i = 0; i < u->parameters; i++) {
        const Name beta = m->train.goal[m->tensors.data[i].goal].average;
        uint32_t state;
        if (!beta || !u->now[i])
            continue;
        up_state(u, i, &average, NULL, &state);
        m->tensors.data[state].follows = i + 1;
        m->tensors.data[state].beta = beta;
        m->tensors.data[state].every = 1;
    }
}

void follow_updates(Update *u)
{
    add_averages(u);
    for (uint32_t i = 0; i < u->m->tensors.n; i++)
        if (u->m->tensors.data[i].follows)
            follow(u, i);
}
