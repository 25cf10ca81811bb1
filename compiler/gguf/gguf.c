/* gguf.c - the command: mgc gguf DIR -o F.gguf [--type f16]. */
#include "compiler/gguf/gguf.h"

#include <libgen.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gguf_refuse(Gguf *g, int code, const char *fmt, ...)
{
    va_list ap;
    char text[1024];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    diag_error(g->s->diag, (Span){0}, code, "%s", text);
    return false;
}

static GgufType type_called(const char *word)
{
    return !word                   ? GGUF_f16
           : !strcmp(word, "f32")  ? GGUF_f32
           : !strcmp(word, "f16")  ? GGUF_f16
           : !strcmp(word, "bf16") ? GGUF_bf16
                                   : GGUF_q8_0;
}

static bool read_dir(Gguf *g)
{
    g->config = gguf_json(g, "config.json");
    if (!g->config)
        return g->s->diag && diag_errors(g->s->diag)
                   ? false
                   : gguf_refuse(g, 610,
                                 "%s has no config.json; a model with a config block "
                                 "(mgc import-hf) has one in its checkpoints",
                                 g->dir);
    return gguf_sources(g) && gguf_family(g) && gguf_tokens(g);
}

static Exit write_file(Gguf *g)
{
    Output out;
    Exit status = output_replaceable(g->s, g->s->o->out);
    if (status || (status = output_open(g->s, &out, g->s->o->out)))
        return status;
    const bool good = gguf_write(g, out.file);
    status = output_close(g->s, &out, good);
    return good ? status : EXIT_source;
}

Exit command_gguf(Session *s)
{
    Gguf g = {.s = s,
              .dir = s->o->words.data[0],
              .type = type_called(s->o->type),
              .owned = json_array(),
              .place = json_object()};
    g.meta = open_memstream(&g.meta_text, &g.meta_size);
    const bool good = read_dir(&g);
    fclose(g.meta);
    const Exit status = good ? write_file(&g) : EXIT_source;
    if (!status)
        diag_notice(s->diag, "%s: %zu tensors, architecture %s", s->o->out, g.tensor.n, g.arch);
    for (size_t i = 0; i < g.file.n; i++)
        close(g.file.data[i]);
    free(g.meta_text);
    json_decref(g.place);
    json_decref(g.owned);
    return status;
}
