/* schedule_name.c - what an action is called: in traces, in progress, when a number is not finite.
 *
 * The path of its block, then the name of its result in the source. Products without one are named
 * after the weight: "layers.mlp.gate", in the backward part "layers.mlp.gate.dx"; those that make a
 * weight's gradient "dw". Updates are "update", unnamed kernels are named after their last op. A
 * name that comes again gets a number. */
#include "plan/schedule/schedule.h"
#include "passes/view.h"

#include <string.h>

/* The parameter that v is, or is a slice of: its name, else 0. */
static Name parameter_name(const Sched *s, Value v)
{
    const Fn *f = s->prog->fn;
    Value stacked;
    v = view_of(s->m, v).root;
    Name name = s->m->values.data[v].name;
    while (slice_loop(s->m, v, &stacked))
        v = view_of(s->m, stacked).root;
    for (size_t k = 0; k < f->args.n; k++)
        if (f->body->args.data[k] == v && f->args.data[k].role == ARG_param)
            return name ? name : s->m->values.data[v].name;
    return 0;
}

static const char *product_name(const Sched *s, const Ins *i)
{
    for (int k = 0; k < 2; k++) {
        Name n = parameter_name(s, i->in[k]);
        if (n)
            return i->backward ? arena_printf(s->m->arena, "%s.dx", name_str(s->m->names, n))
                               : name_str(s->m->names, n);
    }
    return i->backward ? "dw" : op_info[i->op].name;
}

static bool updates(const Sched *s, const Operand *op, int noperands)
{
    for (int k = 0; k < noperands; k++)
        for (size_t t = 0; op[k].write && t < s->p->tensor_buffer.n; t++)
            if ((uint32_t)s->p->tensor_buffer.data[t] == op[k].at.buffer)
                return true;
    return false;
}

static const char *own_name(const Sched *s, const Ins *i, const Operand *op, int noperands)
{
    if (updates(s, op, noperands))
        return "update";
    const char *op_name = op_info[i->op].name;
    for (uint32_t k = 0; k < i->nout; k++) {
        const char *name = name_str(s->m->names, s->m->values.data[i->out[k]].name);
        if (*name && strcmp(name, op_name) != 0)
            return name;
    }
    return op_is_product(i->op) ? product_name(s, i) : op_name;
}

static bool taken(const Sched *s, const char *name)
{
    for (size_t k = 0; k < s->prog->actions.n; k++)
        if (!strcmp(name_str(s->m->names, s->prog->actions.data[k].name), name))
            return true;
    return false;
}

Name action_name(const Sched *s, const Ins *i, const Operand *op, int noperands)
{
    const char *path = i ? name_str(s->m->names, i->path) : "";
    const char *own = i ? own_name(s, i, op, noperands) : "move";
    const char *base = *path ? arena_printf(s->m->arena, "%s.%s", path, own) : own, *name = base;
    for (int n = 2; taken(s, name); n++)
        name = arena_printf(s->m->arena, "%s_%d", base, n);
    return name_intern(s->m->names, name);
}
