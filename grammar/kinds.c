/* kinds.c - `repeat layers at l`: which iterations are alike.
 *
 * In the body l is a number, so the compiler decides there what an iteration has: a condition, a
 * size, a factor. A body is seen by nothing but its own text (a block does not see the values of
 * its caller). So iterations can differ only in the numbers that are written with l: in each the
 * largest expressions that have l and numbers alone. Iterations in which all of these are equal are
 * of one kind. The order of kinds is then cut into runs: a period of kinds and how often it comes,
 * or a single iteration. The cut is the one with the fewest copies of the body, of those the one
 * with the fewest runs. */
#include "grammar/elab.h"

#include <string.h>

enum { ITERATIONS_MAX = 1024, COPIES_MAX = 256 };

/* An assignment of the body that gives a number to a new name. */
typedef struct Local {
    const Node *assign;
    Sym *sym;
} Local;

typedef struct Finder {
    Elab *e;
    Name number;        /* l */
    VEC(Name) assigned; /* in the body: not known to be numbers before it is elaborated, but */
    VEC(Local) locals;  /* these are */
} Finder;

static void add_names(Finder *f, const NodeList *names)
{
    for (size_t i = 0; i < names->n; i++)
        vec_push(f->e->arena, &f->assigned, names->data[i]->name);
}

static void find_assigned(Finder *f, const NodeList *body)
{
    for (size_t i = 0; i < body->n; i++) {
        const Node *n = body->data[i];
        if (n->kind == N_ASSIGN || n->kind == N_PARAM || n->kind == N_INSTANCE)
            vec_push(f->e->arena, &f->assigned, n->name);
        else if (n->kind == N_SEVERAL || n->kind == N_DIMS)
            add_names(f, &n->list);
        else if (n->kind == N_REPEAT || n->kind == N_SCAN)
            find_assigned(f, &n->more);
        if (n->kind == N_REPEAT && n->a)
            vec_push(f->e->arena, &f->assigned, n->a->name);
    }
}

/* How often the body assigns a name. */
static int assigned(const Finder *f, Name name)
{
    int n = 0;
    for (size_t i = 0; i < f->assigned.n; i++)
        n += f->assigned.data[i] == name;
    return n;
}

static bool is_number(const Finder *f, const Node *n);

static bool name_is_number(const Finder *f, Name name)
{
    if (name == f->number)
        return true;
    for (size_t i = 0; i < f->locals.n; i++)
        if (f->locals.data[i].assign->name == name)
            return true;
    if (assigned(f, name))
        return false;
    const Sym *s = find_local(f->e->frame, name);
    s = s ? s : map_find(&f->e->globals, name);
    return s && !s->gone &&
           (s->kind == SYM_CONST || s->kind == SYM_DIM ||
            (s->kind == SYM_VALUE && s->val.kind == VAL_NUMBER));
}

static bool call_is_number(const Finder *f, const Node *n)
{
    bool all = maps_numbers(text(f->e, n->name)) && !n->text;
    for (size_t i = 0; all && i < n->list.n; i++)
        all = is_number(f, n->list.data[i]);
    return all;
}

static bool is_number(const Finder *f, const Node *n)
{
    if (n->kind == N_NUMBER)
        return true;
    if (n->kind == N_NAME)
        return name_is_number(f, n->name);
    if (n->kind == N_PAREN || n->kind == N_NEG)
        return is_number(f, n->a);
    if (n->kind == N_BINARY)
        return is_number(f, n->a) && is_number(f, n->b);
    return n->kind == N_CALL && call_is_number(f, n);
}

static void find_locals(Finder *f, const NodeList *body)
{
    for (size_t i = 0; i < body->n; i++) {
        const Node *n = body->data[i];
        const Sym *before = find_local(f->e->frame, n->name);
        if (n->kind != N_ASSIGN || (before && !before->gone) || assigned(f, n->name) != 1 ||
            !is_number(f, n->a))
            continue;
        vec_push(f->e->arena, &f->locals, ((Local){n, NULL}));
    }
}

static bool mentions(const Finder *f, const Node *n)
{
    bool found = n->kind == N_NAME && n->name == f->number;
    found = found || (n->a && mentions(f, n->a)) || (n->b && mentions(f, n->b));
    for (size_t i = 0; !found && i < n->list.n; i++)
        found = mentions(f, n->list.data[i]);
    for (size_t i = 0; !found && i < n->more.n; i++)
        found = mentions(f, n->more.data[i]);
    return found;
}

/* ---- kinds -------------------------------------------------------------------------------- */

/* The numbers of one iteration, in the order of the text, and the expressions that they are of. */
typedef struct Numbers {
    VEC(Number) value;
    VEC(const Node *) of;
} Numbers;

static bool evaluate(const Finder *f, const Node *n, Numbers *out);

static bool evaluate_list(const Finder *f, const NodeList *list, Numbers *out)
{
    bool ok = true;
    for (size_t i = 0; ok && i < list->n; i++)
        ok = evaluate(f, list->data[i], out);
    return ok;
}

/* Of a select the side that is computed. */
static bool evaluate_select(const Finder *f, const Node *n, Numbers *out)
{
    const Val v = number_expr(f->e, n->list.data[0]);
    return v.kind == VAL_NUMBER && evaluate(f, n->list.data[0], out) &&
           evaluate(f, n->list.data[v.number.d != 0 ? 1 : 2], out);
}

/* False after an error. */
static bool evaluate(const Finder *f, const Node *n, Numbers *out)
{
    if (!mentions(f, n))
        return true;
    if (is_number(f, n)) {
        const Val v = number_expr(f->e, n);
        vec_push(f->e->arena, &out->value, v.number);
        vec_push(f->e->arena, &out->of, n);
        return v.kind == VAL_NUMBER;
    }
    bool chooses = n->kind == N_CALL && n->list.n == 3 && !strcmp(text(f->e, n->name), "select");
    if (chooses && is_number(f, n->list.data[0]))
        return evaluate_select(f, n, out);
    return (!n->a || evaluate(f, n->a, out)) && (!n->b || evaluate(f, n->b, out)) &&
           evaluate_list(f, &n->list, out) && evaluate_list(f, &n->more, out);
}

static bool alike(const Numbers *a, const Numbers *b)
{
    bool same = a->value.n == b->value.n;
    for (size_t i = 0; same && i < a->value.n; i++) {
        const Number x = a->value.data[i], y = b->value.data[i];
        same = x.exact == y.exact && x.rows == y.rows && (x.exact ? x.i == y.i : x.d == y.d);
    }
    return same;
}

/* l, and the numbers that the body gives names to, as they are in iteration i. */
static bool evaluate_iteration(Finder *f, const Node *n, Sym *l, int64_t i, Numbers *out)
{
    size_t local = 0;
    bool ok = true;
    l->val = (Val){.kind = VAL_NUMBER, .number = number_int(i)};
    for (size_t k = 0; ok && k < n->more.n; k++) {
        const Node *statement = n->more.data[k];
        ok = evaluate(f, statement, out);
        if (ok && local < f->locals.n && f->locals.data[local].assign == statement)
            f->locals.data[local++].sym->val = number_expr(f->e, statement->a);
    }
    return ok;
}

static Sym *declare_number(Elab *e, Name name, Span at)
{
    Sym *s = declare(e, SYM_CONST, name, at);
    if (s)
        s->ready = true;
    return s;
}

/* kind[i] of iteration i: the first iteration that it is like. */
static bool find_kinds(Finder *f, const Node *n, int64_t iterations, Numbers *of, int64_t *kind)
{
    Sym *l = declare_number(f->e, n->a->name, n->a->at);
    bool ok = l != NULL;
    for (size_t i = 0; i < f->locals.n; i++) {
        Local *x = &f->locals.data[i];
        x->sym = declare_number(f->e, x->assign->name, x->assign->at);
        ok &= x->sym != NULL;
    }
    for (int64_t i = 0; ok && i < iterations; i++) {
        ok = evaluate_iteration(f, n, l, i, &of[i]);
        for (kind[i] = 0; kind[i] < i && !alike(&of[kind[i]], &of[i]);)
            kind[i]++;
    }
    if (l)
        l->gone = true;
    for (size_t i = 0; i < f->locals.n; i++)
        if (f->locals.data[i].sym)
            f->locals.data[i].sym->gone = true;
    return ok;
}

/* ---- runs --------------------------------------------------------------------------------- */

/* The best cut from an iteration on. */
typedef struct Cut {
    Run run;
    int64_t copies, runs;
} Cut;

static void take(Cut *best, Run r, const Cut *rest)
{
    Cut c = {r, r.period + rest->copies, 1 + rest->runs};
    if (!best->runs || c.copies < best->copies || (c.copies == best->copies && c.runs < best->runs))
        *best = c;
}

static bool again(const int64_t *kind, int64_t at, int64_t period)
{
    for (int64_t i = 0; i < period; i++)
        if (kind[at + i] != kind[at + i - period])
            return false;
    return true;
}

static void cut(Elab *e, const int64_t *kind, int64_t n, RunList *out)
{
    Cut *from = NEW_ARRAY(e->arena, Cut, (size_t)n + 1);
    for (int64_t first = n - 1; first >= 0; first--) {
        take(&from[first], (Run){first, 1, 1}, &from[first + 1]);
        for (int64_t period = 1; first + 2 * period <= n; period++)
            for (int64_t count = 2, at = first + period;
                 at + period <= n && again(kind, at, period); at += period, count++)
                take(&from[first], (Run){first, period, count}, &from[at + period]);
    }
    for (int64_t at = 0; at < n; at += from[at].run.period * from[at].run.count)
        vec_push(e->arena, out, from[at].run);
}

bool alike_runs(Elab *e, const Node *n, int64_t iterations, RunList *out)
{
    Finder f = {.e = e, .number = n->a->name};
    if (iterations > ITERATIONS_MAX) {
        fail(e, n->a->at, 229, "%lld iterations with a number; the limit is %d",
             (long long)iterations, ITERATIONS_MAX);
        help(e, "index(%s) is a tensor of the numbers", text(e, n->name));
        return false;
    }
    find_assigned(&f, &n->more);
    find_locals(&f, &n->more);
    int64_t *kind = NEW_ARRAY(e->arena, int64_t, (size_t)iterations), copies = 0;
    Numbers *of = NEW_ARRAY(e->arena, Numbers, (size_t)iterations);
    memset(of, 0, (size_t)iterations * sizeof *of);
    if (!find_kinds(&f, n, iterations, of, kind))
        return false;
    cut(e, kind, iterations, out);
    for (size_t i = 0; i < out->n; i++)
        copies += out->data[i].period;
    if (copies <= COPIES_MAX)
        return true;
    fail(e, n->a->at, 229, "the body of this repeat would be written %lld times; the limit is %d",
         (long long)copies, COPIES_MAX);
    for (size_t i = 0; i < of[0].of.n; i++)
        note(e, of[0].of.data[i]->span, "iterations are of one kind where this is equal");
    return false;
}

/* ---- the body ----------------------------------------------------------------------------- */

/* The name of a repeat, "model.layers.{}", with what iteration `copy` of a run has in place of {}.
 */
static const char *numbered_name(Elab *e, const char *name, const Run *r, int64_t copy)
{
    const char *hole = strstr(name, "{}"), *number;
    const long long first = r->first + copy, step = r->period;
    if (r->count == 1)
        number = arena_printf(e->arena, "%lld", first);
    else if (first == 0 && step == 1)
        return name;
    else
        number = arena_printf(e->arena, "{%lld+%lldi}", first, step);
    return arena_printf(e->arena, "%.*s%s%s", (int)(hole - name), name, number, hole + 2);
}

void hide_names(Elab *e, const Node *n, size_t before)
{
    Frame *f = e->frame;
    for (size_t i = before; i < f->order.n; i++) {
        Sym *s = f->order.data[i];
        if (n->kind == N_SCAN && s->kind == SYM_VALUE && !s->gone)
            continue;
        s->gone = true;
        s->span = n->at;
    }
}

/* The body, as iteration `copy` of a run has it. */
static void iteration(Elab *e, const Node *n, const Run *r, int64_t copy)
{
    Val none = {.kind = VAL_POISON};
    if (n->kind == N_REPEAT && n->a) {
        Sym *s = declare_number(e, n->a->name, n->a->at);
        if (s)
            s->val = (Val){.kind = VAL_NUMBER, .number = number_int(r->first + copy)};
    }
    statements(e, &n->more, &none);
}

void write_body(Elab *e, const Node *n, const Run *r, Copies *c)
{
    Frame *f = e->frame;
    const char *path = f->path, *external = f->external;
    const char *word =
        n->text ? external_text(e, n) : arena_printf(e->arena, "%s.{}", text(e, n->name));
    const size_t before = f->order.n;
    for (int64_t k = 0; k < r->period; k++) {
        const char *own = text(e, n->name);
        if (c->all > 1)
            own = arena_printf(e->arena, "%s_%lld", own, (long long)c->made);
        if (k)
            hide_names(e, n, before);
        f->path = path_join(e, path, own);
        if (n->kind == N_REPEAT)
            f->external = path_join(e, external, n->a ? numbered_name(e, word, r, k) : word);
        e->b.path = name_intern(e->names, f->path);
        if (strlen(f->path) > PATH_MAX_BYTES || strlen(f->external) > PATH_MAX_BYTES)
            fail(e, n->at, 256, "the path to this %s is longer than %d bytes",
                 n->kind == N_SCAN ? "scan" : "repeat", PATH_MAX_BYTES);
        iteration(e, n, r, k);
        c->made++;
    }
    f->path = path;
    f->external = external;
}
