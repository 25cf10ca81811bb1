/* llvm.c - loads the part of mgc that makes kernels; see llvm_module.h. */
#include "compiler/llvm_module.h"
#include "compiler/session.h"

static const LlvmModuleTable *load(Arena *a, const char **why_not)
{
    return library_table(a, LLVM_MODULE_FILE, LLVM_MODULE_SYMBOL, why_not);
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
