#pragma once

#include "ingot/c_api/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A language model open for inference, with tokenizer, generation settings and chat template. Generating,
/// logits and chat take one call at a time (INGOT_BUSY otherwise), tokenizing any number from any thread.
/// Requests from many threads go through a scheduler (scheduler.h).
typedef struct IngotSession IngotSession;

/// How a model is opened. Fill with ingot_session_options().
typedef struct IngotSessionOptions {
  size_t size;               ///< of this struct, as the caller knows it
  const char* format;        ///< of the weights: "f32", "bf16", "q8_0", "q4_k", ...; NULL: as stored
  const char* device;        ///< "auto" (the default), "cpu", "cuda", "cuda:N"
  const char* packed_cache;  ///< where packed weights are kept: "auto" (the default), "off", or a directory
  const char* const* adapters;   ///< LoRA adapters as PEFT writes them; several add up
  const float* adapter_weights;  ///< of each; NULL: 1
  size_t adapter_count;
  int64_t context;          ///< tokens of a sequence at most; 0: the model's limit
  int64_t chunk;            ///< prompt tokens that go through the model at once (512)
  const char* kv_cache;     ///< "f32", "bf16", "f16", "i8"; NULL: what suits the model
  uint64_t kv_memory;       ///< bytes of keys and values of all requests together; 0: no limit
  int64_t max_running;      ///< requests in one step at most; 0: no limit
  int32_t prefix_cache;     ///< 1: reuse keys and values of prompts that begin alike
  int32_t batch_invariant;  ///< 1: the same bits whatever other requests run beside (CPU)
  int32_t eager;            ///< 1: no CUDA graphs
} IngotSessionOptions;
INGOT_API IngotStatus ingot_session_options(IngotSessionOptions* options, size_t size);

/// Opens a directory of Hugging Face's layout, a .gguf file, or a name or address that `ingot pull` knows.
/// options NULL: the defaults. Errors name the file, key or tensor.
INGOT_API IngotStatus ingot_session_open(const char* model, const IngotSessionOptions* options,
                                         IngotSession** out);
/// NULL is allowed. A call that runs on another thread ends first.
INGOT_API IngotStatus ingot_session_close(IngotSession* session);

/// What a model is. Strings are valid while the handle is open.
typedef struct IngotModelInfo {
  const char* model_type;  ///< "llama"
  const char* device;
  int64_t parameters;
  int64_t vocab_size;
  int64_t context;  ///< tokens of a sequence at most
  int64_t layers;
  int64_t hidden_size;
  int32_t has_chat_template;
} IngotModelInfo;
INGOT_API IngotStatus ingot_session_info(const IngotSession* session, IngotModelInfo* info, size_t size);

/// Ids of a text. add_special_tokens: 1 adds what the model expects around it. *ids [*count] is to be freed
/// with ingot_free().
INGOT_API IngotStatus ingot_session_tokenize(const IngotSession* session, const char* text,
                                             int32_t add_special_tokens, int32_t** ids, size_t* count);
/// The text of ids [count], valid UTF-8; ids without a token count as nothing. *text is to be freed with
/// ingot_free(); *bytes (may be NULL) is its length.
INGOT_API IngotStatus ingot_session_detokenize(const IngotSession* session, const int32_t* ids, size_t count,
                                               int32_t skip_special_tokens, char** text, size_t* bytes);

/// What a text has to be (structured output).
typedef int32_t IngotConstraint;
enum {
  INGOT_CONSTRAINT_NONE = 0,
  INGOT_CONSTRAINT_JSON_OBJECT = 1,  ///< any JSON object
  INGOT_CONSTRAINT_JSON_SCHEMA = 2,  ///< JSON that `constraint_source`, a JSON Schema, accepts
  INGOT_CONSTRAINT_REGEX = 3,        ///< matches the regular expression as a whole
  INGOT_CONSTRAINT_CHOICE = 4,       ///< one of `choices`
  INGOT_CONSTRAINT_GRAMMAR = 5       ///< follows a grammar: GBNF, or Lark where no rule has "::="
};

/// Changes the logits [vocab] of the token that comes behind ids [count], prompt included. Returns 0 to go
/// on; anything else fails the request with INGOT_ERROR. Threads of the library call it, for several requests
/// at once; of a scheduler's requests it may wait for those of another scheduler, but not of its own, as no
/// callback may (INGOT_BUSY).
typedef int32_t (*IngotLogitsProcessor)(float* logits, size_t vocab, const int32_t* ids, size_t count,
                                        void* user);

/// How a text is generated; docs/inference.md explains each. Fill with ingot_generate_options().
typedef struct IngotGenerateOptions {
  size_t size;  ///< of this struct, as the caller knows it
  int64_t max_tokens;
  int64_t min_tokens;  ///< no end token before so many
  double temperature;  ///< 0: greedy
  int64_t top_k;       ///< 0: all
  double top_p;
  double min_p;
  double typical_p;
  double top_n_sigma;      ///< 0: all
  double xtc_probability;  ///< 0: never
  double xtc_threshold;
  int64_t mirostat;  ///< 2: Mirostat 2; 0: off
  double mirostat_tau, mirostat_eta;
  double repetition_penalty;  ///< 1: off
  double presence_penalty, frequency_penalty;
  int64_t no_repeat_ngram_size;  ///< 0: off
  double dry_multiplier;         ///< 0: off
  double dry_base;
  int64_t dry_allowed_length;
  uint64_t seed;
  const char* const* stop;  ///< strings before which the text ends
  size_t stop_count;
  const char* const* bad_words;  ///< that never come
  size_t bad_word_count;
  const int32_t* logit_bias_ids;  ///< tokens whose logit is changed
  const float* logit_biases;      ///< what is added to each; -INFINITY rules a token out
  size_t logit_bias_count;
  int32_t ignore_end_tokens;  ///< 1: go on past the model's end tokens
  int64_t speculate;          ///< draft tokens from repetitions in the text, up to 7; 0: none
  int64_t
      logprobs;  ///< the log-probability of each token, with those of so many most probable ones; -1: none
  IngotConstraint constraint;     ///< what the text has to be; INGOT_INVALID_CONFIG where it cannot be read
  const char* constraint_source;  ///< the schema, the expression or the grammar
  const char* const* choices;     ///< of INGOT_CONSTRAINT_CHOICE
  size_t choice_count;
  IngotLogitsProcessor logits_processor;  ///< NULL: none
  void* logits_processor_user;
} IngotGenerateOptions;
/// The defaults, with what the session's model files say of them; session NULL: the library's.
INGOT_API IngotStatus ingot_generate_options(const IngotSession* session, IngotGenerateOptions* options,
                                             size_t size);

/// Gets each piece of a text once it is certain, [bytes] of UTF-8 with a zero byte behind. Returns 0 to go
/// on; anything else ends the text.
typedef int32_t (*IngotOnText)(const char* text, size_t bytes, void* user);

/// What was generated.
typedef struct IngotGeneration IngotGeneration;

/// Pointers are valid while the handle is open.
typedef struct IngotGenerationInfo {
  const char* text;  ///< what was written behind the prompt
  size_t text_bytes;
  const int32_t* tokens;
  size_t token_count;
  const float* logprobs;  ///< [token_count], natural logarithms, where they were asked for; else NULL
  const char* reason;     ///< why it ended: "max_tokens", "stop_token", "stop_string", "context_full",
                          ///< "grammar_end", "cancelled"
  int64_t prompt_tokens;
  int64_t cached_tokens;  ///< of the prompt, whose keys and values were there already
  double queue_seconds, prompt_seconds, decode_seconds;
  int64_t drafted, accepted;  ///< draft tokens, and those of them that were right
} IngotGenerationInfo;
INGOT_API IngotStatus ingot_generation_info(const IngotGeneration* generation, IngotGenerationInfo* info,
                                            size_t size);
/// NULL is allowed.
INGOT_API IngotStatus ingot_generation_close(IngotGeneration* generation);

/// Continues a prompt. options NULL: the model's. on_text and out may be NULL. One call at a time.
INGOT_API IngotStatus ingot_session_generate(IngotSession* session, const char* prompt,
                                             const IngotGenerateOptions* options, IngotOnText on_text,
                                             void* user, IngotGeneration** out);
/// The same for ids [count], taken as they are.
INGOT_API IngotStatus ingot_session_generate_ids(IngotSession* session, const int32_t* ids, size_t count,
                                                 const IngotGenerateOptions* options, IngotOnText on_text,
                                                 void* user, IngotGeneration** out);

/// The prompt that the model's chat template makes of messages, and asks for an answer with. messages: a JSON
/// list as OpenAI's, [{"role": "user", "content": "Hi"}, ...]; tools: a JSON list of function descriptions,
/// or NULL. *text is to be freed with ingot_free(). INGOT_INVALID_CONFIG where the model has no template;
/// `kind` "template_error" for what the template refuses.
INGOT_API IngotStatus ingot_session_chat_prompt(const IngotSession* session, const char* messages,
                                                const char* tools, char** text);
/// Answers messages: ingot_session_generate_ids() with that prompt. One call at a time.
INGOT_API IngotStatus ingot_session_chat(IngotSession* session, const char* messages, const char* tools,
                                         const IngotGenerateOptions* options, IngotOnText on_text, void* user,
                                         IngotGeneration** out);

/// f32 [count, vocab] on the CPU: for each of the ids [count], the logits of the token behind it. One call at
/// a time.
INGOT_API IngotStatus ingot_session_logits(IngotSession* session, const int32_t* ids, size_t count,
                                           IngotTensor** out);

/// A sentence encoder: texts become vectors whose dot products say how near their meanings are. Takes one
/// call at a time.
typedef struct IngotEmbedder IngotEmbedder;
/// Opens a directory of sentence-transformers, or of a BERT with its tokenizer. format: as of a session, NULL
/// as stored; device: NULL is "auto".
INGOT_API IngotStatus ingot_embedder_open(const char* model, const char* format, const char* device,
                                          IngotEmbedder** out);
/// Elements of a vector.
INGOT_API IngotStatus ingot_embedder_dimension(const IngotEmbedder* embedder, int64_t* dimension);
/// Writes f32 [count, dimension], row-major, into the caller's `vectors` of `capacity` elements. prompt: put
/// before each text; NULL: none. Texts beyond the encoder's limit are cut. INGOT_DIMENSION_MISMATCH where
/// `capacity` is too small.
INGOT_API IngotStatus ingot_embedder_embed(IngotEmbedder* embedder, const char* const* texts, size_t count,
                                           const char* prompt, float* vectors, size_t capacity);
/// NULL is allowed.
INGOT_API IngotStatus ingot_embedder_close(IngotEmbedder* embedder);

#ifdef __cplusplus
}
#endif
