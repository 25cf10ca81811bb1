/* complete.c - what may stand at the cursor: found from the tokens before it, so that a text that
 * is being written, and is wrong as it is, has its completions, too. */
#include "ir/ir.h"
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

enum { OPEN_MAX = 64 };

typedef struct Context {
    Server *s;
    const Document *d;
    const Index *x;
    const Node *owner;
    json_t *items;
    size_t n;              /* tokens before what is being written */
    size_t open[OPEN_MAX]; /* those that opened a bracket */
    int nopen;
    size_t item, line; /* the first token of the item, and of the line's text; n: there is none */
    bool first;        /* nothing stands before it in its line */
} Context;

/* ---- the tokens before --------------------------------------------------------------------- */

static const MgToken *token(const Context *c, size_t i)
{
    return i < c->n ? &c->x->tokens.data[i] : NULL;
}

static const char *start_of(const Context *c, const MgToken *t)
{
    return c->x->ast->text + t->at.begin;
}

/* Is the nth token this word or sign? */
static bool is(const Context *c, size_t i, const char *text)
{
    const MgToken *t = token(c, i);
    const size_t n = strlen(text);
    return t && t->at.end - t->at.begin == n && !memcmp(start_of(c, t), text, n);
}

static bool is_any(const Context *c, size_t i, const char *const *words)
{
    for (; *words; words++)
        if (is(c, i, *words))
            return true;
    return false;
}

static bool new_line_between(const Context *c, size_t from, size_t to)
{
    return memchr(c->x->ast->text + from, '\n', to - from) != NULL;
}

static bool begins_item(const Context *c, size_t i)
{
    static const char *const words[] = {"dim",    "const",  "block",     "model",   "train",
                                        "layout", "config", "optimizer", "setting", NULL};
    const MgToken *t = token(c, i);
    return c->nopen == 0 && is_any(c, i, words) &&
           (i == 0 || new_line_between(c, token(c, i - 1)->at.end, t->at.begin));
}

/* Reads up to `byte`; false: it is inside of a string or a comment. */
static bool read_context(Context *c, size_t byte)
{
    const MgTokens *all = &c->x->tokens;
    size_t begin = byte;
    while (c->n < all->n && all->data[c->n].at.end < byte)
        c->n++;
    const MgToken *next = c->n < all->n ? &all->data[c->n] : NULL;
    if (next && next->at.begin < byte) {
        if (next->kind == TOKEN_string && byte < next->at.end)
            return false;
        const bool written =
            next->kind == TOKEN_name || next->kind == TOKEN_keyword || next->kind == TOKEN_word;
        begin = written ? next->at.begin : byte;
        c->n += !written;
    }
    c->item = c->line = all->n;
    size_t line = all->n;
    for (size_t i = 0; i < c->n; i++) {
        const MgToken *t = &all->data[i];
        if (begins_item(c, i))
            c->item = i;
        if (i == 0 || new_line_between(c, all->data[i - 1].at.end, t->at.begin))
            line = i;
        if (is(c, i, "(") || is(c, i, "[") || is(c, i, "{")) {
            if (c->nopen < OPEN_MAX)
                c->open[c->nopen++] = i;
        } else if ((is(c, i, ")") || is(c, i, "]") || is(c, i, "}")) && c->nopen) {
            c->nopen--;
        }
    }
    const size_t end = c->n ? all->data[c->n - 1].at.end : 0;
    c->first = c->n == 0 || new_line_between(c, end, begin);
    c->line = c->first ? all->n : line;
    for (size_t i = end; i < begin; i++)
        if (c->x->ast->text[i] == '#' && !memchr(c->x->ast->text + i, '\n', begin - i))
            return false;
    return true;
}

/* ---- items --------------------------------------------------------------------------------- */

static void offer(Context *c, const char *label, int kind, const char *detail, const char *insert)
{
    json_t *o = json_pack("{s:s, s:i}", "label", label, "kind", kind);
    if (detail)
        json_object_set_new(o, "detail", json_string(detail));
    if (insert)
        json_object_set_new(o, "insertText", json_string(insert));
    json_array_append_new(c->items, o);
}

static void offer_all(Context *c, const char *const *words, int kind)
{
    for (; *words; words++)
        offer(c, *words, kind, NULL, NULL);
}

static void offer_option(Context *c, const char *name, const char *detail)
{
    offer(c, name, ITEM_property, detail, arena_printf(c->x->arena, "%s = ", name));
}

/* Declarations of some kinds that are known here. */
static void offer_declared(Context *c, unsigned kinds, int as)
{
    for (size_t i = 0; i < c->x->decls.n; i++) {
        const Decl *d = &c->x->decls.data[i];
        if ((kinds >> d->kind & 1) && (!d->owner || d->owner == c->owner))
            offer(c, index_text(c->x, d->name), as, decl_kind_name(d->kind), NULL);
    }
}

static void offer_dims(Context *c)
{
    offer_declared(c, 1U << DECL_dim, ITEM_unit);
}

static void offer_numbers(Context *c)
{
    offer_dims(c);
    offer_declared(c, 1U << DECL_const, ITEM_constant);
}

static void offer_functions(Context *c)
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

static void offer_expression(Context *c)
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
static void offer_parameters(Context *c, const Index *x, const Node *block)
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

static void offer_call(Context *c, const char *name)
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

static void at_top(Context *c)
{
    static const char *const items[] = {"dim",    "const",  "block",     "model",   "train",
                                        "layout", "config", "optimizer", "setting", NULL};
    if (c->first)
        offer_all(c, items, ITEM_keyword);
    else if (is(c, c->item, "layout") && is(c, c->n - 1, ":"))
        offer_declared(c, 1U << DECL_layout, ITEM_value);
    else if (is(c, c->item, "train"))
        offer_dims(c);
    else
        offer_expression(c);
}

static void optimizers(Context *c)
{
    const Index *p = server_prelude(c->s);
    offer_declared(c, 1U << DECL_optimizer, ITEM_function);
    for (size_t i = 0; p && i < p->ast->items.n; i++)
        if (p->ast->items.data[i]->kind == N_OPTIMIZER)
            offer(c, index_text(p, p->ast->items.data[i]->name), ITEM_function, "prelude", NULL);
}

static void options_of_optimizer(Context *c, const char *name)
{
    const int k = index_find(c->x, DECL_optimizer, NULL, name_intern(c->x->names, name));
    const Node *n = k >= 0 ? c->x->decls.data[k].node : prelude_find(c->s, name, true);
    const Index *x = k >= 0 ? c->x : server_prelude(c->s);
    for (size_t i = 0; n && i < n->list.n; i++)
        offer_option(c, index_text(x, n->list.data[i]->name), NULL);
    if (n)
        offer_option(c, "state", NULL);
}

static void options_of_schedule(Context *c, const char *name)
{
    for (size_t k = 0; mg_schedule(k); k++)
        for (size_t i = 0; !strcmp(mg_schedule(k), name) && mg_schedule_option(k, i); i++)
            offer_option(c, mg_schedule_option(k, i), NULL);
}

static void options_from(Context *c, const char *const *words)
{
    for (; *words; words++)
        offer_option(c, *words, NULL);
}

static bool behind_word(const Context *c, size_t from, const char *word)
{
    for (size_t i = from; i < c->n; i++)
        if (is(c, i, word))
            return true;
    return false;
}

static void in_train(Context *c)
{
    if (c->first || c->line >= c->n) {
        offer_all(c, mg_train_settings, ITEM_property);
        offer(c, "adapter", ITEM_keyword, NULL, NULL);
    } else if (behind_word(c, c->line, "where") || behind_word(c, c->line, "on")) {
        offer_dims(c);
        offer(c, "rank", ITEM_value, NULL, NULL);
    } else if (is(c, c->line, "optimizer")) {
        optimizers(c);
    } else if (is(c, c->line, "lr")) {
        for (size_t i = 0; mg_schedule(i); i++)
            offer(c, mg_schedule(i), ITEM_function, NULL, NULL);
    } else if (is(c, c->line, "precision")) {
        offer_all(c, mg_precisions, ITEM_value);
    } else if (is(c, c->line, "update")) {
        offer_all(c, mg_update_times, ITEM_value);
    } else if (is(c, c->line, "adapter")) {
        offer_all(c, mg_adapters, ITEM_function);
    } else {
        offer_numbers(c);
        offer(c, "where", ITEM_keyword, NULL, NULL);
    }
}

/* In the parentheses of a word of a setting. */
static void in_train_call(Context *c, const char *name)
{
    if (is(c, c->n - 1, "where")) {
        offer_dims(c);
        offer(c, "rank", ITEM_value, NULL, NULL);
    } else if (is(c, c->n - 1, "=")) {
        offer_numbers(c);
    } else if (is(c, c->line, "lr")) {
        options_of_schedule(c, name);
    } else if (is(c, c->line, "precision")) {
        options_from(c, mg_precision_options);
    } else if (is(c, c->line, "adapter")) {
        options_from(c, mg_adapter_options);
    } else {
        options_of_optimizer(c, name);
    }
}

static void in_layout(Context *c)
{
    if (c->first || c->line >= c->n) {
        offer_all(c, setting_names, ITEM_property);
        offer_dims(c);
        offer_all(c, class_names + 1, ITEM_value);
    } else if (is(c, c->line, "offload")) {
        offer_all(c, behind_word(c, c->line, "->") ? mg_levels : offload_ways, ITEM_value);
        if (!behind_word(c, c->line, "->"))
            for (int k = 0; k < OFFLOAD_count; k++)
                offer(c, offload_names[k], ITEM_value, NULL, NULL);
    } else if (behind_word(c, c->line, "->") || is(c, c->line, "mesh")) {
        offer_declared(c, 1U << DECL_axis, ITEM_operator);
    } else if (is(c, c->line, "device")) {
        offer_all(c, mg_devices, ITEM_value);
    } else if (is(c, c->line, "recompute")) {
        offer_all(c, mg_recomputes, ITEM_value);
    } else if (is(c, c->line, "optimizer")) {
        offer_all(c, mg_optimizer_places, ITEM_value);
    } else if (is(c, c->line, "assert")) {
        offer_all(c, mg_quantities, ITEM_value);
    } else if (is(c, c->line, "microbatch") || is(c, c->line, "chunk")) {
        offer_numbers(c);
    } else {
        offer_dims(c);
        offer_all(c, class_names + 1, ITEM_value);
    }
}

static void in_layout_call(Context *c)
{
    if (is(c, c->n - 1, "=") && is(c, c->n - 2, "schedule"))
        offer_all(c, mg_pipelines, ITEM_value);
    else if (is(c, c->n - 1, "="))
        offer_numbers(c);
    else
        offer_all(c, axis_options, ITEM_property);
}

static void in_body(Context *c)
{
    static const char *const words[] = {"repeat", "scan", "return", "dim", "metric", NULL};
    const size_t last = c->n - 1;
    if (is(c, last, "repeat") || is(c, last, "scan")) {
        offer_dims(c);
    } else if (is(c, last, ":")) {
        offer(c, "param", ITEM_keyword, NULL, NULL);
        offer(c, "block", ITEM_keyword, NULL, NULL);
    } else if (is(c, last, "block")) {
        offer_declared(c, 1U << DECL_block, ITEM_function);
    } else if (c->first) {
        offer_all(c, words, ITEM_keyword);
        offer_declared(c, 1U << DECL_value, ITEM_variable);
    } else {
        offer_expression(c);
    }
}

static void in_call(Context *c, size_t head)
{
    const MgToken *t = token(c, head);
    const char *name = t && t->name ? index_text(c->x, t->name) : "";
    if (is(c, c->item, "train")) {
        in_train_call(c, name);
    } else if (is(c, c->item, "layout")) {
        in_layout_call(c);
    } else if (is(c, head, "over") || is(c, head, "along") || (c->nopen == 1 && *name)) {
        offer_dims(c); /* of a head of a block, too */
    } else {
        if (*name && !is(c, c->n - 1, "="))
            offer_call(c, name);
        offer_expression(c);
    }
}

static void offer_here(Context *c)
{
    const size_t open = c->nopen ? c->open[c->nopen - 1] : c->n;
    if (c->n && (is(c, c->n - 1, "over") || is(c, c->n - 1, "along"))) {
        offer_dims(c);
    } else if (!c->nopen) {
        at_top(c);
    } else if (is(c, open, "(")) {
        in_call(c, open ? open - 1 : c->n);
    } else if (is(c, open, "[")) {
        offer_dims(c);
        if (!(open && is(c, open - 1, "param")) && c->nopen > 1)
            offer_declared(c, 1U << DECL_value | 1U << DECL_param, ITEM_variable);
    } else if (is(c, c->item, "train")) {
        in_train(c);
    } else if (is(c, c->item, "layout")) {
        in_layout(c);
    } else if (is(c, c->item, "config")) {
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
    Context c = {.s = s, .d = d, .x = x, .items = json_array()};
    if (x && read_context(&c, byte)) {
        c.owner = index_owner(x, byte);
        for (size_t i = 0; !c.owner && i < x->ast->items.n; i++) { /* of one that is not closed */
            const Node *n = x->ast->items.data[i];
            const MgToken *item = token(&c, c.item);
            if (item && n->span.begin == item->at.begin)
                c.owner = n;
        }
        offer_here(&c);
    }
    return json_pack("{s:b, s:o}", "isIncomplete", 0, "items", c.items);
}
