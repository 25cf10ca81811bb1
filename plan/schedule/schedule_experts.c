/* schedule_experts.c - descriptors of calls that send rows to experts and fetch them back. */
#include "passes/library/product.h"
#include "plan/schedule/schedule.h"
#include "runtime/grouped.h"

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

static int64_t homes_of(const Ins *i)
{
    if (i->op == OP_ends)
        return i->attrs.keys.name ? i->attrs.keys.size : 1;
    return i->attrs.sorted ? 1 : i->attrs.dim.size;
}

static int64_t experts_of_home(const Attrs *a)
{
    return a->each ? a->each : 1;
}

void call_experts(Sched *s, const Ins *i, int home)
{
    (void)home;
    static const ActionKind kinds[OP_count] = {[OP_slots] = ACT_slots,
                                               [OP_ends] = ACT_ends,
                                               [OP_dispatch] = ACT_dispatch,
                                               [OP_combine] = ACT_combine,
                                               [OP_combine_weight] = ACT_combine_weight};
    bool slots = OP_AMONG(i->op, OP_slots, OP_ends), product = i->op == OP_combine_weight;
    const Type *choice = type_of(s->m, i->in[slots ? 0 : product ? 2 : 1]);
    const Type *rows = type_of(s->m, i->op == OP_dispatch ? i->in[0]
                                     : product            ? i->in[1]
                                                          : i->out[0]);
    mg_experts_desc d = {.dtype = abi_dtype(rows->dtype),
                         .positions = i->attrs.along.size,
                         .choices = i->attrs.over.n ? i->attrs.over.dim[0].size : 1,
                         .homes = homes_of(i),
                         .slots = i->attrs.to.size,
                         .inner = 1};
    d.experts = i->op == OP_ends || i->attrs.sorted ? d.homes * i->attrs.dim.size
                                                    : d.homes * experts_of_home(&i->attrs);
    d.groups = type_elements(choice) / (d.positions * d.choices);
    if (!slots)
        d.inner = type_elements(rows) / (d.groups * d.positions);
    Action *a = call(s, i, kinds[i->op]);
    a->experts = d;
    price(s, a, ir_cost(s->m, i));
}

/* The first operand's rows, and the matrices, as passes/library/calls.c brings them in order. */
void call_grouped(Sched *s, const Ins *i, int home)
{
    (void)home;
    const bool weight = i->op == OP_grouped_weight, adds = ins_added(i) >= 0;
    const Type *z = type_of(s->m, i->in[0]), *ends = type_of(s->m, i->in[2]);
    const Type *y = type_of(s->m, weight ? i->in[1] : i->out[0]);
    Operand op[] = {operand_of(s, i->in[0], true, false), operand_of(s, i->in[1], true, false),
                    operand_of(s, i->in[2], true, false), operand_of(s, i->out[0], adds, true)};
    mg_grouped_desc d = {.dtype = abi_dtype(z->dtype),
                         .out = abi_dtype(type_of(s->m, i->out[0])->dtype),
                         .turned = !weight && grouped_turned(&i->attrs, type_of(s->m, i->in[1])),
                         .accumulate = adds,
                         .rows = i->attrs.along.size,
                         .experts = i->attrs.dim.size};
    d.groups = type_elements(ends) / i->attrs.to.size;
    d.k = type_elements(z) / (d.groups * d.rows);
    d.n = type_elements(y) / (d.groups * d.rows);
    for (int k = 0; k < 4; k++)
        require_dense(s, i, &op[k]);
    if (i->attrs.keys.name && i->attrs.keys.size != 1)
        ir_broken(s->m, i, "a rank has matrices of several homes");
    Action *a = action_new(s, weight ? ACT_grouped_weight : ACT_grouped, i, 4, op);
    a->grouped = d;
    needs_scratch(s, mg_grouped_scratch(&d, weight));
    price(s, a, ir_cost(s->m, i));
}
