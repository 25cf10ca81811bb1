/* value.c - Jinja's values, which are Python's: made, compared, looked up. They do not change once
 * they are made, but the members of a namespace. */
#include "text/jinja/parts.h"

#include <stdio.h>
#include <stdlib.h>

enum { MEMORY = 512 << 20 };

_Noreturn void jin_render_fail(Render *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *r->e = (JinError){.at = r->here->at, .end = r->here->end};
    vsnprintf(r->e->text, sizeof r->e->text, fmt, ap);
    va_end(ap);
    longjmp(r->fail, 1);
}

void *jin_render_alloc(Render *r, size_t count, size_t size)
{
    if (count > MEMORY / size || (r->memory += count * size) > MEMORY)
        jin_render_fail(r, "the template makes more than %d MB of values", MEMORY >> 20);
    return arena_array(r->a, count, size);
}

/* ---- making -------------------------------------------------------------------------------- */

JinValue *jin_value_new(Render *r, JinKind kind)
{
    JinValue *v = jin_render_alloc(r, 1, sizeof *v);
    v->kind = kind;
    return v;
}

JinValue *jin_string_of(Render *r, const char *text, size_t n)
{
    JinValue *v = jin_value_new(r, JIN_string);
    v->text = text;
    v->n = n;
    return v;
}

JinValue *jin_string_copy(Render *r, const char *text, size_t n)
{
    char *copy = jin_render_alloc(r, n + 1, 1);
    if (n)
        memcpy(copy, text, n);
    return jin_string_of(r, copy, n);
}

JinValue *jin_integer_of(Render *r, int64_t i)
{
    JinValue *v = jin_value_new(r, JIN_int);
    v->integer = i;
    return v;
}

JinValue *jin_truth_of(Render *r, bool b)
{
    JinValue *v = jin_value_new(r, JIN_bool);
    v->truth = b;
    return v;
}

JinValue *jin_none_of(Render *r)
{
    return jin_value_new(r, JIN_none);
}

JinValue *jin_undefined_of(Render *r, const char *name, size_t n)
{
    JinValue *v = jin_value_new(r, JIN_undefined);
    v->text = name;
    v->n = n;
    return v;
}

JinValue *jin_list_of(Render *r, JinKind kind, size_t n)
{
    JinValue *v = jin_value_new(r, kind);
    v->item = jin_render_alloc(r, n + 1, sizeof *v->item);
    v->items = n;
    return v;
}

static JinValue *bare(Arena *a, JinKind kind)
{
    JinValue *v = NEW(a, JinValue);
    v->kind = kind;
    return v;
}

JinValue *jin_bool(Arena *a, bool b)
{
    JinValue *v = bare(a, JIN_bool);
    v->truth = b;
    return v;
}

JinValue *jin_text(Arena *a, const char *text, size_t n)
{
    JinValue *v = bare(a, JIN_string);
    v->text = arena_strndup(a, text, n);
    memcpy((char *)v->text, text, n); /* which may have zeros */
    v->n = n;
    return v;
}

JinValue *jin_first_items(Arena *a, const JinValue *list, size_t n)
{
    JinValue *v = bare(a, JIN_list);
    v->item = list->item;
    v->items = n;
    return v;
}

JinValue *jin_with_item(Arena *a, const JinValue *list, size_t i, JinValue *item)
{
    JinValue *v = bare(a, JIN_list);
    v->item = NEW_ARRAY(a, JinValue *, list->items + 1);
    v->items = list->items;
    memcpy(v->item, list->item, list->items * sizeof *v->item);
    v->item[i] = item;
    return v;
}

static JinValue *from_object(Arena *a, const json_t *from)
{
    JinValue *v = bare(a, JIN_dict);
    const char *key;
    json_t *value;
    size_t n;
    v->room = json_object_size(from);
    v->pair = NEW_ARRAY(a, JinPair, v->room + 1);
    json_object_keylen_foreach((json_t *)from, key, n, value) v->pair[v->pairs++] =
        (JinPair){jin_text(a, key, n), jin_from_json(a, value)};
    return v;
}

JinValue *jin_from_json(Arena *a, const json_t *from)
{
    JinValue *v;
    switch (from ? json_typeof(from) : JSON_NULL) {
    case JSON_OBJECT:
        return from_object(a, from);
    case JSON_ARRAY:
        v = bare(a, JIN_list);
        v->items = json_array_size(from);
        v->item = NEW_ARRAY(a, JinValue *, v->items + 1);
        for (size_t i = 0; i < v->items; i++)
            v->item[i] = jin_from_json(a, json_array_get(from, i));
        return v;
    case JSON_STRING:
        return jin_text(a, json_string_value(from), json_string_length(from));
    case JSON_INTEGER:
        v = bare(a, JIN_int);
        v->integer = json_integer_value(from);
        return v;
    case JSON_REAL:
        v = bare(a, JIN_float);
        v->real = json_real_value(from);
        return v;
    case JSON_TRUE:
    case JSON_FALSE:
        return jin_bool(a, json_is_true(from));
    case JSON_NULL:
        break;
    }
    return bare(a, JIN_none);
}

/* ---- asking -------------------------------------------------------------------------------- */

bool jin_is_text(const JinValue *v, const char *text)
{
    return v->kind == JIN_string && v->n == strlen(text) && memcmp(v->text, text, v->n) == 0;
}

bool jin_is_number(const JinValue *v)
{
    return v->kind == JIN_int || v->kind == JIN_float || v->kind == JIN_bool;
}

double jin_real_of(const JinValue *v)
{
    return v->kind == JIN_float ? v->real : (double)jin_whole_of(v);
}

int64_t jin_whole_of(const JinValue *v)
{
    return v->kind == JIN_bool ? v->truth : v->integer;
}

const char *jin_kind_name(const JinValue *v)
{
    static const char *const names[] = {
        "undefined",   "none",    "a truth value", "an integer", "a float", "a string",
        "a list",      "a tuple", "a range",       "a dict",     "a view",  "a generator",
        "a namespace", "a loop",  "a macro",       "a function", "a method"};
    return names[v->kind];
}

bool jin_truthy(const JinValue *v)
{
    switch (v->kind) {
    case JIN_undefined:
    case JIN_none:
        return false;
    case JIN_bool:
        return v->truth;
    case JIN_int:
        return v->integer != 0;
    case JIN_float:
        return v->real != 0;
    case JIN_string:
        return v->n != 0;
    case JIN_list:
    case JIN_tuple:
    case JIN_range:
    case JIN_view:
        return v->items != 0;
    case JIN_dict:
        return v->pairs != 0;
    case JIN_stream:
    case JIN_namespace:
    case JIN_loop:
    case JIN_macro:
    case JIN_function:
    case JIN_method:
        break;
    }
    return true;
}

static bool same_items(Render *r, const JinValue *a, const JinValue *b)
{
    bool same = a->items == b->items;
    for (size_t i = 0; same && i < a->items; i++)
        same = jin_equal(r, a->item[i], b->item[i]);
    return same;
}

static bool same_pairs(Render *r, const JinValue *a, const JinValue *b)
{
    bool same = a->pairs == b->pairs;
    for (size_t i = 0; same && i < a->pairs; i++) {
        const JinValue *other = jin_dict_get(r, b, a->pair[i].key);
        same = other && jin_equal(r, a->pair[i].value, other);
    }
    return same;
}

void jin_deeper(Render *r)
{
    if (++r->depth > 400)
        jin_render_fail(r, "nested more than 400 deep");
}

bool jin_equal(Render *r, const JinValue *a, const JinValue *b)
{
    bool same;
    if (jin_is_number(a) && jin_is_number(b)) {
        if (a->kind == JIN_float || b->kind == JIN_float)
            return jin_real_of(a) == jin_real_of(b);
        return jin_whole_of(a) == jin_whole_of(b);
    }
    if (a->kind != b->kind)
        return false;
    jin_deeper(r);
    switch (a->kind) {
    case JIN_undefined:
    case JIN_none:
        same = true;
        break;
    case JIN_string:
        same = a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
        break;
    case JIN_list:
    case JIN_tuple:
    case JIN_range:
        same = same_items(r, a, b);
        break;
    case JIN_dict:
        same = same_pairs(r, a, b);
        break;
    case JIN_view:
        jin_render_fail(r, "comparing views of dicts is not built");
    case JIN_bool:
    case JIN_int:
    case JIN_float:
    case JIN_stream:
    case JIN_namespace:
    case JIN_loop:
    case JIN_macro:
    case JIN_function:
    case JIN_method:
    default:
        same = a == b;
    }
    r->depth--;
    return same;
}

int jin_compare(Render *r, const JinValue *a, const JinValue *b)
{
    if (jin_is_number(a) && jin_is_number(b)) {
        if (a->kind == JIN_float || b->kind == JIN_float)
            return (jin_real_of(a) > jin_real_of(b)) - (jin_real_of(a) < jin_real_of(b));
        return (jin_whole_of(a) > jin_whole_of(b)) - (jin_whole_of(a) < jin_whole_of(b));
    }
    if (a->kind == JIN_string && b->kind == JIN_string) {
        size_t n = a->n < b->n ? a->n : b->n;
        int order = n ? memcmp(a->text, b->text, n) : 0; /* UTF-8 sorts as its characters do */
        return order ? order : (a->n > b->n) - (a->n < b->n);
    }
    jin_render_fail(r, "%s and %s have no order", jin_kind_name(a), jin_kind_name(b));
}

/* ---- dicts and loops ----------------------------------------------------------------------- */

JinValue *jin_dict_get(Render *r, const JinValue *dict, const JinValue *key)
{
    for (size_t i = 0; i < dict->pairs; i++)
        if (jin_equal(r, dict->pair[i].key, key))
            return dict->pair[i].value;
    return NULL;
}

JinValue *jin_dict_text(const JinValue *dict, const char *key, size_t n)
{
    for (size_t i = 0; i < dict->pairs; i++) {
        const JinValue *k = dict->pair[i].key;
        if (k->kind == JIN_string && k->n == n && memcmp(k->text, key, n) == 0)
            return dict->pair[i].value;
    }
    return NULL;
}

void jin_dict_put(Render *r, JinValue *dict, JinValue *key, JinValue *value)
{
    if (key->kind > JIN_string)
        jin_render_fail(r, "%s is no key of a dict", jin_kind_name(key));
    for (size_t i = 0; i < dict->pairs; i++)
        if (jin_equal(r, dict->pair[i].key, key)) {
            dict->pair[i].value = value;
            return;
        }
    if (dict->pairs == dict->room) {
        size_t room = dict->room ? 2 * dict->room : 4;
        JinPair *pair = jin_render_alloc(r, room, sizeof *pair);
        if (dict->pairs)
            memcpy(pair, dict->pair, dict->pairs * sizeof *pair);
        dict->pair = pair;
        dict->room = room;
    }
    dict->pair[dict->pairs++] = (JinPair){key, value};
}

static JinValue **characters(Render *r, const JinValue *v, size_t *n)
{
    Text t = {v->text, v->n};
    *n = jin_text_chars(t);
    JinValue **item = jin_render_alloc(r, *n + 1, sizeof *item);
    for (size_t i = 0, at = 0; i < *n; i++) {
        size_t k = 1;
        while (at + k < t.n && ((unsigned char)t.p[at + k] & 0xc0) == 0x80)
            k++;
        item[i] = jin_string_of(r, t.p + at, k);
        at += k;
    }
    return item;
}

JinValue **jin_items_of(Render *r, JinValue *v, size_t *n)
{
    JinValue **key;
    switch (v->kind) {
    case JIN_undefined:
        *n = 0;
        return NULL;
    case JIN_string:
        if (v->safe)
            jin_render_fail(r, "a loop over a string after 'safe' is not built");
        return characters(r, v, n);
    case JIN_stream:
        if (v->used)
            jin_render_fail(r, "a generator is run through twice; '| list' makes a list of it");
        v->used = true;
        *n = v->items;
        return v->item;
    case JIN_list:
    case JIN_tuple:
    case JIN_range:
    case JIN_view:
        *n = v->items;
        return v->item;
    case JIN_dict:
        key = jin_render_alloc(r, v->pairs + 1, sizeof *key);
        for (size_t i = 0; i < v->pairs; i++)
            key[i] = v->pair[i].key;
        *n = v->pairs;
        return key;
    case JIN_none:
    case JIN_bool:
    case JIN_int:
    case JIN_float:
    case JIN_namespace:
    case JIN_loop:
    case JIN_macro:
    case JIN_function:
    case JIN_method:
        break;
    }
    jin_render_fail(r, "%s cannot be run through", jin_kind_name(v));
}
