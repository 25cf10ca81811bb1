/* error.c - see error.h. */
#include "text/error.h"

bool text_error(TextError *e, Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *e = (TextError){.text = arena_vprintf(a, fmt, ap)};
    va_end(ap);
    return false;
}
