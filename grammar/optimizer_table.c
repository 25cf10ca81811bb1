/* optimizer_table.c - a step of the build: the optimizers that prelude.mg declares, as rows of C.
 *
 *     optimizer_table PRELUDE.mg OPTIMIZERS.def
 *
 * A declaration that lacks something ends the build, with its place in the prelude:
 *   - a setting has a range, or is a flag, and a default that is one of these numbers;
 *   - the rule reads each setting (or that of the rest does), and nothing that it is not given;
 *   - the rule gives p and each state its new value. */
#include "base/open.h"
#include "grammar/ast.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct Table {
    Arena *arena;
    Names *names;
    Diag *diag;
    const Ast *prelude;
    int wrong;
} Table;

__attribute__((format(printf, 3, 4))) static void wrong(Table *t, const Node *n, const char *fmt,
                                                        ...)
{
    int line, column;
    va_list ap;
    diag_locate(t->diag, n->at, &line, &column);
    fprintf(stderr, "%s:%d:%d: error: ", diag_path(t->diag, n->at.file), line, column);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    t->wrong++;
}

static const char *name_of(const Table *t, const Node *n)
{
    return name_str(t->names, n->name);
}

static bool is(const Table *t, const Node *n, const char *name)
{
    return !strcmp(name_of(t, n), name);
}

/* The first item of that kind and name, or NULL. */
static const Node *item(const Table *t, NodeKind kind, const char *name)
{
    for (size_t i = 0; i < t->prelude->items.n; i++) {
        const Node *n = t->prelude->items.data[i];
        if (n->kind == kind && is(t, n, name))
            return n;
    }
    return NULL;
}

static bool one_of(const char *name, const char *const *words)
{
    while (*words && strcmp(*words, name) != 0)
        words++;
    return *words;
}

/* The names that a rule is given, besides its settings and states: it may change the values. */
static const char *const values[] = {"p", "g", "lr", "step", NULL};
static const char *const facts[] = {"rate", "matrix", "rows", "cols", "all", "rank", NULL};
/* The settings that every optimizer may have: two numbers, and the parameter's weight decay. */
static const char *const everywhere[] = {"betas", "decay", NULL};

/* Is this the name of something that no rule changes? */
static bool fixed(const Table *t, const char *name)
{
    return one_of(name, facts) || one_of(name, everywhere) || item(t, N_RANGE, name);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* The numbers that a setting gives. */
static const char *const *numbers_of(Table *t, const Node *setting)
{
    static const char *const pair[] = {"beta1", "beta2", NULL};
    const char **own = NEW_ARRAY(t->arena, const char *, 2);
    own[0] = name_of(t, setting);
    return is(t, setting, "betas") ? pair : own;
}

static bool gives(Table *t, const Node *o, const char *number)
{
    for (size_t i = 0; i < o->list.n; i++)
        if (one_of(number, numbers_of(t, o->list.data[i])))
            return true;
    return false;
}

static void check_range(Table *t, const Node *range)
{
    const char *name = name_of(t, range);
    if (item(t, N_RANGE, name) != range || one_of(name, values) || one_of(name, facts) ||
        one_of(name, everywhere))
        wrong(t, range, "'%s' is there already", name_of(t, range));
    if (range->a && range->op == B_LT && range->a->number != 0)
        wrong(t, range->a, "a number may be above 0, and at least others");
    for (size_t i = 0; i < t->prelude->items.n; i++)
        if (t->prelude->items.data[i]->kind == N_OPTIMIZER &&
            gives(t, t->prelude->items.data[i], name_of(t, range)))
            return;
    wrong(t, range, "no optimizer has the setting '%s'", name_of(t, range));
}

static bool in_range(const Node *range, double d)
{
    if (!range->a)
        return d == 0 || d == 1;
    return (range->op == B_LT ? d > range->a->number : d >= range->a->number) &&
           (!range->b || d < range->b->number);
}

static void check_default(Table *t, const Node *setting, const Node *value, const char *number)
{
    const Node *range = item(t, N_RANGE, number);
    if (!range && strcmp(number, "decay") != 0)
        wrong(t, setting, "there is no `setting` that says the range of '%s'", number);
    else if (value->kind != N_NUMBER ||
             (range ? !in_range(range, value->number) : value->number != 0))
        wrong(t, setting, "the default of '%s' is no number of its range", number);
}

static void check_setting(Table *t, const Node *setting)
{
    if (setting->kind != N_OPTION || !setting->a) {
        wrong(t, setting, "the setting '%s' has no default", name_of(t, setting));
        return;
    }
    const char *const *number = numbers_of(t, setting);
    if (!number[1]) {
        check_default(t, setting, setting->a, number[0]);
        return;
    }
    if (setting->a->kind != N_TUPLE || setting->a->list.n != 2) {
        wrong(t, setting, "'betas' are two numbers");
        return;
    }
    for (int i = 0; i < 2; i++)
        check_default(t, setting, setting->a->list.data[i], number[i]);
}

/* ---- states ---------------------------------------------------------------------------------- */

typedef VEC(const Node *) Nodes;

static Nodes slots_of(const Table *t, const Node *o)
{
    Nodes slots = {0};
    for (size_t i = 0; i < o->more.n; i++)
        for (size_t k = 0; o->more.data[i]->kind == N_STATE && k < o->more.data[i]->list.n; k++)
            vec_push(t->arena, &slots, o->more.data[i]->list.data[k]);
    return slots;
}

/* The name in a condition `NAME == 0`, or `!= 0`; else "". */
static const char *compared(const Table *t, const Node *condition, BinaryOp op)
{
    bool fits = condition && condition->kind == N_BINARY && condition->op == op &&
                condition->a->kind == N_NAME && condition->b->kind == N_NUMBER &&
                condition->b->number == 0;
    return fits ? name_of(t, condition->a) : "";
}

static const char *shape_of(const Table *t, const Node *state, const Node *slot)
{
    if (slot->a)
        return is(t, slot->a, "rows") ? "ROWS" : "COLS";
    return !strcmp(compared(t, state->a, B_EQ), "matrix") ? "VECTOR" : "WHOLE";
}

static void check_state(Table *t, const Node *o, const Node *state)
{
    const char *number = compared(t, state->a, B_NE);
    if (state->a && strcmp(compared(t, state->a, B_EQ), "matrix") != 0 && !gives(t, o, number))
        wrong(t, state->a,
              "the condition of a state is `matrix == 0`, or `S != 0` of a setting of '%s'",
              name_of(t, o));
    for (size_t i = 0; i < state->list.n; i++) {
        const Node *slot = state->list.data[i];
        if (one_of(name_of(t, slot), values) || fixed(t, name_of(t, slot)))
            wrong(t, slot, "'%s' is there already", name_of(t, slot));
        if (slot->a && !is(t, slot->a, "rows") && !is(t, slot->a, "cols"))
            wrong(t, slot->a, "a state has all dims, [rows] or [cols]");
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool reads(const Table *t, const Node *n, const char *name)
{
    if (!n || n->kind == N_STATE)
        return false;
    bool found =
        (n->kind == N_NAME && is(t, n, name)) || reads(t, n->a, name) || reads(t, n->b, name);
    for (size_t i = 0; i < n->list.n; i++)
        found |= reads(t, n->list.data[i], name);
    for (size_t i = 0; i < n->more.n; i++)
        found |= reads(t, n->more.data[i], name);
    return found;
}

static bool known(const Nodes *names, Name name)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->data[i]->name == name)
            return true;
    return false;
}

/* Everything that is read is given, or was made before. */
static void check_reads(Table *t, const Node *o, const Nodes *made, const Node *n)
{
    if (!n)
        return;
    if (n->kind == N_NAME && !known(made, n->name) && !one_of(name_of(t, n), values) &&
        !one_of(name_of(t, n), facts) && !gives(t, o, name_of(t, n)))
        wrong(t, n, "the rule of '%s' reads '%s', which is no setting or state of it",
              name_of(t, o), name_of(t, n));
    check_reads(t, o, made, n->a);
    check_reads(t, o, made, n->b);
    for (size_t i = 0; i < n->list.n; i++)
        check_reads(t, o, made, n->list.data[i]);
}

static void make_name(Table *t, Nodes *made, const Node *n)
{
    if (fixed(t, name_of(t, n)))
        wrong(t, n, "'%s' is given; a rule does not change it", name_of(t, n));
    vec_push(t->arena, made, n);
}

static void check_statement(Table *t, const Node *o, Nodes *made, const Node *n)
{
    if (n->kind == N_STATE || n->kind == N_REST)
        return;
    if (n->kind != N_ASSIGN && n->kind != N_SEVERAL && n->kind != N_DIMS) {
        wrong(t, n, "a rule gives values to names, and no more");
        return;
    }
    check_reads(t, o, made, n->a);
    for (size_t i = 0; i < n->list.n; i++) {
        check_reads(t, o, made, n->list.data[i]->a);
        make_name(t, made, n->list.data[i]);
    }
    if (n->kind == N_ASSIGN)
        make_name(t, made, n);
}

static bool assigns(const Node *o, Name name)
{
    for (size_t i = 0; i < o->more.n; i++) {
        const Node *n = o->more.data[i];
        if (n->kind == N_ASSIGN && n->name == name)
            return true;
        for (size_t k = 0; n->kind == N_SEVERAL && k < n->list.n; k++)
            if (n->list.data[k]->name == name)
                return true;
    }
    return false;
}

static void check_rule(Table *t, const Node *o)
{
    static const char *const read[] = {"p", "g", "lr", NULL};
    const Nodes slots = slots_of(t, o);
    Nodes made = slots_of(t, o);
    for (size_t i = 0; i < slots.n; i++)
        for (size_t k = 0; k < i; k++)
            if (slots.data[k]->name == slots.data[i]->name)
                wrong(t, slots.data[i], "'%s' is there already", name_of(t, slots.data[i]));
    for (size_t i = 0; i < o->more.n; i++)
        check_statement(t, o, &made, o->more.data[i]);
    for (int i = 0; read[i]; i++)
        if (!reads(t, o, read[i]))
            wrong(t, o, "the rule of '%s' does not read '%s'", name_of(t, o), read[i]);
    if (!assigns(o, name_intern(t->names, "p")))
        wrong(t, o, "the rule of '%s' gives 'p' no new value", name_of(t, o));
    for (size_t i = 0; i < slots.n; i++)
        if (!assigns(o, slots.data[i]->name))
            wrong(t, slots.data[i], "the rule of '%s' gives '%s' no new value", name_of(t, o),
                  name_of(t, slots.data[i]));
}

/* ---- optimizers ------------------------------------------------------------------------------ */

/* The optimizer whose rule the rest follows: o, unless it says another. */
static const Node *rest_of(Table *t, const Node *o)
{
    for (size_t i = 0; i < o->more.n; i++)
        if (o->more.data[i]->kind == N_REST) {
            const Node *rest = item(t, N_OPTIMIZER, name_of(t, o->more.data[i]));
            if (!rest)
                wrong(t, o->more.data[i], "there is no optimizer '%s'",
                      name_of(t, o->more.data[i]));
            return rest ? rest : o;
        }
    return o;
}

/* Each setting is read, by the rule or by that of the rest, which has all that it reads. */
static void check_use(Table *t, const Node *o, const Node *rest)
{
    if (rest_of(t, rest) != rest)
        wrong(t, o, "'%s' is an optimizer of hidden matrices: it has no rule for the rest of '%s'",
              name_of(t, rest), name_of(t, o));
    for (size_t i = 0; i < o->list.n; i++)
        for (const char *const *n = numbers_of(t, o->list.data[i]); *n; n++)
            if (!reads(t, o, *n) && !reads(t, rest, *n))
                wrong(t, o->list.data[i], "no rule of '%s' reads its setting '%s'", name_of(t, o),
                      *n);
    for (size_t i = 0; i < rest->list.n; i++)
        for (const char *const *n = numbers_of(t, rest->list.data[i]); *n; n++)
            if (!gives(t, o, *n))
                wrong(t, o, "'%s' has no setting '%s', which the rule of its rest reads",
                      name_of(t, o), *n);
}

static void check_optimizer(Table *t, const Node *o)
{
    if (item(t, N_OPTIMIZER, name_of(t, o)) != o)
        wrong(t, o, "there are two optimizers '%s'", name_of(t, o));
    for (size_t i = 0; i < o->list.n; i++) {
        check_setting(t, o->list.data[i]);
        for (size_t k = 0; k < i; k++)
            if (o->list.data[k]->name == o->list.data[i]->name)
                wrong(t, o->list.data[i], "'%s' is a setting already", name_of(t, o->list.data[i]));
    }
    for (size_t i = 0; i < o->more.n; i++)
        if (o->more.data[i]->kind == N_STATE)
            check_state(t, o, o->more.data[i]);
    check_rule(t, o);
    check_use(t, o, rest_of(t, o));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_range(const Table *t, const Node *n, FILE *out)
{
    if (!n->a)
        fprintf(out, "FLAG(%s)\n", name_of(t, n));
    else
        fprintf(out, "NUMBER(%s, %s, %s)\n", name_of(t, n), n->op == B_LT ? "-1" : n->a->text,
                n->b ? n->b->text : "1e300");
}

static void put_settings(const Table *t, const Node *o, FILE *out)
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

static void put_states(const Table *t, const Node *o, FILE *out)
{
    const char *between = "";
    fputs("), STATES(", out);
    for (size_t i = 0; i < o->more.n; i++)
        for (size_t k = 0; o->more.data[i]->kind == N_STATE && k < o->more.data[i]->list.n; k++) {
            const Node *state = o->more.data[i], *slot = state->list.data[k];
            const char *number = compared(t, state->a, B_NE);
            fprintf(out, "%s{\"%s\", %s, %s%s}", between,
                    slot->text ? slot->text : name_of(t, slot), shape_of(t, state, slot),
                    *number ? "NUMBER_" : "ALWAYS", number);
            between = ", ";
        }
    fputs("))\n", out);
}

static void put_optimizer(Table *t, const Node *o, FILE *out)
{
    const bool matrices = reads(t, o, "rows") || reads(t, o, "cols") || reads(t, o, "all");
    fprintf(out, "OPTIMIZER(%s, %s, %s", name_of(t, o), matrices ? "MATRICES" : "ELEMENTS",
            name_of(t, rest_of(t, o)));
    put_settings(t, o, out);
    put_states(t, o, out);
}

/* As many settings and states as an optimizer has. */
static void put_most(const Table *t, FILE *out)
{
    size_t settings = 0, states = 0;
    for (size_t i = 0; i < t->prelude->items.n; i++) {
        const Node *o = t->prelude->items.data[i];
        if (o->kind != N_OPTIMIZER)
            continue;
        const Nodes slots = slots_of(t, o);
        settings = o->list.n > settings ? o->list.n : settings;
        states = slots.n > states ? slots.n : states;
    }
    fprintf(out, "MOST(%zu, %zu)\n", settings, states);
}

static void put_table(Table *t, FILE *out)
{
    static const char *const rows[] = {"NUMBER", "FLAG", "OPTIMIZER", "MOST", NULL};
    fputs("/* optimizers.def - made of grammar/prelude.mg by grammar/optimizer_table.c */\n", out);
    for (int i = 0; rows[i]; i++)
        fprintf(out, "#ifndef %s\n#define %s(...)\n#endif\n", rows[i], rows[i]);
    for (size_t i = 0; i < t->prelude->items.n; i++)
        if (t->prelude->items.data[i]->kind == N_RANGE)
            put_range(t, t->prelude->items.data[i], out);
    for (size_t i = 0; i < t->prelude->items.n; i++)
        if (t->prelude->items.data[i]->kind == N_OPTIMIZER)
            put_optimizer(t, t->prelude->items.data[i], out);
    put_most(t, out);
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

static bool check_table(Table *t)
{
    for (size_t i = 0; i < t->prelude->items.n; i++) {
        const Node *n = t->prelude->items.data[i];
        if (n->kind == N_RANGE)
            check_range(t, n);
        else if (n->kind == N_OPTIMIZER)
            check_optimizer(t, n);
    }
    return !t->wrong;
}

static bool make_table(Arena *a, const char *from, const char *to)
{
    size_t size = 0;
    const char *text = read_text(a, from, &size);
    if (!text) {
        fprintf(stderr, "%s: %s\n", from, open_error());
        return false;
    }
    Table t = {.arena = a, .names = names_new(a), .diag = diag_new(a, stderr, false)};
    t.prelude = parse_prelude(a, t.names, t.diag, diag_add_file(t.diag, from, text, size));
    if (!t.prelude || !check_table(&t))
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
