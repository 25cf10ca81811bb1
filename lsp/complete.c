/* complete.c - what may stand at the cursor, from the tokens before it (context.c). */
#include "ir/ir.h"
#include "lsp/context.h"
#include "lsp/server.h"

#include <string.h>

/* The protocol's numbers of kinds. */
enum {
    ITEM_function = 3,
    ITEM_field = 5,
    ITEM_variable = 6,
    ITEM_property = 10,
    ITEM_unit = 11,
    ITEM_value = 12,
    ITEM_keyword = 14,
    ITEM_constant = 21,
    ITEM_operator = 24
};

/* Items for a place. */
typedef struct Offers {
    Server *s;
    const Index *x;
    const Node *owner;
    json_t *items;
    Context at;
} Offers;

static bool is(const Offers *c, size_t i, const char *text)
{
    return context_is(&c->at, i, text);
}

/* ---- items --------------------------------------------------------------------------------- */

static void offer(Offers *c, const char *label, int kind, const char *detail, const char *insert)
{
    json_t *o = json_pack("{s:s, s:i}", "label", label, "kind", kind);
    if (detail)
        json_object_set_new(o, "detail", json_string(detail));
    if (insert)
        json_object_set_new(o, "insertText", json_string(insert));
    json_array_append_new(c->items, o);
}

static void offer_all(Offers *c, const char *const *words, int kind)
{
    for (; *words; words++)
        offer(c, *words, kind, NULL, NULL);
}

static void offer_option(Offers *c, const char *name, const char *detail)
{
    offer(c, name, ITEM_property, detail, arena_printf(c->x->arena, "%s = ", name));
}

/* Declarations of some kinds that are known here. */
static void offer_declared(Offers *c, unsigned kinds, int as)
{
    for (size_t i = 0; i < c->x->decls.n; i++) {
        const Decl *d = &c->x->decls.data[i];
        if ((kinds >> d->kind & 1) && (!d->owner || d->owner == c->owner))
            offer(c, index_text(c->x, d->name), as, decl_kind_name(d->kind), NULL);
    }
}

static void offer_dims(Offers *c)
{
    offer_declared(c, 1U << DECL_dim, ITEM_unit);
}

static void offer_numbers(Offers *c)
{
    offer_dims(c);
    offer_declared(c, 1U << DECL_const, ITEM_constant);
}

static void offer_functions(Offers *c)
{
    offer_declared(c, 1U << DECL_block, ITEM_function);
    for (size_t i = 0; mg_function(i); i++)
        offer(c, mg_function(i), ITEM_function, mg_function_usage(mg_function(i), c->x->arena),
              NULL);
    const Index *p = server_prelude(c->s);
    for (size_t i = 0; p && i < p->ast->items.n; i++)
        if (p->ast->items.data[i]->kind == N_BLOCK)
            offer(c, index_text(p, p->ast->items.data[i]->name), ITEM_function, "prelude", NULL);
}

static void offer_expression(Offers *c)
{
    offer_declared(c,
                   1U << DECL_value | 1U << DECL_param | 1U << DECL_option | 1U << DECL_flag |
                       1U << DECL_state,
                   ITEM_variable);
    offer_declared(c, 1U << DECL_instance, ITEM_function);
    offer_numbers(c);
    offer_functions(c);
}

/* Names that a call of a block may give. */
static void offer_parameters(Offers *c, const Index *x, const Node *block)
{
    bool behind = false; /* a dim or an option: bare names are flags there */
    bool over = false, along = false;
    for (size_t i = 0; i < block->list.n; i++) {
        const Node *p = block->list.data[i];
        const char *name = index_text(x, p->name);
        behind |= p->kind != N_TENSOR;
        if (p->kind == N_OPTION)
            offer_option(c, name, p->a ? "has a default" : "has to be given");
        else if (p->kind == N_OVER && !over)
            offer(c, "over", ITEM_keyword, name, NULL);
        else if (p->kind == N_ALONG && !along)
            offer(c, "along", ITEM_keyword, name, NULL);
        else if (behind && !p->flag && !p->a)
            offer(c, name, ITEM_property, "flag", NULL);
        over |= p->kind == N_OVER;
        along |= p->kind == N_ALONG;
    }
}

static void offer_call(Offers *c, const char *name)
{
    const Index *p = server_prelude(c->s);
    int k = index_find(c->x, DECL_block, NULL, name_intern(c->x->names, name));
    const int i = index_find(c->x, DECL_instance, c->owner, name_intern(c->x->names, name));
    if (i >= 0 && c->x->decls.data[i].kind == DECL_instance && c->x->decls.data[i].node->a)
        k = index_find(c->x, DECL_block, NULL, c->x->decls.data[i].node->a->name);
    if (k >= 0 && c->x->decls.data[k].node->kind == N_BLOCK) {
        offer_parameters(c, c->x, c->x->decls.data[k].node);
        return;
    }
    for (size_t n = 0; p && n < p->ast->items.n; n++)
        if (p->ast->items.data[n]->kind == N_BLOCK &&
            !strcmp(index_text(p, p->ast->items.data[n]->name), name))
            offer_parameters(c, p, p->ast->items.data[n]);
}

/* ---- places -------------------------------------------------------------------------------- */

static void at_top(Offers *c)
{
    static const char *const items[] = {"dim",    "const",  "block",     "model",   "train",
                                        "layout", "config", "optimizer", "setting", NULL};
    if (c->at.first)
        offer_all(c, items, ITEM_keyword);
    else if (is(c, c->at.item, "layout") && is(c, c->at.n - 1, ":"))
        offer_declared(c, 1U << DECL_layout, ITEM_value);
    else if (is(c, c->at.item, "train"))
        offer_dims(c);
    else
        offer_expression(c);
}

static void optimizers(Offers *c)
{
    const Index *p = server_prelude(c->s);
    offer_declared(c, 1U << DECL_optimizer, ITEM_function);
    for (size_t i = 0; p && i < p->ast->items.n; i++)
        if (p->ast->items.data[i]->kind == N_OPTIMIZER)
            offer(c, index_text(p, p->ast->items.data[i]->name), ITEM_function, "prelude", NULL);
}

static void options_of_optimizer(Offers *c, const char *name)
{
    const int k = index_find(c->x, DECL_optimizer, NULL, name_intern(c->x->names, name));
    const Node *n = k >= 0 ? c->x->decls.data[k].node : prelude_find(c->s, name, true);
    const Index *x = k >= 0 ? c->x : server_prelude(c->s);
    for (size_t i = 0; n && i < n->list.n; i++)
        offer_option(c, index_text(x, n->list.data[i]->name), NULL);
    if (n)
        offer_option(c, "state", NULL);
}

static void options_of_schedule(Offers *c, const char *name)
{
    for (size_t k = 0; mg_schedule(k); k++)
        for (size_t i = 0; !strcmp(mg_schedule(k), name) && mg_schedule_option(k, i); i++)
            offer_option(c, mg_schedule_option(k, i), NULL);
}

static void options_from(Offers *c, const char *const *words)
{
    for (; *words; words++)
        offer_option(c, *words, NULL);
}

static bool behind_word(const Offers *c, size_t from, const char *word)
{
    for (size_t i = from; i < c->at.n; i++)
        if (is(c, i, word))
            return true;
    return false;
}

static void in_train(Offers *c)
{
    if (c->at.first || c->at.line >= c->at.n) {
        offer_all(c, mg_train_settings, ITEM_property);
        offer(c, "adapter", ITEM_keyword, NULL, NULL);
    } else if (behind_word(c, c->at.line, "where") || behind_word(c, c->at.line, "on")) {
        offer_dims(c);
        offer(c, "rank", ITEM_value, NULL, NULL);
    } else if (is(c, c->at.line, "optimizer")) {
        optimizers(c);
    } else if (is(c, c->at.line, "lr")) {
        for (size_t i = 0; mg_schedule(i); i++)
            offer(c, mg_schedule(i), ITEM_function, NULL, NULL);
    } else if (is(c, c->at.line, "precision")) {
        offer_all(c, mg_precisions, ITEM_value);
    } else if (is(c, c->at.line, "update")) {
        offer_all(c, mg_update_times, ITEM_value);
    } else if (is(c, c->at.line, "adapter")) {
        offer_all(c, mg_adapters, ITEM_function);
    } else {
        offer_numbers(c);
        offer(c, "where", ITEM_keyword, NULL, NULL);
    }
}

/* In the parentheses of a word of a setting. */
static void in_train_call(Offers *c, const char *name)
{
    if (is(c, c->at.n - 1, "where")) {
        offer_dims(c);
        offer(c, "rank", ITEM_value, NULL, NULL);
    } else if (is(c, c->at.n - 1, "=")) {
        offer_numbers(c);
    } else if (is(c, c->at.line, "lr")) {
        options_of_schedule(c, name);
    } else if (is(c, c->at.line, "precision")) {
        options_from(c, mg_precision_options);
    } else if (is(c, c->at.line, "adapter")) {
        options_from(c, mg_adapter_options);
    } else {
        options_of_optimizer(c, name);
    }
}

static void in_layout(Offers *c)
{
    if (c->at.first || c->at.line >= c->at.n) {
        offer_all(c, setting_names, ITEM_property);
        offer_dims(c);
        offer_all(c, class_names + 1, ITEM_value);
    } else if (is(c, c->at.line, "offload")) {
        offer_all(c, behind_word(c, c->at.line, "->") ? mg_levels : offload_ways, ITEM_value);
        if (!behind_word(c, c->at.line, "->"))
            for (int k = 0; k < OFFLOAD_count; k++)
                offer(c, offload_names[k], ITEM_value, NULL, NULL);
    } else if (behind_word(c, c->at.line, "->") || is(c, c->at.line, "mesh")) {
        offer_declared(c, 1U << DECL_axis, ITEM_operator);
    } else if (is(c, c->at.line, "device")) {
        offer_all(c, mg_devices, ITEM_value);
    } else if (is(c, c->at.line, "recompute")) {
        offer_all(c, mg_recomputes, ITEM_value);
    } else if (is(c, c->at.line, "optimizer")) {
        offer_all(c, mg_optimizer_places, ITEM_value);
    } else if (is(c, c->at.line, "assert")) {
        offer_all(c, mg_quantities, ITEM_value);
    } else if (is(c, c->at.line, "microbatch") || is(c, c->at.line, "chunk")) {
        offer_numbers(c);
    } else {
        offer_dims(c);
        offer_all(c, class_names + 1, ITEM_value);
    }
}

static void in_layout_call(Offers *c)
{
    if (is(c, c->at.n - 1, "=") && is(c, c->at.n - 2, "schedule"))
        offer_all(c, mg_pipelines, ITEM_value);
    else if (is(c, c->at.n - 1, "="))
        offer_numbers(c);
    else
        offer_all(c, axis_options, ITEM_property);
}

static void in_body(Offers *c)
{
    static const char *const words[] = {"repeat", "scan", "return", "dim", "metric", NULL};
    const size_t last = c->at.n - 1;
    if (is(c, last, "repeat") || is(c, last, "scan")) {
        offer_dims(c);
    } else if (is(c, last, ":")) {
        offer(c, "param", ITEM_keyword, NULL, NULL);
        offer(c, "block", ITEM_keyword, NULL, NULL);
    } else if (is(c, last, "block")) {
        offer_declared(c, 1U << DECL_block, ITEM_function);
    } else if (c->at.first) {
        offer_all(c, words, ITEM_keyword);
        offer_declared(c, 1U << DECL_value, ITEM_variable);
    } else {
        offer_expression(c);
    }
}

static void in_call(Offers *c, size_t head)
{
    const MgToken *t = context_token(&c->at, head);
    const char *name = t && t->name ? index_text(c->x, t->name) : "";
    if (is(c, c->at.item, "train")) {
        in_train_call(c, name);
    } else if (is(c, c->at.item, "layout")) {
        in_layout_call(c);
    } else if (is(c, head, "over") || is(c, head, "along") || (c->at.nopen == 1 && *name)) {
        offer_dims(c); /* of a head of a block, too */
    } else {
        if (*name && !is(c, c->at.n - 1, "="))
            offer_call(c, name);
        offer_expression(c);
    }
}

static void offer_here(Offers *c)
{
    const size_t open = c->at.nopen ? c->at.open[c->at.nopen - 1] : c->at.n;
    if (c->at.n && (is(c, c->at.n - 1, "over") || is(c, c->at.n - 1, "along"))) {
        offer_dims(c);
    } else if (!c->at.nopen) {
        at_top(c);
    } else if (is(c, open, "(")) {
        in_call(c, open ? open - 1 : c->at.n);
    } else if (is(c, open, "[")) {
        offer_dims(c);
        if (!(open && is(c, open - 1, "param")) && c->at.nopen > 1)
            offer_declared(c, 1U << DECL_value | 1U << DECL_param, ITEM_variable);
    } else if (is(c, c->at.item, "train")) {
        in_train(c);
    } else if (is(c, c->at.item, "layout")) {
        in_layout(c);
    } else if (is(c, c->at.item, "config")) {
        offer_numbers(c);
    } else {
        in_body(c);
    }
}

json_t *complete(Server *s, Document *d, const json_t *params, Refusal *r)
{
    size_t byte;
    const Index *x = document_index(d);
    if (!position_byte(d, params, &byte, r))
        return NULL;
    Offers c = {.s = s, .x = x, .items = json_array()};
    if (x && context_read(&c.at, x, byte)) {
        c.owner = context_owner(&c.at, byte);
        offer_here(&c);
    }
    return json_pack("{s:b, s:o}", "isIncomplete", 0, "items", c.items);
}
