/* tok_mask.c - which part of a rendered conversation is an answer.
 *
 * A template with `generation` blocks says it. Of another, prefixes of the conversation are
 * rendered: an answer begins where the messages before it, with the generation prompt, end, and it
 * ends where the messages up to it end; both have to be prefixes of the whole. Three rules help
 * templates that render a turn otherwise when others follow:
 *
 *   beginning: the generation prompt holds more than the turn (`<think>`): the answer begins behind
 *   the last added token that both have.
 *   end: the template writes an answer otherwise when a message follows (without its thinking, or
 *   with another end): an answer of one word stands for it, and what is written behind that word
 * with the next message has to end the prefix that ends with that message.
 *
 *   both: the template writes earlier messages otherwise when others follow (tools or a system's
 *   words in the last question): an answer without calls and thinking lies where a stand-in for it
 * lies in the whole conversation, from the generation prompt to the added token that ends the turn.
 *
 * An answer that none finds is an error: no mask is guessed. White space behind the token that ends
 * a turn is not learnt. */
#include "compiler/tok/tok_chat.h"

#include <stdlib.h>
#include <string.h>

typedef struct Mask {
    Masked *m;
    Arena *a;
    const Tokenizer *t;
    const ChatTemplate *c;
    const JinTemplate *template;
    const Talk *talk;
    JinValue *messages, *tools;
    JinText whole;
    size_t n; /* messages */
} Mask;

static bool bad(Mask *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool bad(Mask *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(k->m->why, sizeof k->m->why, fmt, ap);
    va_end(ap);
    return false;
}

static const char *role_of(const Mask *k, size_t i)
{
    const char *role =
        json_string_value(json_object_get(json_array_get(k->talk->messages, i), "role"));
    return role ? role : "";
}

static bool is_answer(const Mask *k, size_t i)
{
    return strcmp(role_of(k, i), "assistant") == 0;
}

/* An answer that OpenAI's key `weight` leaves out is only read. */
static bool is_learnt(const Mask *k, size_t i)
{
    json_t *weight = json_object_get(json_array_get(k->talk->messages, i), "weight");
    return is_answer(k, i) && i >= k->talk->answer &&
           !(json_is_number(weight) && json_number_value(weight) == 0);
}

/* ---- rendering ----------------------------------------------------------------------------- */

static bool render(Mask *k, JinValue *messages, bool prompt, JinText *out, JinError *e)
{
    return chat_render(k->c, k->template, k->a, messages, k->tools, prompt, out, e);
}

/* The first n messages; an empty text if the template refuses them. */
static JinText prefix(Mask *k, size_t n, bool prompt)
{
    JinText out = {0};
    JinError e;
    if (n && !render(k, jin_first_items(k->a, k->messages, n), prompt, &out, &e))
        return (JinText){0};
    return out;
}

static size_t common(const JinText *a, const JinText *b)
{
    size_t n = a->n < b->n ? a->n : b->n, i = 0;
    while (i < n && a->text[i] == b->text[i])
        i++;
    return i;
}

static bool is_prefix(const Mask *k, const JinText *t)
{
    return t->n && common(t, &k->whole) == t->n;
}

/* ---- one answer ---------------------------------------------------------------------------- */

/* Messages 0 to i - 1 end before the answer, and so does the generation prompt behind them. */
static bool find_begin(Mask *k, size_t i, size_t *begin)
{
    JinText asked = prefix(k, i, true), plain = prefix(k, i, false);
    bool found = is_prefix(k, &asked);
    *begin = asked.n;
    if (!i && !found) { /* the conversation begins with an answer */
        free(asked.text);
        free(plain.text);
        return bad(k, "the answer of message 1 cannot be found: nothing comes before it");
    }
    size_t shared = common(&asked, &k->whole);
    if (!found && is_prefix(k, &plain) && shared > plain.n) {
        for (*begin = shared; *begin > plain.n; --*begin)
            if (tok_ends_added(k->t, k->whole.text, *begin))
                break;
        found = *begin > plain.n;
    }
    free(asked.text);
    free(plain.text);
    return found || bad(k,
                        "the answer of message %zu cannot be found: the template writes the "
                        "messages before it otherwise when it follows",
                        i + 1);
}

/* The message with another content and without its thinking. */
static JinValue *with_content(Mask *k, size_t i, const char *text, size_t n)
{
    static const char *const thinking[] = {"reasoning_content", "reasoning", "thinking"};
    json_t *m = json_copy(json_array_get(k->talk->messages, i));
    for (int j = 0; j < 3; j++)
        json_object_del(m, thinking[j]);
    if (text)
        json_object_set_new(m, "content", json_stringn_nocheck(text, n));
    JinValue *v = jin_from_json(k->a, m);
    json_decref(m);
    return v;
}

/* The text behind the stand-in. */
static bool behind(const JinText *t, const char *name, JinText *rest)
{
    size_t n = strlen(name);
    const char *at = t->n ? memmem(t->text, t->n, name, n) : NULL;
    if (at)
        *rest = (JinText){(char *)at + n, t->n - (size_t)(at + n - t->text), NULL, 0};
    return at != NULL;
}

/* How much of `next`, what is written behind a stand-in that a message follows, ends its turn.
 * `last` is what ends it where nothing follows: the same, or another token of that kind. */
static size_t turn_end(const Mask *k, const JinText *last, const JinText *next)
{
    size_t token = tok_begins_added(k->t, last->text, last->n);
    if (common(last, next) == last->n)
        return last->n;
    return token == last->n ? tok_begins_added(k->t, next->text, next->n) : 0;
}

/* Whether a turn ends as the one of the stand-in does, which ends with n bytes: with all of them,
 * or with the added token at their end (before it the two may have other line ends around calls).
 */
static bool ends_alike(const Mask *k, const char *stand_in, size_t n, const char *turn, size_t size)
{
    size_t same = 0, space = 0;
    while (same < n && same < size && stand_in[n - 1 - same] == turn[size - 1 - same])
        same++;
    while (space < n && strchr(" \t\r\n", stand_in[n - 1 - space]))
        space++;
    size_t token = tok_ends_added(k->t, stand_in, n - space);
    return same == n || (token && same >= space + token);
}

static bool end_by_stand_in(Mask *k, size_t i, size_t begin, size_t *end)
{
    const char *name = "answer0";
    for (int j = 1; memmem(k->whole.text, k->whole.n, name, strlen(name)); j++)
        name = arena_printf(k->a, "answer%d", j);
    JinValue *list = jin_with_item(k->a, k->messages, i, with_content(k, i, name, strlen(name)));
    JinText alone = {0}, next = {0}, last, rest, real = prefix(k, i + 2, false);
    JinError e;
    bool good =
        is_prefix(k, &real) && render(k, jin_first_items(k->a, list, i + 1), false, &alone, &e);
    good = good && render(k, jin_first_items(k->a, list, i + 2), false, &next, &e);
    if (good && behind(&alone, name, &last) && behind(&next, name, &rest)) {
        size_t n = turn_end(k, &last, &rest), after = rest.n - n;
        good = (n || !last.n) && real.n >= begin + after &&
               memcmp(real.text + real.n - after, rest.text + n, after) == 0;
        *end = good ? real.n - after : 0;
        good = good && ends_alike(k, rest.text, n, real.text + begin, *end - begin);
    } else {
        good = false;
    }
    free(alone.text);
    free(next.text);
    free(real.text);
    return good;
}

static bool find_end(Mask *k, size_t i, size_t begin, size_t *end)
{
    if (i + 1 == k->n) {
        *end = k->whole.n;
        return true;
    }
    JinText up_to = prefix(k, i + 1, false);
    bool found = is_prefix(k, &up_to);
    *end = up_to.n;
    free(up_to.text);
    if (found)
        return true;
    return end_by_stand_in(k, i, begin, end) ||
           bad(k,
               "the end of the answer of message %zu cannot be found: the template writes it "
               "otherwise when messages follow",
               i + 1);
}

/* ---- an answer in a conversation that the template rearranges ------------------------------- */

/* Whether the text up to an answer ends with the generation prompt, or with so much of it as ends
 * in an added token; with such a token at least, where there is no prompt. */
static bool ends_with_prompt(Mask *k, size_t i, size_t begin)
{
    JinText asked = prefix(k, i, true), plain = prefix(k, i, false);
    size_t shared = common(&asked, &plain), n = asked.n - shared, end = begin;
    bool found = false;
    for (size_t m = n; m && !found; m--)
        found = m <= begin && memcmp(k->whole.text + begin - m, asked.text + shared, m) == 0 &&
                (m == n || tok_ends_added(k->t, k->whole.text, begin));
    while (end && strchr(" \t\r\n", k->whole.text[end - 1]))
        end--;
    found |= plain.n && !n && tok_ends_added(k->t, k->whole.text, end);
    free(asked.text);
    free(plain.text);
    return found;
}

/* The content of an answer without calls and thinking lies where a stand-in lies in its place; the
 * added token behind it ends the turn. */
static bool by_content(Mask *k, size_t i, JinPart *part)
{
    json_t *m = json_array_get(k->talk->messages, i), *content = json_object_get(m, "content");
    const char *name = "answer0", *text = json_string_value(content);
    size_t n = json_string_length(content);
    JinError e;
    JinText other = {0}, tail;
    bool plain = n && !json_array_size(json_object_get(m, "tool_calls"));
    static const char *const thinking[] = {"reasoning_content", "reasoning", "thinking"};
    for (int j = 0; j < 3; j++)
        plain = plain && !json_object_get(m, thinking[j]);
    for (int j = 1; plain && memmem(k->whole.text, k->whole.n, name, strlen(name)); j++)
        name = arena_printf(k->a, "answer%d", j);
    JinValue *list =
        plain ? jin_with_item(k->a, k->messages, i, with_content(k, i, name, strlen(name))) : NULL;
    bool good = plain && render(k, list, false, &other, &e) && behind(&other, name, &tail);
    size_t head = good ? (size_t)(tail.text - other.text) - strlen(name) : 0, space = 0;
    good = good && head + tail.n < k->whole.n && common(&other, &k->whole) >= head &&
           memcmp(k->whole.text + k->whole.n - tail.n, tail.text, tail.n) == 0;
    good = good && (!memmem(text, n, "think>", 6) || /* the thinking is written as it is */
                    memmem(k->whole.text + head, k->whole.n - tail.n - head, text, n));
    while (good && space < tail.n && strchr(" \t\r\n", tail.text[space]))
        space++;
    size_t token = good ? tok_begins_added(k->t, tail.text + space, tail.n - space) : 0;
    good = good && (token || space == tail.n) && ends_with_prompt(k, i, head);
    *part = (JinPart){head, good ? k->whole.n - tail.n + (token ? space + token : 0) : 0};
    free(other.text);
    return good;
}

/* The words of an answer, without its thinking and the white space around, are in its part. */
static bool holds_content(const Mask *k, size_t i, size_t begin, size_t end)
{
    json_t *content = json_object_get(json_array_get(k->talk->messages, i), "content");
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    static const char thought[] = "</think>";
    for (const char *at; n && (at = memmem(text, n, thought, 8)) != NULL;) {
        n -= (size_t)(at + 8 - text);
        text = at + 8;
    }
    while (n && strchr(" \t\r\n\v\f", *text) && *text)
        text++, n--;
    while (n && strchr(" \t\r\n\v\f", text[n - 1]) && text[n - 1])
        n--;
    if (n > 64) /* its end will do */
        text += n - 64, n = 64;
    return !n || memmem(k->whole.text + begin, end - begin, text, n) != NULL;
}

static bool find_answer(Mask *k, size_t i, JinPart *part)
{
    if ((!find_begin(k, i, &part->begin) || !find_end(k, i, part->begin, &part->end)) &&
        !by_content(k, i, part))
        return false;
    if (part->end < part->begin || part->end > k->whole.n)
        return bad(k, "the answer of message %zu cannot be found: it ends before it begins", i + 1);
    if (!holds_content(k, i, part->begin, part->end))
        return bad(k, "the template does not write the content of message %zu where its answer is",
                   i + 1);
    size_t end = part->end;
    while (end > part->begin && strchr(" \t\r\n", k->whole.text[end - 1]))
        end--;
    if (end > part->begin && tok_ends_added(k->t, k->whole.text, end))
        part->end = end;
    return true;
}

/* A template that leaves the thinking out of the answers before the last question writes the same
 * text without it: then prefixes are those of such a conversation. */
static bool without_thinking(Mask *k, JinValue **list)
{
    static const char thought[] = "</think>";
    size_t last = 0;
    bool any = false;
    JinText text;
    JinError e;
    *list = k->messages;
    for (size_t i = 0; i < k->n; i++)
        last = strcmp(role_of(k, i), "user") == 0 ? i : last;
    for (size_t i = 0; i < last; i++) {
        json_t *m = json_array_get(k->talk->messages, i), *content = json_object_get(m, "content");
        const char *from = json_string_value(content);
        size_t n = json_string_length(content), before = n;
        if (!is_answer(k, i))
            continue;
        for (const char *at; n && (at = memmem(from, n, thought, 8)) != NULL;) {
            n -= (size_t)(at + 8 - from);
            from = at + 8;
        }
        while (n < before && n && *from == '\n')
            from++, n--;
        if (n == before && !json_object_get(m, "reasoning_content") &&
            !json_object_get(m, "reasoning") && !json_object_get(m, "thinking"))
            continue;
        *list = jin_with_item(k->a, *list, i, with_content(k, i, from, n));
        any = true;
    }
    if (!any || !render(k, *list, false, &text, &e))
        return false;
    bool same = text.n == k->whole.n && memcmp(text.text, k->whole.text, text.n) == 0;
    free(text.text);
    return same;
}

/* ---- all of them --------------------------------------------------------------------------- */

static void learn(Mask *k, JinPart part)
{
    if (part.end > part.begin)
        vec_push(k->a, &k->m->part, part);
}

static bool by_generation(Mask *k, size_t answers, TrainOn on)
{
    size_t n = k->whole.generations, at = 0;
    bool plain = on == TRAIN_assistant && !k->talk->answer;
    for (size_t i = 0; i < k->n; i++)
        plain = plain && is_learnt(k, i) == is_answer(k, i);
    if (plain && n) {
        for (size_t i = 0; i < n; i++)
            learn(k, k->whole.generation[i]);
        return true;
    }
    if (n != answers)
        return bad(k, "the template has %zu 'generation' parts for %zu answers", n, answers);
    for (size_t i = 0; i < k->n; i++)
        if (is_answer(k, i)) {
            if (is_learnt(k, i) && (on == TRAIN_assistant || at + 1 == n))
                learn(k, k->whole.generation[at]);
            at++;
        }
    return true;
}

static bool by_prefixes(Mask *k, TrainOn on)
{
    size_t last = 0;
    JinValue *list;
    if (without_thinking(k, &list))
        k->messages = list;
    for (size_t i = 0; i < k->n; i++)
        last = is_answer(k, i) ? i : last;
    for (size_t i = 0; i < k->n; i++) {
        JinPart part, *before = k->m->part.n ? &k->m->part.data[k->m->part.n - 1] : NULL;
        if (!is_learnt(k, i) || (on == TRAIN_last && i != last))
            continue;
        if (!find_answer(k, i, &part))
            return false;
        if (before && part.begin < before->end)
            return bad(k, "the answers of messages up to %zu cannot be told apart", i + 1);
        learn(k, part);
    }
    return true;
}

bool tok_mask(Masked *m, Arena *a, const Tokenizer *t, const ChatTemplate *c, const Record *r,
              const Talk *talk, TrainOn on)
{
    Mask k = {.m = m, .a = a, .t = t, .c = c, .talk = talk, .n = json_array_size(talk->messages)};
    *m = (Masked){0};
    k.template = r->tools && c->tools ? c->tools : c->plain;
    k.messages = jin_from_json(a, talk->messages);
    k.tools = jin_from_json(a, r->tools);
    if (!render(&k, k.messages, false, &k.whole, &m->e)) {
        m->failed = k.template;
        return bad(&k, "%s", m->e.text);
    }
    m->text = k.whole;
    for (size_t i = 0; i < k.n; i++)
        m->turns += is_answer(&k, i);
    if (on == TRAIN_all)
        learn(&k, (JinPart){0, k.whole.n});
    return on == TRAIN_all ||
           (jin_has_generation(k.template) ? by_generation(&k, (size_t)m->turns, on)
                                           : by_prefixes(&k, on));
}
