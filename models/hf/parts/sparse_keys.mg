%# Experts as Qwen's: in which layers, how many, how wide. Before it: default_experts, default_best, default_wide, default_ffn.
%key experts : whole = default_experts from num_experts, num_local_experts as experts
%key best : whole = default_best from num_experts_per_tok as best
%key wide : whole = default_wide from moe_intermediate_size as wide
%key norm_topk_prob : flag = default_norm_topk
%key step : whole = 1 from decoder_sparse_step
%key mlp_only_layers : list? = []
%require best <= experts, "num_experts_per_tok", "is more than there are experts"
%let kinds = [(l + 1) % step == 0 and not (l in (mlp_only_layers == null ? [] : mlp_only_layers)) for l < layers]
%let sparse = where(kinds, true), sparse_layers = count(kinds, true)
%require sparse_layers > 0, "decoder_sparse_step", "leaves no layer with experts"
%if sparse == "1"
%key ffn : whole = default_ffn from intermediate_size
%else
%key ffn : whole = default_ffn from intermediate_size as ffn
%end
%include "parts/balance.mg"
