/* Generated CUDA kernels, run by the shim, against the reference interpreter: compare.h. The second
 * way of running them is another order of blocks and warps. */
#include "codegen/cuda/cuda.h"
#include "tests/codegen/compare.h"
#include "tests/cuda_shim/shim.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static void compile(const char *source, const char *library)
{
    char *argv[] = {SHIM_COMPILER, (char *)(uintptr_t)source, "-o", (char *)(uintptr_t)library,
                    NULL};
    pid_t pid;
    int status = -1;
    assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void open_cuda(Comparison *c, Model *t, const Plan *p)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(t->a, "%s/mgc-cuda-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    const char *source = arena_printf(t->a, "%s/k.cc", dir);
    const char *library = arena_printf(t->a, "%s/k.so", dir);
    FILE *f = fopen(source, "w");
    assert_non_null(f);
    codegen_cuda_kernels(p, "device.h", f);
    assert_int_equal(fclose(f), 0);
    compile(source, library);
    c->kernels = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!c->kernels)
        fail_msg("%s", dlerror());
    unlink(source);
    unlink(library);
    rmdir(dir);
}

static void close_cuda(Comparison *c)
{
    shim_forget();
    dlclose(c->kernels);
}

static void run_cuda(Comparison *c, const Plan *p, const Action *act, void *const *at, int way)
{
    const Kernel *k = &p->kernels.data[act->kernel];
    const char *name = name_str(p->module->names, k->name);
    CudaLaunch l = cuda_launch(p, k);
    int operand[MAX_OPERANDS], n = cuda_pointers(k, operand);
    void *pointer[MAX_OPERANDS], *args[MAX_OPERANDS];
    for (int i = 0; i < n; i++) {
        pointer[i] = at[operand[i]];
        args[i] = &pointer[i];
    }
    const ShimKernel *kernel = shim_find(name);
    assert_non_null(kernel);
    ShimDim grid = {(unsigned)l.grid_x, (unsigned)l.grid_y, 1}, block = {(unsigned)l.block, 1, 1};
    const char *wrong = shim_launch(kernel, grid, block, 0, args,
                                    (uint64_t)draw_int(&c->rng, 1 << 20) + (uint64_t)way);
    if (wrong)
        fail_msg("%s: %s", name, wrong);
}

static const Comparison like = {
    .halves = true, .open = open_cuda, .run = run_cuda, .close = close_cuda};

int main(void)
{
    return compare_all(&like, PROGRAMS);
}
