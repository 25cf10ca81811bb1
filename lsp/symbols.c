/* symbols.c - the outline of a document: its items, and what blocks declare. */
#include "lsp/server.h"

#include <string.h>

/* The protocol's numbers. */
enum {
    KIND_module = 2,
    KIND_class = 5,
    KIND_property = 7,
    KIND_field = 8,
    KIND_function = 12,
    KIND_variable = 13,
    KIND_constant = 14,
    KIND_namespace = 3,
    KIND_event = 24,
    KIND_operator = 25
};

typedef struct Outline {
    const Document *d;
    const Index *x;
    bool flat;
    json_t *all; /* flat: all of them */
} Outline;

static json_t *symbol(const Outline *o, const char *name, int kind, Span whole, Span at,
                      const char *detail)
{
    json_t *s = json_pack("{s:s, s:i}", "name", *name ? name : "?", "kind", kind);
    if (o->flat) {
        json_object_set_new(s, "location", location_json(o->d, whole.begin, whole.end));
        json_array_append(o->all, s);
        return s;
    }
    if (at.begin < whole.begin || at.end > whole.end)
        at = whole;
    if (detail)
        json_object_set_new(s, "detail", json_string(detail));
    json_object_set_new(s, "range", range_json(o->d, whole.begin, whole.end));
    json_object_set_new(s, "selectionRange", range_json(o->d, at.begin, at.end));
    json_object_set_new(s, "children", json_array());
    return s;
}

static void add(json_t *to, json_t *s)
{
    json_array_append_new(to, s);
}

static void statement(const Outline *o, const Node *n, json_t *to)
{
    const char *name = index_text(o->x, n->name);
    json_t *s;
    switch ((int)n->kind) {
    case N_PARAM:
        add(to, symbol(o, name, KIND_field, n->span, n->at, "param"));
        break;
    case N_INSTANCE:
        add(to, symbol(o, name, KIND_field, n->span, n->at, "block"));
        break;
    case N_METRIC:
        add(to, symbol(o, name, KIND_property, n->span, n->at, "metric"));
        break;
    case N_ASSIGN:
        add(to, symbol(o, name, KIND_variable, n->span, n->at, NULL));
        break;
    case N_SEVERAL:
        for (size_t i = 0; i < n->list.n; i++)
            add(to, symbol(o, index_text(o->x, n->list.data[i]->name), KIND_variable, n->span,
                           n->list.data[i]->at, NULL));
        break;
    case N_DIMS:
        for (size_t i = 0; i < n->list.n; i++)
            add(to, symbol(o, index_text(o->x, n->list.data[i]->name), KIND_constant,
                           n->list.data[i]->span, n->list.data[i]->at, "dim"));
        break;
    case N_REPEAT:
    case N_SCAN:
        s = symbol(o, name, KIND_operator, n->span, n->at, n->kind == N_SCAN ? "scan" : "repeat");
        for (size_t i = 0; i < n->more.n; i++)
            statement(o, n->more.data[i], o->flat ? to : json_object_get(s, "children"));
        add(to, s);
        break;
    default:
        break;
    }
}

static void item(const Outline *o, const Node *n, json_t *to)
{
    static const struct {
        NodeKind kind;
        int symbol;
        const char *word;
    } kinds[] = {{N_BLOCK, KIND_function, "block"},  {N_MODEL, KIND_class, "model"},
                 {N_TRAIN, KIND_event, "train"},     {N_LAYOUT, KIND_namespace, "layout"},
                 {N_CONFIG, KIND_module, "config"},  {N_OPTIMIZER, KIND_function, "optimizer"},
                 {N_RANGE, KIND_property, "setting"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (n->kind != kinds[i].kind)
            continue;
        const char *word = kinds[i].word, *name = n->name ? index_text(o->x, n->name) : word;
        json_t *s = symbol(o, name, kinds[i].symbol, n->span, n->at, word);
        if (n->kind == N_BLOCK || n->kind == N_MODEL)
            for (size_t k = 0; k < n->more.n; k++)
                statement(o, n->more.data[k], o->flat ? to : json_object_get(s, "children"));
        add(to, s);
    }
    if (n->kind == N_DIMS || n->kind == N_CONSTS)
        for (size_t i = 0; i < n->list.n; i++)
            add(to, symbol(o, index_text(o->x, n->list.data[i]->name), KIND_constant,
                           n->list.data[i]->span, n->list.data[i]->at,
                           n->kind == N_DIMS ? "dim" : "const"));
}

json_t *symbols(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)params, (void)r;
    const Index *x = document_index(d);
    Outline o = {d, x, !s->can_symbols, json_array()};
    json_t *tree = json_array();
    for (size_t i = 0; x && i < x->ast->items.n; i++)
        item(&o, x->ast->items.data[i], tree);
    if (!o.flat) {
        json_decref(o.all);
        return tree;
    }
    json_decref(tree);
    return o.all;
}
