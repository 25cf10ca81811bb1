# A NaN never reaches a parameter: the run names the op, the element and the step, and stops.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake
expect 0 "$fake" --data text --out whole
for threads in 1 2; do
    rm -rf run
    MGC_FAKE_NAN=25 expect 1 "$fake" --data text --out run --save-every 10 --threads $threads
    says err "step 25 gave a loss of nan"
    says err "action 0, logits (kernel, fake.mg:6), run 1 of it in this step, output 1: element 1287 of 16384 is nan"
    says err "the newest checkpoint is run/ckpt/step-00000020"
    says_not run/metrics.jsonl nan
    [ "$(losses run | wc -l)" -eq 24 ] || fail "the bad step was logged"
    [ "$(ls -A run/ckpt | tr '\n' ' ')" = "step-00000010 step-00000020 " ] || fail "checkpoints: $(ls -A run/ckpt)"
    expect 0 "$fake" --data text --out run --resume
    same_run whole run
done

# A parameter that is not finite to begin with is named before any action.
expect 1 "$bin/fake_nan_init" --data text --out init
says err "before the step layers.{}.bias (fake.mg:4) already held"
exit 0
