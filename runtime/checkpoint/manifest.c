/* manifest.c - reads state.json, the seal of a checkpoint: see manifest.h. */
#include "runtime/checkpoint/manifest.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/adapter.h"
#include "runtime/json.h"

static bool hex(rt_json *j, int digits, uint64_t *v)
{
    if (!rt_json_string(j))
        return false;
    if (j->length != (size_t)digits || strspn(j->text, "0123456789abcdef") != j->length)
        return rt_json_fail(j, "expected a hexadecimal number");
    *v = strtoull(j->text, NULL, 16);
    return true;
}

static bool parse_seal(rt_json *j, rt_file_seal *s)
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

const char *rt_config_name(const mg_program *p)
{
    return p->adapter_json ? RT_ADAPTER_CONFIG : RT_CONFIG_FILE;
}

static bool parse_files(rt_json *j, rt_manifest *m)
{
    if (!rt_json_enter(j, '{'))
        return false;
    while (rt_json_key(j)) {
        rt_file_seal *s = !strcmp(j->text, rt_checkpoint_tensors(m->program)) ? &m->model
                          : !strcmp(j->text, RT_SLOTS_FILE)                   ? &m->slots
                          : !strcmp(j->text, rt_config_name(m->program))      ? &m->config
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

static bool parse_field(rt_json *j, rt_manifest *m, field f)
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

static bool parse_manifest(rt_json *j, rt_manifest *m)
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

char *rt_manifest_parse(const char *path, const char *text, size_t n, rt_manifest *m)
{
    char seal[RT_SEAL_BYTES + 1], *why = NULL;
    if (n > RT_SEAL_BYTES)
        snprintf(seal, sizeof seal, RT_SEAL, rt_crc32c(0, text, n - RT_SEAL_BYTES));
    if (n <= RT_SEAL_BYTES || memcmp(text + n - RT_SEAL_BYTES, seal, RT_SEAL_BYTES))
        return rt_printf("%s is damaged: its checksum is wrong or missing", path);
    rt_json j;
    rt_json_begin(&j, text, n);
    if (!parse_manifest(&j, m))
        why = rt_printf("%s: %s (byte %td)", path, j.error, j.at - j.begin);
    else if (m->format != RT_CKPT_FORMAT)
        why = rt_printf("%s: format %" PRId64 "; this program reads %d", path, m->format,
                        RT_CKPT_FORMAT);
    rt_json_free(&j);
    return why;
}
