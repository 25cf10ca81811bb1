/* check_rules.c - a step of the build: the rows of ir/optimizers.def and the blocks of prelude.mg
 * fit each other. It names the row or the block that lacks something, and the build fails.
 *
 *   each row    has a block of its name. The block takes p, g, the row's states and lr, in that
 *               order, and returns p and the states. The numbers that it takes are those that the
 *               row's options give, and each option is a number of the block, or of the block of
 *               the rest.
 *   each block  that takes p, g and lr is the rule of a row. */
#include "grammar/grammar.h"
#include "grammar/prelude.h"
#include "ir/optimizers.h"

#include <stdio.h>
#include <string.h>

typedef struct Check {
    Names *names;
    const Ast *prelude;
    int wrong;
} Check;

__attribute__((format(printf, 2, 3))) static void wrong(Check *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    c->wrong++;
}

static const char *name_of(const Check *c, const Node *n)
{
    return name_str(c->names, n->name);
}

static const Node *block_of(const Check *c, const char *name)
{
    for (size_t i = 0; i < c->prelude->items.n; i++)
        if (!strcmp(name_of(c, c->prelude->items.data[i]), name))
            return c->prelude->items.data[i];
    return NULL;
}

/* The nth value among a block's parameters, or "". */
static const char *value_at(const Check *c, const Node *block, int nth)
{
    for (size_t i = 0; i < block->list.n; i++)
        if (block->list.data[i]->kind == N_TENSOR && nth-- == 0)
            return name_of(c, block->list.data[i]);
    return "";
}

static bool takes_number(const Check *c, const Node *block, const char *name)
{
    for (size_t i = 0; block && i < block->list.n; i++)
        if (block->list.data[i]->kind == N_OPTION && !strcmp(name_of(c, block->list.data[i]), name))
            return true;
    return false;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Is the number one that the option gives? A pair gives beta1 and beta2. */
static bool option_gives(OptionId option, const char *number)
{
    const OptionInfo *o = &optimizer_options[option];
    if (o->kind == KIND_PAIR)
        return !strcmp(number, "beta1") || !strcmp(number, "beta2");
    return !strcmp(number, o->name);
}

static bool row_gives(const OptimizerInfo *row, const char *number)
{
    if (!strcmp(number, "rate") || !strcmp(number, "rank"))
        return true; /* of the parameter */
    for (int i = 0; i < OPTIONS_MAX && row->takes[i].option; i++)
        if (option_gives(row->takes[i].option, number))
            return true;
    return false;
}

static void check_numbers(Check *c, const OptimizerInfo *row, const Node *block)
{
    const Node *rest = block_of(c, optimizers[row->rest].name);
    for (size_t i = 0; i < block->list.n; i++)
        if (block->list.data[i]->kind == N_OPTION &&
            !row_gives(row, name_of(c, block->list.data[i])))
            wrong(c,
                  "ir/optimizers.def: the row of '%s' has no option for '%s', which its block in "
                  "grammar/prelude.mg takes",
                  row->name, name_of(c, block->list.data[i]));
    for (int i = 0; i < OPTIONS_MAX && row->takes[i].option; i++) {
        const OptionInfo *o = &optimizer_options[row->takes[i].option];
        const char *number = o->kind == KIND_PAIR ? "beta2" : o->name;
        if (!takes_number(c, block, number) && !takes_number(c, rest, number))
            wrong(c,
                  "grammar/prelude.mg: block '%s' does not take '%s', an option of its row in "
                  "ir/optimizers.def",
                  row->name, number);
    }
}

/* ---- rows and blocks ------------------------------------------------------------------------- */

static void check_row(Check *c, const OptimizerInfo *row)
{
    const Node *block = block_of(c, row->name);
    if (!block) {
        wrong(c, "grammar/prelude.mg: no block '%s', which ir/optimizers.def has a row for",
              row->name);
        return;
    }
    int states = 0;
    while (states < STATES_MAX && row->states[states].slot)
        states++;
    if (strcmp(value_at(c, block, 0), "p") || strcmp(value_at(c, block, 1), "g") ||
        strcmp(value_at(c, block, 2 + states), "lr"))
        wrong(c,
              "grammar/prelude.mg: block '%s' is to take p, g, %d states and lr: its row in "
              "ir/optimizers.def has %d",
              row->name, states, states);
    const Node *last = block->more.n ? block->more.data[block->more.n - 1] : NULL;
    if (!last || last->kind != N_RETURN || last->list.n != (size_t)states + 1)
        wrong(c, "grammar/prelude.mg: block '%s' is to return p and %d states", row->name, states);
    check_numbers(c, row, block);
}

static bool has_value(const Check *c, const Node *block, const char *name)
{
    for (int i = 0; *value_at(c, block, i); i++)
        if (!strcmp(value_at(c, block, i), name))
            return true;
    return false;
}

static void check_block(Check *c, const Node *block)
{
    if (!has_value(c, block, "p") || !has_value(c, block, "g") || !has_value(c, block, "lr"))
        return;
    for (int i = 0; i < OPT_count; i++)
        if (!strcmp(optimizers[i].name, name_of(c, block)))
            return;
    wrong(c, "ir/optimizers.def: no row '%s', which grammar/prelude.mg has a rule for",
          name_of(c, block));
}

int main(void)
{
    Arena *a = arena_new();
    Names *names = names_new(a);
    Diag *d = diag_new(a, stderr, false);
    uint32_t file = diag_add_file(d, "grammar/prelude.mg", prelude_text, strlen(prelude_text));
    Check c = {.names = names, .prelude = mg_parse(a, names, d, file)};
    if (!c.prelude)
        return 1;
    for (int i = 0; i < OPT_count; i++)
        check_row(&c, &optimizers[i]);
    for (size_t i = 0; i < c.prelude->items.n; i++)
        check_block(&c, c.prelude->items.data[i]);
    arena_free(a);
    return c.wrong != 0;
}
