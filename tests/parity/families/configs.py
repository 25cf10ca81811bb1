"""Configs of transformers for each family: the first of a family is also compiled by each run of the tests."""

SIZES = {"vocab_size": 72, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 24, "pad_token_id": None, "bos_token_id": 0, "eos_token_id": 1}
GPT2 = {"vocab_size": 72, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 20, "bos_token_id": 0, "eos_token_id": 1,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 12}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 400, "beta_fast": 16.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.0, 1.5, 2.0], "long_factor": [1.0, 1.25, 3.0, 6.0],
        "original_max_position_embeddings": 12}
MAMBA2 = {"vocab_size": 72, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1,
          "chunk_size": 8, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
BAMBA = {**SIZES, "num_hidden_layers": 3, "attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8,
         "mamba_n_groups": 1, "mamba_chunk_size": 8}

NEOX = {k: v for k, v in SIZES.items() if k != "num_key_value_heads"}
FALCON = {k: v for k, v in NEOX.items() if k != "intermediate_size"}
QWEN_MOE = {**SIZES, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

DEEPSEEK2 = {**SIZES, "num_key_value_heads": 4, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_routed_experts": 4,
             "n_shared_experts": 2, "num_experts_per_tok": 2, "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 8,
             "qk_rope_head_dim": 8, "v_head_dim": 12}
DEEPSEEK3 = {**DEEPSEEK2, "n_shared_experts": 1, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "q_lora_rank": 12}

MAMBA = {"vocab_size": 72, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "bos_token_id": 0, "eos_token_id": 1,
         "pad_token_id": 0}
QWEN_NEXT = {**QWEN_MOE, "num_hidden_layers": 4, "head_dim": 16, "shared_expert_intermediate_size": 20, "linear_key_head_dim": 16, "rms_norm_eps": 0.01,
             "linear_value_head_dim": 12, "linear_num_key_heads": 2, "linear_num_value_heads": 4}

# family: {case: keys}
CONFIGS = {
    "llama": {
        "plain": SIZES,
        "biases": {**SIZES, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu", "head_dim": 12},
        "tied": {**SIZES, "num_key_value_heads": 4, "tie_word_embeddings": True, "hidden_act": "relu2"},
        "linear": {**SIZES, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
        "dynamic": {**SIZES, "max_position_embeddings": 12, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.0}},
        "yarn": {**SIZES, "rope_parameters": YARN},
        "yarn-untruncated": {**SIZES, "rope_parameters": {**YARN, "truncate": False, "mscale": 0.7, "mscale_all_dim": 1.2}},
        "llama3": {**SIZES, "rope_parameters": LLAMA3},
        "longrope": {**SIZES, "rope_parameters": LONG},
        "longrope-short": {**SIZES, "rope_parameters": {**LONG, "original_max_position_embeddings": 22, "factor": 3.0}},
    },
    "mistral": {
        "window": {**SIZES, "sliding_window": 6},
        "full": {**SIZES, "sliding_window": None, "head_dim": 12},
    },
    "mixtral": {
        "plain": {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2},
        "balanced": {**SIZES, "num_local_experts": 6, "num_experts_per_tok": 3, "output_router_logits": True, "router_aux_loss_coef": 0.3,
                     "sliding_window": 7},
    },
    "qwen2": {
        "tied": {**SIZES, "tie_word_embeddings": True},
        "windows": {**SIZES, "num_hidden_layers": 4, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
        "layer-types": {**SIZES, "num_hidden_layers": 4, "use_sliding_window": True, "sliding_window": 5,
                        "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]},
    },
    "qwen3": {
        "plain": {**SIZES, "head_dim": 12},
        "bias": {**SIZES, "head_dim": 8, "attention_bias": True, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    },
    "phi3": {
        "plain": SIZES,
        "partial-window-tied": {**SIZES, "hidden_size": 64, "resid_pdrop": 0.1, "tie_word_embeddings": True, "sliding_window": 6, "rope_parameters": {
            "rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.75}},
        "longrope": {**SIZES, "original_max_position_embeddings": 12, "rope_parameters": {**LONG, "original_max_position_embeddings": 12}},
    },
    "gpt2": {
        "plain": GPT2,
        "dropout": {**GPT2, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "tie_word_embeddings": False},
        "other": {**GPT2, "activation_function": "relu", "n_inner": 40, "scale_attn_weights": False},
    },
    "mamba2": {
        "plain": MAMBA2,
        "groups": {**MAMBA2, "n_groups": 2, "use_bias": True, "tie_word_embeddings": True, "conv_kernel": 3},
        "limits": {**MAMBA2, "use_conv_bias": False, "time_step_limit": [0.02, 0.5]},
    },
    "bamba": {
        "plain": BAMBA,
        "groups-tied": {**BAMBA, "mamba_n_groups": 2, "tie_word_embeddings": True, "attn_layer_indices": [0, 2]},
    },
    "gemma": {
        "plain": {**SIZES, "head_dim": 12},
        "bias-untied": {**SIZES, "head_dim": 8, "attention_bias": True, "tie_word_embeddings": False, "hidden_act": "relu"},
    },
    "gemma2": {
        "plain": {**SIZES, "num_hidden_layers": 3, "head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 6,
                  "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
        "dropout": {**SIZES, "num_hidden_layers": 2, "head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 6,
                    "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "attention_dropout": 0.2},
        "uncapped": {**SIZES, "num_hidden_layers": 3, "head_dim": 8, "query_pre_attn_scalar": 8, "attn_logit_softcapping": None,
                     "final_logit_softcapping": None, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
                     "sliding_window": 5, "tie_word_embeddings": False},
    },
    "granite": {
        "dropout": {**SIZES, "attention_multiplier": 0.2, "attention_dropout": 0.1},
        "plain": {**SIZES, "embedding_multiplier": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.5, "logits_scaling": 2.0},
        "biases-tied": {**SIZES, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "attention_multiplier": 0.3},
    },
    "olmo2": {
        "plain": SIZES,
        "bias-yarn": {**SIZES, "attention_bias": True, "num_key_value_heads": 4, "rope_parameters": YARN},
    },
    "gemma3_text": {
        "plain": {**SIZES, "num_hidden_layers": 4, "head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 6,
                  "sliding_window_pattern": 2},
        "linear": {**SIZES, "num_hidden_layers": 3, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5, "attention_bias": True,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": False,
                   "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
                                       "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}},
    },
    "cohere": {
        "plain": {**SIZES, "logit_scale": 0.5},
        "norms-biases": {**SIZES, "use_qk_norm": True, "attention_bias": True, "tie_word_embeddings": False, "logit_scale": 2.0},
    },
    "cohere2": {
        "plain": {**SIZES, "num_hidden_layers": 4, "sliding_window": 6, "logit_scale": 0.5},
        "long-window": {**SIZES, "num_hidden_layers": 3, "sliding_window": 64, "attention_bias": True, "tie_word_embeddings": False,
                        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
    },
    "starcoder2": {
        "plain": {**SIZES, "sliding_window": 6},
        "dropout": {**SIZES, "sliding_window": 6, "attention_dropout": 0.1, "residual_dropout": 0.1, "embedding_dropout": 0.1},
        "no-biases": {**SIZES, "use_bias": False, "tie_word_embeddings": False, "hidden_act": "gelu"},
    },
    "stablelm": {
        "plain": {**SIZES, "partial_rotary_factor": 0.5},
        "parallel-norms": {**SIZES, "hidden_dropout": 0.1, "use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True, "hidden_size": 64},
        "tied": {**SIZES, "partial_rotary_factor": 1.0, "num_key_value_heads": 4, "tie_word_embeddings": True},
    },
    "smollm3": {
        "plain": {**SIZES, "num_hidden_layers": 4},
        "windows": {**SIZES, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 0], "use_sliding_window": True, "sliding_window": 5,
                    "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False},
    },
    "glm": {
        "plain": {**SIZES, "head_dim": 8},
        "no-bias": {**SIZES, "head_dim": 12, "attention_bias": False, "partial_rotary_factor": 1.0, "tie_word_embeddings": True},
    },
    "glm4": {
        "plain": {**SIZES, "head_dim": 8},
        "no-bias": {**SIZES, "head_dim": 12, "attention_bias": False, "partial_rotary_factor": 1.0, "tie_word_embeddings": True},
    },
    "qwen2_moe": {
        "plain": {**QWEN_MOE, "shared_expert_intermediate_size": 28},
        "some-dense": {**QWEN_MOE, "shared_expert_intermediate_size": 24, "num_hidden_layers": 4, "decoder_sparse_step": 2, "qkv_bias": False,
                       "mlp_only_layers": [3], "norm_topk_prob": True, "output_router_logits": True, "router_aux_loss_coef": 0.3},
    },
    "qwen3_moe": {
        "plain": {**QWEN_MOE, "head_dim": 12, "norm_topk_prob": True},
        "some-dense": {**QWEN_MOE, "num_hidden_layers": 3, "mlp_only_layers": [0], "output_router_logits": True,
                       "router_aux_loss_coef": 0.3, "attention_bias": True, "use_sliding_window": True, "sliding_window": 6},
    },
    "phi": {
        "plain": {**SIZES, "partial_rotary_factor": 0.5, "num_key_value_heads": 4},
        "norms-tied": {**SIZES, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "qk_layernorm": True, "hidden_size": 64, "tie_word_embeddings": True},
    },
    "gptj": {
        "plain": {**GPT2, "rotary_dim": 4},
        "whole-tied": {**GPT2, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "rotary_dim": 8, "tie_word_embeddings": True, "n_inner": 40, "activation_function": "relu"},
    },
    "gpt_neox": {
        "plain": {**NEOX, "hidden_size": 64},
        "serial": {**NEOX, "hidden_dropout": 0.1, "rotary_pct": 1.0, "use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True},
    },
    "falcon": {
        "one-key": {**FALCON, "ffn_hidden_size": 48},
        "groups": {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": True, "tie_word_embeddings": False},
        "one-norm": {**FALCON, "hidden_dropout": 0.1, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        "serial": {**FALCON, "multi_query": False, "parallel_attn": False, "bias": True},
    },
    "deepseek_v2": {
        "plain": DEEPSEEK2,
        "groups-yarn": {**DEEPSEEK2, "q_lora_rank": 12, "n_routed_experts": 8, "topk_method": "group_limited_greedy", "n_group": 4,
                        "topk_group": 2, "routed_scaling_factor": 2.0, "attention_bias": True, "first_k_dense_replace": 0,
                        "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.7}},
    },
    "deepseek_v3": {
        "plain": DEEPSEEK3,
        "one-group-yarn": {**DEEPSEEK3, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False, "attention_bias": True,
                           "rope_interleave": False, "first_k_dense_replace": 2, "num_hidden_layers": 3,
                           "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}},
    },
    "gpt_oss": {
        "plain": {**SIZES, "head_dim": 8, "intermediate_size": 24, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 6,
                  "num_hidden_layers": 3, "rope_parameters": {**YARN, "truncate": False}, "swiglu_limit": 0.5},
        "balanced": {**SIZES, "head_dim": 12, "intermediate_size": 20, "num_local_experts": 4, "num_experts_per_tok": 3, "attention_bias": False,
                     "rope_parameters": YARN, "output_router_logits": True, "router_aux_loss_coef": 0.3, "tie_word_embeddings": True,
                     "sliding_window": 64},
    },
    "mamba": {
        "plain": MAMBA,
        "biases": {**MAMBA, "use_bias": True, "use_conv_bias": False, "tie_word_embeddings": False, "conv_kernel": 3, "time_step_rank": 3},
    },
    "qwen3_next": {
        "plain": QWEN_NEXT,
        "some-dense": {**QWEN_NEXT, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
                       "mlp_only_layers": [1], "attention_bias": True, "norm_topk_prob": False, "output_router_logits": True,
                       "router_aux_loss_coef": 0.3, "linear_num_key_heads": 4, "linear_conv_kernel_dim": 3, "tie_word_embeddings": True},
    },
}
