/* special.cc - special registers: %tid.x and the like, filled in when a block begins. */
#include "tests/ptx/decode.h"

#include <string.h>

namespace ptx
{

enum Which {
    TID_X,
    TID_Y,
    TID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    LANEID,
    WARPID,
    NWARPID,
    LANE_EQ,
    LANE_LE,
    LANE_LT,
    LANE_GE,
    LANE_GT,
    DYNAMIC_BYTES
};

static const char *const names[] = {"%tid.x",       "%tid.y",       "%tid.z",
                                    "%ntid.x",      "%ntid.y",      "%ntid.z",
                                    "%ctaid.x",     "%ctaid.y",     "%ctaid.z",
                                    "%nctaid.x",    "%nctaid.y",    "%nctaid.z",
                                    "%laneid",      "%warpid",      "%nwarpid",
                                    "%lanemask_eq", "%lanemask_le", "%lanemask_lt",
                                    "%lanemask_ge", "%lanemask_gt", "%dynamic_smem_size"};

bool is_special(const std::string &name, unsigned *width, int *which)
{
    *width = 4;
    for (*which = 0; *which < (int)(sizeof names / sizeof *names); ++*which)
        if (name == names[*which])
            return true;
    return false;
}

static unsigned value(const Warp &w, int which, unsigned lane)
{
    const Block &b = *w.block;
    const Dim &block = b.launch->block, &grid = b.launch->grid;
    const unsigned t = w.thread((int)lane), bit = 1u << lane;
    switch ((Which)which) {
    case TID_X:
        return t % block.x;
    case TID_Y:
        return t / block.x % block.y;
    case TID_Z:
        return t / block.x / block.y;
    case NTID_X:
        return block.x;
    case NTID_Y:
        return block.y;
    case NTID_Z:
        return block.z;
    case CTAID_X:
        return b.at.x;
    case CTAID_Y:
        return b.at.y;
    case CTAID_Z:
        return b.at.z;
    case NCTAID_X:
        return grid.x;
    case NCTAID_Y:
        return grid.y;
    case NCTAID_Z:
        return grid.z;
    case LANEID:
        return lane;
    case WARPID:
        return (unsigned)w.number;
    case NWARPID:
        return (unsigned)b.warps.size();
    case LANE_EQ:
        return bit;
    case LANE_LE:
        return bit | (bit - 1);
    case LANE_LT:
        return bit - 1;
    case LANE_GE:
        return ~(bit - 1);
    case LANE_GT:
        return ~(bit | (bit - 1));
    case DYNAMIC_BYTES:
        return b.launch->shared;
    }
    return 0;
}

void set_specials(Warp &w)
{
    for (const Special &s : w.block->kernel->specials)
        for (unsigned lane = 0; lane < LANES; lane++)
            w.at<unsigned>(s.slot)[lane] = value(w, s.which, lane);
}

} // namespace ptx
