#!/bin/sh
# kernels.sh ARCH SOURCE BUILD - the checks of kernels/cuda with the kernels as nvcc compiles them for sm_80 or sm_90a, run by
# the interpreter of PTX; `turn`: for one of the two, or for none, as $MGC_TURN chooses (nvcc alone takes two minutes).
# Exits with 77 where there is no nvcc, and where it is not its turn.
set -eu
arch=$1 source=$2 bin=$3/bin
if [ "$arch" = turn ]; then
    case $((${MGC_TURN:-0} % 8)) in
    0) arch=sm_80 ;;
    4) arch=sm_90a ;;
    *) echo "not in this turn"; exit 77 ;;
    esac
    echo "in turn: $arch"
fi
nvcc=${MGC_NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
[ -x "$nvcc" ] || { echo "there is no nvcc"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo '#include "library.h"' >"$dir/all.cu"
"$nvcc" -ptx -O3 -DMG_MORE_INSTANCES -std=c++17 "-arch=$arch" "-I$source/kernels/cuda" "-I$source/runtime" "$dir/all.cu" -o "$dir/all.ptx"
"$bin/ptx-decode" "$dir/all.ptx"
SHIM_SM=$(echo "$arch" | tr -dc 0-9)
export SHIM_SM SHIM_PTX="$dir/all.ptx"
"$bin/check_work"
"$bin/check_large" "$dir/all.ptx"
# The same kernels with 64-bit products that keep 32 bits alone.
sed 's/mul\.lo\.s64[[:space:]]*\(%rd[0-9]*\),.*;/& shl.b64 \1, \1, 32; shr.s64 \1, \1, 32;/' "$dir/all.ptx" >"$dir/less.ptx"
if said=$("$bin/check_large" "$dir/less.ptx" 2>&1); then
    echo "products of 32 bits pass"
    exit 1
fi
echo "$said" | cut -c1-300
if [ "${MGC_FULL-}" ]; then seeds="1 2 3 4 5"; else seeds=${MGC_TURN:-1}; fi
for seed in $seeds; do
    SHIM_SEED=$seed "$bin/check_kernels" "$seed" >"$dir/said" 2>&1 || { grep -v "^ok" "$dir/said"; exit 1; }
    tail -1 "$dir/said"
done
[ "$arch" = sm_90a ] || exit 0
# The real kernels without their fences of the asynchronous proxy, or without their waits.
for gone in 'fence\.proxy\.async[a-z:.]*;' 'cp\.async\.wait_group [0-9];' 'wgmma\.wait_group\.sync\.aligned [0-9];'; do
    sed "s/$gone//" "$dir/all.ptx" >"$dir/less.ptx"
    cmp -s "$dir/all.ptx" "$dir/less.ptx" && { echo "nothing matches $gone"; exit 1; }
    if said=$(SHIM_PTX=$dir/less.ptx "$bin/check_kernels" 7 attention 2>&1); then
        echo "kernels without $gone pass"
        exit 1
    fi
    echo "$said" | tail -1 | cut -c1-300
done
