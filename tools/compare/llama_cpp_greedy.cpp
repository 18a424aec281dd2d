// What llama.cpp makes of a model: built and run by tools/check_llama_cpp.py.
//
//     llama_cpp_greedy MODEL.gguf LOGITS COUNT ID...
//
// Reads the prompt's ids, appends COUNT greedy ones and prints all of them. LOGITS gets one row of f32 for
// each id but the last.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include <llama.h>

namespace {

// Weights as they are on the CPU, and keys and values in f32: what is left is the order of sums.
llama_context* open_context(llama_model* model) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 256;
  params.n_threads = params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = GGML_TYPE_F32;
  return llama_init_from_model(model, params);
}

llama_batch batch_of(const std::vector<llama_token>& ids, int first) {
  const int count = static_cast<int>(ids.size()) - first;
  llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; ++i) {
    batch.token[i] = ids[static_cast<std::size_t>(first + i)];
    batch.pos[i] = first + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  return batch;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) return 3;
  llama_context* context = open_context(model);
  if (context == nullptr) return 4;
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::ofstream logits(argv[2], std::ios::binary);
  std::vector<llama_token> ids;
  for (int i = 4; i < argc; ++i) ids.push_back(std::atoi(argv[i]));
  int done = 0;
  for (int left = std::atoi(argv[3]); left > 0; --left) {
    const llama_batch batch = batch_of(ids, done);
    if (llama_decode(context, batch) != 0) return 5;
    const float* row = nullptr;
    for (int i = 0; i < batch.n_tokens; ++i) {
      row = llama_get_logits_ith(context, i);
      logits.write(reinterpret_cast<const char*>(row),
                   static_cast<std::streamsize>(sizeof(float)) * vocabulary);
    }
    llama_batch_free(batch);
    done = static_cast<int>(ids.size());
    ids.push_back(static_cast<llama_token>(std::max_element(row, row + vocabulary) - row));
  }
  for (const llama_token id : ids) std::printf("%d ", id);
  llama_free(context);
  llama_model_free(model);
  return logits.good() ? 0 : 6;
}
