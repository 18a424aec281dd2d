#include "ingot/cli/commands.h"

namespace ingot::cli {

void add_all_commands(Command& root) {
  add_demo(root);
  add_train(root);
  add_report(root);
  add_diff(root);
  add_why(root);
  add_data(root);
  add_tune(root);
  add_generate(root);
  add_chat(root);
  add_serve(root);
  add_tokenize(root);
  add_embed(root);
  add_classify(root);
  add_rerank(root);
  add_logits(root);
  add_perplexity(root);
  add_forecast(root);
  add_inspect(root);
  add_graph(root);
  add_convert(root);
  add_quantize(root);
  add_imatrix(root);
  add_merge(root);
  add_models(root);
  add_pull(root);
  add_cache(root);
  add_onnx(root);
  add_memory(root);
  add_plan(root);
  add_mahjong(root);
  add_devices(root);
  add_dist(root);
  add_bench(root);
  add_completion(root);
}

}  // namespace ingot::cli
