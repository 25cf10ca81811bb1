/* template.c - pages of lib/mgc; see template.h. */
#include "compiler/report/template.h"

#include <stdlib.h>
#include <string.h>

const char *template_read(Session *s, const char *name)
{
    size_t size;
    uint32_t file = read_source(s, arena_printf(s->arena, "%s/%s", home_dir(s->arena), name));
    return file ? diag_text(s->diag, file, &size) : NULL;
}

/* In a page's script no text may end it. */
static void put_json(const json_t *o, int digits, FILE *out)
{
    char *text =
        json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION((size_t)digits) | JSON_PRESERVE_ORDER);
    for (const char *c = text; c && *c; c++)
        if (*c == '<')
            fputs("\\u003c", out);
        else
            putc(*c, out);
    free(text);
}

void template_write(const char *html, const json_t *data, int digits, const char *nonce, FILE *out)
{
    static const char mark[] = "@DATA@", of_nonce[] = "@NONCE@";
    for (const char *c = html; *c; c++)
        if (!strncmp(c, mark, sizeof mark - 1)) {
            put_json(data, digits, out);
            c += sizeof mark - 2;
        } else if (!strncmp(c, of_nonce, sizeof of_nonce - 1)) {
            fputs(nonce, out);
            c += sizeof of_nonce - 2;
        } else {
            putc(*c, out);
        }
}
