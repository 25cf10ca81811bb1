/* rename.c - another name for a dim, constant, axis, value, parameter, block, ...
 *
 * After the edits every name has to mean what it meant: the new text is read, and its names are
 * compared with those of the old one. What would break that, or is said before it, is refused. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

static const Occurrence *target(Server *s, Document *d, const json_t *params, Refusal *r)
{
    size_t byte;
    const Index *x = document_index(d);
    if (!x || !position_byte(d, params, &byte, r))
        return NULL;
    const Occurrence *o = index_at(x, byte);
    const char *name = o ? index_text(x, o->name) : "";
    if (!o) {
        refuse(r, RPC_failed, "no name that can be changed stands here");
        return NULL;
    }
    if (o->decl < 0) {
        refuse(r, RPC_failed, "'%s' is a word of the language", name);
        return NULL;
    }
    const DeclKind kind = x->decls.data[o->decl].kind;
    const Node *owner = x->decls.data[o->decl].owner;
    if (kind == DECL_value && owner && owner->kind == N_MODEL && !strcmp(name, "loss")) {
        refuse(r, RPC_failed, "'loss' is what a model has to assign");
        return NULL;
    }
    if (kind == DECL_setting && (!strcmp(name, "betas") || !strcmp(name, "decay"))) {
        refuse(r, RPC_failed, "'%s' is a setting of the language", name);
        return NULL;
    }
    if (owner && owner->kind == N_OPTIMIZER && !strcmp(name, "p")) {
        refuse(r, RPC_failed, "'p' is the parameter that a rule changes");
        return NULL;
    }
    (void)s;
    return o;
}

json_t *rename_prepare(Server *s, Document *d, const json_t *params, Refusal *r)
{
    const Occurrence *o = target(s, d, params, r);
    if (!o)
        return r->code ? NULL : json_null();
    return json_pack("{s:o, s:s}", "range", range_json(d, o->at.begin, o->at.end), "placeholder",
                     index_text(document_index(d), o->name));
}

static bool is_name(const char *text)
{
    enum { LONGEST = 128 };
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (!(text[i] == '_' || (text[i] >= 'a' && text[i] <= 'z') ||
              (text[i] >= 'A' && text[i] <= 'Z') || (i && text[i] >= '0' && text[i] <= '9')))
            return false;
    return n && n <= LONGEST;
}

static bool is_keyword(const char *text)
{
    for (size_t i = 0; mg_keyword(i); i++)
        if (!strcmp(mg_keyword(i), text))
            return true;
    return false;
}

/* A name of the file's cannot be that of anything in a block, either. */
static const Decl *taken(const Index *x, const Decl *d, Name name)
{
    const int same = index_find(x, d->kind, d->owner, name);
    if (same >= 0)
        return &x->decls.data[same];
    const bool value = d->kind <= DECL_instance || d->kind == DECL_state;
    for (size_t i = 0; value && !d->owner && i < x->decls.n; i++) {
        const Decl *o = &x->decls.data[i];
        if (o->name == name && (o->kind <= DECL_instance || o->kind == DECL_state))
            return o;
    }
    return NULL;
}

typedef VEC(Span) Spans;

static Spans places(const Index *x, int decl)
{
    Spans all = {0};
    for (size_t i = 0; i < x->occurrences.n; i++) {
        const Span at = x->occurrences.data[i].at;
        const bool again = all.n && all.data[all.n - 1].begin == at.begin;
        if (x->occurrences.data[i].decl == decl && !again)
            vec_push(x->arena, &all, at);
    }
    return all;
}

static char *edited(const Document *d, const Spans *at, const char *name, size_t *size)
{
    char *text = NULL;
    size_t from = 0;
    FILE *out = open_memstream(&text, size);
    for (size_t i = 0; i < at->n; i++) {
        fwrite(d->text.data + from, 1, at->data[i].begin - from, out);
        fputs(name, out);
        from = at->data[i].end;
    }
    fwrite(d->text.data + from, 1, d->text.size - from, out);
    fclose(out);
    return text;
}

/* Has the new text the same names, declared in the same places? */
static bool same_meaning(const Index *x, const Index *y, int decl, const Spans *at, size_t length)
{
    if (!y || x->whole != y->whole || x->occurrences.n != y->occurrences.n)
        return false;
    size_t before = 0; /* edits that lie before */
    int64_t longer = 0;
    for (size_t i = 0; i < x->occurrences.n; i++) {
        const Occurrence *a = &x->occurrences.data[i], *b = &y->occurrences.data[i];
        while (before < at->n && at->data[before].begin < a->at.begin) {
            const Span e = at->data[before++];
            longer += (int64_t)length - (int64_t)(e.end - e.begin);
        }
        if (a->decl != b->decl || (int64_t)b->at.begin != (int64_t)a->at.begin + longer)
            return false;
        if (a->decl != decl && strcmp(index_text(x, a->name), index_text(y, b->name)) != 0)
            return false;
    }
    return true;
}

json_t *rename_all(Server *s, Document *d, const json_t *params, Refusal *r)
{
    const char *name = text_of(params, "newName");
    const Occurrence *o = target(s, d, params, r);
    if (!o)
        return r->code ? NULL : json_null();
    Index *x = document_index(d);
    const Decl *decl = &x->decls.data[o->decl];
    if (!name || !is_name(name))
        return refuse(r, RPC_params, "a name is a letter or '_', then letters, digits and '_'");
    if (is_keyword(name))
        return refuse(r, RPC_failed, "'%s' is a reserved word", name);
    const Decl *other = taken(x, decl, name_intern(x->names, name));
    if (other == decl)
        return json_pack("{s:{}}", "changes");
    if (other)
        return refuse(r, RPC_failed, "'%s' is the name of a %s already, in line %d", name,
                      decl_kind_name(other->kind),
                      (int)text_locate(&d->text, other->at.begin).line + 1);
    size_t size = 0;
    const Spans at = places(x, o->decl);
    char *text = edited(d, &at, name, &size);
    Arena *a = arena_new();
    const bool same =
        same_meaning(x, index_new(a, d->path, text, size), o->decl, &at, strlen(name));
    arena_free(a);
    free(text);
    if (!same)
        return refuse(r, RPC_failed, "with the name '%s' other names would mean something else",
                      name);
    json_t *edits = json_array();
    for (size_t i = 0; i < at.n; i++)
        json_array_append_new(edits, json_pack("{s:o, s:s}", "range",
                                               range_json(d, at.data[i].begin, at.data[i].end),
                                               "newText", name));
    return json_pack("{s:{s:o}}", "changes", d->uri, edits);
}
