#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "ingot/base/error.h"

namespace ingot::serve {

/// What a client is told went wrong, in OpenAI's terms.
class ApiError : public Error {
 public:
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {});
  std::string_view kind() const noexcept override { return "api_error"; }
  /// "invalid_request_error", "authentication_error", ..., by the status.
  std::string_view type() const;

  int status;
  std::string param;             ///< the field of the request; empty: none
  std::string code;              ///< for programs; empty: none
  std::int64_t retry_after = 1;  ///< seconds, of status 429 and 503
  std::string allow;             ///< of status 405: the methods that the route takes
};

/// A client's mistake in a field.
ApiError bad_field(const std::string& field, const std::string& problem);

/// What an exception means to the client: its own mistakes name the field, a full queue is 429, everything
/// else 500.
ApiError to_api_error(const std::exception_ptr& error);

/// {"error": {"message", "type", "param", "code"}}
std::string error_json(const ApiError& error);

}  // namespace ingot::serve
