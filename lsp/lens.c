/* lens.c - the time and the memory of each block, above it, and of the whole program above the
 * model; above each layout, that one may plan with it.
 *
 * Facts of the plan: "program", a text; "blocks", texts by name. Those of an earlier text stand
 * until there are new ones. */
#include "lsp/server.h"

#include <string.h>

static void add(json_t *all, const Document *d, Span at, json_t *title, json_t *command)
{
    json_t *c = command ? command : json_pack("{s:s}", "command", "");
    json_object_set_new(c, "title", title);
    json_array_append_new(
        all, json_pack("{s:o, s:o}", "range", range_json(d, at.begin, at.end), "command", c));
}

static json_t *plan_with(const Document *d, const char *layout)
{
    return json_pack("{s:s, s:[s, o]}", "command", "mgc.option", "arguments", d->uri,
                     json_sprintf("--layout %s", layout));
}

json_t *lenses(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)s, (void)params, (void)r;
    const Index *x = document_index(d);
    const bool now = json_object_get(d->facts.plan, "program");
    const json_t *plan = now || d->facts.all ? d->facts.plan : d->planned;
    const char *mark = now ? "" : " (before the last change)";
    json_t *all = json_array();
    for (size_t i = 0; x && i < x->ast->items.n; i++) {
        const Node *n = x->ast->items.data[i];
        const char *name = n->name ? index_text(x, n->name) : "default";
        const char *text = n->kind == N_BLOCK   ? text_of(json_object_get(plan, "blocks"), name)
                           : n->kind == N_MODEL ? text_of(plan, "program")
                                                : NULL;
        if (text)
            add(all, d, n->at, json_sprintf("%s%s", text, mark), NULL);
        if (n->kind == N_LAYOUT && !json_array_size(d->options))
            add(all, d, n->at, json_sprintf("plan with this layout"), plan_with(d, name));
    }
    if (x && json_array_size(d->options))
        for (size_t i = 0; i < x->ast->items.n; i++)
            if (x->ast->items.data[i]->kind == N_MODEL)
                add(all, d, x->ast->items.data[i]->at,
                    json_sprintf("without the %zu option%s of this document",
                                 json_array_size(d->options),
                                 json_array_size(d->options) == 1 ? "" : "s"),
                    json_pack("{s:s, s:[s]}", "command", "mgc.without", "arguments", d->uri));
    return all;
}
