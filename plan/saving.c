/* saving.c - what a checkpoint costs that is written beside the steps: bytes by rates.
 *
 * Steps wait until the ranks of each machine have copied the tensors that the machine writes, an
 * equal share of all; then the files are written, to one disk that all machines see. A copy on a
 * processor reads and writes each byte, of a GPU it goes over the link to the host. What the
 * description does not say is guessed, and called so. */
#include "plan/saving.h"

#include <jansson.h>
#include <math.h>

#include "base/quantity.h"
#include "plan/levels.h"

#define GUESSED_DISK 1e9  /* bytes/s: an NVMe disk of the lower kind, or a good network's share */
#define GUESSED_LINK 12e9 /* bytes/s: PCIe 3.0 with 16 lanes */

static bool is_saved(const Module *m, const Tensor *t)
{
    if (t->slot)
        return !tensor_is_rounded(t);
    return !m->adapter || t->adapter;
}

static int64_t saved_bytes(const Module *m)
{
    int64_t all = 0;
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        int64_t bytes = is_saved(m, t) ? dtype_bytes(t->type.dtype) : 0;
        for (int d = 0; d < t->type.rank; d++)
            bytes *= t->valid[d];
        all += bytes;
    }
    return all;
}

/* The share of what is saved that lies on a disk. */
static double share_on_disk(const Module *m)
{
    double there = 0, all = 0;
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        double bytes = is_saved(m, t) ? (double)dtype_bytes(t->type.dtype) : 0;
        for (int d = 0; d < t->type.rank; d++)
            bytes *= (double)t->valid[d];
        all += bytes;
        there += t->type.level == LEVEL_disk ? bytes : 0;
    }
    return all > 0 ? there / all : 0;
}

/* Is there room for a machine's copy, beside what its ranks have there? Of a GPU's host the
 * description may say nothing. */
static bool has_room(const Plan *p, int64_t copied, int64_t here)
{
    const Device *d = p->device;
    if (d->target != TARGET_cuda)
        return p->arena_bytes + copied / here <= d->memory;
    return !d->level[LEVEL_host].memory ||
           copied + levels_bytes(p, LEVEL_host) * here <= d->level[LEVEL_host].memory;
}

Saving plan_saving(const Plan *p)
{
    const Device *d = p->device;
    const DeviceLevel *host = &d->level[LEVEL_host], *disk = &d->level[LEVEL_disk];
    const int64_t ranks = mesh_ranks(p->module), some = levels_ranks(p->module, d);
    const int64_t here = some > 0 ? some : 1; /* a description that says nothing of machines */
    const int64_t machines = (ranks + here - 1) / here;
    const bool gpu = d->target == TARGET_cuda;
    Saving s = {.bytes = saved_bytes(p->module), .guessed = !(disk->out > 0)};
    s.copied = (s.bytes + machines - 1) / machines;
    s.write = disk->out > 0 ? disk->out : GUESSED_DISK;
    s.copy = (double)here * (!gpu ? d->bandwidth / 2 : host->out > 0 ? host->out : GUESSED_LINK);
    if (gpu && d->host_all > 0)
        s.copy = fmin(s.copy, d->host_all);
    s.guessed |= gpu && !(host->out > 0);
    /* The copy reads what a disk has. */
    const double read = disk->in > 0 ? disk->in : GUESSED_DISK, far = share_on_disk(p->module);
    if (far > 0)
        s.copy = 1 / (1 / s.copy + far / read);
    s.waits = !has_room(p, s.copied, here) ? "there is no room for a copy in memory" : NULL;
    return s;
}

const char *plan_saving_text(const Plan *p)
{
    Arena *a = p->module->arena;
    const Saving s = plan_saving(p);
    const char *same = text_bytes(a, (double)s.copied);
    if (s.waits)
        return arena_printf(a, "%s; steps wait %s until it is written: %s%s",
                            text_bytes(a, (double)s.bytes),
                            text_seconds(a, (double)s.bytes / s.write), s.waits,
                            s.guessed ? " (the disk is guessed)" : "");
    return arena_printf(
        a,
        "%s, from a copy of %s in the memory of %s: steps wait %s for that, and "
        "it is written beside them in %s%s",
        text_bytes(a, (double)s.bytes), same, s.copied < s.bytes ? "each machine" : "the machine",
        text_seconds(a, (double)s.copied / s.copy), text_seconds(a, (double)s.bytes / s.write),
        s.guessed ? " (the disk is guessed)" : "");
}

json_t *plan_saving_json(const Plan *p)
{
    const Saving s = plan_saving(p);
    const double write = (double)s.bytes / s.write * 1e3, copy = (double)s.copied / s.copy * 1e3;
    return json_pack("{s:I, s:I, s:f, s:f, s:b}", "bytes", (json_int_t)s.bytes, "copy_bytes",
                     (json_int_t)(s.waits ? 0 : s.copied), "stop_ms", s.waits ? write : copy,
                     "write_ms", write, "guessed", s.guessed);
}
