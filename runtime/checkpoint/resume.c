/* resume.c - finds, checks and reads a checkpoint; nothing in it is trusted before it is
 * checked. */
#include "runtime/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/adapter.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/json.h"
#include "runtime/checkpoint/safetensors.h"

typedef struct file_seal { /* the entry of state.json for a file */
    int64_t bytes;
    uint32_t crc;
    bool given;
} file_seal;

typedef struct manifest {
    const mg_program *program; /* that reads it */
    rt_state state;
    int64_t format;
    uint64_t fingerprint;
    file_seal model, slots, config; /* config: only if the program had one */
    unsigned seen;
} manifest;

/* ---- state.json --------------------------------------------------------------------------- */

static bool hex(rt_json *j, int digits, uint64_t *v)
{
    if (!rt_json_string(j))
        return false;
    if (j->length != (size_t)digits || strspn(j->text, "0123456789abcdef") != j->length)
        return rt_json_fail(j, "expected a hexadecimal number");
    *v = strtoull(j->text, NULL, 16);
    return true;
}

static bool parse_seal(rt_json *j, file_seal *s)
{
    bool bytes = false, crc = false;
    uint64_t v = 0;
    if (s->given)
        return rt_json_fail(j, "a file comes twice");
    if (!rt_json_enter(j, '{'))
        return false;
    while (rt_json_key(j)) {
        if (strcmp(j->text, "bytes") == 0 && !bytes)
            bytes = rt_json_int(j, &s->bytes);
        else if (strcmp(j->text, "crc32c") == 0 && !crc)
            crc = hex(j, 8, &v);
        else
            return rt_json_fail(j, "a key that is unknown or comes twice");
    }
    s->crc = (uint32_t)v;
    s->given = bytes && crc;
    return !j->error && (s->given || rt_json_fail(j, "a file without bytes and crc32c"));
}

static const char *config_name(const mg_program *p)
{
    return p->adapter_json ? RT_ADAPTER_CONFIG : RT_CONFIG_FILE;
}

static bool parse_files(rt_json *j, manifest *m)
{
    if (!rt_json_enter(j, '{'))
        return false;
    while (rt_json_key(j)) {
        file_seal *s = !strcmp(j->text, rt_checkpoint_tensors(m->program)) ? &m->model
                       : !strcmp(j->text, RT_SLOTS_FILE)                   ? &m->slots
                       : !strcmp(j->text, config_name(m->program))         ? &m->config
                                                                           : NULL;
        if (!s)
            return rt_json_fail(j, "an unknown file");
        if (!parse_seal(j, s))
            return false;
    }
    return !j->error;
}

static bool parse_lr(rt_json *j, double *lr)
{
    *lr = NAN;
    return rt_json_null(j) || rt_json_number(j, lr);
}

static bool parse_steps(rt_json *j, int64_t *steps)
{
    *steps = RT_UNSET;
    return rt_json_null(j) || rt_json_int(j, steps);
}

static bool parse_spikes(rt_json *j, rt_spikes *s)
{
    int64_t *counts[] = {&s->seen, &s->skipped, &s->in_a_row};
    double *numbers[] = {&s->mean[0], &s->mean[1], &s->variance[0], &s->variance[1]};
    if (!rt_json_enter(j, '['))
        return false;
    for (int i = 0; i < 7; i++) {
        if (!rt_json_item(j))
            return rt_json_fail(j, "seven numbers are expected");
        if (!(i < 3 ? rt_json_int(j, counts[i]) : rt_json_number(j, numbers[i - 3])))
            return false;
    }
    if (s->seen < 0 || s->skipped < 0 || s->in_a_row < 0)
        return rt_json_fail(j, "a count is negative");
    return !rt_json_item(j) && !j->error;
}

static bool parse_scale(rt_json *j, rt_scale *s)
{
    int64_t *counts[] = {&s->hysteresis, &s->steps, &s->last, &s->overflows};
    if (!rt_json_enter(j, '['))
        return false;
    for (int i = 0; i < 5; i++) {
        if (!rt_json_item(j))
            return rt_json_fail(j, "five numbers are expected");
        if (!(i ? rt_json_int(j, counts[i - 1]) : rt_json_number(j, &s->value)))
            return false;
    }
    if (!(s->value >= 1 && s->value <= 0x1p100) || s->hysteresis < 1 || s->last < -1 ||
        s->steps <= s->last || s->overflows < 0)
        return rt_json_fail(j, "no scale of a loss");
    return !rt_json_item(j) && !j->error;
}

/* An adapter's base: where it came from, and the checksum of what was read of it. */
static bool parse_base(rt_json *j, rt_state *s)
{
    uint64_t v = 0;
    if (!rt_json_enter(j, '[') || !rt_json_item(j) || !rt_json_string(j))
        return rt_json_fail(j, "a base is expected");
    if (j->length >= sizeof s->base || strlen(j->text) != j->length)
        return rt_json_fail(j, "no path of a base");
    memcpy(s->base, j->text, j->length + 1);
    if (!rt_json_item(j) || !hex(j, 8, &v))
        return rt_json_fail(j, "a checksum is expected");
    s->base_crc = (uint32_t)v;
    return !rt_json_item(j) && !j->error;
}

typedef enum field {
    FORMAT,
    PROGRAM,
    COMPILER,
    FINGERPRINT,
    STEP,
    SEQUENCES,
    SEED,
    LR,
    STEPS,
    DATA_TOKENS,
    DATA_WINDOWS,
    FILES,
    SEAL,
    BLEND, /* the keys from here on are optional */
    SPIKES,
    SCALE,
    BEST,
    KEPT,
    BASE
} field;
enum { KEYS = BASE + 1 };
static const char *const key[KEYS] = {[FORMAT] = "format",
                                      [PROGRAM] = "program",
                                      [COMPILER] = "compiler",
                                      [FINGERPRINT] = "fingerprint",
                                      [STEP] = "step",
                                      [SEQUENCES] = "sequences",
                                      [SEED] = "seed",
                                      [LR] = "lr",
                                      [STEPS] = "steps",
                                      [DATA_TOKENS] = "data_tokens",
                                      [DATA_WINDOWS] = "data_windows",
                                      [FILES] = "files",
                                      [SEAL] = "crc32c",
                                      [BLEND] = "blend",
                                      [SPIKES] = "spikes",
                                      [SCALE] = "scale",
                                      [BEST] = "best",
                                      [KEPT] = "best_kept",
                                      [BASE] = "base"};

static bool parse_field(rt_json *j, manifest *m, field f)
{
    rt_state *s = &m->state;
    uint64_t ignored;
    switch (f) {
    case FORMAT:
        return rt_json_int(j, &m->format);
    case PROGRAM:
    case COMPILER:
        return rt_json_string(j);
    case FINGERPRINT:
        return hex(j, 16, &m->fingerprint);
    case STEP:
        return rt_json_int(j, &s->step);
    case SEQUENCES:
        return rt_json_int(j, &s->sequences);
    case SEED:
        return rt_json_int(j, &s->seed);
    case LR:
        return parse_lr(j, &s->lr);
    case STEPS:
        return parse_steps(j, &s->steps);
    case DATA_TOKENS:
        return rt_json_int(j, &s->data_tokens);
    case DATA_WINDOWS:
        return rt_json_int(j, &s->data_windows);
    case SPIKES:
        return parse_spikes(j, &s->spikes);
    case SCALE:
        return parse_scale(j, &s->scale);
    case BEST:
        return rt_best_parse(j, &s->best);
    case KEPT:
        return rt_best_parse_kept(j, &s->best);
    case BASE:
        return parse_base(j, s);
    case BLEND:
        return hex(j, 16, &s->blend);
    case FILES:
        return parse_files(j, m);
    case SEAL: /* checked before the text was parsed */
        return hex(j, 8, &ignored);
    }
    return false;
}

static bool parse_manifest(rt_json *j, manifest *m)
{
    if (!rt_json_enter(j, '{'))
        return false;
    while (rt_json_key(j)) {
        int k = 0;
        while (k < KEYS && strcmp(key[k], j->text))
            k++;
        if (k == KEYS || (m->seen >> k & 1))
            return rt_json_fail(j, "a key that is unknown or comes twice");
        m->seen |= 1u << k;
        if (!parse_field(j, m, (field)k))
            return false;
    }
    if (~m->seen & ((1u << BLEND) - 1))
        return rt_json_fail(j, "a key is missing");
    if (m->state.step < 0 || m->state.sequences < 0 || !m->model.given || !m->slots.given)
        return rt_json_fail(j, "a value is out of range");
    return rt_json_end(j);
}

static char *read_manifest(int at, const char *dir, manifest *m)
{
    enum { LARGEST = 1 << 16 };
    char *path = rt_printf("%s/" RT_STATE_FILE, dir), *text = rt_alloc(LARGEST + 1, 1), *why = NULL;
    char seal[RT_SEAL_BYTES + 1];
    int fd = rt_file_open(at, RT_STATE_FILE, O_RDONLY | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, text, LARGEST);
    if (n < 0)
        why = rt_printf("%s: %s", path, rt_file_error());
    if (!why && n > RT_SEAL_BYTES)
        snprintf(seal, sizeof seal, RT_SEAL, rt_crc32c(0, text, (size_t)n - RT_SEAL_BYTES));
    if (!why && (n <= RT_SEAL_BYTES || memcmp(text + n - RT_SEAL_BYTES, seal, RT_SEAL_BYTES)))
        why = rt_printf("%s is damaged: its checksum is wrong or missing", path);
    if (!why) {
        rt_json j;
        rt_json_begin(&j, text, (size_t)n);
        if (!parse_manifest(&j, m))
            why = rt_printf("%s: %s (byte %td)", path, j.error, j.at - j.begin);
        else if (m->format != RT_CKPT_FORMAT)
            why = rt_printf("%s: format %" PRId64 "; this program reads %d", path, m->format,
                            RT_CKPT_FORMAT);
        rt_json_free(&j);
    }
    if (fd >= 0)
        close(fd);
    free(path);
    free(text);
    return why;
}

/* ---- the tensor files --------------------------------------------------------------------- */

static char *check_seal(const char *path, int fd, const file_seal *s)
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

static char *check_file(int at, const char *dir, const char *file, const file_seal *seal,
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
static char *check_config(int at, const char *dir, const char *name, const file_seal *seal)
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
    manifest m = {.program = r->program};
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
        why = check_config(at, dir, config_name(r->program), &m.config);
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

char *rt_resume_find(const mg_run *r, rt_state *state)
{
    if (strcmp(r->options->resume, "auto")) {
        char *why = rt_checkpoint_verify(r, r->options->resume, state);
        if (why)
            rt_die(RT_BAD_DATA, "--resume=%s: %s", r->options->resume, why);
        return rt_printf("%s", r->options->resume);
    }
    int64_t *step = rt_checkpoint_list(r->options->out);
    int tried = 0;
    char *dir = NULL;
    for (; step[tried] >= 0 && !dir; tried++) {
        dir = rt_printf("%s/ckpt/%s", r->options->out, rt_checkpoint_name(step[tried]).text);
        char *why = rt_checkpoint_verify(r, dir, state);
        if (!why)
            continue;
        rt_warn("passed over: %s", why);
        free(why);
        free(dir);
        dir = NULL;
    }
    free(step);
    if (!dir && tried)
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

static void load_file(mg_run *r, int at_dir, const char *dir, const char *file, const rt_catalog *c)
{
    char *path = rt_printf("%s/%s", dir, file), *buffer = rt_alloc(RT_CHUNK, 1);
    int fd = rt_file_open(at_dir, file, O_RDONLY | O_NOFOLLOW);
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
            if (!rt_read_at(fd, buffer, (size_t)(n * size),
                            (int64_t)(st.data + t->begin) + at * size))
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
    int at = rt_folder_open(dir);
    if (at < 0)
        rt_die(RT_IO, "%s: %s", dir, strerror(errno));
    load_file(r, at, dir, rt_checkpoint_tensors(r->program), &r->saved);
    load_file(r, at, dir, RT_SLOTS_FILE, &r->slots);
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
