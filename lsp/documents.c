/* documents.c - the texts that the client has open, as it has them. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

Document *document_find(Server *s, const char *uri)
{
    for (Document *d = s->documents; d; d = d->next)
        if (!strcmp(d->uri, uri))
            return d;
    return NULL;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The path of a file's URI; another URI is a name like any. */
static char *path_of(const char *uri)
{
    char *path = strdup(uri), *to = path;
    if (!path)
        abort();
    if (strncmp(uri, "file://", 7) != 0)
        return path;
    for (const char *p = strchr(uri + 7, '/'); p && *p; p++) {
        const bool coded = *p == '%' && hex(p[1]) >= 0 && hex(p[2]) >= 0;
        const int c = coded ? hex(p[1]) * 16 + hex(p[2]) : *p;
        *to++ = (char)(c ? c : '?');
        p += coded ? 2 : 0;
    }
    *to = 0;
    return path;
}

static void forget_index(Document *d)
{
    if (d->arena)
        arena_free(d->arena);
    d->arena = NULL;
    d->index = NULL;
    d->indexed = false;
}

Index *document_index(Document *d)
{
    if (!d->indexed) {
        d->arena = arena_new();
        d->index = index_new(d->arena, d->path, d->text.data, d->text.size);
        d->indexed = true;
    }
    return d->index;
}

void document_changed(Server *s, Document *d)
{
    forget_index(d);
    facts_drop(s, d, true);
}

void document_free(Server *s, Document *d)
{
    Document **at = &s->documents;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    server_answer_waiting(s, d, true);
    facts_drop(s, d, false);
    forget_index(d);
    earlier_free(&d->earlier);
    json_decref(d->planned);
    json_decref(d->options);
    json_decref(d->version);
    text_free(&d->text);
    free(d->heard);
    free(d->uri);
    free(d->path);
    free(d);
}

static void set_version(Document *d, const json_t *item)
{
    json_t *v = json_object_get(item, "version");
    json_decref(d->version);
    d->version = json_is_integer(v) ? json_incref(v) : NULL;
}

json_t *document_open(Server *s, Document *none, const json_t *params, Refusal *r)
{
    (void)none;
    const json_t *item = json_object_get(params, "textDocument");
    const json_t *text = json_object_get(item, "text");
    const char *uri = text_of(item, "uri");
    if (!uri || !json_is_string(text))
        return refuse(r, RPC_params, "a document has a uri and a text");
    Document *d = document_find(s, uri);
    if (!d) {
        d = calloc(1, sizeof *d);
        if (!d)
            abort();
        d->uri = strdup(uri);
        d->path = path_of(uri);
        d->options = json_array();
        d->child.fd = -1;
        d->next = s->documents;
        s->documents = d;
    }
    set_version(d, item);
    earlier_edit(d, 0, d->text.size, json_string_length(text));
    if (!text_set(&d->text, json_string_value(text), json_string_length(text))) {
        document_free(s, d);
        return refuse(r, RPC_params, "a text of more than %d bytes", TEXT_MAX);
    }
    document_changed(s, d);
    return NULL;
}

static bool place_in(const json_t *o, const char *key, Place *p)
{
    const json_t *place = json_object_get(o, key);
    const json_t *line = json_object_get(place, "line");
    const json_t *character = json_object_get(place, "character");
    if (!json_is_integer(line) || !json_is_integer(character))
        return false;
    *p = (Place){json_integer_value(line), json_integer_value(character)};
    return p->line >= 0 && p->character >= 0;
}

/* One change: of a range, or of the whole text. */
static bool change(Document *d, const json_t *c)
{
    const json_t *text = json_object_get(c, "text"), *range = json_object_get(c, "range");
    Place from, to;
    if (!json_is_string(text))
        return false;
    const size_t size = json_string_length(text);
    size_t begin = 0, end = d->text.size;
    if (range) {
        if (!place_in(range, "start", &from) || !place_in(range, "end", &to))
            return false;
        text_range(&d->text, from, to, &begin, &end);
    }
    earlier_edit(d, begin, end, size);
    return text_edit(&d->text, begin, end, json_string_value(text), size);
}

/* After a change that cannot be made the text is no longer the client's: the document is closed. */
json_t *document_change(Server *s, Document *d, const json_t *params, Refusal *r)
{
    const json_t *all = json_object_get(params, "contentChanges");
    bool good = json_is_array(all);
    for (size_t i = 0; good && i < json_array_size(all); i++)
        good = change(d, json_array_get(all, i));
    if (!good) {
        publish_nothing(s, d);
        document_free(s, d);
        return refuse(r, RPC_params, "a change that cannot be made: open the document again");
    }
    set_version(d, json_object_get(params, "textDocument"));
    document_changed(s, d);
    return NULL;
}

json_t *document_close(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)params, (void)r;
    publish_nothing(s, d);
    document_free(s, d);
    return NULL;
}

/* ---- places -------------------------------------------------------------------------------- */

static json_t *place_json(const Document *d, size_t byte)
{
    const Place p = text_locate(&d->text, byte);
    return json_pack("{s:I, s:I}", "line", (json_int_t)p.line, "character",
                     (json_int_t)p.character);
}

json_t *range_json(const Document *d, size_t begin, size_t end)
{
    return json_pack("{s:o, s:o}", "start", place_json(d, begin), "end",
                     place_json(d, end < begin ? begin : end));
}

json_t *location_json(const Document *d, size_t begin, size_t end)
{
    return json_pack("{s:s, s:o}", "uri", d->uri, "range", range_json(d, begin, end));
}

bool position_byte(const Document *d, const json_t *params, size_t *byte, Refusal *r)
{
    Place p;
    if (!place_in(params, "position", &p)) {
        refuse(r, RPC_params, "a position is a line and a character, from 0");
        return false;
    }
    *byte = text_byte(&d->text, p);
    return true;
}
