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

static Exit write_model(Session *s, const HfModel *h)
{
    char *text;
    size_t size, length;
    Module *m;
    Output out;
    FILE *f = open_memstream(&text, &size);
    import_write(h, f);
    fclose(f);
    char *formatted = canonical(s, arena_strdup(s->arena, text), size, &m, &length);
    free(text);
    if (!formatted || (h->tensors && !import_agree(h, m))) {
        free(formatted);
        return EXIT_source;
    }
    Exit status = s->o->out ? output_replaceable(s, s->o->out) : EXIT_done;
    if (!status && !(status = output_open(s, &out, s->o->out))) {
        fwrite(formatted, 1, length, out.file);
        status = output_close(s, &out, true);
    }
    if (!status && !h->tensors)
        diag_note(s->diag, (Span){0}, "%s holds no safetensors: names and shapes were not checked",
                  h->dir);
    free(formatted);
    return status;
}

Exit command_import_hf(Session *s, const char *dir)
{
    HfModel h = {.s = s, .dir = dir, .owned = json_array()};
    h.path = arena_printf(s->arena, "%s/config.json", dir);
    Exit status = import_config(&h) && import_tensors(&h) ? write_model(s, &h) : EXIT_source;
    json_decref(h.owned);
    return status;
}
