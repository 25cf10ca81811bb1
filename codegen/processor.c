/* processor.c - the table of processors, and what follows from the plan's one; see processor.h.
 *
 * A processor is described by its level (v4: AVX-512, v3: AVX2 and FMA; aarch64: NEON), not by its
 * model. The kernels need exactly the features of that level. The program records them, and checks
 * them when it starts. */
#include "codegen/processor.h"

#include <stdlib.h>
#include <string.h>

const Processor processors[PROCESSORS] = {
    {"x86-64-v4", "x86_64", "x86-64-v4", 512,
     "+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma,+bmi,+bmi2,+f16c", NULL},
    {"x86-64-v3", "x86_64", "x86-64-v3", 256, "+avx2,+fma,+bmi,+bmi2,+f16c", NULL},
    {"x86-64", "x86_64", "x86-64", 128, "", NULL},
    {"aarch64", "aarch64", "generic", 128, "+neon", "mg_"},
};

const Processor *processor_find(const char *name)
{
    for (int i = 0; i < PROCESSORS; i++)
        if (!strcmp(processors[i].name, name))
            return &processors[i];
    return NULL;
}

const char *processor_host_arch(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "";
#endif
}

const char *processor_foreign(const Plan *p)
{
    const Processor *of = p->cpu ? processor_find(p->cpu) : NULL;
    return of && strcmp(of->arch, processor_host_arch()) ? of->arch : NULL;
}

const char *processor_cc(const Plan *p)
{
    const char *given = getenv("MGC_CC"), *arch = processor_foreign(p);
    if (given && *given)
        return given;
    return arch ? arena_printf(p->module->arena, "%s-linux-gnu-gcc", arch) : "cc";
}

const char *processor_cc_help(const Plan *p)
{
    const char *arch = processor_foreign(p);
    return arch ? arena_printf(p->module->arena,
                               "set MGC_CC to a C compiler for %s; Debian's is the package "
                               "gcc-%s-linux-gnu",
                               arch, !strcmp(arch, "x86_64") ? "x86-64" : arch)
                : "on Debian: apt-get install gcc libc6-dev; or set MGC_CC to a C compiler that "
                  "works; --emit=c needs none";
}

const char *processor_library(const Plan *p, const char *lib_dir, const char *name)
{
    const char *arch = processor_foreign(p);
    return arch ? arena_printf(p->module->arena, "%s/%s/%s", lib_dir, arch, name)
                : arena_printf(p->module->arena, "%s/%s", lib_dir, name);
}
