# What a run leaves: --perplexity, --prompts, --export and the model card, by the program that sanitizers see, too. Their
# numbers are the business of tests/e2e.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

printf 'the \n\n"a\\nb"\n' >prompts
expect 0 "$fake" --data text --val-fraction 0.1 --steps 6 --eval-every 2 --prompts prompts --sample 5 \
    --perplexity text --perplexity prompts --export halves --export-type bf16 --export-shard 500
for step in 2 4 6; do
    says out "step $step/6  sample 1: \"the \" -> \""
    says out "step $step/6  sample 2: \"a\\nb\" -> \""
    says run/metrics.jsonl "{\"step\":$step,\"samples\":[{\"prompt\":\"the \",\"text\":\""
done
grep '^{"file":"text"' out >want
[ "$(grep -c '^{"file":"\(text\|prompts\|all\)","step":6,"loss":' out)" -eq 3 ] || fail "three files are told"
for file in README.md loss.svg config.json model-00001-of-00003.safetensors model.safetensors.index.json; do
    [ -s "halves/$file" ] || fail "no $file"
done
says halves/model.safetensors.index.json '"total_size": '
says halves/README.md "$(sha256sum text | cut -d ' ' -f 1)"
says halves/README.md "after step 6."

# The run's bits are those without, and it goes on from there; another process says the same of its files.
expect 0 "$fake" --data text --val-fraction 0.1 --steps 6 --out plain
same_run run plain
expect 0 "$fake" --resume --perplexity text
grep '^{' out | cmp - want || fail "another perplexity"
expect 0 "$fake" --resume --export again --export-type f16
expect 74 "$fake" --resume --export again
says err "writing model.safetensors: File exists"
expect 65 "$fake" --data text --prompts none --out no
expect 65 "$fake" --perplexity none
[ ! -e no ] || fail "made a run directory"
