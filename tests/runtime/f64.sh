# A program in float64: trained, saved as F64, resumed to the bit, sampled; near the one in float32.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
expect 0 "$bin/fake_f64" --data text --out whole
expect 0 "$bin/fake_f64" --data text --out parts --save-every 30 --keep 0
rm -r parts/ckpt/step-00000060
expect 0 "$bin/fake_f64" --data text --out parts --resume
same_run whole parts
grep -aq '"table.weight":{"dtype":"F64"' whole/ckpt/step-00000060/model.safetensors || fail "not F64"
grep -aq '"momentum.table.weight":{"dtype":"F64"' whole/ckpt/step-00000060/optimizer.safetensors || fail "not F64"

expect 0 "$bin/fake" --data text --out single
for dir in whole single; do sed -n 's/.*"loss":\([^,]*\),.*/\1/p' $dir/metrics.jsonl >$dir.loss; done
paste whole.loss single.loss | awk '
    { d = $1 - $2; d = d < 0 ? -d : d; if (d > 1e-4) exit 1; if (d > 0) differ = 1 }
    END { exit !differ }' || fail "float64 is not near float32, or is float32"

expect 0 "$bin/fake_f64" --resume --out whole --sample 50 --temperature 0
cp out double
expect 0 "$bin/fake" --resume --out single --sample 50 --temperature 0
cmp out double || fail "the likeliest text is another"

expect 65 "$bin/fake_f64" --resume=single/ckpt/step-00000060 --sample 1
says err "table.weight differs: this program has F64[256, 256] (fake.mg:3), the checkpoint F32[256, 256]"
exit 0
