/* native.c - see native.h. */
#include "tests/codegen/native.h"
#include "codegen/emit/emit_c.h"
#include "codegen/llvm/llvm.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static void run(char *const *argv)
{
    pid_t pid;
    int status = -1;
    assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void make_object(Model *t, const Plan *p, const char *path)
{
    const char *features;
    if (!codegen_kernels(p, KERNEL_object, path, &features))
        fail_msg("no kernels: %s", model_messages(t));
    assert_int_equal(codegen_narrow_loops, 0);
}

/* The whole program, compiled as it says. */
static void make_object_of_c(Model *t, const Plan *p, const char *path)
{
    const char *source = arena_printf(t->a, "%s.c", path);
    FILE *f = fopen(source, "w");
    assert_non_null(f);
    t->m->source = t->m->source ? t->m->source : "a test";
    codegen_emit_c(p, "", true, f);
    assert_int_equal(fclose(f), 0);
    run((char *[]){"cc", "-std=c17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror",
                   "-fPIC", "-I" RUNTIME, "-c", (char *)(uintptr_t)source, "-o",
                   (char *)(uintptr_t)path, NULL});
    unlink(source);
}

static void open_made(Native *n, Model *t, const Plan *p,
                      void make(Model *t, const Plan *p, const char *path))
{
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(t->a, "%s/mgc-kernels-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    char *object = arena_printf(t->a, "%s/k.o", dir), *library = arena_printf(t->a, "%s/k.so", dir);
    make(t, p, object);
    /* Nothing here speaks text: what does needs libraries that are for executables, and do not
     * move.
     */
    run((char *[]){"cc", "-shared", "-Wl,-z,noexecstack,--defsym=mg_speech=0", "-o", library,
                   object, MGRT, "-lmvec", "-lm", NULL});
    n->library = dlopen(library, RTLD_LAZY | RTLD_LOCAL); /* a program's calls are not resolved */
    unlink(object);
    unlink(library);
    rmdir(dir);
    if (!n->library)
        fail_msg("%s", dlerror());
    n->kernel = NEW_ARRAY(t->a, NativeKernel *, p->kernels.n);
    for (size_t k = 0; k < p->kernels.n; k++) {
        void *f = dlsym(n->library, name_str(t->m->names, p->kernels.data[k].name));
        assert_non_null(f);
        n->kernel[k] = (NativeKernel *)(uintptr_t)f;
    }
}

void native_open(Native *n, Model *t, const Plan *p)
{
    open_made(n, t, p, make_object);
}

void native_open_c(Native *n, Model *t, const Plan *p)
{
    open_made(n, t, p, make_object_of_c);
}

void native_close(Native *n)
{
    dlclose(n->library);
}
