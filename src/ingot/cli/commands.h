#pragma once

#include "ingot/cli/command.h"

namespace ingot::cli {

// Each command stands in the file of its name.
void add_bench(Command& root);
void add_cache(Command& root);
void add_chat(Command& root);
void add_serve(Command& root);
void add_completion(Command& root);
void add_convert(Command& root);
void add_data(Command& root);
void add_demo(Command& root);
void add_devices(Command& root);
void add_dist(Command& root);
void add_embed(Command& root);
void add_classify(Command& root);
void add_rerank(Command& root);
void add_forecast(Command& root);
void add_generate(Command& root);
void add_graph(Command& root);
void add_inspect(Command& root);
void add_logits(Command& root);
void add_mahjong(Command& root);
void add_memory(Command& root);
void add_merge(Command& root);
void add_imatrix(Command& root);
void add_perplexity(Command& root);
void add_plan(Command& root);
void add_quantize(Command& root);
void add_models(Command& root);
void add_onnx(Command& root);
void add_pull(Command& root);
void add_tokenize(Command& root);
void add_diff(Command& root);
void add_report(Command& root);
void add_train(Command& root);
void add_tune(Command& root);
void add_why(Command& root);

/// Adds every command, in the order that --help shows them.
void add_all_commands(Command& root);

}  // namespace ingot::cli
