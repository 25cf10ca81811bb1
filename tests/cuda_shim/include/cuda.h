/* cuda.h - what the runtime takes of the driver's interface: batches of waits for words of memory
 * and writes of them. */
#ifndef MG_SHIM_DRIVER_H
#define MG_SHIM_DRIVER_H

#include "cuda_runtime_api.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUresult;
typedef cudaStream_t CUstream;
typedef unsigned long long CUdeviceptr;
typedef enum CUstreamBatchMemOpType {
    CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
    CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2
} CUstreamBatchMemOpType;
enum { CU_STREAM_WAIT_VALUE_GEQ = 0, CU_STREAM_WAIT_VALUE_EQ = 1 };
enum { CU_STREAM_WRITE_VALUE_DEFAULT = 0 };
typedef union CUstreamBatchMemOpParams {
    CUstreamBatchMemOpType operation;
    struct {
        CUstreamBatchMemOpType operation;
        CUdeviceptr address;
        union {
            uint32_t value;
            uint64_t value64;
        };
        unsigned flags;
        CUdeviceptr alias;
    } waitValue, writeValue;
    uint64_t pad[6];
} CUstreamBatchMemOpParams;

#ifdef __cplusplus
}
#endif
#endif
