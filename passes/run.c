/* run.c - walks passes.def: needs, the pass, the verifier, whoever looks on; see passes.h. */
#include "passes/passes.h"

#include <string.h>

#define ALL         (~(uint64_t)0)
#define AFTER(name) ((uint64_t)1 << PASS_ID_##name)

const PassInfo pass_info[PASS_count] = {
#define PASS(name, needs, keeps, summary)                                                          \
    [PASS_ID_##name] = {#name, summary, needs, keeps, pass_##name},
#include "passes/passes.def"
};

_Static_assert(PASS_count <= 64, "what holds is a set of 64 bits");

int pass_find(const char *name)
{
    for (int i = 0; i < PASS_count; i++)
        if (!strcmp(pass_info[i].name, name))
            return i;
    return -1;
}

PassStatus pass_bug(const Job *j, const Ins *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("mgc: internal error: ", j->log);
    vfprintf(j->log, fmt, ap);
    va_end(ap);
    fputc('\n', j->log);
    if (at) {
        ir_print_ins(j->m, at, j->log);
        fputc('\n', j->log);
    }
    return PASS_broken;
}

static PassStatus run_one(Job *j, const PassInfo *p, uint64_t holds)
{
    if (p->needs & ~holds)
        return pass_bug(j, NULL, "pass '%s' runs before a pass that it needs", p->name);
    j->tmp = arena_new();
    PassStatus s = p->run(j);
    arena_free(j->tmp);
    j->tmp = NULL;
    if (s != PASS_ok || j->compared)
        return s;
    int broken = ir_verify(j->m, j->log);
    if (broken)
        return pass_bug(j, NULL, "%d invariants do not hold after pass '%s'", broken, p->name);
    return PASS_ok;
}

PassStatus passes_run(Job *j, const PassRange *range)
{
    int first = range->from ? pass_find(range->from) : 0;
    int last = range->until ? pass_find(range->until) : PASS_count - 1;
    if (first < 0 || last < 0)
        return pass_bug(j, NULL, "no pass is called '%s'", first < 0 ? range->from : range->until);
    uint64_t holds = 0;
    for (int i = 0; i <= last; i++) {
        const PassInfo *p = &pass_info[i];
        if (i >= first) { /* what came before was done by whoever wrote the module's text */
            PassStatus s = run_one(j, p, holds);
            if (s != PASS_ok)
                return s;
            if (range->after)
                range->after(range->ctx, p->name, j);
        }
        holds = (holds & p->keeps) | (uint64_t)1 << i;
    }
    return PASS_ok;
}
