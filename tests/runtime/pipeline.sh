# One rank, two and four ranks of a pipeline, and two with two chunks each: the same run, bit for bit,
# and each goes on from the others' checkpoints.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

expect 0 "$bin/fake_stages_1x1" --data text --out 1x1 --steps 12 --save-every 4 --keep 0
for other in 2x1 2x2 4x1; do
    expect 0 "$bin/fake_stages_$other" --data text --out $other --steps 12 --save-every 4 --keep 0 --poison
    same_run 1x1 $other
done
for from in 1x1 2x1 2x2 4x1; do
    for to in 1x1 2x1 2x2 4x1; do
        rm -rf again && mkdir again && cp -r $from/ckpt $from/metrics.jsonl again
        rm -rf again/ckpt/step-00000012
        expect 0 "$bin/fake_stages_$to" --data text --out again --steps 12 --resume
        same_run 1x1 again
    done
done

# Weights that others wrote.
for other in 1x1 2x2 4x1; do
    expect 0 "$bin/fake_stages_$other" --data text --out init_$other --steps 3 \
        --init 1x1/ckpt/step-00000008/model.safetensors
done
same_run init_1x1 init_2x2
same_run init_1x1 init_4x1

# On pretended machines rank 0 reaches the others' tensors over the wire.
secret=000102030405060708090a0b0c0d0e0f
for hosts in 2 4; do
    port=$((20000 + ($$ * 7 + hosts) % 12000))
    for rank in 3 2 1 0; do
        env RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$port MGC_PORT=$port MGC_SECRET=$secret MGC_FAKE_HOSTS=$hosts TORCHELASTIC_RUN_ID=stages \
            "$bin/fake_stages_4x1" --data text --out hosts_$hosts --steps 12 --save-every 4 >out.$rank 2>err.$rank </dev/null &
        [ $rank = 0 ] || continue
        wait $! || { cat err.*; fail "rank 0 ended with $?"; }
    done
    wait
    same_run 1x1 hosts_$hosts
done
exit 0
