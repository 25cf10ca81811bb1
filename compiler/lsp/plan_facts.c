/* plan_facts.c - what a plan says of places of the source: seconds and bytes of expressions, of
 * parameters, and of blocks with all that they call; see facts.h. */
#include "compiler/lsp/facts.h"

#include <stdlib.h>
#include <string.h>

#include "plan/show.h"

/* Seconds of a step, forward and back; arithmetic. */
typedef struct Spent {
    double forward, back, flops;
} Spent;

/* A block, with all that it calls. */
typedef struct Block {
    Name name;
    Spent spent;
    double parameters; /* elements */
    double bytes;      /* of its buffers at the peak of a step */
} Block;

typedef struct Tell {
    Arena *arena;
    const Heard *heard;
    const Plan *plan;
    const Module *m;
    VEC(Block) blocks;
    json_t *places; /* lines by place */
    Spent *at;      /* by byte of the source */
    size_t size;
} Tell;

static const char *seconds_text(const Tell *t, double seconds)
{
    return text_seconds(t->arena, seconds);
}

static void add_line(Tell *t, uint32_t byte, const char *text)
{
    char key[16];
    snprintf(key, sizeof key, "%u", byte);
    json_t *lines = json_object_get(t->places, key);
    if (!lines) {
        lines = json_array();
        json_object_set_new(t->places, key, lines);
    }
    enum { LINES = 8 };
    for (size_t i = 0; i < json_array_size(lines); i++)
        if (!strcmp(json_string_value(json_array_get(lines, i)), text))
            return;
    if (json_array_size(lines) < LINES)
        json_array_append_new(lines, facts_string(text));
}

/* ---- blocks -------------------------------------------------------------------------------- */

static Block *block_of(Tell *t, Name name)
{
    for (size_t i = 0; i < t->blocks.n; i++)
        if (t->blocks.data[i].name == name)
            return &t->blocks.data[i];
    vec_push(t->arena, &t->blocks, (Block){.name = name});
    return &t->blocks.data[t->blocks.n - 1];
}

typedef void (*BlockFn)(Block *b, const void *what);

/* Each block around what has a path, once. */
static void around(Tell *t, Name path, BlockFn fn, const void *what)
{
    enum { DEEPEST = 64 };
    const char *text = name_str(t->m->names, path);
    Name seen[DEEPEST];
    int n = 0;
    for (size_t k = 1; path; k++) {
        if (text[k - 1] == 0)
            break;
        if (text[k] != '.' && text[k] != 0)
            continue;
        const Name part = name_intern_n(t->heard->names, text, k);
        const Name block = part < t->heard->block_of.n ? t->heard->block_of.data[part] : 0;
        bool again = !block || n == DEEPEST;
        for (int i = 0; i < n; i++)
            again |= seen[i] == block;
        if (again)
            continue;
        seen[n++] = block;
        fn(block_of(t, block), what);
    }
}

static void add_spent(Block *b, const void *what)
{
    const Spent *s = what;
    b->spent.forward += s->forward;
    b->spent.back += s->back;
    b->spent.flops += s->flops;
}

static void add_parameters(Block *b, const void *what)
{
    b->parameters += *(const double *)what;
}

static void add_bytes(Block *b, const void *what)
{
    b->bytes += *(const double *)what;
}

/* ---- the plan ------------------------------------------------------------------------------ */

static void spend(Tell *t, const Program *g)
{
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        if (action_is_mark(a))
            continue;
        const double seconds = a->seconds * a->times;
        const Spent s = {a->backward ? 0 : seconds, a->backward ? seconds : 0, a->flops * a->times};
        around(t, a->path, add_spent, &s);
        if (a->span.file != SOURCE_FILE || a->span.begin >= t->size)
            continue;
        Spent *at = &t->at[a->span.begin];
        at->forward += s.forward;
        at->back += s.back;
        at->flops += s.flops;
    }
}

static void tell_places(Tell *t, double step)
{
    for (size_t i = 0; i < t->size; i++) {
        const Spent *s = &t->at[i];
        const double all = s->forward + s->back;
        if (all <= 0)
            continue;
        add_line(t, (uint32_t)i,
                 arena_printf(t->arena, "%s of a step (%.1f%%): forward %s, back %s; %.3g FLOP",
                              seconds_text(t, all), step > 0 ? 100 * all / step : 0,
                              seconds_text(t, s->forward), seconds_text(t, s->back), s->flops));
    }
}

static const char *where_it_is(const Tell *t, const Buffer *b)
{
    return arena_printf(t->arena, "%s, `%s`: %s at offset %lld of %s%s%s", plan_owner(b->owner),
                        name_str(t->m->names, b->name), text_bytes(t->arena, (double)b->bytes),
                        (long long)b->offset, b->level ? "the arena of the " : "the arena",
                        b->level ? level_names[b->level] : "", buffer_always(b) ? ", always" : "");
}

/* Is it alive when most bytes are? */
static bool at_peak(const Program *g, const Buffer *b)
{
    return !b->persistent && b->first <= g->peak_action && g->peak_action <= b->last;
}

static void tell_buffers(Tell *t, const Program *g, int program)
{
    const Plan *p = t->plan;
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.data[i];
        const Ins *def = b->value ? t->m->values.data[b->value].def : NULL;
        if (!b->persistent && b->program != program)
            continue;
        if (b->span.file == SOURCE_FILE)
            add_line(t, b->span.begin, where_it_is(t, b));
        const double bytes = (double)b->bytes;
        if (at_peak(g, b) && def)
            around(t, def->path, add_bytes, &bytes);
    }
}

static void tell_tensors(Tell *t)
{
    for (size_t i = 0; i < t->m->tensors.n; i++) {
        const Tensor *one = &t->m->tensors.data[i];
        if (one->slot)
            continue;
        const double n = (double)type_bytes(&one->type) / (double)dtype_bytes(one->type.dtype);
        around(t, one->name, add_parameters, &n);
        if (one->span.file != SOURCE_FILE)
            continue;
        TensorSplit all[MAX_AXES];
        for (int k = 0, splits = tensor_splits(t->m, one, all); k < splits; k++)
            add_line(t, one->span.begin,
                     arena_printf(t->arena, "a rank has a part: `%s` on `%s`, by the rule for `%s`",
                                  name_str(t->m->names, all[k].dim),
                                  name_str(t->m->names, all[k].axis), split_rule(t->m, &all[k])));
    }
}

static const char *count_text(const Tell *t, double n)
{
    return n >= 1e9   ? arena_printf(t->arena, "%.3g G", n / 1e9)
           : n >= 1e6 ? arena_printf(t->arena, "%.3g M", n / 1e6)
           : n >= 1e3 ? arena_printf(t->arena, "%.3g k", n / 1e3)
                      : arena_printf(t->arena, "%.0f", n);
}

static json_t *block_texts(Tell *t, double step)
{
    json_t *all = json_object();
    for (size_t i = 0; i < t->blocks.n; i++) {
        const Block *b = &t->blocks.data[i];
        const double seconds = b->spent.forward + b->spent.back;
        const char *text =
            arena_printf(t->arena, "%s of a step (%.1f%%): forward %s, back %s | %s parameters%s",
                         seconds_text(t, seconds), step > 0 ? 100 * seconds / step : 0,
                         seconds_text(t, b->spent.forward), seconds_text(t, b->spent.back),
                         count_text(t, b->parameters), mesh_ranks(t->m) > 1 ? " a rank" : "");
        if (b->bytes > 0)
            text =
                arena_printf(t->arena, "%s | %s at the peak", text, text_bytes(t->arena, b->bytes));
        json_object_set_new(all, name_str(t->m->names, b->name), facts_string(text));
    }
    return all;
}

/* The line that mgc ends a compile with. */
static json_t *program_text(const Session *s, const Compiled *c)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    print_summary(s, c, out);
    fclose(out);
    if (size && text[size - 1] == '\n')
        text[size - 1] = 0;
    json_t *j = facts_string(text);
    free(text);
    return j;
}

void facts_plan(const Session *s, const Compiled *c, const Heard *h, json_t *part)
{
    const Plan *p = c->plan;
    const int program = p->train ? 0 : 5; /* train, or decode */
    const Program *g = p->programs[program];
    Tell t = {.arena = s->arena, .heard = h, .plan = p, .m = p->module, .places = json_object()};
    diag_text(s->diag, SOURCE_FILE, &t.size);
    t.at = NEW_ARRAY(s->arena, Spent, t.size + 1);
    spend(&t, g);
    tell_places(&t, g->seconds);
    tell_buffers(&t, g, program);
    tell_tensors(&t);
    json_object_set_new(part, "program", program_text(s, c));
    json_object_set_new(part, "blocks", block_texts(&t, g->seconds));
    json_object_set_new(part, "places", t.places);
}
