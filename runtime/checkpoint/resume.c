/* resume.c - finds, checks and reads a checkpoint; nothing in it is trusted before it is
 * checked. */
#include "runtime/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/elastic/pulse.h"

/* ---- state.json --------------------------------------------------------------------------- */

static char *read_manifest(int at, const char *dir, rt_manifest *m)
{
    char *path = rt_printf("%s/" RT_STATE_FILE, dir), *text = rt_alloc(RT_MANIFEST_MOST + 1, 1);
    int fd = rt_file_open(at, RT_STATE_FILE, O_RDONLY | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, text, RT_MANIFEST_MOST);
    char *why = n < 0 ? rt_printf("%s: %s", path, rt_file_error())
                      : rt_manifest_parse(path, text, (size_t)n, m);
    if (fd >= 0)
        close(fd);
    free(path);
    free(text);
    return why;
}

/* ---- the tensor files --------------------------------------------------------------------- */

static char *check_seal(const char *path, int fd, const rt_file_seal *s)
{
    struct stat st;
    if (fstat(fd, &st))
        return rt_printf("%s: %s", path, strerror(errno));
    if (st.st_size != s->bytes)
        return rt_printf("%s has %" PRId64 " bytes; it was written with %" PRId64, path,
                         (int64_t)st.st_size, s->bytes);
    char *buffer = rt_alloc(RT_CHUNK, 1);
    uint32_t crc = 0;
    bool good = true;
    for (int64_t at = 0; good && at < s->bytes; at += RT_CHUNK) {
        size_t n = (size_t)(s->bytes - at < RT_CHUNK ? s->bytes - at : RT_CHUNK);
        good = rt_read_at(fd, buffer, n, at);
        crc = rt_crc32c(crc, buffer, n);
    }
    free(buffer);
    if (!good)
        return rt_printf("%s cannot be read: %s", path, strerror(errno));
    if (crc != s->crc)
        return rt_printf("%s is damaged: its CRC-32C is %08" PRIx32
                         "; it was written with %08" PRIx32,
                         path, crc, s->crc);
    return NULL;
}

static void print_shape(FILE *f, const char *dtype, int rank, const int64_t *shape)
{
    fprintf(f, "%s[", dtype);
    for (int i = 0; i < rank; i++)
        fprintf(f, "%s%" PRId64, i ? ", " : "", shape[i]);
    fputc(']', f);
}

static bool agrees(const rt_external *x, const rt_st_tensor *t)
{
    return x->form->rank == t->rank &&
           strcmp(t->dtype, rt_dtype_name(x->form->tensor->dtype)) == 0 &&
           memcmp(x->form->shape, t->shape, (size_t)x->form->rank * sizeof *x->form->shape) == 0;
}

static void print_surplus(FILE *f, const char *file, const char *name)
{
    char *text = rt_shown(name);
    fprintf(f, "\n  %s: %s is not in this program", file, text);
    free(text);
}

/* Prints a line for each tensor that is missing, unexpected or of another shape. */
static void print_differences(FILE *f, const rt_catalog *c, const rt_st *st, const char *file)
{
    for (int i = 0; i < c->n; i += c->item[i].parts) {
        const rt_external *x = &c->item[i];
        const rt_st_tensor *t = rt_st_find(st, x->name);
        if (t && agrees(x, t))
            continue;
        char *where = rt_whole_where(x);
        fprintf(f, "\n  %s: %s %s: this program has ", file, x->name, t ? "differs" : "is missing");
        print_shape(f, rt_dtype_name(x->form->tensor->dtype), x->form->rank, x->form->shape);
        fprintf(f, " (%s)", where);
        free(where);
        if (t) {
            fputs(", the checkpoint ", f);
            print_shape(f, t->dtype, t->rank, t->shape);
        }
    }
    for (size_t i = 0; i < st->n; i++) {
        rt_external key = {.name = st->tensor[i].name};
        int low = 0, high = c->n;
        while (low < high) {
            int middle = (low + high) / 2;
            if (strcmp(c->item[middle].name, key.name) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == c->n || strcmp(c->item[low].name, key.name))
            print_surplus(f, file, key.name);
    }
}

static char *check_file(int at, const char *dir, const char *file, const rt_file_seal *seal,
                        const rt_catalog *c, FILE *differences)
{
    char *path = rt_printf("%s/%s", dir, file);
    int fd = rt_file_open(at, file, O_RDONLY | O_NOFOLLOW);
    rt_st st = {0};
    char *why = fd < 0 ? rt_printf("%s: %s", path, rt_file_error()) : check_seal(path, fd, seal);
    if (!why)
        why = rt_st_read(path, fd, &st);
    if (!why)
        print_differences(differences, c, &st, file);
    rt_st_free(&st);
    if (fd >= 0)
        close(fd);
    free(path);
    return why;
}

/* Nothing here reads it, but a checkpoint is valid only as a whole. */
static char *check_config(int at, const char *dir, const char *name, const rt_file_seal *seal)
{
    char *path = rt_printf("%s/%s", dir, name);
    int fd = rt_file_open(at, name, O_RDONLY | O_NOFOLLOW);
    char *why = fd < 0 ? rt_printf("%s: %s", path, rt_file_error()) : check_seal(path, fd, seal);
    if (fd >= 0)
        close(fd);
    free(path);
    return why;
}

char *rt_checkpoint_verify(const mg_run *r, const char *dir, rt_state *state)
{
    rt_manifest m = {.program = r->program};
    int at = rt_folder_open(dir);
    char *list = NULL, *why = at < 0 ? rt_printf("%s: %s", dir, strerror(errno)) : NULL;
    size_t size;
    FILE *f = open_memstream(&list, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory to check %s", dir);
    if (!why)
        why = read_manifest(at, dir, &m);
    if (!why)
        why = check_file(at, dir, rt_checkpoint_tensors(r->program), &m.model, &r->saved, f);
    if (!why)
        why = check_file(at, dir, RT_SLOTS_FILE, &m.slots, &r->slots, f);
    if (!why && m.config.given)
        why = check_config(at, dir, rt_config_name(r->program), &m.config);
    fclose(f);
    if (at >= 0)
        close(at);
    if (!why && m.fingerprint != r->program->fingerprint)
        why = rt_printf("%s is of another model or optimizer: fingerprint %016" PRIx64
                        ", this program's is %016" PRIx64 "%s",
                        dir, m.fingerprint, r->program->fingerprint, list);
    else if (!why && *list)
        why = rt_printf("%s does not fit this program:%s", dir, list);
    free(list);
    *state = m.state;
    return why;
}

/* ---- finding and loading ------------------------------------------------------------------ */

int64_t rt_resume_saved(const mg_run *r)
{
    int64_t *step = rt_checkpoint_list(r->options->out);
    const int64_t newest = step[0];
    free(step);
    return newest;
}

/* A restart by a supervisor: an in-memory checkpoint of a later step than `after`. */
static bool find_kept(mg_run *r, int64_t after, int64_t until, rt_state *state)
{
    r->kept = rt_kept_find(r, after, until);
    if (r->kept)
        *state = *rt_kept_state(r->kept);
    return r->kept;
}

/* The step up to which checkpoints are good, behind an end for wrong bits: of the last look for
 * them. If there is none from before it any counts, as each was voted on. */
static int64_t good_until(const mg_run *r, const int64_t *step)
{
    const int64_t until = r->pulse ? r->pulse->until : INT64_MAX;
    int i = 0;
    while (step[i] > until)
        i++;
    if (step[0] < 0 || step[i] >= 0)
        return until;
    rt_warn("no checkpoint is of step %" PRId64
            " or before, behind which no bit was wrong: the run "
            "goes on from the newest, of step %" PRId64 ", which replicas voted on",
            until, step[0]);
    return INT64_MAX;
}

char *rt_resume_find(mg_run *r, rt_state *state)
{
    if (strcmp(r->options->resume, "auto")) {
        char *why = rt_checkpoint_verify(r, r->options->resume, state);
        if (why)
            rt_die(RT_BAD_DATA, "--resume=%s: %s", r->options->resume, why);
        return rt_printf("%s", r->options->resume);
    }
    int64_t *step = rt_checkpoint_list(r->options->out);
    const int64_t until = good_until(r, step);
    int tried, first = 0;
    char *dir = NULL;
    while (step[first] > until)
        first++;
    /* One on the disk is looked for alone, or read in full, only if there is no later one. */
    if (find_kept(r, step[first], until, state)) {
        free(step);
        return rt_printf("memory, step %" PRId64, state->step);
    }
    for (tried = first; step[tried] >= 0 && !dir; tried++) {
        dir = rt_printf("%s/ckpt/%s", r->options->out, rt_checkpoint_name(step[tried]).text);
        char *why = rt_checkpoint_verify(r, dir, state);
        if (!why)
            continue;
        rt_warn("passed over: %s", why);
        free(why);
        free(dir);
        dir = NULL;
    }
    const int64_t found = dir ? state->step : -1;
    if (tried != first + (found >= 0) &&
        find_kept(r, found, until, state)) { /* the newest is damaged */
        free(dir);
        dir = rt_printf("memory, step %" PRId64, state->step);
    }
    free(step);
    if (!dir && tried > first)
        rt_die(RT_BAD_DATA,
               "--resume: none of the %d checkpoints in %s/ckpt can be used; without --resume "
               "the run starts afresh and they are set aside",
               tried, r->options->out);
    return dir;
}

typedef struct scattering {
    const rt_external *x;
    char *const *stored;
    int64_t begin;
    const char *in;
} scattering;

static void scatter(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const scattering *s = ctx;
    int64_t size = mg_dtype_bytes(s->x->form->tensor->dtype);
    (void)scratch;
    rt_whole_put(s->x, s->stored, s->begin + begin, end - begin, s->in + begin * size);
}

/* A file in memory of the size of file i of the in-memory checkpoint, with its header; -1: no
 * memory. */
static int header_of(rt_kept *k, int i)
{
    const int fd = memfd_create("mgc header", MFD_CLOEXEC);
    uint64_t size = 0;
    bool good = fd >= 0 && ftruncate(fd, (off_t)rt_kept_file(k, i)) == 0;
    rt_kept_read(k, i, 0, sizeof size, &size);
    char *header = rt_alloc((size_t)size + sizeof size, 1);
    rt_kept_read(k, i, 0, (int64_t)(size + sizeof size), header);
    good =
        good && pwrite(fd, header, (size_t)size + sizeof size, 0) == (ssize_t)(size + sizeof size);
    free(header);
    if (!good && fd >= 0)
        close(fd);
    return good ? fd : -1;
}

static bool read_file(const mg_run *r, int fd, const rt_catalog *c, void *to, int64_t bytes,
                      int64_t at)
{
    if (!r->kept)
        return rt_read_at(fd, to, (size_t)bytes, at);
    rt_kept_read(r->kept, c == &r->slots, at, bytes, to);
    return true;
}

static void load_file(mg_run *r, int at_dir, const char *dir, const char *file, const rt_catalog *c)
{
    char *path = rt_printf("%s/%s", dir, file), *buffer = rt_alloc(RT_CHUNK, 1);
    int fd = r->kept ? header_of(r->kept, c == &r->slots)
                     : rt_file_open(at_dir, file, O_RDONLY | O_NOFOLLOW);
    rt_st st = {0};
    char *why = fd < 0 ? rt_printf("%s: %s", path, rt_file_error()) : rt_st_read(path, fd, &st);
    if (why)
        rt_die(RT_BAD_DATA, "%s", why);
    for (int i = 0; i < c->n; i += c->item[i].parts) {
        const rt_external *x = &c->item[i];
        const rt_st_tensor *t = rt_st_find(&st, x->name);
        int64_t size = mg_dtype_bytes(x->form->tensor->dtype), chunk = RT_CHUNK / size;
        if (!t || !agrees(x, t))
            rt_die(RT_BAD_DATA, "%s: %s changed while it was read", path, x->name);
        char **stored = rt_whole_open(r, x, false);
        for (int64_t at = 0; at < x->form->whole; at += chunk) {
            int64_t n = x->form->whole - at < chunk ? x->form->whole - at : chunk;
            if (!read_file(r, fd, c, buffer, n * size, (int64_t)(st.data + t->begin) + at * size))
                rt_die(RT_IO, "%s cannot be read: %s", path, strerror(errno));
            scattering s = {x, stored, at, buffer};
            rt_pool_run(r->pool, n, 16384, scatter, &s);
        }
        rt_whole_close(r, x, stored, true);
    }
    rt_st_free(&st);
    close(fd);
    free(buffer);
    free(path);
}

void rt_resume_load(mg_run *r, const char *dir)
{
    int at = r->kept ? -1 : rt_folder_open(dir);
    if (at < 0 && !r->kept)
        rt_die(RT_IO, "%s: %s", dir, strerror(errno));
    load_file(r, at, dir, rt_checkpoint_tensors(r->program), &r->saved);
    load_file(r, at, dir, RT_SLOTS_FILE, &r->slots);
    if (at >= 0)
        close(at);
}

/* ---- setting aside ------------------------------------------------------------------------ */

/* Makes previous-N in the folder `out`, with the first free N; returns its name. */
static char *make_previous(int out, const char *path)
{
    for (int n = 1;; n++) {
        char *name = rt_printf("previous-%d", n);
        if (mkdirat(out, name, 0777) == 0)
            return name;
        if (errno != EEXIST)
            rt_die(RT_IO, "%s/%s: %s", path, name, strerror(errno));
        free(name);
    }
}

static void move_aside(int from, int to, const char *name, const mg_run *r, bool may_lack)
{
    if (renameat(from, name, to, name) && !(may_lack && errno == ENOENT))
        rt_die(RT_IO, "%s of %s cannot be set aside: %s", name, r->options->out, strerror(errno));
}

void rt_resume_set_aside(const mg_run *r, int64_t after)
{
    static const char *const log[] = {"metrics.jsonl", "loss.svg", "README.md", "trace.json"};
    const char *out = r->options->out;
    int64_t *step = rt_checkpoint_list(out);
    if (step[0] <= after) {
        free(step);
        return;
    }
    int from = rt_folder_open(out), ckpt = rt_checkpoints_open(out), to = -1, into = -1;
    char *previous = make_previous(from, out);
    if ((to = rt_folder_inside(from, previous)) < 0 || mkdirat(to, "ckpt", 0777) ||
        (into = rt_folder_inside(to, "ckpt")) < 0)
        rt_die(RT_IO, "%s/%s/ckpt: %s", out, previous, strerror(errno));
    for (int i = 0; step[i] > after; i++)
        move_aside(ckpt, into, rt_checkpoint_name(step[i]).text, r, false);
    for (int i = 0; after < 0 && i < 3; i++)
        move_aside(from, to, log[i], r, true);
    if (after < 0)
        rt_note("%s held a run of %" PRId64 " steps: moved to %s/%s", out, step[0], out, previous);
    else
        rt_note("checkpoints after step %" PRId64 " moved to %s/%s", after, out, previous);
    close(from);
    close(ckpt);
    close(to);
    close(into);
    free(previous);
    free(step);
}
