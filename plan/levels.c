/* levels.c - what a machine has of other levels of memory, for all of its ranks.
 *
 * The memory of a host, and a disk, are the machine's: all its ranks run one plan, so each may have
 * an equal share of the bytes. They transfer at the same time. A GPU has a link of its own to the
 * host; a disk is one, so each rank has a share of its rates, too. A GPU's bytes come from a disk
 * through the memory of the host, by the piece, which has room for those beside its arena. */
#include "plan/levels.h"

#include "base/quantity.h"
#include "plan/copies.h"
#include "runtime/sizes.h"

#include <math.h>

bool levels_used(const Module *m)
{
    bool any = false;
    for (int k = 0; k < OFFLOAD_count; k++)
        any |= m->layout.offload[k] != LEVEL_device;
    return any;
}

int64_t levels_ranks(const Module *m, const Device *d)
{
    const int64_t all = mesh_ranks(m);
    return all < device_machine(d) ? all : device_machine(d);
}

DeviceLevel levels_share(const Module *m, const Device *d, Level l)
{
    const int64_t ranks = levels_ranks(m, d);
    DeviceLevel share = d->level[l];
    share.memory /= ranks;
    if (l == LEVEL_disk) {
        share.in /= (double)ranks;
        share.out /= (double)ranks;
        share.both /= (double)ranks;
    }
    if (l == LEVEL_disk && d->target == TARGET_cuda) { /* no faster than the link behind it */
        const DeviceLevel *host = &d->level[LEVEL_host];
        share.in = fmin(share.in, host->in);
        share.out = fmin(share.out, host->out);
        share.both = fmin(share.both, host->both);
        share.seconds += host->seconds;
    }
    return share;
}

int64_t levels_pieces(const Plan *p, Level l)
{
    const bool through = p->device->target == TARGET_cuda && p->level_bytes[LEVEL_disk];
    return l == LEVEL_host && through ? MG_DISK_PINNED : 0;
}

int64_t levels_bytes(const Plan *p, Level l)
{
    return p->level_bytes[l] + levels_pieces(p, l);
}

/* "4 ranks of a machine offload 8192 bytes (8 KiB) to the disk, 2048 each"; of one rank: "8192
 * bytes (8 KiB) are offloaded to the disk". */
static const char *said(const Plan *p, Level l)
{
    Arena *a = p->module->arena;
    const int64_t ranks = levels_ranks(p->module, p->device), each = levels_bytes(p, l);
    const char *bytes = text_bytes(a, (double)(each * ranks));
    if (ranks == 1)
        return arena_printf(a, "%lld bytes (%s) are offloaded to the %s", (long long)each, bytes,
                            level_names[l]);
    return arena_printf(a, "%lld ranks of a machine offload %lld bytes (%s) to the %s, %lld each",
                        (long long)ranks, (long long)(each * ranks), bytes, level_names[l],
                        (long long)each);
}

Level levels_below(const Device *d, Level l)
{
    for (int k = (int)l + 1; k < LEVEL_count; k++)
        if (d->level[k].memory)
            return (Level)k;
    return LEVEL_device;
}

/* `-> host` in each line that names the level; in REMEDY_EDITS of them at most. */
static Remedy instead(const Module *m, Level l, Level to)
{
    Remedy r = {0};
    uint32_t end = 0;
    for (int least = 0; least >= 0;) {
        least = -1;
        for (int k = 0; k < OFFLOAD_count; k++) {
            const Span at = m->layout.offload_to[k];
            if (m->layout.offload[k] == l && at.file && at.begin >= end &&
                (least < 0 || at.begin < m->layout.offload_to[least].begin))
                least = k;
        }
        if (least < 0)
            break;
        if (r.n == REMEDY_EDITS)
            return (Remedy){0};
        r.edit[r.n++] = (Edit){m->layout.offload_to[least], level_names[to]};
        end = m->layout.offload_to[least].end;
    }
    return r;
}

static void tell_absent(const Module *m, const Device *d, Level l, Span at)
{
    const Level its = levels_below(d, LEVEL_device);
    if (l == LEVEL_host && d->target != TARGET_cuda)
        diag_error(m->diag, at, 556,
                   "'%s' is a processor, whose programs offload to a disk, not to the host",
                   d->name);
    else
        diag_error(m->diag, at, 556,
                   "'%s' has no %s to offload to: its description has no '%s_memory'", d->name,
                   level_names[l], level_names[l]);
    const Remedy r = instead(m, l, its);
    if (its && r.n &&
        diag_remedy(m->diag, &r, "offload to '%s': there are %s", level_names[its],
                    text_bytes(m->arena, (double)d->level[its].memory)))
        return;
    diag_remedy_option(m->diag, "--offload none",
                       "--offload none: all is on the device, which has %s",
                       text_bytes(m->arena, (double)d->memory));
}

bool levels_there(const Module *m, const Device *d)
{
    for (int k = 0; k < OFFLOAD_count; k++) {
        const Level l = m->layout.offload[k];
        if (l == LEVEL_device || d->level[l].memory)
            continue;
        tell_absent(m, d, l, m->layout.offload_to[k]);
        return false;
    }
    if (m->layout.optimizer == OPTIMIZER_host && !(d->host_bandwidth > 0)) {
        diag_error(m->diag, m->layout.optimizer_span, 556,
                   "how fast '%s' updates what is on its host is unknown: its description has no "
                   "'host_bandwidth'",
                   d->name);
        diag_remedy_option(m->diag, "--optimizer device",
                           "--optimizer device: state and masters come there, and go back");
        return false;
    }
    return true;
}

static void tell_too_small(const Plan *p, Level l)
{
    const Module *m = p->module;
    const Device *d = p->device;
    const int64_t all = levels_bytes(p, l) * levels_ranks(m, d), has = d->level[l].memory;
    const int64_t copies = l == LEVEL_host ? copies_bytes(p) : 0;
    diag_error(m->diag, m->layout.offload_span, 556,
               "%s%s, and the device '%s' has %lld (%s) there%s", said(p, l),
               copies ? arena_printf(m->arena, ", beside %lld for collectives by copies",
                                     (long long)copies)
                      : "",
               d->name, (long long)has, text_bytes(m->arena, (double)has),
               levels_ranks(m, d) > 1 ? " for all of them" : "");
    for (int k = LEVEL_device + 1; k < LEVEL_count; k++)
        if (d->level[k].memory >= all)
            diag_help(m->diag, "offload to '%s': there are %s", level_names[k],
                      text_bytes(m->arena, (double)d->level[k].memory));
    diag_help(m->diag, "offload none: all is on the device, which has %s",
              text_bytes(m->arena, (double)d->memory));
}

bool levels_fit(const Plan *p)
{
    bool fit = true;
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++) {
        const int64_t beside =
            l == LEVEL_host ? copies_bytes(p) / levels_ranks(p->module, p->device) : 0;
        const int64_t mine = levels_bytes(p, (Level)l);
        if (mine && mine + beside > levels_share(p->module, p->device, (Level)l).memory) {
            tell_too_small(p, (Level)l);
            fit = false;
        }
    }
    return fit;
}

bool levels_asserted(const Plan *p)
{
    const Module *m = p->module;
    bool good = true;
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++) {
        const double limit = m->layout.assert_level[l];
        const int64_t all = levels_bytes(p, (Level)l) * levels_ranks(m, p->device);
        if (limit == 0 || (double)all <= limit)
            continue;
        good = false;
        diag_error(m->diag, m->layout.assert_level_span[l], 557,
                   "%s, where the layout asserts less than %lld (%s)", said(p, (Level)l),
                   (long long)limit, text_bytes(m->arena, limit));
        diag_help(m->diag, "offload fewer classes, or assert more");
    }
    return good;
}
