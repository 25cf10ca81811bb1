/* lex.c - a template as tokens: text, and what stands between the marks. White space goes as Jinja
 * takes it with trim_blocks and lstrip_blocks. */
#include "text/jinja/parts.h"

#include <errno.h>
#include <stdlib.h>

typedef struct Lexer {
    Parser *p;
    Arena *a;
    const char *s;
    size_t n, i;
    bool line_start; /* the token before ended a line, or there is none */
} Lexer;

char *jin_source(Arena *a, const char *text, size_t n, size_t *size)
{
    char *out = arena_alloc(a, n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        out[k++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    }
    k -= k && out[k - 1] == '\n';
    out[k] = 0;
    *size = k;
    return out;
}

static void push(Lexer *l, TokenKind kind, size_t at, size_t end, const char *text, size_t n)
{
    Token t = {.kind = kind, .at = (uint32_t)at, .end = (uint32_t)end, .text = text, .n = n};
    vec_push(l->a, &l->p->tokens, t);
}

static bool starts(const Lexer *l, size_t i, const char *with)
{
    size_t k = strlen(with);
    return i + k <= l->n && memcmp(l->s + i, with, k) == 0;
}

static void skip_space(Lexer *l)
{
    size_t k;
    while (l->i < l->n && jin_space_at((Text){l->s, l->n}, l->i, &k))
        l->i += k;
}

/* ---- inside of marks ----------------------------------------------------------------------- */

static bool in_name(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t k = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char mark[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = k; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(mark[k] | c);
    return k;
}

static uint32_t hex_digits(Lexer *l, size_t at, size_t digits, size_t end)
{
    uint32_t c = 0;
    for (size_t i = 0; i < digits; i++) {
        char d = at + i < end ? l->s[at + i] : 'x';
        int v = d >= '0' && d <= '9'   ? d - '0'
                : d >= 'a' && d <= 'f' ? d - 'a' + 10
                : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                       : -1;
        if (v < 0)
            jin_parse_fail(l->p, (uint32_t)at, (uint32_t)end, "this escape has too few digits");
        c = c << 4 | (uint32_t)v;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        jin_parse_fail(l->p, (uint32_t)at, (uint32_t)end, "this escape is no character");
    return c;
}

/* One escape of Python's at s[i], the character after the backslash. */
static size_t escape(Lexer *l, size_t i, size_t end, char *out, size_t *k)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = l->s[i];
    const char *simple = c ? strchr(from, c) : NULL;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == '\n') /* a line that goes on */
        return i + 1;
    if (simple) {
        out[(*k)++] = to[simple - from];
        return i + 1;
    }
    if (digits) {
        *k += put_utf8(out + *k, hex_digits(l, i + 1, digits, end));
        return i + 1 + digits;
    }
    if (c == 'N')
        jin_parse_fail(l->p, (uint32_t)i - 1, (uint32_t)i + 1, "characters by name are not built");
    if (c >= '0' && c <= '7') {
        uint32_t octal = 0;
        size_t m = 0;
        for (; m < 3 && i + m < end && l->s[i + m] >= '0' && l->s[i + m] <= '7'; m++)
            octal = octal << 3 | (uint32_t)(l->s[i + m] - '0');
        *k += put_utf8(out + *k, octal);
        return i + m;
    }
    out[(*k)++] = '\\'; /* no escape: stays */
    return i;
}

static void lex_string(Lexer *l)
{
    size_t begin = l->i, end = begin + 1, k = 0;
    while (end < l->n && l->s[end] != l->s[begin])
        end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->n)
        jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)begin + 1, "this string has no end");
    char *out = arena_alloc(l->a, 2 * (end - begin) + 8);
    for (size_t i = begin + 1; i < end;)
        if (l->s[i] == '\\')
            i = escape(l, i + 1, end, out, &k);
        else
            out[k++] = l->s[i++];
    l->i = end + 1;
    push(l, TOKEN_string, begin, l->i, out, k);
}

static size_t digits_at(const Lexer *l, size_t i)
{
    size_t from = i;
    while (i < l->n && ((l->s[i] >= '0' && l->s[i] <= '9') || (l->s[i] == '_' && i > from)))
        i++;
    return i;
}

static void lex_number(Lexer *l)
{
    size_t begin = l->i, end = digits_at(l, begin);
    bool real = false;
    char text[64];
    size_t k = 0;
    if (end + 1 < l->n && l->s[end] == '.' && l->s[end + 1] >= '0' && l->s[end + 1] <= '9') {
        real = true;
        end = digits_at(l, end + 1);
    }
    if (end < l->n && (l->s[end] == 'e' || l->s[end] == 'E')) {
        size_t sign = end + 1 + (end + 1 < l->n && (l->s[end + 1] == '+' || l->s[end + 1] == '-'));
        if (sign < l->n && l->s[sign] >= '0' && l->s[sign] <= '9') {
            real = true;
            end = digits_at(l, sign);
        }
    }
    for (size_t i = begin; i < end && k + 1 < sizeof text; i++)
        if (l->s[i] != '_')
            text[k++] = l->s[i];
    text[k] = 0;
    errno = 0;
    Token t = {
        .kind = real ? TOKEN_float : TOKEN_integer, .at = (uint32_t)begin, .end = (uint32_t)end};
    if (real)
        t.real = strtod(text, NULL);
    else
        t.integer = strtoll(text, NULL, 10);
    bool odd = end < l->n && in_name(l->s[end], true); /* 0x1f and so on */
    if (odd || errno || end - begin >= sizeof text || (!real && k > 1 && *text == '0'))
        jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)end, "a number that is not built");
    l->i = end;
    vec_push(l->a, &l->p->tokens, t);
}

static void lex_operator(Lexer *l, char *open, size_t *depth)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    size_t begin = l->i, n = 1;
    char c = l->s[begin];
    for (size_t k = 0; k < 6; k++)
        n = starts(l, begin, two[k]) ? 2 : n;
    if (n == 1 && (!c || !strchr("+-*/%~[](){}<>=.:|,;", c)))
        jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)begin + 1,
                       "a character that is not expected");
    if (n == 1 && strchr("([{", c)) {
        if (*depth == 256)
            jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)begin + 1,
                           "more than 256 open brackets");
        open[(*depth)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (n == 1 && strchr(")]}", c) && (!*depth || open[--*depth] != c)) {
        jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)begin + 1, "'%c' closes nothing", c);
    }
    l->i += n;
    push(l, TOKEN_operator, begin, l->i, l->s + begin, n);
}

/* From behind the opening mark to behind the closing one. */
static void lex_inside(Lexer *l, const char *close, TokenKind end_kind, size_t begin)
{
    char open[256];
    size_t depth = 0;
    bool block = end_kind == TOKEN_block_end;
    for (;;) {
        skip_space(l);
        size_t at = l->i;
        if (at >= l->n)
            jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)begin + 2, "this has no end: %s",
                           close);
        char sign = l->s[at];
        bool signs = sign == '-' || (sign == '+' && block);
        if (!depth && starts(l, at + signs, close)) {
            l->i = at + signs + 2;
            push(l, end_kind, at, l->i, NULL, 0);
            if (signs && sign == '-')
                skip_space(l);
            else if (!signs && block && l->i < l->n && l->s[l->i] == '\n')
                l->i++;
            l->line_start = l->i && l->s[l->i - 1] == '\n';
            return;
        }
        if (in_name(sign, true)) {
            while (l->i < l->n && in_name(l->s[l->i], false))
                l->i++;
            push(l, TOKEN_name, at, l->i, l->s + at, l->i - at);
        } else if (sign >= '0' && sign <= '9') {
            lex_number(l);
        } else if (sign == '"' || sign == '\'') {
            lex_string(l);
        } else {
            lex_operator(l, open, &depth);
        }
    }
}

/* ---- text and marks ------------------------------------------------------------------------ */

static void lex_comment(Lexer *l, size_t begin)
{
    size_t text = l->i;
    while (l->i < l->n && !starts(l, l->i, "#}"))
        l->i++;
    if (l->i >= l->n)
        jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)begin + 2, "this comment has no end: #}");
    char before = l->i > text ? l->s[l->i - 1] : 0;
    l->i += 2;
    if (before == '-')
        skip_space(l);
    else if (before != '+' && l->i < l->n && l->s[l->i] == '\n')
        l->i++;
    l->line_start = l->s[l->i - 1] == '\n';
}

/* The end of the text from `from` to a mark, after what the mark's sign takes of it. */
static size_t text_end(const Lexer *l, size_t from, size_t mark, char sign, bool variable)
{
    Text text = {l->s + from, mark - from};
    if (sign == '-')
        return from + jin_text_strip(text, NULL, false, true).n;
    if (sign == '+' || variable)
        return mark;
    size_t line = mark;
    while (line > from && l->s[line - 1] != '\n')
        line--;
    Text rest = {l->s + line, mark - line};
    bool begins = line > from || l->line_start;
    return begins && !jin_text_strip(rest, NULL, true, true).n ? line : mark;
}

static void refuse_raw(Lexer *l, size_t begin)
{
    size_t i = l->i, k;
    while (i < l->n && jin_space_at((Text){l->s, l->n}, i, &k))
        i += k;
    if (starts(l, i, "raw") && !(i + 3 < l->n && in_name(l->s[i + 3], false)))
        jin_parse_fail(l->p, (uint32_t)begin, (uint32_t)i + 3, "'raw' blocks are not built");
}

void jin_lex(Parser *p)
{
    JinTemplate *t = p->t;
    Lexer l = {.p = p, .a = t->a, .s = t->source, .n = t->size, .line_start = true};
    while (l.i < l.n) {
        size_t from = l.i, mark = from;
        while (mark < l.n && !(l.s[mark] == '{' && mark + 1 < l.n && l.s[mark + 1] != 0 &&
                               strchr("{%#", l.s[mark + 1])))
            mark++;
        bool variable = mark < l.n && l.s[mark + 1] == '{';
        char sign = mark + 2 < l.n ? l.s[mark + 2] : 0;
        size_t end = mark < l.n ? text_end(&l, from, mark, sign, variable) : mark;
        if (end > from)
            push(&l, TOKEN_data, from, end, l.s + from, end - from);
        if (mark >= l.n)
            break;
        l.i = mark + 2;
        l.line_start = false;
        l.i += sign == '-' || sign == '+';
        if (l.s[mark + 1] == '#') {
            lex_comment(&l, mark);
            continue;
        }
        if (!variable)
            refuse_raw(&l, mark);
        push(&l, variable ? TOKEN_open : TOKEN_block, mark, l.i, NULL, 0);
        lex_inside(&l, variable ? "}}" : "%}", variable ? TOKEN_close : TOKEN_block_end, mark);
    }
    push(&l, TOKEN_end, l.n, l.n, NULL, 0);
}
