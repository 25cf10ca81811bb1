/* semantic.c - what each name of a text stands for, for highlighting: what a grammar of regular
 * expressions cannot know. Keywords, numbers and comments are left to that grammar.
 *
 * The protocol has five numbers for a name: lines from the one before, UTF-16 units from its begin
 * where it is in the same line, length, type, and a bit for each modifier. */
#include "lsp/server.h"

enum { OF_LANGUAGE = DECL_layout + 1 }; /* a block, function or optimizer */

/* Names of types, by the kind of the declaration; editors know these. */
static const char *const types[] = {
    [DECL_dim] = "typeParameter", [DECL_const] = "variable",     [DECL_axis] = "namespace",
    [DECL_value] = "variable",    [DECL_option] = "parameter",   [DECL_flag] = "parameter",
    [DECL_param] = "property",    [DECL_instance] = "property",  [DECL_block] = "function",
    [DECL_model] = "class",       [DECL_optimizer] = "function", [DECL_setting] = "parameter",
    [DECL_state] = "property",    [DECL_layout] = "namespace",   [OF_LANGUAGE] = "function"};
static const char *const modifiers[] = {"declaration", "readonly", "defaultLibrary"};
enum { DECLARED = 1, READONLY = 2, LIBRARY = 4 };

json_t *semantic_legend(void)
{
    json_t *t = json_array(), *m = json_array();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        json_array_append_new(t, json_string(types[i]));
    for (size_t i = 0; i < sizeof modifiers / sizeof *modifiers; i++)
        json_array_append_new(m, json_string(modifiers[i]));
    return json_pack("{s:o, s:o}", "tokenTypes", t, "tokenModifiers", m);
}

static int modifiers_of(const Index *x, const Occurrence *o)
{
    if (o->decl < 0)
        return LIBRARY;
    const Decl *d = &x->decls.data[o->decl];
    const bool fixed = d->kind == DECL_dim || d->kind == DECL_const;
    return (d->at.begin == o->at.begin ? DECLARED : 0) | (fixed ? READONLY : 0);
}

json_t *semantic_tokens(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)s, (void)params, (void)r;
    const Index *x = document_index(d);
    json_t *data = json_array();
    Place last = {0};
    size_t end = 0;
    for (size_t i = 0; x && i < x->occurrences.n; i++) {
        const Occurrence *o = &x->occurrences.data[i];
        if (o->at.begin < end) /* a name that stands for several has the first */
            continue;
        end = o->at.end;
        const Place from = text_locate(&d->text, o->at.begin), to = text_locate(&d->text, end);
        if (from.line != to.line || from.character == to.character)
            continue;
        const int64_t five[5] = {
            from.line - last.line,
            from.line == last.line ? from.character - last.character : from.character,
            to.character - from.character,
            o->decl < 0 ? OF_LANGUAGE : (int64_t)x->decls.data[o->decl].kind, modifiers_of(x, o)};
        for (int k = 0; k < 5; k++)
            json_array_append_new(data, json_integer(five[k]));
        last = from;
    }
    return json_pack("{s:o}", "data", data);
}
