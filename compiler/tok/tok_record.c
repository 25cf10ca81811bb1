/* tok_record.c - records of the formats alpaca, sharegpt and messages as conversations. */
#include "compiler/tok/tok_chat.h"

#include <string.h>

static bool bad(Record *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool bad(Record *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- which format -------------------------------------------------------------------------- */

const char *tok_format_name(ChatFormat f)
{
    static const char *const names[] = {"", "text", "alpaca", "sharegpt", "messages"};
    return names[f];
}

static bool has(const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return v && !json_is_null(v);
}

ChatFormat tok_format_of(const json_t *o)
{
    if (has(o, "conversations"))
        return CHAT_sharegpt;
    if (has(o, "messages") || (has(o, "prompt") && has(o, "completion")) ||
        (has(o, "chosen") && has(o, "rejected") && !has(o, "instruction")))
        return CHAT_messages;
    return has(o, "instruction") ? CHAT_alpaca : CHAT_none;
}

ChatKind tok_kind_of(const json_t *o)
{
    if (has(o, "chosen") && has(o, "rejected"))
        return CHAT_pairs;
    return json_is_boolean(json_object_get(o, "label")) ||
                   json_is_boolean(json_object_get(o, "kto_tag"))
               ? CHAT_labelled
               : CHAT_plain;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void add(Talk *t, const char *role, const char *text, size_t n)
{
    json_t *m = json_object();
    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", json_stringn_nocheck(text, n));
    json_array_append_new(t->messages, m);
}

/* A list of parts of text as one text. */
static json_t *joined_parts(Record *r, const json_t *parts, size_t number)
{
    size_t i, n = 0, at = 0;
    json_t *part;
    json_array_foreach((json_t *)parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        json_t *text = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text)) {
            bad(r, "message %zu has a part of type '%.40s': only text is built", number,
                type ? type : "");
            return NULL;
        }
        n += json_string_length(text);
    }
    char *whole = malloc(n + 1);
    if (!whole)
        abort();
    json_array_foreach((json_t *)parts, i, part) {
        json_t *text = json_object_get(part, "text");
        memcpy(whole + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    json_t *v = json_stringn_nocheck(whole, n);
    free(whole);
    return v;
}

/* The call with its arguments as an object, where they are JSON in a string, or the other way. */
static json_t *with_arguments(const json_t *call, bool parsed)
{
    json_t *out = json_copy((json_t *)call), *f = json_object_get(call, "function");
    json_t *holder = json_is_object(f) ? json_copy(f) : json_incref(out);
    json_t *given = json_object_get(holder, "arguments"), *made = NULL;
    if (parsed && json_is_string(given))
        made =
            json_loadb(json_string_value(given), json_string_length(given), JSON_ALLOW_NUL, NULL);
    if (!parsed && json_is_object(given)) {
        char *text = json_dumps(given, 0);
        made = json_string_nocheck(text ? text : "");
        free(text);
    }
    if (made && json_is_object(made) == parsed)
        json_object_set(holder, "arguments", made);
    if (json_is_object(f))
        json_object_set(out, "function", holder);
    json_decref(made);
    json_decref(holder);
    return out;
}

static bool set_calls(Record *r, json_t *m, json_t *calls, size_t number, bool parsed)
{
    size_t i;
    json_t *call, *list = json_array();
    json_array_foreach(calls, i, call) {
        json_t *f = json_object_get(call, "function");
        if (!json_is_string(json_object_get(json_is_object(f) ? f : call, "name"))) {
            json_decref(list);
            return bad(r, "message %zu has a tool call without a name", number);
        }
        json_array_append_new(list, with_arguments(call, parsed));
    }
    json_object_set_new(m, "tool_calls", list);
    return true;
}

/* A message as it is given, checked, with its content one text. */
static bool add_message(Record *r, Talk *t, const json_t *from, bool parsed)
{
    size_t number = json_array_size(t->messages) + 1;
    json_t *content = json_object_get(from, "content"),
           *calls = json_object_get(from, "tool_calls");
    if (!json_is_object(from) || !json_is_string(json_object_get(from, "role")))
        return bad(r, "message %zu has no role", number);
    json_t *m = json_copy((json_t *)from);
    json_array_append_new(t->messages, m);
    if (calls && !json_is_null(calls) && !json_is_array(calls))
        return bad(r, "message %zu has tool calls that are no list", number);
    if (json_array_size(calls) && !set_calls(r, m, calls, number, parsed))
        return false;
    if (json_is_array(content)) {
        json_t *text = joined_parts(r, content, number);
        return text && json_object_set_new(m, "content", text) == 0;
    }
    if (json_is_string(content) || (json_array_size(calls) && (!content || json_is_null(content))))
        return true;
    return bad(r, "message %zu has no content", number);
}

static bool add_messages(Record *r, Talk *t, const json_t *list, bool parsed)
{
    size_t i;
    json_t *m;
    json_array_foreach((json_t *)list, i, m)
        if (!add_message(r, t, m, parsed))
            return false;
    return true;
}

/* ---- alpaca -------------------------------------------------------------------------------- */

static bool add_text(Record *r, Talk *t, const char *role, const json_t *text, const char *key)
{
    if (!json_is_string(text))
        return bad(r, "no text under the key '%s'", key);
    add(t, role, json_string_value(text), json_string_length(text));
    return true;
}

static bool alpaca_question(Record *r, Talk *t, const json_t *o)
{
    json_t *instruction = json_object_get(o, "instruction"), *input = json_object_get(o, "input");
    if (input && !json_is_null(input) && !json_is_string(input))
        return bad(r, "no text under the key 'input'");
    if (!json_string_length(input))
        return add_text(r, t, "user", instruction, "instruction");
    if (!json_is_string(instruction))
        return bad(r, "no text under the key 'instruction'");
    size_t a = json_string_length(instruction), b = json_string_length(input);
    char *both = malloc(a + b + 2);
    if (!both)
        abort();
    memcpy(both, json_string_value(instruction), a);
    both[a] = '\n';
    memcpy(both + a + 1, json_string_value(input), b);
    if (a)
        add(t, "user", both, a + b + 1);
    else
        add(t, "user", json_string_value(input), b);
    free(both);
    return true;
}

static bool alpaca_talk(Record *r, Talk *t, const json_t *o, const char *answer)
{
    size_t i;
    json_t *turn, *system = json_object_get(o, "system"), *history = json_object_get(o, "history");
    if (json_string_length(system) && !add_text(r, t, "system", system, "system"))
        return false;
    if (history && !json_is_null(history) && !json_is_array(history))
        return bad(r, "the history is no list");
    json_array_foreach(history, i, turn) {
        if (json_array_size(turn) != 2)
            return bad(r, "turn %zu of the history is no pair of texts", i + 1);
        if (!add_text(r, t, "user", json_array_get(turn, 0), "history") ||
            !add_text(r, t, "assistant", json_array_get(turn, 1), "history"))
            return false;
    }
    if (!alpaca_question(r, t, o))
        return false;
    t->answer = json_array_size(t->messages);
    return add_text(r, t, "assistant", json_object_get(o, answer), answer);
}

/* ---- sharegpt ------------------------------------------------------------------------------ */

static const char *role_of(const char *from)
{
    static const char *const names[][2] = {{"human", "user"},
                                           {"user", "user"},
                                           {"gpt", "assistant"},
                                           {"chatgpt", "assistant"},
                                           {"bing", "assistant"},
                                           {"bard", "assistant"},
                                           {"assistant", "assistant"},
                                           {"model", "assistant"},
                                           {"system", "system"},
                                           {"observation", "tool"},
                                           {"tool", "tool"},
                                           {"function_response", "tool"},
                                           {"function_call", "function_call"}};
    for (size_t i = 0; from && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], from) == 0)
            return names[i][1];
    return NULL;
}

/* {"name": ..., "arguments": ...}, or a list of such, in a text. */
static bool add_function_call(Record *r, Talk *t, const json_t *value, bool parsed)
{
    size_t i, number = json_array_size(t->messages) + 1;
    json_t *v = json_loadb(json_string_value(value), json_string_length(value), JSON_ALLOW_NUL,
                           NULL),
           *one, *calls = json_array(), *m = json_object();
    json_t *list = json_is_object(v) ? json_array() : json_incref(v);
    if (json_is_object(v))
        json_array_append(list, v);
    json_array_foreach(list, i, one) {
        json_t *call = json_object();
        json_object_set_new(call, "type", json_string("function"));
        json_object_set(call, "function", one);
        json_array_append_new(calls, call);
    }
    json_object_set_new(m, "role", json_string("assistant"));
    json_object_set_new(m, "content", json_string(""));
    bool good = json_array_size(calls) ? set_calls(r, m, calls, number, parsed)
                                       : bad(r, "message %zu is no call of a function", number);
    json_array_append_new(t->messages, m);
    json_decref(calls);
    json_decref(list);
    json_decref(v);
    return good;
}

static bool add_turn(Record *r, Talk *t, const json_t *turn, bool parsed)
{
    size_t number = json_array_size(t->messages) + 1;
    json_t *from = json_object_get(turn, "from"), *value = json_object_get(turn, "value");
    if (!from && json_is_string(json_object_get(turn, "role")))
        return add_message(r, t, turn, parsed);
    const char *role = role_of(json_string_value(from));
    if (!role)
        return bad(r, "message %zu is from '%.40s', which is not known", number,
                   json_is_string(from) ? json_string_value(from) : "");
    if (!json_is_string(value))
        return bad(r, "message %zu has no value", number);
    if (strcmp(role, "function_call") == 0)
        return add_function_call(r, t, value, parsed);
    add(t, role, json_string_value(value), json_string_length(value));
    return true;
}

static bool sharegpt_talk(Record *r, Talk *t, const json_t *o, const char *answer, bool parsed)
{
    size_t i;
    json_t *turn, *list = json_object_get(o, "conversations"),
                  *system = json_object_get(o, "system");
    if (!json_is_array(list))
        return bad(r, "no list under the key 'conversations'");
    if (json_string_length(system) && !add_text(r, t, "system", system, "system"))
        return false;
    json_array_foreach(list, i, turn)
        if (!add_turn(r, t, turn, parsed))
            return false;
    t->answer = json_array_size(t->messages);
    return !answer || add_turn(r, t, json_object_get(o, answer), parsed);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* The answer after a prompt: messages, or a text. */
static bool add_answer(Record *r, Talk *t, const json_t *o, const char *key, bool parsed)
{
    json_t *v = json_object_get(o, key);
    if (json_is_array(v))
        return add_messages(r, t, v, parsed);
    return add_text(r, t, "assistant", v, key);
}

static bool messages_talk(Record *r, Talk *t, const json_t *o, const char *answer, bool parsed)
{
    json_t *prompt = json_object_get(o, "prompt"), *list = json_object_get(o, "messages");
    json_t *whole = answer ? json_object_get(o, answer) : NULL;
    const char *first = json_string_value(json_object_get(json_array_get(whole, 0), "role"));
    if (!answer && !json_is_array(list))
        return bad(r, "no list under the key 'messages'");
    if (list && !add_messages(r, t, list, parsed))
        return false;
    bool has_prompt = first && strcmp(first, "assistant") != 0; /* with the prompt before it */
    if (!list && json_is_array(prompt) && !add_messages(r, t, prompt, parsed))
        return false;
    if (!list && json_is_string(prompt) && !has_prompt)
        add(t, "user", json_string_value(prompt), json_string_length(prompt));
    t->answer = json_array_size(t->messages);
    if (answer && !t->answer && !has_prompt)
        return bad(r, "no prompt before the answer '%s'", answer);
    return !answer || add_answer(r, t, o, answer, parsed);
}

/* Of two whole conversations the messages that both begin with are the prompt. */
static void common_prompt(Record *r)
{
    size_t n = 0, a = json_array_size(r->talk[0].messages),
           b = json_array_size(r->talk[1].messages);
    if (r->talk[0].answer || r->talk[1].answer)
        return;
    while (
        n < a && n < b &&
        json_equal(json_array_get(r->talk[0].messages, n), json_array_get(r->talk[1].messages, n)))
        n++;
    r->talk[0].answer = r->talk[1].answer = n;
}

/* ---- a record ------------------------------------------------------------------------------ */

static bool read_tools(Record *r, const json_t *o)
{
    json_t *tools = json_object_get(o, "tools");
    if (json_is_string(tools) && json_string_length(tools)) {
        r->tools =
            json_loadb(json_string_value(tools), json_string_length(tools), JSON_ALLOW_NUL, NULL);
        if (!json_is_array(r->tools))
            return bad(r, "the tools are no list in JSON");
    } else if (json_is_array(tools)) {
        r->tools = json_incref(tools);
    } else if (tools && !json_is_null(tools) && !json_is_string(tools)) {
        return bad(r, "the tools are no list");
    }
    if (r->tools && !json_array_size(r->tools)) {
        json_decref(r->tools);
        r->tools = NULL;
    }
    return true;
}

static bool read_talk(Record *r, Talk *t, const json_t *o, ChatFormat f, const char *answer,
                      bool parsed)
{
    t->messages = json_array();
    if (f == CHAT_alpaca)
        return alpaca_talk(r, t, o, answer ? answer : "output");
    if (f == CHAT_sharegpt)
        return sharegpt_talk(r, t, o, answer, parsed);
    return messages_talk(r, t, o,
                         answer                 ? answer
                         : has(o, "completion") ? "completion"
                                                : NULL,
                         parsed);
}

static const char *message_role(const Talk *t, size_t i)
{
    const char *role = json_string_value(json_object_get(json_array_get(t->messages, i), "role"));
    return role ? role : "";
}

/* The last run of messages that ends with an answer is what a label is of. */
static bool check_answers(Record *r, Talk *t, bool whole)
{
    size_t n = json_array_size(t->messages), answers = 0;
    if (r->kind == CHAT_labelled && whole)
        for (t->answer = n; t->answer > 0 && strcmp(message_role(t, t->answer - 1), "user") != 0;)
            t->answer--;
    if (r->kind == CHAT_plain)
        t->answer = 0;
    for (size_t i = t->answer; i < n; i++)
        answers += strcmp(message_role(t, i), "assistant") == 0;
    return answers || bad(r, "no answer: no message of the role 'assistant'");
}

bool tok_record_read(Record *r, const json_t *o, ChatFormat f, bool parsed)
{
    json_t *label = json_object_get(o, "label");
    *r = (Record){.kind = tok_kind_of(o)};
    r->label = json_is_true(label ? label : json_object_get(o, "kto_tag"));
    if (!read_tools(r, o))
        return false;
    bool pairs = r->kind == CHAT_pairs;
    if (!read_talk(r, &r->talk[0], o, f, pairs ? "chosen" : NULL, parsed) ||
        (pairs && !read_talk(r, &r->talk[1], o, f, "rejected", parsed)))
        return false;
    if (pairs)
        common_prompt(r);
    bool whole = f == CHAT_sharegpt || (f == CHAT_messages && !has(o, "completion"));
    return check_answers(r, &r->talk[0], whole) && (!pairs || check_answers(r, &r->talk[1], whole));
}

void tok_record_free(Record *r)
{
    json_decref(r->talk[0].messages);
    json_decref(r->talk[1].messages);
    json_decref(r->tools);
    *r = (Record){0};
}
