/* fuzz_data.c - libFuzzer target: any bytes as a file of tokens, its Megatron index and the weights
 * of its targets. What is accepted holds only tokens of the vocabulary and weights that are
 * weights; put into windows as documents, they are those of the files, each in one place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/batch.h"
#include "runtime/data/pack.h"
#include "runtime/data/sources.h"
#include "tests/fuzz/caught.h"

enum { SEQ = 4 };

typedef struct Input {
    const char *pattern;
    int64_t vocab;
    bool weighed;
} Input;

static void check_place(rt_place p, int64_t vocab, bool weighed)
{
    int32_t token[SEQ + 1];
    float weight[SEQ];
    rt_tokens_read(p.file, p.first, SEQ + 1, token);
    for (int i = 0; i <= SEQ; i++)
        if (token[i] < 0 || token[i] >= vocab)
            abort();
    if (!weighed)
        return;
    rt_targets_read(p.file, p.first + 1, SEQ, MG_F32, weight);
    for (int i = 0; i < SEQ; i++)
        if (!(weight[i] >= 0) || !isfinite(weight[i]))
            abort();
}

static void read_all(void *ctx)
{
    const Input *in = ctx;
    const char *item[] = {in->pattern};
    rt_data *d = rt_data_open(&(rt_list){item, 1}, "data", SEQ, SEQ + 1, in->vocab);
    if (in->weighed)
        rt_data_weigh(d);
    for (int64_t i = 0; i < d->windows && i < 64; i++)
        check_place(rt_data_window(d, 7, i), in->vocab, in->weighed);
    rt_data *held = rt_data_hold_out(d, 0.25);
    for (int64_t i = 0; i < held->windows && i < 64; i++)
        check_place(rt_data_window_in_order(held, i), in->vocab, in->weighed);
    rt_data_close(held);
    rt_data_close(d);
}

/* Each window of packed documents: tokens of the vocabulary, starts that do not fall. */
static void pack_all(void *ctx)
{
    static char arena[256];
    static const mg_entry entry = {
        .tokens = 0, .weights = 64, .documents = 128, .batch = 1, .rows = 1, .window = SEQ + 2};
    static const mg_program program = {.compute = MG_F32, .step = entry};
    const Input *in = ctx;
    const char *item[] = {in->pattern};
    mg_run r = {.program = &program, .arena = arena};
    rt_data *d =
        rt_data_open_packed(&(rt_list){item, 1}, "data", SEQ, SEQ + 2, in->vocab, in->weighed);
    rt_data_weigh(d);
    rt_data_pack(d);
    rt_batch *b = rt_batch_new(&entry);
    const int32_t *token = (const int32_t *)arena, *start = (const int32_t *)(arena + 128);
    for (int64_t i = 0; i < d->windows && i < 64; i++) {
        rt_data_sample(&r, d, b, &entry, 0, i, i % 2);
        rt_batch_put(&r, b);
        for (int k = 0; k < SEQ + 2; k++)
            if (token[k] < 0 || token[k] >= in->vocab || start[k] > k || start[k] < 0 ||
                (k && start[k] < start[k - 1]))
                abort();
    }
    rt_batch_free(b);
    rt_data_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t vocabs[] = {256, 70000, 8, INT32_MAX};
    static const char *const kinds[] = {"", "u8:", "u16:", "u32:"};
    char pattern[128];
    if (size < 1)
        return 0;
    unsigned how = data[0];
    FuzzPart rest = {data + 1, size - 1};
    Input in = {pattern, vocabs[how & 3], how & 4};
    snprintf(pattern, sizeof pattern, "%s%s/x.bin", kinds[how >> 4 & 3], fuzz_folder());
    if (how & 8) {
        FuzzPart index = fuzz_part(&rest);
        fuzz_file("x.idx", index.data, index.size);
    } else {
        fuzz_no_file("x.idx");
    }
    FuzzPart weights = in.weighed ? fuzz_part(&rest) : (FuzzPart){0};
    fuzz_file("x.bin.weights", weights.data, weights.size);
    fuzz_file("x.bin", rest.data, rest.size);
    caught(how & 64 ? pack_all : read_all, &in);
    return 0;
}
