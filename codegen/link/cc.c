/* cc.c - runs the C compiler, and says what is missing where it makes no program. */
#include "codegen/link/link.h"
#include "codegen/processor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Whether it makes an executable of the smallest program with headers of the C library. */
static bool makes_programs(const Plan *p, const char *cc)
{
    static const char text[] =
        "#include <stdint.h>\n#include <math.h>\n#include <stdio.h>\nint main(void)\n{\n"
        "    return printf(\"%g\\n\", sqrt((double)INT64_C(4))) < 0;\n}\n";
    Arena *a = p->module->arena;
    const char *dir = temp_dir(a, NULL);
    if (!dir)
        return true; /* nothing is known */
    const char *source = arena_printf(a, "%s/a.c", dir);
    const char *argv[] = {cc, source, "-o", arena_printf(a, "%s/a", dir), "-lm", NULL};
    FILE *f = fopen(source, "we");
    const bool written = f && fputs(text, f) >= 0 && fclose(f) == 0;
    const bool good = !written || run_program(argv, true) == 0;
    remove_dir(dir);
    return good;
}

bool run_cc(const Plan *p, const char *const *argv)
{
    Diag *d = p->module->diag;
    const int status = run_program(argv, false);
    if (status == 0)
        return true;
    if (status < 0)
        diag_error(d, (Span){0}, 598,
                   "no C compiler: '%s' cannot be run: %s. mgc emits C, which one has to compile",
                   argv[0], strerror(errno));
    else if (!makes_programs(p, argv[0]))
        diag_error(d, (Span){0}, 599,
                   "'%s' makes no program of any C: it is no C compiler, or lacks the headers of "
                   "the C library, or a linker",
                   argv[0]);
    else
        diag_error(d, (Span){0}, 542, "'%s' failed with status %d", argv[0], status);
    diag_help(d, "%s", processor_cc_help(p));
    return false;
}
