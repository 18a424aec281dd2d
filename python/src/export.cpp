// Writing models in other formats: what `ingot convert`, `quantize` and `merge` do.
#include "bindings.h"

#include "ingot/export/convert.h"
#include "ingot/export/merge.h"
#include "ingot/export/quantize.h"
#include "ingot/hub/resolve.h"

namespace ingot::python {
namespace {

// Ctrl-C ends the writing between two tensors; what was written does not stay.
void check_signals(std::uint64_t /*done*/, std::uint64_t /*total*/) {
  const AcquiredGil acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

std::string convert(const std::string& source, const std::string& destination, const std::string& to,
                    const std::string& dtype, std::uint64_t max_shard_bytes) {
  return convert_model({.source = hub::resolve_model(source),
                        .destination = destination,
                        .to = to,
                        .dtype = dtype,
                        .max_shard_bytes = max_shard_bytes},
                       check_signals)
      .path;
}

std::string quantize(const std::string& source, const std::string& destination, const std::string& format) {
  return quantize_model({.source = hub::resolve_model(source), .destination = destination, .format = format},
                        check_signals)
      .path;
}

std::string merge(const std::string& model, const std::vector<std::pair<std::string, float>>& adapters,
                  const std::string& destination, const std::string& dtype) {
  MergeOptions options{.model = hub::resolve_model(model), .destination = destination, .dtype = dtype};
  options.adapters.reserve(adapters.size());
  for (const auto& [path, weight] : adapters) options.adapters.push_back({path, weight});
  return merge_model(options, check_signals).path;
}

}  // namespace

void bind_export(nb::module_& module) {
  module.def("_convert", convert, "source"_a, "destination"_a, "to"_a, "dtype"_a, "max_shard_bytes"_a,
             ReleaseGil());
  module.def("_quantize", quantize, "source"_a, "destination"_a, "format"_a, ReleaseGil());
  module.def("_merge", merge, "model"_a, "adapters"_a, "destination"_a, "dtype"_a, ReleaseGil());
}

}  // namespace ingot::python
