/* env.c - mgc env: what a bug report should say of mgc and of the machine, a row each. */
#include "compiler/session.h"

#include <gnu/libc-version.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

static void row(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void row(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%-12s", name);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

/* The value of the first line that begins with `key`, without separators; NULL: there is none. */
static const char *value_of(Arena *a, FILE *f, const char *key)
{
    char line[4096];
    const char *value = NULL;
    while (f && !value && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        char *from = line + strlen(key) + strspn(line + strlen(key), "\t :=\"");
        from[strcspn(from, "\"\n")] = 0;
        value = arena_strdup(a, from);
    }
    return value;
}

static const char *file_value(Arena *a, const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    const char *value = value_of(a, f, key);
    if (f)
        fclose(f);
    return value;
}

/* The first line that a command writes, or NULL. */
static const char *first_line(Arena *a, const char *command)
{
    FILE *f = popen(arena_printf(a, "(%s) 2>/dev/null </dev/null", command), "re");
    const char *line = value_of(a, f, "");
    if (f && pclose(f) != 0)
        return NULL;
    return line;
}

static void print_home(Arena *a)
{
    static const char *const files[] = {"libmgrt.a",      "include/abi.h",   "include/abi_types.h",
                                        "include/half.h", "include/fp8.h",   "include/dynamic8.h",
                                        "include/nf4.h",  "devices/cpu.json"};
    const char *home = home_dir(a);
    row("home", "%s%s", home, getenv("MGC_HOME") ? " (MGC_HOME)" : "");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (access(arena_printf(a, "%s/%s", home, files[i]), R_OK))
            row("", "%s is missing there", files[i]);
}

static void print_system(Arena *a)
{
    struct utsname u;
    const char *name = file_value(a, "/etc/os-release", "PRETTY_NAME");
    if (uname(&u) == 0)
        row("system", "%s, %s %s %s, glibc %s", name ? name : "unknown", u.sysname, u.release,
            u.machine, gnu_get_libc_version());
}

/* The instruction sets that kernels differ by, of those the processor has. */
static void print_processor(Arena *a)
{
    static const char *const sets[] = {"avx",      "avx2",        "fma",      "avx512f", "avx512bw",
                                       "avx512dq", "avx512_bf16", "amx_bf16", "asimd",   "sve"};
    const char *model = file_value(a, "/proc/cpuinfo", "model name");
    const char *flags = file_value(a, "/proc/cpuinfo", "flags");
    if (!flags)
        flags = file_value(a, "/proc/cpuinfo", "Features");
    row("processor", "%s", model ? model : "unknown");
    const char *all = arena_printf(a, " %s ", flags ? flags : ""), *has = "";
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strstr(all, arena_printf(a, " %s ", sets[i])))
            has = arena_printf(a, "%s%s%s", has, *has ? " " : "", sets[i]);
    if (*has)
        row("", "%s", has);
    cpu_set_t set;
    const char *quota = file_value(a, "/sys/fs/cgroup/cpu.max", "");
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        row("", "%d of %ld threads allowed%s%s", CPU_COUNT(&set), sysconf(_SC_NPROCESSORS_ONLN),
            quota ? ", cpu.max " : "", quota ? quota : "");
}

static void print_memory(Arena *a)
{
    const char *total = file_value(a, "/proc/meminfo", "MemTotal");
    const char *available = file_value(a, "/proc/meminfo", "MemAvailable");
    const char *limit = file_value(a, "/sys/fs/cgroup/memory.max", "");
    row("memory", "%s, available %s%s%s", total ? total : "unknown",
        available ? available : "unknown", limit ? ", memory.max " : "", limit ? limit : "");
}

static void print_compiler(Arena *a)
{
    const char *given = getenv("MGC_CC"), *cc = given && *given ? given : "cc";
    const char *version = first_line(a, arena_printf(a, "%s --version", cc));
    row("compiler", "%s%s: %s", cc, cc == given ? " (MGC_CC)" : "",
        version ? version : "does not run; --emit=c needs none");
}

static void print_cuda(Arena *a)
{
    const char *nvcc =
        first_line(a, "PATH=$PATH:/usr/local/cuda/bin nvcc --version | grep -o 'release.*'");
    const char *driver = file_value(a, "/proc/driver/nvidia/version", "NVRM version");
    row("cuda", "nvcc %s, driver %s", nvcc ? nvcc : "none", driver ? driver : "none");
}

/* Environment variables change how programs run, and stand on no command line. */
static void print_variables(void)
{
    static const char *const prefixes[] = {"MGC_", "MALLOC_", "CUDA_", "NCCL_"};
    const char *name = "variables";
    for (char **v = environ; *v; v++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            if (strncmp(*v, prefixes[i], strlen(prefixes[i])) == 0) {
                row(name, "%s", *v);
                name = "";
            }
}

Exit env_print(Session *s)
{
    Arena *a = s->arena;
    Device d;
    const char *llvm = NULL, *why_not = NULL;
    row("mgc", "%s", MGC_VERSION);
    print_home(a);
    print_system(a);
    if (llvm_version(a, &llvm, &why_not))
        row("kernels", "LLVM %s", llvm);
    else
        row("kernels", "none: %s", why_not);
    print_compiler(a);
    print_cuda(a);
    print_processor(a);
    print_memory(a);
    print_variables();
    fflush(stdout);
    if (device_load(s, "cpu", &d))
        return EXIT_tool;
    row("device cpu", "%d threads, %s, %.0f GFLOP/s in float32 assumed", d.threads,
        text_bytes(a, (double)d.memory), d.flops_f32 / 1e9);
    return EXIT_done;
}
