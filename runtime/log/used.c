/* used.c - planned and used bytes of each level of memory, at the end of a run. */
#include "runtime/log/used.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/levels.h"

/* "1.50 MiB, 0 bytes over", of what is planned. */
static char *used_text(int64_t used, int64_t planned, const char *by)
{
    if (used < 0)
        return rt_printf("%s", "unknown");
    const rt_words over = rt_bytes_text(used > planned ? (double)(used - planned) : 0);
    return rt_printf("%s%s, %s over", rt_bytes_text((double)used).text, by, over.text);
}

static void print_level(rt_log *l, const mg_run *r, int level)
{
    rt_level_use u;
    if (!rt_levels_use(r, level, &u))
        return;
    char *text = used_text(u.used, u.planned + u.own, "");
    rt_log_line(l,
                "%s: planned %s (arena %" PRId64 " bytes, beside it at most %" PRId64 "), used %s",
                u.name, rt_bytes_text((double)(u.planned + u.own)).text, u.planned, u.own, text);
    free(text);
}

void rt_log_memory(rt_log *l, const mg_run *r)
{
    const rt_memory m = rt_memory_plan(r);
    int processes;
    const int64_t planned = m.total + m.held, used = rt_memory_used(r, &processes);
    char *by = processes > 1 ? rt_printf(" by the %d processes of this machine", processes)
                             : rt_printf("%s", ""),
         *text = used_text(used, planned, by);
    rt_log_line(l, "memory: planned %s (arena %" PRId64 " bytes, scratch %" PRId64 "), used %s",
                rt_bytes_text((double)planned).text, m.arena, m.scratch, text);
    free(by);
    free(text);
    for (int level = MG_LEVEL_HOST; level < MG_LEVELS; level++)
        print_level(l, r, level);
}
