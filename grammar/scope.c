/* scope.c - names and what they stand for, frames of block instances, dims, messages. */
#include "grammar/elab.h"

#include <string.h>

/* ---- maps --------------------------------------------------------------------------------- */

static size_t map_slot(const Map *m, uint32_t key)
{
    size_t i = (key * 2654435769u) & (m->slots - 1);
    while (m->keys[i] && m->keys[i] != key)
        i = (i + 1) & (m->slots - 1);
    return i;
}

void *map_find(const Map *m, uint32_t key)
{
    return m->slots ? m->values[map_slot(m, key)] : NULL;
}

void map_put(Arena *a, Map *m, uint32_t key, void *value)
{
    if (m->n * 2 >= m->slots) {
        Map old = *m;
        m->slots = old.slots ? old.slots * 2 : 16;
        m->keys = NEW_ARRAY(a, uint32_t, m->slots);
        m->values = NEW_ARRAY(a, void *, m->slots);
        for (size_t i = 0; i < old.slots; i++)
            if (old.keys[i]) {
                size_t to = map_slot(m, old.keys[i]);
                m->keys[to] = old.keys[i];
                m->values[to] = old.values[i];
            }
    }
    size_t i = map_slot(m, key);
    m->n += !m->keys[i];
    m->keys[i] = key;
    m->values[i] = value;
}

/* ---- messages ----------------------------------------------------------------------------- */

static bool reported(Elab *e, Span at, int code)
{
    uint64_t key = (uint64_t)at.file << 52 ^ (uint64_t)code << 34 ^ at.begin;
    for (size_t i = 0; i < e->reported.n; i++)
        if (e->reported.data[i] == key)
            return true;
    if (!diag_enough(e->diag))
        vec_push(e->arena, &e->reported, key);
    return false;
}

/* The place in the user's source: the call of the outermost block of the prelude. */
static Span in_source(const Elab *e, Span at)
{
    for (const Frame *f = e->frame; f && f->prelude; f = f->caller)
        at = f->call;
    return at;
}

/* Notes for an error: the definition behind a call of the prelude; the call that brought operands
 * of these types into a block. */
static void call_notes(Elab *e, Span at, int code)
{
    enum { TYPES_FROM = 211, TYPES_TO = 221 };
    const Frame *f = e->frame;
    if (f && f->prelude)
        diag_note(e->diag, at, "in the definition of '%s'", text(e, f->block->name));
    while (f && f->prelude)
        f = f->caller;
    if (f && f->block && f->block->kind == N_BLOCK && code >= TYPES_FROM && code <= TYPES_TO)
        diag_note(e->diag, f->call, "in this call of '%s'", text(e, f->block->name));
}

Val fail(Elab *e, Span at, int code, const char *fmt, ...)
{
    Span shown = in_source(e, at);
    e->quiet = reported(e, shown, code);
    if (e->quiet)
        return (Val){.kind = VAL_POISON};
    va_list ap;
    va_start(ap, fmt);
    diag_error(e->diag, shown, code, "%s", arena_vprintf(e->arena, fmt, ap));
    va_end(ap);
    call_notes(e, at, code);
    return (Val){.kind = VAL_POISON};
}

void note(Elab *e, Span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!e->quiet)
        diag_note(e->diag, at, "%s", arena_vprintf(e->arena, fmt, ap));
    va_end(ap);
}

void help(Elab *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!e->quiet)
        diag_help(e->diag, "%s", arena_vprintf(e->arena, fmt, ap));
    va_end(ap);
}

bool remedy(Elab *e, Span at, const char *with, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool told = !e->quiet && diag_remedy(e->diag, &(Remedy){1, {{at, with}}}, "%s",
                                         arena_vprintf(e->arena, fmt, ap));
    va_end(ap);
    return told;
}

bool remedies(Elab *e, const Remedy *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool told = !e->quiet && diag_remedy(e->diag, r, "%s", arena_vprintf(e->arena, fmt, ap));
    va_end(ap);
    return told;
}

bool remedy_option(Elab *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *option = arena_vprintf(e->arena, fmt, ap);
    va_end(ap);
    return !e->quiet && diag_remedy_option(e->diag, option, "%s", option);
}

const char *source_text(const Elab *e, Span s)
{
    size_t size;
    const char *all = diag_text(e->diag, s.file, &size);
    uint32_t end = s.end < size ? s.end : (uint32_t)size;
    return arena_strndup(e->arena, all + s.begin, end > s.begin ? end - s.begin : 0);
}

static bool in_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool place_of(const Elab *e, Span s, const char *word, bool whole, Span *at)
{
    size_t size, n = strlen(word);
    const char *all = diag_text(e->diag, s.file, &size);
    for (size_t i = s.begin; n && i + n <= s.end && s.end <= size; i++)
        if (!memcmp(all + i, word, n) &&
            !(whole && ((i && in_word(all[i - 1])) || in_word(all[i + n])))) {
            *at = (Span){s.file, (uint32_t)i, (uint32_t)(i + n)};
            return true;
        }
    return false;
}

bool word_place(const Elab *e, Span s, const char *word, Span *at)
{
    return place_of(e, s, word, true, at);
}

bool text_place(const Elab *e, Span s, const char *text, Span *at)
{
    return place_of(e, s, text, false, at);
}

void suggest(Elab *e, const char *word, const char *const *candidates, size_t n)
{
    enum { LOOKED_AT = 10000 };
    bool look = n && !e->quiet;
    const char *near = look ? name_nearest(word, candidates, n < LOOKED_AT ? n : LOOKED_AT) : NULL;
    Span at;
    if (near && word_place(e, diag_last(e->diag), word, &at))
        remedy(e, at, near, "did you mean '%s'?", near);
}

void warn(Elab *e, Span at, int code, const char *fmt, ...)
{
    if (e->warnings >= WARNINGS_MAX || reported(e, at, code))
        return;
    e->warnings++;
    va_list ap;
    va_start(ap, fmt);
    diag_warning(e->diag, at, code, "%s", arena_vprintf(e->arena, fmt, ap));
    va_end(ap);
    if (e->warnings == WARNINGS_MAX)
        diag_note(e->diag, (Span){0}, "further warnings are not shown");
}

const char *text(const Elab *e, Name n)
{
    return name_str(e->names, n);
}

const char *dims_text(Elab *e, const DimList *l)
{
    const char *s = "";
    for (int i = 0; i < l->n; i++)
        s = arena_printf(e->arena, "%s%s%s", s, i ? ", " : "", text(e, l->dim[i].name));
    return s;
}

const char *type_text(Elab *e, Value v)
{
    const Type *t = type_of(e->module, v);
    DimList l = {.n = t->rank};
    memcpy(l.dim, t->dims, sizeof l.dim);
    return arena_printf(e->arena, "[%s]", dims_text(e, &l));
}

/* ---- symbols ------------------------------------------------------------------------------ */

Sym *find_local(const Frame *f, Name name)
{
    return f ? map_find(&f->syms, name) : NULL;
}

bool was_refused(const Frame *f, Name name)
{
    for (size_t i = 0; f && i < f->refused.n; i++)
        if (f->refused.data[i] == name)
            return true;
    return false;
}

Sym *lookup(Elab *e, Name name)
{
    Sym *s = find_local(e->frame, name);
    if (!s && !(e->frame && e->frame->prelude))
        s = map_find(&e->globals, name);
    if (s && s->gone)
        return NULL;
    if (s)
        s->used = true, s->fresh = false;
    return s;
}

/* Names that could have been meant. */
static void suggest_symbol(Elab *e, Name name, SymKind kind, bool any)
{
    VEC(const char *) near = {0};
    for (size_t i = 0; e->frame && i < e->frame->order.n; i++) {
        const Sym *s = e->frame->order.data[i];
        if (!s->gone && (any || s->kind == kind))
            vec_push(e->arena, &near, text(e, s->name));
    }
    for (size_t i = 0; i < e->global_order.n; i++)
        if (any || e->global_order.data[i]->kind == kind)
            vec_push(e->arena, &near, text(e, e->global_order.data[i]->name));
    suggest(e, text(e, name), near.data, near.n);
}

/* The first of these statements, or of the repeats around the use, that gives its name to something
 * behind it. */
static const Node *given_later(const NodeList *statements, const Node *use)
{
    for (size_t i = 0; i < statements->n; i++) {
        const Node *s = statements->data[i], *found = NULL;
        if (s->kind == N_DIMS || s->kind == N_SEVERAL)
            found = given_later(&s->list, use);
        else if (s->kind == N_REPEAT || s->kind == N_SCAN)
            found = s->span.end > use->at.begin && s->span.begin < use->at.begin
                        ? given_later(&s->more, use)
                        : NULL;
        else if (s->name == use->name && s->at.begin > use->at.begin)
            found = s;
        if (found)
            return found;
    }
    return NULL;
}

/* A body is read from top to bottom. */
static bool note_later(Elab *e, const Node *n)
{
    const Node *body = e->frame ? e->frame->block : NULL;
    const Node *s =
        body && !e->quiet && body->span.file == n->at.file ? given_later(&body->more, n) : NULL;
    if (!s)
        return false;
    note(e, s->at, "it has this name only from here on");
    help(e, "a body is read from top to bottom: put what gives '%s' before what reads it",
         text(e, n->name));
    return true;
}

Sym *lookup_or_fail(Elab *e, const Node *n)
{
    Sym *s = lookup(e, n->name);
    if (s)
        return s;
    const Sym *gone = find_local(e->frame, n->name);
    fail(e, n->at, 201, "unknown name '%s'", text(e, n->name));
    if (e->quiet)
        return NULL;
    if (gone) {
        note(e, gone->span, "it belongs to one iteration of this repeat");
        help(e, "assign '%s' before the repeat, so that it is carried from iteration to iteration",
             text(e, n->name));
    } else if (map_find(&e->blocks, n->name)) {
        help(e, "'%s' is a block: write `%s(...)`", text(e, n->name), text(e, n->name));
    } else if (!note_later(e, n)) {
        suggest_symbol(e, n->name, SYM_VALUE, true);
    }
    return NULL;
}

static const char *kind_text(SymKind k)
{
    static const char *const names[] = {"dim",       "constant", "value",
                                        "parameter", "block",    "instance"};
    return names[k];
}

Sym *declare(Elab *e, SymKind kind, Name name, Span at)
{
    bool inside = e->frame && e->frame->block;
    Sym *old = inside ? find_local(e->frame, name) : NULL;
    if (old && old->gone) {
        Name n = old->name;
        *old = (Sym){.kind = kind, .name = n, .span = at};
        vec_push(e->arena, &e->frame->order, old);
        return old;
    }
    if (!old && !(inside && e->frame->prelude))
        old = map_find(&e->globals, name);
    if (old) {
        fail(e, at, 202, "'%s' is the name of a %s already", text(e, name), kind_text(old->kind));
        if (old->span.file)
            note(e, old->span, "declared here");
        help(e, "dims, axes, constants, parameters and values share one namespace: choose another");
        if (inside)
            vec_push(e->arena, &e->frame->refused, name);
        return NULL;
    }
    Sym *s = NEW(e->arena, Sym);
    *s = (Sym){.kind = kind, .name = name, .span = at};
    if (inside) {
        map_put(e->arena, &e->frame->syms, name, s);
        vec_push(e->arena, &e->frame->order, s);
    } else {
        map_put(e->arena, &e->globals, name, s);
        vec_push(e->arena, &e->global_order, s);
    }
    return s;
}

/* ---- dims --------------------------------------------------------------------------------- */

DimInfo *dim_info(Elab *e, Name dim)
{
    size_t i = (size_t)(uintptr_t)map_find(&e->dim_of, dim);
    return i ? &e->dims.data[i - 1] : NULL;
}

static bool barred(const Frame *f, Name name)
{
    for (size_t i = 0; i < f->barred.n; i++)
        if (f->barred.data[i] == name)
            return true;
    return false;
}

/* A local dim may take up the name of one of the same size whose block has ended, but not in a
 * block that may call an instance again whose calls have it. */
static bool may_take(const Frame *f, const DimInfo *have, int64_t size)
{
    return have->local && !have->frame && have->size == size && !barred(f, have->name);
}

/* The name that is wanted, or that with the first number; have: of the dim whose name it takes. */
static Name free_name(Elab *e, Name wanted, int64_t size, Span at, const Frame *f, DimInfo **have)
{
    Name name = wanted;
    *have = dim_info(e, name);
    for (int i = 2; *have && !(f && may_take(f, *have, size)); i++) {
        if (i > LOCAL_DIMS_MAX) {
            e->stopped = true;
            fail(e, at, 230, "more than %d dims '%s'", LOCAL_DIMS_MAX, text(e, wanted));
            break;
        }
        name = name_intern(e->names, arena_printf(e->arena, "%s_%d", text(e, wanted), i));
        *have = dim_info(e, name);
    }
    return name;
}

static Dim put_dim(Elab *e, DimInfo *have, DimInfo d)
{
    if (!have) {
        vec_push(e->arena, &e->dims, (DimInfo){0});
        have = &e->dims.data[e->dims.n - 1];
        map_put(e->arena, &e->dim_of, d.name, (void *)(uintptr_t)e->dims.n);
    }
    *have = d;
    return (Dim){.name = d.name, .size = d.size};
}

Dim new_dim(Elab *e, Name wanted, int64_t size, Span at)
{
    DimInfo *have;
    const Name name = free_name(e, wanted, size, at, NULL, &have);
    return put_dim(e, have, (DimInfo){name, size, size, at, NULL, false, false});
}

/* All blocks from which the instance is called whose call this frame is in: none of them has a dim
 * of this name while it lasts, so that the next call's is free again. */
static void bar(Elab *e, Name name)
{
    Frame *f = e->frame;
    while (!f->instance)
        f = f->caller;
    for (f = f->caller; f; f = f->caller)
        if (!barred(f, name))
            vec_push(e->arena, &f->barred, name);
}

/* The place at which a local dim is declared, as a name. */
static Name dim_key(Elab *e, int64_t size, Span at, int64_t number)
{
    return name_intern(e->names,
                       arena_printf(e->arena, "%s\1%u.%u\1%lld\1%lld", e->frame->path, at.file,
                                    at.begin, (long long)number, (long long)size));
}

Dim local_dim(Elab *e, Name wanted, int64_t size, Span at, int64_t number)
{
    const Name key = dim_key(e, size, at, number);
    Name name = (Name)(uintptr_t)map_find(&e->local, key);
    DimInfo *have = dim_info(e, name);
    if (e->mode == MODE_TRAIN || !have || have->frame) {
        name = free_name(e, wanted, size, at, e->frame, &have);
        map_put(e->arena, &e->local, key, (void *)(uintptr_t)name);
    }
    if (e->frame->shared)
        bar(e, name);
    vec_push(e->arena, &e->frame->dims, name);
    return put_dim(e, have, (DimInfo){name, size, size, at, e->frame, true, false});
}

void free_dims(Elab *e, const Frame *f)
{
    for (size_t i = 0; i < f->dims.n; i++)
        dim_info(e, f->dims.data[i])->frame = NULL;
}

static bool append_dims(Elab *e, const Node *n, const DimList *more, DimList *out)
{
    for (int i = 0; i < more->n; i++) {
        if (dims_have(out, more->dim[i].name)) {
            fail(e, n->at, 205, "dim '%s' is listed twice", text(e, more->dim[i].name));
            return false;
        }
        if (out->n == MAX_RANK) {
            fail(e, n->at, 206, "more than %d dims", MAX_RANK);
            return false;
        }
        out->dim[out->n++] = more->dim[i];
    }
    return true;
}

static bool resolve_into(Elab *e, const Node *n, DimList *out)
{
    Sym *s = lookup(e, n->name);
    if (!s) {
        fail(e, n->at, 203, "unknown dim '%s'", text(e, n->name));
        if (e->rule)
            help(e, "rows and cols are a matrix's: `select(matrix, ..., ...)` chooses by the "
                    "parameter");
        if (!note_later(e, n))
            suggest_symbol(e, n->name, SYM_DIM, false);
        return false;
    }
    if (s->kind != SYM_DIM) {
        fail(e, n->at, 204, "'%s' is a %s, not a dim", text(e, n->name), kind_text(s->kind));
        if (s->span.file)
            note(e, s->span, "declared here");
        return false;
    }
    return force(e, s) && append_dims(e, n, &s->dims, out);
}

bool resolve_dims(Elab *e, const NodeList *names, DimList *out)
{
    *out = (DimList){0};
    bool ok = true;
    for (size_t i = 0; i < names->n; i++)
        ok &= resolve_into(e, names->data[i], out);
    return ok;
}

bool resolve_all(Elab *e, const Node *name, DimList *out)
{
    *out = (DimList){0};
    return resolve_into(e, name, out);
}

bool resolve_dim(Elab *e, const Node *name, Dim *out)
{
    DimList l = {0};
    if (!resolve_into(e, name, &l))
        return false;
    if (l.n != 1) {
        fail(e, name->at, 207, "'%s' stands for %d dims (%s) where one is wanted",
             text(e, name->name), l.n, dims_text(e, &l));
        return false;
    }
    *out = l.dim[0];
    return true;
}

Number dims_number(Elab *e, const DimList *l)
{
    Number n = number_int(1);
    for (int i = 0; i < l->n; i++) {
        bool rows = l->dim[i].name == e->batch, whole = rows && e->mode == MODE_EVAL;
        int64_t product, size = dim_info(e, l->dim[i].name)->valid;
        size = whole ? e->module->batch.size : size;
        int power = n.rows + rows;
        n = size_multiply(n.i, size, &product) ? number_int(product) : number_int(INT64_MAX);
        n.rows = power;
    }
    return n;
}
