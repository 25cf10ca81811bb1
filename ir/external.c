/* external.c - patterns of external names; see external.h.
 *
 * Runs of digits and {} in two equal names lie at the same places, so two patterns share a name
 * when their texts between the runs are equal and each pair of runs has a number in common. A run
 * has at most one {}, for dots join the parts of a path. */
#include "ir/external.h"

#include <stdlib.h>
#include <string.h>

enum { HOLE_DIGITS = 19 };

/* `before` digits, then (where size > 0) one of `size` indices, then `after` digits. */
typedef struct Run {
    const char *before, *after;
    size_t nbefore, nafter;
    int64_t size, first, step;
} Run;

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* A number without sign or leading zeros that fits int32; moves *s behind it. */
static bool number(const char **s, int64_t *n)
{
    size_t length = digits(*s);
    *n = 0;
    if (!length || length > 9 || (length > 1 && **s == '0'))
        return false;
    while (length--)
        *n = 10 * *n + (*(*s)++ - '0');
    return true;
}

const char *external_hole(const char *s, int64_t *first, int64_t *step)
{
    *first = 0;
    *step = 1;
    if (*s++ != '{')
        return NULL;
    if (*s == '}')
        return s + 1;
    if (!number(&s, first) || *s++ != '+' || !number(&s, step) || *step < 1)
        return NULL;
    return s[0] == 'i' && s[1] == '}' ? s + 2 : NULL;
}

int external_holes(const char *name)
{
    int64_t first, step;
    int n = 0;
    for (const char *s = name; *s; s++) {
        if (*s == '}')
            return -1;
        const char *behind = external_hole(s, &first, &step);
        if (*s == '{' && !behind)
            return -1;
        n += behind != NULL;
        s = behind ? behind - 1 : s;
    }
    return n;
}

static bool hole(const char *s)
{
    int64_t first, step;
    return external_hole(s, &first, &step) != NULL;
}

/* Reads the run at *s, and moves *s and *dim behind it. */
static Run run_at(const char **s, const Tensor *t, int *dim)
{
    Run r = {.before = *s, .nbefore = digits(*s)};
    *s += r.nbefore;
    const char *behind = external_hole(*s, &r.first, &r.step);
    if (behind) {
        r.size = t->valid[(*dim)++];
        r.after = *s = behind;
        r.nafter = digits(*s);
        *s += r.nafter;
    }
    return r;
}

/* Puts the fixed digits at place `at` of text, where 0 is a digit that is still free. */
static bool put_digits(char *text, size_t at, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[at + i] && text[at + i] != from[i])
            return false;
        text[at + i] = from[i];
    }
    return true;
}

static bool put_run(char *text, size_t length, const Run *r)
{
    return put_digits(text, 0, r->before, r->nbefore) &&
           put_digits(text, length - r->nafter, r->after, r->nafter);
}

/* A free first digit of an index of several is 1. */
static void lead_with_one(char *text, size_t length, const Run *r)
{
    if (r->size && length - r->nbefore - r->nafter > 1 && !text[r->nbefore])
        text[r->nbefore] = '1';
}

/* Whether the digits of the {} are one of its indices, without a leading zero. */
static bool in_range(const char *text, size_t length, const Run *r)
{
    size_t n = length - r->nbefore - r->nafter;
    const char *s = text + r->nbefore;
    if (!r->size)
        return true;
    if (n > 1 && s[0] == '0')
        return false;
    uint64_t value = 0; /* 19 digits are below 2^64 */
    for (size_t i = 0; i < n; i++)
        value = 10 * value + (uint64_t)(s[i] - '0');
    const uint64_t first = (uint64_t)r->first, step = (uint64_t)r->step;
    return value >= first && (value - first) % step == 0 &&
           (value - first) / step < (uint64_t)r->size;
}

static bool has_length(const Run *r, size_t length)
{
    size_t fixed = r->nbefore + r->nafter;
    return r->size ? length > fixed && length <= fixed + HOLE_DIGITS : length == fixed;
}

/* Free digits lie in the {} of both runs, so the least digits make both indices least. Both are
 * from 0, or one is a plain number. */
static bool share_length(const Run *a, const Run *b, size_t length, char *text)
{
    if (!has_length(a, length) || !has_length(b, length))
        return false;
    memset(text, 0, length + 1);
    if (!put_run(text, length, a) || !put_run(text, length, b))
        return false;
    lead_with_one(text, length, a);
    lead_with_one(text, length, b);
    for (size_t i = 0; i < length; i++)
        if (!text[i])
            text[i] = '0';
    return in_range(text, length, a) && in_range(text, length, b);
}

static bool counts_from_0(const Run *r)
{
    return !r->size || (r->first == 0 && r->step == 1);
}

static bool share_run(const Run *a, const Run *b, char *text);

/* Each index of a in turn, as a plain number. */
static bool share_one(const Run *a, const Run *b, char *text)
{
    char number[EXTERNAL_MAX_BYTES];
    for (int64_t i = 0; i < a->size; i++) {
        int n = snprintf(number, sizeof number, "%.*s%lld%.*s", (int)a->nbefore, a->before,
                         (long long)(a->first + i * a->step), (int)a->nafter, a->after);
        if (share_run(&(Run){.before = number, .nbefore = (size_t)n}, b, text))
            return true;
    }
    return false;
}

static bool share_run(const Run *a, const Run *b, char *text)
{
    if (!counts_from_0(a))
        return share_one(a, b, text);
    if (!counts_from_0(b) && a->size)
        return share_one(b, a, text);
    size_t least = a->nbefore + a->nafter;
    for (size_t length = least; length <= least + HOLE_DIGITS; length++)
        if (share_length(a, b, length, text))
            return true;
    return false;
}

bool external_shared(const Names *names, const Tensor *a, const Tensor *b, char *name)
{
    const char *s = name_str(names, a->external), *t = name_str(names, b->external);
    int da = 0, db = 0;
    while (*s) {
        if (!digits(s) && !hole(s)) {
            *name++ = *s++;
            t++;
            continue;
        }
        Run x = run_at(&s, a, &da), y = run_at(&t, b, &db);
        if (!share_run(&x, &y, name))
            return false;
        name += strlen(name);
    }
    *name = '\0';
    return true;
}

const char *external_key(Arena *a, const char *s)
{
    char *key = NEW_ARRAY(a, char, strlen(s) + 1);
    size_t n = 0;
    int64_t first, step;
    while (*s) {
        size_t run = digits(s);
        for (const char *behind; (behind = external_hole(s + run, &first, &step));) {
            run = (size_t)(behind - s);
            run += digits(s + run);
        }
        key[n++] = run ? '0' : *s;
        s += run ? run : 1;
    }
    return key;
}

const char *external_name(Arena *a, const char *pattern, const int64_t *sizes, int64_t n)
{
    const char *name = "", *at;
    int64_t behind = 1, first, step;
    for (int i = external_holes(pattern) - 1; i >= 0; i--)
        behind *= sizes[i];
    for (int i = 0; (at = strchr(pattern, '{')); i++) {
        const char *after = external_hole(at, &first, &step);
        behind /= sizes[i];
        name = arena_printf(a, "%s%.*s%lld", name, (int)(at - pattern), pattern,
                            (long long)(first + step * (n / behind)));
        n %= behind;
        pattern = after;
    }
    return arena_printf(a, "%s%s", name, pattern);
}

int64_t external_size(const Tensor *t, int place)
{
    int64_t size = 1;
    int from = 0;
    for (int i = 0; i < place; i++)
        from += t->merge[i];
    for (int k = 0; k < t->merge[place]; k++)
        size *= t->valid[t->order[from + k]];
    return size;
}

bool external_parts_fit(const Tensor *a, const Tensor *b)
{
    bool fit = a->part_of && b->part_of && a->part_dim == b->part_dim && a->stacked == b->stacked &&
               a->external_rank == b->external_rank;
    for (int i = 0; fit && i < a->stacked; i++)
        fit = a->valid[i] == b->valid[i];
    for (int i = 0; fit && i < a->external_rank; i++)
        fit = i == a->part_dim || external_size(a, i) == external_size(b, i);
    return fit;
}

bool external_has_empty_part(const char *name)
{
    size_t length = strlen(name);
    return !length || name[0] == '.' || name[length - 1] == '.' || strstr(name, "..");
}

/* ---- of a text ------------------------------------------------------------------------------- */

/* One {} a stacked dim, and none beside another. */
static bool has_its_holes(const char *name, const Tensor *t)
{
    int64_t first, step;
    for (const char *s = name; *s; s++) {
        const char *behind = external_hole(s, &first, &step);
        if (behind && hole(behind + digits(behind)))
            return false;
    }
    return external_holes(name) == t->stacked;
}

/* As strings of a source are. */
static bool is_printable(const char *name)
{
    for (const char *s = name; *s; s++)
        if (*s < ' ' || *s > '~' || *s == '"' || *s == '\\')
            return false;
    return true;
}

static bool holds(const Module *m, const Tensor *t)
{
    const char *name = name_str(m->names, t->external), *why = NULL;
    if (!strcmp(name, "__metadata__"))
        why = "is the key of something else in safetensors files";
    else if (external_has_empty_part(name))
        why = "has an empty part";
    else if (!is_printable(name))
        why = "is not printable ASCII";
    else if (!has_its_holes(name, t))
        why = "has not one {} for each stacked dim";
    if (why)
        diag_error(m->diag, t->span, 276, "external name '%s' of '%s' %s", name,
                   name_str(m->names, t->name), why);
    return !why;
}

/* Of one key those with a {} come first, and equal names stand side by side. */
typedef struct Keyed {
    const char *key;
    const Tensor *tensor;
} Keyed;

static int by_key(const void *x, const void *y)
{
    const Keyed *a = x, *b = y;
    int order = strcmp(a->key, b->key), stacked = b->tensor->stacked - a->tensor->stacked;
    order = order ? order : stacked;
    return order ? order
                 : (a->tensor->external > b->tensor->external) -
                       (a->tensor->external < b->tensor->external);
}

/* Parts of one whole that do not overlap. */
static bool side_by_side(const Tensor *a, const Tensor *b)
{
    return a->external == b->external && external_parts_fit(a, b) && a->part_of == b->part_of &&
           (a->part_at + external_size(a, a->part_dim) <= b->part_at ||
            b->part_at + external_size(b, b->part_dim) <= a->part_at);
}

static bool disjoint(const Module *m, const Tensor *a, const Tensor *b)
{
    char name[EXTERNAL_MAX_BYTES];
    if (side_by_side(a, b) || !external_shared(m->names, a, b, name))
        return true;
    diag_error(m->diag, b->span, 276, "'%s' and '%s' share the external name '%s'",
               name_str(m->names, a->name), name_str(m->names, b->name), name);
    return false;
}

/* Parts that do not overlap fill their whole if they have its size together. Moves *i to the last
 * that has the name of number *i. */
static bool filled(const Module *m, const Keyed *all, size_t n, size_t *i)
{
    const Tensor *t = all[*i].tensor;
    int64_t size = t->part_of ? external_size(t, t->part_dim) : 0;
    for (; *i + 1 < n && all[*i + 1].tensor->external == t->external; ++*i)
        size += external_size(all[*i + 1].tensor, t->part_dim);
    if (size != t->part_of)
        diag_error(m->diag, t->span, 276, "the parts of '%s' have %lld of its %lld elements",
                   name_str(m->names, t->external), (long long)size, (long long)t->part_of);
    return size == t->part_of;
}

bool externals_hold(const Module *m)
{
    bool fine = true;
    Arena *a = arena_new();
    Keyed *all = NEW_ARRAY(a, Keyed, m->tensors.n + 1);
    size_t n = 0;
    for (size_t t = 0; t < m->tensors.n; t++) {
        const Tensor *tensor = &m->tensors.data[t];
        if (tensor->slot)
            continue;
        fine &= holds(m, tensor);
        all[n++] = (Keyed){external_key(a, name_str(m->names, tensor->external)), tensor};
    }
    qsort(all, n, sizeof *all, by_key);
    for (size_t i = 1, first = 0; i < n && fine; i++) {
        if (strcmp(all[first].key, all[i].key) != 0)
            first = i;
        for (size_t k = first; k < i && fine && all[k].tensor->stacked; k++)
            fine = disjoint(m, all[k].tensor, all[i].tensor);
        if (fine && first < i) /* plain names meet only their equals */
            fine = disjoint(m, all[i - 1].tensor, all[i].tensor);
    }
    for (size_t i = 0; i < n && fine; i++)
        fine = filled(m, all, n, &i);
    arena_free(a);
    return fine;
}
