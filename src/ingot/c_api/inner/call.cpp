#include "ingot/c_api/inner/call.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "ingot/base/version.h"
#include "ingot/c_api/inner/handles.h"
#include "ingot/data/csv.h"
#include "ingot/plugin/load.h"
#include "ingot/runtime/initialize.h"

namespace ingot::c_api {
namespace {

constexpr std::array<std::pair<IngotStatus, std::string_view>, 21> kStatusNames{{
    {INGOT_OK, "ok"},
    {INGOT_ERROR, "error"},
    {INGOT_INVALID_ARGUMENT, "invalid_argument"},
    {INGOT_INVALID_HANDLE, "invalid_handle"},
    {INGOT_BUSY, "busy"},
    {INGOT_INVALID_CONFIG, "invalid_config"},
    {INGOT_SHAPE_MISMATCH, "shape_mismatch"},
    {INGOT_DIMENSION_MISMATCH, "dimension_mismatch"},
    {INGOT_DEVICE_NOT_AVAILABLE, "device_not_available"},
    {INGOT_DEVICE_MISMATCH, "device_mismatch"},
    {INGOT_OUT_OF_MEMORY, "out_of_memory"},
    {INGOT_KERNEL_ERROR, "kernel_error"},
    {INGOT_NOT_IMPLEMENTED, "not_implemented"},
    {INGOT_IO_ERROR, "io_error"},
    {INGOT_FORMAT_ERROR, "format_error"},
    {INGOT_NON_FINITE, "non_finite"},
    {INGOT_QUEUE_FULL, "queue_full"},
    {INGOT_ILLEGAL_ACTION, "illegal_action"},
    {INGOT_TRIAL_LOST, "trial_lost"},
    {INGOT_DATA_ERROR, "data_error"},
    {INGOT_COMMUNICATION_ERROR, "communication_error"},
}};

/// A thread's last error, and the memory of its fields.
struct LastError {
  IngotError shown{.status = INGOT_OK,
                   .kind = "ok",
                   .message = "",
                   .call = nullptr,
                   .file = nullptr,
                   .offset = -1,
                   .key = nullptr,
                   .device = nullptr,
                   .expected = nullptr,
                   .expected_rank = 0,
                   .actual = nullptr,
                   .actual_rank = 0};
  std::string kind, message, file, key, device;
  std::vector<std::int64_t> expected, actual;

  void start(const char* function, std::string_view new_kind, const char* new_message) {
    kind = new_kind;
    message = new_message;
    const auto* const found =
        std::ranges::find(kStatusNames, new_kind, [](const auto& row) { return row.second; });
    shown = {.status = found == kStatusNames.end() ? IngotStatus{INGOT_ERROR} : found->first,
             .kind = kind.c_str(),
             .message = message.c_str(),
             .call = function,
             .file = nullptr,
             .offset = -1,
             .key = nullptr,
             .device = nullptr,
             .expected = nullptr,
             .expected_rank = 0,
             .actual = nullptr,
             .actual_rank = 0};
  }
  void set_file(const std::string& path, std::int64_t offset = -1) {
    file = path;
    shown.file = file.c_str();
    shown.offset = offset;
  }
  void set_key(const std::string& value) {
    key = value;
    shown.key = key.c_str();
  }
  void set_device(const std::string& value) {
    device = value;
    shown.device = device.c_str();
  }
  void set_shapes(const ShapeMismatch& error) {
    expected = error.expected;
    actual = error.actual;
    shown.expected = expected.data();
    shown.expected_rank = static_cast<std::int32_t>(expected.size());
    shown.actual = actual.data();
    shown.actual_rank = static_cast<std::int32_t>(actual.size());
  }
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

void add_fields(LastError& last, const Error& error) {
  if (const auto* config = dynamic_cast<const InvalidConfig*>(&error)) last.set_key(config->key);
  if (const auto* argument = dynamic_cast<const InvalidArgument*>(&error)) last.set_key(argument->argument);
  if (const auto* shapes = dynamic_cast<const ShapeMismatch*>(&error)) last.set_shapes(*shapes);
  if (const auto* missing = dynamic_cast<const DeviceNotAvailable*>(&error)) last.set_device(missing->device);
  if (const auto* other = dynamic_cast<const DeviceMismatch*>(&error)) last.set_device(other->actual);
  if (const auto* io = dynamic_cast<const IoError*>(&error)) last.set_file(io->path);
  if (const auto* data = dynamic_cast<const data::DataError*>(&error)) {
    last.set_file(data->path, data->line);
    last.set_key(data->column);
  }
  if (const auto* format = dynamic_cast<const FormatError*>(&error)) {
    last.set_file(format->path, format->offset);
    last.set_key(format->field);
  }
}

IngotStatus note(const char* function, std::exception_ptr thrown) noexcept {
  LastError& last = last_error();
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const Error& error) {
    last.start(function, error.kind(), error.what());
    add_fields(last, error);
  } catch (const std::bad_alloc&) {
    last.start(function, "out_of_memory", "the system has no memory left for this call");
  } catch (const std::exception& error) {
    last.start(function, "error", error.what());
  } catch (...) {
    last.start(function, "error", "an exception of an unknown type");
  }
  return last.shown.status;
}

}  // namespace

InvalidArgument::InvalidArgument(std::string argument, std::string_view problem)
    : Error("argument " + argument + " " + std::string(problem)), argument(std::move(argument)) {}

namespace {

// Those of INGOT_PLUGINS. Where one cannot be loaded, each call says so. An entry may make calls of its own.
void load_plugins() {
  thread_local bool loading = false;
  if (loading) return;
  struct Loading {
    Loading() { loading = true; }
    ~Loading() { loading = false; }
  } const here;
  static const bool loaded = (load_plugins_from_env(), true);
  static_cast<void>(loaded);
}

}  // namespace

IngotStatus call(const char* function, FunctionRef<void()> body) noexcept {
  try {
    initialize();
    load_plugins();
    body();
    return INGOT_OK;
  } catch (...) {
    return note(function, std::current_exception());
  }
}

std::string string_arg(const char* argument, const char* name) { return &required(argument, name); }
std::string string_or_empty(const char* argument) { return argument == nullptr ? std::string() : argument; }

void* give_bytes(const void* data, std::size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);  // ingot_free() is std::free
  if (memory == nullptr) throw std::bad_alloc();
  if (bytes > 0) std::memcpy(memory, data, bytes);
  return memory;
}

char* give_text(std::string_view value) {
  auto* const memory = static_cast<char*>(std::malloc(value.size() + 1));
  if (memory == nullptr) throw std::bad_alloc();
  value.copy(memory, value.size());
  memory[value.size()] = '\0';
  return memory;
}

}  // namespace ingot::c_api

extern "C" {

const char* ingot_status_name(IngotStatus status) {
  using ingot::c_api::kStatusNames;
  const auto* const found =
      std::ranges::find(kStatusNames, status, [](const auto& row) { return row.first; });
  return found == kStatusNames.end() ? "unknown" : found->second.data();
}

const IngotError* ingot_last_error(void) { return &ingot::c_api::last_error().shown; }
const char* ingot_version(void) { return ingot::version().data(); }
void ingot_free(void* memory) { std::free(memory); }
std::int64_t ingot_open_handles(void) { return ingot::c_api::open_objects(); }

}  // extern "C"
