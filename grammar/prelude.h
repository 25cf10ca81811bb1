/* prelude.h - the text of prelude.mg without its comments, made into an array when mgc is built. */
#ifndef MGC_PRELUDE_H
#define MGC_PRELUDE_H

extern const char prelude_text[];

#endif
