/* frame.h - messages as the base protocol frames them: "Content-Length: N", an empty line, N bytes.
 *
 * Bytes between two messages that are none are skipped up to the next header, so that one bad
 * message costs no other. */
#ifndef MGC_LSP_FRAME_H
#define MGC_LSP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_MAX = 128 << 20 }; /* bytes; a longer one is skipped */

typedef struct Frames {
    char *data; /* bytes that have come, the first `done` of which were looked at */
    size_t n, cap, done;
    int64_t length; /* of the body, once its header said so; -1 */
    uint64_t skip;  /* bytes of a message that is too long, still to come */
    bool lines, bad, body;
} Frames;

typedef enum FrameKind {
    FRAME_none,   /* more has to come */
    FRAME_body,   /* a message */
    FRAME_header, /* a header that says no length */
    FRAME_long    /* a message that is too long */
} FrameKind;

void frames_start(Frames *f);
void frames_add(Frames *f, const char *bytes, size_t n);
/* The next one; body and size hold until the next call. */
FrameKind frames_next(Frames *f, const char **body, size_t *size);
void frames_free(Frames *f);

#endif
