"""config.json of published models, as far as it is about the model: import-hf takes each, and its number of parameters is that of transformers
(`generate.py --published` writes golden/published/*.json, from models without data)."""

TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16", "use_cache": True, "transformers_version": "4.44.0"}


def of(kind, architecture, **keys):
    return {"architectures": [architecture], "model_type": kind, **TOKENS, **keys}


def llama_like(kind, architecture, hidden, ffn, layers, heads, kv, vocab, positions, **keys):
    return of(kind, architecture, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads,
              num_key_value_heads=kv, vocab_size=vocab, max_position_embeddings=positions, initializer_range=0.02, **keys)


SILU = {"hidden_act": "silu", "attention_dropout": 0.0}
LONG48 = [1.0 + 0.25 * i for i in range(48)]

CONFIGS = {
    "llama-3.1-8b": llama_like(
        "llama", "LlamaForCausalLM", 4096, 14336, 32, 32, 8, 128256, 131072, **SILU, attention_bias=False, mlp_bias=False, pretraining_tp=1,
        rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=False, rope_scaling={
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}),
    "llama-3.2-1b": llama_like(
        "llama", "LlamaForCausalLM", 2048, 8192, 16, 32, 8, 128256, 131072, **SILU, attention_bias=False, head_dim=64, mlp_bias=False,
        pretraining_tp=1, rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=True, rope_scaling={
            "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}),
    "mistral-7b-v0.1": llama_like("mistral", "MistralForCausalLM", 4096, 14336, 32, 32, 8, 32000, 32768, hidden_act="silu", rms_norm_eps=1e-5,
                                  rope_theta=10000.0, sliding_window=4096, tie_word_embeddings=False),
    "mixtral-8x7b": llama_like("mixtral", "MixtralForCausalLM", 4096, 14336, 32, 32, 8, 32000, 32768, **SILU, num_experts_per_tok=2,
                               num_local_experts=8, output_router_logits=False, rms_norm_eps=1e-5, rope_theta=1000000.0,
                               router_aux_loss_coef=0.02, sliding_window=None, tie_word_embeddings=False),
    "qwen2.5-7b": llama_like("qwen2", "Qwen2ForCausalLM", 3584, 18944, 28, 28, 4, 152064, 131072, **SILU, max_window_layers=28,
                             rms_norm_eps=1e-6, rope_theta=1000000.0, sliding_window=131072, tie_word_embeddings=False,
                             use_mrope=False, use_sliding_window=False),
    "qwen3-0.6b": llama_like("qwen3", "Qwen3ForCausalLM", 1024, 3072, 28, 16, 8, 151936, 40960, **SILU, attention_bias=False, head_dim=128,
                             max_window_layers=28, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=1000000, sliding_window=None,
                             tie_word_embeddings=True, use_sliding_window=False),
    "qwen3-30b-a3b": llama_like("qwen3_moe", "Qwen3MoeForCausalLM", 2048, 6144, 48, 32, 4, 151936, 40960, **SILU, attention_bias=False,
                                decoder_sparse_step=1, head_dim=128, max_window_layers=48, mlp_only_layers=[], moe_intermediate_size=768,
                                norm_topk_prob=True, num_experts=128, num_experts_per_tok=8, output_router_logits=False, rms_norm_eps=1e-6,
                                rope_scaling=None, rope_theta=1000000.0, router_aux_loss_coef=0.001, sliding_window=None,
                                tie_word_embeddings=False, use_sliding_window=False),
    "qwen1.5-moe-a2.7b": llama_like("qwen2_moe", "Qwen2MoeForCausalLM", 2048, 5632, 24, 16, 16, 151936, 8192, **SILU, decoder_sparse_step=1,
                                    max_window_layers=21, moe_intermediate_size=1408, norm_topk_prob=False, num_experts=60,
                                    num_experts_per_tok=4, output_router_logits=False, rms_norm_eps=1e-6, rope_theta=1000000.0,
                                    router_aux_loss_coef=0.001, shared_expert_intermediate_size=5632, sliding_window=32768,
                                    tie_word_embeddings=False, use_sliding_window=False),
    "qwen3-next-80b-a3b": llama_like(
        "qwen3_next", "Qwen3NextForCausalLM", 2048, 5120, 48, 16, 2, 151936, 262144, **SILU, attention_bias=False, decoder_sparse_step=1,
        full_attention_interval=4, head_dim=256, linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_num_key_heads=16,
        linear_num_value_heads=32, linear_value_head_dim=128, mlp_only_layers=[], moe_intermediate_size=512, norm_topk_prob=True,
        num_experts=512, num_experts_per_tok=10, output_router_logits=False, partial_rotary_factor=0.25, rms_norm_eps=1e-6, rope_scaling=None,
        rope_theta=10000000, router_aux_loss_coef=0.001, shared_expert_intermediate_size=512, tie_word_embeddings=False),
    "gemma-2b": llama_like("gemma", "GemmaForCausalLM", 2048, 16384, 18, 8, 1, 256000, 8192, attention_bias=False, attention_dropout=0.0,
                           head_dim=256, hidden_act="gelu", pad_token_id=0, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000.0),
    "gemma-2-9b": llama_like("gemma2", "Gemma2ForCausalLM", 3584, 14336, 42, 16, 8, 256000, 8192, attention_bias=False, attention_dropout=0.0,
                             attn_logit_softcapping=50.0, cache_implementation="hybrid", final_logit_softcapping=30.0, head_dim=256,
                             hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", pad_token_id=0, query_pre_attn_scalar=256,
                             rms_norm_eps=1e-6, rope_theta=10000.0, sliding_window=4096, sliding_window_size=4096),
    "gemma-3-1b": llama_like("gemma3_text", "Gemma3ForCausalLM", 1152, 6912, 26, 4, 1, 262144, 32768, attention_bias=False,
                             attention_dropout=0.0, attn_logit_softcapping=None, cache_implementation="hybrid", final_logit_softcapping=None,
                             head_dim=256, hidden_activation="gelu_pytorch_tanh", pad_token_id=0, query_pre_attn_scalar=256,
                             rms_norm_eps=1e-6, rope_local_base_freq=10000, rope_scaling=None, rope_theta=1000000, sliding_window=512,
                             sliding_window_pattern=6),
    "phi-2": llama_like("phi", "PhiForCausalLM", 2560, 10240, 32, 32, 32, 51200, 2048, attention_dropout=0.0, embd_pdrop=0.0,
                        hidden_act="gelu_new", layer_norm_eps=1e-5, partial_rotary_factor=0.4, qk_layernorm=False, resid_pdrop=0.1,
                        rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False),
    "phi-3-mini-128k": llama_like(
        "phi3", "Phi3ForCausalLM", 3072, 8192, 32, 32, 32, 32064, 131072, attention_bias=False, attention_dropout=0.0, embd_pdrop=0.0,
        hidden_act="silu", original_max_position_embeddings=4096, pad_token_id=32000, resid_pdrop=0.0, rms_norm_eps=1e-5,
        rope_scaling={"long_factor": LONG48, "short_factor": LONG48[::-1], "type": "longrope"}, rope_theta=10000.0, sliding_window=262144,
        tie_word_embeddings=False),
    "gpt2": of("gpt2", "GPT2LMHeadModel", activation_function="gelu_new", attn_pdrop=0.1, embd_pdrop=0.1, initializer_range=0.02,
               layer_norm_epsilon=1e-5, n_ctx=1024, n_embd=768, n_head=12, n_layer=12, n_positions=1024, resid_pdrop=0.1,
               summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index",
               summary_use_proj=True, task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}}, vocab_size=50257),
    "gpt-j-6b": of("gptj", "GPTJForCausalLM", activation_function="gelu_new", attn_pdrop=0.0, embd_pdrop=0.0, gradient_checkpointing=False,
                   initializer_range=0.02, layer_norm_epsilon=1e-5, n_embd=4096, n_head=16, n_inner=None, n_layer=28, n_positions=2048,
                   resid_pdrop=0.0, rotary=True, rotary_dim=64, scale_attn_weights=True, summary_activation=None, summary_first_dropout=0.1,
                   summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True, tie_word_embeddings=False,
                   tokenizer_class="GPT2Tokenizer", vocab_size=50400),
    "pythia-410m": of("gpt_neox", "GPTNeoXForCausalLM", hidden_act="gelu", hidden_size=1024, initializer_range=0.02, intermediate_size=4096,
                      layer_norm_eps=1e-5, max_position_embeddings=2048, num_attention_heads=16, num_hidden_layers=24, rotary_emb_base=10000,
                      rotary_pct=0.25, tie_word_embeddings=False, use_parallel_residual=True, vocab_size=50304),
    "falcon-7b": of("falcon", "FalconForCausalLM", alibi=False, apply_residual_connection_post_layernorm=False, attention_dropout=0.0,
                    bias=False, hidden_dropout=0.0, hidden_size=4544, initializer_range=0.02, layer_norm_epsilon=1e-5, multi_query=True,
                    new_decoder_architecture=False, num_attention_heads=71, num_hidden_layers=32, parallel_attn=True, vocab_size=65024),
    "falcon-40b": of("falcon", "FalconForCausalLM", alibi=False, attention_dropout=0.0, bias=False, hidden_dropout=0.0, hidden_size=8192,
                     initializer_range=0.02, layer_norm_epsilon=1e-5, new_decoder_architecture=True, num_attention_heads=128,
                     num_hidden_layers=60, num_kv_heads=8, parallel_attn=True, vocab_size=65024),
    "olmo-2-7b": llama_like("olmo2", "Olmo2ForCausalLM", 4096, 11008, 32, 32, 32, 100352, 4096, **SILU, attention_bias=False,
                            pad_token_id=100277, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=500000, tie_word_embeddings=False),
    "granite-3.0-2b": llama_like("granite", "GraniteForCausalLM", 2048, 8192, 40, 32, 8, 49155, 4096, hidden_act="silu", attention_dropout=0.1,
                                 attention_bias=False, attention_multiplier=0.015625, embedding_multiplier=12.0, logits_scaling=8.0,
                                 mlp_bias=False, residual_multiplier=0.22, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000,
                                 tie_word_embeddings=True),
    "command-r": llama_like("cohere", "CohereForCausalLM", 8192, 22528, 40, 64, 64, 256000, 8192, **SILU, attention_bias=False,
                            layer_norm_eps=1e-5, logit_scale=0.0625, pad_token_id=0, rope_theta=8000000.0, use_qk_norm=False),
    "command-r7b": llama_like("cohere2", "Cohere2ForCausalLM", 4096, 14336, 32, 32, 8, 256000, 8192, **SILU, attention_bias=False,
                              cache_implementation="hybrid", head_dim=128, layer_norm_eps=1e-5, layer_switch=4, logit_scale=0.25,
                              order_of_interleaved_layers="local_attn_first", pad_token_id=0, position_embedding_type="rope_gptj",
                              rope_scaling=None, rope_theta=50000, rotary_pct=1.0, sliding_window=4096, sliding_window_pattern=4,
                              use_embedding_sharing=True, use_gated_activation=True, use_parallel_block=True, use_parallel_embedding=True),
    "starcoder2-3b": llama_like("starcoder2", "Starcoder2ForCausalLM", 3072, 12288, 30, 24, 2, 49152, 16384, activation_function="gelu",
                                attention_dropout=0.1, embedding_dropout=0.1, hidden_act="gelu_pytorch_tanh", mlp_type="default",
                                norm_epsilon=1e-5, norm_type="layer_norm", residual_dropout=0.1, rope_theta=999999.4420358813,
                                sliding_window=4096, use_bias=True),
    "stablelm-2-1.6b": llama_like("stablelm", "StableLmForCausalLM", 2048, 5632, 24, 32, 32, 100352, 4096, hidden_act="silu",
                                  hidden_dropout=0.0, attention_dropout=0.0, layer_norm_eps=1e-5, partial_rotary_factor=0.25,
                                  qk_layernorm=False, rope_scaling=None, rope_theta=10000, tie_word_embeddings=False,
                                  use_parallel_residual=False, use_qkv_bias=True),
    "smollm3-3b": llama_like("smollm3", "SmolLM3ForCausalLM", 2048, 11008, 36, 16, 4, 128256, 65536, **SILU, attention_bias=False,
                             max_window_layers=28, mlp_bias=False, no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0] * 9,
                             pretraining_tp=2, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=5000000.0, sliding_window=None,
                             use_sliding_window=False, layer_types=["full_attention"] * 36),
    "glm-4-9b-0414": llama_like("glm4", "Glm4ForCausalLM", 4096, 13696, 40, 32, 2, 151552, 32768, **SILU, attention_bias=True, head_dim=128,
                                pad_token_id=151329, partial_rotary_factor=0.5, rms_norm_eps=1e-5, rope_theta=10000.0,
                                tie_word_embeddings=False),
    "deepseek-v2-lite": llama_like(
        "deepseek_v2", "DeepseekV2ForCausalLM", 2048, 10944, 27, 16, 16, 102400, 163840, **SILU, attention_bias=False, aux_loss_alpha=0.001,
        first_k_dense_replace=1, kv_lora_rank=512, moe_intermediate_size=1408, moe_layer_freq=1, n_group=1, n_routed_experts=64,
        n_shared_experts=2, norm_topk_prob=False, num_experts_per_tok=6, pretraining_tp=1, q_lora_rank=None, qk_nope_head_dim=128,
        qk_rope_head_dim=64, rms_norm_eps=1e-6, rope_theta=10000, routed_scaling_factor=1.0, scoring_func="softmax", seq_aux=True,
        tie_word_embeddings=False, topk_group=1, topk_method="greedy", v_head_dim=128, rope_scaling={
            "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
            "original_max_position_embeddings": 4096, "type": "yarn"}),
    "deepseek-v3": llama_like(
        "deepseek_v3", "DeepseekV3ForCausalLM", 7168, 18432, 61, 128, 128, 129280, 163840, **SILU, attention_bias=False, aux_loss_alpha=0.001,
        ep_size=1, first_k_dense_replace=3, kv_lora_rank=512, moe_intermediate_size=2048, moe_layer_freq=1, n_group=8, n_routed_experts=256,
        n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=8, num_nextn_predict_layers=1, pretraining_tp=1, q_lora_rank=1536,
        qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-6, rope_theta=10000, routed_scaling_factor=2.5, scoring_func="sigmoid",
        seq_aux=True, tie_word_embeddings=False, topk_group=4, topk_method="noaux_tc", v_head_dim=128, rope_scaling={
            "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096, "type": "yarn"}),
    "gpt-oss-20b": llama_like(
        "gpt_oss", "GptOssForCausalLM", 2880, 2880, 24, 64, 8, 201088, 131072, **SILU, attention_bias=True, experts_per_token=4, head_dim=64,
        initial_context_length=4096, layer_types=["sliding_attention", "full_attention"] * 12, num_experts_per_tok=4, num_local_experts=32,
        output_router_logits=False, pad_token_id=199999, rms_norm_eps=1e-5, rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128,
        swiglu_limit=7.0, tie_word_embeddings=False, rope_scaling={
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn",
            "truncate": False}),
    "mamba-130m": of("mamba", "MambaForCausalLM", conv_kernel=4, d_inner=1536, d_model=768, expand=2, fused_add_norm=True, hidden_act="silu",
                     hidden_size=768, initializer_range=0.1, intermediate_size=1536, layer_norm_epsilon=1e-5, n_layer=24,
                     num_hidden_layers=24, pad_vocab_size_multiple=8, rescale_prenorm_residual=False, residual_in_fp32=True, rms_norm=True,
                     ssm_cfg={}, state_size=16, time_step_floor=0.0001, time_step_init_scheme="random", time_step_max=0.1,
                     time_step_min=0.001, time_step_rank=48, time_step_scale=1.0, use_bias=False, use_conv_bias=True, vocab_size=50280),
    "mamba-codestral-7b": of("mamba2", "Mamba2ForCausalLM", chunk_size=256, conv_kernel=4, expand=2, head_dim=64, hidden_act="silu",
                             hidden_size=4096, initializer_range=0.1, intermediate_size=8192, layer_norm_epsilon=1e-5, n_groups=8,
                             norm_before_gate=True, num_heads=128, num_hidden_layers=64, rescale_prenorm_residual=False,
                             residual_in_fp32=True, rms_norm=True, state_size=128, tie_word_embeddings=False, time_step_floor=0.0001,
                             time_step_init_scheme="random", time_step_limit=[0.0, float("inf")], time_step_max=0.1, time_step_min=0.001,
                             time_step_rank=256, time_step_scale=1.0, use_bias=False, use_conv_bias=True, vocab_size=32768),
    "bamba-9b": llama_like("bamba", "BambaForCausalLM", 4096, 14336, 32, 32, 8, 128256, 262144, **SILU, attention_bias=False,
                           attn_layer_indices=[9, 18, 27], attn_rotary_emb=64, mamba_chunk_size=256, mamba_conv_bias=True, mamba_d_conv=4,
                           mamba_d_head=64, mamba_d_state=128, mamba_expand=2, mamba_n_groups=1, mamba_n_heads=128, mamba_proj_bias=False,
                           mlp_bias=False, num_logits_to_keep=1, pad_token_id=0, rms_norm_eps=1e-5, rope_theta=10000.0,
                           tie_word_embeddings=False),
}
