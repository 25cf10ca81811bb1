/* navigate.c - where a name is declared, and where it stands. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

static const Occurrence *here(Document *d, const json_t *params, Refusal *r)
{
    size_t byte;
    const Index *x = document_index(d);
    return x && position_byte(d, params, &byte, r) ? index_at(x, byte) : NULL;
}

/* Of what the language has: in prelude.mg, where it is installed as a file. */
static json_t *in_prelude(Server *s, const char *name)
{
    const Node *n = prelude_find(s, name, false);
    n = n ? n : prelude_find(s, name, true);
    if (!n || !s->host->prelude)
        return json_null();
    const Place from = text_locate(&s->prelude, n->at.begin),
                to = text_locate(&s->prelude, n->at.end);
    return json_pack("{s:o, s:{s:{s:I, s:I}, s:{s:I, s:I}}}", "uri",
                     json_sprintf("file://%s", s->host->prelude), "range", "start", "line",
                     (json_int_t)from.line, "character", (json_int_t)from.character, "end", "line",
                     (json_int_t)to.line, "character", (json_int_t)to.character);
}

json_t *definition(Server *s, Document *d, const json_t *params, Refusal *r)
{
    const Occurrence *o = here(d, params, r);
    if (r->code)
        return NULL;
    if (!o)
        return json_null();
    const Index *x = document_index(d);
    if (o->decl < 0)
        return in_prelude(s, index_text(x, o->name));
    const Span at = x->decls.data[o->decl].at;
    return location_json(d, at.begin, at.end);
}

/* Is it the name at the cursor, by its declaration or, where it has none here, by its letters? */
static bool is_same(const Occurrence *each, const Occurrence *o)
{
    return each->decl == o->decl && (o->decl >= 0 || each->name == o->name);
}

json_t *references(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)s;
    const Occurrence *o = here(d, params, r);
    const bool declared =
        !json_is_false(json_object_get(json_object_get(params, "context"), "includeDeclaration"));
    if (r->code)
        return NULL;
    json_t *all = json_array();
    const Index *x = document_index(d);
    for (size_t i = 0; o && i < x->occurrences.n; i++) {
        const Occurrence *each = &x->occurrences.data[i];
        const bool first = o->decl >= 0 && each->at.begin == x->decls.data[o->decl].at.begin;
        if (is_same(each, o) && (declared || !first))
            json_array_append_new(all, location_json(d, each->at.begin, each->at.end));
    }
    return all;
}

json_t *highlights(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)s;
    enum { READ = 2, WRITE };
    const Occurrence *o = here(d, params, r);
    if (r->code)
        return NULL;
    json_t *all = json_array();
    const Index *x = document_index(d);
    for (size_t i = 0; o && i < x->occurrences.n; i++) {
        const Occurrence *each = &x->occurrences.data[i];
        if (is_same(each, o))
            json_array_append_new(all, json_pack("{s:o, s:i}", "range",
                                                 range_json(d, each->at.begin, each->at.end),
                                                 "kind", each->write ? WRITE : READ));
    }
    return all;
}
