/* writer.c - files of a checkpoint or an export: each written, fsync'ed and closed; tensors in the
 * order of a catalog, as they are kept or in another type. */
#include "runtime/checkpoint/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checkpoint/adapter.h"
#include "runtime/checkpoint/base.h"
#include "runtime/half.h"
#include "runtime/number.h"

bool rt_writer_put(rt_writer *w, const void *p, size_t n)
{
    w->seal.crc = rt_crc32c(w->seal.crc, p, n);
    w->seal.bytes += (int64_t)n;
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

bool rt_writer_open(rt_writer *w, int dir, const char *name)
{
    *w = (rt_writer){.fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    return w->fd >= 0;
}

/* A failure of fsync is final: the data are lost, even if a later call succeeds. */
bool rt_writer_close(rt_writer *w, bool good)
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

bool rt_write_text(int dir, const char *name, const char *text, rt_writer *w)
{
    return rt_writer_open(w, dir, name) && rt_writer_close(w, rt_writer_put(w, text, strlen(text)));
}

/* ---- types ---------------------------------------------------------------------------------- */

const char *rt_dtype_name(mg_dtype t)
{
    return t == MG_F64         ? "F64"
           : t == MG_BF16      ? "BF16"
           : t == MG_DYNAMIC8  ? "I8"
           : t == MG_UDYNAMIC8 ? "U8"
                               : "F32";
}

static const char *dtype_of(const rt_external *x, const rt_form_of *form)
{
    return form && form->dtype ? form->dtype : rt_dtype_name(rt_file_dtype(x));
}

static int64_t size_of(const rt_external *x, const rt_form_of *form)
{
    return rt_st_bits(dtype_of(x, form)) / 8;
}

int64_t rt_tensor_bytes(const rt_external *x, const rt_form_of *form)
{
    return rt_file_elements(x) * size_of(x, form);
}

typedef struct conversion {
    const char *from, *in;
    const char *to;
    char *out;
    atomic_bool too_large;
} conversion;

static void convert(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    conversion *c = ctx;
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        const double v = rt_number(c->from, c->in, i);
        const uint16_t half = c->to[0] == 'B' ? mg_to_bf16((float)v) : mg_to_f16((float)v);
        if (c->to[0] == 'F' && c->to[1] == '3')
            ((float *)c->out)[i] = (float)v;
        else
            ((uint16_t *)c->out)[i] = half;
        if (c->to[1] == '1' && isfinite(v) && (half & 0x7c00) == 0x7c00)
            c->too_large = true;
    }
}

/* n elements of a tensor, in the type of the file. */
static bool put_elements(rt_writer *w, mg_run *r, const rt_external *x, rt_form_of *form,
                         const char *elements, int64_t n)
{
    const char *kept = rt_dtype_name(rt_file_dtype(x)), *to = dtype_of(x, form);
    if (!strcmp(kept, to))
        return rt_writer_put(w, elements, (size_t)(n * size_of(x, form)));
    conversion c = {.from = kept, .in = elements, .to = to, .out = rt_alloc((size_t)n, 4)};
    rt_pool_run(r->pool, n, 16384, convert, &c);
    form->too_large |= c.too_large;
    const bool good = rt_writer_put(w, c.out, (size_t)(n * size_of(x, form)));
    free(c.out);
    return good;
}

/* ---- tensors -------------------------------------------------------------------------------- */

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

static bool put_tensor(rt_writer *w, mg_run *r, const rt_external *x, rt_form_of *form,
                       char *buffer)
{
    int64_t size = mg_dtype_bytes(x->form->tensor->dtype), chunk = RT_CHUNK / size;
    char **stored = rt_whole_open(r, x, true);
    bool good = true;
    for (int64_t at = 0; good && at < x->form->whole; at += chunk) {
        int64_t n = x->form->whole - at < chunk ? x->form->whole - at : chunk;
        gathering g = {x, stored, at, buffer};
        rt_pool_run(r->pool, n, 16384, gather, &g);
        good = put_elements(w, r, x, form, buffer, n);
    }
    rt_whole_close(r, x, stored, false);
    return good;
}

/* A matrix with what its adapter adds; false also where the file could not take it. */
static bool put_merged(rt_writer *w, mg_run *r, const rt_external *x, rt_form_of *form, bool *none)
{
    char *dense = rt_adapter_merged(r, x);
    *none = !dense;
    const bool good = dense && put_elements(w, r, x, form, dense, rt_file_elements(x));
    free(dense);
    return good;
}

char *rt_tensors_header(const rt_catalog *c, const rt_form_of *form, size_t *size)
{
    rt_st_tensor *t = rt_alloc((size_t)c->n, sizeof *t);
    size_t n = 0;
    for (int i = 0; i < c->n; i += c->item[i].parts, n++) {
        const rt_external *x = &c->item[i];
        t[n].name = x->name;
        t[n].rank = x->form->rank;
        strcpy(t[n].dtype, dtype_of(x, form));
        for (int k = 0; k < x->form->rank; k++)
            t[n].shape[k] = rt_file_size(x, k);
    }
    char *header = rt_st_header(t, n, size);
    free(t);
    return header;
}

static int64_t bytes_of(const rt_catalog *c, const rt_form_of *form)
{
    int64_t n = 0;
    for (int i = 0; i < c->n; i += c->item[i].parts)
        n += rt_tensor_bytes(&c->item[i], form);
    return n;
}

bool rt_write_tensors(mg_run *r, int dir, const char *name, const rt_catalog *c, rt_form_of *form,
                      rt_writer *w)
{
    if (!rt_writer_open(w, dir, name))
        return false;
    size_t size;
    char *header = rt_tensors_header(c, form, &size), *buffer = rt_alloc(RT_CHUNK, 1);
    /* Detects a full disk now, not after minutes of writing. Some file systems cannot tell. */
    bool good = fallocate(w->fd, 0, 0, (off_t)size + bytes_of(c, form)) == 0 || errno != ENOSPC;
    good = good && rt_writer_put(w, header, size);
    for (int i = 0; good && i < c->n; i += c->item[i].parts) {
        bool none = true;
        good = (form && form->merged && put_merged(w, r, &c->item[i], form, &none)) ||
               (none && put_tensor(w, r, &c->item[i], form, buffer));
    }
    int e = errno;
    free(header);
    free(buffer);
    errno = e;
    return rt_writer_close(w, good);
}
