/* ends.c - the ids that end a text: eos_token_id of generation_config.json and config.json, and the
 * eos_token of tokenizer_config.json. Any of them does: a base's file may name another token than
 * the template of its tuned model writes. */
#include "runtime/speech/speech.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add(rt_speech *s, int32_t id)
{
    vec_push(s->a, &s->end, id);
}

static void add_number(rt_speech *s, const char *path, const json_t *v)
{
    const double id = json_number_value(v);
    if (!json_is_number(v) || id != (double)(int32_t)id || id < 0)
        rt_die(RT_BAD_DATA, "%s: eos_token_id is no id, and no list of ids", path);
    add(s, (int32_t)id);
}

/* Whole numbers are read as real ones: model_max_length often is 10^30. */
static json_t *config(rt_speech *s, const char *path)
{
    json_error_t e;
    size_t size;
    if (access(path, F_OK) != 0)
        return NULL;
    const char *text = rt_speech_file(s->a, path, &size);
    json_t *v = json_loadb(text, size, JSON_DECODE_INT_AS_REAL, &e);
    if (!v)
        rt_die(RT_BAD_DATA, "%s:%d:%d: %s", path, e.line, e.column, e.text);
    return v;
}

static void of_folder(rt_speech *s, const char *inside)
{
    static const char *const names[] = {"generation_config.json", "config.json"};
    for (int k = 0; k < 2; k++) {
        const char *path = chat_beside(s->a, inside, names[k]);
        json_t *all = config(s, path), *eos = json_object_get(all, "eos_token_id"), *v;
        size_t i;
        json_array_foreach(eos, i, v)
            add_number(s, path, v);
        if (eos && !json_is_array(eos) && !json_is_null(eos))
            add_number(s, path, eos);
        json_decref(all);
    }
}

void rt_speech_ends(rt_speech *s)
{
    struct stat st;
    const char *init = s->r->options->init;
    of_folder(s, s->path);
    if (init && s->r->options->tokenizer && stat(init, &st) == 0)
        of_folder(s, S_ISDIR(st.st_mode) ? arena_printf(s->a, "%s/config.json", init) : init);
    json_t *all = config(s, chat_beside(s->a, s->path, "tokenizer_config.json"));
    json_t *eos = json_object_get(all, "eos_token");
    const char *text =
        json_string_value(json_is_object(eos) ? json_object_get(eos, "content") : eos);
    const int32_t id = text ? tok_named(s->t, text) : -1;
    if (id >= 0)
        add(s, id);
    json_decref(all);
}
