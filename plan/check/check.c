/* check.c - executes a plan symbolically and says what is not as the IR means it; see check.h.
 *
 * Proved of each program: P1 to P7 and P11 of plan/plan.h, that every result is where the program
 * says, and that the claimed peaks are the real ones (check_bytes.c). */
#include "plan/check/check.h"
#include "plan/check/check_run.h"

#include <stdlib.h>
#include <string.h>

void broken(Check *c, int p, const char *fmt, ...)
{
    va_list ap;
    if (c->broken++ >= CHECK_TOLD)
        return;
    fprintf(c->out, "plan: P%d is broken in %s", p,
            c->prog ? name_str(c->m->names, c->prog->fn->name) : "the arena");
    if (c->stages && c->m->layout.pipeline.axis)
        fprintf(c->out, " on the %s",
                c->stages == AT_FIRST  ? "first rank"
                : c->stages == AT_LAST ? "last rank"
                                       : "ranks between");
    if (c->at >= 0) {
        const Action *a = &c->prog->actions.data[c->at];
        fprintf(c->out, ", action %d '%s'", c->at, name_str(c->m->names, a->name));
        for (int l = a->around; l >= 0; l = c->prog->loops.data[l].parent)
            fprintf(c->out, " %s=%lld", name_str(c->m->names, c->prog->loops.data[l].dim.name),
                    (long long)c->iteration[l]);
    }
    if (c->again)
        fputs(", in a further stage of the rank", c->out);
    fputs(": ", c->out);
    va_start(ap, fmt);
    vfprintf(c->out, fmt, ap);
    va_end(ap);
    fputc('\n', c->out);
}

const char *value_name(const Check *c, Value v)
{
    const ValueInfo *i = &c->m->values.data[v];
    const char *name = name_str(c->m->names, i->name);
    return *name ? name : i->def ? op_info[i->def->op].name : "argument";
}

/* ---- P5: loops ------------------------------------------------------------------------------- */

/* The program's loops, in the order of their beginnings, are the repeats of the function, in the
 * order of its text. */
static bool pair_loops(Check *c, const Region *r, int parent, size_t *begin)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        if (ins->op != OP_repeat)
            continue;
        const Program *p = c->prog;
        while (*begin < p->actions.n && p->actions.data[*begin].kind != ACT_loop)
            ++*begin;
        if (*begin == p->actions.n) {
            broken(c, 5, "a repeat over '%s' has no loop",
                   name_str(c->m->names, ins->attrs.dim.name));
            return false;
        }
        uint32_t l = p->actions.data[(*begin)++].loop;
        if (l >= p->loops.n || c->loop_ins[l] || p->loops.data[l].dim.size != ins->attrs.dim.size ||
            p->loops.data[l].reverse != ins->attrs.reverse || p->loops.data[l].parent != parent) {
            broken(c, 5, "a loop is not the repeat over '%s' that it stands for",
                   name_str(c->m->names, ins->attrs.dim.name));
            return false;
        }
        c->loop_ins[l] = ins;
        if (!pair_loops(c, ins->body, (int)l, begin))
            return false;
    }
    return true;
}

static bool check_loops(Check *c)
{
    const Program *p = c->prog;
    int depth = 0, around = -1;
    for (size_t i = 0; i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        c->at = -1;
        bool loop = a->kind == ACT_loop || a->kind == ACT_end;
        if (a->kind >= ACT_count || (loop && a->loop >= p->loops.n) ||
            (a->kind == ACT_end &&
             (around != (int)a->loop || p->loops.data[a->loop].end != (int)i)) ||
            (a->kind == ACT_loop &&
             (p->loops.data[a->loop].begin != (int)i || ++depth > MAX_NEST))) {
            broken(c, 5, "loops are not balanced at action %zu", i);
            return false;
        }
        if (a->kind == ACT_end) {
            around = p->loops.data[a->loop].parent;
            depth--;
        }
        if (a->around != around) {
            broken(c, 5, "action %zu does not know the loop around it", i);
            return false;
        }
        if (a->kind == ACT_loop) {
            if (p->loops.data[a->loop].parent != around) {
                broken(c, 5, "the loop of action %zu does not know the loop around it", i);
                return false;
            }
            around = (int)a->loop;
        }
    }
    if (depth) {
        broken(c, 5, "a loop has no end");
        return false;
    }
    size_t begin = 0;
    if (!pair_loops(c, p->fn->body, -1, &begin))
        return false;
    for (; begin < p->actions.n; begin++)
        if (p->actions.data[begin].kind == ACT_loop) {
            broken(c, 5, "a loop stands for no repeat");
            return false;
        }
    return true;
}

/* A loop may be executed in three iterations instead of all if nothing it writes moves with its
 * index: then all other iterations are like the second. */
static void choose_shortened(Check *c)
{
    const Program *p = c->prog;
    for (size_t l = 0; l < p->loops.n; l++)
        c->shortened[l] = p->loops.data[l].dim.size > 3 &&
                          c->loop_ins[l]->nout == c->loop_ins[l]->attrs.carried &&
                          !check_leaves_out(c, c->loop_ins[l]);
    for (size_t i = 0; i < p->actions.n; i++)
        for (int k = 0; k < p->actions.data[i].noperands; k++) {
            const Operand *o = &p->actions.data[i].operand[k];
            for (int n = 0; n < o->at.nloops; n++)
                if (o->write)
                    c->shortened[o->at.loop[n].loop] = false;
        }
}

static bool is_shortened(const void *ctx, const Ins *loop)
{
    const Check *c = ctx;
    for (size_t l = 0; l < c->prog->loops.n; l++)
        if (c->loop_ins[l] == loop)
            return c->shortened[l];
    return false;
}

/* ---- P1, P2 ---------------------------------------------------------------------------------- */

static bool inside_nest(const Check *c, int around, uint32_t loop)
{
    for (int l = around; l >= 0; l = c->prog->loops.data[l].parent)
        if ((uint32_t)l == loop)
            return true;
    return false;
}

/* Has a rank several stages in this program? The layout says so, not the planner. Then each rank
 * has one that is neither the first nor the last. */
static bool has_chunks(const Check *c)
{
    return c->prog->pipe && c->m->layout.pipeline.chunks > 1;
}

/* The ranks along the axis of stages. */
static StageSet ranks_that_do(const Check *c, const Action *a)
{
    bool inside = has_chunks(c) && inside_nest(c, a->around, (uint32_t)c->prog->pipe->loop);
    return inside && (a->on & AT_MIDDLE) ? AT_ALL : a->on;
}

static bool check_operand(Check *c, const Action *a, const Operand *o)
{
    int64_t lo = o->at.offset, hi = o->at.offset;
    if (o->at.buffer >= c->p->buffers.n || o->at.nloops < 0 || o->at.nloops > MAX_NEST ||
        o->type.rank < 0 || o->type.rank > MAX_RANK || o->value >= c->m->values.n) {
        broken(c, 1, "an operand is in no buffer");
        return false;
    }
    const Buffer *b = &c->p->buffers.data[o->at.buffer];
    for (int i = 0; i < o->at.nloops; i++) {
        if (!inside_nest(c, a->around, o->at.loop[i].loop)) {
            broken(c, 5, "an operand moves with a loop that is not around it");
            return false;
        }
        int64_t far = o->at.loop[i].stride * (c->prog->loops.data[o->at.loop[i].loop].dim.size - 1);
        *(far < 0 ? &lo : &hi) += far;
    }
    const int64_t width = dtype_bytes(o->type.dtype);
    if (!width) {
        broken(c, 1, "an operand is a %s, which is never in memory", dtype_name(o->type.dtype));
        return false;
    }
    for (int i = 0; i < o->type.rank; i++)
        hi += (o->type.dims[i].size - 1) * o->stride[i] * width;
    hi += width;
    if (o->type.level != b->level ||
        (action_on_host(a) ? b->level != LEVEL_host : b->level && !action_transfers(a))) {
        broken(c, 11, "it takes '%s' to be on the %s, and '%s' is on the %s",
               value_name(c, o->value), level_names[o->type.level], name_str(c->m->names, b->name),
               level_names[b->level]);
        return false;
    }
    if (lo < 0 || hi > b->bytes || o->at.offset % width) {
        broken(c, 1, "bytes [%lld, %lld) of buffer '%s', which has %lld", (long long)lo,
               (long long)hi, name_str(c->m->names, b->name), (long long)b->bytes);
        return false;
    }
    if (ranks_that_do(c, a) & ~b->at) {
        broken(c, 2, "buffer '%s' is not on all ranks that use it", name_str(c->m->names, b->name));
        return false;
    }
    if (!b->persistent && (b->program != c->program || c->at < b->first || c->at > b->last)) {
        broken(c, 2, "buffer '%s' is not alive", name_str(c->m->names, b->name));
        return false;
    }
    return true;
}

static bool check_operands(Check *c)
{
    int before = c->broken;
    for (size_t i = 0; i < c->prog->actions.n; i++) {
        const Action *a = &c->prog->actions.data[i];
        c->at = (int)i;
        if (a->noperands < 0 || a->noperands > MAX_OPERANDS)
            broken(c, 1, "%d operands", a->noperands);
        for (int k = 0; k < a->noperands && a->noperands <= MAX_OPERANDS; k++)
            check_operand(c, a, &a->operand[k]);
    }
    c->at = -1;
    return c->broken == before;
}

/* ---- execution ------------------------------------------------------------------------------- */

/* A rank with several stages runs a microbatch once in each. Its first stage runs all that is to be
 * done; a further one runs again what is on all stages, with layers of its own. That has to find
 * everything as the first one did: a sum that both add to is not what it was. */
static bool runs_here(const Check *c, const Action *a)
{
    if (a->kind == ACT_phase || !(a->on & c->stages))
        return false;
    return !c->again || ((a->on & AT_MIDDLE) && a->kind != ACT_receive && a->kind != ACT_send);
}

static void run_range(Check *c, int from, int to)
{
    for (int i = from; i < to && c->broken < CHECK_TOLD; i++) {
        const Action *a = &c->prog->actions.data[i];
        c->at = i;
        if (a->kind != ACT_loop) {
            if (runs_here(c, a))
                run_action(c, a);
            continue;
        }
        const Ins *loop = c->loop_ins[a->loop];
        int end = c->prog->loops.data[a->loop].end;
        if (c->again && ir_is_staged(c->m, loop)) {
            i = end;
            continue;
        }
        for (int64_t r = next_iteration(&c->meaning, loop, -1); r >= 0;
             r = next_iteration(&c->meaning, loop, r)) {
            c->iteration[a->loop] = r;
            run_range(c, i + 1, end);
            if (has_chunks(c) && (int)a->loop == c->prog->pipe->loop) {
                c->again = true;
                run_range(c, i + 1, end);
                c->again = false;
            }
        }
        i = end;
    }
    c->at = -1;
}

static void check_program(Check *c)
{
    const Program *p = c->prog;
    c->loop_ins = NEW_ARRAY(c->tmp, const Ins *, p->loops.n + 1);
    c->shortened = NEW_ARRAY(c->tmp, bool, p->loops.n + 1);
    c->described = NEW_ARRAY(c->tmp, bool, 2 * p->actions.n + 2);
    c->iteration = NEW_ARRAY(c->tmp, int64_t, p->loops.n + 1);
    c->at = -1;
    if (!check_loops(c) || !check_operands(c))
        return;
    if (c->prog->queued)
        check_queue(c);
    else
        check_streams(c);
    check_pipe(c);
    check_beside(c);
    check_join(c);
    check_begins(c);
    if (mesh_ranks(c->m) > 1)
        check_ranks(c, true);
    if (check_unfolds(c->m))
        check_ranks(c, false);
    c->meaning = (Meaning){.m = c->m, .shortened = is_shortened, .runs = check_runs, .ctx = c};
    const int ranks =
        c->m->layout.pipeline.axis ? (int)mesh_size(c->m, c->m->layout.pipeline.axis) : 1;
    for (int rank = 0; rank < ranks; rank++) {
        if (!check_is_another(c, rank, ranks))
            continue;
        c->rank = rank;
        c->stages = check_stage_set(rank, ranks);
        choose_shortened(c);
        c->memory = memory_new(c->tmp);
        c->guarded = false;
        give_arguments(c);
        run_range(c, 0, (int)p->actions.n);
        if (c->broken < CHECK_TOLD)
            check_results(c);
    }
}

int plan_check(const Plan *p, FILE *out)
{
    int broken_in_all = 0;
    Check c = {.p = p, .m = p->module, .out = out, .at = -1};
    const char *why;
    check_bytes(&c);
    if (!ir_rounded_holds(c.m, &why))
        broken(&c, 10, "%s", why);
    broken_in_all = c.broken;
    for (int n = 0; n < PLAN_PROGRAMS && !broken_in_all; n++) {
        c.prog = p->programs[n];
        c.program = n;
        c.broken = 0;
        c.tmp = arena_new();
        if (c.prog) {
            check_program(&c);
            check_peak(&c);
        }
        arena_free(c.tmp);
        broken_in_all += c.broken;
    }
    if (!broken_in_all && p->device->target == TARGET_cuda) {
        c.prog = NULL;
        c.stages = 0;
        c.broken = 0;
        check_outside(&c);
        check_copies(&c);
        check_small(&c);
        check_near(&c);
        broken_in_all += c.broken;
    }
    return broken_in_all;
}
