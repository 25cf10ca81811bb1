%# DeepSeek-V3 (2024): as deepseek_v2; experts are chosen by sigmoid scores and a bias that only the choice reads. The bias is no loss's, and stays;
%# the layer that predicts the token after the next one is left out, as transformers does.
%include "parts/any.mg"
%let default_hidden = 7168, default_layers = 61, default_heads = 128, default_vocab = 129280, default_positions = 4096, v3 = true
%key pairs : flag = true from rope_interleave
%include "parts/latent_keys.mg"
%key experts : whole = 256 from n_routed_experts as experts
%key wide : whole = 2048 from moe_intermediate_size as wide
%key best : whole = 8 from num_experts_per_tok as best
%key shared_count : whole = 1 from n_shared_experts
%key dense : count = 3 from first_k_dense_replace
%require dense < layers, "first_k_dense_replace", "leaves no layer with experts"
%if dense > 0
%key ffn : whole = 18432 from intermediate_size as ffn
%else
%key ffn : whole = 18432 from intermediate_size
%end
%key scaling : number = 2.5 from routed_scaling_factor as scaling
%require best <= experts, "num_experts_per_tok", "is more than there are experts"
%key moe_layer_freq : whole = 1 only 1
%key output_router_logits : flag = false only false
%key scoring_func : word = "sigmoid" only "sigmoid"
%key topk_method : word = "noaux_tc" only "noaux_tc"
%key norm_topk_prob : flag = true
%key groups : whole = 8 from n_group
%key kept : whole = 4 from topk_group
%let grouped_choice = groups > 1
%if grouped_choice
%key groups : whole = 8 from n_group as groups
%key kept : whole = 4 from topk_group as kept
%end
%require experts % groups == 0, "n_group", "does not divide the experts"
%require kept <= groups and kept * (experts // groups) >= best, "topk_group", "leaves too few experts, or is more than there are groups"
%ignore ep_size, num_nextn_predict_layers, num_mtp_layers, aux_loss_alpha, seq_aux
%extra "model.layers." + layers + ".*"
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
