# A damaged checkpoint is never loaded: the newest whole one is taken, or none, with the reason.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake
expect 0 "$fake" --data text --out good --steps 8 --save-every 4
newest=run/ckpt/step-00000008

# flip FILE BYTE: one bit of it.
flip() {
    old=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "\\$(printf '%03o' $((old ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# passed_over WHAT: from here --resume=auto falls back to step 4, and --resume=DIR refuses.
passed_over() {
    expect 65 "$fake" --data text --out other --resume=$newest
    [ ! -e other/metrics.jsonl ] || fail "$1: began a run"
    cp err why
    expect 0 "$fake" --data text --out run --steps 8 --resume=auto
    says err "passed over: $newest"
    says out "resumed from run/ckpt/step-00000004"
    cmp $newest/model.safetensors good/ckpt/step-00000008/model.safetensors || fail "$1: not repaired"
    expect 0 "$fake" --data text --out run --steps 8 --resume=auto
    says_not err "passed over"
    rm -rf run
    cp -r good run
}
cp -r good run

for file in model optimizer; do
    size=$(wc -c <$newest/$file.safetensors)
    for at in 0 7 8 9 60 200 300 $((size / 2)) $((size - 1)); do
        flip $newest/$file.safetensors $at
        passed_over "bit of byte $at of $file"
    done
    for at in 0 1 7 8 100 4096 $((size - 1)); do
        truncate -s $at $newest/$file.safetensors
        passed_over "$file cut to $at"
        says why "it was written with $size"
    done
    printf x >>$newest/$file.safetensors
    passed_over "$file too long"
    rm $newest/$file.safetensors
    passed_over "no $file"
    mv $newest/$file.safetensors x && mkdir $newest/$file.safetensors
    expect 65 "$fake" --data text --out other --resume=$newest
    rm -rf run && cp -r good run
done
size=$(wc -c <$newest/state.json)
at=0
while [ $at -lt "$size" ]; do
    flip $newest/state.json $at
    expect 65 "$fake" --out other --sample 1 --resume=$newest
    flip $newest/state.json $at
    at=$((at + 5))
done
for at in 0 1 22 23 100 $((size - 1)); do
    truncate -s $at $newest/state.json
    passed_over "state.json cut to $at"
done
rm $newest/state.json
passed_over "no state.json"
cp run/ckpt/step-00000004/model.safetensors $newest/
passed_over "the model of another step"
says why "CRC-32C"

# Nothing whole is left: refused, not restarted in silence; without --resume it is set aside.
for step in 4 8; do truncate -s 100 run/ckpt/step-0000000$step/model.safetensors; done
expect 65 "$fake" --data text --out run --resume=auto
says err "none of the 2 checkpoints"
expect 0 "$fake" --data text --out run --steps 8
says err "moved to run/previous-1"
[ -d run/previous-1/ckpt/step-00000008 ] || fail "not set aside"

# Another program: every tensor that does not fit is named.
expect 65 "$bin/fake_other" --data text --out good --resume=good/ckpt/step-00000008
says err "fingerprint 0123456789abcdef, this program's is 0000000000000077"
expect 65 "$bin/fake_renamed" --data text --out good --resume=good/ckpt/step-00000008
says err "model.safetensors: matrix.weight is missing: this program has F32[256, 256] (fake.mg:3)"
says err "model.safetensors: table.weight is not in this program"
says err "optimizer.safetensors: momentum.matrix.weight is missing"
says err "optimizer.safetensors: momentum.table.weight is not in this program"
says err "model.safetensors: layers.0.bias differs: this program has F32[4, 64] (fake.mg:4), the checkpoint F32[256]"
exit 0
