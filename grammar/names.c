/* names.c - external names: what a checkpoint can hold, and that no two parameters share one;
 * patterns of them are ir/external.h's. */
#include "grammar/elab.h"
#include "ir/external.h"

#include <ctype.h>
#include <string.h>

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
    if (t->part_of || other->part_of) {
        help(e, "where both are parts of one tensor, each says where it begins: [rows at 0, ...]");
    } else if (e->frame->block->kind == N_BLOCK) {
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
    if (*own && !external_has_empty_part(name))
        return true;
    fail(e, n->at, 275, "external name '%s' has an empty part", *own ? name : own);
    help(e, "write a name between dots, as in `as \"norm.weight\"`; without `as` it is '%s'",
         text(e, n->name));
    return false;
}

/* Whether one of these tensors shares a name with t; then says so. */
static bool shares(Elab *e, const Node *n, const Tensor *t, const Externals *some)
{
    char name[EXTERNAL_MAX_BYTES];
    for (size_t i = 0; i < some->n; i++) {
        const Tensor *other = &e->module->tensors.data[some->data[i]];
        if (external_shared(e->names, t, other, name))
            return refuse_shared(e, n, t, other, name), true;
    }
    return false;
}

/* A key of the part that begins at `at`: no name has such a byte. */
static Name part_key(Elab *e, Name external, int64_t at)
{
    return name_intern(e->names,
                       arena_printf(e->arena, "%s\1%lld", text(e, external), (long long)at));
}

/* Equal patterns are found by their text; of others only those with a {} can meet a plain name. */
static bool refused_as_shared(Elab *e, const Node *n, const Tensor *t)
{
    size_t same = (size_t)(uintptr_t)map_find(&e->externals, t->external);
    const Tensor *first = same ? &e->module->tensors.data[same - 1] : NULL;
    if (first && !(t->part_of && first->part_of))
        return refuse_shared(e, n, t, first, NULL), true;
    uint32_t index = (uint32_t)e->module->tensors.n;
    if (t->part_of && !join_whole(e, n, t, first))
        return true;
    if (t->part_of)
        map_put(e->arena, &e->externals, part_key(e, t->external, t->part_at),
                (void *)(uintptr_t)(index + 1));
    if (first)
        return false;
    Name key = name_intern(e->names, external_key(e->arena, text(e, t->external)));
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

/* The end of the name behind an opening brace, at its closing one; NULL where none is. */
static const char *braced_end(const char *s)
{
    const char *end = s + 1;
    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    return *end == '}' && (isalpha((unsigned char)s[1]) || s[1] == '_') ? end : NULL;
}

const char *external_text(Elab *e, const Node *n)
{
    const char *done = "", *rest = n->text ? n->text : "", *end;
    for (const char *brace = strchr(rest, '{'); brace; brace = strchr(brace + 1, '{')) {
        int64_t number;
        if (!(end = braced_end(brace)))
            continue;
        Node name = {.kind = N_NAME, .span = n->at, .at = n->at};
        name.name = name_intern(e->names,
                                arena_printf(e->arena, "%.*s", (int)(end - brace - 1), brace + 1));
        if (!integer_of(e, &name, &number))
            number = 0; /* said */
        done = arena_printf(e->arena, "%s%.*s%lld", done, (int)(brace - rest), rest,
                            (long long)number);
        rest = end + 1;
    }
    return *done ? arena_printf(e->arena, "%s%s", done, rest) : rest;
}

static const char *own_name(Elab *e, const Node *n)
{
    return n->text ? external_text(e, n) : text(e, n->name);
}

size_t external_tensor(const Elab *e, Name external, const Tensor *part)
{
    if (part->part_of)
        external = name_intern(e->names, arena_printf(e->arena, "%s\1%lld", text(e, external),
                                                      (long long)part->part_at));
    return (size_t)(uintptr_t)map_find(&e->externals, external);
}

/* The part that is declared here, + 1. Training may have computed another place: of another batch.
 */
static size_t found_part(Elab *e, const Node *n, Name external)
{
    int64_t at = 0;
    size_t i = 0;
    while (i < n->more.n && n->more.data[i]->kind != N_FROM)
        i++;
    if (i == n->more.n || !integer_of(e, n->more.data[i]->b, &at))
        return 0;
    size_t found = (size_t)(uintptr_t)map_find(&e->externals, part_key(e, external, at));
    if (!found)
        fail(e, n->more.data[i]->b->span, 269,
             "the place of '%s' depends on how many sequences are computed at once",
             text(e, n->name));
    return found;
}

bool external_of(Elab *e, const Node *n, Name *name)
{
    *name = name_intern(e->names, path_join(e, e->frame->external, own_name(e, n)));
    return *name != 0;
}

bool find_external(Elab *e, const Node *n, uint32_t *index)
{
    Name name;
    if (!external_of(e, n, &name))
        return false;
    size_t found = (size_t)(uintptr_t)map_find(&e->externals, name);
    if (found && e->module->tensors.data[found - 1].part_of)
        found = found_part(e, n, name);
    *index = (uint32_t)(found - 1);
    return found > 0;
}

bool claim_adapter(Elab *e, const Node *n, const Tensor *t)
{
    return !refused_as_shared(e, n, t);
}

bool claim_external(Elab *e, const Node *n, Tensor *t)
{
    const char *own = own_name(e, n);
    const char *name = path_join(e, e->frame->external, own);
    if (!holdable(e, n, own, name))
        return false;
    if (external_holes(name) != t->stacked) {
        fail(e, n->at, 275, "external name '%s' has a brace that stands for no number", name);
        help(e, "the name of a repeat has one {}, for the number of its iteration");
        return false;
    }
    t->external = name_intern(e->names, name);
    return !refused_as_shared(e, n, t);
}
