/* facts.c - messages, types and parameters of a text; see facts.h. */
#include "compiler/lsp/facts.h"

#include <stdlib.h>
#include <string.h>

#include "ir/external.h"

json_t *facts_string(const char *text)
{
    char *shown = NULL;
    size_t size;
    FILE *out = open_memstream(&shown, &size);
    diag_show(out, text);
    fclose(out);
    json_t *s = json_stringn(shown, size);
    free(shown);
    return s ? s : json_string("");
}

/* ---- messages ------------------------------------------------------------------------------ */

static const char *elsewhere(const Heard *h, Span at)
{
    int line, column;
    if (!at.file || at.file == SOURCE_FILE)
        return "";
    diag_locate(h->diag, at, &line, &column);
    return arena_printf(h->arena, " (%s:%d)", diag_path(h->diag, at.file), line);
}

static json_t *message(const Heard *h, Span at, const char *text)
{
    const bool here = at.file == SOURCE_FILE;
    return json_pack("{s:I, s:I, s:o}", "begin", here ? (json_int_t)at.begin : -1, "end",
                     here ? (json_int_t)at.end : -1, "text",
                     facts_string(arena_printf(h->arena, "%s%s", text, elsewhere(h, at))));
}

void heard_message(void *ctx, DiagKind kind, Span at, int code, const char *text)
{
    enum { ERROR = 1, WARNING, INFORMATION };
    Heard *h = ctx;
    json_t *last = json_array_get(h->messages, json_array_size(h->messages) - 1);
    if (kind == DIAG_error || kind == DIAG_warning) {
        json_t *m = message(h, at, text);
        json_object_set_new(m, "severity", json_integer(kind == DIAG_error ? ERROR : WARNING));
        json_object_set_new(m, "code", json_integer(code));
        json_object_set_new(m, "notes", json_array());
        json_object_set_new(m, "helps", json_array());
        json_array_append_new(h->messages, m);
    } else if (kind == DIAG_note && last) {
        json_array_append_new(json_object_get(last, "notes"), message(h, at, text));
    } else if (kind == DIAG_help && last) {
        json_array_append_new(json_object_get(last, "helps"), facts_string(text));
    }
}

static json_t *edit_fact(const Edit *e)
{
    return e->at.file == SOURCE_FILE
               ? json_pack("{s:I, s:I, s:o}", "begin", (json_int_t)e->at.begin, "end",
                           (json_int_t)e->at.end, "with", facts_string(e->with))
           : e->at.file ? NULL
                        : json_pack("{s:o}", "option", facts_string(e->with));
}

/* Those that change another file as well, or -D, are left to the person. */
static json_t *fix_fact(const Told *t)
{
    json_t *edits = json_array();
    for (int i = 0; i < t->remedy.n; i++) {
        json_t *e = edit_fact(&t->remedy.edit[i]);
        if (!e) {
            json_decref(edits);
            return NULL;
        }
        json_array_append_new(edits, e);
    }
    const bool here = t->at.file == SOURCE_FILE;
    return json_pack("{s:i, s:I, s:o, s:o}", "code", t->code, "begin",
                     here ? (json_int_t)t->at.begin : -1, "said", facts_string(t->said), "edits",
                     edits);
}

json_t *facts_fixes(const Diag *d)
{
    const ToldList *told = diag_told(d);
    json_t *all = json_array();
    for (size_t i = 0; i < told->n; i++) {
        json_t *fix = fix_fact(&told->data[i]);
        if (fix)
            json_array_append_new(all, fix);
    }
    return all;
}

/* ---- values -------------------------------------------------------------------------------- */

enum { VALUES_MAX = 20000, BUCKETS = 4096 };

/* A type that was told at a place. */
typedef struct Fact {
    struct Fact *next;
    uint32_t at;
    const char *text;
} Fact;

struct Known {
    Fact *bucket[BUCKETS];
    size_t n;
};

static const char *type_fact(const Heard *h, const Type *t)
{
    const char *text = arena_printf(h->arena, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        text = arena_printf(h->arena, "%s%s%s = %lld", text, i ? ", " : "",
                            name_str(h->names, t->dims[i].name), (long long)t->dims[i].size);
    text = arena_printf(h->arena, "%s]", text);
    if (t->dtype == DT_i32 && t->indexes)
        text = arena_printf(h->arena, "%s : token(%s)", text, name_str(h->names, t->indexes));
    return arena_printf(h->arena, "%s, %s", text, text_bytes(h->arena, (double)type_bytes(t)));
}

/* False: it was told before, or there are too many. */
static bool is_new(Heard *h, uint32_t at, const char *text)
{
    if (!h->known)
        h->known = NEW(h->arena, struct Known);
    Fact **b = &h->known->bucket[at % BUCKETS];
    for (const Fact *f = *b; f; f = f->next)
        if (f->at == at && !strcmp(f->text, text))
            return false;
    if (h->known->n++ >= VALUES_MAX)
        return false;
    Fact *f = NEW(h->arena, Fact);
    *f = (Fact){*b, at, text};
    *b = f;
    return true;
}

static void note_path(Heard *h, const char *path, Name block)
{
    const Name name = *path ? name_intern(h->names, path) : 0;
    while (h->block_of.n <= name)
        vec_push(h->arena, &h->block_of, (Name)0);
    if (name)
        h->block_of.data[name] = block;
}

void heard_value(void *ctx, Span at, const char *path, Name block, const Type *type,
                 const char *number)
{
    Heard *h = ctx;
    const char *text = type ? type_fact(h, type) : arena_printf(h->arena, "= %s", number);
    note_path(h, path, block);
    if (is_new(h, at.begin, text))
        json_array_append_new(h->values, json_pack("[I, o, o]", (json_int_t)at.begin,
                                                   facts_string(text), facts_string(path)));
}

static const char *initial(const Heard *h, const Tensor *t)
{
    if (t->follows || t->formula)
        return t->follows ? "a follower" : "starts by a formula";
    if (t->init == INIT_const)
        return arena_printf(h->arena, "starts as %g", t->a);
    return arena_printf(h->arena,
                        t->init == INIT_normal ? "starts normal, mean %g, deviation %g"
                                               : "starts uniform between %g and %g",
                        t->a, t->b);
}

void heard_tensors(Heard *h, const Module *m)
{
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        if (t->slot || t->span.file != SOURCE_FILE)
            continue;
        const char *shape = "";
        for (int k = 0; k < t->external_rank; k++)
            shape = arena_printf(h->arena, "%s%s%lld", shape, k ? ", " : "",
                                 (long long)external_size(t, k));
        const char *text = arena_printf(h->arena, "`%s` [%s] in checkpoints; %s",
                                        name_str(m->names, t->external), shape, initial(h, t));
        json_array_append_new(h->tensors,
                              json_pack("[I, o, o]", (json_int_t)t->span.begin,
                                        facts_string(type_fact(h, &t->type)), facts_string(text)));
    }
}
