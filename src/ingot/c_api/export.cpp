#include "ingot/c_api/export.h"

#include "ingot/c_api/inner/call.h"
#include "ingot/export/convert.h"
#include "ingot/export/merge.h"
#include "ingot/export/quantize.h"
#include "ingot/hub/resolve.h"

using namespace ingot;
using namespace ingot::c_api;

namespace ingot::c_api {
namespace {

WriteProgress write_progress(IngotOnWritten on_written, void* user) {
  if (on_written == nullptr) return {};
  return [=](std::uint64_t done, std::uint64_t total) {
    INGOT_CHECK(on_written(done, total, user) == 0,
                Error("on_written ended the call; nothing that was written is kept"));
  };
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_quantize(const char* source, const char* destination, const char* format,
                           IngotOnWritten on_written, void* user) {
  return call(__func__, [&] {
    quantize_model({.source = hub::resolve_model(string_arg(source, "source")),
                    .destination = string_arg(destination, "destination"),
                    .format = string_arg(format, "format")},
                   write_progress(on_written, user));
  });
}

IngotStatus ingot_convert(const char* source, const char* destination, const char* dtype,
                          IngotOnWritten on_written, void* user) {
  return call(__func__, [&] {
    convert_model({.source = hub::resolve_model(string_arg(source, "source")),
                   .destination = string_arg(destination, "destination"),
                   .to = {},
                   .dtype = string_or_empty(dtype)},
                  write_progress(on_written, user));
  });
}

IngotStatus ingot_merge(const char* model, const char* const* adapters, const float* weights, size_t count,
                        const char* destination, const char* dtype, IngotOnWritten on_written, void* user) {
  return call(__func__, [&] {
    MergeOptions options{.model = hub::resolve_model(string_arg(model, "model")),
                         .destination = string_arg(destination, "destination"),
                         .dtype = string_or_empty(dtype)};
    const auto paths = array_arg(adapters, count, "adapters");
    if (paths.empty()) throw InvalidArgument("count", "is 0; give at least one adapter");
    options.adapters.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
      options.adapters.push_back({.path = hub::resolve_model(string_arg(paths[i], "adapters")),
                                  .weight = weights == nullptr ? 1.0F : weights[i]});
    merge_model(options, write_progress(on_written, user));
  });
}

}  // extern "C"
