/* optimizer_check.c - what a declaration of an optimizer says, and what it lacks. */
#include "grammar/optimizer_check.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { INCOMPLETE = 109, UNKNOWN = 201, TAKEN = 202 }; /* codes of compiler/errors.def */
enum { SLOT_NAME_MAX = 64 };                           /* in bytes */

__attribute__((format(printf, 4, 5))) static void wrong(const Optimizers *t, const Node *n,
                                                        int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_error(t->diag, n->at, code, "%s", arena_vprintf(t->arena, fmt, ap));
    va_end(ap);
}

static const char *name_of(const Optimizers *t, const Node *n)
{
    return name_str(t->names, n->name);
}

static bool is(const Optimizers *t, const Node *n, const char *name)
{
    return !strcmp(name_of(t, n), name);
}

/* The first item of that kind and name, or NULL. */
static const Node *item(const Optimizers *t, NodeKind kind, const char *name)
{
    const Ast *const both[] = {t->prelude, t->ast};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; both[k] && i < both[k]->items.n; i++) {
            const Node *n = both[k]->items.data[i];
            if (n->kind == kind && is(t, n, name))
                return n;
        }
    return NULL;
}

const Node *optimizer_range(const Optimizers *t, const char *number)
{
    return item(t, N_RANGE, number);
}

static bool one_of(const char *name, const char *const *words)
{
    while (*words && strcmp(*words, name) != 0)
        words++;
    return *words;
}

/* The names that a rule is given, besides its settings and states: it may change the values. */
static const char *const values[] = {"p", "g", "lr", "step", NULL};
static const char *const facts[] = {"matrix", "rows", "cols", "all", "rank", NULL};
/* The settings that every optimizer may have: two numbers, and the parameter's weight decay. */
static const char *const everywhere[] = {"betas", "decay", NULL};

/* ---- settings -------------------------------------------------------------------------------- */

/* The numbers that a setting gives. */
static const char *const *numbers_of(const Optimizers *t, const Node *setting)
{
    static const char *const pair[] = {"beta1", "beta2", NULL};
    const char **own = NEW_ARRAY(t->arena, const char *, 2);
    own[0] = name_of(t, setting);
    return is(t, setting, "betas") ? pair : own;
}

static bool gives(const Optimizers *t, const Node *o, const char *number)
{
    for (size_t i = 0; i < o->list.n; i++)
        if (one_of(number, numbers_of(t, o->list.data[i])))
            return true;
    return false;
}

/* Is this the name of something that the rule does not change? */
static bool fixed(const Optimizers *t, const Node *o, const char *name)
{
    return one_of(name, facts) || one_of(name, everywhere) || gives(t, o, name);
}

static void check_range(const Optimizers *t, const Node *range)
{
    const char *name = name_of(t, range);
    const bool taken = item(t, N_RANGE, name) != range || one_of(name, values) ||
                       one_of(name, facts) || one_of(name, everywhere);
    if (taken)
        wrong(t, range, TAKEN, "'%s' is there already", name_of(t, range));
    else if (range->a && range->op == B_LT && range->a->number != 0)
        wrong(t, range->a, INCOMPLETE, "a number may be above 0, and at least others");
    for (size_t i = 0; i < t->ast->items.n; i++)
        if (taken || (t->ast->items.data[i]->kind == N_OPTIMIZER &&
                      gives(t, t->ast->items.data[i], name_of(t, range))))
            return;
    wrong(t, range, INCOMPLETE, "no optimizer has the setting '%s'", name_of(t, range));
}

bool optimizer_literal(const Node *n, double *value)
{
    const bool negative = n->kind == N_NEG;
    n = negative ? n->a : n;
    *value = negative ? -n->number : n->number;
    return n->kind == N_NUMBER;
}

static bool in_range(const Node *range, double d)
{
    if (!range->a)
        return d == 0 || d == 1;
    return (range->op == B_LT ? d > range->a->number : d >= range->a->number) &&
           (!range->b || d < range->b->number);
}

static void check_default(const Optimizers *t, const Node *setting, const Node *value,
                          const char *number)
{
    const Node *range = item(t, N_RANGE, number);
    const bool decay = !strcmp(number, "decay");
    double d;
    if (!range && !decay && !t->prelude)
        wrong(t, setting, INCOMPLETE, "there is no `setting` that says the range of '%s'", number);
    else if (!optimizer_literal(value, &d))
        wrong(t, setting, INCOMPLETE, "the default of '%s' is no number of its range", number);
    else if (decay ? d != 0 : range && !in_range(range, d))
        wrong(t, setting, INCOMPLETE, "the default of '%s' is no number of its range%s", number,
              decay ? ": it is 0, and a train block says more" : "");
}

static void check_setting(const Optimizers *t, const Node *setting)
{
    if (setting->kind != N_OPTION || !setting->a || setting->flag) {
        wrong(t, setting, INCOMPLETE, "the setting '%s' has no default", name_of(t, setting));
        return;
    }
    if (one_of(name_of(t, setting), values) || one_of(name_of(t, setting), facts))
        wrong(t, setting, TAKEN, "'%s' is given to every rule", name_of(t, setting));
    const char *const *number = numbers_of(t, setting);
    if (!number[1]) {
        check_default(t, setting, setting->a, number[0]);
        return;
    }
    if (setting->a->kind != N_TUPLE || setting->a->list.n != 2) {
        wrong(t, setting, INCOMPLETE, "'betas' are two numbers");
        return;
    }
    for (int i = 0; i < 2; i++)
        check_default(t, setting, setting->a->list.data[i], number[i]);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The name in a condition `NAME == 0`, or `!= 0`; else "". */
static const char *compared(const Optimizers *t, const Node *condition, BinaryOp op)
{
    bool fits = condition && condition->kind == N_BINARY && condition->op == op &&
                condition->a->kind == N_NAME && condition->b->kind == N_NUMBER &&
                condition->b->number == 0;
    return fits ? name_of(t, condition->a) : "";
}

static OptimizerSlot slot_of(const Optimizers *t, const Node *state, const Node *slot)
{
    OptimizerSlot s = {.node = slot,
                       .slot = slot->text ? slot->text : name_of(t, slot),
                       .when = compared(t, state->a, B_NE),
                       .first = slot->b ? slot->b->number : 0};
    if (slot->flag)
        s.shape = SLOT_one;
    else if (slot->a)
        s.shape = is(t, slot->a, "rows") ? SLOT_rows : SLOT_cols;
    else if (!strcmp(compared(t, state->a, B_EQ), "matrix"))
        s.shape = SLOT_vector;
    return s;
}

OptimizerSlots optimizer_slots(const Optimizers *t, const Node *o)
{
    OptimizerSlots slots = {0};
    for (size_t i = 0; i < o->more.n; i++) {
        const Node *state = o->more.data[i];
        for (size_t k = 0; state->kind == N_STATE && k < state->list.n; k++)
            vec_push(t->arena, &slots, slot_of(t, state, state->list.data[k]));
    }
    return slots;
}

/* It becomes part of names in checkpoints and in emitted C; "rounded" are copies of parameters. */
static bool good_slot_name(const char *s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return *s && strchr(letters, *s) && strspn(s, more) == strlen(s) &&
           strlen(s) <= SLOT_NAME_MAX && strcmp(s, "rounded") != 0;
}

static void check_state(const Optimizers *t, const Node *o, const Node *state)
{
    const char *number = compared(t, state->a, B_NE);
    if (state->a && strcmp(compared(t, state->a, B_EQ), "matrix") != 0 && !gives(t, o, number))
        wrong(t, state->a, INCOMPLETE,
              "the condition of a state is `matrix == 0`, or `S != 0` of a setting of '%s'",
              name_of(t, o));
    for (size_t i = 0; i < state->list.n; i++) {
        const Node *slot = state->list.data[i];
        if (one_of(name_of(t, slot), values) || fixed(t, o, name_of(t, slot)))
            wrong(t, slot, TAKEN, "'%s' is there already", name_of(t, slot));
        if (slot->a && !is(t, slot->a, "rows") && !is(t, slot->a, "cols"))
            wrong(t, slot->a, INCOMPLETE, "a state has all dims, [rows], [cols] or []");
        if (!good_slot_name(slot_of(t, state, slot).slot))
            wrong(t, slot, INCOMPLETE,
                  "a checkpoint cannot call a state '%s': letters, digits and '_' make up its name,"
                  " at most %d, and copies of parameters are \"rounded\"",
                  slot_of(t, state, slot).slot, SLOT_NAME_MAX);
    }
}

static void check_slots(const Optimizers *t, const OptimizerSlots *slots)
{
    for (size_t i = 0; i < slots->n; i++)
        for (size_t k = 0; k < i; k++) {
            const OptimizerSlot *s = &slots->data[i], *other = &slots->data[k];
            const bool same = other->node->name == s->node->name;
            if (!same && strcmp(other->slot, s->slot) != 0)
                continue;
            wrong(t, s->node, TAKEN, "'%s' is there already", same ? name_of(t, s->node) : s->slot);
            break;
        }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool reads(const Optimizers *t, const Node *n, const char *name)
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

bool optimizer_sums(const Optimizers *t, const Node *o)
{
    return reads(t, o, "rows") || reads(t, o, "cols") || reads(t, o, "all");
}

typedef VEC(const Node *) Nodes;

static bool known(const Nodes *names, Name name)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->data[i]->name == name)
            return true;
    return false;
}

/* Is it a constant of the file? */
static bool constant(const Optimizers *t, Name name)
{
    for (size_t i = 0; i < t->ast->items.n; i++) {
        const Node *n = t->ast->items.data[i];
        for (size_t k = 0; n->kind == N_CONSTS && k < n->list.n; k++)
            if (n->list.data[k]->name == name)
                return true;
    }
    return false;
}

/* Everything that is read is given, or was made before. */
static void check_reads(const Optimizers *t, const Node *o, const Nodes *made, const Node *n)
{
    if (!n)
        return;
    if (n->kind == N_NAME && !known(made, n->name) && !one_of(name_of(t, n), values) &&
        !one_of(name_of(t, n), facts) && !gives(t, o, name_of(t, n)) && !constant(t, n->name)) {
        wrong(t, n, UNKNOWN, "the rule of '%s' reads '%s', which is no setting or state of it",
              name_of(t, o), name_of(t, n));
        if (is(t, n, "decay"))
            diag_help(t->diag, "`%s(..., decay = 0)` has the decay of each parameter",
                      name_of(t, o));
    }
    check_reads(t, o, made, n->a);
    check_reads(t, o, made, n->b);
    for (size_t i = 0; i < n->list.n; i++)
        check_reads(t, o, made, n->list.data[i]);
}

static void make_name(const Optimizers *t, const Node *o, Nodes *made, const Node *n)
{
    if (fixed(t, o, name_of(t, n)))
        wrong(t, n, TAKEN, "'%s' is given; a rule does not change it", name_of(t, n));
    vec_push(t->arena, made, n);
}

static void check_statement(const Optimizers *t, const Node *o, Nodes *made, const Node *n)
{
    if (n->kind == N_STATE || n->kind == N_REST)
        return;
    if (n->kind != N_ASSIGN && n->kind != N_SEVERAL && n->kind != N_DIMS) {
        wrong(t, n, INCOMPLETE, "a rule gives values to names, and no more");
        return;
    }
    check_reads(t, o, made, n->a);
    for (size_t i = 0; i < n->list.n; i++) {
        check_reads(t, o, made, n->list.data[i]->a);
        make_name(t, o, made, n->list.data[i]);
    }
    if (n->kind == N_ASSIGN)
        make_name(t, o, made, n);
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

static void check_rule(const Optimizers *t, const Node *o)
{
    static const char *const read[] = {"p", "g", "lr", NULL};
    const OptimizerSlots slots = optimizer_slots(t, o);
    Nodes made = {0};
    check_slots(t, &slots);
    for (size_t i = 0; i < slots.n; i++)
        vec_push(t->arena, &made, slots.data[i].node);
    for (size_t i = 0; i < o->more.n; i++)
        check_statement(t, o, &made, o->more.data[i]);
    for (int i = 0; read[i]; i++)
        if (!reads(t, o, read[i]))
            wrong(t, o, INCOMPLETE, "the rule of '%s' does not read '%s'", name_of(t, o), read[i]);
    if (!assigns(o, name_intern(t->names, "p")))
        wrong(t, o, INCOMPLETE, "the rule of '%s' gives 'p' no new value", name_of(t, o));
    for (size_t i = 0; i < slots.n; i++) {
        const Node *slot = slots.data[i].node;
        if (!assigns(o, slot->name))
            wrong(t, slot, INCOMPLETE, "the rule of '%s' gives '%s' no new value", name_of(t, o),
                  name_of(t, slot));
        else if (!reads(t, o, name_of(t, slot)))
            wrong(t, slot, INCOMPLETE, "the rule of '%s' does not read '%s': it needs no state",
                  name_of(t, o), name_of(t, slot));
    }
}

/* ---- optimizers ------------------------------------------------------------------------------ */

static const Node *said_rest(const Node *o)
{
    for (size_t i = 0; i < o->more.n; i++)
        if (o->more.data[i]->kind == N_REST)
            return o->more.data[i];
    return NULL;
}

const Node *optimizer_rest(const Optimizers *t, const Node *o)
{
    const Node *said = said_rest(o), *rest = said ? item(t, N_OPTIMIZER, name_of(t, said)) : NULL;
    return rest ? rest : o;
}

/* Is there a state because of this setting? */
static bool has_state_of(const Optimizers *t, const Node *o, const char *setting)
{
    const OptimizerSlots slots = optimizer_slots(t, o);
    for (size_t i = 0; i < slots.n; i++)
        if (!strcmp(slots.data[i].when, setting))
            return true;
    return false;
}

/* Each setting is read, by the rule or by that of the rest, which has all that it reads. */
static void check_settings_use(const Optimizers *t, const Node *o, const Node *rest)
{
    for (size_t i = 0; i < o->list.n; i++)
        for (const char *const *n = numbers_of(t, o->list.data[i]); *n; n++)
            if (!reads(t, o, *n) && !reads(t, rest, *n) && !has_state_of(t, o, *n))
                wrong(t, o->list.data[i], INCOMPLETE, "no rule of '%s' reads its setting '%s'",
                      name_of(t, o), *n);
    for (size_t i = 0; i < rest->list.n; i++)
        for (const char *const *n = numbers_of(t, rest->list.data[i]); *n; n++)
            if (!gives(t, o, *n))
                wrong(t, o, INCOMPLETE,
                      "'%s' has no setting '%s', which the rule of its rest reads", name_of(t, o),
                      *n);
}

static void check_use(const Optimizers *t, const Node *o, const Node *rest)
{
    if (optimizer_rest(t, rest) != rest)
        wrong(t, o, INCOMPLETE,
              "'%s' is an optimizer of hidden matrices: it has no rule for the rest of '%s'",
              name_of(t, rest), name_of(t, o));
    else
        check_settings_use(t, o, rest);
}

static void check_optimizer(const Optimizers *t, const Node *o)
{
    const Node *first = item(t, N_OPTIMIZER, name_of(t, o)), *said = said_rest(o);
    const int errors = diag_errors(t->diag);
    if (first != o) {
        wrong(t, o, TAKEN, "there are two optimizers '%s'", name_of(t, o));
        if (first->at.file == o->at.file)
            diag_note(t->diag, first->at, "declared here");
        else
            diag_help(t->diag, "one is the language's: choose another name");
    }
    for (size_t i = 0; i < o->list.n; i++) {
        check_setting(t, o->list.data[i]);
        for (size_t k = 0; k < i; k++)
            if (o->list.data[k]->name == o->list.data[i]->name)
                wrong(t, o->list.data[i], TAKEN, "'%s' is a setting already",
                      name_of(t, o->list.data[i]));
    }
    for (size_t i = 0; i < o->more.n; i++)
        if (o->more.data[i]->kind == N_STATE)
            check_state(t, o, o->more.data[i]);
    check_rule(t, o);
    if (said && !item(t, N_OPTIMIZER, name_of(t, said)))
        wrong(t, said, UNKNOWN, "there is no optimizer '%s'", name_of(t, said));
    if (diag_errors(t->diag) == errors)
        check_use(t, o, optimizer_rest(t, o));
}

/* Are there as few as the checks can do with? */
static bool is_bounded(const Optimizers *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->ast->items.n; i++) {
        const Node *o = t->ast->items.data[i];
        const bool optimizer = o->kind == N_OPTIMIZER;
        n += optimizer || o->kind == N_RANGE;
        const size_t states = optimizer ? optimizer_slots(t, o).n : 0;
        const char *most = n > OPTIMIZERS_MAX               ? "256 declarations"
                           : !optimizer                     ? NULL
                           : o->list.n > OPTIMIZER_SETTINGS ? "23 settings"
                           : states > OPTIMIZER_STATES      ? "8 states"
                           : o->more.n > OPTIMIZER_LINES    ? "1000 lines"
                                                            : NULL;
        if (most)
            wrong(t, o, INCOMPLETE, "more than %s of optimizers", most);
        if (most)
            return false;
    }
    return true;
}

bool optimizers_hold(const Optimizers *t)
{
    const int errors = diag_errors(t->diag);
    if (!is_bounded(t))
        return false;
    for (size_t i = 0; i < t->ast->items.n; i++) {
        const Node *n = t->ast->items.data[i];
        if (n->kind == N_RANGE)
            check_range(t, n);
        else if (n->kind == N_OPTIMIZER)
            check_optimizer(t, n);
    }
    return diag_errors(t->diag) == errors;
}
