/* shrink.c - a failing program made small: lines, then tokens, are left out as long as it fails in
 * the same way; see try.h. */
#include "tests/programs/try.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { TRIES = 3000 };

typedef VEC(const char *) Parts;

/* The kind of a failure: its message without numbers and names. */
static const char *kind_of(Arena *a, const Tried *t)
{
    static const char *const marks[] = {"internal error: ", "invariant", "ERROR: AddressSanitizer",
                                        "runtime error:",   "planned: ", "the gradient",
                                        "the loss",         "is off by"};
    const char *at = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !at; i++)
        at = strstr(t->said, marks[i]);
    if (t->outcome == TRY_crash || t->outcome == TRY_hang || !at)
        at = "";
    char *s = arena_strndup(a, at, strcspn(at, "\n"));
    s[strcspn(s, "0123456789'%")] = 0;
    return arena_printf(a, "%d %s", t->outcome, s);
}

static const char *join(Arena *a, const Parts *p, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += i >= from && i < to ? 0 : strlen(p->data[i]);
    char *text = arena_alloc(a, n + 1);
    n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (i < from || i >= to) {
            strcpy(text + n, p->data[i]);
            n += strlen(p->data[i]);
        }
    text[n] = 0;
    return text;
}

static Parts split(Arena *a, const char *text, bool lines)
{
    Parts p = {0};
    while (*text) {
        size_t n = lines ? strcspn(text, "\n") + (strchr(text, '\n') != NULL) : 1;
        if (!lines && (isalnum((unsigned char)*text) || *text == '_'))
            while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.')
                n++;
        while (!lines && isspace((unsigned char)text[n]))
            n++;
        vec_push(a, &p, arena_strndup(a, text, n));
        text += n;
    }
    return p;
}

typedef struct Search {
    Arena *a;
    uint64_t seed;
    const char *kind;
    bool change;
    int tries;
} Search;

static bool still_fails(Search *s, const char *text)
{
    Arena *a = arena_new();
    Tried t = try_program(a, text, s->seed, s->change);
    bool same = is_failure(t.outcome) && !strcmp(kind_of(a, &t), s->kind);
    arena_free(a);
    s->tries++;
    return same;
}

static const char *without(Search *s, const char *text, bool lines, size_t max)
{
    Parts p = split(s->a, text, lines);
    for (size_t n = max < p.n ? max : p.n / 2; n; n /= 2)
        for (size_t at = 0; at + n <= p.n && s->tries < TRIES;) {
            const char *less = join(s->a, &p, at, at + n);
            if (!still_fails(s, less)) {
                at++;
                continue;
            }
            text = less;
            p = split(s->a, text, lines);
        }
    return text;
}

const char *shrink(Arena *a, const char *text, uint64_t seed, bool change, const Tried *failure)
{
    Search s = {a, seed, kind_of(a, failure), change, 0};
    if (failure->outcome == TRY_hang)
        return text;
    text = without(&s, text, true, 32);
    text = without(&s, text, false, 24);
    text = without(&s, text, true, 8);
    return without(&s, text, false, 12);
}
