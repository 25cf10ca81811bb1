/* emit_deaths.c - where buffers die, for the runtime's --poison (mg_death). */
#include "codegen/emit/emit.h"

static int program_number(const Plan *p, const Program *prog)
{
    return prog == p->train ? 0 : prog == p->eval ? 1 : 2;
}

/* Actions have their ids; the loops of all programs are numbered on from there. */
uint32_t death_event(const Plan *p, const Program *prog, size_t action)
{
    const Program *programs[] = {p->train, p->eval, p->sample};
    const Action *a = &prog->actions.data[action];
    size_t event = p->nactions + a->loop;
    if (a->kind != ACT_end)
        return a->id;
    for (int k = 0; k < program_number(p, prog); k++)
        event += programs[k] ? programs[k]->loops.n : 0;
    return (uint32_t)event;
}

static bool dies(const Plan *p, const Buffer *b, const Program *prog, size_t action)
{
    return !b->persistent && b->owner != OWN_io && b->program == program_number(p, prog) &&
           b->first >= 0 && (size_t)b->last == action;
}

bool death_at(const Plan *p, const Program *prog, size_t action)
{
    for (size_t i = 0; i < p->buffers.n; i++)
        if (dies(p, &p->buffers.data[i], prog, action))
            return true;
    return false;
}

static size_t emit_deaths_of(Emitter *e, const Program *prog, bool loops)
{
    size_t n = 0;
    for (size_t at = 0; prog && at < prog->actions.n; at++) {
        if ((prog->actions.data[at].kind == ACT_end) != loops)
            continue;
        for (size_t i = 0; i < e->p->buffers.n; i++) {
            const Buffer *b = &e->p->buffers.data[i];
            if (!dies(e->p, b, prog, at))
                continue;
            fprintf(e->out, "%s{%u, %s, %lld, %d},", n++ % 2 ? " " : "\n    ",
                    death_event(e->p, prog, at), e->buffer[i], (long long)b->bytes, b->at);
        }
    }
    return n;
}

void emit_deaths(Emitter *e)
{
    const Program *programs[] = {e->p->train, e->p->eval, e->p->sample};
    size_t n = 0;
    fputs("/* after which action, or loop, bytes are dead: for --poison */\n"
          "static const mg_death deaths[] = {",
          e->out);
    for (int k = 0; k < 6; k++)
        n += emit_deaths_of(e, programs[k % 3], k >= 3);
    fprintf(e->out, "%s\n};\n\n", n ? "" : "\n    {0}");
}
