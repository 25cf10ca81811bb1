/* factory_data.c - datasets: entries of dataset_info.json, or files, as commands of mgc tok. */
#include "compiler/recipe/factory.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
#define KEY(name, type, kind, standard, why) {name, KEY_##type, KEY_##kind, standard, why},
static const Key entry_table[] = {
    KEY("file_name", text, TAKEN, NULL, "")
    KEY("hf_hub_url", text, TAKEN, NULL, "")
    KEY("ms_hub_url", text, TAKEN, NULL, "")
    KEY("om_hub_url", text, TAKEN, NULL, "")
    KEY("script_url", text, TAKEN, NULL, "")
    KEY("cloud_file_name", text, TAKEN, NULL, "")
    KEY("file_sha1", text, UNNEEDED, NULL, "the files are read as they are")
    KEY("load_from", text, TAKEN, NULL, "")
    KEY("subset", text, UNNEEDED, NULL, "of a hub; here it is a file")
    KEY("split", text, UNNEEDED, NULL, "of a hub; here it is a file")
    KEY("folder", text, UNNEEDED, NULL, "of a hub; here it is a file")
    KEY("num_samples", whole, ONLY, NULL, "records drawn at random")
    KEY("formatting", text, TAKEN, "alpaca", "")
    KEY("ranking", flag, TAKEN, "false", "")
    KEY("columns", map, TAKEN, NULL, "")
    KEY("columns.prompt", text, TAKEN, "instruction", "")
    KEY("columns.query", text, TAKEN, "input", "")
    KEY("columns.response", text, TAKEN, "output", "")
    KEY("columns.history", text, TAKEN, "history", "")
    KEY("columns.system", text, TAKEN, "system", "")
    KEY("columns.tools", text, TAKEN, "tools", "")
    KEY("columns.messages", text, TAKEN, "conversations", "")
    KEY("columns.chosen", text, TAKEN, "chosen", "")
    KEY("columns.rejected", text, TAKEN, "rejected", "")
    KEY("columns.kto_tag", text, TAKEN, "kto_tag", "")
    KEY("columns.images", text, ONLY, NULL, "images")
    KEY("columns.videos", text, ONLY, NULL, "videos")
    KEY("columns.audios", text, ONLY, NULL, "sounds")
    KEY("tags", map, TAKEN, NULL, "")
    KEY("tags.role_tag", text, TAKEN, "from", "")
    KEY("tags.content_tag", text, TAKEN, "value", "")
    KEY("tags.user_tag", text, TAKEN, "human", "")
    KEY("tags.assistant_tag", text, TAKEN, "gpt", "")
    KEY("tags.observation_tag", text, TAKEN, "observation", "")
    KEY("tags.function_tag", text, TAKEN, "function_call", "")
    KEY("tags.system_tag", text, TAKEN, "system", "")
};
#undef KEY
/* clang-format on */

/* ---- formats -----------------------------------------------------------------------------------
 */

typedef struct Expect {
    const char *key, *value;
} Expect;

/* Keys that mgc tok has another name for than the file. */
static const Expect of_messages[] = {{"columns.messages", "messages"},
                                     {"tags.role_tag", "role"},
                                     {"tags.content_tag", "content"},
                                     {"tags.user_tag", "user"},
                                     {"tags.assistant_tag", "assistant"}};

static bool is(const Keys *k, const Expect *e)
{
    return !strcmp(keys_text(k, e->key), e->value);
}

static void say(Keys *k, const char *format)
{
    static const char *const all[] = {
        "columns.prompt",   "columns.query",      "columns.response",     "columns.history",
        "columns.system",   "columns.tools",      "columns.messages",     "columns.chosen",
        "columns.rejected", "columns.kto_tag",    "tags.role_tag",        "tags.content_tag",
        "tags.user_tag",    "tags.assistant_tag", "tags.observation_tag", "tags.function_tag",
        "tags.system_tag"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (keys_given(k, all[i]))
            keys_here(k, all[i], "mgc tok --format %s", format);
    for (size_t i = 0; i < sizeof entry_table / sizeof *entry_table; i++)
        if (entry_table[i].type == KEY_map && k->said[i].item)
            keys_idle(k, entry_table[i].name, "it is empty");
    keys_here(k, "formatting", "mgc tok --format %s", format);
}

/* All that is given has the name that mgc tok reads. */
static void check_names(Keys *k, const char *format, const char *prefix)
{
    for (size_t i = 0; i < sizeof entry_table / sizeof *entry_table; i++) {
        const Key *row = &entry_table[i];
        const bool named = !strncmp(row->name, prefix, strlen(prefix)) && row->type == KEY_text &&
                           row->kind == KEY_TAKEN;
        if (!named || !keys_given(k, row->name) || !strcmp(keys_text(k, row->name), row->standard))
            continue;
        if (!strcmp(row->name, "columns.kto_tag") && !strcmp(keys_text(k, row->name), "label"))
            continue;
        keys_missing(k, row->name,
                     "mgc tok --format %s reads '%s'; rename the key, as by jq -c '.%s = .%s'",
                     format, row->standard, row->standard, keys_text(k, row->name));
    }
}

/* The words of mgc tok about the records. */
static const char *alpaca(Factory *f, Keys *k)
{
    say(k, f->pretrain ? "text" : "alpaca");
    if (f->pretrain)
        return arena_printf(f->s->arena, "--format text --json-key %s",
                            factory_quoted(f, keys_text(k, "columns.prompt")));
    check_names(k, "alpaca", "columns.");
    return "--format alpaca";
}

static const char *sharegpt(Factory *f, Keys *k)
{
    bool messages = true;
    for (size_t i = 0; i < sizeof of_messages / sizeof *of_messages; i++)
        messages = messages && is(k, &of_messages[i]);
    say(k, messages ? "messages" : "sharegpt");
    if (f->pretrain)
        keys_missing(k, "formatting", "conversations at stage pt");
    if (messages)
        return "--format messages";
    check_names(k, "sharegpt", "columns.");
    check_names(k, "sharegpt", "tags.");
    return "--format sharegpt";
}

static const char *format(Factory *f, Keys *k)
{
    const char *name = keys_text(k, "formatting");
    const bool ranked = keys_flag(k, "ranking");
    if (ranked && !f->pairs)
        keys_missing(k, "ranking", "pairs at a stage that does not read them");
    else if (!ranked && f->pairs)
        keys_wrong(k, keys_given(k, "ranking") ? "ranking" : "file_name",
                   "no pairs (ranking: true) at a stage that reads pairs");
    else if (ranked)
        keys_here(k, "ranking", "mgc tok: a record of chosen, one of rejected");
    else
        keys_idle(k, "ranking", "no pairs");
    if (!strcmp(name, "sharegpt") || !strcmp(name, "openai"))
        return sharegpt(f, k);
    if (strcmp(name, "alpaca") != 0)
        keys_wrong(k, "formatting", "'%s' is alpaca, sharegpt or openai", name);
    return alpaca(f, k);
}

/* ---- entries -----------------------------------------------------------------------------------
 */

static bool readable(const char *path)
{
    static const char *const ends[] = {".json", ".jsonl", ".ndjson", ".txt", ".gz", ".zst"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && !strcmp(path + n - strlen(ends[i]), ends[i]))
            return true;
    return false;
}

/* A name for the token file of a set, which no other set has. */
static const char *plain_name(const Factory *f, const char *name, bool held)
{
    char *out = arena_printf(f->s->arena, "%s%s", name, held ? "_held" : "");
    for (char *c = out; *c; c++)
        *c = isalnum((unsigned char)*c) || strchr("_-", *c) ? *c : '_';
    for (size_t i = 0; i < f->sets.n; i++)
        if (!strcmp(f->sets.data[i].name, out))
            return plain_name(f, arena_printf(f->s->arena, "%s_", name), held);
    return out;
}

/* `--chat-template` and what else all sets share. */
static const char *shared(Factory *f)
{
    Keys *k = &f->k;
    Arena *a = f->s->arena;
    const char *on = keys_flag(k, "train_on_prompt") ? " --train-on all"
                     : keys_flag(k, "mask_history")  ? " --train-on last"
                                                     : "";
    const char *cut = arena_printf(a, " --max-length %lld --too-long cut",
                                   (long long)keys_whole(k, "cutoff_len"));
    return f->pretrain    ? (f->packed ? cut : "")
           : f->objective ? cut
                          : arena_printf(a, "%s%s", on, cut);
}

/* The token that ends a text, of tokenizer_config.json. */
static const char *end_of_text(Factory *f)
{
    const char *path = arena_printf(f->s->arena, "%s/tokenizer_config.json", f->model);
    json_t *config = json_load_file(path, 0, NULL), *end = json_object_get(config, "eos_token");
    const char *text =
        json_string_value(json_is_object(end) ? json_object_get(end, "content") : end);
    const char *option =
        text && *text ? arena_printf(f->s->arena, " --eod %s", factory_quoted(f, text)) : "";
    json_decref(config);
    return option;
}

static void add_set(Factory *f, const char *name, const char *path, const char *words, bool held,
                    const char *share)
{
    Arena *a = f->s->arena;
    const int64_t most = keys_whole(&f->k, "max_samples");
    const char *file = factory_quoted(f, path), *first = "";
    const size_t n = strlen(path);
    const char *set = plain_name(f, name, held);
    if (most > 0 && n > 6 && !strcmp(path + n - 6, ".jsonl")) {
        first =
            arena_printf(a, "head -n %lld %s >\"$here\"/%s.jsonl\n", (long long)most, file, set);
        file = arena_printf(a, "\"$here\"/%s.jsonl", set);
    } else if (most > 0)
        keys_missing(&f->k, "max_samples",
                     "the first %lld records of '%s': they can be cut from a .jsonl",
                     (long long)most, path);
    const DataSet d = {
        .name = set,
        .held = held,
        .share = share,
        .command = arena_printf(a, "%s\"$mgc\" tok --tokenizer %s -o \"$here\"/%s %s%s%s %s", first,
                                factory_quoted(f, arena_printf(a, "%s/tokenizer.json", f->model)),
                                set, words, shared(f), f->pretrain ? end_of_text(f) : "", file)};
    vec_push(a, &f->sets, d);
}

static bool remote(Factory *f, Keys *k, const char *name)
{
    static const char *const from[] = {"hf_hub_url", "ms_hub_url",      "om_hub_url",
                                       "script_url", "cloud_file_name", "load_from"};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        if (keys_given(k, from[i])) {
            if (keys_given(k, "file_name"))
                keys_idle(k, from[i], "it is a file");
            else
                keys_wrong(k, from[i],
                           "'%s' lies elsewhere, and mgc loads nothing: save it as .jsonl, and "
                           "give file_name",
                           name);
        }
    if (keys_given(k, "file_name"))
        return false;
    diag_error(f->s->diag, (Span){0}, 618, "dataset '%s' has no file_name", name);
    return k->failed = true;
}

static void add_entry(Factory *f, const MarkedItem *entry, const char *path, bool held,
                      const char *share)
{
    Arena *a = f->s->arena;
    Keys *k = NEW(a, Keys);
    *k = (Keys){.s = f->s,
                .path = path,
                .table = entry_table,
                .n = sizeof entry_table / sizeof *entry_table};
    vec_push(a, &f->others, k);
    const bool map = entry->value->kind == MARKED_map;
    if (!map)
        diag_error(f->s->diag, entry->at, 618, "dataset '%s' is no map", entry->key);
    if (!map || !keys_read(k, entry->value, NULL) || remote(f, k, entry->key)) {
        f->k.failed = true;
        return;
    }
    const char *name = keys_text(k, "file_name"), *slash = strrchr(path, '/');
    const char *file =
        *name == '/' || !slash ? name : arena_printf(a, "%.*s/%s", (int)(slash - path), path, name);
    keys_here(k, "file_name", "mgc tok ... %s", file);
    if (access(file, R_OK))
        keys_wrong(k, "file_name", "'%s' is not there", file);
    else if (!readable(file))
        keys_wrong(k, "file_name",
                   "'%s': mgc tok reads .json, .jsonl and text, also as .gz and .zst", file);
    else
        add_set(f, entry->key, file, format(f, k), held, share);
    f->k.failed |= k->failed;
}

/* ---- dataset: ... ------------------------------------------------------------------------------
 */

static const Marked *info(Factory *f, const char **path)
{
    const char *folder = keys_text(&f->k, "dataset_dir");
    *path = factory_find(f, arena_printf(f->s->arena, "%s/dataset_info.json", folder));
    keys_here(&f->k, "dataset_dir",
              *path ? "%s" : "there is no dataset_info.json: datasets are files", *path);
    const Marked *root = *path ? marks_read(f->s, *path) : NULL;
    f->k.failed |= *path && !root;
    return root;
}

static void add_named(Factory *f, const char *key, const char *name, const Marked *all,
                      const char *path, const char *share)
{
    const bool held = !strcmp(key, "eval_dataset");
    const MarkedItem *entry = marks_find(all, name);
    const char *file = factory_find(f, name);
    if (!file)
        file = factory_find(
            f, arena_printf(f->s->arena, "%s/%s", keys_text(&f->k, "dataset_dir"), name));
    if (entry)
        add_entry(f, entry, path, held, share);
    else if (file && readable(file))
        add_set(f, name, file, f->pretrain ? "--json-key text" : "", held, share);
    else
        keys_wrong(&f->k, key, "'%s' is no dataset of %s, and no file that mgc tok reads", name,
                   path ? path : "a dataset_info.json");
}

static const char *share_of(Factory *f, const Words *shares, size_t i)
{
    double v;
    char *end;
    if (!shares->n)
        return "";
    v = strtod(shares->data[i], &end);
    if (*end || !(v > 0) || v > 1e9)
        keys_wrong(&f->k, "interleave_probs", "'%s' is no share", shares->data[i]);
    return arena_printf(f->s->arena, "%s:", keys_shown(f->s->arena, v));
}

static void mixed(Factory *f, size_t sets, Words *shares)
{
    Keys *k = &f->k;
    Arena *a = f->s->arena;
    const char *how = keys_text(k, "mix_strategy");
    const bool concat = !strcmp(how, "concat");
    *shares = concat ? (Words){0} : keys_list(k, "interleave_probs");
    if (keys_given(k, "interleave_probs"))
        keys_here(k, "interleave_probs", concat ? "all sets are one" : "shares of --data");
    for (size_t i = 0; !concat && !keys_given(k, "interleave_probs") && i < sets; i++)
        vec_push(a, shares, "1");
    keys_here(k, "mix_strategy", concat ? "all sets are one" : "./train --data SHARE:FILE");
    if (!concat && f->objective)
        keys_missing(k, "mix_strategy", "shares of rows that are read by name: concat is here");
    else if (!concat && strncmp(how, "interleave_", 11) != 0)
        keys_wrong(k, "mix_strategy", "'%s' is concat, interleave_under or interleave_over", how);
    else if (!concat && !f->r.steps)
        keys_missing(k, "mix_strategy", "epochs of sets with shares: say max_steps");
    if (!concat && shares->n != sets)
        keys_wrong(k, keys_given(k, "interleave_probs") ? "interleave_probs" : "mix_strategy",
                   "%zu shares of %zu datasets", shares->n, sets);
}

static void add_all(Factory *f, const char *key, const Marked *all, const char *path)
{
    Words names = keys_list(&f->k, key), shares = {0};
    if (!strcmp(key, "dataset"))
        mixed(f, names.n, &shares);
    if (keys_given(&f->k, key))
        keys_here(&f->k, key, "mgc tok; ./train --%s", strcmp(key, "dataset") ? "val" : "data");
    if (shares.n && shares.n != names.n)
        return;
    for (size_t i = 0; i < names.n; i++)
        add_named(f, key, names.data[i], all, path, share_of(f, &shares, i));
}

/* ---- templates and packing ----------------------------------------------------------------------
 */

static bool has_template(const Factory *f)
{
    Arena *a = f->s->arena;
    if (!access(arena_printf(a, "%s/chat_template.jinja", f->model), R_OK))
        return true;
    json_t *config = json_load_file(arena_printf(a, "%s/tokenizer_config.json", f->model), 0, NULL);
    const bool has = json_object_get(config, "chat_template");
    json_decref(config);
    return has;
}

static void chat(Factory *f)
{
    Keys *k = &f->k;
    const char *name = keys_text(k, "template");
    if (name)
        keys_here(k, "template",
                  f->pretrain ? "none: texts"
                              : "the tokenizer's own chat template; where LLaMA-Factory's '%s' "
                                "writes another text, as a system's words of its own, mgc tok "
                                "--chat-template FILE",
                  name);
    if (!f->pretrain && !f->merges && !has_template(f))
        keys_wrong(k, name ? "template" : "model_name_or_path",
                   "%s has no chat template (chat_template.jinja, or in "
                   "tokenizer_config.json): put one there",
                   f->model);
    if (keys_given(k, "default_system"))
        keys_missing(
            k, "default_system",
            "a system's words for records without: write them into the records, or the template");
    if (keys_given(k, "tool_format"))
        keys_here(k, "tool_format", "the tokenizer's own chat template");
    keys_here(k, "enable_thinking", "the tokenizer's own chat template");
}

/* Rows of an objective: each is a record, filled up. */
static void rows(Factory *f)
{
    static const char *const of_windows[] = {"packing", "neat_packing"}, *const of_answers[] = {
                                                                             "train_on_prompt",
                                                                             "mask_history"};
    f->packed = false;
    for (size_t i = 0; i < 2; i++) {
        keys_here(&f->k, of_windows[i], "a record is a row, filled up");
        keys_here(&f->k, of_answers[i],
                  "the answers behind the last question are compared, as there");
    }
}

static void windows(Factory *f)
{
    Keys *k = &f->k;
    const bool given = keys_given(k, "packing"), on = given ? keys_flag(k, "packing") : f->pretrain;
    f->packed = !f->pretrain || !on;
    const char *apart = on && keys_flag(k, "neat_packing")
                            ? "windows of whole documents, each for itself"
                            : "windows of whole documents, each for itself: a step has more of "
                              "them than LLaMA-Factory's, "
                              "and of packing without neat_packing other attention";
    keys_here(k, "packing", "%s", f->packed ? apart : "windows that are cut anywhere, as there");
    keys_here(k, "neat_packing", "%s",
              f->packed ? apart : "windows that are cut anywhere, as there");
    keys_here(k, "train_on_prompt",
              keys_flag(k, "train_on_prompt") ? "mgc tok --train-on all"
                                              : "answers alone are learnt");
    keys_here(k, "mask_history",
              keys_flag(k, "mask_history") ? "mgc tok --train-on last" : "every answer is learnt");
}

static void packing(Factory *f)
{
    Keys *k = &f->k;
    if (f->objective)
        rows(f);
    else
        windows(f);
    if (keys_given(k, "max_samples"))
        keys_here(k, "max_samples", "head -n %lld", (long long)keys_whole(k, "max_samples"));
}

static void media(Factory *f)
{
    static const char *const all[] = {"image_max_pixels",   "image_min_pixels", "video_max_pixels",
                                      "video_min_pixels",   "video_fps",        "video_maxlen",
                                      "audio_sampling_rate"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (keys_given(&f->k, all[i]))
            keys_idle(&f->k, all[i], "the model reads text alone");
}

void factory_data(Factory *f)
{
    const char *path;
    media(f);
    packing(f);
    chat(f);
    const Marked *all = info(f, &path);
    add_all(f, "dataset", all, path);
    add_all(f, "eval_dataset", all, path);
    if (!f->sets.n && !f->merges && !f->k.failed) {
        diag_error(f->s->diag, (Span){0}, 618, "%s has no 'dataset': there is nothing to train on",
                   f->path);
        f->k.failed = true;
    }
}
