/* fuzz_lsp.c - libFuzzer target: what a client may send to mgc lsp: any bytes; bodies, one a line,
 * each framed as it should be; or a text, and requests and edits at places of it. All that the
 * server sends is framed, and JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lsp/lsp.h"
#include "tests/fuzz/caught.h"

static void check_sent(Lsp *l)
{
    size_t n;
    const char *sent = lsp_take(l, &n);
    while (n) {
        char *end;
        const char *body = memmem(sent, n, "\r\n\r\n", 4);
        if (!body || strncmp(sent, "Content-Length: ", 16) != 0)
            abort();
        const size_t size = strtoul(sent + 16, &end, 10);
        body += 4;
        if (end + 4 != body || size > n - (size_t)(body - sent))
            abort();
        json_t *j = json_loadb(body, size, 0, NULL);
        if (!json_is_object(j))
            abort();
        json_decref(j);
        n -= (size_t)(body + size - sent);
        sent = body + size;
    }
}

static bool feed_body(Lsp *l, const char *body, size_t n)
{
    char header[64];
    const int h = snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", n);
    return lsp_feed(l, header, (size_t)h) && lsp_feed(l, body, n);
}

/* Takes the message; NULL: a text that is no UTF-8. */
static void feed(Lsp *l, json_t *message)
{
    char *body = message ? json_dumps(message, JSON_COMPACT) : NULL;
    if (body)
        feed_body(l, body, strlen(body));
    free(body);
    json_decref(message);
}

static void start(Lsp *l)
{
    static const char first[] =
        "{\"id\": 0, \"method\": \"initialize\", \"params\": {\"capabilities\": {\"textDocument\": "
        "{\"codeAction\": {\"codeActionLiteralSupport\": {}}}}}}";
    feed_body(l, first, sizeof first - 1);
}

static void lines(Lsp *l, const char *data, size_t size)
{
    bool on = true;
    while (on && size) {
        const char *end = memchr(data, '\n', size);
        const size_t n = end ? (size_t)(end - data) : size;
        on = feed_body(l, data, n);
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
}

/* A request, or an edit, at a place: four bytes. */
static void step(Lsp *l, const uint8_t *op)
{
    static const char *const asked[] = {
        "hover",          "definition",    "references",         "rename",     "documentHighlight",
        "documentSymbol", "completion",    "prepareRename",      "codeAction", "codeLens",
        "formatting",     "signatureHelp", "semanticTokens/full"};
    static const char *const with[] = {
        "",   "x",  "hidden", "{",      "}",   "(",         " -> tp",   "repeat",
        "\n", "\"", "# ",     "layers", " = ", "optimizer", "\xc3\xa9", "dim a = 2\n"};
    enum { ASKED = sizeof asked / sizeof *asked, WITH = sizeof with / sizeof *with };
    json_t *place = json_pack("{s:i, s:i}", "line", op[1], "character", op[2]);
    if (op[0] % (2 * ASKED) < ASKED)
        feed(l, json_pack("{s:i, s:s++, s:{s:{s:s}, s:o, s:s, s:{s:O, s:O}}}", "id", 1, "method",
                          "textDocument/", asked[op[0] % ASKED], "", "params", "textDocument",
                          "uri", "file:///a.mg", "position", json_incref(place), "newName",
                          with[op[3] % WITH], "range", "start", place, "end", place));
    else
        feed(l, json_pack("{s:s, s:{s:{s:s}, s:[{s:{s:O, s:{s:i, s:i}}, s:s}]}}", "method",
                          "textDocument/didChange", "params", "textDocument", "uri", "file:///a.mg",
                          "contentChanges", "range", "start", place, "end", "line", op[1],
                          "character", op[2] + (op[3] >> 4), "text", with[op[3] % WITH]));
    json_decref(place);
}

static void document(Lsp *l, FuzzPart rest)
{
    const FuzzPart text = fuzz_part(&rest);
    feed(l, json_pack("{s:s, s:{s:{s:s, s:o}}}", "method", "textDocument/didOpen", "params",
                      "textDocument", "uri", "file:///a.mg", "text",
                      json_stringn((const char *)text.data, text.size)));
    for (size_t i = 0; i + 4 <= rest.size; i += 4)
        step(l, rest.data + i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const LspHost nobody = {.version = "fuzzed"};
    if (!size)
        return 0;
    Lsp *l = lsp_new(&nobody);
    if (data[0] % 3)
        start(l);
    if (data[0] % 3 == 0)
        lsp_feed(l, (const char *)data + 1, size - 1);
    else if (data[0] % 3 == 1)
        lines(l, (const char *)data + 1, size - 1);
    else
        document(l, (FuzzPart){data + 1, size - 1});
    check_sent(l);
    lsp_free(l);
    return 0;
}
