/* earlier.c - types of an earlier text, for the time in which the compiler looks at the one that
 * there is, or finds it wrong: a place of the text is followed back through the edits since. */
#include "lsp/server.h"

static bool has_types(const json_t *source)
{
    return json_array_size(json_object_get(source, "values")) > 0;
}

void earlier_free(Earlier *t)
{
    json_decref(t->source);
    *t = (Earlier){0};
}

void earlier_edit(Document *d, size_t begin, size_t end, size_t size)
{
    Earlier *t = &d->earlier;
    if (!t->source && !d->facts.source)
        return;
    if (t->n < EARLIER_EDITS)
        t->edit[t->n++] = (TextChange){begin, end, size};
    else
        t->lost = true;
}

void earlier_now(Document *d)
{
    if (has_types(d->facts.source))
        earlier_free(&d->earlier);
}

void earlier_keep(Document *d)
{
    Earlier *t = &d->earlier;
    if (has_types(d->facts.source)) {
        json_decref(t->source);
        t->source = json_incref(d->facts.source);
    }
    if (t->lost)
        earlier_free(t);
}

const json_t *earlier_source(const Document *d, size_t *byte)
{
    const Earlier *t = &d->earlier;
    size_t at = *byte;
    if (has_types(d->facts.source) || !t->source)
        return d->facts.source;
    for (int i = t->n; i-- > 0;) {
        const TextChange *c = &t->edit[i];
        if (at >= c->begin + c->size)
            at = at - c->size + (c->end - c->begin);
        else if (at >= c->begin)
            return NULL;
    }
    *byte = at;
    return t->source;
}

bool earlier_before(const Document *d)
{
    return d->earlier.source && !has_types(d->facts.source);
}
