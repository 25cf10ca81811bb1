/* import_values.c - values of JSON as the language writes them, and the config block of the model,
 * which keeps every key that the language can say: those that the template knows how to say as
 * expressions of the model's dims and constants. */
#include "compiler/import/import.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool import_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (!json_is_array(a) || !json_is_array(b))
        return json_equal(a, b);
    bool same = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; same && i < json_array_size(a); i++)
        same = import_same(json_array_get(a, i), json_array_get(b, i));
    return same;
}

/* The shortest decimal that reads back as x, as the language writes numbers. */
static const char *real_text(const Import *h, double x)
{
    if (fabs(x) < 1e15 && x == floor(x))
        return arena_printf(h->s->arena, "%.0f", x);
    for (int digits = 1; digits <= 17; digits++) {
        char *text = arena_printf(h->s->arena, "%.*g", digits, x), *e = strchr(text, 'e');
        if (strtod(text, NULL) != x)
            continue;
        char *zero = e ? e + 1 + (e[1] == '-' || e[1] == '+') : NULL;
        if (zero && *zero == '0') /* 1e-06 */
            memmove(zero, zero + 1, strlen(zero));
        return text;
    }
    return "0";
}

const char *import_number(const Import *h, const json_t *v)
{
    if (json_is_integer(v))
        return arena_printf(h->s->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    return real_text(h, json_number_value(v));
}

const char *import_shown(const Import *h, const json_t *v)
{
    if (json_is_string(v))
        return arena_printf(h->s->arena, "'%.40s'", json_string_value(v));
    if (json_is_number(v))
        return import_number(h, v);
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *kept = arena_printf(h->s->arena, "%.60s%s", text ? text : "",
                                    text && strlen(text) > 60 ? "..." : "");
    free(text);
    return kept;
}

/* ---- the config block ------------------------------------------------------------------------ */

static bool sayable_name(const char *s)
{
    static const char *const reserved[] = {"dim",    "const", "block",  "model",  "train", "layout",
                                           "config", "param", "repeat", "return", "scan",  "metric",
                                           "as",     "over",  "along",  "where",  "to"};
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (const char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(s, reserved[i]) == 0)
            return false;
    return strlen(s) < 100;
}

/* Can the language say it? Strings are printable ASCII without quotes; lists are not empty. */
static bool sayable(const json_t *v, int depth)
{
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_string(v)) {
        for (const char *c = json_string_value(v); *c; c++)
            if (*c < 32 || *c > 126 || *c == '"' || *c == '\\')
                return false;
    } else if (json_is_array(v)) {
        if (depth > 8 || !json_array_size(v))
            return false;
        json_array_foreach(v, i, item)
            if (!sayable(item, depth + 1))
                return false;
    } else if (json_is_object(v)) {
        if (depth > 8 || !json_object_size(v))
            return false;
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
            if (!sayable_name(key) || !sayable(item, depth + 1))
                return false;
    }
    return true;
}

/* The template's text for the key or NULL, and whether the key is left out. */
static const char *said(const Import *h, const char *key, bool *left_out)
{
    json_t *known = json_object_get(h->known, key);
    *left_out = json_is_null(known);
    return json_string_value(known);
}

static void write_value(const Import *h, FILE *out, const char *key, const json_t *v);

static void write_object(const Import *h, FILE *out, const char *key, const json_t *v)
{
    const char *name, *between = "";
    json_t *item;
    fputc('{', out);
    json_object_foreach((json_t *)(uintptr_t)v, name, item) {
        bool left_out;
        const char *inner = arena_printf(h->s->arena, "%s.%s", key, name);
        const char *text = json_is_null(item) ? NULL : said(h, inner, &left_out);
        fprintf(out, "%s%s = ", between, name);
        if (text)
            fputs(text, out);
        else
            write_value(h, out, inner, item);
        between = ", ";
    }
    fputc('}', out);
}

static void write_value(const Import *h, FILE *out, const char *key, const json_t *v)
{
    json_t *item;
    size_t i;
    switch (json_typeof(v)) {
    case JSON_STRING:
        fprintf(out, "\"%s\"", json_string_value(v));
        break;
    case JSON_INTEGER:
        fputs(import_number(h, v), out);
        break;
    case JSON_REAL: {
        const char *text = import_number(h, v);
        fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
        break;
    }
    case JSON_ARRAY:
        fputc('[', out);
        json_array_foreach(v, i, item) {
            fputs(i ? ", " : "", out);
            write_value(h, out, key, item);
        }
        fputc(']', out);
        break;
    case JSON_OBJECT:
        write_object(h, out, key, v);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        fputs(json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null", out);
    }
}

void import_write_config(const Import *h, FILE *out)
{
    const char *key;
    json_t *v;
    fputs("\nconfig {\n", out);
    json_object_foreach(h->config, key, v) {
        bool left_out = false;
        const char *text = json_is_null(v) ? NULL : said(h, key, &left_out);
        if (left_out || !sayable_name(key) || (!text && !sayable(v, 0)))
            continue;
        fprintf(out, "    %s = ", key);
        if (text)
            fputs(text, out);
        else
            write_value(h, out, key, v);
        fputc('\n', out);
    }
    fputs("}\n", out);
}
