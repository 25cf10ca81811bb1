/* text.c - see text.h. */
#include "tests/passes/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void read_text(Model *t, const char *head, const char *body, const char *end)
{
    char *text = arena_printf(t->a, "%s%s%s}\n", head, body, end);
    uint32_t file = diag_add_file(t->m->diag, "test.mgir", text, strlen(text));
    Module *m = ir_parse(t->a, names_new(t->a), t->m->diag, file);
    if (!m)
        fail_msg("%s", model_messages(t));
    t->m = m;
    t->fn = m->fns.data[0];
    t->b = (Builder){.m = m, .region = t->fn->body};
    assert_int_equal(ir_verify(m, stderr), 0);
}

char *body_text(const Model *t, const char *last)
{
    char *printed;
    size_t size;
    FILE *out = open_memstream(&printed, &size);
    ir_print(t->m, out);
    fclose(out);
    const char *p = strstr(printed, last);
    assert_non_null(p);
    p = strchr(p, '\n') + 1;
    char *text = calloc(strlen(p) + 1, 1), *to = text;
    while (*p && strncmp(p, "  result", 8)) {
        p += strspn(p, " ");
        size_t n = strcspn(p, "\n") + 1;
        memcpy(to, p, n);
        to += n;
        p += n;
    }
    free(printed);
    return text;
}

bool rewrites_to(const Rewrite *r, const char *head, const char *end, const char *last,
                 PassRun *const *passes)
{
    Model t;
    model_open(&t);
    read_text(&t, head, r->before, end);
    for (; *passes; passes++)
        must_pass(&t, *passes);
    char *body = body_text(&t, last);
    bool same = !strcmp(body, r->after);
    if (!same)
        fprintf(stderr, "%s\nwanted:\n%s\ngot:\n%s", r->what, r->after, body);
    free(body);
    model_close(&t);
    return same;
}
