#include "ingot/cli/verbs.h"

namespace ingot::cli {

void add_all_verbs(Command& root) {
  add_demo(root);
  add_train(root);
  add_generate(root);
  add_tokenize(root);
  add_logits(root);
  add_inspect(root);
  add_memory(root);
  add_mahjong(root);
  add_devices(root);
  add_bench(root);
  add_completion(root);
}

}  // namespace ingot::cli
