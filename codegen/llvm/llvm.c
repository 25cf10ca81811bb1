/* llvm.c - all generated kernels of a plan, for one processor (codegen/processor.h), in one file.
 */
#include "codegen/llvm/llvm_gen.h"
#include "codegen/llvm/llvm.h"
#include "codegen/processor.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_all(const char *have, const char *needs)
{
    for (const char *p = needs; *p;) {
        size_t n = strcspn(p, ",");
        bool found = false;
        for (const char *h = have; (h = strstr(h, "+")) != NULL; h++)
            if (strncmp(h, p, n) == 0 && (h[n] == ',' || !h[n]))
                found = true;
        if (!found)
            return false;
        p += n + (p[n] == ',');
    }
    return true;
}

static Processor host_processor(Arena *a)
{
    char *have = LLVMGetHostCPUFeatures(), *name = LLVMGetHostCPUName();
    Processor host = {"", processor_host_arch(), arena_strdup(a, name), 0, "", NULL};
    for (int i = PROCESSORS; i-- > 0;)
        if (!strcmp(processors[i].arch, host.arch) && has_all(have, processors[i].needs))
            host = processors[i];
    LLVMDisposeMessage(have);
    LLVMDisposeMessage(name);
    return host;
}

static Processor processor_for(const Plan *p)
{
    const Processor *named = p->cpu ? processor_find(p->cpu) : NULL;
    return named ? *named : host_processor(p->module->arena);
}

const char *codegen_features(const Plan *p)
{
    return processor_for(p).needs;
}

/* Loads of elements with gaps between them are not widened together. Such a load would reach beyond
 * the last element. The last vector of a loop would therefore be left to scalars, in another order
 * of a sum. */
static void set_options(void)
{
    static bool done;
    static const char *const argv[] = {"mgc", "-enable-interleaved-mem-accesses=false"};
    if (!done)
        LLVMParseCommandLineOptions(2, argv, NULL);
    done = true;
}

/* Counts loops that were not widened although the code asked for it: their sums have the wrong
 * order. */
static void count_narrow(LLVMDiagnosticInfoRef d, void *ctx)
{
    if (LLVMGetDiagInfoSeverity(d) != LLVMDSWarning)
        return;
    char *text = LLVMGetDiagInfoDescription(d);
    if (strstr(text, "loop not vectorized"))
        ++*(int *)ctx;
    LLVMDisposeMessage(text);
}

/* The architectures of processor.h alone: a library that is linked from LLVM's archives has no
 * others in it. */
static void initialise(bool foreign)
{
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    if (!foreign)
        return;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
}

static LLVMTargetMachineRef target_machine(const Plan *p, const Processor *of, char **error)
{
    const char *foreign = processor_foreign(p);
    initialise(foreign);
    char *triple = foreign
                       ? LLVMCreateMessage(arena_printf(p->module->arena, "%s-linux-gnu", foreign))
                       : LLVMGetDefaultTargetTriple();
    LLVMTargetRef target;
    LLVMTargetMachineRef tm = NULL;
    if (!LLVMGetTargetFromTriple(triple, &target, error))
        tm = LLVMCreateTargetMachine(target, triple, of->llvm, "", LLVMCodeGenLevelDefault,
                                     LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMDisposeMessage(triple);
    return tm;
}

static LlvmModule module_begin(const Module *m, LLVMTargetMachineRef tm, const Processor *of)
{
    LlvmModule l = {.m = m, .c = LLVMContextCreate(), .arena = arena_new()};
    l.mod = LLVMModuleCreateWithNameInContext("kernels", l.c);
    l.b = LLVMCreateBuilderInContext(l.c);
    l.i1 = LLVMInt1TypeInContext(l.c);
    l.i8 = LLVMInt8TypeInContext(l.c);
    l.i16 = LLVMInt16TypeInContext(l.c);
    l.i32 = LLVMInt32TypeInContext(l.c);
    l.i64 = LLVMInt64TypeInContext(l.c);
    l.f16 = LLVMHalfTypeInContext(l.c);
    l.f32 = LLVMFloatTypeInContext(l.c);
    l.f64 = LLVMDoubleTypeInContext(l.c);
    l.ptr = LLVMPointerTypeInContext(l.c, 0);
    l.vector_bits = of->vector_bits;
    l.routines = of->routines;
    char *triple = LLVMGetTargetMachineTriple(tm);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetTarget(l.mod, triple);
    LLVMSetModuleDataLayout(l.mod, layout);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
    return l;
}

static const char *optimise(LlvmModule *l, LLVMTargetMachineRef tm)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(o, 1);
    LLVMPassBuilderOptionsSetLoopInterleaving(o, 1);
    LLVMPassBuilderOptionsSetSLPVectorization(o, 0);
    LLVMErrorRef e = LLVMRunPasses(l->mod, "default<O2>", tm, o);
    LLVMDisposePassBuilderOptions(o);
    if (!e)
        return NULL;
    char *message = LLVMGetErrorMessage(e);
    const char *kept = arena_strdup(l->m->arena, message);
    LLVMDisposeErrorMessage(message);
    return kept;
}

static const char *write_out(LlvmModule *l, LLVMTargetMachineRef tm, KernelOutput form,
                             const char *path)
{
    char *error = NULL;
    int failed = form == KERNEL_llvm_ir
                     ? LLVMPrintModuleToFile(l->mod, path, &error)
                     : LLVMTargetMachineEmitToFile(
                           tm, l->mod, path,
                           form == KERNEL_object ? LLVMObjectFile : LLVMAssemblyFile, &error);
    const char *kept = failed ? arena_strdup(l->m->arena, error ? error : "cannot write") : NULL;
    LLVMDisposeMessage(error);
    return kept;
}

int codegen_narrow_loops;

bool codegen_kernels(const Plan *p, KernelOutput form, const char *path, const char **features)
{
    Module *m = p->module;
    const Processor of = processor_for(p);
    char *no_target = NULL, *invalid = NULL;
    LLVMTargetMachineRef tm = target_machine(p, &of, &no_target);
    if (!tm) {
        diag_error(m->diag, (Span){0}, 540, "LLVM has no code generator for %s: %s", of.arch,
                   no_target ? no_target : "unknown target");
        LLVMDisposeMessage(no_target);
        return false;
    }
    *features = of.needs;
    LlvmModule l = module_begin(m, tm, &of);
    set_options();
    codegen_narrow_loops = 0;
    LLVMContextSetDiagnosticHandler(l.c, count_narrow, &codegen_narrow_loops);
    for (size_t i = 0; i < p->kernels.n; i++)
        if (kernel_on_processor(p, &p->kernels.data[i]))
            llvm_kernel(&l, &p->kernels.data[i]);
    llvm_keep_variants(&l);
    const char *wrong = NULL;
    if (LLVMVerifyModule(l.mod, LLVMReturnStatusAction, &invalid))
        wrong = arena_printf(m->arena, "generated kernels are not valid LLVM IR: %s", invalid);
    LLVMDisposeMessage(invalid);
    if (!wrong)
        wrong = optimise(&l, tm);
    if (!wrong)
        wrong = write_out(&l, tm, form, path);
    if (wrong)
        diag_error(m->diag, (Span){0}, 541, "kernels: %s", wrong);
    LLVMDisposeBuilder(l.b);
    LLVMDisposeModule(l.mod);
    LLVMContextDispose(l.c);
    LLVMDisposeTargetMachine(tm);
    arena_free(l.arena);
    return !wrong;
}
