#include "ingot/serve/api_error.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/infer/sampler.h"
#include "ingot/infer/scheduler.h"
#include "ingot/text/chat_template.h"

namespace ingot::serve {

ApiError::ApiError(int status_, const std::string& message, std::string param_, std::string code_)
    : Error(message), status(status_), param(std::move(param_)), code(std::move(code_)) {}

std::string_view ApiError::type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

ApiError bad_field(const std::string& field, const std::string& problem) {
  return {400, "'" + field + "' " + problem, field};
}

ApiError to_api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& e) {
    return e;
  } catch (const infer::QueueFull& e) {
    return {429, e.what(), {}, "queue_full"};
  } catch (const InvalidConfig& e) {
    return {400, e.what(), e.key};
  } catch (const DimensionMismatch& e) {
    return {400, e.what(), "prompt", "context_length_exceeded"};
  } catch (const text::TemplateError& e) {
    return {400, e.what(), "messages", "template_error"};
  } catch (const NothingToDraw& e) {
    return {400, e.what(), {}, "no_token_left"};
  } catch (const FormatError& e) {
    return {400, e.what()};
  } catch (const nlohmann::json::type_error& e) {  // of a field that was read without being asked first
    const std::string_view what = e.what();  // "[json.exception.type_error.302] type must be string, ..."
    return {400,
            fmt::format("a field of the request has the wrong type: {}", what.substr(what.find("] ") + 2))};
  } catch (const std::exception& e) {
    return {500, e.what()};
  }
}

std::string error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  const nlohmann::ordered_json json = {{"error",
                                        {{"message", error.what()},
                                         {"type", std::string(error.type())},
                                         {"param", or_null(error.param)},
                                         {"code", or_null(error.code)}}}};
  return dump_json(json);
}

}  // namespace ingot::serve
