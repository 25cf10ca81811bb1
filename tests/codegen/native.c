/* native.c - see native.h. */
#include "tests/codegen/native.h"
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

static void link_library(const char *library, const char *object)
{
    char *argv[] = {"cc",
                    "-shared",
                    "-Wl,-z,noexecstack",
                    "-o",
                    (char *)(uintptr_t)library,
                    (char *)(uintptr_t)object,
                    "-lmvec",
                    "-lm",
                    NULL};
    pid_t pid;
    int status = -1;
    assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

void native_open(Native *n, Model *t, const Plan *p)
{
    const char *tmp = getenv("TMPDIR"), *features;
    char *dir = arena_printf(t->a, "%s/mgc-kernels-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    const char *object = arena_printf(t->a, "%s/k.o", dir);
    const char *library = arena_printf(t->a, "%s/k.so", dir);
    if (!codegen_kernels(p, KERNEL_object, object, &features))
        fail_msg("no kernels: %s", model_messages(t));
    assert_int_equal(codegen_narrow_loops, 0);
    link_library(library, object);
    n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
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

void native_close(Native *n)
{
    dlclose(n->library);
}
