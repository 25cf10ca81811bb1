/* llvm.c - loads the part of mgc that makes kernels; see llvm_module.h. The dynamic linker counts
 * and keeps what is loaded, so nothing is remembered here. */
#include "compiler/llvm_module.h"
#include "compiler/session.h"

#include <dlfcn.h>
#include <string.h>

static const LlvmModuleTable *load(Arena *a, const char **why_not)
{
    const char *path = arena_printf(a, "%s/%s", home_dir(a), LLVM_MODULE_FILE);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const LlvmModuleTable *t = library ? dlsym(library, LLVM_MODULE_SYMBOL) : NULL;
    if (!t)
        *why_not = arena_strdup(a, dlerror());
    else if (strcmp(t->build, MGC_VERSION)) {
        *why_not = arena_printf(a, "%s is of mgc %s", path, t->build);
        t = NULL;
    }
    return t;
}

static const LlvmModuleTable *load_for(const Plan *p)
{
    const char *why_not = NULL;
    const LlvmModuleTable *t = load(p->module->arena, &why_not);
    if (!t)
        diag_error(p->module->diag, (Span){0}, 564, "kernels cannot be made: %s", why_not);
    return t;
}

bool llvm_kernels(const Plan *p, KernelOutput form, const char *path, const char **features)
{
    const LlvmModuleTable *t = load_for(p);
    return t && t->kernels(p, form, path, features);
}

bool llvm_features(const Plan *p, const char **features)
{
    const LlvmModuleTable *t = load_for(p);
    if (t)
        *features = t->features(p);
    return t != NULL;
}

bool llvm_version(Arena *a, const char **version, const char **why_not)
{
    const LlvmModuleTable *t = load(a, why_not);
    if (t)
        *version = t->llvm;
    return t != NULL;
}
