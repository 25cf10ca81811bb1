/* template.c - a tokenizer's chat template: a given file, or chat_template.jinja beside
 * tokenizer.json, or the key of that name in the tokenizer_config.json there. */
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Finder {
    Arena *a;
    const ChatFiles *f;
    TextError *e;
    ChatTemplate *c;
} Finder;

const char *chat_beside(Arena *a, const char *tokenizer, const char *name)
{
    const char *slash = strrchr(tokenizer, '/');
    return slash ? arena_printf(a, "%.*s/%s", (int)(slash - tokenizer), tokenizer, name) : name;
}

static bool bad(const Finder *k, const char *path, const char *why)
{
    return text_error(k->e, k->a, "%s: %s", path, why);
}

/* ---- parsing ------------------------------------------------------------------------------- */

static bool parse(const Finder *k, const char *path, const char *text, size_t n, bool tools)
{
    JinError e;
    ChatSource *from = &k->c->from[tools];
    from->path = path;
    from->text = jin_source(k->a, text, n, &from->size);
    JinTemplate *t = jin_parse(k->a, from->text, from->size, &e);
    *(tools ? &k->c->tools : &k->c->plain) = t;
    if (t)
        return true;
    text_error(k->e, k->a, "%s", e.text);
    k->e->path = path;
    k->e->source = from->text;
    k->e->size = from->size;
    k->e->begin = e.at;
    k->e->end = e.end;
    return false;
}

static bool parse_json(const Finder *k, const char *path, const char *name, const json_t *text,
                       bool tools)
{
    const char *shown = name ? arena_printf(k->a, "%s (chat_template %.60s)", path, name)
                             : arena_printf(k->a, "%s (chat_template)", path);
    return parse(k, shown, json_string_value(text), json_string_length(text), tools);
}

/* A list of {name, template}, or an object of templates by name, as an object. */
static json_t *by_name(const json_t *from)
{
    size_t i;
    json_t *v, *out;
    if (json_is_object(from))
        return json_incref((json_t *)from);
    out = json_object();
    json_array_foreach((json_t *)from, i, v) {
        const char *name = json_string_value(json_object_get(v, "name"));
        json_t *text = json_object_get(v, "template");
        if (name && text)
            json_object_set(out, name, text);
    }
    return out;
}

static const char *names_in(Arena *a, json_t *named)
{
    const char *key, *all = "";
    json_t *v;
    json_object_foreach(named, key, v)
        all = arena_printf(a, "%s%s%.60s", all, *all ? ", " : "", key);
    return all;
}

static bool read_named(const Finder *k, const char *path, const json_t *from)
{
    const char *want = k->f->name, *name = want ? want : "default";
    json_t *named = by_name(from), *text = json_object_get(named, name),
           *tools = want ? NULL : json_object_get(named, "tool_use");
    bool good = json_is_string(text) && parse_json(k, path, name, text, false);
    if (!json_is_string(text))
        bad(k, path,
            arena_printf(k->a, "no chat template '%.60s'; there are: %s", name,
                         names_in(k->a, named)));
    if (good && json_is_string(tools))
        good = parse_json(k, path, "tool_use", tools, true);
    json_decref(named);
    return good;
}

/* ---- finding ------------------------------------------------------------------------------- */

/* bos_token and the others, each a string or an object with its content. */
static void read_tokens(const Finder *k, const json_t *config)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)config, key, v) {
        size_t n = strlen(key);
        json_t *text = json_is_object(v) ? json_object_get(v, "content") : v;
        if (n < 6 || strcmp(key + n - 6, "_token") != 0 || !json_is_string(text))
            continue;
        JinVariable token = {arena_strdup(k->a, key),
                             jin_text(k->a, json_string_value(text), json_string_length(text))};
        vec_push(k->a, &k->c->token, token);
    }
}

/* Whole numbers are read as real ones: model_max_length often is 10^30, and no number matters here.
 * False: it is there, and is none. */
static bool read_config(const Finder *k, const char *path, json_t **config)
{
    json_error_t e;
    size_t size;
    *config = NULL;
    if (access(path, F_OK) != 0)
        return true;
    const char *text = k->f->read(k->f->ctx, path, &size);
    if (!text)
        return false;
    *config = json_loadb(text, size, JSON_DECODE_INT_AS_REAL, &e);
    return *config || text_error(k->e, k->a, "%s:%d:%d: %s", path, e.line, e.column, e.text);
}

static bool read_file(const Finder *k, const char *path)
{
    size_t size;
    const char *text = k->f->read(k->f->ctx, path, &size);
    if (!text)
        return false;
    if (k->f->name)
        return bad(k, path, "has one template, and --template-name asks for a name");
    return parse(k, path, text, size, false);
}

static bool find(const Finder *k, const char *path, const json_t *config)
{
    const char *own = chat_beside(k->a, k->f->tokenizer, "chat_template.jinja");
    json_t *text = json_object_get(config, "chat_template");
    if (k->f->given)
        return read_file(k, k->f->given);
    if (access(own, F_OK) == 0 && !k->f->name)
        return read_file(k, own);
    if (json_is_string(text) && k->f->name)
        return bad(k, path, "has one template, and --template-name asks for a name");
    if (json_is_string(text))
        return parse_json(k, path, NULL, text, false);
    if (json_is_array(text) || json_is_object(text))
        return read_named(k, path, text);
    text_error(k->e, k->a,
               "no chat template: %s has none, and there is no chat_template.jinja beside it",
               path);
    k->e->none = true;
    k->e->help = "give one with --chat-template FILE";
    return false;
}

/* ---- rendering ----------------------------------------------------------------------------- */

bool chat_render(const ChatTemplate *c, const JinTemplate *t, Arena *a, JinValue *messages,
                 JinValue *tools, bool prompt, JinText *out, JinError *e)
{
    JinVariable v[64];
    size_t n = 0;
    v[n++] = (JinVariable){"messages", messages};
    v[n++] = (JinVariable){"tools", tools};
    v[n++] = (JinVariable){"documents", jin_from_json(a, NULL)};
    v[n++] = (JinVariable){"add_generation_prompt", jin_bool(a, prompt)};
    for (size_t i = 0; i < c->token.n && n < 64; i++)
        v[n++] = c->token.data[i];
    return jin_render(t, a, v, n, c->now, out, e);
}

/* ---- arguments of calls -------------------------------------------------------------------- */

/* How many of some conversations the template takes, with calls whose arguments are such a value.
 */
static int calls_taken(const ChatTemplate *c, const char *arguments)
{
    static const char form[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\","
        " \"content\": %s, \"tool_calls\": [{\"id\": \"abcdefghi\", \"type\": \"function\","
        " \"function\": {\"name\": \"f\", \"arguments\": %s}}]}, {\"role\": \"tool\", \"name\":"
        " \"f\", \"tool_call_id\": \"abcdefghi\", \"content\": \"b\"}, {\"role\": \"assistant\","
        " \"content\": \"c\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\":"
        " \"f\", \"description\": \"d\", \"parameters\": {\"type\": \"object\","
        " \"properties\": {}}}}]}";
    int taken = 0;
    for (int i = 0; i < 2; i++) {
        Arena *a = arena_new();
        json_t *v = json_loads(arena_printf(a, form, i ? "null" : "\"\"", arguments), 0, NULL),
               *value;
        VEC(JinVariable) all = {0};
        JinText out;
        JinError e;
        const char *key;
        json_object_foreach(v, key, value)
            vec_push(a, &all, (JinVariable){key, jin_from_json(a, value)});
        vec_push(a, &all, (JinVariable){"add_generation_prompt", jin_bool(a, false)});
        for (size_t j = 0; j < c->token.n; j++)
            vec_push(a, &all, c->token.data[j]);
        if (jin_render(c->tools ? c->tools : c->plain, a, all.data, all.n, c->now, &out, &e)) {
            free(out.text);
            taken++;
        }
        json_decref(v);
        arena_free(a);
    }
    return taken;
}

ChatTemplate *chat_template(Arena *a, const ChatFiles *f, TextError *e)
{
    const Finder k = {a, f, e, NEW(a, ChatTemplate)};
    const char *path = chat_beside(a, f->tokenizer, "tokenizer_config.json");
    json_t *config;
    *e = (TextError){0};
    bool good = read_config(&k, path, &config);
    if (good)
        read_tokens(&k, config);
    good = good && find(&k, path, config);
    json_decref(config);
    if (!good)
        return NULL;
    k.c->parsed_arguments = calls_taken(k.c, "{\"x\": 1}") >= calls_taken(k.c, "\"{}\"");
    return k.c;
}
