/* emit_deaths.c - the places where buffers die, for the runtime's --poison (mg_death). */
#include "codegen/emit/emit.h"

#include <string.h>

static int program_number(const Plan *p, const Program *prog)
{
    int k = 0;
    while (p->programs[k] != prog)
        k++;
    return k;
}

/* Actions have their ids; the loops of all programs are numbered on from there. */
uint32_t death_event(const Plan *p, const Program *prog, size_t action)
{
    Program *const *const programs = p->programs;
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

static const char *death_text(const Emitter *e, const Program *prog, size_t at, size_t buffer)
{
    const Buffer *b = &e->p->buffers.data[buffer];
    const char *form = b->at == AT_ALL ? "DIES(%u,%s%s,%lld),"
                                       : "{.event = %u, .offset = %s%s, .bytes = %lld, .at = %d},";
    return arena_printf(e->a, form, death_event(e->p, prog, at), e->buffer[buffer],
                        e->step[buffer] ? "(0)" : "", (long long)b->bytes, b->at);
}

/* As many a line as fit; *column is where the last one ends, 0: there is none. */
static void emit_deaths_of(Emitter *e, const Program *prog, bool loops, size_t *column)
{
    for (size_t at = 0; prog && at < prog->actions.n; at++) {
        if ((prog->actions.data[at].kind == ACT_end) != loops)
            continue;
        for (size_t i = 0; i < e->p->buffers.n; i++) {
            if (!dies(e->p, &e->p->buffers.data[i], prog, at))
                continue;
            const char *text = death_text(e, prog, at, i);
            const bool fits = *column && *column + 1 + strlen(text) <= EMIT_WIDTH;
            fprintf(e->out, "%s%s", fits ? " " : "\n    ", text);
            *column = (fits ? *column + 1 : 4) + strlen(text);
        }
    }
}

void emit_deaths(Emitter *e)
{
    Program *const *const programs = e->p->programs;
    size_t column = 0;
    fputs("/* After which action, or loop, bytes are dead: for --poison. */\n"
          "#define DIES(n, place, size) {.event = n, .offset = place, .bytes = size, .at = "
          "MG_AT_ALL}\n"
          "static const mg_death deaths[] = {",
          e->out);
    for (int k = 0; k < 2 * PLAN_PROGRAMS; k++)
        emit_deaths_of(e, programs[k % PLAN_PROGRAMS], k >= PLAN_PROGRAMS, &column);
    fprintf(e->out, "%s\n};\n\n", column ? "" : "\n    {0}");
}
