/* spot.h - an address of TCP in the form that processes send to each other. */
#ifndef MG_SPOT_H
#define MG_SPOT_H

#include <stdint.h>

typedef struct rt_spot {
    uint32_t version; /* of IP: 4 or 6; 0: none */
    uint32_t port;
    uint8_t at[16];
} rt_spot;

#endif
