# mg.kak - mgc's language in Kakoune: highlighting, comments, indentation; kak-lsp starts the server (docs/editors.md).

hook global BufCreate .*[.]mg %{
    set-option buffer filetype mg
}

hook global WinSetOption filetype=mg %{
    require-module mg
    set-option window comment_line '#'
    hook window InsertChar \n -group mg-indent %{
        try %{ execute-keys -draft <semicolon>K<a-&> }
        try %{ execute-keys -draft k <a-x> <a-k>\{\h*$<ret> j <a-gt> }
    }
    hook -once -always window WinSetOption filetype=.* %{ remove-hooks window mg-indent }
}

hook -group mg-highlight global WinSetOption filetype=mg %{
    add-highlighter window/mg ref mg
    hook -once -always window WinSetOption filetype=.* %{ remove-highlighter window/mg }
}

provide-module mg %{

# words of the language (scripts/editors writes them)
declare-option -hidden str mg_keywords 'config|layout|metric|repeat|return|along|block|const|model|param|train|where|over|scan|dim|as|to'
declare-option -hidden str mg_functions 'bias_correction|document_start|softmax_beside|cross_entropy|regularized|rope_llama3|orthogonal|adam_step|attention|gelu_tanh|imbalance|layernorm|scores_of|dispatch|average|combine|decayed|dropout|grouped|quintic|rmsnorm|rounded|sigmoid|softmax|uniform|expand|in_top|normal|rotate|select|index|rsqrt|valid|ceil|gelu|join|kept|last|mean|next|pick|relu|rope|sign|silu|sqrt|step|stop|tanh|abs|cos|erf|exp|log|max|min|pow|sin|sum|top'
declare-option -hidden str mg_settings 'microbatch|optimizer|precision|recompute|average|offload|rollout|assert|device|frozen|update|chunk|decay|clip|mesh|rate|pad|lr'
declare-option -hidden str mg_values 'warmup_cosine|exposed_comm|inverse_sqrt|interleaved|parameters|rtxpro6000|adafactor|gradients|rtx5060ti|as_ready|constant|h100_nvl|together|masters|rtx3090|rtx4090|rtx5090|cosine|linear|params|warmup|adamw|gb200|gh200|gpipe|grads|state|whole|zb-h1|1f1b|a100|adam|auto|b200|bf16|cpus|disk|dora|h100|h200|host|keep|kept|l40s|lion|lora|muon|none|peak|step|tf32|all|cpu|f16|f32|f64|fp8|sgd|wsd'
# end of words

add-highlighter shared/mg regions
add-highlighter shared/mg/code default-region group
add-highlighter shared/mg/comment region '#' '$' fill comment
add-highlighter shared/mg/string region '"' '"|$' fill string

evaluate-commands %sh{
    printf 'add-highlighter shared/mg/code/ regex "\\b(%s)\\b" 0:keyword\n' "$kak_opt_mg_keywords"
    printf 'add-highlighter shared/mg/code/ regex "\\b(%s)\\b(?=\\s*\\()" 0:builtin\n' "$kak_opt_mg_functions"
    printf 'add-highlighter shared/mg/code/ regex "^\\s*(%s)\\b(?=\\s+[^=:,\\s])" 1:attribute\n' "$kak_opt_mg_settings"
    printf 'add-highlighter shared/mg/code/ regex "\\b(%s)\\b" 0:value\n' "$kak_opt_mg_values"
}
add-highlighter shared/mg/code/ regex '\b(?:block|model|layout|train|optimizer)\h+(\w+)' 1:function
add-highlighter shared/mg/code/ regex '^\h*(optimizer|setting|state|rest|adapter)\b(?=\h+[\w-])' 1:keyword
add-highlighter shared/mg/code/ regex '\b\d+(\.\d+)?([eE][+-]?\d+)?\b' 0:value
add-highlighter shared/mg/code/ regex '->|\.\.|[-+*/%@~]|[<>=!]?=|[<>]' 0:operator

}
