/* names.c - external names: what a checkpoint can hold, and that no two parameters share one.
 *
 * An external name is a pattern: each {} stands for the indices 0 to n - 1 of one stacked dim,
 * written in decimal without leading zeros. Runs of digits and {} in two equal names lie at the
 * same places, so two patterns share a name when their texts between the runs are equal and each
 * pair of runs has a number in common. A run has at most one {}, for dots join the parts of a path.
 */
#include "grammar/elab.h"

#include <string.h>

enum { HOLE_DIGITS = 19 };

/* `before` digits, then (where size > 0) an index below size, then `after` digits. */
typedef struct Run {
    const char *before, *after;
    size_t nbefore, nafter;
    int64_t size;
} Run;

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

static bool hole(const char *s)
{
    return s[0] == '{' && s[1] == '}';
}

/* Reads the run at *s, and moves *s and *dim behind it. */
static Run run_at(const char **s, const Tensor *t, int *dim)
{
    Run r = {.before = *s, .nbefore = digits(*s)};
    *s += r.nbefore;
    if (hole(*s)) {
        r.size = t->valid[(*dim)++];
        r.after = *s += 2;
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

/* Whether the digits of the {} are an index: no leading zero, below the size. */
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
    return value < (uint64_t)r->size;
}

static bool has_length(const Run *r, size_t length)
{
    size_t fixed = r->nbefore + r->nafter;
    return r->size ? length > fixed && length <= fixed + HOLE_DIGITS : length == fixed;
}

/* Free digits lie in the {} of both runs, so the least digits make both indices least. */
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

static bool share_run(const Run *a, const Run *b, char *text)
{
    size_t least = a->nbefore + a->nafter;
    for (size_t length = least; length <= least + HOLE_DIGITS; length++)
        if (share_length(a, b, length, text))
            return true;
    return false;
}

/* The name that both patterns stand for, into name; false if there is none. Their texts between
 * runs are equal. */
static bool shared_name(Elab *e, const Tensor *a, const Tensor *b, char *name)
{
    const char *s = text(e, a->external), *t = text(e, b->external);
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

/* The name with each run as one 0. */
static Name without_numbers(Elab *e, const char *s)
{
    char *key = NEW_ARRAY(e->arena, char, strlen(s) + 1);
    size_t n = 0;
    while (*s) {
        size_t run = digits(s);
        while (hole(s + run)) {
            run += 2;
            run += digits(s + run);
        }
        key[n++] = run ? '0' : *s;
        s += run ? run : 1;
    }
    return name_intern(e->names, key);
}

static void refuse_shared(Elab *e, const Node *n, const Tensor *t, const Tensor *other,
                          const char *name)
{
    bool plain = t->external == other->external;
    fail(e, n->at, 264, "external name '%s' is used twice", plain ? text(e, t->external) : name);
    if (other->span.file != n->at.file || other->span.begin != n->at.begin)
        note(e, other->span, "by this parameter too");
    if (!plain)
        note(e, n->at, "it is a name of '%s' and of '%s'", text(e, t->external),
             text(e, other->external));
    if (e->frame->block->kind == N_BLOCK) {
        note(e, e->frame->call, "in this call of '%s'", text(e, e->frame->block->name));
        help(e, "give the call a name: %s(...) as \"...\"", text(e, e->frame->block->name));
    } else if (!plain)
        help(e, "give one of them another name: `as \"...\"`");
}

/* Whether a checkpoint can hold a tensor of this name. */
static bool holdable(Elab *e, const Node *n, const char *own, const char *name)
{
    if (strcmp(name, "__metadata__") == 0) {
        fail(e, n->at, 275, "a parameter cannot be called '__metadata__'");
        help(e, "safetensors files have something else under this key: give the parameter another "
                "name");
        return false;
    }
    size_t length = strlen(name);
    if (*own && name[0] != '.' && name[length - 1] != '.' && !strstr(name, ".."))
        return true;
    fail(e, n->at, 275, "external name '%s' has an empty part", *own ? name : own);
    help(e, "write a name between dots, as in `as \"norm.weight\"`; without `as` it is '%s'",
         text(e, n->name));
    return false;
}

/* Whether one of these tensors shares a name with t; then says so. */
static bool shares(Elab *e, const Node *n, const Tensor *t, const Externals *some)
{
    /* A path, a string and the digits of each index: see PATH_MAX_BYTES and MG0102. */
    char name[2048];
    for (size_t i = 0; i < some->n; i++) {
        const Tensor *other = &e->module->tensors.data[some->data[i]];
        if (shared_name(e, t, other, name))
            return refuse_shared(e, n, t, other, name), true;
    }
    return false;
}

/* Equal patterns are found by their text; of others only those with a {} can meet a plain name. */
static bool refused_as_shared(Elab *e, const Node *n, const Tensor *t)
{
    size_t same = (size_t)(uintptr_t)map_find(&e->externals, t->external);
    if (same)
        return refuse_shared(e, n, t, &e->module->tensors.data[same - 1], NULL), true;
    uint32_t index = (uint32_t)e->module->tensors.n;
    Name key = without_numbers(e, text(e, t->external));
    ExternalNames *like = map_find(&e->alike, key);
    if (!like) {
        like = NEW(e->arena, ExternalNames);
        map_put(e->arena, &e->alike, key, like);
    }
    if (shares(e, n, t, &like->numbered) || (t->stacked && shares(e, n, t, &like->plain)))
        return true;
    map_put(e->arena, &e->externals, t->external, (void *)(uintptr_t)(index + 1));
    if (t->stacked)
        vec_push(e->arena, &like->numbered, index);
    else
        vec_push(e->arena, &like->plain, index);
    return false;
}

static const char *own_name(Elab *e, const Node *n)
{
    return n->text ? n->text : text(e, n->name);
}

bool find_external(Elab *e, const Node *n, uint32_t *index)
{
    Name name = name_intern(e->names, path_join(e, e->frame->external, own_name(e, n)));
    size_t found = (size_t)(uintptr_t)map_find(&e->externals, name);
    *index = (uint32_t)(found - 1);
    return found > 0;
}

bool claim_external(Elab *e, const Node *n, Tensor *t)
{
    const char *own = own_name(e, n);
    const char *name = path_join(e, e->frame->external, own);
    if (!holdable(e, n, own, name))
        return false;
    t->external = name_intern(e->names, name);
    return !refused_as_shared(e, n, t);
}
