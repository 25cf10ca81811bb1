/* precisions.c - a search in each of several precisions: a layout's text has none, and the program
 * of one rank, by which points are bounded, has another one in each. See precisions.h. */
#include "compiler/search/precisions.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "grammar/words.h"

Exit precisions_read(Session *s, Precisions *p)
{
    *p = (Precisions){0};
    if (s->o->precisions && s->o->precision) {
        diag_error(s->diag, (Span){0}, 0, "--precision beside --precisions");
        diag_help(s->diag, "--precision is of one alone");
        return EXIT_usage;
    }
    for (const char *at = s->o->precisions; at;) {
        const size_t n = strcspn(at, ",");
        bool twice = false;
        const char *name = arena_strndup(s->arena, at, n);
        for (int k = 0; k < p->n; k++)
            twice |= !strcmp(p->name[k], name);
        if (twice || !option_allows("precision", name)) {
            diag_error(s->diag, (Span){0}, 0, "--precisions '%s': '%s' is %s", s->o->precisions,
                       name, twice ? "there twice" : "no precision");
            diag_help(s->diag, "--precisions bf16,fp8 seeks the faster of both");
            return EXIT_usage;
        }
        p->name[p->n++] = name;
        at = at[n] ? at + n + 1 : NULL;
    }
    return EXIT_done;
}

Exit precisions_allowed(Session *s, const Ast *ast, const Node *layout, Precisions *p)
{
    const Node *line = NULL;
    const char *only = s->o->precision, *all = "";
    bool among = false;
    *p = (Precisions){0};
    for (size_t i = 0; i < layout->more.n; i++) {
        const Node *n = layout->more.data[i];
        if (n->kind == N_SETTING &&
            setting_named(name_str(ast->names, n->name)) == SETTING_precision)
            line = n;
    }
    for (size_t i = 0; line && i < line->list.n; i++) {
        const Node *n = line->list.data[i];
        const char *name = n->kind == N_NAME ? name_str(ast->names, n->name) : "";
        if (p->n == PRECISIONS || !option_allows("precision", name))
            continue;
        among |= only && !strcmp(only, name);
        all = arena_printf(s->arena, "%s%s%s", all, p->n ? ", " : "", name);
        p->name[p->n++] = name;
    }
    if (!only || !p->n)
        return EXIT_done;
    if (among) {
        *p = (Precisions){.n = 1, .name = {only}};
        return EXIT_done;
    }
    diag_error(s->diag, line->span, 591, "--precision %s, and the layout allows %s", only, all);
    diag_help(s->diag, "leave the option out, or add %s to the line", only);
    return EXIT_source;
}

static double seconds_of(const Search *r)
{
    return r->best < 0 ? INFINITY : r->all.data[r->best].tried[TRY_whole].seconds;
}

Exit precisions_run(Searching *q, Precisions *p, int64_t ranks, Searching **chosen, Search *r)
{
    Arena *a = q->s->arena;
    const char *told = "";
    bool stopped = false;
    for (int k = 0; k == 0 || k < p->n; k++) {
        Searching *of = q;
        if (k) { /* what was found of it points to it */
            of = NEW(a, Searching);
            *of = *q;
            of->precision = p->name[k];
            const Exit wrong = searching_begin(of);
            if (wrong)
                return wrong;
        }
        const Search found = searching_run(of, ranks);
        const double seconds = seconds_of(&found);
        if (!k || seconds < seconds_of(r)) {
            *chosen = of;
            *r = found;
        }
        stopped |= found.stopped;
        told = arena_printf(a, "%s%s%s %s", told, k ? ", " : "", p->n ? p->name[k] : "",
                            !isinf(seconds) ? text_seconds(a, seconds)
                            : found.stopped ? "stopped before its first plan"
                                            : "has no layout");
    }
    r->stopped = stopped;
    if (p->n > 1 && r->best >= 0)
        p->told =
            arena_printf(a, "%s: the fastest is for --precision %s", told, (*chosen)->precision);
    return EXIT_done;
}
