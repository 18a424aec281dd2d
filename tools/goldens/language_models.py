#!/usr/bin/env python3
"""Makes tests/models/goldens/<name>/: tiny random models of each decoder family, with what transformers computes.

Each folder holds config.json and model.safetensors as transformers saves them, and expected.safetensors: `tokens` and
`targets` [2, T], `logits` [2, T, vocab], the loss, the gradient of every parameter (`grad.<name>`), and the losses of
ten AdamW steps on the same batch. Mixtures of experts also have router.safetensors: the load-balancing loss, and the
gradients of loss + ROUTER_WEIGHT · that; and bf16.safetensors: tokens, targets, logits, loss and gradients, in f32, of the weights
rounded to bf16, on texts for which every choice of experts is clear: where two are nearly equal, arithmetic in bf16 takes the other
and says nothing of the rest. Sizes are awkward on purpose: odd head counts, widths off the vector lengths.

Run from the repository's root, with tools/goldens/requirements.txt installed; names make only these again:
    python3 tools/goldens/language_models.py [NAME...]
"""
import copy
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers.core_model_loading import revert_weight_conversion

OUT = pathlib.Path("tests/models/goldens")
T, VOCAB = 23, 61
ROUTER_WEIGHT = 0.5
CLEAR = 0.25  # how far the last expert chosen is above the first that is not, in the router's logits, which spread by about 1

COMMON = dict(vocab_size=VOCAB, hidden_size=24, intermediate_size=44, num_hidden_layers=2, max_position_embeddings=64,
              bos_token_id=None, eos_token_id=0, pad_token_id=None, attn_implementation="eager")
BLOCKS = {k: v for k, v in COMMON.items() if k != "num_hidden_layers"}  # Nemotron H counts layers_block_type
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
LINEAR = dict(rope_type="linear", rope_theta=100.0, factor=3.0)
YARN = dict(rope_type="yarn", rope_theta=300.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0,
            beta_slow=1.0)
# The sequences of 23 tokens are longer than the 16 of training.
DYNAMIC = dict(rope_type="dynamic", rope_theta=100.0, factor=2.0)


def longrope(pairs: int) -> dict:
    return dict(rope_type="longrope", rope_theta=100.0, short_factor=[1.0 + 0.1 * i for i in range(pairs)],
                long_factor=[1.5 + 0.7 * i for i in range(pairs)])


def without(**changes) -> dict:
    return {**COMMON, **changes}


EAGER = dict(vocab_size=VOCAB, bos_token_id=None, eos_token_id=0, pad_token_id=None, attn_implementation="eager")
FALCON = EAGER | dict(hidden_size=24, num_hidden_layers=2, max_position_embeddings=64)
BLOOM = EAGER | dict(hidden_size=24, n_layer=2)
MPT = EAGER | dict(d_model=24, n_layers=2, max_seq_len=64)
OPT = EAGER | dict(hidden_size=24, num_hidden_layers=2, max_position_embeddings=64, dropout=0.0)
MAMBA2 = dict(vocab_size=VOCAB, hidden_size=24, chunk_size=8, bos_token_id=None, eos_token_id=0, pad_token_id=None)
WIDE_EPS = 1e-2  # of norms of heads whose values are near 0, whose rounding is all there is in bf16 with 1e-6
GEMMA3_ROPE = dict(sliding_attention=dict(rope_type="default", rope_theta=50.0))

CASES = {
    "llama_gqa_llama3": transformers.LlamaConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
                                                 rope_parameters=LLAMA3, tie_word_embeddings=True),
    "llama_bias_untied": transformers.LlamaConfig(**COMMON, num_attention_heads=4, num_key_value_heads=4,
                                                  rope_parameters=LINEAR, attention_bias=True, mlp_bias=True,
                                                  tie_word_embeddings=False),
    "mistral_window": transformers.MistralConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                 sliding_window=5, tie_word_embeddings=False),
    "qwen2_tied": transformers.Qwen2Config(**COMMON, num_attention_heads=6, num_key_value_heads=3,
                                           tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                      tie_word_embeddings=False),
    "llama_dynamic": transformers.LlamaConfig(**without(max_position_embeddings=16), num_attention_heads=2,
                                              num_key_value_heads=1, rope_parameters=DYNAMIC,
                                              tie_word_embeddings=True),
    "llama_yarn": transformers.LlamaConfig(**COMMON, num_attention_heads=3, num_key_value_heads=3, attention_bias=True,
                                           rope_parameters=YARN, tie_word_embeddings=True),
    "mistral_tied": transformers.MistralConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=6,
                                               sliding_window=None, tie_word_embeddings=True),
    "qwen2_window": transformers.Qwen2Config(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                             use_sliding_window=True, sliding_window=6, max_window_layers=1,
                                             tie_word_embeddings=False),
    "qwen3_bias": transformers.Qwen3Config(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
                                           attention_bias=True, rope_parameters=YARN, tie_word_embeddings=True),
    "phi3_longrope": transformers.Phi3Config(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                             original_max_position_embeddings=16, rope_parameters=longrope(4),
                                             tie_word_embeddings=False),
    "phi3_partial": transformers.Phi3Config(**COMMON, num_attention_heads=2, num_key_value_heads=2, sliding_window=7,
                                            original_max_position_embeddings=32, tie_word_embeddings=True,
                                            rope_parameters=longrope(3) | dict(partial_rotary_factor=0.5)),
    "gemma": transformers.GemmaConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
                                      tie_word_embeddings=True),
    "gemma_untied": transformers.GemmaConfig(**COMMON, num_attention_heads=2, num_key_value_heads=2, head_dim=6,
                                             attention_bias=True, rope_parameters=LINEAR, tie_word_embeddings=False),
    "gemma2": transformers.Gemma2Config(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
                                        query_pre_attn_scalar=7, sliding_window=5, attn_logit_softcapping=2.0,
                                        final_logit_softcapping=3.0),
    "gemma2_untied": transformers.Gemma2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                               query_pre_attn_scalar=6, sliding_window=9, attention_bias=True,
                                               attn_logit_softcapping=None, final_logit_softcapping=None,
                                               tie_word_embeddings=False),
    "gemma3": transformers.Gemma3TextConfig(**without(num_hidden_layers=3), num_attention_heads=2,
                                            num_key_value_heads=1, head_dim=10, query_pre_attn_scalar=9,
                                            sliding_window=4, sliding_window_pattern=2,
                                            rope_parameters=GEMMA3_ROPE | dict(
                                                full_attention=dict(rope_type="default", rope_theta=900.0))),
    "gemma3_untied": transformers.Gemma3TextConfig(**COMMON, num_attention_heads=3, num_key_value_heads=3, head_dim=6,
                                                   query_pre_attn_scalar=6, sliding_window=6, attention_bias=True,
                                                   layer_types=["full_attention", "sliding_attention"],
                                                   rope_parameters=GEMMA3_ROPE | dict(full_attention=LINEAR),
                                                   final_logit_softcapping=4.0, tie_word_embeddings=False),
    "mixtral": transformers.MixtralConfig(**without(intermediate_size=19), num_attention_heads=3,
                                          num_key_value_heads=1, num_local_experts=5, num_experts_per_tok=2,
                                          sliding_window=None, tie_word_embeddings=False),
    "mixtral_tied": transformers.MixtralConfig(**without(intermediate_size=17), num_attention_heads=2,
                                               num_key_value_heads=2, head_dim=10, num_local_experts=3,
                                               num_experts_per_tok=2, sliding_window=8, tie_word_embeddings=True),
    "qwen3_moe": transformers.Qwen3MoeConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=6,
                                             num_experts=7, num_experts_per_tok=3, moe_intermediate_size=9,
                                             norm_topk_prob=True, mlp_only_layers=[0], tie_word_embeddings=False),
    "qwen3_moe_tied": transformers.Qwen3MoeConfig(**COMMON, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
                                                  num_experts=4, num_experts_per_tok=2, moe_intermediate_size=11,
                                                  norm_topk_prob=False, attention_bias=True,
                                                  tie_word_embeddings=True),
    "smollm3": transformers.SmolLM3Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                          no_rope_layers=[0, 1], tie_word_embeddings=True),
    "smollm3_window": transformers.SmolLM3Config(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                                 no_rope_layer_interval=2, use_sliding_window=True, sliding_window=5,
                                                 attention_bias=True, mlp_bias=True, rope_parameters=YARN,
                                                 tie_word_embeddings=False),
    "arcee": transformers.ArceeConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                      tie_word_embeddings=False),
    "arcee_bias": transformers.ArceeConfig(**COMMON, num_attention_heads=3, num_key_value_heads=3,
                                           head_dim=8, attention_bias=True, mlp_bias=True, rope_parameters=YARN,
                                           tie_word_embeddings=True),
    "cwm": transformers.CwmConfig(**without(bos_token_id=0), num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                  sliding_window=5, rope_parameters=LLAMA3, tie_word_embeddings=False),
    "seed_oss": transformers.SeedOssConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                           head_dim=10, residual_dropout=0.0, attention_dropout=0.0, tie_word_embeddings=False),
    "seed_oss_bias": transformers.SeedOssConfig(**COMMON, num_attention_heads=2, num_key_value_heads=2,
                                                head_dim=6, attention_bias=False, attention_out_bias=True,
                                                mlp_bias=True, residual_dropout=0.0, attention_dropout=0.0, tie_word_embeddings=True),
    "ernie4_5": transformers.Ernie4_5Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                            head_dim=10, tie_word_embeddings=True),
    "ernie4_5_bias": transformers.Ernie4_5Config(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                                 head_dim=6, use_bias=True, rope_parameters=LINEAR,
                                                 tie_word_embeddings=False),
    "helium": transformers.HeliumConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                        attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
    "hunyuan": transformers.HunYuanDenseV1Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                 head_dim=8, tie_word_embeddings=True,
                                                 rope_parameters=dict(rope_type="dynamic", rope_theta=100.0, alpha=20.0,
                                                                      factor=1.0)),
    "hunyuan_bias": transformers.HunYuanDenseV1Config(**COMMON, num_attention_heads=3,
                                                      num_key_value_heads=1, head_dim=10, attention_bias=True,
                                                      tie_word_embeddings=False),
    "ministral": transformers.MinistralConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                              head_dim=10, sliding_window=5,
                                              layer_types=["full_attention", "sliding_attention"],
                                              tie_word_embeddings=False),
    "olmo2": transformers.Olmo2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                      tie_word_embeddings=False),
    "olmo2_bias": transformers.Olmo2Config(**COMMON, num_attention_heads=3, num_key_value_heads=3,
                                           attention_bias=True, rope_parameters=LINEAR, tie_word_embeddings=True),
    "olmo3": transformers.Olmo3Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                      sliding_window=5, layer_types=["sliding_attention", "full_attention"],
                                      rope_parameters=dict(full_attention=YARN, sliding_attention=dict(
                                          rope_type="default", rope_theta=50.0)), tie_word_embeddings=False),
    "granite": transformers.GraniteConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                          embedding_multiplier=3.0, attention_multiplier=0.3,
                                          residual_multiplier=0.22, logits_scaling=4.0, tie_word_embeddings=True),
    "granite_bias": transformers.GraniteConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                               embedding_multiplier=0.5, attention_bias=True, mlp_bias=True,
                                               logits_scaling=3.0, rope_parameters=LINEAR,
                                               tie_word_embeddings=False),
    "glm": transformers.GlmConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
                                  tie_word_embeddings=False),
    "glm_full": transformers.GlmConfig(**COMMON, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
                                       attention_bias=False, tie_word_embeddings=True, rope_parameters=dict(
                                           rope_type="default", rope_theta=100.0, partial_rotary_factor=1.0)),
    "glm4": transformers.Glm4Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                    tie_word_embeddings=False),
    "cohere": transformers.CohereConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                        logit_scale=0.3, tie_word_embeddings=True),
    "cohere_bias": transformers.CohereConfig(**COMMON, num_attention_heads=3, num_key_value_heads=3,
                                             attention_bias=True, tie_word_embeddings=False),
    "cohere2": transformers.Cohere2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                          sliding_window=5, layer_types=["sliding_attention", "full_attention"],
                                          logit_scale=0.5, tie_word_embeddings=True),
    "exaone4": transformers.Exaone4Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                          sliding_window=5, sliding_window_pattern=2, tie_word_embeddings=False),
    "exaone4_full": transformers.Exaone4Config(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                               sliding_window=None, layer_types=["full_attention"] * 2,
                                               rope_parameters=LLAMA3, tie_word_embeddings=True),
    "starcoder2": transformers.Starcoder2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                sliding_window=5, residual_dropout=0.0, embedding_dropout=0.0,
                                                tie_word_embeddings=True),
    "starcoder2_plain": transformers.Starcoder2Config(**COMMON, num_attention_heads=3,
                                                      num_key_value_heads=1, use_bias=False, residual_dropout=0.0,
                                                      embedding_dropout=0.0, tie_word_embeddings=False),
    "nemotron": transformers.NemotronConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1,
                                            head_dim=12, tie_word_embeddings=False),
    "nemotron_bias": transformers.NemotronConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                 attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                                 rope_parameters=dict(rope_type="default", rope_theta=100.0,
                                                                      partial_rotary_factor=1.0)),
    "jais2": transformers.Jais2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                      tie_word_embeddings=False),
    "olmoe": transformers.OlmoeConfig(**without(intermediate_size=19), num_attention_heads=4, num_key_value_heads=2,
                                      num_experts=5, num_experts_per_tok=2, norm_topk_prob=False,
                                      tie_word_embeddings=False),
    "olmoe_bias": transformers.OlmoeConfig(**without(intermediate_size=13), num_attention_heads=3, num_key_value_heads=3,
                                           num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                           attention_bias=True, rope_parameters=LINEAR, tie_word_embeddings=True),
    "qwen2_moe": transformers.Qwen2MoeConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, num_experts=5,
                                             num_experts_per_tok=2, moe_intermediate_size=9, mlp_only_layers=[0],
                                             shared_expert_intermediate_size=14, tie_word_embeddings=False),
    "qwen2_moe_window": transformers.Qwen2MoeConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                    num_experts=4, num_experts_per_tok=3, moe_intermediate_size=11,
                                                    norm_topk_prob=True, shared_expert_intermediate_size=7,
                                                    qkv_bias=False, use_sliding_window=True, sliding_window=5,
                                                    tie_word_embeddings=True),
    "granitemoe": transformers.GraniteMoeConfig(**without(intermediate_size=19), num_attention_heads=4,
                                                num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2,
                                                embedding_multiplier=3.0, attention_multiplier=0.3,
                                                residual_multiplier=0.22, logits_scaling=4.0, tie_word_embeddings=True),
    "granitemoeshared": transformers.GraniteMoeSharedConfig(**without(intermediate_size=15), num_attention_heads=3,
                                                            num_key_value_heads=1, num_local_experts=4,
                                                            num_experts_per_tok=2, shared_intermediate_size=10,
                                                            attention_bias=True, tie_word_embeddings=False),
    "stablelm": transformers.StableLmConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, use_qkv_bias=True,
                                            tie_word_embeddings=False),
    "stablelm_parallel": transformers.StableLmConfig(**COMMON, num_attention_heads=2, num_key_value_heads=2,
                                                     use_parallel_residual=True, tie_word_embeddings=True,
                                                     rope_parameters=dict(rope_type="default", rope_theta=100.0,
                                                                          partial_rotary_factor=1.0)),
    "phi": transformers.PhiConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=False),
    "gptj": transformers.GPTJConfig(vocab_size=VOCAB, n_embd=24, n_layer=2, n_head=2, n_positions=32, rotary_dim=4,
                                    bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                    attn_implementation="eager"),
    "gpt_neox": transformers.GPTNeoXConfig(**COMMON, num_attention_heads=3),
    "gpt_neox_sequential": transformers.GPTNeoXConfig(**COMMON, num_attention_heads=2, use_parallel_residual=False,
                                                      attention_bias=False, tie_word_embeddings=True,
                                                      rope_parameters=dict(rope_type="default", rope_theta=100.0,
                                                                           partial_rotary_factor=1.0)),
    "ministral3": transformers.Ministral3Config(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
                                                rope_parameters=YARN | dict(llama_4_scaling_beta=0.3,
                                                                            mscale=1.0, mscale_all_dim=1.0),
                                                tie_word_embeddings=False),
    "glm4_moe": transformers.Glm4MoeConfig(**without(num_hidden_layers=3), num_attention_heads=3, num_key_value_heads=1,
                                           head_dim=8, use_qk_norm=True, attention_bias=True, n_routed_experts=5,
                                           n_shared_experts=2, num_experts_per_tok=2, moe_intermediate_size=9,
                                           first_k_dense_replace=1, routed_scaling_factor=1.7, num_mtp_layers=0,
                                           tie_word_embeddings=False),
    "glm4_moe_groups": transformers.Glm4MoeConfig(**COMMON, num_attention_heads=2, num_key_value_heads=2,
                                                  n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
                                                  moe_intermediate_size=11, first_k_dense_replace=0, n_group=4,
                                                  topk_group=2, norm_topk_prob=False, num_mtp_layers=0,
                                                  tie_word_embeddings=True),
    "dots1_moe": transformers.Dots1Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, n_routed_experts=6,
                                          n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=9,
                                          first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True,
                                          n_group=3, topk_group=2, sliding_window=5, max_window_layers=1,
                                          tie_word_embeddings=False),
    "ernie4_5_moe": transformers.Ernie4_5_MoeConfig(**without(num_hidden_layers=3, pad_token_id=0), num_attention_heads=4,
                                                    num_key_value_heads=2, moe_num_experts=5, moe_k=2,
                                                    moe_intermediate_size=9, moe_num_shared_experts=2,
                                                    moe_layer_start_index=1, moe_layer_end_index=1,
                                                    tie_word_embeddings=True),
    "hunyuan_v1_moe": transformers.HunYuanMoEV1Config(**without(intermediate_size=19), num_attention_heads=4,
                                                      num_key_value_heads=2, head_dim=8, num_experts=5, moe_topk=2,
                                                      attention_bias=True, tie_word_embeddings=True),
    "minimax_m2_moe": transformers.MiniMaxM2Config(**without(intermediate_size=19), num_attention_heads=4,
                                                   num_key_value_heads=2, head_dim=8, num_local_experts=5,
                                                   num_experts_per_tok=2, tie_word_embeddings=False,
                                                   rope_parameters=dict(rope_type="default", rope_theta=100.0,
                                                                        partial_rotary_factor=0.5)),
    "gpt_oss_moe": transformers.GptOssConfig(**without(intermediate_size=17), num_attention_heads=4, num_key_value_heads=2,
                                             head_dim=10, sliding_window=5, num_local_experts=5, num_experts_per_tok=2,
                                             rope_parameters=YARN | dict(truncate=False)),
    "gpt_oss_plain_moe": transformers.GptOssConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=8,
                                                   sliding_window=7, num_local_experts=4, num_experts_per_tok=3,
                                                   layer_types=["full_attention", "sliding_attention"],
                                                   attention_bias=False, swiglu_alpha=1.3, swiglu_limit=2.2,
                                                   rope_parameters=dict(rope_type="default", rope_theta=100.0),
                                                   tie_word_embeddings=True),
    "deepseek_v2_moe": transformers.DeepseekV2Config(**without(num_hidden_layers=3), num_attention_heads=3,
                                                     q_lora_rank=None, kv_lora_rank=10, qk_nope_head_dim=6,
                                                     qk_rope_head_dim=4, v_head_dim=7, n_routed_experts=5,
                                                     n_shared_experts=2, num_experts_per_tok=2,
                                                     moe_intermediate_size=9, first_k_dense_replace=1,
                                                     routed_scaling_factor=1.7),
    "deepseek_v2_groups_moe": transformers.DeepseekV2Config(**COMMON, num_attention_heads=2, q_lora_rank=14,
                                                            kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=6,
                                                            v_head_dim=12, n_routed_experts=8, n_shared_experts=1,
                                                            num_experts_per_tok=3, moe_intermediate_size=11,
                                                            topk_method="group_limited_greedy", n_group=4,
                                                            topk_group=2, attention_bias=True,
                                                            rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=0.5),
                                                            tie_word_embeddings=True),
    "deepseek_v3_moe": transformers.DeepseekV3Config(**without(num_hidden_layers=3), num_attention_heads=3,
                                                     num_key_value_heads=3, q_lora_rank=14, kv_lora_rank=10,
                                                     qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=10,
                                                     n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=2,
                                                     moe_intermediate_size=9, first_k_dense_replace=1, n_group=3,
                                                     topk_group=2, num_mtp_layers=0,
                                                     rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=1.0)),
    "deepseek_v3_halves_moe": transformers.DeepseekV3Config(**COMMON, num_attention_heads=2, num_key_value_heads=2,
                                                            q_lora_rank=None, kv_lora_rank=11, qk_nope_head_dim=6,
                                                            qk_rope_head_dim=8, v_head_dim=6, n_routed_experts=5,
                                                            n_shared_experts=2, num_experts_per_tok=3,
                                                            moe_intermediate_size=11, first_k_dense_replace=0,
                                                            n_group=1, topk_group=1, norm_topk_prob=False,
                                                            rope_interleave=False, attention_bias=True,
                                                            num_mtp_layers=0, tie_word_embeddings=True),
    "olmo": transformers.OlmoConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2, clip_qkv=0.7,
                                    tie_word_embeddings=False),
    "olmo_tied": transformers.OlmoConfig(**COMMON, num_attention_heads=3, attention_bias=True, rope_parameters=YARN,
                                         tie_word_embeddings=True),
    "falcon": transformers.FalconConfig(**FALCON, num_attention_heads=3, tie_word_embeddings=True),
    "falcon_groups": transformers.FalconConfig(**FALCON, num_attention_heads=6, num_kv_heads=2, ffn_hidden_size=44,
                                               new_decoder_architecture=True, bias=True, tie_word_embeddings=False,
                                               rope_parameters=dict(rope_type="default", rope_theta=100.0)),
    "falcon_one_norm": transformers.FalconConfig(**FALCON, num_attention_heads=4, num_kv_heads=2, ffn_hidden_size=44,
                                                 new_decoder_architecture=True, num_ln_in_parallel_attn=1),
    "falcon_alibi": transformers.FalconConfig(**FALCON, num_attention_heads=3, multi_query=False, parallel_attn=False,
                                              alibi=True, bias=True, tie_word_embeddings=True),
    "bloom": transformers.BloomConfig(**BLOOM, n_head=3),
    "bloom_untied": transformers.BloomConfig(**BLOOM, n_head=4, tie_word_embeddings=False),
    "mpt": transformers.MptConfig(**MPT, n_heads=3),
    "mpt_clip": transformers.MptConfig(**MPT, n_heads=6, attn_config=dict(clip_qkv=1.1)),
    "opt": transformers.OPTConfig(**OPT, num_attention_heads=3, ffn_dim=44),
    "opt_post_norm": transformers.OPTConfig(**OPT, num_attention_heads=4, ffn_dim=37, do_layer_norm_before=False,
                                            word_embed_proj_dim=14),
    "opt_plain": transformers.OPTConfig(**OPT, num_attention_heads=2, ffn_dim=44, activation_function="gelu",
                                        enable_bias=False, layer_norm_elementwise_affine=False,
                                        tie_word_embeddings=False),
    "lfm2": transformers.Lfm2Config(**without(num_hidden_layers=4), num_attention_heads=3, num_key_value_heads=1,
                                    layer_types=["conv", "full_attention", "conv", "conv"],
                                    block_multiple_of=4, block_ffn_dim_multiplier=1.3, tie_word_embeddings=True),
    "lfm2_bias": transformers.Lfm2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                         full_attn_idxs=[0], conv_L_cache=4, conv_bias=True, rope_parameters=LINEAR,
                                         block_auto_adjust_ff_dim=False, tie_word_embeddings=False),
    "lfm2_moe": transformers.Lfm2MoeConfig(**without(num_hidden_layers=3), num_attention_heads=3, num_key_value_heads=3,
                                           layer_types=["conv", "full_attention", "conv"], num_dense_layers=1,
                                           num_experts=5, num_experts_per_tok=2, moe_intermediate_size=9,
                                           tie_word_embeddings=True),
    "lfm2_plain_moe": transformers.Lfm2MoeConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                 layer_types=["full_attention", "conv"], num_dense_layers=0,
                                                 conv_L_cache=2, conv_bias=True, use_expert_bias=False,
                                                 norm_topk_prob=False, routed_scaling_factor=1.7, num_experts=4,
                                                 num_experts_per_tok=3, moe_intermediate_size=11, tie_word_embeddings=False),
    "mamba2": transformers.Mamba2Config(**MAMBA2, num_hidden_layers=3, num_heads=6, head_dim=8, n_groups=2, state_size=10),
    "mamba2_bias": transformers.Mamba2Config(**MAMBA2, num_hidden_layers=2, num_heads=3, head_dim=8, n_groups=1, state_size=5,
                                             expand=1, conv_kernel=3, use_bias=True, use_conv_bias=False,
                                             time_step_limit=[0.2, 0.9], tie_word_embeddings=True),
    "granitehybrid_moe": transformers.GraniteMoeHybridConfig(
        **without(num_hidden_layers=3, intermediate_size=13), num_attention_heads=4, num_key_value_heads=2,
        layer_types=["linear_attention", "full_attention", "linear_attention"], shared_intermediate_size=10, num_local_experts=5,
        num_experts_per_tok=2, mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=10, mamba_expand=2, mamba_chunk_size=8, embedding_multiplier=3.0,
        attention_multiplier=0.3, residual_multiplier=0.4, logits_scaling=2.0, tie_word_embeddings=True),
    "granitehybrid": transformers.GraniteMoeHybridConfig(
        **COMMON, num_attention_heads=3, num_key_value_heads=1, layer_types=["full_attention", "linear_attention"],
        shared_intermediate_size=20, num_local_experts=0, num_experts_per_tok=0, mamba_n_heads=4, mamba_n_groups=1, mamba_d_state=7,
        mamba_d_conv=3, mamba_expand=1, mamba_chunk_size=8, mamba_conv_bias=False, mamba_proj_bias=True, time_step_limit=(0.3, 0.9),
        position_embedding_type="rope", attention_multiplier=0.4, tie_word_embeddings=False),
    "granitehybrid_plain": transformers.GraniteMoeHybridConfig(
        **COMMON, num_attention_heads=4, num_key_value_heads=2, layer_types=["linear_attention", "full_attention"],
        shared_intermediate_size=28, num_local_experts=0, num_experts_per_tok=0, mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=8,
        mamba_expand=2, mamba_chunk_size=8, embedding_multiplier=2.0, attention_multiplier=0.3, residual_multiplier=0.5,
        logits_scaling=1.5, tie_word_embeddings=True),
    "bamba": transformers.BambaConfig(**without(num_hidden_layers=3), num_attention_heads=3, num_key_value_heads=1,
                                      attn_layer_indices=[1], mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=6,
                                      mamba_expand=2, mamba_chunk_size=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
    "qwen3_next_moe": transformers.Qwen3NextConfig(
        **without(num_hidden_layers=3), num_attention_heads=3, num_key_value_heads=1, head_dim=16,
        layer_types=["linear_attention", "full_attention", "linear_attention"], rms_norm_eps=WIDE_EPS, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=6, linear_value_head_dim=5, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=9,
        shared_expert_intermediate_size=7, mlp_only_layers=[0], tie_word_embeddings=False),
    "qwen3_5": transformers.Qwen3_5TextConfig(
        **without(num_hidden_layers=4), num_attention_heads=4, num_key_value_heads=2, head_dim=8, full_attention_interval=2,
        rms_norm_eps=WIDE_EPS, linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=7, linear_value_head_dim=10, tie_word_embeddings=True),
    "qwen3_5_bias": transformers.Qwen3_5TextConfig(
        **COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=10, layer_types=["full_attention", "linear_attention"],
        attention_bias=True, linear_conv_kernel_dim=3, rms_norm_eps=WIDE_EPS, linear_num_key_heads=1, linear_num_value_heads=3, linear_key_head_dim=9,
        linear_value_head_dim=4, rope_parameters=LINEAR | dict(partial_rotary_factor=0.6), tie_word_embeddings=False),
    "qwen3_5_moe": transformers.Qwen3_5MoeTextConfig(
        **{k: v for k, v in without(num_hidden_layers=2).items() if k != "intermediate_size"}, num_attention_heads=2,
        num_key_value_heads=2, head_dim=8, layer_types=["linear_attention", "full_attention"], rms_norm_eps=WIDE_EPS, linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=5, linear_value_head_dim=6, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=11, shared_expert_intermediate_size=8, tie_word_embeddings=False),
    # Those that llama.cpp has a field for: one size of keys and values, an epsilon of 1e-6, no bias behind attention.
    "qwen3_next_gguf_moe": transformers.Qwen3NextConfig(
        **COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=8, layer_types=["full_attention", "linear_attention"],
        linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8, linear_value_head_dim=8,
        num_experts=5, num_experts_per_tok=2, moe_intermediate_size=9, shared_expert_intermediate_size=7, tie_word_embeddings=False),
    "qwen3_5_gguf": transformers.Qwen3_5TextConfig(
        **COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=8, full_attention_interval=2,
        linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8, linear_value_head_dim=8, tie_word_embeddings=True),
    "qwen3_5_gguf_moe": transformers.Qwen3_5MoeTextConfig(
        **COMMON, num_attention_heads=2, num_key_value_heads=2, head_dim=8, layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=4, linear_value_head_dim=4,
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=11, shared_expert_intermediate_size=8, tie_word_embeddings=False),
    "falcon_h1_gguf": transformers.FalconH1Config(
        **COMMON, num_attention_heads=3, num_key_value_heads=1, mamba_d_ssm=24, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=8,
        mamba_chunk_size=8, mamba_rms_norm=True, mamba_norm_before_gate=False, rms_norm_eps=WIDE_EPS, embedding_multiplier=2.5,
        lm_head_multiplier=0.4, key_multiplier=0.7, attention_in_multiplier=1.3, attention_out_multiplier=0.6, ssm_in_multiplier=1.2,
        ssm_out_multiplier=0.8, ssm_multipliers=[0.9, 1.1, 0.7, 1.4, 0.5], mlp_multipliers=[0.8, 0.6], mlp_bias=True, tie_word_embeddings=True),
    "falcon_h1": transformers.FalconH1Config(
        **COMMON, num_attention_heads=3, num_key_value_heads=1, mamba_d_ssm=24, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=6,
        mamba_chunk_size=8, mamba_rms_norm=True, mamba_norm_before_gate=False, rms_norm_eps=WIDE_EPS, embedding_multiplier=2.5, lm_head_multiplier=0.4,
        key_multiplier=0.7, attention_in_multiplier=1.3, attention_out_multiplier=0.6, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8,
        ssm_multipliers=[0.9, 1.1, 0.7, 1.4, 0.5], mlp_multipliers=[0.8, 0.6], attention_bias=True, mamba_proj_bias=True,
        tie_word_embeddings=False),
    "falcon_h1_plain": transformers.FalconH1Config(
        **COMMON, num_attention_heads=4, num_key_value_heads=2, mamba_d_ssm=16, mamba_n_heads=2, mamba_d_state=5, mamba_chunk_size=8,
        mamba_conv_bias=False, projectors_bias=True, mlp_bias=True, rope_parameters=LINEAR, tie_word_embeddings=True),
    "nemotron_h": transformers.NemotronHConfig(
        **BLOCKS, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
        layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention", "mlp"], mamba_num_heads=6,
        mamba_head_dim=4, ssm_state_size=7, n_groups=2, chunk_size=8, layer_norm_epsilon=WIDE_EPS, tie_word_embeddings=False),
    "nemotron_h_bias": transformers.NemotronHConfig(
        **BLOCKS, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
        layers_block_type=["mlp", "full_attention", "linear_attention"], mamba_num_heads=3, mamba_head_dim=5, ssm_state_size=9, n_groups=1,
        conv_kernel=3, use_conv_bias=False, use_bias=True, mlp_bias=True, chunk_size=8, tie_word_embeddings=True),
    "nemotron_h_moe": transformers.NemotronHConfig(
        **BLOCKS, num_attention_heads=4, num_key_value_heads=2, head_dim=6, mamba_num_heads=6, mamba_head_dim=4, ssm_state_size=8,
        layers_block_type=["linear_attention", "moe", "full_attention", "moe"], n_groups=2, chunk_size=8, layer_norm_epsilon=WIDE_EPS, tie_word_embeddings=False, n_routed_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=11, moe_shared_expert_intermediate_size=14, n_group=3, topk_group=2, routed_scaling_factor=2.5),
    "nemotron_h_moe_bias": transformers.NemotronHConfig(
        **BLOCKS, num_attention_heads=3, num_key_value_heads=3, head_dim=8, mamba_num_heads=3, mamba_head_dim=5, ssm_state_size=5,
        layers_block_type=["mlp", "linear_attention", "moe", "full_attention"], n_groups=1, mlp_bias=True, use_bias=True, chunk_size=8, tie_word_embeddings=True, n_routed_experts=5, num_experts_per_tok=3,
        moe_intermediate_size=9, moe_shared_expert_intermediate_size=7, norm_topk_prob=False),
    "nemotron_h_latent_moe": transformers.NemotronHConfig(
        **BLOCKS, num_attention_heads=4, num_key_value_heads=2, head_dim=6, mamba_num_heads=4, mamba_head_dim=4, ssm_state_size=8,
        layers_block_type=["moe", "linear_attention", "moe", "full_attention"], n_groups=2, chunk_size=8, layer_norm_epsilon=WIDE_EPS, tie_word_embeddings=False, n_routed_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=11, moe_latent_size=10, moe_shared_expert_intermediate_size=14, routed_scaling_factor=2.5),
    "gpt2": transformers.GPT2Config(vocab_size=VOCAB, n_embd=24, n_layer=2, n_head=3, n_positions=32, bos_token_id=0,
                                    eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                    attn_implementation="eager"),
    "gpt_bigcode": transformers.GPTBigCodeConfig(vocab_size=VOCAB, n_embd=24, n_layer=2, n_head=3, n_positions=32, bos_token_id=0,
                                                 eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                                 attn_implementation="eager"),
    "gpt_bigcode_heads": transformers.GPTBigCodeConfig(vocab_size=VOCAB, n_embd=20, n_layer=2, n_head=5, n_positions=32, n_inner=33,
                                                       multi_query=False, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0,
                                                       embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False,
                                                       attn_implementation="eager"),
    "gpt2_untied": transformers.GPT2Config(vocab_size=VOCAB, n_embd=20, n_layer=2, n_head=5, n_positions=32, n_inner=33,
                                           bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0,
                                           attn_pdrop=0.0, tie_word_embeddings=False, attn_implementation="eager"),
}


def randomise(model: torch.nn.Module) -> None:
    """Norm weights off one and biases off zero: a mix-up of any of them shows in the logits."""
    for name, p in model.named_parameters():
        if p.dim() == 1:
            # Norms of Gemma, Nemotron and Qwen's hybrids multiply by 1 + weight: either way they are near 1.
            plus_one = "gemma" in model.config.model_type or model.config.model_type == "nemotron" or (
                model.config.model_type.startswith(("qwen3_next", "qwen3_5")) and not name.endswith("linear_attn.norm.weight"))
            around = 1.0 if ("norm" in name or "ln_" in name) and not plus_one else 0.0
            torch.nn.init.normal_(p, mean=around, std=0.2)
            if name.endswith("bias"):
                torch.nn.init.normal_(p, std=0.2)
        else:
            torch.nn.init.normal_(p, std=0.2)

    for name, buffer in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            torch.nn.init.normal_(buffer, std=0.2)


def named_gradients(model: torch.nn.Module) -> dict:
    """Under the names of the file: transformers stacks experts in memory and not on disk."""
    gradients = {parameter: p.grad.clone() for parameter, p in model.named_parameters() if p.grad is not None}
    return {"grad." + k: v.contiguous() for k, v in revert_weight_conversion(model, gradients).items()}


def make_router(model: torch.nn.Module, tokens: torch.Tensor, loss: torch.Tensor, folder: pathlib.Path) -> None:
    model.zero_grad()
    aux = model(tokens, use_cache=False, output_router_logits=True).aux_loss
    (loss + ROUTER_WEIGHT * aux).backward()
    save_file({"aux_loss": aux.detach().reshape(1), **named_gradients(model)}, folder / "router.safetensors")
    model.zero_grad()


def loss_of(model: torch.nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = model(tokens, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def correction_bias(model: torch.nn.Module, gate: torch.nn.Module) -> torch.Tensor | None:
    """Of the scores that choose: in the router, below it, or in the block around it."""
    blocks = [m for m in model.modules() if any(child is gate for child in m.children())]
    for module in (gate, getattr(gate, "moe_statics", gate), *blocks):
        for name in ("e_score_correction_bias", "expert_bias"):
            if hasattr(module, name):
                return getattr(module, name).reshape(1, -1)
    return None


def gap(x: torch.Tensor, chosen: int) -> torch.Tensor:
    best = x.sort(descending=True).values
    return best[:, chosen - 1] - best[:, chosen]


def choice_margin(config, logits: torch.Tensor, bias: torch.Tensor | None, chosen: int) -> torch.Tensor:
    """How far the last that is chosen is above the first that is not, about in units of logits: the slope of sigmoid and of softmax
    is at most 1/4."""
    groups, kept = getattr(config, "n_group", 1) or 1, getattr(config, "topk_group", 1) or 1
    if bias is None and groups == kept:
        return gap(logits, chosen)
    sigmoid = config.model_type != "ernie4_5_moe"
    ranking = logits if bias is None else (logits.sigmoid() if sigmoid else logits.softmax(-1)) + bias
    if groups == kept:
        return 4 * gap(ranking, chosen)
    judges = 1 if bias is None else 2  # experts by which a group is judged
    grouped = ranking.reshape(len(ranking), groups, -1)
    of_groups = grouped.topk(judges, -1).values.sum(-1)
    outside = of_groups < of_groups.sort(descending=True).values[:, kept - 1, None]
    inside = grouped.masked_fill(outside[..., None], -10.0).reshape(ranking.shape)
    return (1 if bias is None else 4) * torch.minimum(gap(inside, chosen), gap(of_groups, kept) / judges)


def clear_tokens(model: torch.nn.Module) -> torch.Tensor:
    """[2, T]: each token the first of a random order for which every layer's choice of experts is clear. What follows changes
    nothing before it, so they are found one after another."""
    chosen = model.config.num_experts_per_tok
    generator = torch.Generator().manual_seed(1)
    margins = []

    def note(gate, inputs, _):
        weight = gate.wg.weight if hasattr(gate, "wg") else gate.weight
        logits = torch.nn.functional.linear(inputs[0], weight, getattr(gate, "bias", None))
        logits = logits.reshape(VOCAB, -1, weight.shape[0])[:, -1]
        margins.append(choice_margin(model.config, logits, correction_bias(model, gate), chosen))

    hooks = [m.register_forward_hook(note) for n, m in model.named_modules() if n.endswith((".mlp.gate", ".mlp.router", ".feed_forward.gate", ".block_sparse_moe.router", ".mixer.gate"))]
    assert hooks
    rows = []
    for _ in range(2):
        row = torch.empty(0, dtype=torch.long)
        for _ in range(T):
            order = torch.randperm(VOCAB, generator=generator)
            margins.clear()
            with torch.no_grad():
                model(torch.cat([row.expand(VOCAB, -1), order[:, None]], 1), use_cache=False)
            clear = torch.stack(margins).amin(0) >= CLEAR
            assert clear.any(), "no token leaves the choice clear"
            row = torch.cat([row, order[clear.float().argmax()][None]])
        rows.append(row)
    for hook in hooks:
        hook.remove()
    return torch.stack(rows)


def make_bf16(model: torch.nn.Module, targets: torch.Tensor, folder: pathlib.Path) -> None:
    model.zero_grad()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16())
    tokens = clear_tokens(model)
    loss = loss_of(model, tokens, targets)
    loss.backward()
    save_file({"tokens": tokens, "targets": targets, "logits": model(tokens, use_cache=False).logits.detach().contiguous(),
               "loss": loss.detach().reshape(1), **named_gradients(model)}, folder / "bf16.safetensors")


def make(name: str, config: transformers.PretrainedConfig) -> None:
    torch.manual_seed(sum(name.encode()))
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa" if config.model_type == "falcon" else "eager",  # its eager adds ALiBi twice
        experts_implementation="eager").float()
    randomise(model)
    folder = OUT / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, VOCAB, (2, T))
    targets = torch.roll(tokens, -1, 1)
    targets[:, -1] = -100
    targets[0, 3] = -100

    model.train()
    expected = {"tokens": tokens, "targets": targets, "logits": model(tokens, use_cache=False).logits.detach()}
    loss = loss_of(model, tokens, targets)
    loss.backward()
    expected["loss"] = loss.detach().reshape(1)
    expected |= named_gradients(model)
    # With a correction bias transformers counts for this loss what the router would choose without it.
    biased = any("e_score_correction_bias" in k for k in model.state_dict())
    if hasattr(config, "router_aux_loss_coef") and getattr(config, "num_local_experts", 1) and not biased:
        make_router(model, tokens, loss_of(model, tokens, targets), folder)
    if getattr(config, "num_experts_per_tok", None) and "moe" in getattr(config, "layers_block_type", ["moe"]):  # Nemotron H's default
        make_bf16(copy.deepcopy(model), targets, folder)
    decay = [p for p in model.parameters() if p.dim() > 1 and p.requires_grad]
    rest = [p for p in model.parameters() if p.dim() == 1 and p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(model, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    expected["losses"] = torch.tensor(losses)
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")


for case, cfg in CASES.items():
    if len(sys.argv) == 1 or case in sys.argv[1:]:
        make(case, cfg)
