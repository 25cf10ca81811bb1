/* schedule_experts.c - descriptors of calls that send rows to experts and fetch them back. */
#include "passes/library/product.h"
#include "plan/schedule/schedule.h"

static int64_t size_of(const Type *t, Name d)
{
    int at = type_find(t, d);
    return at < 0 ? 1 : t->dims[at].size;
}

static Action *call(Sched *s, const Ins *i, ActionKind kind)
{
    Operand op[5];
    int n = 0;
    for (uint32_t k = 0; k < i->nin; k++)
        op[n++] = operand_of(s, i->in[k], true, false);
    op[n++] = operand_of(s, i->out[0], false, true);
    for (int k = 0; k < n; k++)
        require_dense(s, i, &op[k]);
    return action_new(s, kind, i, n, op);
}

void call_top(Sched *s, const Ins *i, int home)
{
    (void)home;
    const Type *x = type_of(s->m, i->in[0]);
    int64_t n = size_of(x, i->attrs.dim.name);
    Action *a = call(s, i, ACT_top);
    a->top = (mg_top_desc){.dtype = abi_dtype(x->dtype),
                           .rows = type_elements(x) / n,
                           .n = n,
                           .top = i->attrs.to.size};
    price(s, a, ir_cost(s->m, i));
}

void call_experts(Sched *s, const Ins *i, int home)
{
    (void)home;
    static const ActionKind kinds[OP_count] = {[OP_slots] = ACT_slots,
                                               [OP_dispatch] = ACT_dispatch,
                                               [OP_combine] = ACT_combine,
                                               [OP_combine_weight] = ACT_combine_weight};
    bool slots = i->op == OP_slots, product = i->op == OP_combine_weight;
    const Type *choice = type_of(s->m, i->in[slots ? 0 : product ? 2 : 1]);
    const Type *rows = type_of(s->m, i->op == OP_dispatch ? i->in[0]
                                     : product            ? i->in[1]
                                                          : i->out[0]);
    mg_experts_desc d = {.dtype = abi_dtype(rows->dtype),
                         .positions = i->attrs.along.size,
                         .choices = i->attrs.over.n ? i->attrs.over.dim[0].size : 1,
                         .experts = i->attrs.dim.size,
                         .slots = i->attrs.to.size,
                         .inner = 1};
    d.groups = type_elements(choice) / (d.positions * d.choices);
    if (!slots)
        d.inner = type_elements(rows) / (d.groups * d.positions);
    Action *a = call(s, i, kinds[i->op]);
    a->experts = d;
    price(s, a, ir_cost(s->m, i));
}
