" mg.vim - highlighting of mgc's language.
if exists('b:current_syntax')
  finish
endif

" words of the language (scripts/editors writes them)
syn keyword mgKeyword dim const block model config param metric repeat scan return as over along where to
syn keyword mgFunction stop abs sign exp log sqrt rsqrt tanh erf sigmoid sin cos pow max min ceil rounded sum mean
syn keyword mgFunction select index valid pick last rotate join dropout uniform step expand next top dispatch combine
syn keyword mgFunction grouped relu silu gelu gelu_tanh softmax rmsnorm layernorm rope rope_llama3 document_start
syn keyword mgFunction softmax_beside attention cross_entropy scores_of in_top imbalance normal decayed regularized
syn keyword mgFunction average bias_correction adam_step kept quintic orthogonal
syn keyword mgSetting contained optimizer lr clip average precision update rollout decay frozen rate device mesh
syn keyword mgSetting contained microbatch recompute chunk assert pad offload
syn keyword mgValue contained adamw sgd adam lion adafactor muon constant linear cosine wsd inverse_sqrt warmup
syn keyword mgValue contained warmup_cosine cpu cpus a100 h100 h200 b200 gb200 gh200 h100_nvl l40s rtx3090 rtx4090
syn keyword mgValue contained rtx5060ti rtx5090 rtxpro6000 f32 f64 tf32 bf16 f16 fp8 lora dora whole 1f1b gpipe
syn keyword mgValue contained interleaved auto none all keep peak exposed_comm step host disk together as_ready state
syn keyword mgValue contained grads params masters parameters gradients kept
syn match mgValue "\<\%(zb-h1\)\>" contained
" end of words

syn match mgName "\<\%(block\|model\|layout\|train\|optimizer\|setting\)\s\+\zs\h\w*"
syn match mgSoft "^\s*\%(optimizer\|setting\|state\|rest\|adapter\)\ze\s\+[0-9A-Za-z_-]"
syn match mgSoft "\s\zs\%(at\|x\|follows\|on\)\ze\s\+[0-9A-Za-z_("]"
syn match mgNumber "\<[0-9]\+\%(\.[0-9]\+\)\?\%([eE][+-]\?[0-9]\+\)\?\>"
syn match mgOperator "->\|\.\.\|[-+*/%@~]\|[<>=!]=\|[<>=]"
syn match mgPlace "{[^}"]*}" contained
syn region mgString start=+"+ end=+"\|$+ oneline contains=mgPlace
syn match mgComment "#.*$" contains=@Spell
syn region mgSettings matchgroup=mgKeyword start="^\s*\%(train\|layout\)\>\%([^{#]*{\)\@=" end="}" contains=ALLBUT,mgPlace

hi def link mgKeyword Keyword
hi def link mgSoft Keyword
hi def link mgFunction Function
hi def link mgName Function
hi def link mgSetting Identifier
hi def link mgValue Constant
hi def link mgNumber Number
hi def link mgOperator Operator
hi def link mgString String
hi def link mgPlace Special
hi def link mgComment Comment

let b:current_syntax = 'mg'
