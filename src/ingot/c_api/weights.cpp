#include "ingot/c_api/weights.h"

#include <map>
#include <mutex>

#include "ingot/autograd/grad_mode.h"
#include "ingot/c_api/inner/objects.h"
#include "ingot/hub/resolve.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/safetensors_writer.h"

using namespace ingot;
using namespace ingot::c_api;

struct IngotWeights : Object {
  static constexpr const char* kName = "weights file";
  explicit IngotWeights(std::unique_ptr<WeightSource> s) : source(std::move(s)), format(source->format()) {}

  Tensor load(const std::string& name) {
    if (source->capabilities().concurrent) return source->load_tensor(name);
    const std::lock_guard lock(mutex);
    return source->load_tensor(name);
  }

  const std::unique_ptr<WeightSource> source;
  const std::string format;
  std::mutex mutex;
};

extern "C" {

IngotStatus ingot_weights_open(const char* path, IngotWeights** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_handle(std::make_shared<IngotWeights>(hub::open_weights(string_arg(path, "path"))));
  });
}

IngotStatus ingot_weights_close(IngotWeights* weights) {
  return call(__func__, [&] { close_handle(weights); });
}

IngotStatus ingot_weights_format(const IngotWeights* weights, const char** format) {
  return call(__func__, [&] {
    auto& shown = result(format, "format");
    shown = object_of(weights)->format.c_str();
  });
}

IngotStatus ingot_weights_count(const IngotWeights* weights, size_t* count) {
  return call(__func__, [&] {
    auto& shown = result(count, "count");
    shown = object_of(weights)->source->tensors().size();
  });
}

IngotStatus ingot_weights_find(const IngotWeights* weights, const char* name, size_t* index) {
  return call(__func__, [&] {
    auto& shown = result(index, "index");
    const auto object = object_of(weights);
    const TensorInfo& info = object->source->get_metadata(string_arg(name, "name"));
    shown = static_cast<std::size_t>(&info - object->source->tensors().data());
  });
}

IngotStatus ingot_weights_metadata(const IngotWeights* weights, const char* key, const char** value) {
  return call(__func__, [&] {
    auto& shown = result(value, "value");
    const auto object = object_of(weights);
    const auto& entries = object->source->metadata();
    const auto found = entries.find(string_arg(key, "key"));
    if (found != entries.end()) shown = found->second.c_str();
  });
}

IngotStatus ingot_weights_tensor(const IngotWeights* weights, size_t index, IngotWeightInfo* info,
                                 size_t size) {
  return call(__func__, [&] {
    const auto object = object_of(weights);
    const auto all = object->source->tensors();
    if (index >= all.size())
      throw InvalidArgument("index", "is " + std::to_string(index) + "; there are " +
                                         std::to_string(all.size()) + " tensors, counted from 0");
    const TensorInfo& one = all[index];
    const IngotWeightInfo values{.name = one.name.c_str(),
                                 .shape = one.shape.data(),
                                 .rank = static_cast<std::int32_t>(one.shape.size()),
                                 .dtype = one.dtype ? static_cast<IngotDtype>(*one.dtype) : -1,
                                 .stored_as = one.stored_as.c_str(),
                                 .bytes = one.bytes,
                                 .file = one.file.c_str(),
                                 .offset = one.offset};
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_weights_load(const IngotWeights* weights, const char* name, IngotTensor** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_tensor(object_of(weights)->load(string_arg(name, "name")));
  });
}

IngotStatus ingot_save_safetensors(const char* path, const char* const* names,
                                   const IngotTensor* const* tensors, size_t count) {
  return call(__func__, [&] {
    const NoGrad no_grad;
    std::vector<StoredTensor> stored;
    const auto given = array_arg(tensors, count, "tensors");
    const auto called = array_arg(names, count, "names");
    stored.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
      stored.push_back(
          StoredTensor::of(string_arg(called[i], "names"), contiguous(to(tensor_arg(given[i]), kCpu))));
    write_safetensors(string_arg(path, "path"), stored);
  });
}

}  // extern "C"
