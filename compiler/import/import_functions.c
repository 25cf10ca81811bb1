/* import_functions.c - functions of templates:
 *
 *   len(x), count(list, v)       how many elements, and how many of them are v
 *   int(x), text(x)              a number cut to a whole one; a number as the language writes it
 *   real(x)                      likewise, 3 as 3.0: config.json may have to say that it is no
 * whole one has("rope_scaling.factor")   whether config.json has the key, and not as null
 *   stored("wte.weight")         whether the files have a tensor of that name
 *   where(list, v)               the places of v as a condition of the language on the number l
 *   steps(list, "i")             the list as an expression of the language on the number i */
#include "compiler/import/import.h"

#include <string.h>

static json_t *text_value(Cursor *c, const char *text)
{
    return import_own(c->h, json_string(text));
}

static json_t *whole_value(Cursor *c, int64_t x)
{
    return import_own(c->h, json_integer(x));
}

static int64_t count(const json_t *list, const json_t *v)
{
    int64_t n = 0;
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        n += import_same(one, v);
    return n;
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool at(const json_t *list, size_t i, const json_t *v)
{
    return import_same(json_array_get(list, i), v);
}

/* The shortest period of which the places of v are, or the whole list's length. */
static size_t period(const json_t *list, const json_t *v)
{
    const size_t n = json_array_size(list);
    size_t p = 1;
    for (size_t i = p; i < n; i++)
        if (at(list, i, v) != at(list, i - p, v)) {
            p++;
            i = p - 1;
        }
    return p < n ? p : n;
}

/* `l < n` or `l >= n`, if that is all; or NULL. */
static const char *one_side(Cursor *c, const json_t *list, const json_t *v)
{
    const size_t n = json_array_size(list);
    const bool first = at(list, 0, v);
    size_t i = 0;
    while (i < n && at(list, i, v) == first)
        i++;
    const size_t turn = i;
    while (i < n && at(list, i, v) != first)
        i++;
    return i < n ? NULL : arena_printf(c->h->s->arena, "l %s %zu", first ? "<" : ">=", turn);
}

/* Of a period that is not the whole list the remainder; else the numbers of layers. */
static const char *remainders(Cursor *c, const json_t *list, const json_t *v, size_t p)
{
    Arena *a = c->h->s->arena;
    const bool whole = p == json_array_size(list);
    const char *number = whole ? "l" : arena_printf(a, "l %% %zu", p), *text = NULL;
    size_t has = 0;
    for (size_t i = 0; i < p; i++)
        has += at(list, i, v);
    const bool lacking = has > 1 && has == p - 1;
    for (size_t i = 0; i < p; i++) {
        if (at(list, i, v) == lacking)
            continue;
        const char *one = arena_printf(a, "%s %s %zu", number, lacking ? "!=" : "==", i);
        text = has == 1 || lacking ? one
               : text              ? arena_printf(a, "%s + (%s)", text, one)
                                   : arena_printf(a, "(%s)", one);
    }
    return text;
}

static json_t *where(Cursor *c, const json_t *list, const json_t *v)
{
    const size_t n = json_array_size(list);
    const int64_t has = count(list, v);
    if (!has || has == (int64_t)n)
        return text_value(c, has ? "1" : "0");
    const size_t p = period(list, v);
    const char *side = p == n || 2 * p > n ? one_side(c, list, v) : NULL;
    return text_value(c, side ? side : remainders(c, list, v, p));
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Of equal neighbours one is written: select(i < 3, 1.5, select(i < 5, 2, 7)), by halves. */
static const char *halves(Cursor *c, const json_t *list, const char *i, size_t from, size_t to)
{
    json_t *first = json_array_get(list, from);
    size_t same = from + 1;
    while (same < to && import_same(json_array_get(list, same), first))
        same++;
    if (same == to)
        return import_number(c->h, first);
    size_t cut = (from + to) / 2;
    while (cut > from + 1 && import_same(json_array_get(list, cut), json_array_get(list, cut - 1)))
        cut--;
    if (cut <= from + 1)
        cut = same;
    return arena_printf(c->h->s->arena, "select(%s < %zu, %s, %s)", i, cut,
                        halves(c, list, i, from, cut), halves(c, list, i, cut, to));
}

static bool numbers(const json_t *list)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        if (!json_is_number(one))
            return false;
    return json_array_size(list) > 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

typedef enum Function {
    FN_len,
    FN_count,
    FN_int,
    FN_text,
    FN_real,
    FN_has,
    FN_stored,
    FN_where,
    FN_steps
} Function;

static json_t *compute(Cursor *c, Function f, json_t *a, json_t *b)
{
    switch (f) {
    case FN_len:
        return whole_value(c,
                           (int64_t)(json_is_array(a) ? json_array_size(a) : json_object_size(a)));
    case FN_count:
        return whole_value(c, count(a, b));
    case FN_int:
        return whole_value(c, (int64_t)json_number_value(a));
    case FN_text:
        return text_value(c, import_number(c->h, a));
    case FN_real: {
        const char *text = import_number(c->h, a);
        return text_value(c,
                          strpbrk(text, ".e") ? text : arena_printf(c->h->s->arena, "%s.0", text));
    }
    case FN_has:
        a = import_find(c->h, json_string_value(a));
        return import_own(c->h, json_boolean(a && !json_is_null(a)));
    case FN_stored:
        return import_own(
            c->h, json_boolean(json_object_get(c->h->tensors, json_string_value(a)) != NULL));
    case FN_where:
        return where(c, a, b);
    case FN_steps:
        return text_value(c, halves(c, a, json_string_value(b), 0, json_array_size(a)));
    }
    return NULL;
}

json_t *import_call(Cursor *c, uint32_t begin, const char *name, json_t *args)
{
    static const struct {
        const char *name, *takes; /* a letter an argument: list, number, string, any */
    } functions[] = {
        [FN_len] = {"len", "a"},       [FN_count] = {"count", "la"}, [FN_int] = {"int", "n"},
        [FN_text] = {"text", "n"},     [FN_real] = {"real", "n"},    [FN_has] = {"has", "s"},
        [FN_stored] = {"stored", "s"}, [FN_where] = {"where", "la"}, [FN_steps] = {"steps", "ls"}};
    size_t f = 0, n = sizeof functions / sizeof *functions;
    while (f < n && strcmp(functions[f].name, name) != 0)
        f++;
    if (f == n) {
        import_refuse(c, begin, "there is no function '%s'", name);
        return NULL;
    }
    const char *takes = functions[f].takes;
    bool good = json_array_size(args) == strlen(takes);
    for (size_t i = 0; good && takes[i]; i++) {
        const json_t *v = json_array_get(args, i);
        good = takes[i] == 'a' || (takes[i] == 'l' && json_is_array(v)) ||
               (takes[i] == 'n' && json_is_number(v)) || (takes[i] == 's' && json_is_string(v));
    }
    if (good && f == FN_steps)
        good = numbers(json_array_get(args, 0));
    if (!good) {
        import_refuse(c, begin, "'%s' does not take these values", name);
        return NULL;
    }
    return compute(c, (Function)f, json_array_get(args, 0), json_array_get(args, 1));
}
