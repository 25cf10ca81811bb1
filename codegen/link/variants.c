/* variants.c - one executable of several: programs of one model for several numbers of ranks. The
 * runtime finds them at its end (runtime/variants.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/link/link.h"
#include "runtime/variants.h"

_Static_assert((int)VARIANTS_MAX == (int)MG_VARIANTS_MAX, "as many as the runtime reads");

/* Appends a file; false: errno. */
static bool append(FILE *out, const char *path, mg_variant *v)
{
    char chunk[1 << 16];
    FILE *in = fopen(path, "re");
    size_t n;
    v->offset = ftell(out);
    v->sum = MG_VARIANT_SUM;
    while (in && (n = fread(chunk, 1, sizeof chunk, in)) > 0) {
        v->sum = mg_variant_sum(v->sum, chunk, n);
        v->bytes += (int64_t)n;
        if (fwrite(chunk, 1, n, out) != n)
            break;
    }
    const bool good = in && feof(in) && !ferror(in) && !ferror(out);
    if (in)
        fclose(in);
    return good;
}

static bool append_list(FILE *out, const mg_variant *v, int n)
{
    const size_t bytes = (size_t)n * sizeof *v;
    mg_variants_end end = {.n = n, .sum = mg_variant_sum(MG_VARIANT_SUM, v, bytes)};
    memcpy(end.magic, MG_VARIANTS_MAGIC, sizeof end.magic);
    return fwrite(v, 1, bytes, out) == bytes && fwrite(&end, 1, sizeof end, out) == sizeof end;
}

bool codegen_join(Diag *d, Arena *a, const Variant *of, int n, const char *out)
{
    const char *beside = arena_printf(a, "%s.%ld.tmp", out, (long)getpid());
    mg_variant list[MG_VARIANTS_MAX] = {0};
    struct stat st;
    FILE *f = fopen(beside, "wxe");
    bool good = f && stat(of[0].path, &st) == 0;
    for (int i = 0; good && i < n; i++) {
        list[i].ranks = of[i].ranks;
        good = append(f, of[i].path, &list[i]);
    }
    good = good && append_list(f, list, n) && fchmod(fileno(f), st.st_mode & 0777) == 0;
    if (f && fclose(f))
        good = false;
    if (good && rename(beside, out) == 0)
        return true;
    diag_error(d, (Span){0}, 543, "cannot write '%s': %s", out, strerror(errno));
    unlink(beside);
    return false;
}
