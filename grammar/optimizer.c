/* optimizer.c - the optimizers that a file declares, as rows (ir/optimizers.h).
 *
 * A declaration has the form of those in prelude.mg (optimizer_check.h says what is asked of it),
 * and the row of it is as theirs: from here on nothing tells a file's optimizer from the
 * language's. A setting that has the name of one of the prelude's has its range too. */
#include "grammar/elab.h"
#include "grammar/optimizer_check.h"
#include "ir/optimizers.h"

#include <string.h>

_Static_assert((int)OPTIMIZER_SETTINGS < (int)OPTIONS_MAX &&
                   (int)OPTIMIZER_STATES <= (int)STATES_MAX,
               "rows hold what declarations may have");

static int option_number(const char *name)
{
    for (int i = OPTION_none + 1; i < OPTION_count; i++)
        if (!strcmp(optimizer_options[i].name, name))
            return i;
    return -1;
}

/* The range that a file says of a number, else all numbers. */
static OwnNumber own_number(const Optimizers *t, const char *name)
{
    const Node *range = optimizer_range(t, name);
    OwnNumber own = {.name = name, .low = -1e300, .high = 1e300};
    if (!range)
        return own;
    own.flag = !range->a;
    own.above = range->a && range->op == B_LT;
    own.low = range->a ? range->a->number : 0;
    own.high = range->b ? range->b->number : own.high;
    return own;
}

/* The option that a setting is; -1: there are too many numbers. */
static int option_of(const Optimizers *t, const char *name, OptimizerInfo *o)
{
    const int option = option_number(name);
    if (option >= 0)
        return option;
    for (int i = 0; i < OWN_MAX; i++)
        if (!o->own[i].name) {
            o->own[i] = own_number(t, name);
            return OPTION_own + i;
        }
    return -1;
}

static bool read_settings(Elab *e, const Optimizers *t, const Node *n, OptimizerInfo *o)
{
    for (size_t i = 0; i < n->list.n; i++) {
        const Node *setting = n->list.data[i], *value = setting->a;
        const int option = option_of(t, text(e, setting->name), o);
        if (option < 0) {
            fail(e, setting->at, 109, "an optimizer has at most %d settings with names of its own",
                 OWN_MAX);
            return false;
        }
        o->takes[i].option = option;
        for (size_t k = 0; k < (value->kind == N_TUPLE ? 2 : 1); k++)
            optimizer_literal(value->kind == N_TUPLE ? value->list.data[k] : value,
                              &o->takes[i].without[k]);
    }
    return true;
}

static void read_states(const Optimizers *t, const Node *n, OptimizerInfo *o)
{
    static const StateShape shapes[] = {[SLOT_whole] = WHOLE,
                                        [SLOT_vector] = VECTOR,
                                        [SLOT_rows] = ROWS,
                                        [SLOT_cols] = COLS,
                                        [SLOT_one] = ONE};
    const OptimizerSlots slots = optimizer_slots(t, n);
    for (size_t i = 0; i < slots.n; i++) {
        const OptimizerSlot *s = &slots.data[i];
        o->states[i] = (StateInfo){.slot = s->slot,
                                   .shape = shapes[s->shape],
                                   .when = *s->when ? optimizer_number(o, s->when) : ALWAYS,
                                   .first = s->first};
    }
}

static const OptimizerInfo *row_of(const Elab *e, const char *name)
{
    for (size_t i = 0; i < e->optimizers.n; i++)
        if (!strcmp(e->optimizers.data[i]->name, name))
            return e->optimizers.data[i];
    return optimizer_find(name);
}

/* Names that a rule reads are used, and those in blocks that it calls. */
static void use_names(Elab *e, const Node *n)
{
    if (!n)
        return;
    Sym *block = n->kind == N_CALL ? map_find(&e->blocks, n->name) : NULL;
    if (n->kind == N_NAME)
        lookup(e, n->name);
    if (block && !block->used) {
        block->used = true;
        use_names(e, block->node);
    }
    use_names(e, n->a);
    use_names(e, n->b);
    for (size_t i = 0; i < n->list.n; i++)
        use_names(e, n->list.data[i]);
    for (size_t i = 0; i < n->more.n; i++)
        use_names(e, n->more.data[i]);
}

void read_optimizers(Elab *e)
{
    const Optimizers t = {.arena = e->arena,
                          .names = e->names,
                          .diag = e->diag,
                          .ast = e->ast,
                          .prelude = e->prelude};
    VEC(OptimizerInfo *) rows = {0};
    if (!optimizers_hold(&t))
        return;
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        if (n->kind != N_OPTIMIZER)
            continue;
        OptimizerInfo *o = NEW(e->arena, OptimizerInfo);
        *o = (OptimizerInfo){.name = text(e, n->name),
                             .of = optimizer_sums(&t, n) ? MATRICES : ELEMENTS,
                             .declaration = n};
        use_names(e, n);
        if (!read_settings(e, &t, n, o))
            return;
        read_states(&t, n, o);
        vec_push(e->arena, &rows, o);
        vec_push(e->arena, &e->optimizers, o);
    }
    for (size_t i = 0; i < rows.n; i++)
        rows.data[i]->rest =
            row_of(e, text(e, optimizer_rest(&t, rows.data[i]->declaration)->name));
}
