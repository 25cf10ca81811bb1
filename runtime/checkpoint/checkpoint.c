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
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/writer.h"

static void print_seal(FILE *f, const char *name, const rt_seal *s)
{
    fprintf(f, "\"%s\":{\"bytes\":%" PRId64 ",\"crc32c\":\"%08" PRIx32 "\"}", name, s->bytes,
            s->crc);
}

const char *rt_checkpoint_tensors(const mg_program *p)
{
    return p->adapter_json ? RT_ADAPTER_FILE : RT_MODEL_FILE;
}

const char *rt_checkpoint_config(const mg_program *p)
{
    return p->adapter_json ? RT_ADAPTER_CONFIG : p->config_json ? RT_CONFIG_FILE : NULL;
}

char *rt_checkpoint_state(const mg_run *r, const rt_state *s, const rt_seal seals[2],
                          const rt_seal *config)
{
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
    rt_best_print(f, &s->best);
    if (*s->base || r->program->adapter_json) {
        char *base = rt_json_escape(s->base);
        fprintf(f, "\"base\":[\"%s\",\"%08" PRIx32 "\"],\n", base, s->base_crc);
        free(base);
    }
    fputs("\"files\":{", f);
    for (int i = 0; i < RT_TENSOR_FILES; i++) {
        fputs(i ? ",\n" : "", f);
        print_seal(f, rt_checkpoint_file(r->program, i), &seals[i]);
    }
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

const char *rt_checkpoint_file(const mg_program *p, int i)
{
    return i ? RT_SLOTS_FILE : rt_checkpoint_tensors(p);
}

bool rt_checkpoint_seal(const mg_run *r, const rt_state *s, const rt_seal seals[2],
                        rt_unpublished *u)
{
    rt_writer config = {0}, state;
    const mg_program *p = r->program;
    const char *name = rt_checkpoint_config(p);
    char *beside = p->adapter_json ? rt_adapter_config(r) : NULL;
    const bool written =
        !name || rt_write_text(u->dir, u->file = name, beside ? beside : p->config_json, &config);
    free(beside);
    if (!written || !rt_writer_open(&state, u->dir, u->file = RT_STATE_FILE))
        return false;
    char *text = rt_checkpoint_state(r, s, seals, &config.seal);
    bool good = rt_writer_close(&state, rt_writer_put(&state, text, strlen(text)));
    int e = errno;
    free(text);
    u->file = "its directory";
    errno = e;
    return good && fsync(u->dir) == 0;
}

rt_words rt_checkpoint_name(int64_t step)
{
    rt_words w;
    snprintf(w.text, sizeof w.text, "step-%08" PRId64, step);
    return w;
}

bool rt_checkpoint_begin(const mg_run *r, int64_t step, rt_unpublished *u)
{
    char *path = rt_printf("%s/ckpt", r->options->out);
    *u = (rt_unpublished){.root = -1, .dir = -1, .step = step, .file = "its directory"};
    u->tmp = rt_printf(".tmp-%s", rt_checkpoint_name(step).text);
    bool good = mkdir(path, 0777) == 0 || errno == EEXIST;
    good = good && (u->root = rt_checkpoints_open(r->options->out)) >= 0;
    if (good)
        rt_remove_at(u->root, u->tmp, 0);
    good = good && mkdirat(u->root, u->tmp, 0777) == 0 &&
           (u->dir = rt_folder_inside(u->root, u->tmp)) >= 0;
    int e = errno;
    free(path);
    errno = e;
    return good;
}

bool rt_checkpoint_publish(rt_unpublished *u)
{
    rt_words name = rt_checkpoint_name(u->step);
    if (renameat2(u->root, u->tmp, u->root, name.text, RENAME_EXCHANGE) &&
        renameat(u->root, u->tmp, u->root, name.text))
        return false;
    return fsync(u->root) == 0;
}

void rt_checkpoint_leave(rt_unpublished *u)
{
    int e = errno;
    if (u->dir >= 0)
        close(u->dir);
    if (u->root >= 0) {
        rt_remove_at(u->root, u->tmp, 0); /* the failed directory, or the replaced one */
        close(u->root);
    }
    free(u->tmp);
    u->root = u->dir = -1;
    u->tmp = NULL;
    errno = e;
}

void rt_checkpoint_failed(const mg_run *r, const rt_unpublished *u, int error)
{
    rt_words kept = rt_checkpoint_name(r->saved_step);
    rt_warn("no checkpoint of step %" PRId64 ": writing %s in %s/ckpt: %s; the newest is %s",
            u->step, u->file, r->options->out, strerror(error),
            r->saved_step >= 0 ? kept.text : "none");
}

/* Renames each old checkpoint before its removal, so that a kill never leaves half a checkpoint.
 * Those of the best evaluations and of --keep-every stay. */
void rt_checkpoint_prune(const mg_run *r, const rt_state *s)
{
    const rt_options *o = r->options;
    int64_t *step = rt_checkpoint_list(o->out);
    int root = rt_checkpoints_open(o->out);
    for (int i = 0; o->keep && step[i] >= 0; i++) {
        if (i < o->keep || step[i] >= s->step || rt_best_keeps(&s->best, step[i]) ||
            (o->keep_every != RT_UNSET && step[i] % o->keep_every == 0))
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
    const rt_catalog *all[RT_TENSOR_FILES] = {&r->saved, &r->slots};
    rt_unpublished u;
    rt_seal seals[RT_TENSOR_FILES];
    bool good = rt_checkpoint_begin(r, r->state.step, &u);
    for (int i = 0; good && i < RT_TENSOR_FILES; i++) {
        rt_writer w;
        u.file = rt_checkpoint_file(r->program, i);
        good = rt_write_tensors(r, u.dir, u.file, all[i], NULL, &w);
        seals[i] = w.seal;
    }
    good = good && rt_checkpoint_seal(r, &r->state, seals, &u) && rt_checkpoint_publish(&u);
    const int e = errno;
    rt_checkpoint_leave(&u);
    if (good) {
        r->saved_step = r->state.step;
        rt_checkpoint_prune(r, &r->state);
    } else {
        rt_checkpoint_failed(r, &u, e);
    }
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
