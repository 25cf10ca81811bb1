/* check_begin.c - zeros: where an action writes them, and where a sum begins without them.
 *
 * An action that adds and is said to write when some loops are in their first iterations reads
 * nothing there, then. That means the same if what it is to add to is zero in all its elements, by
 * the program's meaning, and if a table runs the first microbatch first. Whoever reads before it
 * finds nothing. */
#include "plan/check/check_run.h"

static bool is_zeros(const Ins *i)
{
    bool zero = i && i->op == OP_fused && i->nin == 0 && i->nout == 1;
    for (size_t k = 0; zero && k < i->body->ins.n; k++) {
        const Ins *b = i->body->ins.data[k];
        zero = b->op == OP_copy || b->op == OP_cast || (b->op == OP_const && b->attrs.value == 0);
    }
    return zero;
}

/* Zeros stand for a kernel that writes the constant 0 everywhere. */
void run_zero(Check *c, const Action *a, const Ins *i)
{
    const Operand *o = &a->operand[0];
    if (a->noperands != 1 || !is_zeros(i) || o->value != i->out[0] ||
        !type_equal(&o->type, type_of(c->m, o->value)) || a->bytes != type_bytes(&o->type) ||
        run_length(o) != type_elements(&o->type))
        broken(c, 3, "what is set to zero is no constant 0");
    else
        write_operand(c, o);
}

/* ---- sums that begin with a write ------------------------------------------------------------ */

static void zero_run(void *ctx, Value v, uint64_t iterations, Strip s)
{
    Cursor *k = ctx;
    (void)iterations;
    if (k->failed || is_zeros(k->c->m->values.data[v].def))
        return;
    k->failed = true;
    broken(k->c, 3, "writes where it is to add to element %lld of '%s'", (long long)s.first,
           value_name(k->c, v));
}

static bool is_around(const Check *c, const Action *a, uint32_t loop)
{
    for (int l = a->around; l >= 0; l = c->prog->loops.data[l].parent)
        if ((uint32_t)l == loop)
            return true;
    return false;
}

/* The operation of a table that runs an action for a stage the first time. */
static bool table_begins(const Check *c, int action)
{
    const Pipe *p = c->prog->pipe;
    int phase = 0;
    while (phase + 1 < p->phases && p->begin[phase + 1] < action)
        phase++;
    for (int stage = 0; stage < p->stages; stage++) {
        const mg_pipe_op *o = p->ops[mg_rank_of_stage(MG_LOOP, p->ranks, stage)];
        while (o->step &&
               !(o->stage == stage &&
                 ((o->step == MG_PIPE_F && phase == 0) || (o->step == MG_PIPE_B && phase > 0) ||
                  (o->step == MG_PIPE_I && phase == 1) ||
                  (o->step == MG_PIPE_W && phase == p->phases - 1))))
            o++;
        if (o->step && o->microbatch)
            return false;
    }
    return true;
}

void check_begins(Check *c)
{
    const Program *g = c->prog;
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        c->at = (int)i;
        if (a->nbegins < 0 || a->nbegins > MAX_BEGINS ||
            (a->nbegins && a->kind != ACT_gemm && a->kind != ACT_head)) {
            broken(c, 3, "it cannot write where it adds");
            continue;
        }
        for (int n = 0; n < a->nbegins; n++)
            if (!is_around(c, a, a->begins[n]))
                broken(c, 5, "it begins with a loop that is not around it");
            else if (g->pipe && (int)a->begins[n] == g->pipe->loop && !table_begins(c, (int)i))
                broken(c, 8, "a stage does not begin with the microbatch in which it writes");
    }
    c->at = -1;
}

bool begins_now(Check *c, const Action *a, const Operand *added)
{
    for (int n = 0; n < a->nbegins; n++)
        if (c->iteration[a->begins[n]] != loop_first(&c->prog->loops.data[a->begins[n]]))
            return false;
    if (!a->nbegins)
        return false;
    if (c->again)
        broken(c, 8, "it writes where another stage of the rank has added");
    each_run(c, added, zero_run);
    return true;
}
