/* propose.c - remedies that several parts of the compiler propose; see propose.h. */
#include "ir/propose.h"

#include <string.h>

bool propose_microbatch(Diag *d, const Layout *l, int64_t n)
{
    char option[64], *number = option + strlen("--microbatch ");
    snprintf(option, sizeof option, "--microbatch %lld", (long long)n);
    if (!l->microbatch_span.file)
        return diag_remedy_option(d, option, "%s", option);
    return diag_remedy(d, &(Remedy){1, {{l->microbatch_span, number}}}, "microbatch %s", number);
}

bool propose_size(Diag *d, const char *name, int64_t size)
{
    char option[256];
    snprintf(option, sizeof option, "-D %s=%lld", name, (long long)size);
    return diag_remedy_option(d, option, "%s", option);
}

/* One axis of n ranks, the others of `rest` together; the step is -1 or 1. */
static bool propose_other(Diag *d, const char *axis, int64_t n, int64_t size, int64_t rest,
                          int step)
{
    enum { FURTHEST = 4096 };
    for (int64_t k = n + step; k > 0 && k < n + FURTHEST && (step < 0 || k * rest <= size);
         k += step)
        if (size % (k * rest) == 0)
            return propose_size(d, axis, k);
    return false;
}

bool propose_ranks(Diag *d, const Module *m, Axes axes, int64_t size, int64_t each)
{
    int64_t all = mesh_size(m, axes) * each;
    bool told = false;
    for (size_t i = 0; i < m->layout.mesh.n; i++) {
        Axis a = m->layout.mesh.data[i];
        const char *name = name_str(m->names, a.name);
        for (int step = -1; step <= 1 && axes >> i & 1; step += 2)
            told |= propose_other(d, name, a.size, size, all / a.size, step);
    }
    return told;
}

bool propose_no_tree(Diag *d, const Train *t)
{
    return t->tree_span.file &&
           diag_remedy(d, &(Remedy){1, {{entry_with_comma(d, t->tree_span), ""}}},
                       "without reduce = tree");
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

Span entry_with_comma(const Diag *d, Span entry)
{
    size_t size;
    const char *text = diag_text(d, entry.file, &size);
    Span s = entry;
    while (s.begin && blank(text[s.begin - 1]))
        s.begin--;
    while (s.end < size && blank(text[s.end]))
        s.end++;
    char before = s.begin ? text[s.begin - 1] : 0, after = s.end < size ? text[s.end] : 0;
    if (before == ',')
        return (Span){entry.file, s.begin - 1, entry.end};
    if (after == ',') {
        for (s.end++; s.end < size && blank(text[s.end]);)
            s.end++;
        return (Span){entry.file, entry.begin, s.end};
    }
    if (before != '(' || after != ')')
        return entry;
    for (s.begin--; s.begin && blank(text[s.begin - 1]);)
        s.begin--;
    return (Span){entry.file, s.begin, s.end + 1};
}
