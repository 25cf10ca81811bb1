/* check_write.c - what an action leaves in memory: its results, its work space; P4. */
#include "plan/check/check_run.h"

void write_run(void *ctx, Value v, uint64_t iterations, int64_t first, int64_t n)
{
    Cursor *k = ctx;
    memory_write(k->c->memory, (Piece){.lo = k->address,
                                       .hi = k->address + n * k->bytes,
                                       .value = v,
                                       .iterations = iterations,
                                       .first = first,
                                       .bytes = k->bytes});
    k->address += n * k->bytes;
}

static bool is_tensor(const Check *c, uint32_t buffer)
{
    for (size_t i = 0; i < c->p->tensor_buffer.n; i++)
        if ((uint32_t)c->p->tensor_buffer.data[i] == buffer)
            return true;
    return false;
}

/* Is it the new value of a tensor in a program that has no guard? */
static bool is_made_here(const Check *c, uint32_t buffer)
{
    const Fn *f = c->prog->fn;
    bool made = false;
    for (size_t k = 0; k < f->results.n; k++)
        made |= f->results.data[k].role == RES_update &&
                (uint32_t)c->p->tensor_buffer.data[f->results.data[k].tensor] == buffer;
    for (size_t k = 0; k < f->body->ins.n && made; k++)
        made = f->body->ins.data[k]->op != OP_guard;
    return made;
}

static bool may_write(Check *c, const Operand *o)
{
    if (c->guarded || !is_tensor(c, o->at.buffer) || is_made_here(c, o->at.buffer))
        return true;
    broken(c, 4, "writes '%s' before the guard",
           name_str(c->m->names, c->p->buffers.data[o->at.buffer].name));
    return false;
}

/* The bytes from one run of an operand's elements to the next, where all are as far apart; 0. */
static int64_t period_of(const Operand *o)
{
    int64_t run = 1, period = 0, next = 0;
    for (int i = o->type.rank - 1; i >= 0; i--) {
        const int64_t size = o->type.dims[i].size, stride = o->stride[i];
        if (size == 1)
            continue;
        if (!period && stride == run) {
            run *= size;
            continue;
        }
        if (period ? stride != next : stride < run)
            return 0;
        period = period ? period : stride;
        next = stride * size;
    }
    return period * dtype_bytes(o->type.dtype);
}

void write_operand(Check *c, const Operand *o)
{
    const Ins *def = c->m->values.data[o->value].def;
    const int64_t period = period_of(o), run = run_length(o), bytes = dtype_bytes(o->type.dtype);
    if (!may_write(c, o))
        return;
    if (!period || !def || op_is(def->op, VIEW) || OP_AMONG(def->op, OP_join, OP_repeat)) {
        each_run(c, o, write_run);
        return;
    }
    const int64_t lo = address_of(c, &o->at);
    memory_write_rows(c->memory,
                      (Piece){.lo = lo,
                              .hi = lo + run * bytes,
                              .value = o->value,
                              .iterations = iterations_key(c->m, o->value, iterations_here(c)),
                              .bytes = bytes},
                      type_elements(&o->type) / run, period);
}

/* Work space, or partial sums: whatever this action leaves there. */
void write_work(Check *c, const Operand *o, int which)
{
    int64_t lo = address_of(c, &o->at), bytes = dtype_bytes(o->type.dtype);
    if (may_write(c, o))
        memory_write(c->memory,
                     (Piece){.lo = lo,
                             .hi = lo + type_elements(&o->type) * bytes,
                             .iterations = (uint64_t)c->at * MAX_OPERANDS + (uint64_t)which,
                             .bytes = bytes});
}

/* Buffers that are new with this action hold nothing yet. What is forgotten in error is missed
 * where it is read; rows are written as one where nothing else is known of their bytes, and go as
 * one. */
void forget_dead(Check *c, const Action *a)
{
    for (int k = 0; k < a->noperands; k++) {
        const Buffer *b = &c->p->buffers.data[a->operand[k].at.buffer];
        if (a->operand[k].write && b->first == c->at && !b->persistent)
            memory_forget(c->memory, buffer_address(b), buffer_address(b) + b->bytes);
    }
}
