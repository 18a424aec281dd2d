#pragma once

#include <array>
#include <string>

#include "ingot/base/shared_library.h"

/// PostgreSQL's client library, opened when a study first lies on a server: the types and functions that are
/// used of it, as its documentation has them (libpq, "Database Connection Control" and "Command Execution").
namespace ingot::tune {

struct PGconn;
struct PGresult;

enum class PqStatus : int { ok = 0 };                                   // ConnStatusType
enum class PqResult : int { command_ok = 1, tuples_ok = 2 };            // ExecStatusType
inline constexpr int kPqSqlState = 'C';                                 // PG_DIAG_SQLSTATE
inline constexpr unsigned kPqInt8 = 20, kPqText = 25, kPqFloat8 = 701;  // types, by their OIDs

struct Libpq {
  Libpq();
  /// Loaded once. IoError for `place` that names the package where the library is not there.
  static const Libpq& get(const std::string& place);

  SharedLibrary library;
  PGconn* (*connect)(const char* info) = nullptr;
  void (*finish)(PGconn*) = nullptr;
  void (*reset)(PGconn*) = nullptr;
  int (*status)(const PGconn*) = nullptr;
  char* (*error)(const PGconn*) = nullptr;
  PGresult* (*run)(PGconn*, const char* sql) = nullptr;
  PGresult* (*run_with)(PGconn*, const char* sql, int count, const unsigned* types, const char* const* values,
                        const int* lengths, const int* formats, int result_format) = nullptr;
  int (*result_status)(const PGresult*) = nullptr;
  char* (*result_field)(const PGresult*, int field) = nullptr;
  int (*rows)(const PGresult*) = nullptr;
  char* (*value)(const PGresult*, int row, int column) = nullptr;
  int (*is_null)(const PGresult*, int row, int column) = nullptr;
  int (*length)(const PGresult*, int row, int column) = nullptr;
  void (*clear)(PGresult*) = nullptr;
};

}  // namespace ingot::tune
