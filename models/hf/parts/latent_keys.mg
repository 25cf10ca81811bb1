%# Latent attention: keys and values out of a short vector that all heads share; a part of each key turns, and is the same for all heads.
%key hidden : whole = default_hidden from hidden_size as hidden
%key layers : whole = default_layers from num_hidden_layers as layers
%key heads : whole = default_heads from num_attention_heads as heads
%key kv_heads : whole = heads from num_key_value_heads as heads
%require kv_heads == heads, "num_key_value_heads", "is not num_attention_heads"
%key latent : whole = 512 from kv_lora_rank as latent
%key narrow : whole? = 1536 from q_lora_rank
%if narrow != null
%key narrow : whole = 1536 from q_lora_rank as narrow
%end
%key rotary : whole = 64 from qk_rope_head_dim as turn
%key head_dim : whole? = rotary only rotary from head_dim as turn
%key qk_head_dim : any? = null as still + turn
%key still : whole = 128 from qk_nope_head_dim as still
%key value : whole = 128 from v_head_dim as value
%key vocab : whole = default_vocab from vocab_size as vocab
%key positions : whole = default_positions from max_position_embeddings
%key std : positive = 0.02 from initializer_range as std
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key tied : flag = false from tie_word_embeddings
%key attention_bias : flag = false
%key attention_dropout : number? = 0 only 0
%key act_word : word = "silu" from hidden_act
%let seq = positions < 4096 ? positions : 4096
%if tied
%extra "lm_head.weight"
%end
%let head = rotary
%include "parts/rope_keys.mg"
%require rope_type in ["default", "yarn"], "rope_type", "is neither 'default' nor 'yarn', which are built for this family"
%let turned_dim = "turn"
%# Beside the factor of rotary positions there is one of scores.
%let times = rope_type == "yarn" and factor > 1 and mscale_all != null and mscale_all != 0 ? "(0.1 * " + mscale_all + " * log(" + factor + ") + 1)" : ""
%let score_scale = times == "" ? "" : ", scale = " + times + " * " + times + " / sqrt(key)"
