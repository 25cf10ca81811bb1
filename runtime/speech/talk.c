/* talk.c - conversations: messages, as the chat template writes them, as ids. */
#include "runtime/speech/speech.h"

#include <stdlib.h>
#include <string.h>

struct rt_talk {
    rt_speech *s;
    json_t *messages;
};

bool rt_speech_talks(rt_speech *s)
{
    TextError e;
    const ChatFiles f = {s->path, s->r->options->chat_template, NULL, rt_speech_file, s->a};
    if (s->looked)
        return s->chat;
    s->looked = true;
    s->chat = chat_template(s->a, &f, &e);
    if (!s->chat && (!e.none || s->r->options->system))
        rt_speech_wrong(&e);
    if (s->chat)
        s->chat->now = time(NULL);
    return s->chat;
}

rt_talk *rt_talk_new(rt_speech *s, const char *system)
{
    rt_talk *t = rt_alloc(1, sizeof *t);
    *t = (rt_talk){s, json_array()};
    if (system)
        rt_talk_say(t, "system", system, strlen(system));
    return t;
}

void rt_talk_free(rt_talk *t)
{
    json_decref(t->messages);
    free(t);
}

void rt_talk_say(rt_talk *t, const char *role, const char *text, size_t n)
{
    char *line = rt_alloc(n + 1, 1); /* a terminal may send what is no UTF-8 */
    memcpy(line, text ? text : "", text ? n : 0);
    char *whole = rt_whole_utf8(line);
    json_array_append_new(t->messages, json_pack("{s:s, s:s}", "role", role, "content", whole));
    free(whole);
    free(line);
}

/* The ids of messages with the beginning of an answer; NULL: e says why. */
static int32_t *rendered(rt_speech *s, const json_t *messages, const json_t *tools, int64_t *n,
                         TextError *e)
{
    Arena *a = arena_new();
    const bool with = json_array_size(tools) && s->chat->tools;
    JinText out;
    JinError je;
    int32_t *id = NULL;
    if (chat_render(s->chat, with ? s->chat->tools : s->chat->plain, a, jin_from_json(a, messages),
                    jin_from_json(a, tools), true, &out, &je)) {
        id = rt_speech_encode(s, out.text ? out.text : "", out.n, false, n);
        free(out.text);
    } else {
        const ChatSource *from = &s->chat->from[with];
        text_error(e, s->a, "%s", je.text);
        e->path = from->path;
        e->source = from->text;
        e->size = from->size;
        e->begin = je.at;
    }
    arena_free(a);
    return id;
}

int32_t *rt_talk_turn(rt_talk *t, int64_t *n)
{
    TextError e;
    int32_t *id = rendered(t->s, t->messages, NULL, n, &e);
    if (!id)
        rt_speech_wrong(&e);
    if (!*n)
        rt_die(RT_BAD_DATA, "%s writes nothing of a conversation", t->s->chat->from[0].path);
    return id;
}

/* ---- lines of --batch ----------------------------------------------------------------------- */

static int32_t *refuse(char **why, const char *text)
{
    *why = rt_printf("%s", text);
    return NULL;
}

static const char *role_of(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role ? role : "";
}

static int32_t *of_messages(rt_speech *s, json_t *messages, const json_t *tools, int64_t *n,
                            char **why)
{
    const char *system = s->r->options->system;
    const size_t count = json_array_size(messages);
    TextError e;
    size_t i;
    json_t *v;
    if (!count)
        return refuse(why, "'messages' is no list, or empty");
    json_array_foreach(messages, i, v)
        if (!*role_of(v))
            return refuse(why, "'messages' holds one without a 'role'");
    if (strcmp(role_of(json_array_get(messages, count - 1)), "assistant") == 0)
        return refuse(why, "its last message is of the assistant, and there is nothing to answer");
    if (!rt_speech_talks(s))
        return refuse(why, "it has 'messages', and the tokenizer no chat template: "
                           "--chat-template FILE gives one");
    if (system && strcmp(role_of(json_array_get(messages, 0)), "system") != 0)
        json_array_insert_new(messages, 0,
                              json_pack("{s:s, s:s}", "role", "system", "content", system));
    int32_t *id = rendered(s, messages, tools, n, &e);
    if (!id)
        *why = rt_printf("the chat template: %s", e.text);
    return id;
}

int32_t *rt_talk_question(rt_speech *s, const char *line, size_t size, int64_t *n, char **why)
{
    json_error_t je;
    int32_t *id;
    json_t *o = json_loadb(line, size, 0, &je), *prompt = json_object_get(o, "prompt"),
           *messages = json_object_get(o, "messages");
    if (!o)
        id = refuse(why, je.text);
    else if (messages)
        id = of_messages(s, messages, json_object_get(o, "tools"), n, why);
    else if (json_is_string(prompt))
        id = rt_speech_encode(s, json_string_value(prompt), json_string_length(prompt), true, n);
    else
        id = refuse(why, "it has neither 'messages' nor a text as its 'prompt'");
    if (id && !*n) {
        free(id);
        id = refuse(why, "it has no token");
    }
    json_decref(o);
    return id;
}
