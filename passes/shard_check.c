/* shard_check.c - can the layout's rules be followed by this program? Each dim that is split has to
 * come out even; see shard.h. */
#include "passes/shard.h"

static const LayoutRule *rule_of(const Module *m, Name dim, Axes axes)
{
    const LayoutRule *first = NULL;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int k = 0; k < rule->n && !first; k++)
            if (!rule->of && rule->dim == dim && axes >> rule->axis[k] & 1)
                first = rule;
    }
    return first;
}

static const char *names_of(const Module *m, Axes axes)
{
    const char *all = "";
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (axes >> i & 1)
            all = arena_printf(m->arena, "%s%s%s", all, *all ? ", " : "",
                               name_str(m->names, m->layout.mesh.data[i].name));
    return all;
}

static void uneven(const Module *m, Dim d, Axes axes)
{
    const LayoutRule *rule = rule_of(m, d.name, axes);
    int64_t ranks = mesh_size(m, axes), most = ranks < d.size ? ranks : d.size;
    diag_error(m->diag, rule ? rule->span : (Span){0}, 332,
               "'%s' of %lld is not split evenly on %s, which is %lld ranks",
               name_str(m->names, d.name), (long long)d.size, names_of(m, axes), (long long)ranks);
    while (d.size % most)
        most--;
    int64_t above = (d.size + ranks - 1) / ranks * ranks;
    diag_help(m->diag, "%lld ranks for it, or -D %s=%lld", (long long)most,
              name_str(m->names, d.name), (long long)above);
}

bool shard_is_even(const Module *m, Arena *tmp)
{
    VEC(Name) told = {0};
    for (size_t v = 1; v < m->values.n; v++) {
        const Type *t = &m->values.data[v].type;
        bool fixed[MAX_RANK] = {false};
        Axes axes[MAX_RANK];
        mesh_walk(m, t->dims, t->rank, fixed, axes);
        for (int i = 0; i < t->rank; i++) {
            bool known = t->dims[i].size % mesh_size(m, axes[i]) == 0;
            for (size_t k = 0; k < told.n && !known; k++)
                known = told.data[k] == t->dims[i].name;
            if (known)
                continue;
            vec_push(tmp, &told, t->dims[i].name);
            uneven(m, t->dims[i], axes[i]);
        }
    }
    return told.n == 0;
}
