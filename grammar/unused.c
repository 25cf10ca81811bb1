/* unused.c - warnings of what nothing uses: a name, and what a name was given and lost again.
 *
 * Names are looked up where they are read (lookup). A value that is given to a name is fresh until
 * then: if it is still fresh when the name is given another, or when the block ends, nothing has
 * read it. What a repeat carries is read by the next iteration; after the last one it is fresh, if
 * it was carried for its own sake alone. The warnings are those of @train. */
#include "grammar/elab.h"
#include "ir/optimizers.h"

#include <string.h>

/* Is it wanted that nothing uses it? */
static bool is_silent(const Elab *e, const Sym *s)
{
    return *text(e, s->name) == '_';
}

/* The tensor is told of once: pass differentiate says no more. */
static void warn_unread(Elab *e, const Sym *s)
{
    for (size_t t = 0; t < e->module->tensors.n; t++) {
        Tensor *tensor = &e->module->tensors.data[t];
        tensor->unread |= tensor->span.file == s->span.file && tensor->span.begin == s->span.begin;
    }
    if (!is_silent(e, s))
        warn(e, s->span, 291, "parameter '%s' is not used", text(e, s->name));
}

static bool is_input(const Frame *f, Name name)
{
    for (size_t i = 0; f->block->kind == N_MODEL && i < f->block->list.n; i++)
        if (f->block->list.data[i]->name == name)
            return true;
    return false;
}

static void warn_name(Elab *e, const Frame *f, const Sym *s)
{
    if (s->kind == SYM_PARAM)
        warn_unread(e, s);
    else if (s->kind == SYM_CONST)
        warn(e, s->span, 290, "'%s' is not used", text(e, s->name));
    else if (s->kind == SYM_DIM)
        warn(e, s->span, 290, "dim '%s' is not used", text(e, s->name));
    else if (s->kind == SYM_INSTANCE)
        warn(e, s->span, 290, "instance '%s' is not called", text(e, s->name));
    else if (s->kind == SYM_VALUE)
        warn(e, s->span, 290,
             is_input(f, s->name) ? "input '%s' is not read" : "value '%s' is not used",
             text(e, s->name));
}

/* Warns that what s was given last is not used. */
static void warn_lost(Elab *e, const Sym *s)
{
    warn(e, s->given, 290,
         s->by_repeat ? "'%s' is read by itself alone: nothing uses it after the repeat"
                      : "this value of '%s' is not used",
         text(e, s->name));
}

void warn_unused_names(Elab *e, const Frame *f, size_t from)
{
    if (e->mode != MODE_TRAIN || diag_errors(e->diag) || f->prelude)
        return;
    bool model = f->block && f->block->kind == N_MODEL;
    for (size_t i = from; i < f->order.n; i++) {
        const Sym *s = f->order.data[i];
        if (s->gone || (model && !strcmp(text(e, s->name), "loss")))
            continue;
        if (!s->used && (s->kind == SYM_PARAM || !is_silent(e, s)))
            warn_name(e, f, s);
        else if (s->fresh && !is_silent(e, s))
            warn_lost(e, s);
    }
}

/* Warns of one that no loss has, and no other optimizer for its rest. */
static void warn_optimizer(Elab *e, const OptimizerInfo *o)
{
    const Train *t = &e->module->train;
    for (int k = 0; k < t->goals; k++)
        if (t->goal[k].optimizer == o || t->goal[k].optimizer->rest == o)
            return;
    const Node *n = o->declaration;
    if (*o->name != '_')
        warn(e, n->at, 290, "optimizer '%s' is not used", o->name);
}

void warn_unused(Elab *e)
{
    for (size_t i = 0; i < e->global_order.n; i++) {
        const Sym *s = e->global_order.data[i];
        if (!s->used && !is_silent(e, s))
            warn(e, s->span, 290, "%s '%s' is not used", s->kind == SYM_DIM ? "dim" : "constant",
                 text(e, s->name));
    }
    for (size_t i = 0; i < e->block_order.n; i++) {
        const Sym *s = e->block_order.data[i];
        if (!s->used && !is_silent(e, s))
            warn(e, s->span, 290, "block '%s' is not called", text(e, s->name));
    }
    for (size_t i = 0; i < e->optimizers.n; i++)
        warn_optimizer(e, e->optimizers.data[i]);
}

void note_given(Elab *e, Sym *s, Span by, bool by_repeat)
{
    bool told = e->mode == MODE_TRAIN && !e->frame->prelude && !diag_errors(e->diag);
    if (s->fresh && told && !is_silent(e, s)) {
        int before = e->warnings;
        warn_lost(e, s);
        if (e->warnings > before && e->warnings < WARNINGS_MAX)
            diag_note(e->diag, by, "it is replaced here");
    }
    s->fresh = true;
    s->by_repeat = by_repeat;
    s->given = by;
}

void note_used(Elab *e, const Node *n)
{
    if (!n || (e->frame && e->frame->prelude))
        return;
    Sym *block = n->kind == N_CALL ? map_find(&e->blocks, n->name) : NULL;
    if (n->kind == N_CALL && find_instance(e, n->name))
        block = NULL;
    if (block)
        block->used = true;
    if (n->kind == N_NAME)
        lookup(e, n->name);
    note_used(e, n->a);
    note_used(e, n->b);
    for (size_t i = 0; i < n->list.n; i++)
        note_used(e, n->list.data[i]);
}

/* ---- loops -------------------------------------------------------------------------------- */

/* Marks what the instructions of a region read, and of a loop in it everything. */
static void mark_reads(const Region *r, bool *live)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        for (uint32_t k = 0; k < ins->nin; k++)
            live[ins->in[k]] = true;
        if (ins->body)
            mark_reads(ins->body, live);
    }
    for (size_t i = 0; i < r->results.n; i++)
        live[r->results.data[i]] = true;
}

bool feeds_others(const Elab *e, const Region *body, size_t k)
{
    bool *live = NEW_ARRAY(e->arena, bool, e->module->values.n);
    for (size_t i = 0; i < body->results.n; i++)
        if (i != k)
            live[body->results.data[i]] = true;
    for (size_t i = body->ins.n; i-- > 0;) {
        const Ins *ins = body->ins.data[i];
        bool used = false;
        for (uint32_t r = 0; r < ins->nout; r++)
            used |= live[ins->out[r]];
        for (uint32_t r = 0; used && r < ins->nin; r++)
            live[ins->in[r]] = true;
        if (used && ins->body)
            mark_reads(ins->body, live);
    }
    return live[body->args.data[k]];
}
