"""One function for each family of decoders: a configuration drawn from all that its options allow (random_models.py)."""
import random

import transformers

VOCAB = 48


class Draw(random.Random):
    """Options of one configuration."""

    def maybe(self, chance=0.5):
        return self.random() < chance

    def heads(self, free=True, grouped=True):
        """Sizes of heads and what they make up."""
        kv = self.choice([1, 1, 2, 3])
        heads = kv * self.choice([1, 2, 3]) if grouped else kv
        size = self.choice([4, 6, 8, 10])
        found = dict(num_attention_heads=heads, num_key_value_heads=kv, hidden_size=heads * size)
        if free and self.maybe():
            found |= dict(head_dim=size, hidden_size=heads * self.choice([3, 5, 7]))
        return found

    def sizes(self, **heads):
        return dict(vocab_size=VOCAB, intermediate_size=self.choice([13, 20, 24]), num_hidden_layers=self.choice([1, 2, 3]),
                    max_position_embeddings=96, bos_token_id=None, eos_token_id=0, pad_token_id=None,
                    tie_word_embeddings=self.maybe(), **self.heads(**heads))

    def rope(self, partial=None, scaled=True):
        theta = self.choice([100.0, 10000.0, 500000.0])
        kinds = [dict(rope_type="default"), dict(rope_type="linear", factor=self.choice([2.0, 3.5])),
                 dict(rope_type="dynamic", factor=2.0),
                 dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=self.choice([4.0, 32.0]),
                      beta_slow=1.0),
                 dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=16)]
        found = self.choice(kinds if scaled else kinds[:1]) | dict(rope_theta=theta)
        return dict(rope_parameters=found | (dict(partial_rotary_factor=partial) if partial else {}))

    def window(self):
        return dict(sliding_window=self.choice([None, 3, 5, 9, 64]))

    def layers(self, c):
        """layer_types of a configuration."""
        return dict(layer_types=[self.choice(["sliding_attention", "full_attention"]) for _ in range(c["num_hidden_layers"])])

    def mixers(self, c, other):
        """layer_types of layers that attend, or have another mixer; the first has."""
        return [other] + [self.choice([other, "full_attention"]) for _ in range(c["num_hidden_layers"] - 1)]


def llama(d):
    return transformers.LlamaConfig(**d.sizes(), **d.rope(), attention_bias=d.maybe(), mlp_bias=d.maybe())


def mistral(d):
    return transformers.MistralConfig(**d.sizes(), **d.rope(), **d.window())


def qwen2(d):
    c = d.sizes(free=False)
    window = dict(use_sliding_window=True, sliding_window=5) | d.layers(c) if d.maybe() else {}
    return transformers.Qwen2Config(**c, **d.rope(), **window)


def qwen3(d):
    return transformers.Qwen3Config(**{"head_dim": 8} | d.sizes(), **d.rope(), attention_bias=d.maybe())


def gemma(d):
    return transformers.GemmaConfig(**{"head_dim": 8} | d.sizes(), **d.rope(), attention_bias=d.maybe())


def gemma2(d):
    c = {"head_dim": 8} | d.sizes()
    return transformers.Gemma2Config(**c, **d.rope(), **d.layers(c), sliding_window=d.choice([3, 6]),
                                     query_pre_attn_scalar=d.choice([6, 8, 11]), attention_bias=d.maybe(),
                                     attn_logit_softcapping=d.choice([None, 2.0]), final_logit_softcapping=d.choice([None, 3.0]))


def phi3(d):
    c = d.sizes(free=False)
    pairs = c["hidden_size"] // c["num_attention_heads"] // 2
    rope = d.rope(scaled=False)
    if d.maybe():
        rope = dict(rope_parameters=dict(rope_type="longrope", rope_theta=100.0,
                                         short_factor=[1.0 + 0.1 * i for i in range(pairs)],
                                         long_factor=[1.5 + 0.7 * i for i in range(pairs)]))
    return transformers.Phi3Config(**c, **rope, **d.window(), original_max_position_embeddings=d.choice([16, 64]))


def olmo(d):
    return transformers.OlmoConfig(**d.sizes(free=False), **d.rope(), attention_bias=d.maybe(), clip_qkv=d.choice([None, 0.5]))


def olmo2(d):
    return transformers.Olmo2Config(**d.sizes(free=False), **d.rope(), attention_bias=d.maybe())


def granite(d):
    return transformers.GraniteConfig(**d.sizes(free=False), **d.rope(), attention_bias=d.maybe(), mlp_bias=d.maybe(),
                                      embedding_multiplier=d.choice([1.0, 3.0]), attention_multiplier=d.choice([0.2, 0.5]),
                                      residual_multiplier=d.choice([1.0, 0.3]), logits_scaling=d.choice([1.0, 4.0]))


def cohere(d):
    return transformers.CohereConfig(**d.sizes(free=False), **d.rope(), attention_bias=d.maybe(),
                                     logit_scale=d.choice([0.0625, 0.5]))


def glm(d):
    return transformers.GlmConfig(**d.sizes() | {"head_dim": d.choice([4, 8, 12])},
                                  **d.rope(partial=d.choice([0.5, 1.0]), scaled=False),
                                  attention_bias=d.maybe())


def stablelm(d):
    c = d.sizes(free=False)
    return transformers.StableLmConfig(**c, **d.rope(partial=1.0), use_qkv_bias=d.maybe(), use_parallel_residual=d.maybe())


def gpt_neox(d):
    c = d.sizes(free=False, grouped=False)
    del c["num_key_value_heads"]
    return transformers.GPTNeoXConfig(**c, **d.rope(partial=1.0), use_parallel_residual=d.maybe(), attention_bias=d.maybe())


def mixtral(d):
    return transformers.MixtralConfig(**d.sizes(), **d.rope(scaled=False), **d.window(), num_local_experts=d.choice([2, 5]),
                                      num_experts_per_tok=d.choice([1, 2]))


def falcon(d):
    c = d.sizes(free=False)
    kv = c.pop("num_key_value_heads")
    grouped = d.maybe()
    c["num_kv_heads"] = kv if grouped else c["num_attention_heads"]
    return transformers.FalconConfig(**{k: v for k, v in c.items() if k != "intermediate_size"},
                                     ffn_hidden_size=c["intermediate_size"], new_decoder_architecture=grouped,
                                     multi_query=d.maybe(), parallel_attn=grouped or d.maybe(), alibi=d.maybe(0.3), bias=d.maybe(),
                                     num_ln_in_parallel_attn=d.choice([None, 1, 2]) if grouped else None, **d.rope(scaled=False))


def bloom(d):
    heads = d.choice([1, 2, 3, 5, 8])
    return transformers.BloomConfig(vocab_size=VOCAB, hidden_size=heads * d.choice([4, 6]), n_layer=d.choice([1, 2]), n_head=heads,
                                    bos_token_id=None, eos_token_id=0, tie_word_embeddings=d.maybe())


def mpt(d):
    heads = d.choice([1, 2, 3, 6])
    attention = dict(clip_qkv=d.choice([None, 0.5]), softmax_scale=d.choice([None, 0.3]))
    return transformers.MptConfig(vocab_size=VOCAB, d_model=heads * d.choice([4, 6]), n_layers=d.choice([1, 2]), n_heads=heads,
                                  max_seq_len=96, attn_config=attention)


def opt(d):
    heads = d.choice([1, 2, 3])
    width = heads * d.choice([4, 6])
    return transformers.OPTConfig(vocab_size=VOCAB, hidden_size=width, num_hidden_layers=d.choice([1, 2]), num_attention_heads=heads,
                                  ffn_dim=d.choice([13, 20]), max_position_embeddings=96, dropout=0.0, bos_token_id=None,
                                  eos_token_id=0, pad_token_id=None, do_layer_norm_before=d.maybe(),
                                  word_embed_proj_dim=d.choice([width, 10]), activation_function=d.choice(["relu", "gelu"]),
                                  enable_bias=d.maybe(), layer_norm_elementwise_affine=d.maybe(0.7),
                                  tie_word_embeddings=d.maybe())


def lfm2(d):
    c = d.sizes()
    return transformers.Lfm2Config(**c, **d.rope(scaled=False), conv_L_cache=d.choice([2, 3, 4, 9]), conv_bias=d.maybe(),
                                   layer_types=d.mixers(c, "conv"),
                                   block_auto_adjust_ff_dim=d.maybe(), block_multiple_of=d.choice([1, 6]),
                                   block_ffn_dim_multiplier=d.choice([1.0, 1.7]))


def lfm2_moe(d):
    c = d.sizes()
    return transformers.Lfm2MoeConfig(**c, **d.rope(scaled=False), conv_L_cache=d.choice([2, 3]), conv_bias=d.maybe(),
                                      layer_types=d.mixers(c, "conv"),
                                      num_dense_layers=d.choice([0, 1]), num_experts=4, num_experts_per_tok=d.choice([1, 2]),
                                      moe_intermediate_size=d.choice([7, 12]), use_expert_bias=d.maybe(),
                                      norm_topk_prob=d.maybe(), routed_scaling_factor=d.choice([1.0, 1.7]))


def granitemoehybrid(d):
    c = d.sizes(free=False)
    experts = d.choice([0, 3])
    heads = d.choice([1, 2, 4])
    return transformers.GraniteMoeHybridConfig(
        **c | dict(hidden_size=24, num_attention_heads=4, num_key_value_heads=d.choice([1, 2, 4])), **d.rope(scaled=False),
        layer_types=d.mixers(c, "linear_attention"), attention_multiplier=d.choice([0.3, 1.0]), logits_scaling=d.choice([1.0, 2.0]),
        num_local_experts=experts, num_experts_per_tok=min(experts, 2), shared_intermediate_size=d.choice([6, 14]),
        position_embedding_type=d.choice([None, "rope"]), mamba_n_heads=heads * d.choice([1, 3]), mamba_n_groups=heads,
        mamba_d_state=d.choice([1, 5, 16]), mamba_d_conv=d.choice([2, 4]), mamba_expand=d.choice([1, 2]), mamba_chunk_size=8,
        mamba_conv_bias=d.maybe(), mamba_proj_bias=d.maybe(), time_step_limit=d.choice([(0.0, float("inf")), (0.1, 0.8)]))


def mamba2(d):
    heads, size = d.choice([(3, 8), (2, 12), (4, 6), (6, 4)])
    limit = d.choice([[0.0, float("inf")], [0.1, 0.8]])
    return transformers.Mamba2Config(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=d.choice([1, 2, 3]), expand=1,
                                     num_heads=heads, head_dim=size, n_groups=d.choice([1, heads]), state_size=d.choice([1, 5, 16]),
                                     conv_kernel=d.choice([2, 4]), use_bias=d.maybe(), use_conv_bias=d.maybe(), chunk_size=8,
                                     time_step_limit=limit, tie_word_embeddings=d.maybe(), bos_token_id=None, eos_token_id=0,
                                     pad_token_id=None)


def bamba(d):
    c = d.sizes(free=False)
    return transformers.BambaConfig(**c | dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=d.choice([1, 3])),
                                    **d.rope(scaled=False), attn_layer_indices=[0] if c["num_hidden_layers"] > 1 else [],
                                    attention_bias=d.maybe(), mlp_bias=d.maybe(), mamba_n_heads=d.choice([2, 6]),
                                    mamba_n_groups=d.choice([1, 2]), mamba_d_state=d.choice([3, 16]), mamba_chunk_size=8,
                                    mamba_conv_bias=d.maybe())


def delta_rule(d, c):
    groups = d.choice([1, 2, 3])
    even = c["head_dim"] % 4 == 0  # half a head, or a quarter, makes pairs
    rope = d.rope(partial=d.choice([0.5, 1.0]) if even else 1.0, scaled=False)
    # Norms of heads whose values are near 0 make much of the last bit with the default epsilon.
    return dict(**rope, rms_norm_eps=1e-3, linear_num_key_heads=groups, linear_num_value_heads=groups * d.choice([1, 2, 3]), linear_key_head_dim=d.choice([1, 6, 9]),
                linear_value_head_dim=d.choice([3, 5, 16]), linear_conv_kernel_dim=d.choice([2, 4]))


def qwen3_next(d):
    c = {"head_dim": 8} | d.sizes()
    return transformers.Qwen3NextConfig(**c, **delta_rule(d, c),
                                        layer_types=d.mixers(c, "linear_attention"), attention_bias=d.maybe(), num_experts=4,
                                        num_experts_per_tok=d.choice([1, 2]), moe_intermediate_size=d.choice([7, 12]),
                                        shared_expert_intermediate_size=d.choice([6, 14]), norm_topk_prob=d.maybe(),
                                        mlp_only_layers=d.choice([[], [0]]))


def qwen3_5(d):
    c = {"head_dim": 8} | d.sizes()
    layers = d.choice([dict(layer_types=d.mixers(c, "linear_attention")), dict(full_attention_interval=d.choice([2, 4]))])
    return transformers.Qwen3_5TextConfig(**c, **delta_rule(d, c), **layers,
                                          attention_bias=d.maybe())


def qwen3_5_moe(d):
    c = {"head_dim": 8} | d.sizes()
    del c["intermediate_size"]
    return transformers.Qwen3_5MoeTextConfig(**c, **delta_rule(d, c),
                                             layer_types=d.mixers(c, "linear_attention"), num_experts=4,
                                             num_experts_per_tok=d.choice([1, 2]), moe_intermediate_size=d.choice([7, 12]),
                                             shared_expert_intermediate_size=d.choice([6, 14]))


def falcon_h1(d):
    c = d.sizes(free=False)
    heads = d.choice([1, 2, 4])
    return transformers.FalconH1Config(
        **c, **d.rope(scaled=False), rms_norm_eps=1e-3, mamba_n_heads=heads * d.choice([1, 3]), mamba_n_groups=heads, mamba_d_ssm=heads * d.choice([3, 12]),
        mamba_d_state=d.choice([1, 5, 16]), mamba_d_conv=d.choice([2, 4]), mamba_chunk_size=8, mamba_rms_norm=d.maybe(),
        mamba_norm_before_gate=d.maybe(), mamba_conv_bias=d.maybe(), mamba_proj_bias=d.maybe(), projectors_bias=d.maybe(),
        attention_bias=d.maybe(), mlp_bias=d.maybe(), embedding_multiplier=d.choice([1.0, 2.5]), lm_head_multiplier=d.choice([1.0, 0.4]),
        key_multiplier=d.choice([1.0, 0.7]), attention_in_multiplier=d.choice([1.0, 1.3]), attention_out_multiplier=d.choice([1.0, 0.6]),
        ssm_in_multiplier=d.choice([1.0, 1.2]), ssm_out_multiplier=d.choice([1.0, 0.8]), mlp_multipliers=d.choice([[1.0, 1.0], [0.8, 0.6]]),
        ssm_multipliers=d.choice([None, [0.9, 1.1, 0.7, 1.4, 0.5]]))


def nemotron_h(d, kinds=("linear_attention", "full_attention", "mlp"), last="linear_attention", **more):
    c = {"head_dim": 8} | d.sizes()
    del c["num_hidden_layers"]
    groups = d.choice([1, 2])
    return transformers.NemotronHConfig(
        **c, **more, layers_block_type=[d.choice(kinds) for _ in range(3)] + [last],
        mamba_num_heads=groups * d.choice([1, 3]), mamba_head_dim=d.choice([4, 5]), ssm_state_size=d.choice([1, 5, 16]), n_groups=groups,
        conv_kernel=d.choice([2, 4]), use_conv_bias=d.maybe(), use_bias=d.maybe(), mlp_bias=d.maybe(),
        chunk_size=8)


def nemotron_h_moe(d):
    groups, size = d.choice([(1, 5), (2, 3), (3, 2)])
    kept = d.choice(range(1, groups + 1))
    return nemotron_h(d, ("linear_attention", "full_attention", "mlp", "moe"), "moe", n_routed_experts=groups * size, n_group=groups,
                      topk_group=kept, num_experts_per_tok=d.choice([1, 2]), norm_topk_prob=d.maybe(),
                      routed_scaling_factor=d.choice([1.0, 2.5]), moe_intermediate_size=d.choice([7, 12]),
                      moe_shared_expert_intermediate_size=d.choice([6, 14]), moe_latent_size=d.choice([None, 10]))


def gemma3(d):
    c = {"head_dim": 8} | d.sizes()
    rope = dict(sliding_attention=dict(rope_type="default", rope_theta=d.choice([50.0, 10000.0])),
                full_attention=d.rope(scaled=False)["rope_parameters"])
    return transformers.Gemma3TextConfig(**c, **d.layers(c), rope_parameters=rope, sliding_window=d.choice([3, 6]),
                                         query_pre_attn_scalar=d.choice([6, 8, 11]), attention_bias=d.maybe(),
                                         final_logit_softcapping=d.choice([None, 3.0]))


def smollm3(d):
    c = d.sizes(free=False)
    return transformers.SmolLM3Config(**c, **d.rope(), attention_bias=d.maybe(), mlp_bias=d.maybe(),
                                      no_rope_layers=[int(d.maybe()) for _ in range(c["num_hidden_layers"])])


def arcee(d):
    return transformers.ArceeConfig(**{"head_dim": 8} | d.sizes(), **d.rope(), attention_bias=d.maybe(), mlp_bias=d.maybe())


def cwm(d):
    c = {"head_dim": 8} | d.sizes() | dict(bos_token_id=0)
    return transformers.CwmConfig(**c, **d.rope(), **d.layers(c), sliding_window=d.choice([3, 6]))


def seed_oss(d):
    return transformers.SeedOssConfig(**{"head_dim": 8} | d.sizes(), **d.rope(), attention_bias=d.maybe(),
                                      attention_out_bias=d.maybe(), mlp_bias=d.maybe(), residual_dropout=0.0, attention_dropout=0.0)


def ernie4_5(d):
    return transformers.Ernie4_5Config(**{"head_dim": 8} | d.sizes(), **d.rope(scaled=False), use_bias=d.maybe())


def helium(d):
    c = d.sizes(free=False)  # transformers' output projection is square
    return transformers.HeliumConfig(**c, head_dim=c["hidden_size"] // c["num_attention_heads"], **d.rope(scaled=False), attention_bias=d.maybe(), mlp_bias=d.maybe())


def hunyuan(d):
    return transformers.HunYuanDenseV1Config(**{"head_dim": 8} | d.sizes(), **d.rope(scaled=False), attention_bias=d.maybe())


def ministral(d):
    c = {"head_dim": 8} | d.sizes()
    return transformers.MinistralConfig(**c, **d.rope(), **d.layers(c), sliding_window=d.choice([3, 6]))


def olmo3(d):
    c = d.sizes(free=False)
    rope = d.rope(scaled=False)["rope_parameters"]
    return transformers.Olmo3Config(**c, **d.layers(c), sliding_window=d.choice([3, 6]), attention_bias=d.maybe(),
                                    rope_parameters=dict(full_attention=rope, sliding_attention=rope))


def glm4(d):
    return transformers.Glm4Config(**d.sizes() | {"head_dim": d.choice([4, 8, 12])},
                                   **d.rope(partial=d.choice([0.5, 1.0]), scaled=False), attention_bias=d.maybe())


def cohere2(d):
    c = d.sizes(free=False)
    return transformers.Cohere2Config(**c, **d.rope(scaled=False), **d.layers(c), sliding_window=d.choice([3, 6]),
                                      attention_bias=d.maybe(), logit_scale=d.choice([0.0625, 0.5]))


def exaone4(d):
    c = d.sizes(free=False)
    return transformers.Exaone4Config(**c, **d.rope(scaled=False), **d.layers(c), sliding_window=d.choice([3, 6]))


def starcoder2(d):
    return transformers.Starcoder2Config(**d.sizes(free=False), **d.rope(scaled=False), **d.window(), use_bias=d.maybe(),
                                         residual_dropout=0.0, embedding_dropout=0.0, attention_dropout=0.0)


def nemotron(d):
    return transformers.NemotronConfig(**d.sizes(free=False), **d.rope(partial=1.0, scaled=False), attention_bias=d.maybe(), mlp_bias=d.maybe())


def phi(d):
    return transformers.PhiConfig(**d.sizes(free=False), **d.rope(partial=1.0, scaled=False))


def gpt2(d):
    heads = d.choice([1, 2, 3])
    return transformers.GPT2Config(vocab_size=VOCAB, n_embd=heads * d.choice([4, 6]), n_layer=d.choice([1, 2]), n_head=heads,
                                   n_positions=96, n_inner=d.choice([None, 20]), bos_token_id=None, eos_token_id=0, resid_pdrop=0.0,
                                   embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=d.maybe())


def gpt_bigcode(d):
    heads = d.choice([1, 2, 3])
    return transformers.GPTBigCodeConfig(vocab_size=VOCAB, n_embd=heads * d.choice([4, 6]), n_layer=d.choice([1, 2]), n_head=heads,
                                         n_positions=96, n_inner=d.choice([None, 20]), multi_query=d.maybe(0.7), bos_token_id=None,
                                         eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                         tie_word_embeddings=d.maybe())


def gptj(d):
    heads = d.choice([1, 2, 3])
    size = d.choice([4, 8])
    return transformers.GPTJConfig(vocab_size=VOCAB, n_embd=heads * size, n_layer=d.choice([1, 2]), n_head=heads, n_positions=96,
                                   rotary_dim=d.choice([2, 4]), bos_token_id=None, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0,
                                   attn_pdrop=0.0)


def ministral3(d):
    return transformers.Ministral3Config(**{"head_dim": 8} | d.sizes(), rope_parameters=dict(
        rope_type="yarn", rope_theta=300.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=1.0,
        llama_4_scaling_beta=d.choice([0.1, 0.3]), mscale=1.0, mscale_all_dim=1.0))


def experts(d):
    return dict(num_experts=d.choice([4, 5]), num_experts_per_tok=d.choice([1, 2]), norm_topk_prob=d.maybe())


def qwen2_moe(d):
    return transformers.Qwen2MoeConfig(**d.sizes(free=False), **d.rope(scaled=False), **experts(d), qkv_bias=d.maybe(),
                                       moe_intermediate_size=d.choice([7, 12]), shared_expert_intermediate_size=d.choice([6, 14]),
                                       mlp_only_layers=d.choice([[], [0]]))


def qwen3_moe(d):
    return transformers.Qwen3MoeConfig(**{"head_dim": 8} | d.sizes(), **d.rope(), **experts(d), attention_bias=d.maybe(),
                                       moe_intermediate_size=d.choice([7, 12]), mlp_only_layers=d.choice([[], [0]]))


def olmoe(d):
    return transformers.OlmoeConfig(**d.sizes(free=False), **d.rope(scaled=False), **experts(d), attention_bias=d.maybe(),
                                    clip_qkv=d.choice([None, 0.5]))


def granitemoe(d):
    return transformers.GraniteMoeConfig(**d.sizes(free=False), **d.rope(), num_local_experts=d.choice([3, 5]),
                                         num_experts_per_tok=d.choice([1, 2]), attention_bias=d.maybe(),
                                         embedding_multiplier=d.choice([1.0, 3.0]), attention_multiplier=d.choice([0.2, 0.5]),
                                         residual_multiplier=d.choice([1.0, 0.3]), logits_scaling=d.choice([1.0, 4.0]))


def gpt_oss(d):
    c = {"head_dim": 8} | d.sizes()
    return transformers.GptOssConfig(**c, **d.rope(scaled=False), **d.layers(c), sliding_window=d.choice([3, 6]),
                                     num_local_experts=d.choice([3, 5]), num_experts_per_tok=d.choice([1, 2]),
                                     attention_bias=d.maybe())


def routed(d):
    """Experts of DeepSeek's kind: groups of them, and one or two that every token goes through."""
    groups, size = d.choice([(1, 5), (2, 3), (3, 2)])
    return dict(n_routed_experts=groups * size, n_shared_experts=d.choice([1, 2]), num_experts_per_tok=d.choice([1, 2]),
                n_group=groups, topk_group=d.choice(range(1, groups + 1)), moe_intermediate_size=d.choice([7, 12]),
                first_k_dense_replace=d.choice([0, 1]), routed_scaling_factor=d.choice([1.0, 2.5]))


def latent(d):
    heads = d.choice([1, 2, 3])
    c = d.sizes(free=False) | dict(num_attention_heads=heads, num_key_value_heads=heads, hidden_size=24)
    return c | dict(q_lora_rank=d.choice([None, 14]), kv_lora_rank=10, qk_nope_head_dim=d.choice([4, 6]),
                    qk_rope_head_dim=d.choice([4, 6]), v_head_dim=d.choice([7, 12]))


def deepseek_v2(d):
    c = latent(d) | routed(d) | d.rope(scaled=False)
    c["topk_method"] = "greedy" if c["n_group"] == 1 else "group_limited_greedy"
    return transformers.DeepseekV2Config(**c, attention_bias=d.maybe())


def deepseek_v3(d):
    return transformers.DeepseekV3Config(**latent(d), **routed(d), **d.rope(scaled=False), norm_topk_prob=d.maybe(),
                                         rope_interleave=d.maybe(), attention_bias=d.maybe(), num_mtp_layers=0)


def glm4_moe(d):
    return transformers.Glm4MoeConfig(**d.sizes() | {"head_dim": 8}, **routed(d), **d.rope(partial=0.5, scaled=False),
                                      use_qk_norm=d.maybe(), attention_bias=d.maybe(), norm_topk_prob=d.maybe(), num_mtp_layers=0)


def dots1(d):
    return transformers.Dots1Config(**{"head_dim": 8} | d.sizes(), **routed(d), **d.rope(scaled=False), norm_topk_prob=d.maybe(),
                                    attention_bias=d.maybe())


def hunyuan_moe(d):
    return transformers.HunYuanMoEV1Config(**{"head_dim": 8} | d.sizes(), **d.rope(scaled=False), num_experts=d.choice([3, 5]),
                                           moe_topk=d.choice([1, 2]), attention_bias=d.maybe())


def minimax_m2(d):
    return transformers.MiniMaxM2Config(**d.sizes() | {"head_dim": 8}, **d.rope(partial=0.5, scaled=False),
                                        num_local_experts=d.choice([3, 5]), num_experts_per_tok=d.choice([1, 2]))


def apertus(d):
    return transformers.ApertusConfig(**d.sizes(), **d.rope(), attention_bias=d.maybe())


def mlp_layer_types(d, c):
    return dict(mlp_layer_types=[d.choice(["dense", "sparse"]) for _ in range(c["num_hidden_layers"])])


def glm4_moe_lite(d):
    c = latent(d) | {k: v for k, v in routed(d).items() if k != "first_k_dense_replace"}
    return transformers.Glm4MoeLiteConfig(**c, **d.rope(scaled=False), **d.choice([{}, mlp_layer_types(d, c)]),
                                          norm_topk_prob=d.maybe(), rope_interleave=d.maybe(), attention_bias=d.maybe())


def phimoe(d):
    c = d.sizes(free=False)
    pairs = c["hidden_size"] // c["num_attention_heads"] // 2
    short, original = [1.0 + 0.1 * i for i in range(pairs)], d.choice([16, 96])
    # Beyond the original length transformers' phimoe has forgotten the long factors, and each of the 64 tokens has its own.
    rope = dict(rope_type="longrope", rope_theta=100.0, short_factor=short,
                long_factor=short if original == 16 else [1.5 + 0.7 * i for i in range(pairs)],
                short_mscale=d.choice([1.0, 1.2]), long_mscale=d.choice([1.0, 1.4]), original_max_position_embeddings=original)
    return transformers.PhimoeConfig(**c, **d.window(), rope_parameters=rope, num_local_experts=d.choice([2, 5]),
                                     router_jitter_noise=d.choice([0.01, 0.1, 0.4]), attention_bias=d.maybe(),
                                     lm_head_bias=d.maybe())


def mistral3(d):
    """The text part of a model that also sees, of either kind."""
    text = d.choice([mistral, ministral3])(d)
    return transformers.Mistral3Config(
        text_config=text, tie_word_embeddings=text.tie_word_embeddings, image_token_index=VOCAB - 1,
        vision_config=dict(model_type="pixtral", hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=1,
                           image_size=16, patch_size=8))


def llama4(d):
    c = {"head_dim": 8} | d.sizes()
    layers = c["num_hidden_layers"]
    kinds = d.choice([{}, dict(layer_types=[d.choice(["chunked_attention", "full_attention"]) for _ in range(layers)])])
    sparse = d.choice([dict(interleave_moe_layer_step=d.choice([1, 2])), dict(moe_layers=[i for i in range(layers) if d.maybe()])])
    rotates = d.choice([dict(no_rope_layer_interval=2), dict(no_rope_layers=[d.choice([0, 1]) for _ in range(layers)])])
    return transformers.Llama4TextConfig(**c, **d.rope(), **kinds, **sparse, **rotates, intermediate_size_mlp=d.choice([14, 22]),
                                         num_local_experts=d.choice([3, 5]), num_experts_per_tok=d.choice([1, 2]),
                                         attention_chunk_size=d.choice([3, 10, 64]), use_qk_norm=d.maybe(),
                                         attn_temperature_tuning=d.maybe(), floor_scale=d.choice([3, 8]), attn_scale=d.choice([0.1, 0.4]),
                                         attention_bias=d.maybe())


def shared_layers(d, kinds):
    """How many of the last layers may read others' keys: at least one layer of each kind has its own."""
    possible = [n for n in range(1, len(kinds)) if set(kinds[:len(kinds) - n]) == set(kinds)]
    return d.choice(possible) if possible and d.maybe(0.8) else 0


def gemma4(d):
    c = d.sizes()
    kv, layers = c["num_key_value_heads"], d.choice([5, 6])
    kinds = [d.choice(["sliding_attention", "full_attention"]) for _ in range(layers - 1)] + ["full_attention"]
    shared = shared_layers(d, kinds)
    full = d.choice([dict(rope_type="proportional", partial_rotary_factor=d.choice([0.25, 0.5, 1.0])), dict(rope_type="default")])
    experts = dict(enable_moe_block=True, num_experts=d.choice([3, 5]), top_k_experts=d.choice([1, 2]), moe_intermediate_size=d.choice([7, 12]))
    return transformers.Gemma4TextConfig(
        **c | dict(head_dim=d.choice([6, 8]), num_hidden_layers=layers), global_head_dim=d.choice([4, 8, 14]), layer_types=kinds,
        num_kv_shared_layers=shared, num_global_key_value_heads=d.choice([None, 1, kv]), attention_k_eq_v=d.maybe(),
        use_double_wide_mlp=d.maybe(), vocab_size_per_layer_input=VOCAB,
        hidden_size_per_layer_input=d.choice([5, 8] if shared else [0, 5, 8]),  # generate() cannot do without beside shared keys
        sliding_window=d.choice([3, 6, 64]), attention_bias=d.maybe(), final_logit_softcapping=d.choice([None, 3.0]),
        use_bidirectional_attention=d.choice([None, "vision"]),
        rope_parameters=dict(full_attention=full | dict(rope_theta=d.choice([50.0, 10000.0])),
                             sliding_attention=dict(rope_type="default", rope_theta=d.choice([50.0, 10000.0]))),
        **(experts if d.maybe() else {}))


def gemma3n(d):
    c = d.sizes(free=False)
    layers = d.choice([2, 3, 5])
    kinds = [d.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]
    shared = d.choice([n for n in range(layers) if set(kinds[:layers - n]) == set(kinds)])
    streams = d.choice([2, 3, 4])
    return transformers.Gemma3nTextConfig(
        **c | dict(head_dim=d.choice([6, 8]), num_hidden_layers=layers), layer_types=kinds, num_kv_shared_layers=shared, sliding_window=d.choice([3, 6]),
        hidden_size_per_layer_input=d.choice([5, 8]), vocab_size_per_layer_input=d.choice([VOCAB, VOCAB - 9]), laurel_rank=d.choice([2, 5]),
        altup_num_inputs=streams, altup_active_idx=d.choice(range(streams)), altup_correct_scale=d.maybe(),
        activation_sparsity_pattern=[d.choice([0.0, 0.5, 0.8]) for _ in range(layers)], attention_bias=d.maybe(),
        final_logit_softcapping=d.choice([3.0, 30.0]),
        rope_parameters=dict(full_attention=d.rope()["rope_parameters"], sliding_attention=dict(rope_type="default", rope_theta=d.choice([50.0, 10000.0]))))


FAMILIES = [llama, mistral, qwen2, qwen3, gemma, gemma2, phi3, olmo, olmo2, granite, cohere, glm, stablelm, gpt_neox, mixtral, falcon,
            bloom, mpt, opt, lfm2, lfm2_moe, granitemoehybrid, bamba, mamba2, qwen3_next, qwen3_5, qwen3_5_moe, falcon_h1, nemotron_h,
            nemotron_h_moe, gemma3, smollm3, arcee, cwm, seed_oss, ernie4_5, helium, hunyuan, ministral, ministral3, olmo3, glm4, cohere2,
            exaone4, starcoder2, nemotron, phi, gpt2, gpt_bigcode, gptj, qwen2_moe, qwen3_moe, olmoe, granitemoe, gpt_oss, deepseek_v2, deepseek_v3,
            glm4_moe, dots1, hunyuan_moe, minimax_m2,
            apertus,
            glm4_moe_lite,
            phimoe,
            mistral3,
            llama4,
            gemma4,
            gemma3n,
            ]
