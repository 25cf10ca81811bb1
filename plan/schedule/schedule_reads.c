/* schedule_reads.c - who reads what of a value; see schedule.h. */
#include "plan/schedule/schedule.h"
#include "passes/view.h"

/* Does anything in a region, or in the regions in it, read v, itself or through a view? */
bool region_reads(const Module *m, const Region *r, Value v)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        for (uint32_t k = 0; k < i->nin; k++)
            if (view_root(m, i->in[k]) == v)
                return true;
        if (i->op == OP_repeat && region_reads(m, i->body, v))
            return true;
    }
    for (size_t k = 0; k < r->results.n; k++)
        if (view_root(m, r->results.data[k]) == v)
            return true;
    return false;
}

Part part_of(const Module *m, Value v)
{
    View w = view_of(m, v);
    const Type *t = type_of(m, v);
    Part part = {w.root, w.offset, w.offset + 1};
    for (int i = 0; i < t->rank; i++)
        part.to += (t->dims[i].size - 1) * w.stride[i];
    return part;
}

bool part_touches(const Module *m, Value v, const Part *part)
{
    if (view_root(m, v) != part->root)
        return false;
    Part of = part_of(m, v);
    return of.from < part->to && part->from < of.to;
}

/* Of the instructions alone. */
static int last_instruction(const Module *m, const Region *r, const Part *part)
{
    for (size_t n = r->ins.n; n-- > 0;) {
        const Ins *i = r->ins.data[n];
        for (uint32_t k = 0; k < i->nin && !op_is(i->op, VIEW); k++)
            if (part_touches(m, i->in[k], part))
                return (int)n;
        if (i->op == OP_repeat && region_reads(m, i->body, part->root))
            return (int)n;
    }
    return -1;
}

int last_read(const Module *m, const Region *r, const Part *part, int64_t but)
{
    for (size_t k = 0; k < r->results.n; k++)
        if ((int64_t)k != but && part_touches(m, r->results.data[k], part))
            return (int)r->ins.n;
    return last_instruction(m, r, part);
}
