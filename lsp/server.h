/* server.h - what the files of the server share. */
#ifndef MGC_LSP_SERVER_H
#define MGC_LSP_SERVER_H

#include <jansson.h>

#include "base/child.h"
#include "lsp/frame.h"
#include "lsp/lsp.h"
#include "lsp/names.h"
#include "lsp/text.h"

/* Errors of JSON-RPC and of the protocol. */
enum {
    RPC_parse = -32700,
    RPC_request = -32600,
    RPC_method = -32601,
    RPC_params = -32602,
    RPC_uninitialized = -32002,
    RPC_cancelled = -32800,
    RPC_failed = -32803
};

typedef struct Server Server;
typedef struct Document Document;

/* The host's answers about one text; NULL until they come. */
typedef struct Facts {
    json_t *source, *plan;
    bool all; /* no more will come */
} Facts;

/* An edit: bytes [begin, end) became `size` others. */
typedef struct TextChange {
    size_t begin, end, size;
} TextChange;

enum { EARLIER_EDITS = 64 };

/* Facts of an earlier text, and the edits since in their order (earlier.c). Without `source` they
 * are the edits since the facts that there are. */
typedef struct Earlier {
    json_t *source;
    TextChange edit[EARLIER_EDITS];
    int n;
    bool lost; /* there were more */
} Earlier;

/* A request that waits for facts. */
typedef struct Waiting {
    json_t *id, *params;
    const struct Method *method;
    double until;
    struct Waiting *next;
} Waiting;

struct Document {
    Document *next;
    char *uri, *path;
    json_t *version; /* or NULL */
    Text text;
    Arena *arena; /* of the index, made when it is wanted */
    Index *index;
    bool indexed;
    json_t *options; /* strings: beside those of all documents */
    Facts facts;     /* of the text as it is */
    Earlier earlier; /* types, if there are none of it */
    json_t *planned; /* the last plan, if that of an earlier text */
    bool wanted;     /* facts are to be looked up, from then on: */
    double from, began, changed;
    Child child;
    char *heard; /* by the child: what is no whole line yet */
    size_t nheard, heard_cap;
    Waiting *waiting;
};

typedef struct Kept Kept;

struct Server {
    const LspHost *host;
    Frames in;
    char *out;
    size_t nout, out_cap;
    Document *documents;
    json_t *options;  /* strings, of all documents: the client's configuration */
    Kept *kept;       /* facts of texts before (facts.c) */
    int64_t requests; /* that the server made */
    Arena *arena;     /* of the prelude, read when it is wanted */
    Text prelude;
    Index *prelude_index;
    bool initialized, ended, exits;
    bool can_refresh_lenses, can_literal_actions, can_symbols, can_folders;
};

/* Why a request has no result: a code, and a message of the arena-less kind. */
typedef struct Refusal {
    int code;
    char text[512];
    bool later; /* the facts are to come */
    bool now;   /* in: what is known now is the answer */
} Refusal;

__attribute__((format(printf, 3, 4))) json_t *refuse(Refusal *r, int code, const char *fmt, ...);

/* The work of a method: a new result, or NULL with *r said. d: the document of the params, of
 * methods that are of one. */
typedef json_t *MethodRun(Server *s, Document *d, const json_t *params, Refusal *r);
typedef struct Method {
    const char *name;
    MethodRun *run;
    bool notifies, document;
} Method;
extern const Method methods[]; /* name NULL at the end */

/* ---- server.c ------------------------------------------------------------------------------ */

double server_now(void);                                            /* seconds */
void server_notify(Server *s, const char *method, json_t *params);  /* takes params */
void server_request(Server *s, const char *method, json_t *params); /* likewise; no answer counts */
__attribute__((format(printf, 3, 4))) void server_log(Server *s, int type, const char *fmt, ...);
/* Runs what waits: all of it, or what has waited long enough. */
void server_answer_waiting(Server *s, Document *d, bool all);

/* ---- documents.c --------------------------------------------------------------------------- */

Document *document_find(Server *s, const char *uri);
void document_free(Server *s, Document *d);
Index *document_index(Document *d); /* NULL: the text is too long */
void document_changed(Server *s, Document *d);
MethodRun document_open, document_change, document_close;

json_t *range_json(const Document *d, size_t begin, size_t end);
json_t *location_json(const Document *d, size_t begin, size_t end);
/* The byte of params.position; false, said: there is none. */
bool position_byte(const Document *d, const json_t *params, size_t *byte, Refusal *r);
const char *text_of(const json_t *o, const char *key); /* a string, or NULL */

/* ---- prelude.c ----------------------------------------------------------------------------- */

/* The declarations of the language's own blocks and optimizers; its text is s->prelude. */
const Index *server_prelude(Server *s);
void prelude_free(Server *s);
/* Its block or optimizer of a name, of several the first; NULL: it has none. */
const Node *prelude_find(Server *s, const char *name, bool optimizer);

/* ---- facts.c ------------------------------------------------------------------------------- */

/* Ends what is looked up, and forgets what is known of another text. */
void facts_drop(Server *s, Document *d, bool wanted);
/* Starts what is to be started, ends what takes too long; seconds until there is more to do. */
double facts_step(Server *s);
/* Takes in what a document's process has written. */
void facts_read(Server *s, Document *d);
void facts_free(Server *s);

/* ---- earlier.c --------------------------------------------------------------------------------
 */

void earlier_edit(Document *d, size_t begin, size_t end, size_t size); /* the text is changed so */
void earlier_now(Document *d);                                         /* there are facts of it */
void earlier_keep(Document *d); /* there will be no more facts of the text as it was */
void earlier_free(Earlier *t);
/* The facts of the source in which a place of the text is looked up, and the place in them: those
 * of the text, or of an earlier one. NULL: nothing is known of it. */
const json_t *earlier_source(const Document *d, size_t *byte);
bool earlier_before(const Document *d); /* are they of an earlier text? */

/* ---- features ------------------------------------------------------------------------------ */

void publish(Server *s, Document *d); /* diagnose.c: what is wrong, or nothing */
void publish_nothing(Server *s, const Document *d);
MethodRun code_actions;
MethodRun hover;                                       /* hover.c */
MethodRun definition, references, highlights, symbols; /* navigate.c, symbols.c */
MethodRun rename_prepare, rename_all;                  /* rename.c */
MethodRun complete;                                    /* complete.c */
MethodRun signature;                                   /* signature.c */
MethodRun semantic_tokens;                             /* semantic.c */
json_t *semantic_legend(void);
MethodRun lenses; /* lens.c */
MethodRun format; /* format.c */

#endif
