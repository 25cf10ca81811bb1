/* write.c - values as text: Python's str() and repr(), and json.dumps. */
#include "text/jinja/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

void jin_write_out(Render *r, const char *text, size_t n)
{
    enum { MOST = 256 << 20 };
    if (r->n + n > MOST)
        jin_render_fail(r, "the template writes more than %d MB", MOST >> 20);
    if (r->n + n > r->cap) {
        r->cap = r->cap ? 2 * r->cap : 4096;
        r->cap = r->cap < r->n + n ? r->n + n : r->cap;
        r->out = realloc(r->out, r->cap);
        if (!r->out)
            abort();
    }
    if (n)
        memcpy(r->out + r->n, text, n);
    r->n += n;
}

static void write_text(Render *r, const char *text)
{
    jin_write_out(r, text, strlen(text));
}

JinValue *jin_take_output(Render *r, size_t from)
{
    JinValue *v = jin_string_copy(r, r->n > from ? r->out + from : "", r->n - from);
    r->n = from;
    return v;
}

/* The shortest digits that read back as x, as Python's repr() places them. */
size_t jin_real_text(double x, char out[40])
{
    char digits[40], *e;
    if (!isfinite(x))
        return (size_t)snprintf(out, 40, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    for (int n = 0; n < 18; n++) {
        snprintf(digits, sizeof digits, "%.*e", n, x);
        if (strtod(digits, NULL) == x)
            break;
    }
    e = strchr(digits, 'e');
    int power = atoi(e + 1), sign = *digits == '-';
    char mantissa[32];
    size_t n = 0;
    for (const char *c = digits + sign; c < e; c++)
        if (*c != '.')
            mantissa[n++] = *c;
    while (n > 1 && mantissa[n - 1] == '0')
        n--;
    mantissa[n] = 0;
    const char *minus = sign ? "-" : "";
    if (power < -4 || power >= 16)
        return (size_t)snprintf(out, 40, "%s%c%s%se%c%02d", minus, *mantissa, n > 1 ? "." : "",
                                mantissa + 1, power < 0 ? '-' : '+', abs(power));
    if (power < 0)
        return (size_t)snprintf(out, 40, "%s0.%.*s%s", minus, -power - 1, "0000", mantissa);
    if ((int)n <= power + 1)
        return (size_t)snprintf(out, 40, "%s%s%.*s.0", minus, mantissa, power + 1 - (int)n,
                                "0000000000000000");
    return (size_t)snprintf(out, 40, "%s%.*s.%s", minus, power + 1, mantissa, mantissa + power + 1);
}

/* ---- str() and repr() ---------------------------------------------------------------------- */

static bool printable(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return c == ' ' ||
           (k != UTF8PROC_CATEGORY_CN && k != UTF8PROC_CATEGORY_CC && k != UTF8PROC_CATEGORY_CF &&
            k != UTF8PROC_CATEGORY_CS && k != UTF8PROC_CATEGORY_CO && k != UTF8PROC_CATEGORY_ZS &&
            k != UTF8PROC_CATEGORY_ZL && k != UTF8PROC_CATEGORY_ZP);
}

static void write_repr_text(Render *r, Text t)
{
    bool has_single = t.n && memchr(t.p, '\'', t.n), has_double = t.n && memchr(t.p, '"', t.n);
    char quote = has_single && !has_double ? '"' : '\'', code[16];
    jin_write_out(r, &quote, 1);
    for (size_t i = 0; i < t.n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)t.p + i, (utf8proc_ssize_t)(t.n - i), &c);
        if (k < 1)
            jin_render_fail(r, "a string that is no UTF-8");
        const char *simple = c == '\n'   ? "\\n"
                             : c == '\r' ? "\\r"
                             : c == '\t' ? "\\t"
                             : c == '\\' ? "\\\\"
                                         : NULL;
        if (simple) {
            write_text(r, simple);
        } else if (c == quote) {
            write_text(r, quote == '"' ? "\\\"" : "\\'");
        } else if (printable(c)) {
            jin_write_out(r, t.p + i, (size_t)k);
        } else {
            snprintf(code, sizeof code,
                     c < 0x100     ? "\\x%02x"
                     : c < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     (unsigned)c);
            write_text(r, code);
        }
        i += (size_t)k;
    }
    jin_write_out(r, &quote, 1);
}

static void write_repr(Render *r, const JinValue *v);

static void write_list(Render *r, const JinValue *v)
{
    bool tuple = v->kind == JIN_tuple;
    write_text(r, tuple ? "(" : "[");
    for (size_t i = 0; i < v->items; i++) {
        write_text(r, i ? ", " : "");
        write_repr(r, v->item[i]);
    }
    write_text(r, !tuple ? "]" : v->items == 1 ? ",)" : ")");
}

static void write_dict(Render *r, const JinValue *v)
{
    write_text(r, "{");
    for (size_t i = 0; i < v->pairs; i++) {
        write_text(r, i ? ", " : "");
        write_repr(r, v->pair[i].key);
        write_text(r, ": ");
        write_repr(r, v->pair[i].value);
    }
    write_text(r, "}");
}

static void write_repr(Render *r, const JinValue *v)
{
    if (v->kind == JIN_undefined || v->safe)
        jin_render_fail(r, "%s inside of a list or dict is not written", jin_kind_name(v));
    if (v->kind == JIN_string)
        write_repr_text(r, (Text){v->text, v->n});
    else
        jin_write_value(r, v);
}

void jin_write_value(Render *r, const JinValue *v)
{
    char text[40];
    jin_deeper(r);
    switch (v->kind) {
    case JIN_undefined:
        break;
    case JIN_none:
        write_text(r, "None");
        break;
    case JIN_bool:
        write_text(r, v->truth ? "True" : "False");
        break;
    case JIN_int:
        jin_write_out(r, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v->integer));
        break;
    case JIN_float:
        jin_write_out(r, text, jin_real_text(v->real, text));
        break;
    case JIN_string:
        jin_write_out(r, v->text, v->n);
        break;
    case JIN_list:
    case JIN_tuple:
        write_list(r, v);
        break;
    case JIN_dict:
        write_dict(r, v);
        break;
    case JIN_range:
    case JIN_view:
    case JIN_stream:
    case JIN_namespace:
    case JIN_loop:
    case JIN_macro:
    case JIN_function:
    case JIN_method:
        jin_render_fail(r, "%s is no text", jin_kind_name(v));
    }
    r->depth--;
}

JinValue *jin_as_string(Render *r, JinValue *v)
{
    size_t from = r->n;
    if (v->kind == JIN_string)
        return v;
    jin_write_value(r, v);
    return jin_take_output(r, from);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void write_json_text(Render *r, Text t, bool ascii)
{
    char code[32];
    write_text(r, "\"");
    for (size_t i = 0; i < t.n;) {
        unsigned char b = (unsigned char)t.p[i];
        static const char plain[] = "\"\\\n\r\t\f\b", escaped[] = "\"\\nrtfb";
        const char *simple = b ? strchr(plain, b) : NULL;
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)t.p + i, (utf8proc_ssize_t)(t.n - i), &c);
        if (k < 1)
            jin_render_fail(r, "a string that is no UTF-8");
        if (simple) {
            snprintf(code, sizeof code, "\\%c", escaped[simple - plain]);
            write_text(r, code);
        } else if (c < 0x20 || (ascii && c > 0x7f && c < 0x10000)) {
            snprintf(code, sizeof code, "\\u%04x", (unsigned)c);
            write_text(r, code);
        } else if (ascii && c >= 0x10000) {
            unsigned high = 0xd800 + (((unsigned)c - 0x10000) >> 10);
            snprintf(code, sizeof code, "\\u%04x\\u%04x", high, 0xdc00 + ((unsigned)c & 0x3ff));
            write_text(r, code);
        } else {
            jin_write_out(r, t.p + i, (size_t)k);
        }
        i += (size_t)k;
    }
    write_text(r, "\"");
}

typedef struct Json {
    int64_t indent; /* -1: all on a line */
    const char *between, *colon;
    bool ascii, sorted;
} Json;

static void json_line(Render *r, const Json *j, int level)
{
    if (j->indent < 0)
        return;
    write_text(r, "\n");
    for (int64_t i = 0; i < j->indent * level; i++)
        write_text(r, " ");
}

static void json_value(Render *r, const Json *j, const JinValue *v, int level);

static void json_key(Render *r, const Json *j, const JinValue *key)
{
    static const char *const names[] = {"false", "true"};
    if (key->kind == JIN_string) {
        write_json_text(r, (Text){key->text, key->n}, j->ascii);
        return;
    }
    write_text(r, "\"");
    if (key->kind == JIN_bool || key->kind == JIN_none)
        write_text(r, key->kind == JIN_none ? "null" : names[key->truth]);
    else if (key->kind == JIN_int || key->kind == JIN_float)
        jin_write_value(r, key);
    else
        jin_render_fail(r, "%s is no key in JSON", jin_kind_name(key));
    write_text(r, "\"");
}

static int by_key(const void *a, const void *b)
{
    const JinValue *x = ((const JinPair *)a)->key, *y = ((const JinPair *)b)->key;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->text, y->text, n) : 0;
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static void json_dict(Render *r, const Json *j, const JinValue *v, int level)
{
    JinPair *pair = v->pair;
    if (j->sorted && v->pairs) {
        pair = jin_render_alloc(r, v->pairs, sizeof *pair);
        memcpy(pair, v->pair, v->pairs * sizeof *pair);
        for (size_t i = 0; i < v->pairs; i++)
            if (pair[i].key->kind != JIN_string)
                jin_render_fail(r, "sorting keys that are no strings is not built");
        qsort(pair, v->pairs, sizeof *pair, by_key);
    }
    write_text(r, "{");
    for (size_t i = 0; i < v->pairs; i++) {
        write_text(r, i ? j->between : "");
        json_line(r, j, level + 1);
        json_key(r, j, pair[i].key);
        write_text(r, j->colon);
        json_value(r, j, pair[i].value, level + 1);
    }
    if (v->pairs)
        json_line(r, j, level);
    write_text(r, "}");
}

static void json_list(Render *r, const Json *j, const JinValue *v, int level)
{
    write_text(r, "[");
    for (size_t i = 0; i < v->items; i++) {
        write_text(r, i ? j->between : "");
        json_line(r, j, level + 1);
        json_value(r, j, v->item[i], level + 1);
    }
    if (v->items)
        json_line(r, j, level);
    write_text(r, "]");
}

static void json_value(Render *r, const Json *j, const JinValue *v, int level)
{
    jin_deeper(r);
    switch (v->kind) {
    case JIN_none:
        write_text(r, "null");
        break;
    case JIN_bool:
        write_text(r, v->truth ? "true" : "false");
        break;
    case JIN_int:
        jin_write_value(r, v);
        break;
    case JIN_float:
        if (!isfinite(v->real))
            jin_render_fail(r, "a number that is not finite is not written as JSON");
        jin_write_value(r, v);
        break;
    case JIN_string:
        write_json_text(r, (Text){v->text, v->n}, j->ascii);
        break;
    case JIN_list:
    case JIN_tuple:
        json_list(r, j, v, level);
        break;
    case JIN_dict:
        json_dict(r, j, v, level);
        break;
    case JIN_undefined:
    case JIN_range:
    case JIN_view:
    case JIN_stream:
    case JIN_namespace:
    case JIN_loop:
    case JIN_macro:
    case JIN_function:
    case JIN_method:
        jin_render_fail(r, "%s cannot be written as JSON", jin_kind_name(v));
    }
    r->depth--;
}

void jin_write_json(Render *r, const JinValue *v, int64_t indent, const char *between,
                    const char *colon, bool ascii, bool sorted)
{
    Json j = {indent, between, colon, ascii, sorted};
    json_value(r, &j, v, 0);
}
