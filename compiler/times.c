/* times.c - --time-passes: where mgc's own time goes. */
#include "compiler/session.h"

#include <time.h>

typedef struct Part {
    const char *name;
    double seconds;
} Part;

struct Times {
    double last; /* when the part before ended */
    VEC(Part) parts;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void times_begin(Session *s)
{
    s->times = NEW(s->arena, Times);
    s->times->last = now();
}

void times_mark(const Session *s, const char *part)
{
    if (!s->times)
        return;
    double t = now();
    vec_push(s->arena, &s->times->parts, ((Part){part, t - s->times->last}));
    s->times->last = t;
}

void times_print(const Session *s, FILE *out)
{
    double sum = 0;
    for (size_t i = 0; s->times && i < s->times->parts.n; i++)
        sum += s->times->parts.data[i].seconds;
    for (size_t i = 0; s->times && i < s->times->parts.n; i++) {
        const Part *p = &s->times->parts.data[i];
        fprintf(out, "%-16s %9.3f ms %5.1f%%\n", p->name, p->seconds * 1e3, 100 * p->seconds / sum);
    }
    if (s->times)
        fprintf(out, "%-16s %9.3f ms\n", "all", sum * 1e3);
}
