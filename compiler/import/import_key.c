/* import_key.c - a key of config.json, or a setting of an objective, as a template declares it:
 *
 *   %key NAME : TYPE [= DEFAULT] [only VALUE, VALUE] [from KEY, KEY] [as EXPRESSION]
 *
 * TYPE is whole (at least 1), count (at least 0), positive, number, flag, word, list or any, with a
 * `?` where it may be null. Without `from` the key has the value's name; of several the first that
 * is there counts. `as`, to the end of the line, is what stands in the model's config block. */
#include "compiler/import/import.h"

#include <math.h>
#include <string.h>

enum { LARGEST = 1 << 30 };

/* A line, as it is read. */
typedef struct Key {
    const char *name, *type;
    bool nullable, option;    /* option: of an objective */
    json_t *otherwise, *only; /* NULL: there is none */
    json_t *from;             /* names of keys, with dots */
    const char *as;
} Key;

json_t *import_find(const Import *h, const char *key)
{
    json_t *at = h->config;
    const char *dot;
    while ((dot = strchr(key, '.')) != NULL) {
        at = json_object_get(at, arena_printf(h->s->arena, "%.*s", (int)(dot - key), key));
        key = dot + 1;
    }
    return json_object_get(at, key);
}

/* ---- reading the line ------------------------------------------------------------------------ */

static bool type(Cursor *c, Key *k)
{
    static const char *const types[] = {"whole", "count", "positive", "number",
                                        "flag",  "word",  "list",     "any"};
    const uint32_t begin = c->at;
    if (!(k->type = import_name(c, false)))
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], k->type)) {
            k->nullable = import_accept(c, "?");
            return true;
        }
    return import_refuse(c, begin, "there is no type '%s'", k->type);
}

static bool values(Cursor *c, Key *k)
{
    json_t *v;
    k->only = import_own(c->h, json_array());
    do {
        if (!(v = import_eval(c)))
            return false;
        json_array_append(k->only, v);
    } while (import_accept(c, ","));
    return true;
}

static bool names(Cursor *c, Key *k)
{
    const char *name;
    k->from = import_own(c->h, json_array());
    do {
        if (!(name = import_name(c, true)))
            return false;
        json_array_append_new(k->from, json_string(name));
    } while (import_accept(c, ","));
    return true;
}

static bool read_key(Cursor *c, Key *k)
{
    if (!(k->name = import_name(c, false)) || !import_expect(c, ":") || !type(c, k) ||
        (import_accept(c, "=") && !(k->otherwise = import_eval(c))) ||
        (import_accept(c, "only") && !values(c, k)) || (import_accept(c, "from") && !names(c, k)))
        return false;
    if (!k->from) {
        k->from = import_own(c->h, json_array());
        json_array_append_new(k->from, json_string(k->name));
    }
    if (import_accept(c, "as") && !import_ends(c)) {
        k->as = arena_printf(c->h->s->arena, "%.*s", (int)(c->end - c->at), c->text + c->at);
        c->at = c->end;
    }
    return import_ends(c) || import_refuse(c, c->at, "the line ends here");
}

/* ---- the value ------------------------------------------------------------------------------- */

static const char *unlike(const char *type, const json_t *v)
{
    const double x = json_number_value(v);
    if (!strcmp(type, "whole"))
        return json_is_integer(v) && x >= 1 && x <= LARGEST ? NULL : "a whole number of at least 1";
    if (!strcmp(type, "count"))
        return json_is_integer(v) && x >= 0 && x <= LARGEST ? NULL : "a whole number of at least 0";
    if (!strcmp(type, "positive"))
        return json_is_number(v) && x > 0 && isfinite(x) ? NULL : "a number above 0";
    if (!strcmp(type, "number"))
        return json_is_number(v) && isfinite(x) ? NULL : "a number";
    if (!strcmp(type, "flag"))
        return json_is_boolean(v) ? NULL : "true or false";
    if (!strcmp(type, "word"))
        return json_is_string(v) ? NULL : "a word";
    return strcmp(type, "list") != 0 || json_is_array(v) ? NULL : "a list";
}

static const char *all_of(const Import *h, const json_t *list)
{
    const char *text = "";
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        text = arena_printf(h->s->arena, "%s%s%s", text, i ? ", " : "", import_shown(h, one));
    return text;
}

static bool misfit(Import *h, const Key *k, const char *key, const char *why)
{
    return k->option ? import_bad_option(h, key, "%s", why) : import_bad(h, key, "%s", why);
}

static bool fits(Import *h, const Key *k, const char *key, const json_t *v)
{
    size_t i;
    json_t *one;
    if (json_is_null(v) && k->nullable)
        return true;
    const char *wanted = unlike(k->type, v);
    if (wanted)
        return misfit(h, k, key, arena_printf(h->s->arena, "is not %s", wanted));
    if (!k->only)
        return true;
    json_array_foreach(k->only, i, one)
        if (import_same(one, v))
            return true;
    return misfit(h, k, key,
                  arena_printf(h->s->arena, "is %s; what is built is %s", import_shown(h, v),
                               all_of(h, k->only)));
}

/* The value that --objective or config.json gives; NULL: none. */
static json_t *found(const Import *h, const char *name, bool option)
{
    return option ? json_object_get(h->given, name) : import_find(h, name);
}

bool import_key(Cursor *c, bool option)
{
    Import *h = c->h;
    Key k = {.option = option};
    size_t i;
    json_t *name, *value = NULL;
    const char *key = NULL;
    if (!read_key(c, &k))
        return false;
    json_array_foreach(k.from, i, name) {
        json_t *v = found(h, json_string_value(name), option);
        json_object_set_new(option ? h->declared : h->known, json_string_value(name),
                            k.as ? json_string(k.as) : json_true());
        if (v && !value && (!json_is_null(v) || k.nullable)) {
            value = v;
            key = json_string_value(name);
        }
    }
    if (value && !fits(h, &k, key, value))
        return false;
    /* A list of all layers says nothing where it says what is meant without it. */
    if (json_is_array(value) && k.otherwise && import_same(value, k.otherwise))
        json_object_set_new(h->known, key, json_null());
    value = value ? value : k.otherwise ? k.otherwise : k.nullable ? json_null() : NULL;
    if (!value)
        return misfit(h, &k, json_string_value(json_array_get(k.from, 0)), "is missing");
    json_object_set(h->values, k.name, value);
    return true;
}
