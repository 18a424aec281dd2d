#include "ingot/tune/database.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/vfs.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/units.h"

namespace ingot::tune {
namespace {

constexpr int kBusyMilliseconds = 60'000;

// SQLite's write-ahead log needs memory that all processes share; on the file systems of several machines
// there is none, and only the slower rollback journal works.
bool is_shared_between_machines(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return false;
  switch (static_cast<std::uint32_t>(info.f_type)) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFF534D42:  // CIFS
    case 0xFE534D42:  // SMB2
    case 0x0BD00BD0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0x00C36400:  // Ceph
    case 0x65735546:  // FUSE, which may be any of them
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Database::Handle {
  sqlite3* db = nullptr;
};
struct Statement::Handle {
  sqlite3_stmt* statement = nullptr;
};

Database::Database(const std::string& path) : path_(path), handle_(std::make_unique<Handle>()) {
  const int code =
      sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &handle_->db,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  try {
    check(code, "open it");
    // SQLite opens a file that it may not write all the same, and would say so in the middle of a study.
    if (sqlite3_db_readonly(handle_->db, "main") == 1) check(SQLITE_READONLY, "write to it");
    sqlite3_extended_result_codes(handle_->db, 1);
    sqlite3_busy_timeout(handle_->db, kBusyMilliseconds);
  } catch (...) {
    sqlite3_close(handle_->db);
    throw;
  }
}

Database::~Database() { sqlite3_close(handle_->db); }

void Database::choose_journal() {
  if (path_.empty()) return;
  // In the log a commit survives a kill without waiting for the disk; the store asks for that where it
  // matters.
  has_log_ = !is_shared_between_machines(path_);
  run(has_log_ ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=DELETE");
  wait_for_disk(false);
}

void Database::check(int code, std::string_view doing) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  const std::string why = handle_->db != nullptr ? sqlite3_errmsg(handle_->db) : sqlite3_errstr(code);
  const int primary = code & 0xFF;
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT) {
    throw FormatError(
        path_, -1, "SQLite database",
        fmt::format("{}; expected a study that ingot tune wrote, or a path where nothing is", why));
  }
  if (primary == SQLITE_FULL || code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC) {
    throw IoError(path_,
                  fmt::format("cannot {}: {} ({} free); what was recorded before is safe: make room and "
                              "run the same command again",
                              doing, why, human_bytes(free_disk_bytes(path_))));
  }
  if (primary == SQLITE_CANTOPEN || primary == SQLITE_READONLY) {
    std::error_code ignored;
    INGOT_CHECK(!std::filesystem::is_directory(path_, ignored),
                IoError(path_, "is a directory; a study is one file: give it another path (study: ...)"));
    throw IoError(path_, fmt::format("cannot {}: {}; a study writes to this file and to others beside it: "
                                     "check that its directory is there, and who may write to both",
                                     doing, sqlite3_errstr(code)));
  }
  if (primary == SQLITE_BUSY) {
    throw IoError(path_, fmt::format("cannot {}: another process has kept it locked for {} s", doing,
                                     kBusyMilliseconds / 1000));
  }
  throw IoError(path_, fmt::format("cannot {}: {}", doing, why));
}

void Database::run(const std::string& sql) {
  // Switching the journal's mode does not wait for others by itself.
  int code = SQLITE_BUSY;
  for (int tries = 0; tries < 200 && (code & 0xFF) == SQLITE_BUSY; ++tries) {
    if (tries > 0) sqlite3_sleep(20);
    code = sqlite3_exec(handle_->db, sql.c_str(), nullptr, nullptr, nullptr);
  }
  check(code, "write to it");
}

std::int64_t Database::number(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

void Database::wait_for_disk(bool wait) {
  if (has_log_) run(wait ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
}

Statement::Statement(Database& database, const std::string& sql)
    : database_(&database), handle_(std::make_unique<Handle>()) {
  database.check(sqlite3_prepare_v2(database.handle_->db, sql.c_str(), -1, &handle_->statement, nullptr),
                 "read it");
}

Statement::~Statement() { sqlite3_finalize(handle_->statement); }

Statement& Statement::bind(int index, std::int64_t value) {
  database_->check(sqlite3_bind_int64(handle_->statement, index + 1, value), "write to it");
  return *this;
}

Statement& Statement::bind(int index, double value) {
  const int code = std::isnan(value) ? sqlite3_bind_null(handle_->statement, index + 1)
                                     : sqlite3_bind_double(handle_->statement, index + 1, value);
  database_->check(code, "write to it");
  return *this;
}

Statement& Statement::bind(int index, std::string_view value) {
  database_->check(sqlite3_bind_text(handle_->statement, index + 1, value.data(),
                                     static_cast<int>(value.size()), SQLITE_TRANSIENT),
                   "write to it");
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(handle_->statement);
  database_->check(code, sqlite3_stmt_readonly(handle_->statement) != 0 ? "read it" : "write to it");
  return code == SQLITE_ROW;
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_->statement, column); }

double Statement::real(int column) const {
  return sqlite3_column_type(handle_->statement, column) == SQLITE_NULL
             ? std::numeric_limits<double>::quiet_NaN()
             : sqlite3_column_double(handle_->statement, column);
}

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(handle_->statement, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_->statement, column));
  return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes), size);
}

Transaction::Transaction(Database& database) : database_(&database) {
  database.check(sqlite3_exec(database.handle_->db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), "lock it");
}

Transaction::~Transaction() {
  if (open_) sqlite3_exec(database_->handle_->db, "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_->check(sqlite3_exec(database_->handle_->db, "COMMIT", nullptr, nullptr, nullptr), "write to it");
  open_ = false;
}

}  // namespace ingot::tune
