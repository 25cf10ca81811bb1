/* check_write.c - what an action leaves in memory: its results, its work space; P4. */
#include "plan/check/check_run.h"

void write_run(void *ctx, Value v, uint64_t iterations, Strip s)
{
    Cursor *k = ctx;
    const int64_t lo = k->address + s.at * k->bytes;
    memory_write_rows(k->c->memory,
                      (Piece){.lo = lo,
                              .hi = lo + s.n * k->bytes,
                              .value = v,
                              .iterations = iterations,
                              .first = s.first,
                              .bytes = k->bytes},
                      s.count, s.stride * k->bytes, s.step);
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

void write_operand(Check *c, const Operand *o)
{
    if (may_write(c, o))
        each_run(c, o, write_run);
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
