%# DeepSeek-V2 (2024): latent attention; experts of the best groups, beside one that all go through.
%include "parts/any.mg"
%let default_vocab = 102400, default_positions = 2048, v3 = false, pairs = true
%include "parts/latent_keys.mg"
%key experts : whole = 64 from n_routed_experts as experts
%key wide : whole = 1407 from moe_intermediate_size as wide
%key best : whole from num_experts_per_tok as best
%key shared_count : whole = 2 from n_shared_experts
%key dense : count = 0 from first_k_dense_replace
%require dense < layers, "first_k_dense_replace", "leaves no layer with experts"
%if dense > 0
%key ffn : whole = 11008 from intermediate_size as ffn
%else
%key ffn : whole = 11008 from intermediate_size
%end
%key scaling : number = 1 from routed_scaling_factor as scaling
%require best <= experts, "num_experts_per_tok", "is more than there are experts"
%key moe_layer_freq : whole = 1 only 1
%key output_router_logits : flag = false only false
%key mlp_bias : flag = false only false
%key scoring_func : word = "softmax" only "softmax"
%key topk_method : word = "greedy" only "greedy", "group_limited_greedy"
%let grouped_choice = topk_method == "group_limited_greedy"
%if grouped_choice
%key groups : whole from n_group as groups
%key kept : whole from topk_group as kept
%require experts % groups == 0, "n_group", "does not divide the experts"
%require kept <= groups and kept * (experts // groups) >= best, "topk_group", "leaves too few experts, or is more than there are groups"
%else
%ignore n_group, topk_group
%end
%# transformers does not use the first, and has no loss of balance.
%ignore norm_topk_prob, aux_loss_alpha, seq_aux, ep_size
%let norm_topk_prob = false
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, heads = $heads, still = $still, turn = $rotary, key = still + turn, value = $value, latent = $latent$(narrow == null ? "" : ", narrow = " + narrow)
dim kv = still + value, short = latent + turn$(pairs ? ", half = turn / 2, two = 2" : grouped_choice and v3 ? ", two = 2" : "")$(dense > 0 ? ", ffn = " + ffn : "")
# Each choice has a row, sorted by expert: nothing is dropped.
dim experts = $experts, choice = experts, best = $best, rows = best * seq, wide = $wide, shared = $(shared_count) * wide
%if grouped_choice
dim groups = $groups, member = choice / groups, kept = $kept
%end
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std, scaling = $(real(scaling))

%include "parts/latent_model.mg"
