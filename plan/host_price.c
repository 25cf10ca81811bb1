/* host_price.c - what a processor does for a kernel, and for a convolution.
 *
 * A generated kernel computes on vectors. An addition or a multiplication is one instruction for
 * all lanes; a division takes as long as nine, and a function is a sequence of them or a call of a
 * vector routine. So the arithmetic of a kernel is counted in additions, by what each function
 * takes beside one: measured by bench/pointwise.py on a Xeon with AVX-512 (Sapphire Rapids). The
 * FLOP of ops.def are another count, of people, and choose what is fused; a function has fewer
 * there.
 *
 * The texts of composed ops may share lines: gelu_tanh and its slope of the same number have one
 * tanh, which is computed once. So lines that say the same of the same count once.
 *
 * A convolution packs x as its taps show it: each of its rows has all its terms, so that packing
 * moves many times the bytes of x where a product has few columns. Less, where what several taps
 * show is packed once (kernels/spread.h). */
#include "plan/host_price.h"

#include "ir/cost.h"
#include "ir/op_text.h"

#include <math.h>
#include <string.h>

/* Additions that take as long. Others count as in ops.def. */
static const struct {
    Op op;
    double additions;
} functions[] = {
    {OP_div, 9},      {OP_sqrt, 13}, {OP_exp, 14},  {OP_log, 15}, {OP_cos, 25},
    {OP_sigmoid, 26}, {OP_sin, 29},  {OP_tanh, 31}, {OP_erf, 50}, {OP_pow, 130},
};
/* Numbers of 64 bits: half of the lanes. */
static const double WIDE = 2;
/* A packed number takes as long as so many times its bytes: measured on the same Xeon, 0.3 ns where
 * kernels stream 18.5 GB/s. */
static const double PACKS = 1.4;
/* ... where it is packed once for many taps: 0.10 to 0.21 ns, of 64 and 128 colours. */
static const double PACKS_ONCE = 0.7;
enum { PACKED_COLUMNS = 1024 }; /* columns for which the other operand is packed once */

static double additions_of(Op op)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i].op == op)
            return functions[i].additions;
    return op_info[op].flops;
}

/* A line of a text that was counted: an op of numbered operands. Numbers of values of the module
 * are their own, those of lines and of constants begin behind them. */
typedef struct Counted {
    Op op;
    uint32_t in[3];
    double constant; /* OP_const */
} Counted;

typedef struct Count {
    const Module *m;
    Counted line[8 * OP_LINES];
    uint32_t lines;
    double additions; /* of an element of the instruction at hand */
} Count;

static bool same(const Counted *a, const Counted *b)
{
    return a->op == b->op && !memcmp(a->in, b->in, sizeof a->in) &&
           !(a->constant < b->constant || a->constant > b->constant);
}

/* The number of what a line gives; counted if it is new, or if there is no room to remember it. */
static uint32_t number_of(Count *c, const Counted *line, double additions)
{
    const uint32_t first = (uint32_t)c->m->values.n;
    for (uint32_t k = 0; k < c->lines; k++)
        if (same(&c->line[k], line))
            return first + k;
    c->additions += additions;
    if (c->lines == sizeof c->line / sizeof *c->line)
        return UINT32_MAX;
    c->line[c->lines++] = *line;
    return first + c->lines - 1;
}

/* Counts a composed op of numbered operands; gives the number of its result. */
static uint32_t count_text(Count *c, Op op, const uint32_t *operand)
{
    const OpText *t = op_value(op);
    uint32_t done[OP_LINES];
    for (int n = 0; n < t->lines; n++) {
        const OpLine *l = &t->line[n];
        Counted line = {.op = l->op};
        for (int k = 0; k < l->nin; k++) {
            const OpTerm *in = &l->in[k];
            line.in[k] = in->kind == TERM_operand ? operand[in->index]
                         : in->kind == TERM_line
                             ? done[in->index]
                             : number_of(c, &(Counted){.op = OP_const, .constant = in->number}, 0);
        }
        done[n] = op_info[l->op].value ? count_text(c, l->op, line.in)
                                       : number_of(c, &line, additions_of(l->op));
    }
    return done[t->lines - 1];
}

static double operations_of(Count *c, const Ins *i)
{
    const Type *t = type_of(c->m, i->out[0]);
    if (!op_is(i->op, POINTWISE))
        return ir_cost(c->m, i).flops;
    c->additions = 0;
    if (op_info[i->op].value)
        count_text(c, i->op, i->in);
    else
        c->additions = additions_of(i->op);
    return c->additions * (double)type_elements(t) * (t->dtype == DT_f64 ? WIDE : 1);
}

double host_operations(const Module *m, const Ins *fused)
{
    Count c = {.m = m};
    double all = 0;
    for (size_t k = 0; k < fused->body->ins.n; k++)
        all += operations_of(&c, fused->body->ins.data[k]);
    return all;
}

/* Whether a convolution packs x once for several taps, as kernels/spread.c decides of most blocks:
 * whole tiles of positions along one axis, and of colours that are contiguous. */
static bool packs_once(const mg_conv_desc *d)
{
    enum { LINES = 16, TERMS = 32 };
    const int row = d->batch + d->rows - 1, term = d->batch + d->rows + d->columns + d->terms - 1;
    const bool along = d->x[term] == 1; /* terms are taps and colours, not positions */
    const int colour = along ? term : row, position = along ? row : term;
    bool steps = false;
    if (d->dtype == MG_F64 || (along ? d->terms : d->rows) < 2 || d->x[colour] != 1 ||
        d->size[colour] % (along ? TERMS : LINES) || d->size[position] % LINES)
        return false;
    for (int x = 0; x < d->axes; x++)
        steps |= d->axis[x].by[position] > 0;
    return steps;
}

double host_packs(const mg_conv_desc *d, double flops)
{
    double columns = 1;
    for (int k = 0; k < d->columns; k++)
        columns *= (double)d->size[d->batch + d->rows + k];
    const double shown = flops / (2 * columns) * (double)mg_dtype_bytes(d->dtype);
    return (packs_once(d) ? PACKS_ONCE : PACKS) * shown * ceil(columns / PACKED_COLUMNS);
}
