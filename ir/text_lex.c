/* text_lex.c - tokens of the IR's text, and the places in the source that it names.
 *
 * The input may be anything: strings and names are bounded by the text's own length, and every
 * mistake has its place. */
#include "base/open.h"
#include "ir/text_reader.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST_SOURCE = 64 << 20 };

_Noreturn void text_wrong(Reader *r, Span s, int code, const char *fmt, const char *what)
{
    diag_error(r->m->diag, s, code, fmt, what);
    longjmp(r->fail, 1);
}

/* ---- tokens -------------------------------------------------------------------------------- */

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* The byte that \xNN stands for, r->at being after the backslash; 0 if it is no such escape. */
static char read_escape(Reader *r)
{
    char hex[3] = {0};
    if (r->end - r->at < 3 || *r->at != 'x')
        return 0;
    memcpy(hex, r->at + 1, 2);
    if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]))
        return 0;
    r->at += 3;
    return (char)strtoul(hex, NULL, 16);
}

static const char *read_string(Reader *r)
{
    enum { LONGEST = 4096 };
    const char *from = ++r->at;
    const char *close = memchr(from, '"', (size_t)(r->end - from));
    size_t room = (size_t)((close ? close : r->end) - from), n = 0;
    char *s = arena_alloc(r->a, (room < LONGEST ? room : LONGEST) + 1);
    bool good = close != NULL;
    while (good && n < LONGEST && r->at < close) {
        char c = *r->at++;
        good = c != '\n';
        if (c == '\\')
            c = read_escape(r);
        good &= c != '\0';
        s[n++] = c;
    }
    if (!good || r->at != close) {
        uint32_t quote = (uint32_t)(from - r->start) - 1;
        text_wrong(r, (Span){r->file, quote, quote + 1}, 401,
                   "this string is not closed, too long, or has a bad escape%s", "");
    }
    r->at++;
    return s;
}

/* A number ends where no word can go on; "inf" and "nan" have to be said, not reached. */
static void read_number(Reader *r)
{
    char s[48];
    size_t n = 0;
    const char *p = r->at;
    while (p < r->end && n < sizeof s - 1 &&
           (word_char(*p) || (*p == '-' || (*p == '+' && n)))) /* 1e+06 */
        s[n++] = *p++;
    s[n] = 0;
    char *stop, *whole;
    r->t.real = strtod(s, &stop);
    bool finite = isfinite(r->t.real) || strcmp(s, "-inf") == 0;
    if (stop == s || *stop || !finite || (p < r->end && word_char(*p)))
        text_wrong(r, r->t.span, 401, "'%s' is not a number", s);
    errno = 0;
    r->t.integer = strtoll(s, &whole, 10);
    r->t.integral = whole == stop && errno == 0;
    r->at += n;
    r->t.kind = TOK_number;
}

/* %word or %"any text" */
static void read_value_name(Reader *r)
{
    const char *from = ++r->at;
    r->t.kind = TOK_value;
    if (r->at < r->end && *r->at == '"')
        r->t.text = read_string(r);
    else {
        while (r->at < r->end && word_char(*r->at))
            r->at++;
        r->t.text = arena_strndup(r->a, from, (size_t)(r->at - from));
    }
    if (!*r->t.text)
        text_wrong(r, r->t.span, 401, "a value has a name%s", "");
}

void text_next(Reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r' || *r->at == '#')) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else
            r->at++;
    }
    uint32_t from = (uint32_t)(r->at - r->start);
    r->t = (Token){.span = {r->file, from, from + 1}};
    if (r->at == r->end)
        return;
    char c = *r->at;
    if (c == '%') {
        read_value_name(r);
    } else if (c == '"') {
        r->t.kind = TOK_string;
        r->t.text = read_string(r);
    } else if (isdigit((unsigned char)c) || c == '-') {
        read_number(r);
    } else if (isalpha((unsigned char)c) || c == '_') {
        const char *s = r->at;
        while (r->at < r->end && word_char(*r->at))
            r->at++;
        r->t.kind = TOK_word;
        r->t.text = arena_strndup(r->a, s, (size_t)(r->at - s));
    } else {
        r->t.kind = TOK_mark;
        r->t.text = arena_strndup(r->a, r->at++, 1);
    }
    r->t.span.end = (uint32_t)(r->at - r->start);
}

bool text_is_word(const Reader *r, const char *w)
{
    return r->t.kind == TOK_word && strcmp(r->t.text, w) == 0;
}

bool text_is_mark(const Reader *r, char c)
{
    return r->t.kind == TOK_mark && r->t.text[0] == c;
}

bool text_take_mark(Reader *r, char c)
{
    if (!text_is_mark(r, c))
        return false;
    text_next(r);
    return true;
}

void text_want_mark(Reader *r, char c)
{
    char s[2] = {c, 0};
    if (!text_take_mark(r, c))
        text_wrong(r, r->t.span, 402, "'%s' is expected here", s);
}

bool text_take_word(Reader *r, const char *w)
{
    if (!text_is_word(r, w))
        return false;
    text_next(r);
    return true;
}

void text_want_word(Reader *r, const char *w)
{
    if (!text_take_word(r, w))
        text_wrong(r, r->t.span, 402, "'%s' is expected here", w);
}

/* A name: a word or a string. */
const char *text_want_text(Reader *r)
{
    if (r->t.kind != TOK_word && r->t.kind != TOK_string)
        text_wrong(r, r->t.span, 402, "%s is expected here", "a name");
    const char *s = r->t.text;
    text_next(r);
    return s;
}

Name text_want_name(Reader *r)
{
    const char *s = text_want_text(r);
    return *s ? name_intern(r->m->names, s) : 0;
}

double text_want_real(Reader *r)
{
    double x = r->t.real;
    if (text_is_word(r, "nan") || text_is_word(r, "inf"))
        x = strtod(r->t.text, NULL);
    else if (r->t.kind != TOK_number)
        text_wrong(r, r->t.span, 402, "%s is expected here", "a number");
    text_next(r);
    return x;
}

int64_t text_want_int(Reader *r, int64_t low, int64_t high)
{
    if (r->t.kind != TOK_number || !r->t.integral || r->t.integer < low || r->t.integer > high)
        text_wrong(r, r->t.span, 403, "%s is expected here", "a whole number in range");
    int64_t n = r->t.integer;
    text_next(r);
    return n;
}

int text_want_choice(Reader *r, const char *const *choices, int n)
{
    for (int i = 0; i < n; i++)
        if (text_take_word(r, choices[i]))
            return i;
    text_wrong(r, r->t.span, 404, "unknown word '%s'", r->t.kind == TOK_word ? r->t.text : "");
}

/* ---- places in the source ------------------------------------------------------------------- */

/* The text of a file, or NULL where there is none. Nothing that could block or never end is read.
 */
static char *read_file(Arena *a, const char *path, size_t *size)
{
    struct stat st;
    FILE *f = *path ? open_file(path) : NULL;
    if (!f || fstat(fileno(f), &st) || st.st_size < 1 || st.st_size > LARGEST_SOURCE) {
        if (f)
            fclose(f);
        return NULL;
    }
    char *text = arena_alloc(a, (size_t)st.st_size + 1);
    *size = fread(text, 1, (size_t)st.st_size, f);
    fclose(f);
    return *size ? text : NULL;
}

/* A blank source stands in for one that is missing. Each line is as long as the largest column that
 * the text names on it, so that every place is distinct and is printed again as it was. */
static char *blank_page(const Reader *r, size_t *size)
{
    VEC(uint32_t) width = {0};
    *size = 0;
    for (const char *p = r->start; (p = memchr(p, '@', (size_t)(r->end - p))) != NULL;) {
        char *colon;
        unsigned long line = strtoul(++p, &colon, 10);
        unsigned long column = *colon == ':' ? strtoul(colon + 1, NULL, 10) : 0;
        if (line < 1 || line > LARGEST_SOURCE / 16 || column < 1 || column > LARGEST_SOURCE)
            continue;
        while (width.n < line && ++*size)
            vec_push(r->a, &width, 0);
        uint32_t *w = &width.data[line - 1];
        if (column <= *w || *size + column - *w > LARGEST_SOURCE)
            continue;
        *size += column - *w;
        *w = (uint32_t)column;
    }
    char *text = arena_alloc(r->a, *size + 1), *to = text;
    for (size_t i = 0; i < width.n; i++) {
        memset(to, ' ', width.data[i]);
        to += width.data[i];
        *to++ = '\n';
    }
    return text;
}

/* The source the dump was made from, if it can be read. */
static void open_source(Reader *r)
{
    size_t size;
    const char *path = r->m->source ? r->m->source : "";
    char *text = read_file(r->a, path, &size);
    if (!text)
        text = blank_page(r, &size);
    r->source = diag_add_file(r->m->diag, path, text, size);
    vec_push(r->a, &r->line_start, 0);
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n')
            vec_push(r->a, &r->line_start, (uint32_t)i + 1);
    vec_push(r->a, &r->line_start, (uint32_t)size + 1);
}

/* [ '@' line ':' column ] */
Span text_read_place(Reader *r)
{
    Span none = {0};
    if (!text_take_mark(r, '@'))
        return none;
    Span here = r->t.span;
    int64_t line = text_want_int(r, 1, INT32_MAX);
    text_want_mark(r, ':');
    int64_t column = text_want_int(r, 1, INT32_MAX);
    if (!r->source)
        open_source(r);
    if ((size_t)line >= r->line_start.n ||
        column > r->line_start.data[line] - r->line_start.data[line - 1])
        text_wrong(r, here, 405, "there is no such place in '%s'",
                   r->m->source ? r->m->source : "");
    uint32_t at = r->line_start.data[line - 1] + (uint32_t)column - 1;
    return (Span){r->source, at, at + 1};
}
