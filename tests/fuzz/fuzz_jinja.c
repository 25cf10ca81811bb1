/* fuzz_jinja.c - libFuzzer target: any bytes as a chat template, rendered with a conversation. What
 * is parsed renders, or is refused with a place inside of the template. */
#include "text/jinja/jinja.h"

#include <stdlib.h>

static const char talk[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
    "\"content\": \"b\"}],"
    " \"tools\": [{\"f\": {\"x\": [1, 2.5, null, true, \"\u00e9\"]}}], \"bos_token\": \"<s>\","
    " \"add_generation_prompt\": true}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena *a = arena_new();
    JinError e = {0};
    size_t n;
    char *source = jin_source(a, (const char *)data, size, &n);
    JinTemplate *t = jin_parse(a, source, n, &e);
    json_t *v = json_loads(talk, 0, NULL), *value;
    JinVariable variable[8];
    JinText out = {0};
    const char *key;
    size_t k = 0;
    json_object_foreach(v, key, value)
        variable[k++] = (JinVariable){key, jin_from_json(a, value)};
    bool good = t && jin_render(t, a, variable, k, 0, &out, &e);
    if (!good && (e.at > n || !e.text[0]))
        abort();
    for (size_t i = 0; good && i < out.generations; i++)
        if (out.generation[i].end > out.n || out.generation[i].begin > out.generation[i].end)
            abort();
    if (good)
        free(out.text);
    json_decref(v);
    arena_free(a);
    return 0;
}
