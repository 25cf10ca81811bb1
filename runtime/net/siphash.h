/* siphash.h - SipHash-2-4 of 128 bits (Aumasson and Bernstein): who has the key can tell what
 * another said who has it, and nobody else can say it. */
#ifndef MG_SIPHASH_H
#define MG_SIPHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_KEY_BYTES = 16, RT_MAC_BYTES = 16 };

void rt_siphash(const uint8_t key[RT_KEY_BYTES], const void *text, size_t bytes,
                uint8_t mac[RT_MAC_BYTES]);
/* Takes as long wherever they differ. */
bool rt_same_mac(const uint8_t a[RT_MAC_BYTES], const uint8_t b[RT_MAC_BYTES]);

#endif
