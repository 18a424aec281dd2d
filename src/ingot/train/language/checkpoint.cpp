#include "ingot/train/language/checkpoint.h"

#include "ingot/base/files.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/language/weight_map.h"
#include "ingot/ops/cast.h"
#include "ingot/text/tokenizer.h"
#include "ingot/weights/open.h"

namespace ingot {

void write_trained_model(const std::string& directory, const LanguageConfig& config,
                         const std::map<std::string, Tensor>& weights, const text::Tokenizer& tokenizer,
                         const std::string& generation_config) {
  write_language_model(directory, config, weights);
  if (!generation_config.empty())
    write_file_atomically(directory + "/generation_config.json", generation_config);
  tokenizer.save_directory(directory);
}

std::string save_checkpoint(const CheckpointDirectory& directory, std::int64_t step,
                            const Checkpoint& checkpoint, const LanguageConfig& config,
                            const text::Tokenizer& tokenizer, const std::string& generation_config) {
  return directory.write(step, checkpoint, [&](const AtomicDirectory& files) {
    write_trained_model(files.path(), config, checkpoint.tensors.at(kModelFile), tokenizer,
                        generation_config);
  });
}

LanguageCheckpoint load_checkpoint(const SavedCheckpoint& saved) {
  const std::string file = saved.path() + "/config.json";
  LanguageCheckpoint checkpoint{.config = LanguageConfig::from_json(read_file(file), file),
                                .weights = {},
                                .optimizer = saved.tensors("optimizer"),
                                .ema = saved.tensors("ema"),
                                .state = saved.state()};
  const std::unique_ptr<WeightSource> weights = open_weights(saved.path());
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : weights->tensors()) tensors[info.name] = weights->load_tensor(info.name);
  for (auto& [name, tensor] : import_tensors(language_weight_map(checkpoint.config), tensors))
    checkpoint.weights[name] = clone(tensor);
  return checkpoint;
}

}  // namespace ingot
