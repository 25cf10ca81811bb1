/* room.c - see room.h. */
#include "runtime/room.h"
#include "runtime/run.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

typedef struct room {
    int64_t bytes;
    const char *limit;
} room;

int64_t rt_room_number(const char *path, const char *key)
{
    char line[256];
    int64_t n = -1;
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    while (n < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            if (sscanf(line + strlen(key), "%" SCNd64, &n) != 1)
                n = -1;
    fclose(f);
    return n;
}

static void least(room *m, int64_t bytes, const char *limit)
{
    if (bytes < 0)
        bytes = 0;
    if (m->bytes < 0 || bytes < m->bytes)
        *m = (room){bytes, limit};
}

static void limit_by_cgroup(room *m, const char *max, const char *used)
{
    int64_t a = rt_room_number(max, ""), b = rt_room_number(used, "");
    if (a > 0 && a < INT64_MAX / 2 && b >= 0)
        least(m, a - b, "the memory limit of this container");
}

int64_t rt_room_memory(const char **limit)
{
    room m = {-1, "unknown"};
    int64_t kib = rt_room_number("/proc/meminfo", "MemAvailable:");
    if (kib >= 0)
        least(&m, kib * 1024, "MemAvailable of /proc/meminfo");
    limit_by_cgroup(&m, "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
    limit_by_cgroup(&m, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                    "/sys/fs/cgroup/memory/memory.usage_in_bytes");
    struct rlimit space;
    int64_t pages = rt_room_number("/proc/self/statm", "");
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && pages >= 0)
        least(&m, (int64_t)space.rlim_cur - pages * rt_page(),
              "the address space limit (ulimit -v)");
    *limit = m.limit;
    return m.bytes;
}
