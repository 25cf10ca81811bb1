/* emit_gpu.c - what only a GPU's program has: the sets of axes of its collectives, and the memory
 * beside the arena. */
#include "codegen/emit/emit.h"
#include "plan/outside.h"

/* The number of a set of axes, or -1: there are too many. */
static int add_axes(Axes *groups, int *n, Axes axes)
{
    for (int i = 0; i < *n; i++)
        if (groups[i] == axes)
            return i;
    if (*n == MG_GROUPS_MAX)
        return -1;
    groups[*n] = axes;
    return (*n)++;
}

/* The sets of axes of collectives, in the order of their first use. */
void emit_groups(const Emitter *e)
{
    Program *const *const all = e->p->programs;
    Axes groups[MG_GROUPS_MAX];
    uint64_t copied = 0, small = 0;
    int n = 0;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; all[k] && i < all[k]->actions.n; i++) {
            const Action *a = &all[k]->actions.data[i];
            const int g = action_sends(a) ? add_axes(groups, &n, a->comm.axes) : -1;
            copied |= g >= 0 && a->comm.piece ? (uint64_t)1 << g : 0;
            small |= g >= 0 && a->comm.small ? (uint64_t)1 << g : 0;
        }
    fprintf(e->out, "    .collectives = &mg_nccl,\n    .ngroups = %d,\n    .groups = {", n);
    for (int i = 0; i < n; i++)
        fprintf(e->out, "%s%u", i ? ", " : "", groups[i]);
    fputs(n ? "},\n" : "0},\n", e->out);
    if (e->p->device->collectives == COLLECTIVES_unordered)
        fputs("    .unordered = true,\n", e->out);
    if (copied)
        fprintf(e->out, "    .by_copies = %llu, .piece = %lld,\n", (unsigned long long)copied,
                (long long)e->p->outside.piece);
    if (small)
        fprintf(e->out, "    .small = %llu,\n", (unsigned long long)small);
}

/* The memory beside the arena, by what takes it. */
void emit_outside(const Emitter *e)
{
    const Outside *o = &e->p->outside;
    fputs("/* Memory of the GPU beside the arena. */\nstatic const mg_outside outside[] = {\n",
          e->out);
    for (int i = 0; i < OUT_count; i++) {
        const mg_links *l = &o->links[i];
        if (!o->bytes[i])
            continue;
        fprintf(e->out, "    {\"%s\", %lld, %s, {%lld, %lld, %lld, %lld, %lld, %s}},\n",
                outside_name((OutsideItem)i), (long long)o->bytes[i],
                i == OUT_context ? "true" : "false", (long long)l->comms, (long long)l->near,
                (long long)l->far, (long long)l->pools, (long long)l->switched,
                l->small ? "true" : "false");
    }
    fputs("};\n\n", e->out);
}
