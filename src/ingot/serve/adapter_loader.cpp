#include "ingot/serve/adapter_loader.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

namespace fs = std::filesystem;

std::string canonical_directory(const std::string& directory) {
  if (directory.empty()) return {};
  std::error_code error;
  const fs::path path = fs::canonical(directory, error);
  INGOT_CHECK(!error && fs::is_directory(path, error),
              InvalidConfig("adapter_directory", fmt::format("'{}' is not a directory", directory)));
  return path.string();
}

// What is wrong with an adapter is the client's to know: it names the file and the tensor.
ApiError load_error(const std::string& name) {
  const auto failed = [&](int status, const std::exception& error) -> ApiError {
    return {status, fmt::format("the adapter '{}' could not be loaded: {}", name, error.what()), "lora_path",
            "adapter_load_failed"};
  };
  try {
    throw;
  } catch (const ApiError& error) {
    return error;
  } catch (const OutOfMemory& error) {
    return failed(503, error);
  } catch (const std::bad_alloc& error) {
    return failed(503, error);
  } catch (const Error& error) {
    return failed(400, error);
  } catch (const std::exception& error) {
    return failed(500, error);
  }
}

}  // namespace

AdapterLoader::AdapterLoader(ModelPool& models, const std::string& directory)
    : models_(models), directory_(canonical_directory(directory)) {}

void AdapterLoader::check_allowed() const {
  if (directory_.empty())
    throw ApiError(403,
                   "requests may not load, unload or switch adapters here; start the server with "
                   "--adapter-directory",
                   {}, "adapters_fixed");
}

// Links are followed first: none leads outside.
std::string AdapterLoader::confined(const std::string& path) const {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(fs::path(directory_) / path, error);
  const fs::path inside = found.lexically_relative(directory_);
  if (error || inside.empty() || *inside.begin() == "..")
    throw ApiError(403, fmt::format("'{}' is not in the directory of adapters", path), "lora_path",
                   "path_not_allowed");
  if (!fs::exists(found, error))
    throw ApiError(404, fmt::format("there is no '{}' in the directory of adapters", path), "lora_path",
                   "adapter_not_found");
  return found.string();
}

void AdapterLoader::load(const std::shared_ptr<Exchange>& exchange, const std::string& model,
                         const std::string& name, const std::string& path) {
  check_allowed();
  if (name.empty()) throw bad_field("lora_name", "is empty");
  if (name.find(',') != std::string::npos)
    throw bad_field("lora_name",
                    fmt::format("'{}' has a comma, which lists of adapters are divided by", name));
  NamedAdapter adapter{.name = name, .path = confined(path)};
  ModelLease lease = models_.lease(model);
  queue_.submit([this, exchange, adapter = std::move(adapter), lease = std::move(lease), model] {
    try {
      models_.load_adapter(model, *lease, adapter);
      exchange->send({.body = fmt::format("Success: LoRA adapter '{}' added successfully.", adapter.name),
                      .content_type = "text/plain; charset=utf-8"});
    } catch (...) {
      const ApiError error = load_error(adapter.name);
      exchange->send({.status = error.status, .body = error_json(error)});
    }
  });
}

void AdapterLoader::unload(const std::string& name) {
  check_allowed();
  models_.unload_adapter(name);
}

}  // namespace ingot::serve
