/* cpu.c - checks that this processor has the features that the kernels were compiled for. Names are
 * LLVM's. */
#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

static bool same(const char *name, size_t n, const char *feature)
{
    return strlen(feature) == n && memcmp(name, feature, n) == 0;
}

/* 1: the processor has the feature, 0: it lacks it, -1: the name is not known here. Both
 * __builtin_cpu_supports and the kernel's AT_HWCAP also say that the operating system saves the
 * registers. */
static int has(const char *name, size_t n)
{
#if defined(__x86_64__)
#define FEATURE(x)                                                                                 \
    if (same(name, n, x))                                                                          \
        return __builtin_cpu_supports(x) != 0;
#else
#define FEATURE(x, bit)                                                                            \
    if (same(name, n, x))                                                                          \
        return (getauxval(AT_HWCAP) & (bit)) != 0;
#endif
#include "runtime/cpu.def"
#undef FEATURE
    (void)same, (void)name, (void)n;
    return -1;
}

static char *list(const char *features, int wanted)
{
    char *out = rt_alloc(2 * strlen(features) + 1, 1), *o = out;
    for (const char *s = features; *s;) {
        size_t n = strcspn(s, ",");
        if (n > 1 && s[0] == '+' && has(s + 1, n - 1) == wanted) {
            o = stpcpy(o, o == out ? "" : ", ");
            memcpy(o, s + 1, n - 1);
            o += n - 1;
        }
        s += n;
        s += *s == ',';
    }
    *o = 0;
    if (o == out) {
        free(out);
        return NULL;
    }
    return out;
}

char *rt_cpu_lacks(const char *features)
{
    return list(features, 0);
}

void rt_cpu_must(const mg_run *r)
{
    char *lacks = rt_cpu_lacks(r->program->cpu_features);
    if (lacks)
        rt_die(RT_MISFIT,
               "this processor lacks %s, which %s was compiled for; compile it on this machine",
               lacks, r->program->name);
}

char *rt_cpu_unknown(const char *features)
{
    return list(features, -1);
}
