/* server.c - requests and answers: JSON-RPC, the life of a session, the loop. */
#include "lsp/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double server_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- to the client ------------------------------------------------------------------------- */

static void put(Server *s, const char *bytes, size_t n)
{
    if (s->nout + n > s->out_cap) {
        s->out_cap = (s->nout + n) * 2;
        s->out = realloc(s->out, s->out_cap);
        if (!s->out) {
            fputs("mgc: out of memory\n", stderr);
            abort();
        }
    }
    memcpy(s->out + s->nout, bytes, n);
    s->nout += n;
}

/* Takes the message. */
static void send_message(Server *s, json_t *message)
{
    char *body = json_dumps(message, JSON_COMPACT);
    char header[64];
    if (body) {
        const size_t n = strlen(body);
        put(s, header, (size_t)snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", n));
        put(s, body, n);
    }
    free(body);
    json_decref(message);
}

void server_notify(Server *s, const char *method, json_t *params)
{
    send_message(
        s, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params));
}

void server_request(Server *s, const char *method, json_t *params)
{
    json_t *m = json_pack("{s:s, s:I, s:s}", "jsonrpc", "2.0", "id", (json_int_t)++s->requests,
                          "method", method);
    if (params)
        json_object_set_new(m, "params", params);
    send_message(s, m);
}

void server_log(Server *s, int type, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    server_notify(s, "window/logMessage",
                  json_pack("{s:i, s:o}", "type", type, "message", json_string(text)));
}

json_t *refuse(Refusal *r, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    r->code = code;
    vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
    return NULL;
}

/* Takes the result; without one r says why. id is not taken. */
static void answer(Server *s, json_t *id, json_t *result, const Refusal *r)
{
    json_t *m = json_pack("{s:s, s:O}", "jsonrpc", "2.0", "id", id);
    json_t *text = result ? NULL : json_string(r->text);
    if (result)
        json_object_set_new(m, "result", result);
    else
        json_object_set_new(m, "error",
                            json_pack("{s:i, s:o}", "code", r->code, "message",
                                      text ? text : json_string("a text that is no UTF-8")));
    send_message(s, m);
}

static void answer_error(Server *s, json_t *id, int code, const char *text)
{
    Refusal r = {0};
    refuse(&r, code, "%s", text);
    json_t *nobody = id ? json_incref(id) : json_null();
    answer(s, nobody, NULL, &r);
    json_decref(nobody);
}

/* ---- the life of a session ----------------------------------------------------------------- */

static bool flag_at(const json_t *o, const char *a, const char *b, const char *c)
{
    return json_is_true(json_object_get(json_object_get(json_object_get(o, a), b), c));
}

static const json_t *at(const json_t *o, const char *a, const char *b, const char *c)
{
    return json_object_get(json_object_get(json_object_get(o, a), b), c);
}

/* {"options": ["--device h100"]}, from wherever the client has it. */
static void configure(Server *s, const json_t *settings)
{
    const json_t *mine = json_object_get(settings, "mgc");
    const json_t *options = json_object_get(mine ? mine : settings, "options");
    if (!json_is_array(options))
        return;
    json_decref(s->options);
    s->options = json_deep_copy(options);
}

static json_t *capabilities(void)
{
    return json_pack(
        "{s:{s:b, s:i}, s:b, s:b, s:b, s:b, s:b, s:b, s:{s:b}, s:{s:[s,s,s]}, s:{s:[s,s]}, "
        "s:{s:o, s:b}, s:{s:[s]}, s:{s:b}, s:{s:[s,s]}, s:s}",
        "textDocumentSync", "openClose", 1, "change", 2, "hoverProvider", 1, "definitionProvider",
        1, "referencesProvider", 1, "documentHighlightProvider", 1, "documentSymbolProvider", 1,
        "documentFormattingProvider", 1, "renameProvider", "prepareProvider", 1,
        "completionProvider", "triggerCharacters", "(", ",", ">", "signatureHelpProvider",
        "triggerCharacters", "(", ",", "semanticTokensProvider", "legend", semantic_legend(),
        "full", 1, "codeActionProvider", "codeActionKinds", "quickfix", "codeLensProvider",
        "resolveProvider", 0, "executeCommandProvider", "commands", "mgc.option", "mgc.without",
        "positionEncoding", "utf-16");
}

static json_t *initialize(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)d;
    const json_t *c = json_object_get(params, "capabilities");
    if (s->initialized)
        return refuse(r, RPC_request, "initialize a second time");
    s->initialized = true;
    s->can_refresh_lenses = flag_at(c, "workspace", "codeLens", "refreshSupport");
    s->can_literal_actions = at(c, "textDocument", "codeAction", "codeActionLiteralSupport");
    s->can_symbols =
        flag_at(c, "textDocument", "documentSymbol", "hierarchicalDocumentSymbolSupport");
    configure(s, json_object_get(params, "initializationOptions"));
    return json_pack("{s:o, s:{s:s, s:s}}", "capabilities", capabilities(), "serverInfo", "name",
                     "mgc lsp", "version", s->host->version);
}

static void look_again(Server *s)
{
    for (Document *d = s->documents; d; d = d->next)
        facts_drop(s, d, true);
}

static json_t *configured(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)d, (void)r;
    configure(s, json_object_get(params, "settings"));
    look_again(s);
    return NULL;
}

static json_t *shut_down(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)d, (void)params, (void)r;
    s->ended = true;
    return json_null();
}

static json_t *leave(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)d, (void)params, (void)r;
    s->exits = true;
    return NULL;
}

static json_t *nothing(Server *s, Document *d, const json_t *params, Refusal *r)
{
    (void)s, (void)d, (void)params, (void)r;
    return NULL;
}

/* mgc.option URI TEXT: plans a document with an option more; mgc.without URI: without any. */
static json_t *execute(Server *s, Document *none, const json_t *params, Refusal *r)
{
    (void)none;
    const char *command = text_of(params, "command");
    const json_t *args = json_object_get(params, "arguments");
    const json_t *uri = json_array_get(args, 0), *option = json_array_get(args, 1);
    Document *d = json_is_string(uri) ? document_find(s, json_string_value(uri)) : NULL;
    if (!command || (strcmp(command, "mgc.option") && strcmp(command, "mgc.without")))
        return refuse(r, RPC_params, "there is no such command");
    if (!d)
        return refuse(r, RPC_params, "no document is open under this URI");
    if (!strcmp(command, "mgc.without"))
        json_array_clear(d->options);
    else if (json_is_string(option))
        json_array_append(d->options, (json_t *)option);
    else
        return refuse(r, RPC_params, "mgc.option takes a URI and an option");
    facts_drop(s, d, true);
    return json_null();
}

/* ---- requests ------------------------------------------------------------------------------ */

const Method methods[] = {
    {"initialize", initialize, false, false},
    {"initialized", nothing, true, false},
    {"shutdown", shut_down, false, false},
    {"exit", leave, true, false},
    {"workspace/didChangeConfiguration", configured, true, false},
    {"workspace/executeCommand", execute, false, false},
    {"textDocument/didOpen", document_open, true, false},
    {"textDocument/didChange", document_change, true, true},
    {"textDocument/didClose", document_close, true, true},
    {"textDocument/didSave", nothing, true, false},
    {"textDocument/hover", hover, false, true},
    {"textDocument/definition", definition, false, true},
    {"textDocument/references", references, false, true},
    {"textDocument/documentHighlight", highlights, false, true},
    {"textDocument/documentSymbol", symbols, false, true},
    {"textDocument/prepareRename", rename_prepare, false, true},
    {"textDocument/rename", rename_all, false, true},
    {"textDocument/completion", complete, false, true},
    {"textDocument/signatureHelp", signature, false, true},
    {"textDocument/semanticTokens/full", semantic_tokens, false, true},
    {"textDocument/codeAction", code_actions, false, true},
    {"textDocument/codeLens", lenses, false, true},
    {"textDocument/formatting", format, false, true},
    {NULL, NULL, false, false},
};

static Document *document_of(Server *s, const json_t *params, Refusal *r)
{
    const char *uri = text_of(json_object_get(params, "textDocument"), "uri");
    Document *d = uri ? document_find(s, uri) : NULL;
    if (!d)
        refuse(r, RPC_params, "no document is open under '%.200s'", uri ? uri : "");
    return d;
}

static void wait_for_facts(Document *d, const Method *m, json_t *id, const json_t *params,
                           double until)
{
    Waiting *w = calloc(1, sizeof *w), **end = &d->waiting;
    if (!w)
        abort();
    *w = (Waiting){json_incref(id), json_incref((json_t *)params), m, until, NULL};
    while (*end)
        end = &(*end)->next;
    *end = w;
}

static void run(Server *s, const Method *m, json_t *id, const json_t *params)
{
    /* Seconds that a request waits for facts: longer where nothing is known of an earlier text. */
    static const double patience = 0.025, first = 1;
    Refusal r = {0};
    json_t *result = NULL;
    Document *d = m->document ? document_of(s, params, &r) : NULL;
    if (!m->document || d)
        result = m->run(s, d, params, &r);
    if (!result && r.later && d)
        wait_for_facts(d, m, id, params, server_now() + (earlier_before(d) ? patience : first));
    else if (!m->notifies)
        answer(s, id, result, &r);
    else if (r.code)
        server_log(s, 2, "%s: %s", m->name, r.text);
}

void server_answer_waiting(Server *s, Document *d, bool all)
{
    const double now = server_now();
    Waiting *w = d->waiting, *next;
    d->waiting = NULL;
    for (; w; w = next) {
        Refusal r = {.now = all || now >= w->until};
        next = w->next;
        json_t *result = w->method->run(s, d, w->params, &r);
        if (!result && r.later)
            wait_for_facts(d, w->method, w->id, w->params, w->until);
        else
            answer(s, w->id, result, &r);
        json_decref(w->id);
        json_decref(w->params);
        free(w);
    }
}

static void cancel(Server *s, const json_t *params)
{
    const json_t *id = json_object_get(params, "id");
    for (Document *d = s->documents; d; d = d->next)
        for (Waiting **w = &d->waiting; *w;) {
            Waiting *one = *w;
            if (!id || !json_equal(one->id, id)) {
                w = &one->next;
                continue;
            }
            *w = one->next;
            answer_error(s, one->id, RPC_cancelled, "cancelled");
            json_decref(one->id);
            json_decref(one->params);
            free(one);
        }
}

static void receive(Server *s, const json_t *message)
{
    json_t *id = json_object_get(message, "id");
    const char *name = text_of(message, "method");
    const json_t *params = json_object_get(message, "params");
    const Method *m = methods;
    if (id && !json_is_integer(id) && !json_is_string(id) && !json_is_null(id)) {
        answer_error(s, NULL, RPC_request, "an id is a number or a string");
        return;
    }
    if (!name) { /* an answer to a request of the server's */
        if (!json_is_object(message) ||
            !(json_object_get(message, "result") || json_object_get(message, "error")))
            answer_error(s, id, RPC_request, "no method");
        return;
    }
    while (m->name && strcmp(m->name, name) != 0)
        m++;
    if (!strcmp(name, "$/cancelRequest"))
        cancel(s, params);
    else if (!s->initialized && m->run != initialize && m->run != leave) {
        if (id)
            answer_error(s, id, RPC_uninitialized, "the first request is initialize");
    } else if (s->ended && m->run != leave) {
        if (id)
            answer_error(s, id, RPC_request, "the server was shut down");
    } else if (!m->name || m->notifies != !id) {
        if (id)
            answer_error(s, id, RPC_method, "there is no such request");
    } else {
        run(s, m, id, params);
    }
}

static void receive_body(Server *s, const char *body, size_t n)
{
    json_error_t wrong;
    json_t *message = json_loadb(body, n, JSON_ALLOW_NUL, &wrong);
    if (!message)
        answer_error(s, NULL, RPC_parse, wrong.text);
    else if (json_is_object(message))
        receive(s, message);
    else
        answer_error(s, NULL, RPC_request, "a message is an object");
    json_decref(message);
}

/* ---- by hand ------------------------------------------------------------------------------- */

struct Lsp {
    Server s;
};

Lsp *lsp_new(const LspHost *h)
{
    Lsp *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->s.host = h;
    l->s.options = json_array();
    frames_start(&l->s.in);
    return l;
}

bool lsp_feed(Lsp *l, const char *bytes, size_t n)
{
    Server *s = &l->s;
    const char *body;
    size_t size;
    frames_add(&s->in, bytes, n);
    for (FrameKind k; !s->exits && (k = frames_next(&s->in, &body, &size)) != FRAME_none;)
        if (k == FRAME_body)
            receive_body(s, body, size);
        else
            answer_error(s, NULL, RPC_request,
                         k == FRAME_header ? "a header without a Content-Length"
                                           : "a message that is too long");
    return !s->exits;
}

const char *lsp_take(Lsp *l, size_t *n)
{
    *n = l->s.nout;
    l->s.nout = 0;
    return l->s.out;
}

void lsp_free(Lsp *l)
{
    Server *s = &l->s;
    while (s->documents)
        document_free(s, s->documents);
    facts_free(s);
    prelude_free(s);
    json_decref(s->options);
    frames_free(&s->in);
    free(s->out);
    free(l);
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Writes what can be written without waiting: so many bytes a pipe takes whenever it is ready. */
static bool write_some(Server *s, int out)
{
    enum { AT_ONCE = 4096 };
    const ssize_t n = write(out, s->out, s->nout < AT_ONCE ? s->nout : AT_ONCE);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    s->nout -= (size_t)n;
    memmove(s->out, s->out + n, s->nout);
    return true;
}

/* False: the client is gone. */
static bool read_some(Lsp *l, int in)
{
    static char bytes[1 << 16];
    const ssize_t n = read(in, bytes, sizeof bytes);
    if (n > 0)
        lsp_feed(l, bytes, (size_t)n);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static void read_children(Server *s)
{
    for (Document *d = s->documents; d; d = d->next) {
        if (d->child.pid)
            facts_read(s, d);
        server_answer_waiting(s, d, false);
    }
}

static bool turn(Lsp *l, int in, int out)
{
    enum { CHILDREN = 16, LONGEST = 3600 };
    Server *s = &l->s;
    struct pollfd p[2 + CHILDREN];
    nfds_t n = 0;
    double rest = facts_step(s);
    p[n++] = (struct pollfd){.fd = in, .events = POLLIN};
    p[n++] = (struct pollfd){.fd = s->nout ? out : -1, .events = POLLOUT};
    for (Document *d = s->documents; d; d = d->next) {
        if (d->child.pid && n < 2 + CHILDREN)
            p[n++] = (struct pollfd){.fd = d->child.fd, .events = POLLIN};
        for (const Waiting *w = d->waiting; w; w = w->next)
            rest = w->until - server_now() < rest ? w->until - server_now() : rest;
    }
    rest = rest < 0 ? 0 : rest > LONGEST ? LONGEST : rest;
    if (poll(p, n, (int)(rest * 1e3) + 1) < 0)
        return errno == EINTR;
    if (p[1].revents && !write_some(s, out))
        return false;
    if (p[0].revents && !read_some(l, in))
        return false;
    read_children(s);
    child_reap();
    return !s->exits;
}

int lsp_serve(const LspHost *h, int in, int out)
{
    Lsp *l = lsp_new(h);
    signal(SIGPIPE, SIG_IGN);
    while (turn(l, in, out))
        ;
    while (l->s.nout && write_some(&l->s, out))
        ;
    const bool good = l->s.exits && l->s.ended;
    lsp_free(l);
    return good ? 0 : 1;
}
