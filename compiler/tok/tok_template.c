/* tok_template.c - a tokenizer's chat template: --chat-template FILE, or chat_template.jinja beside
 * tokenizer.json, or the key of that name in the tokenizer_config.json there. */
#include "compiler/tok/tok_chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool bad(Session *s, const char *path, const char *why)
{
    diag_error(s->diag, (Span){0}, 576, "%s: %s", path, why);
    return false;
}

static const char *beside(Session *s, const char *name)
{
    const char *path = s->o->tokenizer, *slash = strrchr(path, '/');
    return slash ? arena_printf(s->arena, "%.*s/%s", (int)(slash - path), path, name) : name;
}

/* ---- parsing ------------------------------------------------------------------------------- */

static JinTemplate *parse(Session *s, const char *path, const char *text, size_t n, uint32_t *file)
{
    size_t size;
    JinError e;
    char *source = jin_source(s->arena, text, n, &size);
    *file = diag_add_file(s->diag, path, source, size);
    JinTemplate *t = jin_parse(s->arena, source, size, &e);
    if (!t)
        diag_error(s->diag, (Span){*file, e.at, e.end}, 576, "%s", e.text);
    return t;
}

static bool parse_json(Session *s, ChatTemplate *c, const char *path, const char *name,
                       const json_t *text, bool tools)
{
    const char *shown = name ? arena_printf(s->arena, "%s (chat_template %.60s)", path, name)
                             : arena_printf(s->arena, "%s (chat_template)", path);
    JinTemplate *t =
        parse(s, shown, json_string_value(text), json_string_length(text), &c->file[tools]);
    if (tools)
        c->tools = t;
    else
        c->plain = t;
    return t != NULL;
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

static const char *names_in(Session *s, json_t *named)
{
    const char *key, *all = "";
    json_t *v;
    json_object_foreach(named, key, v)
        all = arena_printf(s->arena, "%s%s%.60s", all, *all ? ", " : "", key);
    return all;
}

static bool read_named(Session *s, ChatTemplate *c, const char *path, const json_t *from)
{
    const char *want = s->o->template_name, *name = want ? want : "default";
    json_t *named = by_name(from), *text = json_object_get(named, name),
           *tools = want ? NULL : json_object_get(named, "tool_use");
    bool good = json_is_string(text) && parse_json(s, c, path, name, text, false);
    if (!json_is_string(text))
        bad(s, path,
            arena_printf(s->arena, "no chat template '%.60s'; there are: %s", name,
                         names_in(s, named)));
    if (good && json_is_string(tools))
        good = parse_json(s, c, path, "tool_use", tools, true);
    json_decref(named);
    return good;
}

/* ---- finding ------------------------------------------------------------------------------- */

/* bos_token and the others, each a string or an object with its content. */
static void read_tokens(Session *s, ChatTemplate *c, const json_t *config)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)config, key, v) {
        size_t n = strlen(key);
        json_t *text = json_is_object(v) ? json_object_get(v, "content") : v;
        if (n < 6 || strcmp(key + n - 6, "_token") != 0 || !json_is_string(text))
            continue;
        JinVariable token = {arena_strdup(s->arena, key),
                             jin_text(s->arena, json_string_value(text), json_string_length(text))};
        vec_push(s->arena, &c->token, token);
    }
}

/* Whole numbers are read as real ones: model_max_length often is 10^30, and no number matters here.
 */
static json_t *read_config(Session *s, const char *path)
{
    json_error_t e;
    size_t size;
    if (access(path, F_OK) != 0)
        return NULL;
    uint32_t file = read_source(s, path);
    if (!file)
        return NULL;
    const char *text = diag_text(s->diag, file, &size);
    json_t *v = json_loadb(text, size, JSON_DECODE_INT_AS_REAL, &e);
    if (!v)
        diag_error(s->diag, (Span){0}, 576, "%s:%d:%d: %s", path, e.line, e.column, e.text);
    return v;
}

static bool read_file(Session *s, ChatTemplate *c, const char *path)
{
    size_t size;
    uint32_t file = read_source(s, path);
    if (!file)
        return false;
    const char *text = diag_text(s->diag, file, &size);
    if (s->o->template_name)
        return bad(s, path, "has one template, and --template-name asks for a name");
    c->plain = parse(s, path, text, size, &c->file[0]);
    return c->plain != NULL;
}

static bool find(Session *s, ChatTemplate *c, const char *path, const json_t *config)
{
    const char *own = beside(s, "chat_template.jinja");
    json_t *text = json_object_get(config, "chat_template");
    if (s->o->chat_template)
        return read_file(s, c, s->o->chat_template);
    if (access(own, F_OK) == 0 && !s->o->template_name)
        return read_file(s, c, own);
    if (json_is_string(text) && s->o->template_name)
        return bad(s, path, "has one template, and --template-name asks for a name");
    if (json_is_string(text))
        return parse_json(s, c, path, NULL, text, false);
    if (json_is_array(text) || json_is_object(text))
        return read_named(s, c, path, text);
    diag_error(s->diag, (Span){0}, 576,
               "no chat template: %s has none, and there is no chat_template.jinja beside it",
               path);
    diag_help(s->diag, "give one with --chat-template FILE");
    return false;
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

ChatTemplate *tok_template(Session *s, time_t now)
{
    ChatTemplate *c = NEW(s->arena, ChatTemplate);
    const char *path = beside(s, "tokenizer_config.json");
    int errors = diag_errors(s->diag);
    json_t *config = read_config(s, path);
    c->now = now;
    bool good = diag_errors(s->diag) == errors;
    if (good)
        read_tokens(s, c, config);
    good = good && find(s, c, path, config);
    json_decref(config);
    if (!good)
        return NULL;
    c->parsed_arguments = calls_taken(c, "{\"x\": 1}") >= calls_taken(c, "\"{}\"");
    return c;
}
