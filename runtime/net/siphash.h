/* siphash.h - SipHash-2-4 of 128 bits (Aumasson and Bernstein), a keyed hash: it proves that a
 * message comes from a process that has the key. */
#ifndef MG_SIPHASH_H
#define MG_SIPHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_KEY_BYTES = 16, RT_MAC_BYTES = 16 };

void rt_siphash(const uint8_t key[RT_KEY_BYTES], const void *text, size_t bytes,
                uint8_t mac[RT_MAC_BYTES]);
/* Takes the same time wherever a and b differ. */
bool rt_same_mac(const uint8_t a[RT_MAC_BYTES], const uint8_t b[RT_MAC_BYTES]);

#endif
