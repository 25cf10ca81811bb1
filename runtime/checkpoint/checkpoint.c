/* checkpoint.c - writes a checkpoint so that a partly written one is never visible.
 *
 *   OUT/ckpt/.tmp-step-N/   model.safetensors, optimizer.safetensors, config.json, state.json: each
 *                           written, fsync'ed and closed; then the directory is fsync'ed
 *   rename to step-N        atomic; then OUT/ckpt is fsync'ed, and only then older ones are removed
 *
 * Of an adapter's program adapter_model.safetensors and adapter_config.json are in the place of
 * model.safetensors and config.json: without what it does not train (adapter.c).
 *
 * A failure before the rename leaves the newest checkpoint unchanged; the run goes on with a
 * warning. state.json holds the size and CRC-32C of the other files and, in its last line, its own.
 * All names are relative to a descriptor of OUT/ckpt: see files.h. */
#include "runtime/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/adapter.h"
#include "runtime/checkpoint/base.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/safetensors.h"

typedef struct writer {
    int fd;
    uint32_t crc;
    int64_t bytes;
} writer;

static bool put(writer *w, const void *p, size_t n)
{
    w->crc = rt_crc32c(w->crc, p, n);
    w->bytes += (int64_t)n;
    while (n) {
        ssize_t done = write(w->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        p = (const char *)p + done;
        n -= (size_t)done;
    }
    return true;
}

static bool open_writer(writer *w, int dir, const char *name)
{
    *w = (writer){.fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    return w->fd >= 0;
}

/* A failure of fsync is final: the data are lost, even if a later call succeeds. */
static bool close_writer(writer *w, bool good)
{
    good = good && fsync(w->fd) == 0;
    int e = errno;
    if (close(w->fd) && good) {
        good = false;
        e = errno;
    }
    errno = e;
    return good;
}

typedef struct gathering {
    const rt_external *x;
    char *const *stored;
    int64_t begin;
    char *out;
} gathering;

static void gather(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const gathering *g = ctx;
    int64_t size = mg_dtype_bytes(g->x->form->tensor->dtype);
    (void)scratch;
    rt_whole_get(g->x, g->stored, g->begin + begin, end - begin, g->out + begin * size);
}

static bool put_tensor(writer *w, mg_run *r, const rt_external *x, char *buffer)
{
    int64_t size = mg_dtype_bytes(x->form->tensor->dtype), chunk = RT_CHUNK / size;
    char **stored = rt_whole_open(r, x, true);
    bool good = true;
    for (int64_t at = 0; good && at < x->form->whole; at += chunk) {
        int64_t n = x->form->whole - at < chunk ? x->form->whole - at : chunk;
        gathering g = {x, stored, at, buffer};
        rt_pool_run(r->pool, n, 16384, gather, &g);
        good = put(w, buffer, (size_t)(n * size));
    }
    rt_whole_close(r, x, stored, false);
    return good;
}

static char *header_of(const rt_catalog *c, size_t *size)
{
    rt_st_tensor *t = rt_alloc((size_t)c->n, sizeof *t);
    size_t n = 0;
    for (int i = 0; i < c->n; i += c->item[i].parts, n++) {
        const rt_external *x = &c->item[i];
        t[n].name = x->name;
        t[n].rank = x->form->rank;
        strcpy(t[n].dtype, rt_dtype_name(rt_file_dtype(x)));
        for (int k = 0; k < x->form->rank; k++)
            t[n].shape[k] = rt_file_size(x, k);
    }
    char *header = rt_st_header(t, n, size);
    free(t);
    return header;
}

const char *rt_dtype_name(mg_dtype t)
{
    return t == MG_F64         ? "F64"
           : t == MG_BF16      ? "BF16"
           : t == MG_DYNAMIC8  ? "I8"
           : t == MG_UDYNAMIC8 ? "U8"
                               : "F32";
}

/* A matrix with what its adapter adds; false also where the file could not take it. */
static bool put_merged(writer *w, mg_run *r, const rt_external *x, bool *none)
{
    char *dense = rt_adapter_merged(r, x);
    *none = !dense;
    const bool good =
        dense && put(w, dense, (size_t)(rt_file_elements(x) * mg_dtype_bytes(rt_file_dtype(x))));
    free(dense);
    return good;
}

/* merged: with what an adapter adds. */
static bool write_tensors(mg_run *r, int dir, const char *name, const rt_catalog *c, bool merged,
                          writer *w)
{
    if (!open_writer(w, dir, name))
        return false;
    size_t size;
    char *header = header_of(c, &size), *buffer = rt_alloc(RT_CHUNK, 1);
    /* Detects a full disk now, not after minutes of writing. Some file systems cannot tell. */
    bool good = fallocate(w->fd, 0, 0, (off_t)size + c->bytes) == 0 || errno != ENOSPC;
    good = good && put(w, header, size);
    for (int i = 0; good && i < c->n; i += c->item[i].parts) {
        bool none = true;
        good = (merged && put_merged(w, r, &c->item[i], &none)) ||
               (none && put_tensor(w, r, &c->item[i], buffer));
    }
    int e = errno;
    free(header);
    free(buffer);
    errno = e;
    return close_writer(w, good);
}

/* Writes the file for other programs that lies beside the tensors. */
static bool write_text(int dir, const char *name, const char *text, writer *w)
{
    return open_writer(w, dir, name) && close_writer(w, put(w, text, strlen(text)));
}

static void print_seal(FILE *f, const char *name, const writer *w)
{
    fprintf(f, "\"%s\":{\"bytes\":%" PRId64 ",\"crc32c\":\"%08" PRIx32 "\"}", name, w->bytes,
            w->crc);
}

const char *rt_checkpoint_tensors(const mg_program *p)
{
    return p->adapter_json ? RT_ADAPTER_FILE : RT_MODEL_FILE;
}

const char *rt_checkpoint_config(const mg_program *p)
{
    return p->adapter_json ? RT_ADAPTER_CONFIG : p->config_json ? RT_CONFIG_FILE : NULL;
}

static char *state_text(const mg_run *r, const writer *model, const writer *slots,
                        const writer *config)
{
    const rt_state *s = &r->state;
    char *text = NULL, *program = rt_json_escape(r->program->name),
         *compiler = rt_json_escape(r->program->compiler);
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for state.json");
    fprintf(f, "{\"format\":%d,\n\"program\":\"%s\",\n\"compiler\":\"%s\",\n", RT_CKPT_FORMAT,
            program, compiler);
    fprintf(f, "\"fingerprint\":\"%016" PRIx64 "\",\n", r->program->fingerprint);
    fprintf(f, "\"step\":%" PRId64 ",\n\"sequences\":%" PRId64 ",\n\"seed\":%" PRId64 ",\n",
            s->step, s->sequences, s->seed);
    fprintf(f, "\"lr\":%s,\n", isnan(s->lr) ? "null" : rt_double_text(s->lr).text);
    if (s->steps == RT_UNSET)
        fputs("\"steps\":null,\n", f);
    else
        fprintf(f, "\"steps\":%" PRId64 ",\n", s->steps);
    fprintf(f, "\"data_tokens\":%" PRId64 ",\n\"data_windows\":%" PRId64 ",\n", s->data_tokens,
            s->data_windows);
    if (s->blend)
        fprintf(f, "\"blend\":\"%016" PRIx64 "\",\n", s->blend);
    if (s->spikes.seen) {
        const rt_spikes *k = &s->spikes;
        fprintf(f, "\"spikes\":[%" PRId64 ",%" PRId64 ",%" PRId64, k->seen, k->skipped,
                k->in_a_row);
        for (int i = 0; i < 2; i++)
            fprintf(f, ",%s", rt_double_text(k->mean[i]).text);
        for (int i = 0; i < 2; i++)
            fprintf(f, ",%s", rt_double_text(k->variance[i]).text);
        fputs("],\n", f);
    }
    if (s->scale.value != 0) { /* also for an f32 program that resumed an f16 run */
        const rt_scale *k = &s->scale;
        fprintf(f, "\"scale\":[%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "],\n",
                rt_double_text(k->value).text, k->hysteresis, k->steps, k->last, k->overflows);
    }
    if (*s->best.by) {
        const rt_best *k = &s->best;
        fprintf(f, "\"best\":[\"%s\",%s,%" PRId64 ",%" PRId64 ",%" PRId64 "],\n", k->by,
                rt_double_text(k->value).text, k->step, k->waited, k->patience);
    }
    if (r->program->adapter_json) {
        char *base = rt_json_escape(s->base);
        fprintf(f, "\"base\":[\"%s\",\"%08" PRIx32 "\"],\n", base, s->base_crc);
        free(base);
    }
    fputs("\"files\":{", f);
    print_seal(f, rt_checkpoint_tensors(r->program), model);
    fputs(",\n", f);
    print_seal(f, RT_SLOTS_FILE, slots);
    if (rt_checkpoint_config(r->program)) {
        fputs(",\n", f);
        print_seal(f, rt_checkpoint_config(r->program), config);
    }
    fputs("}", f);
    fflush(f);
    fprintf(f, RT_SEAL, rt_crc32c(0, text, size));
    if (fclose(f))
        rt_die(RT_FAILED, "no memory for state.json");
    free(program);
    free(compiler);
    return text;
}

static bool write_all(mg_run *r, int dir, const char **file)
{
    writer model, slots, config, state;
    const mg_program *p = r->program;
    const char *name = rt_checkpoint_config(p);
    if (!write_tensors(r, dir, *file = rt_checkpoint_tensors(p), &r->saved, false, &model) ||
        !write_tensors(r, dir, *file = RT_SLOTS_FILE, &r->slots, false, &slots))
        return false;
    char *beside = p->adapter_json ? rt_adapter_config(r) : NULL;
    const bool written =
        !name || write_text(dir, *file = name, beside ? beside : p->config_json, &config);
    free(beside);
    if (!written || !open_writer(&state, dir, *file = RT_STATE_FILE))
        return false;
    char *text = state_text(r, &model, &slots, &config);
    bool good = close_writer(&state, put(&state, text, strlen(text)));
    int e = errno;
    free(text);
    *file = "its directory";
    errno = e;
    return good && fsync(dir) == 0;
}

rt_words rt_checkpoint_name(int64_t step)
{
    rt_words w;
    snprintf(w.text, sizeof w.text, "step-%08" PRId64, step);
    return w;
}

/* Puts the finished directory in its place; an old one of that name is exchanged. */
static bool publish(int root, const char *tmp, const char *name)
{
    if (renameat2(root, tmp, root, name, RENAME_EXCHANGE) && renameat(root, tmp, root, name))
        return false;
    return fsync(root) == 0;
}

static bool save_into(mg_run *r, int root, const char **file)
{
    rt_words name = rt_checkpoint_name(r->state.step);
    char *tmp = rt_printf(".tmp-%s", name.text);
    *file = "its directory";
    rt_remove_at(root, tmp, 0);
    bool good = mkdirat(root, tmp, 0777) == 0;
    int dir = good ? rt_folder_inside(root, tmp) : -1;
    good = dir >= 0 && write_all(r, dir, file);
    int e = errno;
    if (dir >= 0)
        close(dir);
    errno = e;
    good = good && publish(root, tmp, name.text);
    e = errno;
    rt_remove_at(root, tmp, 0); /* the failed directory, or the replaced one */
    free(tmp);
    errno = e;
    return good;
}

/* Renames each old checkpoint before its removal, so that a kill never leaves half a checkpoint.
 * That of the best evaluation stays. */
void rt_checkpoint_prune(const mg_run *r)
{
    int64_t *step = rt_checkpoint_list(r->options->out);
    int root = rt_checkpoints_open(r->options->out);
    for (int i = 0; r->options->keep && step[i] >= 0; i++) {
        bool best = *r->state.best.by && step[i] == r->state.best.step;
        if (i < r->options->keep || step[i] >= r->state.step || best)
            continue;
        rt_words name = rt_checkpoint_name(step[i]);
        char *old = rt_printf(".old-%s", name.text);
        if (renameat(root, name.text, root, old) || !rt_remove_at(root, old, 0))
            rt_warn("%s/ckpt/%s could not be removed: %s", r->options->out, name.text,
                    strerror(errno));
        free(old);
    }
    if (root >= 0)
        close(root);
    free(step);
}

bool rt_checkpoint_save(mg_run *r)
{
    char *path = rt_printf("%s/ckpt", r->options->out);
    const char *file = "its directory";
    int root = -1;
    bool good = mkdir(path, 0777) == 0 || errno == EEXIST;
    good = good && (root = rt_checkpoints_open(r->options->out)) >= 0;
    good = good && save_into(r, root, &file);
    if (good) {
        r->saved_step = r->state.step;
        rt_checkpoint_prune(r);
    } else {
        int e = errno;
        rt_words kept = rt_checkpoint_name(r->saved_step);
        rt_warn("no checkpoint of step %" PRId64 ": writing %s in %s: %s; the newest is %s",
                r->state.step, file, path, strerror(e), r->saved_step >= 0 ? kept.text : "none");
    }
    if (root >= 0)
        close(root);
    free(path);
    return good;
}

bool rt_export(mg_run *r, const char *dir)
{
    writer model, config;
    const char *file = "its directory";
    bool good = mkdir(dir, 0777) == 0 || errno == EEXIST;
    const int at = good ? rt_folder_open(dir) : -1;
    const bool merged = r->program->adapter_json;
    rt_catalog base = merged ? rt_adapter_part(&r->params, false) : r->params;
    good = at >= 0 && write_tensors(r, at, file = RT_MODEL_FILE, &base, merged, &model);
    if (merged)
        free(base.item);
    if (good && r->program->config_json)
        good = write_text(at, file = RT_CONFIG_FILE, r->program->config_json, &config);
    good = good && fsync(at) == 0;
    if (!good)
        rt_warn("--export %s: writing %s: %s", dir, file, strerror(errno));
    if (at >= 0)
        close(at);
    return good;
}

int64_t rt_checkpoint_bytes(const mg_run *r)
{
    return r->saved.bytes + r->slots.bytes;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

int64_t *rt_checkpoint_list(const char *out)
{
    int64_t *step = rt_alloc(1, sizeof *step), n = 0;
    int root = rt_checkpoints_open(out);
    DIR *d = root < 0 ? NULL : fdopendir(root);
    for (struct dirent *e; d && (e = readdir(d));) {
        int64_t s;
        if (sscanf(e->d_name, "step-%" SCNd64, &s) != 1 || s < 0 ||
            strcmp(e->d_name, rt_checkpoint_name(s).text))
            continue;
        step = rt_grow(step, (size_t)n + 2, sizeof *step);
        step[n++] = s;
    }
    if (d)
        closedir(d);
    if (n)
        qsort(step, (size_t)n, sizeof *step, newest_first);
    step[n] = -1;
    return step;
}

static bool is_stale(const char *name)
{
    return strncmp(name, ".tmp-step-", 10) == 0 || strncmp(name, ".old-step-", 10) == 0;
}

void rt_checkpoint_clean(const char *out)
{
    int root = rt_checkpoints_open(out);
    DIR *d = root < 0 ? NULL : fdopendir(root);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_stale(e->d_name) && !rt_remove_at(root, e->d_name, 0))
            rt_warn("%s/ckpt/%s: left by an interrupted save, could not be removed: %s", out,
                    e->d_name, strerror(errno));
    if (d)
        closedir(d);
}
