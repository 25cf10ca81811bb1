/* broken.c - the end of a process in which mgc is wrong, where the code that sees it cannot go on.
 */
#include "ir/ir.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void ir_broken(const Module *m, const Ins *at, const char *fmt, ...)
{
    va_list ap;
    fputs("mgc: internal error: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    if (at) {
        ir_print_ins(m, at, stderr);
        fputc('\n', stderr);
    }
    exit(70);
}
