/* marks.c - libyaml's events as a tree; see marks.h. */
#include "compiler/recipe/marks.h"

#include <string.h>
#include <yaml.h>

enum { SIZE_MAX_MARKS = 1 << 20, DEPTH_MAX = 32, NODES_MAX = 100000, SHOWN_MAX = 120 };

typedef struct Reading {
    Session *s;
    yaml_parser_t parser;
    uint32_t file;
    const char *text;
    size_t size;
    size_t index, byte; /* a place that was looked for last: characters and bytes before it */
    int nodes;
} Reading;

/* libyaml counts characters, spans count bytes. */
static uint32_t byte_of(Reading *r, size_t index)
{
    if (index < r->index)
        r->index = r->byte = 0;
    while (r->index < index && r->byte < r->size) {
        do
            r->byte++;
        while (r->byte < r->size && ((unsigned char)r->text[r->byte] & 0xc0) == 0x80);
        r->index++;
    }
    return (uint32_t)r->byte;
}

static Span span_of(Reading *r, yaml_mark_t begin, yaml_mark_t end)
{
    const uint32_t from = byte_of(r, begin.index), to = byte_of(r, end.index);
    return (Span){r->file, from, to > from ? to : from};
}

static void *refuse(Reading *r, Span at, const char *what)
{
    diag_error(r->s->diag, at, 615, "%s", what);
    return NULL;
}

static bool next(Reading *r, yaml_event_t *e)
{
    if (yaml_parser_parse(&r->parser, e))
        return true;
    const yaml_parser_t *p = &r->parser;
    const uint32_t at = p->error == YAML_READER_ERROR ? (uint32_t)p->problem_offset
                                                      : byte_of(r, p->problem_mark.index);
    const uint32_t begin = at < r->size ? at : (uint32_t)r->size;
    const char *context = p->context ? arena_printf(r->s->arena, " %s", p->context) : "";
    refuse(r, (Span){r->file, begin, begin},
           arena_printf(r->s->arena, "this is no YAML: %s%s",
                        p->problem ? p->problem : "libyaml has no memory", context));
    return false;
}

static Marked *node(Reading *r, const yaml_event_t *e, int depth);

static const char *scalar_text(Reading *r, const yaml_event_t *e, Span at)
{
    const char *text = (const char *)e->data.scalar.value;
    if (strlen(text) != e->data.scalar.length)
        return refuse(r, at, "a text with a zero byte");
    return arena_strdup(r->s->arena, text);
}

static bool read_items(Reading *r, Marked *list, int depth)
{
    for (;;) {
        yaml_event_t e;
        if (!next(r, &e))
            return false;
        const bool ends = e.type == YAML_SEQUENCE_END_EVENT;
        const Marked *v = ends ? NULL : node(r, &e, depth + 1);
        yaml_event_delete(&e);
        if (ends || !v)
            return ends;
        vec_push(r->s->arena, &list->items, ((MarkedItem){.at = v->at, .value = v}));
    }
}

static bool add_pair(Reading *r, Marked *map, const yaml_event_t *e, int depth)
{
    yaml_event_t of;
    const Span at = span_of(r, e->start_mark, e->end_mark);
    if (e->type != YAML_SCALAR_EVENT)
        return refuse(r, at, "a key has to be a text");
    const char *key = scalar_text(r, e, at);
    if (!key || !next(r, &of))
        return false;
    const MarkedItem *before = marks_find(map, key);
    const Marked *v = node(r, &of, depth + 1);
    yaml_event_delete(&of);
    if (!v)
        return false;
    if (before) {
        diag_error(r->s->diag, at, 615, "'%s' is given twice", key);
        diag_note(r->s->diag, before->at, "the first time");
        return false;
    }
    vec_push(r->s->arena, &map->items, ((MarkedItem){key, at, v}));
    return true;
}

static bool read_pairs(Reading *r, Marked *map, int depth)
{
    for (;;) {
        yaml_event_t e;
        if (!next(r, &e))
            return false;
        const bool ends = e.type == YAML_MAPPING_END_EVENT;
        const bool good = ends || add_pair(r, map, &e, depth);
        yaml_event_delete(&e);
        if (ends || !good)
            return good;
    }
}

static Marked *node(Reading *r, const yaml_event_t *e, int depth)
{
    const Span at = span_of(r, e->start_mark, e->end_mark);
    Marked *v = NEW(r->s->arena, Marked);
    *v = (Marked){.at = at};
    if (e->type == YAML_ALIAS_EVENT)
        return refuse(r, at, "an alias: write the value itself");
    if (++r->nodes > NODES_MAX || depth > DEPTH_MAX)
        return refuse(r, at,
                      "this has too many values, or they nest too deep, for a file of settings");
    const yaml_char_t *tag = e->type == YAML_SCALAR_EVENT           ? e->data.scalar.tag
                             : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag
                                                                    : e->data.mapping_start.tag;
    if (tag)
        return refuse(r, at, "a tag: values of settings have none");
    if (e->type == YAML_SCALAR_EVENT) {
        v->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        return (v->text = scalar_text(r, e, at)) ? v : NULL;
    }
    v->kind = e->type == YAML_SEQUENCE_START_EVENT ? MARKED_list : MARKED_map;
    return (v->kind == MARKED_list ? read_items(r, v, depth) : read_pairs(r, v, depth)) ? v : NULL;
}

/* The one document of a text. */
static Marked *document(Reading *r)
{
    Marked *root = NULL;
    for (bool more = true; more;) {
        yaml_event_t e;
        if (!next(r, &e))
            return NULL;
        const Span at = span_of(r, e.start_mark, e.end_mark);
        more = e.type != YAML_STREAM_END_EVENT;
        const bool begins = e.type == YAML_SCALAR_EVENT || e.type == YAML_ALIAS_EVENT ||
                            e.type == YAML_SEQUENCE_START_EVENT ||
                            e.type == YAML_MAPPING_START_EVENT;
        if (begins && root)
            root = refuse(r, at, "a second document: a file of settings is one");
        else if (begins)
            root = node(r, &e, 0);
        yaml_event_delete(&e);
        if (begins && !root)
            return NULL;
    }
    if (root && root->kind == MARKED_map)
        return root;
    return refuse(r, root ? root->at : (Span){r->file, 0, 0}, "settings are a map: key: value");
}

const Marked *marks_parse(Session *s, uint32_t file)
{
    Reading r = {.s = s, .file = file};
    r.text = diag_text(s->diag, file, &r.size);
    if (r.size > SIZE_MAX_MARKS)
        return refuse(&r, (Span){file, 0, 0}, "more than 1 MiB: this is no file of settings");
    if (!yaml_parser_initialize(&r.parser))
        return refuse(&r, (Span){file, 0, 0}, "libyaml has no memory");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.text, r.size);
    const Marked *root = document(&r);
    yaml_parser_delete(&r.parser);
    return root;
}

const Marked *marks_read(Session *s, const char *path)
{
    const uint32_t file = read_source(s, path);
    return file ? marks_parse(s, file) : NULL;
}

const MarkedItem *marks_find(const Marked *map, const char *key)
{
    for (size_t i = 0; map && i < map->items.n; i++)
        if (map->items.data[i].key && !strcmp(map->items.data[i].key, key))
            return &map->items.data[i];
    return NULL;
}

bool marks_null(const Marked *v)
{
    return v->kind == MARKED_scalar && !v->quoted &&
           (!*v->text || !strcmp(v->text, "~") || !strcmp(v->text, "null") ||
            !strcmp(v->text, "Null") || !strcmp(v->text, "NULL"));
}

static const char *shown(Arena *a, const Marked *v)
{
    if (v->kind == MARKED_scalar)
        return marks_null(v) ? "null" : v->text;
    const char *all = "";
    for (size_t i = 0; i < v->items.n && strlen(all) <= SHOWN_MAX; i++) {
        const MarkedItem *m = &v->items.data[i];
        all = arena_printf(a, "%s%s%s%s%s", all, i ? ", " : "", m->key ? m->key : "",
                           m->key ? ": " : "", shown(a, m->value));
    }
    return arena_printf(a, v->kind == MARKED_list ? "[%s]" : "{%s}", all);
}

const char *marks_shown(Arena *a, const Marked *v)
{
    const char *all = shown(a, v);
    return marks_line(
        a, arena_printf(a, strlen(all) <= SHOWN_MAX ? "%.*s" : "%.*s...", SHOWN_MAX, all));
}

const char *marks_line(Arena *a, const char *text)
{
    char *line = arena_printf(a, "%s", text);
    for (char *c = line; *c; c++)
        *c = *c == '\n' || *c == '\r' || *c == '\t' ? ' ' : *c;
    return line;
}
