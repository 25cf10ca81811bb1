/* abi.c - whether the runtime that a program is linked with is the one that this mgc emits for: the
 * ABI of its library and of its header, both with the number of runtime/abi.h. */
#include "codegen/link/link.h"
#include "codegen/processor.h"
#include "runtime/abi.h"

#include <ar.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The symbols of an archive: its first member, of the name "/". Its text, with the size; NULL: it
 * has none, or is no archive. */
static char *archive_symbols(Arena *a, FILE *f, size_t *size)
{
    enum { MOST = 64 << 20 };
    char magic[SARMAG];
    struct ar_hdr head;
    char number[sizeof head.ar_size + 1] = "";
    if (fread(magic, 1, SARMAG, f) != SARMAG || memcmp(magic, ARMAG, SARMAG) ||
        fread(&head, 1, sizeof head, f) != sizeof head || memcmp(head.ar_name, "/ ", 2))
        return NULL;
    memcpy(number, head.ar_size, sizeof head.ar_size);
    const long long bytes = atoll(number);
    if (bytes <= 0 || bytes > MOST)
        return NULL;
    char *text = arena_alloc(a, (size_t)bytes + 1);
    *size = fread(text, 1, (size_t)bytes, f);
    text[*size] = 0;
    return text;
}

static int library_abi(Arena *a, const char *path)
{
    static const char name[] = MG_ABI_PREFIX;
    size_t size = 0;
    FILE *f = fopen(path, "re");
    char *text = f ? archive_symbols(a, f, &size) : NULL;
    const char *found = text ? memmem(text, size, name, strlen(name)) : NULL;
    if (f)
        fclose(f);
    return found ? atoi(found + strlen(name)) : 0;
}

static int header_abi(const char *path)
{
    char line[256];
    int abi = 0;
    FILE *f = fopen(path, "re");
    while (f && !abi && fgets(line, sizeof line, f))
        if (sscanf(line, "#define MG_ABI %d", &abi) != 1)
            abi = 0;
    if (f)
        fclose(f);
    return abi;
}

static bool is_ours(const Plan *p, const char *path, int abi)
{
    if (abi == MG_ABI)
        return true;
    const char *what =
        abi ? arena_printf(p->module->arena, "is of ABI %d", abi) : "says no ABI of a runtime";
    diag_error(p->module->diag, (Span){0}, 654, "'%s' %s; this mgc makes programs for ABI %d", path,
               what, MG_ABI);
    diag_help(p->module->diag,
              "it belongs to another version of mgc: install this one whole (%s), or take MGC_HOME "
              "away if it is set",
              MGC_VERSION);
    return false;
}

bool runtime_is_ours(const Plan *p, const char *lib_dir, const char *library)
{
    Arena *a = p->module->arena;
    const char *header = arena_printf(a, "%s/include/abi.h", lib_dir);
    return is_ours(p, library, library_abi(a, library)) && is_ours(p, header, header_abi(header));
}
