/* crc32c_parts.h - the CRC-32C of a file from those of its parts. */
#ifndef MG_CRC32C_PARTS_H
#define MG_CRC32C_PARTS_H

#include <stddef.h>
#include <stdint.h>

/* The part that n bytes of a file have in its checksum, `behind` bytes being behind them. The
 * exclusive or of all parts, in any order, is what rt_crc32c_whole takes. */
uint32_t rt_crc32c_part(const void *p, size_t n, int64_t behind);
/* The CRC-32C of a file of so many bytes, as rt_crc32c computes it from the whole. */
uint32_t rt_crc32c_whole(uint32_t parts, int64_t bytes);

#endif
