/* mutate.c - one small thing of a program's text changed; see gen.h. */
#include "tests/programs/gen.h"

#include <ctype.h>
#include <string.h>

typedef struct Token {
    size_t at, n;
} Token;
typedef VEC(Token) Tokens;

static int below(uint64_t *rng, size_t n)
{
    return n ? (int)(gen_random(rng) % n) : 0;
}

static size_t token_length(const char *s)
{
    size_t n = 1;
    if (isalnum((unsigned char)*s) || *s == '_')
        while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.')
            n++;
    else if (*s == '"')
        n = strcspn(s + 1, "\"\n") + 2;
    else if (!strncmp(s, "->", 2) || (strchr("<>=!", *s) && s[1] == '='))
        n = 2;
    return n;
}

static Tokens tokens_of(Arena *a, const char *text)
{
    Tokens t = {0};
    for (size_t at = 0; text[at];) {
        if (isspace((unsigned char)text[at])) {
            at++;
            continue;
        }
        size_t n = token_length(text + at);
        vec_push(a, &t, ((Token){at, n}));
        at += n;
    }
    return t;
}

static bool is_name(const char *text, Token t)
{
    return isalpha((unsigned char)text[t.at]);
}

static const char *word(Arena *a, const char *text, Token t)
{
    return arena_strndup(a, text + t.at, t.n);
}

static const char *replaced(Arena *a, const char *text, Token t, const char *by)
{
    return arena_printf(a, "%.*s%s%s", (int)t.at, text, by, text + t.at + t.n);
}

/* Another of its kind: a name for a name, a number for a number. */
static const char *another(Arena *a, const char *text, const Tokens *t, Token one, uint64_t *rng)
{
    static const char *const numbers[] = {
        "0",     "1",  "2", "3", "5", "7", "0.5", "16", "1e9", "2147483648", "9223372036854775807",
        "1e300", "0.0"};
    static const char *const signs[] = {"+",  "-", "*", "/", "@", "<", ",",
                                        "->", "=", "(", ")", "[", "]"};
    if (isdigit((unsigned char)text[one.at]))
        return numbers[below(rng, sizeof numbers / sizeof *numbers)];
    if (!is_name(text, one))
        return signs[below(rng, sizeof signs / sizeof *signs)];
    for (int tries = 0; tries < 20; tries++) {
        Token other = t->data[below(rng, t->n)];
        if (is_name(text, other))
            return word(a, text, other);
    }
    return "x";
}

static Token line_at(const char *text, Token t)
{
    size_t from = t.at, to = t.at;
    while (from && text[from - 1] != '\n')
        from--;
    to += strcspn(text + to, "\n");
    return (Token){from, to - from};
}

const char *gen_mutate(Arena *a, const char *text, uint64_t *rng)
{
    const Tokens t = tokens_of(a, text);
    if (t.n < 2)
        return text;
    size_t k = (size_t)below(rng, t.n - 1);
    Token one = t.data[k], next = t.data[k + 1];
    const char *x = word(a, text, one), *y = word(a, text, next);
    switch (below(rng, 10)) {
    case 0:
        return replaced(a, text, one, "");
    case 1:
        return replaced(a, text, one, arena_printf(a, "%s %s", x, x));
    case 2:
        return replaced(a, replaced(a, text, next, x), one, y);
    case 3:
        return replaced(a, text, line_at(text, one), "");
    case 4: {
        Token l = line_at(text, one);
        return replaced(a, text, l, arena_printf(a, "%s\n%s", word(a, text, l), word(a, text, l)));
    }
    default:
        return replaced(a, text, one, another(a, text, &t, one, rng));
    }
}
