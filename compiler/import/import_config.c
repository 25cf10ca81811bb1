/* import_config.c - config.json of a Hugging Face model: its text, its family, and keys that the
 * template of the family does not know, which are refused: they might change the mathematics. */
#include "compiler/import/import.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool import_bad(Import *h, const char *key, const char *fmt, ...)
{
    char why[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    diag_error(h->s->diag, (Span){0}, 570, "%s: \"%.100s\" %s", h->path, key, why);
    return false;
}

/* ---- the family ------------------------------------------------------------------------------ */

static bool plain(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '_')
            return false;
    return *name && strlen(name) < 60;
}

static bool find_family(Import *h)
{
    json_t *type = json_object_get(h->config, "model_type");
    Arena *a = h->s->arena;
    if (!json_is_string(type))
        return import_bad(h, "model_type", "is missing: this is not the config.json of a model");
    h->family = json_string_value(type);
    const char *home = home_dir(a);
    if (plain(h->family) && !access(arena_printf(a, "%s/hf/%s.mg", home, h->family), R_OK)) {
        json_object_set(h->values, "model_type", type);
        json_object_set_new(h->known, "model_type", json_true());
        return true;
    }
    const char *all = import_names(a, arena_printf(a, "%s/hf", home));
    import_bad(h, "model_type", "is '%.40s'", h->family);
    if (*all)
        diag_help(h->s->diag, "there is: %s", all);
    else
        diag_help(h->s->diag, "no templates of families were found in '%s/hf'", home);
    return false;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Python writes Infinity, which is no JSON, where there is no limit: null here. */
static const char *without_infinity(Import *h, const char *text, size_t size)
{
    char *copy = arena_alloc(h->s->arena, size + 1), *at;
    memcpy(copy, text, size);
    copy[size] = 0;
    for (at = copy; (at = strstr(at, "Infinity")) != NULL; at += strlen("Infinity"))
        if (at == copy || strchr(" ,[:\n", at[-1]))
            memcpy(at, "null    ", strlen("Infinity"));
    return copy;
}

/* transformers writes {"__float__": "Infinity"} for the same. */
static void plain_numbers(json_t *v)
{
    const char *name;
    json_t *item;
    size_t i;
    void *next;
    json_array_foreach(v, i, item)
        if (json_is_string(json_object_get(item, "__float__")))
            json_array_set_new(v, i, json_null());
        else
            plain_numbers(item);
    json_object_foreach_safe(v, next, name,
                             item) if (json_is_string(json_object_get(item, "__float__")))
        json_object_set_new(v, name, json_null());
    else plain_numbers(item);
}

bool import_config(Import *h)
{
    json_error_t e;
    uint32_t file = read_source(h->s, h->path);
    size_t size;
    if (!file)
        return false;
    const char *text = diag_text(h->s->diag, file, &size);
    text = without_infinity(h, text, size);
    h->config = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
    json_array_append_new(h->owned, h->config);
    if (!json_is_object(h->config)) {
        diag_error(h->s->diag, (Span){0}, 570, "%s:%d:%d: %s", h->path, e.line, e.column,
                   h->config ? "no JSON object" : e.text);
        return false;
    }
    plain_numbers(h->config);
    return find_family(h);
}

/* ---- keys that nobody knows ------------------------------------------------------------------ */

/* Whether a part of the key is known: of "rope_scaling", "rope_scaling.factor" is. */
static bool known_within(const Import *h, const char *key)
{
    const size_t n = strlen(key);
    const char *name;
    json_t *v;
    json_object_foreach(h->known, name, v)
        if (!strncmp(name, key, n) && name[n] == '.')
            return true;
    return false;
}

static bool all_known(Import *h, const json_t *object, const char *within)
{
    const char *name;
    json_t *v;
    bool good = true;
    json_object_foreach((json_t *)(uintptr_t)object, name, v) {
        const char *key = arena_printf(h->s->arena, "%s%s", within, name);
        if (json_is_null(v) || json_object_get(h->known, key))
            continue;
        if (json_is_object(v) && known_within(h, key))
            good &= all_known(h, v, arena_printf(h->s->arena, "%s.", key));
        else
            good = import_bad(h, key, "is %s: what it changes is not known of '%s'",
                              import_shown(h, v), h->family);
    }
    return good;
}

bool import_all_known(Import *h)
{
    return all_known(h, h->config, "");
}
