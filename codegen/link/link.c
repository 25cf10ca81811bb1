/* link.c - makes the executable: writes kernels and emitted C into a private directory, then runs
 * the C compiler. */
#include "codegen/link/link.h"
#include "codegen/processor.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts a program found in PATH; its standard output is `out`, unless that is -1. Its number, or
 * -1 with errno. */
static pid_t start(const char *const *argv, int out)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    posix_spawn_file_actions_init(&files);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&files, out, 1);
    errno = posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return errno ? -1 : pid;
}

static int end_of(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_program(const char *const *argv, bool quiet)
{
    const int out = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    const pid_t pid = start(argv, out);
    const int wrong = errno;
    if (out >= 0)
        close(out);
    errno = wrong;
    return pid < 0 ? -1 : end_of(pid);
}

int run_for_text(Arena *a, const char *const *argv, const char **text)
{
    enum { MOST = 1 << 16 };
    char piece[4096];
    int ends[2];
    ssize_t n;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    const pid_t pid = start(argv, ends[1]);
    const int wrong = errno;
    close(ends[1]);
    *text = "";
    while (pid >= 0 && strlen(*text) < MOST &&
           ((n = read(ends[0], piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            *text = arena_printf(a, "%s%.*s", *text, (int)n, piece);
    close(ends[0]);
    errno = wrong;
    return pid < 0 ? -1 : end_of(pid);
}

bool run_tool(const Plan *p, const char *const *argv, const char *help)
{
    int status = run_program(argv, false);
    if (status < 0)
        diag_error(p->module->diag, (Span){0}, 542, "cannot run '%s': %s", argv[0],
                   strerror(errno));
    else if (status)
        diag_error(p->module->diag, (Span){0}, 542, "'%s' failed with status %d", argv[0], status);
    if (status)
        diag_help(p->module->diag, "%s", help);
    return status == 0;
}

bool library_is_there(const Plan *p, const char *path)
{
    const char *arch = processor_foreign(p);
    if (access(path, R_OK) == 0)
        return true;
    if (arch) {
        diag_error(p->module->diag, (Span){0}, 542,
                   "'%s' is missing: this mgc has no runtime for %s", path, arch);
        diag_help(p->module->diag,
                  "build mgc where %s-linux-gnu-gcc is, or compile the model on a machine of that "
                  "kind",
                  arch);
        return false;
    }
    diag_error(p->module->diag, (Span){0}, 542, "'%s' is missing: programs are linked with it",
               path);
    diag_help(p->module->diag, "install mgc again, or set MGC_HOME to the lib/mgc that has it");
    return false;
}

static bool compile(const Plan *p, const char *dir, const char *lib_dir, const char *to)
{
    Arena *a = p->module->arena;
    const char *runtime = processor_library(p, lib_dir, "libmgrt.a");
    if (!library_is_there(p, runtime) || !runtime_is_ours(p, lib_dir, runtime))
        return false;
    const char *argv[] = {processor_cc(p),
                          "-std=c17",
                          "-O1",
                          "-Wall",
                          "-Wextra",
                          "-Werror",
                          arena_printf(a, "-I%s/include", lib_dir),
                          arena_printf(a, "%s/program.c", dir),
                          arena_printf(a, "%s/kernels.o", dir),
                          runtime,
                          "-lm",
                          "-lpthread",
                          "-ldl",
                          "-o",
                          to,
                          NULL};
    return run_cc(p, argv);
}

static bool host_build(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *dir,
                       const char *to)
{
    Arena *a = p->module->arena;
    const char *features = "";
    if (!kernels(p, KERNEL_object, arena_printf(a, "%s/kernels.o", dir), &features))
        return false;
    if (emit_to_file(p, features, arena_printf(a, "%s/program.c", dir)))
        return compile(p, dir, lib_dir, to);
    diag_error(p->module->diag, (Span){0}, 543, "cannot write in '%s': %s", dir, strerror(errno));
    return false;
}

bool codegen_build(const Plan *p, KernelsFn *kernels, const char *lib_dir, const char *out)
{
    Module *m = p->module;
    const char *dir = temp_dir(m->arena, NULL);
    if (!dir) {
        diag_error(m->diag, (Span){0}, 543, "cannot make a temporary directory: %s",
                   strerror(errno));
        return false;
    }
    const char *beside = arena_printf(m->arena, "%s.%ld.tmp", out, (long)getpid());
    bool ok = p->device->target == TARGET_cuda ? cuda_build(p, kernels, lib_dir, dir, beside)
                                               : host_build(p, kernels, lib_dir, dir, beside);
    if (ok && rename(beside, out)) {
        diag_error(m->diag, (Span){0}, 543, "cannot write '%s': %s", out, strerror(errno));
        ok = false;
    }
    if (!ok)
        unlink(beside);
    remove_dir(dir);
    return ok;
}
