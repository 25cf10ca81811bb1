/* emit_streams.c - streams in the emitted program: the points that other streams wait for, and the
 * places where a processor advances async collectives. A program with one stream has neither. */
#include "codegen/emit/emit.h"

int *stream_points(const Program *p, Arena *a)
{
    int n = 0, *point = NEW_ARRAY(a, int, p->actions.n + 1);
    for (size_t i = 0; i < p->actions.n; i++)
        for (int s = 0; s < MAX_STREAMS; s++)
            if (p->actions.data[i].wait[s])
                point[p->actions.data[i].wait[s] - 1] = 1;
    for (size_t i = 0; i < p->actions.n; i++)
        if (point[i])
            point[i] = ++n;
    return point;
}

/* The first action beside which a collective of the queue may run: the begin of the first iteration
 * that puts a collective there. */
static size_t first_beside(const Program *p)
{
    size_t i = 0;
    while (i < p->actions.n && !p->actions.data[i].stream)
        i++;
    for (int l = i < p->actions.n ? p->actions.data[i].around : -1; l >= 0;
         l = p->loops.data[l].parent)
        i = (size_t)p->loops.data[l].begin;
    return i;
}

bool *stream_beside(const Emitter *e, const Program *p)
{
    size_t newest = 0; /* 1 + the last that has begun */
    bool *beside = NEW_ARRAY(e->a, bool, p->actions.n + 1);
    const size_t first = first_beside(p);
    for (size_t i = 0; i < p->actions.n && !e->cuda; i++) {
        const Action *a = &p->actions.data[i];
        if (p->queued) {
            beside[i] = !a->stream && i >= first;
            continue;
        }
        for (int s = 1; s < MAX_STREAMS && !a->stream; s++)
            newest = a->wait[s] == newest ? 0 : newest;
        beside[i] = newest && !a->stream;
        newest = a->stream ? i + 1 : newest;
    }
    return beside;
}
