/* dump.c - writes the outputs of actions to files, for --dump: to compare them with another
 * program, or with this program under another layout.
 *
 * OUT/dump/rank-R/NUMBER-NAME.DTYPE has the outputs of one action in a rank's first step, one run
 * of the action after another (iterations of loops, in the order in which they run), and for each
 * run its outputs in their order. Outputs that are not dense come in memory order. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/run.h"

static bool is_wanted(const mg_run *r, int action)
{
    const rt_list *names = &r->options->dump;
    for (int i = 0; i < names->n; i++)
        if (fnmatch(names->item[i], r->program->actions[action].name, 0) == 0)
            return true;
    return false;
}

/* Ends the program if a pattern matches no action. */
static void check_names(const mg_run *r)
{
    const mg_program *p = r->program;
    for (int i = 0; i < r->options->dump.n; i++) {
        bool known = false;
        for (int k = 0; k < p->nactions && !known; k++)
            known = fnmatch(r->options->dump.item[i], p->actions[k].name, 0) == 0;
        if (!known)
            rt_die(RT_USAGE,
                   "--dump %s: no action of %s has such a name; mgc --schedule lists them",
                   r->options->dump.item[i], p->name);
    }
}

void rt_dump_open(const mg_run *r)
{
    if (!r->options->dump.n)
        return;
    check_names(r);
    int out = rt_folder_open(r->options->out);
    if (out < 0 || !rt_remove_at(out, "dump", 1) || mkdirat(out, "dump", 0777))
        rt_die(RT_IO, "%s/dump: %s", r->options->out, strerror(errno));
    close(out);
}

/* Replaces the characters that cannot be part of a path component. */
static void make_plain(char *name)
{
    for (; *name; name++)
        if (*name == '/' || *name < ' ')
            *name = '_';
}

static FILE *open_file(const mg_run *r, int action, mg_dtype t)
{
    static const char *const types[] = {"",         "f32",       "f64",  "bf16", "f16",
                                        "i32",      "i64",       "bool", "e4m3", "e5m2",
                                        "dynamic8", "udynamic8", "e8m0", "u8"};
    char *folder = rt_printf("rank-%d", r->rank);
    int out = rt_folder_open(r->options->out), dump = -1, rank = -1, fd = -1;
    char *name = rt_printf("%04d-%s.%s", action, r->program->actions[action].name, types[t]);
    make_plain(name);
    FILE *f = NULL;
    if (out >= 0 && (dump = rt_folder_inside(out, "dump")) >= 0 &&
        (mkdirat(dump, folder, 0777) == 0 || errno == EEXIST) &&
        (rank = rt_folder_inside(dump, folder)) >= 0 &&
        (fd = rt_file_open(rank, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW)) >= 0)
        f = fdopen(fd, "ab");
    if (!f)
        rt_die(RT_IO, "%s/dump/%s/%s: %s", r->options->out, folder, name, rt_file_error());
    close(rank);
    close(dump);
    close(out);
    free(folder);
    free(name);
    return f;
}

void rt_dump(mg_run *r, int action, const void *p, int64_t n, mg_dtype t)
{
    enum { PIECE = 1 << 16 };
    char piece[PIECE];
    int64_t offset = (const char *)p - r->arena, bytes = n * mg_dtype_bytes(t);
    if (!is_wanted(r, action))
        return;
    FILE *f = open_file(r, action, t);
    bool good = true;
    for (int64_t at = 0, k; at < bytes; at += k) {
        k = bytes - at < PIECE ? bytes - at : PIECE;
        rt_get(r, offset + at, piece, k);
        good &= fwrite(piece, 1, (size_t)k, f) == (size_t)k;
    }
    if (fclose(f) || !good)
        rt_die(RT_IO, "--dump: %s", strerror(errno));
}
