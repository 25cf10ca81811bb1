/* optimizer_table.c - a step of the build: the optimizers that prelude.mg declares, as rows of C.
 *
 *     optimizer_table PRELUDE.mg OPTIMIZERS.def
 *
 * A declaration that lacks something ends the build, with its place in the prelude
 * (optimizer_check.h). */
#include "base/open.h"
#include "grammar/optimizer_check.h"

#include <stdlib.h>
#include <string.h>

static const char *name_of(const Optimizers *t, const Node *n)
{
    return name_str(t->names, n->name);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_range(const Optimizers *t, const Node *n, FILE *out)
{
    if (!n->a)
        fprintf(out, "FLAG(%s)\n", name_of(t, n));
    else
        fprintf(out, "NUMBER(%s, %s, %s)\n", name_of(t, n), n->op == B_LT ? "-1" : n->a->text,
                n->b ? n->b->text : "1e300");
}

static void put_settings(const Optimizers *t, const Node *o, FILE *out)
{
    fputs(", TAKES(", out);
    for (size_t i = 0; i < o->list.n; i++) {
        const Node *value = o->list.data[i]->a;
        fprintf(out, "%s{OPTION_%s, {", i ? ", " : "", name_of(t, o->list.data[i]));
        if (value->kind == N_TUPLE)
            fprintf(out, "%s, %s}}", value->list.data[0]->text, value->list.data[1]->text);
        else
            fprintf(out, "%s}}", value->text);
    }
}

static void put_states(const Optimizers *t, const Node *o, FILE *out)
{
    static const char *const shapes[] = {"WHOLE", "VECTOR", "ROWS", "COLS", "ONE"};
    const OptimizerSlots slots = optimizer_slots(t, o);
    fputs("), STATES(", out);
    for (size_t i = 0; i < slots.n; i++) {
        const OptimizerSlot *s = &slots.data[i];
        fprintf(out, "%s{\"%s\", %s, %s%s, %.17g}", i ? ", " : "", s->slot, shapes[s->shape],
                *s->when ? "NUMBER_" : "ALWAYS", s->when, s->first);
    }
    fputs("))\n", out);
}

static void put_optimizer(const Optimizers *t, const Node *o, FILE *out)
{
    fprintf(out, "OPTIMIZER(%s, %s, %s", name_of(t, o),
            optimizer_sums(t, o) ? "MATRICES" : "ELEMENTS", name_of(t, optimizer_rest(t, o)));
    put_settings(t, o, out);
    put_states(t, o, out);
}

static void put_table(const Optimizers *t, FILE *out)
{
    static const char *const rows[] = {"NUMBER", "FLAG", "OPTIMIZER", NULL};
    fputs("/* optimizers.def - made of grammar/prelude.mg by grammar/optimizer_table.c */\n", out);
    for (int i = 0; rows[i]; i++)
        fprintf(out, "#ifndef %s\n#define %s(...)\n#endif\n", rows[i], rows[i]);
    for (size_t i = 0; i < t->ast->items.n; i++)
        if (t->ast->items.data[i]->kind == N_RANGE)
            put_range(t, t->ast->items.data[i], out);
    for (size_t i = 0; i < t->ast->items.n; i++)
        if (t->ast->items.data[i]->kind == N_OPTIMIZER)
            put_optimizer(t, t->ast->items.data[i], out);
    for (int i = 0; rows[i]; i++)
        fprintf(out, "#undef %s\n", rows[i]);
}

/* ---- the file -------------------------------------------------------------------------------- */

static const char *read_text(Arena *a, const char *path, size_t *size)
{
    FILE *in = open_file(path);
    if (!in)
        return NULL;
    VEC(char) text = {0};
    for (int c; (c = fgetc(in)) != EOF;)
        vec_push(a, &text, (char)c);
    vec_push(a, &text, 0);
    fclose(in);
    *size = text.n - 1;
    return text.data;
}

static bool make_table(Arena *a, const char *from, const char *to)
{
    size_t size = 0;
    const char *text = read_text(a, from, &size);
    if (!text) {
        fprintf(stderr, "%s: %s\n", from, open_error());
        return false;
    }
    Optimizers t = {.arena = a, .names = names_new(a), .diag = diag_new(a, stderr, false)};
    t.ast = mg_parse(a, t.names, t.diag, diag_add_file(t.diag, from, text, size));
    if (!t.ast || !optimizers_hold(&t))
        return false;
    FILE *out = fopen(to, "w");
    if (out)
        put_table(&t, out);
    if (out && fclose(out) == 0)
        return true;
    perror(to);
    return false;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("optimizer_table PRELUDE.mg OPTIMIZERS.def\n", stderr);
        return 2;
    }
    Arena *a = arena_new();
    const bool made = make_table(a, argv[1], argv[2]);
    arena_free(a);
    return !made;
}
