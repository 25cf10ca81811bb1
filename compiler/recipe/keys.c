/* keys.c - settings by a table of keys; see keys.h. */
#include "compiler/recipe/keys.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_flag(const char *t, bool *v)
{
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON"};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No",
                                     "NO",    "off",   "Off",   "OFF"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!strcmp(t, yes[i]) || !strcmp(t, no[i])) {
            *v = !strcmp(t, yes[i]);
            return true;
        }
    return false;
}

static bool is_number(const char *t, double *v)
{
    char *end;
    if (!*t || isspace((unsigned char)*t) || strpbrk(t, "xXpPnN")) /* no hexadecimals, nan, inf */
        return false;
    *v = strtod(t, &end);
    return !*end && isfinite(*v);
}

static bool is_whole(const char *t, int64_t *v)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)t[*t == '-' || *t == '+']))
        return false;
    *v = strtoll(t, &end, 10);
    return !*end && !errno;
}

static bool is_list(const Marked *v)
{
    for (size_t i = 0; v->kind == MARKED_list && i < v->items.n; i++)
        if (v->items.data[i].value->kind != MARKED_scalar)
            return false;
    return v->kind != MARKED_map;
}

static bool fits(KeyType type, const Marked *v)
{
    bool flag;
    int64_t whole;
    double number;
    const bool bare = v->kind == MARKED_scalar && !v->quoted;
    switch (type) {
    case KEY_flag:
        return bare && is_flag(v->text, &flag);
    case KEY_whole:
        return bare && is_whole(v->text, &whole);
    case KEY_number:
        return bare && is_number(v->text, &number);
    case KEY_text:
        return v->kind == MARKED_scalar;
    case KEY_list:
        return is_list(v);
    case KEY_map:
        return v->kind == MARKED_map;
    case KEY_any:
        break;
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static size_t row_of(const Keys *k, const char *name)
{
    for (size_t i = 0; i < k->n; i++)
        if (!strcmp(k->table[i].name, name))
            return i;
    return k->n;
}

/* The row of a name that the code has: it is there. */
static size_t known(const Keys *k, const char *name)
{
    const size_t i = row_of(k, name);
    if (i == k->n)
        abort();
    return i;
}

static void unknown(Keys *k, const MarkedItem *item, const char *name)
{
    const char **names = NEW_ARRAY(k->s->arena, const char *, k->n);
    for (size_t i = 0; i < k->n; i++)
        names[i] = k->table[i].name;
    const char *near = name_nearest(name, names, k->n);
    diag_error(k->s->diag, item->at, 616, "no key that mgc knows: '%s'", name);
    if (near)
        diag_help(k->s->diag, "did you mean '%s'?", near);
    k->failed = true;
}

static void read_map(Keys *k, const Marked *map, const char *prefix);

static void read_item(Keys *k, const MarkedItem *item, const char *prefix)
{
    static const char *const types[] = {"true or false",   "a whole number", "a number", "a text",
                                        "a list of texts", "a value",        "a map"};
    const char *name = arena_printf(k->s->arena, "%s%s", prefix, item->key);
    const size_t row = row_of(k, name);
    if (row == k->n) {
        unknown(k, item, name);
        return;
    }
    Said *said = &k->said[row];
    const Key *key = &k->table[row];
    const bool automatic = k->autos && item->value->kind == MARKED_scalar && key->type != KEY_map &&
                           !strcmp(item->value->text, "auto");
    const bool again = said->item;
    said->item = item;
    said->automatic = automatic;
    if (!marks_null(item->value) && !automatic && !fits(key->type, item->value)) {
        diag_error(k->s->diag, item->value->at, 618, "'%s' is %s, and this is not", name,
                   types[key->type]);
        k->failed = true;
    } else if (key->type == KEY_map && !marks_null(item->value))
        read_map(k, item->value, arena_printf(k->s->arena, "%s.", name));
    else if (!again)
        vec_push(k->s->arena, &k->order, row);
}

static void read_map(Keys *k, const Marked *map, const char *prefix)
{
    for (size_t i = 0; i < map->items.n; i++)
        read_item(k, &map->items.data[i], prefix);
}

static bool standard(const Keys *k, size_t row)
{
    const Marked *v = k->said[row].item->value;
    const Key *key = &k->table[row];
    double a, b;
    bool f, g;
    if (marks_null(v) || k->said[row].automatic)
        return true;
    if (v->kind != MARKED_scalar)
        return !v->items.n && !key->standard;
    if (!key->standard)
        return false;
    if (key->type == KEY_flag && is_flag(v->text, &f) && is_flag(key->standard, &g))
        return f == g;
    if ((key->type == KEY_whole || key->type == KEY_number) && is_number(v->text, &a) &&
        is_number(key->standard, &b))
        return a == b;
    return !strcmp(v->text, key->standard);
}

/* Of the keys that the table itself answers. */
static void answer(Keys *k, size_t row)
{
    const Key *key = &k->table[row];
    if (key->kind == KEY_TAKEN && marks_null(k->said[row].item->value))
        keys_idle(k, key->name, "null says nothing");
    if (key->kind == KEY_UNNEEDED || (key->kind == KEY_ONLY && standard(k, row)))
        keys_idle(k, key->name, "%s", key->kind == KEY_ONLY ? "it is so here" : key->why);
    else if (key->kind == KEY_ONLY)
        keys_missing(k, key->name, "%s", key->why);
    else if (key->kind == KEY_NOTHING)
        k->said[row].became = standard(k, row)
                                  ? arena_printf(k->s->arena, "- not needed: it is so here")
                                  : arena_printf(k->s->arena,
                                                 "- no counterpart: %s; no number that is learnt "
                                                 "depends on it",
                                                 key->why);
}

bool keys_read(Keys *k, const Marked *map, const Marked *over)
{
    k->said = NEW_ARRAY(k->s->arena, Said, k->n);
    memset(k->said, 0, k->n * sizeof *k->said);
    read_map(k, map, "");
    if (over)
        read_map(k, over, "");
    for (size_t i = 0; !k->failed && i < k->order.n; i++)
        answer(k, k->order.data[i]);
    return !k->failed;
}

/* ---- access ---------------------------------------------------------------------------------- */

const Marked *keys_value(const Keys *k, const char *name)
{
    const Said *said = &k->said[known(k, name)];
    return said->item && !said->automatic && !marks_null(said->item->value) ? said->item->value
                                                                            : NULL;
}

bool keys_given(const Keys *k, const char *name)
{
    return keys_value(k, name);
}

Span keys_at(const Keys *k, const char *name)
{
    const Said *said = &k->said[known(k, name)];
    return said->item ? said->item->value->at : (Span){0};
}

const char *keys_text(const Keys *k, const char *name)
{
    const Marked *v = keys_value(k, name);
    return !v ? k->table[known(k, name)].standard : v->kind == MARKED_scalar ? v->text : NULL;
}

bool keys_automatic(const Keys *k, const char *name)
{
    return k->said[known(k, name)].automatic;
}

bool keys_flag(const Keys *k, const char *name)
{
    bool v = false;
    const char *t = keys_text(k, name);
    return t && is_flag(t, &v) && v;
}

double keys_number(const Keys *k, const char *name)
{
    double v = 0;
    const char *t = keys_text(k, name);
    return t && is_number(t, &v) ? v : 0;
}

int64_t keys_whole(const Keys *k, const char *name)
{
    int64_t v = 0;
    const char *t = keys_text(k, name);
    return t && is_whole(t, &v) ? v : 0;
}

static void split(Arena *a, Words *all, const char *text)
{
    while (*text) {
        text += strspn(text, ", \t\n");
        size_t n = strcspn(text, ",");
        const char *next = text + n;
        while (n && isspace((unsigned char)text[n - 1]))
            n--;
        if (n)
            vec_push(a, all, arena_strndup(a, text, n));
        text = next;
    }
}

Words keys_list(const Keys *k, const char *name)
{
    Words all = {0};
    const Marked *v = keys_value(k, name);
    const char *text = keys_text(k, name);
    if (text)
        split(k->s->arena, &all, text);
    for (size_t i = 0; v && i < v->items.n; i++)
        split(k->s->arena, &all, v->items.data[i].value->text);
    return all;
}

/* ---- what they became ------------------------------------------------------------------------ */

static const char *formatted(Keys *k, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *text = arena_alloc(k->s->arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, fmt, ap);
    return text;
}

void keys_here(Keys *k, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    k->said[known(k, name)].became = arena_printf(k->s->arena, "-> %s", formatted(k, fmt, ap));
    va_end(ap);
}

void keys_idle(Keys *k, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    k->said[known(k, name)].became =
        arena_printf(k->s->arena, "- not needed: %s", formatted(k, fmt, ap));
    va_end(ap);
}

void keys_missing(Keys *k, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *why = formatted(k, fmt, ap);
    va_end(ap);
    Said *said = &k->said[known(k, name)];
    said->became = arena_printf(k->s->arena, "- no counterpart: %s", why);
    said->missing = true;
    if (k->s->o->allow_missing) {
        diag_warning(k->s->diag, keys_at(k, name), 617, "'%s' has no counterpart: %s", name, why);
        return;
    }
    diag_error(k->s->diag, keys_at(k, name), 617, "'%s' has no counterpart: %s", name, why);
    diag_help(k->s->diag, "--allow-missing goes on without it: what is learnt is then another "
                          "thing");
    k->failed = true;
}

void keys_wrong(Keys *k, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *why = formatted(k, fmt, ap);
    va_end(ap);
    k->said[known(k, name)].became = arena_printf(k->s->arena, "- wrong: %s", why);
    diag_error(k->s->diag, keys_at(k, name), 618, "%s", why);
    k->failed = true;
}

static void print_line(FILE *out, const char *line)
{
    diag_show(out, line);
    fputc('\n', out);
}

void keys_print(Keys *k, FILE *out)
{
    Arena *a = k->s->arena;
    for (size_t i = 0; i < k->order.n; i++) {
        const Said *said = &k->said[k->order.data[i]];
        const char *name = k->table[k->order.data[i]].name;
        int line, column;
        diag_locate(k->s->diag, said->item->at, &line, &column);
        print_line(out, arena_printf(a, "%s:%d:%d: %s: %s %s",
                                     diag_path(k->s->diag, said->item->at.file), line, column, name,
                                     marks_shown(a, said->item->value),
                                     said->became ? said->became : "- not read"));
    }
    for (size_t row = 0; k->said && k->defaults && row < k->n; row++)
        if (!k->said[row].item && k->said[row].became && k->table[row].standard)
            print_line(out, arena_printf(a, "%s: not given, %s: %s %s", k->path, k->table[row].name,
                                         k->table[row].standard, k->said[row].became));
}

bool keys_complete(const Keys *k)
{
    for (size_t i = 0; i < k->order.n; i++)
        if (!k->said[k->order.data[i]].became)
            return false;
    return true;
}

const char *keys_shown(Arena *a, double d)
{
    return arena_printf(a, "%.15g", d);
}
