/* diagnose.c - what is wrong, as diagnostics, and what mgc has tried against it, as code actions.
 *
 * A message of the facts is {"severity", "code", "begin", "end", "text", "notes": [{"begin", "end",
 * "text"}], "helps": [text]}; without a place in this text begin is -1, and it is shown where the
 * program is laid out. A fix is {"code", "begin", "said", "edits": [{"begin", "end", "with"} or
 * {"option"}]}. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>

static int64_t number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* The layout's name, or that of the model, or the beginning. */
static Span place_of_program(Document *d)
{
    const Index *x = document_index(d);
    Span found = {0};
    for (size_t i = 0; x && i < x->ast->items.n; i++) {
        const Node *n = x->ast->items.data[i];
        if (n->kind == N_LAYOUT)
            return n->at;
        if (n->kind == N_MODEL)
            found = n->at;
    }
    return found;
}

static json_t *range_of(Document *d, const json_t *message)
{
    const int64_t begin = number_of(message, "begin"), end = number_of(message, "end");
    if (begin >= 0)
        return range_json(d, (size_t)begin, (size_t)end);
    const Span at = place_of_program(d);
    return range_json(d, at.begin, at.end);
}

/* The text with its helps, and with the notes that have no place in this text. */
static json_t *whole_text(const json_t *message)
{
    char *text = NULL;
    size_t size, i;
    FILE *out = open_memstream(&text, &size);
    const json_t *each;
    fputs(text_of(message, "text") ? text_of(message, "text") : "", out);
    json_array_foreach(json_object_get(message, "notes"), i, each)
        if (number_of(each, "begin") < 0)
            fprintf(out, "\nnote: %s", text_of(each, "text"));
    json_array_foreach(json_object_get(message, "helps"), i, each)
        fprintf(out, "\nhelp: %s", json_string_value(each));
    fclose(out);
    json_t *s = json_stringn(text, size);
    free(text);
    return s ? s : json_string("");
}

static json_t *related(const Document *d, const json_t *message)
{
    json_t *all = json_array();
    const json_t *note;
    size_t i;
    json_array_foreach(json_object_get(message, "notes"), i, note)
        if (number_of(note, "begin") >= 0)
            json_array_append_new(all, json_pack("{s:o, s:O}", "location",
                                                 location_json(d, (size_t)number_of(note, "begin"),
                                                               (size_t)number_of(note, "end")),
                                                 "message", json_object_get(note, "text")));
    return all;
}

static json_t *diagnostic(Document *d, const json_t *message)
{
    const int64_t code = number_of(message, "code");
    json_t *o = json_pack("{s:o, s:O, s:s, s:o}", "range", range_of(d, message), "severity",
                          json_object_get(message, "severity"), "source", "mgc", "message",
                          whole_text(message));
    if (code)
        json_object_set_new(o, "code", json_sprintf("MG%04d", (int)code));
    if (code == 290 || code == 291) /* what nothing uses */
        json_object_set_new(o, "tags", json_pack("[i]", 1));
    json_object_set_new(o, "relatedInformation", related(d, message));
    return o;
}

/* The messages of the plan begin with those of the source. */
static const json_t *messages_of(const Document *d)
{
    const json_t *plan = json_object_get(d->facts.plan, "messages");
    return plan ? plan : json_object_get(d->facts.source, "messages");
}

static void send_all(Server *s, const Document *d, json_t *all)
{
    json_t *p = json_pack("{s:s, s:o}", "uri", d->uri, "diagnostics", all);
    if (d->version)
        json_object_set(p, "version", d->version);
    server_notify(s, "textDocument/publishDiagnostics", p);
}

void publish_nothing(Server *s, const Document *d)
{
    send_all(s, d, json_array());
}

static json_t *failure(const char *why)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:s}", "severity", 1, "code", 657, "begin", -1, "end",
                     -1, "text", why);
}

void publish(Server *s, Document *d)
{
    json_t *all = json_array();
    const char *failed = text_of(d->facts.source, "failed");
    const json_t *message;
    size_t i;
    json_array_foreach(messages_of(d), i, message)
        json_array_append_new(all, diagnostic(d, message));
    if (failed) {
        json_t *m = failure(failed);
        json_array_append_new(all, diagnostic(d, m));
        json_decref(m);
    }
    send_all(s, d, all);
}

/* ---- code actions -------------------------------------------------------------------------- */

/* Edits of the text; of options of the command line a command, by which this document is planned
 * with them. */
static json_t *action(Document *d, const json_t *fix, json_t *shown)
{
    json_t *edits = json_array(), *command = NULL;
    const char *added = NULL;
    const json_t *e;
    size_t i;
    json_array_foreach(json_object_get(fix, "edits"), i, e) {
        const char *option = text_of(e, "option");
        added = added ? added : option;
        if (option)
            command = command ? command
                              : json_pack("{s:s, s:s, s:[s, s]}", "title", "plan with it",
                                          "command", "mgc.option", "arguments", d->uri, option);
        else
            json_array_append_new(edits, json_pack("{s:o, s:O}", "range",
                                                   range_json(d, (size_t)number_of(e, "begin"),
                                                              (size_t)number_of(e, "end")),
                                                   "newText", json_object_get(e, "with")));
    }
    json_t *a =
        json_pack("{s:o, s:s, s:[O], s:b}", "title",
                  json_sprintf(added ? "plan with %s" : "%s", added ? added : text_of(fix, "said")),
                  "kind", "quickfix", "diagnostics", shown, "isPreferred", command == NULL);
    if (json_array_size(edits))
        json_object_set_new(a, "edit", json_pack("{s:{s:O}}", "changes", d->uri, edits));
    if (command)
        json_object_set_new(a, "command", command);
    json_decref(edits);
    return a;
}

static bool touches(const json_t *a, const json_t *b)
{
    const char *const ends[] = {"start", "end"};
    int64_t at[4];
    for (int k = 0; k < 4; k++) {
        const json_t *p = json_object_get(k < 2 ? a : b, ends[k % 2]);
        at[k] = number_of(p, "line") * 1000000 + number_of(p, "character");
    }
    return at[0] <= at[3] && at[2] <= at[1];
}

/* Does the client want fixes, or other actions alone? */
static bool wants_fixes(const json_t *params)
{
    const json_t *only = json_object_get(json_object_get(params, "context"), "only"), *kind;
    size_t i;
    bool wants = !json_is_array(only);
    json_array_foreach(only, i, kind) {
        const char *name = json_string_value(kind);
        wants |= name && (!strcmp(name, "quickfix") || !*name);
    }
    return wants;
}

json_t *code_actions(Server *s, Document *d, const json_t *params, Refusal *r)
{
    const json_t *range = json_object_get(params, "range"), *fix, *message;
    json_t *all = json_array();
    size_t i, k;
    (void)r;
    if (!s->can_literal_actions || !wants_fixes(params))
        return all;
    json_array_foreach(json_object_get(d->facts.plan, "fixes"), i, fix) {
        json_array_foreach(messages_of(d), k, message) {
            if (number_of(message, "begin") != number_of(fix, "begin") ||
                number_of(message, "code") != number_of(fix, "code"))
                continue;
            json_t *shown = diagnostic(d, message);
            if (touches(json_object_get(shown, "range"), range))
                json_array_append_new(all, action(d, fix, shown));
            json_decref(shown);
            break;
        }
    }
    return all;
}
