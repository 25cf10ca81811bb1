/* commands.c - mgc explain, fmt, import-hf, tok and env: what is no compile. */
#include "compiler/session.h"
#include "compiler/tok.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static Exit usage(Session *s, const char *form)
{
    diag_error(s->diag, (Span){0}, 0, "the form is: mgc %s", form);
    return EXIT_usage;
}

/* Options that a command does not take are refused: only --check of fmt and those of a compile's
 * front for explain mean anything. */
static bool plain(const Options *o, bool compiles)
{
    bool front = o->define.n || o->layout || o->device;
    return !o->tokenizer && !o->json_key && !o->json_prompt && !o->eod && !o->out && !o->emit &&
           !o->plan && !o->schedule && !o->trace && !o->print_after.n && !o->from &&
           (compiles || !front);
}

static Exit command_explain(Session *s)
{
    const Options *o = s->o;
    if (o->check || o->words.n < 1 || o->words.n > 2 || !plain(o, o->words.n == 2))
        return usage(s, "explain CODE, or explain F.mg NAME [-D NAME=VALUE] [--layout NAME]");
    return o->words.n == 1 ? explain_code(s, o->words.data[0])
                           : explain_name(s, o->words.data[0], o->words.data[1]);
}

/* ---- fmt ----------------------------------------------------------------------------------- */

static Exit command_fmt(Session *s)
{
    const Options *o = s->o;
    if (o->words.n != 1 || !plain(o, false))
        return usage(s, "fmt [--check] F.mg");
    const char *path = o->words.data[0];
    uint32_t file = read_source(s, path);
    if (!file)
        return EXIT_usage;
    const Ast *ast = mg_parse(s->arena, s->names, s->diag, file);
    if (!ast)
        return EXIT_source;
    char *text;
    size_t size, had;
    FILE *memory = open_memstream(&text, &size);
    mg_fmt(ast, memory);
    fclose(memory);
    const char *old = diag_text(s->diag, file, &had);
    bool same = size == had && !memcmp(old, text, size);
    Exit status = EXIT_done;
    Output out;
    if (!same && o->check) {
        printf("%s is not in the one form; mgc fmt %s rewrites it\n", path, path);
        status = EXIT_source;
    } else if (!same && !(status = output_replaceable(s, path)) &&
               !(status = output_open(s, &out, path))) {
        fwrite(text, 1, size, out.file);
        status = output_close(s, &out, true);
    }
    free(text);
    return status;
}

/* ---- env ----------------------------------------------------------------------------------- */

static void print_blas(Arena *a)
{
    const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        char *(*config)(void) =
            library ? (char *(*)(void))dlsym(library, "openblas_get_config") : 0;
        if (!library)
            continue;
        printf("products    %s\n", config ? arena_strdup(a, config()) : names[i]);
        dlclose(library);
        return;
    }
    printf("products    OpenBLAS is not found; programs need it when they run (libopenblas0)\n");
}

static void print_home(Arena *a)
{
    static const char *const files[] = {"libmgrt.a", "include/abi.h", "devices/cpu.json"};
    const char *home = home_dir(a);
    printf("home        %s%s\n", home, getenv("MGC_HOME") ? " (MGC_HOME)" : "");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = fopen(arena_printf(a, "%s/%s", home, files[i]), "re");
        if (f)
            fclose(f);
        else
            printf("            %s is missing there\n", files[i]);
    }
}

static Exit command_env(Session *s)
{
    struct utsname u;
    Device d;
    const char *llvm = NULL, *why_not = NULL, *cc = getenv("MGC_CC");
    if (s->o->words.n || s->o->check || !plain(s->o, false))
        return usage(s, "env");
    printf("mgc         %s\n", MGC_VERSION);
    print_home(s->arena);
    if (uname(&u) == 0)
        printf("system      %s %s %s\n", u.sysname, u.release, u.machine);
    if (llvm_version(s->arena, &llvm, &why_not))
        printf("kernels     LLVM %s\n", llvm);
    else
        printf("kernels     none: %s\n", why_not);
    printf("compiler    %s%s\n", cc && *cc ? cc : "cc", cc && *cc ? " (MGC_CC)" : "");
    print_blas(s->arena);
    if (device_load(s, "cpu", &d))
        return EXIT_tool;
    printf("cpu         %d threads, %s, %.0f GFLOP/s in float32 assumed\n", d.threads,
           text_bytes(s->arena, (double)d.memory), d.flops_f32 / 1e9);
    return EXIT_done;
}

static Exit command_import(Session *s)
{
    const Options *o = s->o;
    Options rest = *o;
    rest.out = NULL;
    if (o->words.n != 1 || o->check || !plain(&rest, false))
        return usage(s, "import-hf DIR [-o F.mg]");
    return command_import_hf(s, o->words.data[0]);
}

static Exit command_tokenize(Session *s)
{
    Options rest = *s->o;
    rest.out = rest.tokenizer = rest.json_key = rest.json_prompt = rest.eod = NULL;
    return s->o->check || !plain(&rest, false)
               ? usage(s, "tok --tokenizer tokenizer.json -o OUT FILE...")
               : command_tok(s);
}

Exit command_run(Session *s)
{
    const char *c = s->o->command;
    return !strcmp(c, "explain")     ? command_explain(s)
           : !strcmp(c, "fmt")       ? command_fmt(s)
           : !strcmp(c, "tok")       ? command_tokenize(s)
           : !strcmp(c, "import-hf") ? command_import(s)
                                     : command_env(s);
}
