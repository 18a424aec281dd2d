#include "bindings.h"
#include <nanobind/stl/unique_ptr.h>

#include "ingot/base/error.h"
#include "ingot/hub/resolve.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/npz.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"
#include "ingot/weights/torch_writer.h"
#include "ingot/weights/weight_source.h"

namespace ingot::python {
namespace {

nb::dict describe(const TensorInfo& info) {
  nb::dict result;
  result["name"] = info.name;
  result["shape"] = nb::tuple(nb::cast(info.shape));
  result["dtype"] = info.dtype ? nb::cast(*info.dtype) : nb::none();
  result["stored_as"] = info.stored_as;
  result["bytes"] = info.bytes;
  result["file"] = info.file;
  return result;
}

std::map<std::string, Tensor> load_all(const WeightSource& source) {
  const ReleasedGil release;
  std::vector<std::string> names;
  names.reserve(source.tensors().size());
  for (const TensorInfo& info : source.tensors()) names.push_back(info.name);
  std::vector<Tensor> tensors = source.load_tensors(names);
  std::map<std::string, Tensor> result;
  for (std::size_t i = 0; i < names.size(); ++i) result.emplace(names[i], std::move(tensors[i]));
  return result;
}

using Named = std::map<std::string, Tensor>;
using Texts = std::map<std::string, std::string>;

std::vector<StoredTensor> stored(const Named& tensors) {
  std::vector<StoredTensor> result;
  result.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) result.push_back(StoredTensor::of(name, tensor));
  return result;
}

void save_safetensors(const std::string& path, const Named& tensors, const Texts& metadata) {
  SafetensorsOptions options;
  for (const auto& [key, value] : metadata) options.metadata[key] = value;
  write_safetensors(path, stored(tensors), options);
}

void save_gguf(const std::string& path, const Named& tensors, const Texts& metadata) {
  GgufMetadata fields;
  for (const auto& [key, value] : metadata) fields.set(key, GgufValue::of_string(value));
  std::vector<GgufTensor> all;
  all.reserve(tensors.size());
  for (StoredTensor& tensor : stored(tensors)) all.push_back(GgufTensor::of(std::move(tensor)));
  write_gguf(path, fields, all);
}

void save_numpy(const std::string& path, const Named& tensors, const Texts& metadata) {
  if (!metadata.empty()) throw InvalidConfig("metadata", "NumPy's files hold tensors alone: leave it out");
  if (path.ends_with(".npz")) return write_npz(path, stored(tensors));
  if (tensors.size() != 1)
    throw InvalidConfig("tensors", std::to_string(tensors.size()) +
                                       " tensors for one .npy file, which holds one: save them as NAME.npz");
  write_npy(path, tensors.begin()->second);
}

void save_torch(const std::string& path, const Named& tensors, const Texts& metadata) {
  if (!metadata.empty())
    throw InvalidConfig("metadata", "a PyTorch state dict holds tensors alone: leave it out");
  write_torch(path, tensors);
}

// By the ending of its name.
void save_weights(const std::string& path, const Named& tensors, const Texts& metadata) {
  if (path.ends_with(".safetensors")) return save_safetensors(path, tensors, metadata);
  if (path.ends_with(".gguf")) return save_gguf(path, tensors, metadata);
  if (path.ends_with(".npz") || path.ends_with(".npy")) return save_numpy(path, tensors, metadata);
  if (path.ends_with(".pt")) return save_torch(path, tensors, metadata);
  throw InvalidConfig("path",
                      "'" + path +
                          "' names no format that is written: it has to end with .safetensors, .gguf, "
                          ".npz, .npy or .pt");
}

}  // namespace

void bind_weights(nb::module_& module) {
  nb::class_<WeightSource>(module, "WeightSource",
                           "Named tensors of a file or directory, each read when it is asked for.")
      .def_prop_ro("location", &WeightSource::location, "Path of the file or directory.")
      .def_prop_ro("format", &WeightSource::format, "``\"safetensors\"``, ``\"gguf\"``...")
      .def_prop_ro("metadata", &WeightSource::metadata, "What the file says beside its tensors, by key.")
      .def(
          "keys",
          [](const WeightSource& self) {
            nb::list names;
            for (const TensorInfo& info : self.tensors()) names.append(info.name);
            return names;
          },
          "The tensors' names.")
      .def(
          "info",
          [](const WeightSource& self, const std::string& name) { return describe(self.get_metadata(name)); },
          "name"_a, "Name, shape, dtype, bytes and file of a tensor, without reading its values.")
      .def("__len__", [](const WeightSource& self) { return self.tensors().size(); })
      .def("__contains__",
           [](const WeightSource& self, const std::string& name) { return self.is_available(name); })
      .def(
          "__getitem__",
          [](const WeightSource& self, const std::string& name) { return self.load_tensor(name); }, "name"_a,
          ReleaseGil())
      .def("load", load_all, "Every tensor, by name.");
  module.def(
      "_open_weights", [](const std::string& path) { return hub::open_weights(path); }, "path"_a,
      ReleaseGil());
  module.def("_save_weights", save_weights, "path"_a, "tensors"_a, "metadata"_a, ReleaseGil());
}

}  // namespace ingot::python
