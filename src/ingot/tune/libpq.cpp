#include "ingot/tune/libpq.h"

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::tune {
namespace {

const std::array<std::string, 2> kNames{"libpq.so.5", "libpq.so"};

}  // namespace

Libpq::Libpq() : library(kNames) {
  library.find(connect, "PQconnectdb");
  library.find(finish, "PQfinish");
  library.find(reset, "PQreset");
  library.find(status, "PQstatus");
  library.find(error, "PQerrorMessage");
  library.find(run, "PQexec");
  library.find(run_with, "PQexecParams");
  library.find(result_status, "PQresultStatus");
  library.find(result_field, "PQresultErrorField");
  library.find(rows, "PQntuples");
  library.find(value, "PQgetvalue");
  library.find(is_null, "PQgetisnull");
  library.find(length, "PQgetlength");
  library.find(clear, "PQclear");
}

const Libpq& Libpq::get(const std::string& place) {
  static const Libpq libpq;
  INGOT_CHECK(
      libpq.library.problem().empty(),
      IoError(place, fmt::format("is on a PostgreSQL server, and its client library cannot be loaded: {}; "
                                 "install it (Debian: libpq5)",
                                 libpq.library.problem())));
  return libpq;
}

}  // namespace ingot::tune
