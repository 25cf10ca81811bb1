/* import_hf.c - mgc import-hf DIR: config.json to a .mg file, every tensor's name and shape checked
 * against the safetensors files beside it. */
#include "compiler/import/import.h"

#include <stdlib.h>

/* The written text, in the one form; NULL if mgc does not understand what it wrote. */
static char *canonical(Session *s, const char *text, size_t size, Module **m, size_t *length)
{
    uint32_t file = diag_add_file(s->diag, "imported.mg", text, size);
    const Ast *ast = mg_parse(s->arena, s->names, s->diag, file);
    ElaborateOptions options = {0};
    if (!ast || !(*m = mg_elaborate(s->arena, s->names, s->diag, ast, &options)))
        return NULL;
    char *formatted;
    FILE *f = open_memstream(&formatted, length);
    mg_fmt(ast, f);
    fclose(f);
    return formatted;
}

/* The text that the template makes of the config; NULL after telling what is wrong. */
static const char *model_text(Import *h, size_t *size)
{
    char *text;
    h->out = open_memstream(&text, size);
    const bool good = import_template(h) && import_all_known(h) && import_options_known(h);
    if (good)
        import_write_config(h, h->out);
    fclose(h->out);
    const char *kept = good ? arena_strdup(h->s->arena, text) : NULL;
    free(text);
    return kept;
}

static long long parameters(const Module *m)
{
    long long all = 0;
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        all += t->slot || t->follows ? 0 : type_elements(&t->type);
    }
    return all;
}

/* Patterns of names as selectors. */
static const char *selectors(const Import *h, const json_t *patterns)
{
    const char *all = "";
    size_t i;
    json_t *pattern;
    json_array_foreach(patterns, i, pattern)
        all =
            arena_printf(h->s->arena, "%s%s\"%s\"", all, i ? ", " : "", json_string_value(pattern));
    return all;
}

static Exit make_model(Import *h, Imported *made)
{
    Session *s = h->s;
    size_t size;
    const char *text = model_text(h, &size);
    char *formatted = text ? canonical(s, text, size, &made->module, &made->size) : NULL;
    if (!formatted || (h->tensors && !import_agree(h, made->module))) {
        free(formatted);
        return EXIT_source;
    }
    made->text = arena_strndup(s->arena, formatted, made->size);
    made->family = arena_strdup(s->arena, h->family);
    made->fresh = selectors(h, h->fresh);
    made->extra = selectors(h, h->extra);
    made->weights = h->tensors;
    free(formatted);
    return EXIT_done;
}

Exit import_hf(Session *s, const char *dir, bool packed, const char *objective, Imported *made)
{
    Import h = {.s = s, .dir = dir, .owned = json_array()};
    h.path = arena_printf(s->arena, "%s/config.json", dir);
    h.values = import_own(&h, json_object());
    json_object_set_new(h.values, "packed", json_boolean(packed));
    h.known = import_own(&h, json_object());
    h.extra = import_own(&h, json_array());
    h.fresh = import_own(&h, json_array());
    Exit status = import_objective(&h, objective) && import_config(&h) && import_tensors(&h)
                      ? make_model(&h, made)
                      : EXIT_source;
    json_decref(h.owned);
    return status;
}

Exit command_import_hf(Session *s, const char *dir)
{
    Imported made;
    Output out;
    Exit status = import_hf(s, dir, s->o->packed, s->o->objective, &made);
    if (!status && s->o->out)
        status = output_replaceable(s, s->o->out);
    if (!status && !(status = output_open(s, &out, s->o->out))) {
        fwrite(made.text, 1, made.size, out.file);
        status = output_close(s, &out, true);
    }
    if (!status)
        diag_note(s->diag, (Span){0}, "%s: %lld parameters", made.family, parameters(made.module));
    if (!status && !made.weights)
        diag_note(s->diag, (Span){0}, "%s holds no safetensors: names and shapes were not checked",
                  dir);
    return status;
}
