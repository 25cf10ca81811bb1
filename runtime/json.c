/* json.c - a strict pull parser of JSON; see json.h. */
#include "runtime/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void rt_json_begin(rt_json *j, const void *text, size_t n)
{
    *j = (rt_json){.begin = text, .at = text, .end = (const unsigned char *)text + n};
}

void rt_json_free(rt_json *j)
{
    free(j->text);
    j->text = NULL;
}

bool rt_json_fail(rt_json *j, const char *why)
{
    if (!j->error)
        j->error = why;
    return false;
}

/* The next byte that is not white space, or -1; does not consume it. */
static int peek(rt_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
    return j->at < j->end ? *j->at : -1;
}

bool rt_json_enter(rt_json *j, char kind)
{
    if (j->error)
        return false;
    if (peek(j) != kind)
        return rt_json_fail(j, kind == '{' ? "expected an object" : "expected an array");
    if (++j->depth > JSON_DEPTH)
        return rt_json_fail(j, "nested too deeply");
    j->at++;
    j->first = true;
    return true;
}

/* Consumes the comma before an element; false at `close` or on an error. */
static bool next(rt_json *j, char close)
{
    if (j->error)
        return false;
    int c = peek(j);
    if (c == close) {
        j->at++;
        j->depth--;
        j->first = false;
        return false;
    }
    if (!j->first) {
        if (c != ',')
            return rt_json_fail(j, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        j->at++;
    }
    j->first = false;
    return true;
}

bool rt_json_key(rt_json *j)
{
    if (!next(j, '}') || !rt_json_string(j))
        return false;
    if (peek(j) != ':')
        return rt_json_fail(j, "expected ':'");
    j->at++;
    return true;
}

bool rt_json_item(rt_json *j)
{
    return next(j, ']');
}

static bool push(rt_json *j, unsigned c)
{
    if (j->length + 1 >= j->cap) {
        size_t cap = j->cap ? 2 * j->cap : 64;
        char *text = realloc(j->text, cap);
        if (!text)
            return rt_json_fail(j, "no memory");
        j->text = text;
        j->cap = cap;
    }
    j->text[j->length++] = (char)c;
    j->text[j->length] = 0;
    return true;
}

/* Appends a code point as UTF-8. */
static bool push_code(rt_json *j, unsigned c)
{
    if (c == 0)
        return rt_json_fail(j, "a NUL in a string");
    if (c < 0x80)
        return push(j, c);
    if (c < 0x800)
        return push(j, 0xC0 | c >> 6) && push(j, 0x80 | (c & 63));
    if (c < 0x10000)
        return push(j, 0xE0 | c >> 12) && push(j, 0x80 | (c >> 6 & 63)) && push(j, 0x80 | (c & 63));
    return push(j, 0xF0 | c >> 18) && push(j, 0x80 | (c >> 12 & 63)) &&
           push(j, 0x80 | (c >> 6 & 63)) && push(j, 0x80 | (c & 63));
}

static bool hex4(rt_json *j, unsigned *out)
{
    *out = 0;
    if (j->end - j->at < 4)
        return rt_json_fail(j, "an escape is cut short");
    for (int i = 0; i < 4; i++) {
        unsigned c = *j->at++;
        unsigned digit = c >= '0' && c <= '9'   ? c - '0'
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                : 16;
        if (digit == 16)
            return rt_json_fail(j, "an escape is not hexadecimal");
        *out = *out << 4 | digit;
    }
    return true;
}

static bool escape(rt_json *j)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (j->at == j->end)
        return rt_json_fail(j, "a string is not closed");
    unsigned c = *j->at++, low;
    const char *simple = c && c < 128 ? strchr(from, (int)c) : NULL;
    if (simple)
        return push(j, (unsigned char)to[simple - from]);
    if (c != 'u')
        return rt_json_fail(j, "an unknown escape");
    if (!hex4(j, &c))
        return false;
    if (c >= 0xD800 && c < 0xDC00) {
        if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u')
            return rt_json_fail(j, "a lone surrogate");
        j->at += 2;
        if (!hex4(j, &low))
            return false;
        if (low < 0xDC00 || low >= 0xE000)
            return rt_json_fail(j, "a lone surrogate");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    } else if (c >= 0xDC00 && c < 0xE000) {
        return rt_json_fail(j, "a lone surrogate");
    }
    return push_code(j, c);
}

/* Consumes one well-formed sequence of two to four bytes (Unicode 15, table 3-7). */
static bool multibyte(rt_json *j)
{
    unsigned c = *j->at;
    int n = c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
    if (!n || j->end - j->at < n)
        return rt_json_fail(j, "not UTF-8");
    unsigned low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (j->at[1] < low || j->at[1] > high)
        return rt_json_fail(j, "not UTF-8");
    for (int i = 2; i < n; i++)
        if ((j->at[i] & 0xC0) != 0x80)
            return rt_json_fail(j, "not UTF-8");
    for (int i = 0; i < n; i++)
        if (!push(j, *j->at++))
            return false;
    return true;
}

bool rt_json_string(rt_json *j)
{
    if (j->error)
        return false;
    if (peek(j) != '"')
        return rt_json_fail(j, "expected a string");
    j->at++;
    j->length = 0;
    if (!push(j, 0))
        return false;
    j->length = 0;
    for (;;) {
        if (j->at == j->end)
            return rt_json_fail(j, "a string is not closed");
        unsigned c = *j->at;
        if (c == '"') {
            j->at++;
            j->text[j->length] = 0;
            return true;
        }
        if (c < 0x20)
            return rt_json_fail(j, "a control character in a string");
        bool good = true;
        if (c == '\\') {
            j->at++;
            good = escape(j);
        } else if (c < 0x80) {
            j->at++;
            good = push(j, c);
        } else {
            good = multibyte(j);
        }
        if (!good)
            return false;
    }
}

static bool digits(rt_json *j)
{
    const unsigned char *start = j->at;
    while (j->at < j->end && *j->at >= '0' && *j->at <= '9')
        j->at++;
    return j->at > start;
}

/* Consumes a number; *whole is false if it has a fraction or an exponent. */
static bool number(rt_json *j, const unsigned char **start, bool *whole)
{
    if (j->error)
        return false;
    peek(j);
    *start = j->at;
    *whole = true;
    if (j->at < j->end && *j->at == '-')
        j->at++;
    const unsigned char *first = j->at;
    if (!digits(j))
        return rt_json_fail(j, "expected a number");
    if (*first == '0' && j->at > first + 1)
        return rt_json_fail(j, "a number with a leading zero");
    if (j->at < j->end && *j->at == '.') {
        *whole = false;
        j->at++;
        if (!digits(j))
            return rt_json_fail(j, "a number without digits after '.'");
    }
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        *whole = false;
        j->at++;
        if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
            j->at++;
        if (!digits(j))
            return rt_json_fail(j, "a number without digits in its exponent");
    }
    return true;
}

bool rt_json_int(rt_json *j, int64_t *v)
{
    const unsigned char *s;
    bool whole;
    if (!number(j, &s, &whole))
        return false;
    if (!whole)
        return rt_json_fail(j, "expected a whole number");
    bool minus = *s == '-';
    int64_t x = 0;
    for (s += minus; s < j->at; s++)
        if (__builtin_mul_overflow(x, 10, &x) ||
            __builtin_add_overflow(x, minus ? '0' - *s : *s - '0', &x))
            return rt_json_fail(j, "a number over 64 bits");
    *v = x;
    return true;
}

bool rt_json_number(rt_json *j, double *v)
{
    const unsigned char *s;
    bool whole;
    char copy[64];
    if (!number(j, &s, &whole))
        return false;
    size_t n = (size_t)(j->at - s);
    if (n >= sizeof copy)
        return rt_json_fail(j, "a number that is too long");
    memcpy(copy, s, n);
    copy[n] = 0;
    *v = strtod(copy, NULL);
    return true;
}

static bool word(rt_json *j, const char *w)
{
    size_t n = strlen(w);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, w, n) != 0)
        return false;
    j->at += n;
    return true;
}

bool rt_json_null(rt_json *j)
{
    return !j->error && peek(j) == 'n' && word(j, "null");
}

bool rt_json_skip(rt_json *j)
{
    const unsigned char *s;
    bool whole;
    if (j->error)
        return false;
    switch (peek(j)) {
    case '{':
        rt_json_enter(j, '{');
        while (rt_json_key(j))
            if (!rt_json_skip(j))
                return false;
        return !j->error;
    case '[':
        rt_json_enter(j, '[');
        while (rt_json_item(j))
            if (!rt_json_skip(j))
                return false;
        return !j->error;
    case '"':
        return rt_json_string(j);
    case 't':
        return word(j, "true") || rt_json_fail(j, "an unknown word");
    case 'f':
        return word(j, "false") || rt_json_fail(j, "an unknown word");
    case 'n':
        return word(j, "null") || rt_json_fail(j, "an unknown word");
    default:
        return number(j, &s, &whole);
    }
}

bool rt_json_end(rt_json *j)
{
    if (j->error)
        return false;
    return peek(j) < 0 || rt_json_fail(j, "text after the end");
}
