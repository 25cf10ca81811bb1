/* text.c - strings as Python has them: of characters, kept as UTF-8. */
#include "text/jinja/parts.h"

#include <stdlib.h>
#include <utf8proc.h>

static size_t char_bytes(Text t, size_t i)
{
    size_t k = 1;
    while (i + k < t.n && ((unsigned char)t.p[i + k] & 0xc0) == 0x80)
        k++;
    return k;
}

static utf8proc_int32_t char_at(Text t, size_t i, size_t *bytes)
{
    utf8proc_int32_t c = (unsigned char)t.p[i];
    *bytes = char_bytes(t, i);
    if (c >= 0x80)
        utf8proc_iterate((const utf8proc_uint8_t *)t.p + i, (utf8proc_ssize_t)(t.n - i), &c);
    return c;
}

size_t jin_text_chars(Text t)
{
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++)
        n += ((unsigned char)t.p[i] & 0xc0) != 0x80;
    return n;
}

Text jin_text_slice(Text t, size_t from, size_t to)
{
    size_t at = 0, begin, i = 0;
    for (; i < from && at < t.n; i++)
        at += char_bytes(t, at);
    begin = at;
    for (; i < to && at < t.n; i++)
        at += char_bytes(t, at);
    return (Text){t.p + begin, at - begin};
}

/* Python's str.isspace() of one character. */
static bool is_space(utf8proc_int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jin_space_at(Text t, size_t i, size_t *bytes)
{
    return is_space(char_at(t, i, bytes));
}

/* ---- letters ------------------------------------------------------------------------------- */

/* Letters of Latin, Greek and Cyrillic that become one letter in any place. Others become several,
 * or another at the end of a word: not built. */
static bool simple_case(utf8proc_int32_t c)
{
    static const utf8proc_int32_t special[] = {0xdf, 0x130, 0x149, 0x390, 0x3a3, 0x3b0};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (c == special[i])
            return false;
    return (c >= 0xb5 && c < 0x180) || (c >= 0x370 && c < 0x530);
}

static bool is_letter(utf8proc_int32_t c)
{
    utf8proc_category_t g = utf8proc_category(c);
    return g == UTF8PROC_CATEGORY_LU || g == UTF8PROC_CATEGORY_LL || g == UTF8PROC_CATEGORY_LT;
}

static utf8proc_int32_t cased(Render *r, utf8proc_int32_t c, bool upper)
{
    bool letter = is_letter(c) || utf8proc_tolower(c) != c || utf8proc_toupper(c) != c;
    if (c >= 0x80 && letter && !simple_case(c))
        jin_render_fail(r, "upper and lower case of U+%04X is not built", (unsigned)c);
    return !letter ? c : upper ? utf8proc_toupper(c) : utf8proc_tolower(c);
}

typedef enum Casing { CASE_lower, CASE_upper, CASE_capital, CASE_words, CASE_title } Casing;

static JinValue *recased(Render *r, Text t, Casing how)
{
    bool begin = true; /* of a word */
    size_t from = r->n;
    for (size_t i = 0, k; i < t.n; i += k) {
        utf8proc_int32_t c = char_at(t, i, &k);
        utf8proc_uint8_t out[4];
        bool upper = how == CASE_upper || (how != CASE_lower && begin);
        if (how == CASE_title && utf8proc_category(c) == UTF8PROC_CATEGORY_LM)
            jin_render_fail(r, "the title of U+%04X is not built", (unsigned)c);
        utf8proc_ssize_t n = utf8proc_encode_char(cased(r, c, upper), out);
        jin_write_out(r, (char *)out, (size_t)n);
        begin = (how == CASE_title && !is_letter(c)) ||
                (how == CASE_words &&
                 (is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<'));
    }
    return jin_take_output(r, from);
}

JinValue *jin_text_lower(Render *r, Text t)
{
    return recased(r, t, CASE_lower);
}

JinValue *jin_text_upper(Render *r, Text t)
{
    return recased(r, t, CASE_upper);
}

JinValue *jin_text_capital(Render *r, Text t)
{
    return recased(r, t, CASE_capital);
}

JinValue *jin_text_title(Render *r, Text t, bool jinja)
{
    return recased(r, t, jinja ? CASE_words : CASE_title);
}

/* ---- parts --------------------------------------------------------------------------------- */

static bool strips(Text t, size_t i, const Text *chars, size_t *k)
{
    if (!chars)
        return jin_space_at(t, i, k);
    *k = char_bytes(t, i);
    for (size_t j = 0; j < chars->n; j += char_bytes(*chars, j))
        if (char_bytes(*chars, j) == *k && memcmp(chars->p + j, t.p + i, *k) == 0)
            return true;
    return false;
}

Text jin_text_strip(Text t, const Text *chars, bool left, bool right)
{
    size_t k, begin = 0, end = t.n;
    while (left && begin < end && strips(t, begin, chars, &k))
        begin += k;
    while (right && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)t.p[at] & 0xc0) == 0x80)
            at--;
        if (!strips((Text){t.p, end}, at, chars, &k))
            break;
        end = at;
    }
    return (Text){t.p + begin, end - begin};
}

int64_t jin_text_find(Text t, Text what, size_t from)
{
    if (!what.n)
        return from <= t.n ? (int64_t)from : -1;
    if (from > t.n)
        return -1;
    const char *at = memmem(t.p + from, t.n - from, what.p, what.n);
    return at ? at - t.p : -1;
}

JinValue *jin_text_replace(Render *r, Text t, Text old, Text by, int64_t count)
{
    size_t from = r->n, i = 0;
    while (count != 0 && i <= t.n) {
        int64_t at = jin_text_find(t, old, i);
        if (at < 0)
            break;
        jin_write_out(r, t.p + i, (size_t)at - i);
        jin_write_out(r, by.p, by.n);
        i = (size_t)at + old.n;
        count -= count > 0;
        if (!old.n) { /* before each character, and at the end */
            if (i >= t.n) {
                i = t.n;
                break;
            }
            size_t k = char_bytes(t, i);
            jin_write_out(r, t.p + i, k);
            i += k;
        }
    }
    jin_write_out(r, t.p + i, t.n - i);
    return jin_take_output(r, from);
}

/* ---- splitting ----------------------------------------------------------------------------- */

typedef struct Pieces {
    VEC(Text) of;
} Pieces;

static JinValue *listed(Render *r, const Pieces *p, bool backwards)
{
    JinValue *v = jin_list_of(r, JIN_list, p->of.n);
    for (size_t i = 0; i < p->of.n; i++) {
        Text t = p->of.data[backwards ? p->of.n - 1 - i : i];
        v->item[i] = jin_string_of(r, t.p, t.n);
    }
    return v;
}

static void add_piece(Render *r, Pieces *p, Text t)
{
    r->memory += sizeof t;
    vec_push(r->a, &p->of, t);
}

JinValue *jin_text_split_lines(Render *r, Text t)
{
    Pieces p = {0};
    size_t begin = 0;
    for (size_t i = 0, k; i < t.n;) {
        utf8proc_int32_t c = char_at(t, i, &k);
        bool ends = (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
                    c == 0x2029;
        if (ends) {
            add_piece(r, &p, (Text){t.p + begin, i - begin});
            k += c == '\r' && i + 1 < t.n && t.p[i + 1] == '\n';
            begin = i + k;
        }
        i += k;
    }
    if (begin < t.n)
        add_piece(r, &p, (Text){t.p + begin, t.n - begin});
    return listed(r, &p, false);
}

/* At runs of white space, of which none begins or ends a piece. */
static JinValue *split_space(Render *r, Text t, int64_t most, bool from_right)
{
    Pieces p = {0};
    for (;;) {
        size_t i, k;
        t = jin_text_strip(t, NULL, !from_right, from_right);
        if (!t.n)
            break;
        if (most == 0) { /* what is left, with the white space on its other side */
            add_piece(r, &p, t);
            break;
        }
        if (from_right) {
            for (i = t.n; i > 0;) {
                size_t at = i - 1;
                while (at > 0 && ((unsigned char)t.p[at] & 0xc0) == 0x80)
                    at--;
                if (jin_space_at(t, at, &k))
                    break;
                i = at;
            }
            add_piece(r, &p, (Text){t.p + i, t.n - i});
            t.n = i;
        } else {
            for (i = 0; i < t.n && !jin_space_at(t, i, &k);)
                i += k;
            add_piece(r, &p, (Text){t.p, i});
            t = (Text){t.p + i, t.n - i};
        }
        most -= most > 0;
    }
    return listed(r, &p, from_right);
}

static int64_t find_last(Text t, Text what)
{
    for (size_t i = t.n >= what.n ? t.n - what.n + 1 : 0; i-- > 0;)
        if (memcmp(t.p + i, what.p, what.n) == 0)
            return (int64_t)i;
    return -1;
}

JinValue *jin_text_split(Render *r, Text t, const Text *by, int64_t most, bool from_right)
{
    Pieces p = {0};
    if (!by)
        return split_space(r, t, most, from_right);
    if (!by->n)
        jin_render_fail(r, "an empty separator");
    for (; most != 0; most -= most > 0) {
        int64_t at = from_right ? find_last(t, *by) : jin_text_find(t, *by, 0);
        if (at < 0)
            break;
        size_t end = (size_t)at + by->n;
        if (from_right) {
            add_piece(r, &p, (Text){t.p + end, t.n - end});
            t.n = (size_t)at;
        } else {
            add_piece(r, &p, (Text){t.p, (size_t)at});
            t = (Text){t.p + end, t.n - end};
        }
    }
    add_piece(r, &p, t);
    return listed(r, &p, from_right);
}
