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
#include "ingot/tune/database_engine.h"

namespace ingot::tune {
namespace {

constexpr int kBusyMilliseconds = 60'000;
constexpr std::int64_t kApplicationId = 0x494e4754;  // "INGT"

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

/// Connection and path, for what has to be said about either.
struct SqliteFile {
  std::string path;
  sqlite3* db = nullptr;
  void check(int code, std::string_view doing) const;
};

class SqliteStatement final : public EngineStatement {
 public:
  SqliteStatement(const SqliteFile& file, const std::string& sql) : file_(file) {
    file.check(sqlite3_prepare_v2(file.db, sql.c_str(), -1, &statement_, nullptr), "read it");
  }
  ~SqliteStatement() override { sqlite3_finalize(statement_); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  void bind(int index, std::int64_t value) override {
    file_.check(sqlite3_bind_int64(statement_, index + 1, value), "write to it");
  }
  void bind(int index, double value) override {
    const int code = std::isnan(value) ? sqlite3_bind_null(statement_, index + 1)
                                       : sqlite3_bind_double(statement_, index + 1, value);
    file_.check(code, "write to it");
  }
  void bind(int index, std::string_view value) override {
    file_.check(sqlite3_bind_text(statement_, index + 1, value.data(), static_cast<int>(value.size()),
                                  SQLITE_TRANSIENT),
                "write to it");
  }
  bool step() override {
    const int code = sqlite3_step(statement_);
    file_.check(code, sqlite3_stmt_readonly(statement_) != 0 ? "read it" : "write to it");
    return code == SQLITE_ROW;
  }
  std::int64_t integer(int column) const override { return sqlite3_column_int64(statement_, column); }
  double real(int column) const override {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL ? std::numeric_limits<double>::quiet_NaN()
                                                                  : sqlite3_column_double(statement_, column);
  }
  std::string text(int column) const override {
    const auto* bytes = sqlite3_column_text(statement_, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes), size);
  }

 private:
  const SqliteFile& file_;
  sqlite3_stmt* statement_ = nullptr;
};

class SqliteEngine final : public DatabaseEngine {
 public:
  explicit SqliteEngine(const std::string& path) : file_{.path = path} {
    const int code =
        sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &file_.db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
    try {
      file_.check(code, "open it");
      // SQLite opens a file that it may not write all the same, and would say so in the middle of a study.
      if (sqlite3_db_readonly(file_.db, "main") == 1) file_.check(SQLITE_READONLY, "write to it");
      sqlite3_extended_result_codes(file_.db, 1);
      distrust_schema();
      sqlite3_busy_timeout(file_.db, kBusyMilliseconds);
    } catch (...) {
      sqlite3_close(file_.db);
      throw;
    }
  }
  ~SqliteEngine() override { sqlite3_close(file_.db); }
  SqliteEngine(const SqliteEngine&) = delete;
  SqliteEngine& operator=(const SqliteEngine&) = delete;

  std::unique_ptr<EngineStatement> prepare(const std::string& sql) override {
    return std::make_unique<SqliteStatement>(file_, sql);
  }
  void run(const std::string& sql) override {
    // Switching the journal's mode does not wait for others by itself.
    int code = SQLITE_BUSY;
    for (int tries = 0; tries < 200 && (code & 0xFF) == SQLITE_BUSY; ++tries) {
      if (tries > 0) sqlite3_sleep(20);
      code = sqlite3_exec(file_.db, sql.c_str(), nullptr, nullptr, nullptr);
    }
    file_.check(code, "write to it");
  }

  void begin() override {
    file_.check(sqlite3_exec(file_.db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), "lock it");
  }
  void commit() override {
    file_.check(sqlite3_exec(file_.db, "COMMIT", nullptr, nullptr, nullptr), "write to it");
  }
  void roll_back() noexcept override { sqlite3_exec(file_.db, "ROLLBACK", nullptr, nullptr, nullptr); }

  bool is_blank() override {
    return number("SELECT count(*) FROM sqlite_master") == 0 && number("PRAGMA application_id") == 0 &&
           number("PRAGMA user_version") == 0;
  }
  void mark(std::int64_t format) override {
    run(fmt::format("PRAGMA application_id={}", kApplicationId));
    run(fmt::format("PRAGMA user_version={}", format));
  }
  std::int64_t marked_format() override {
    if (number("PRAGMA application_id") != kApplicationId) return 0;
    INGOT_CHECK(number("SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')") == 0,
                FormatError(file_.path, -1, "sqlite_master",
                            "holds a view or a trigger, and a study has neither: the file was changed by "
                            "something else; put a copy of it back, or begin a new study"));
    return number("PRAGMA user_version");
  }

  void choose_journal() override {
    if (file_.path.empty()) return;
    // In the log a commit survives a kill without waiting for the disk; the store asks for that where it
    // matters.
    has_log_ = !is_shared_between_machines(file_.path);
    run(has_log_ ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=DELETE");
    wait_for_disk(false);
  }
  void wait_for_disk(bool wait) override {
    if (has_log_) run(wait ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  }

 private:
  // A study may come from a stranger: a view instead of a table can be read without end, and a trigger writes
  // what nobody asked for. A study has neither.
  void distrust_schema() {
    sqlite3_db_config(file_.db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    for (const int off :
         {SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_TRUSTED_SCHEMA})
      sqlite3_db_config(file_.db, off, 0, nullptr);
  }

  std::int64_t number(const std::string& sql) {
    SqliteStatement statement(file_, sql);
    return statement.step() ? statement.integer(0) : 0;
  }

  SqliteFile file_;
  bool has_log_ = false;
};

void SqliteFile::check(int code, std::string_view doing) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  const std::string why = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  const int primary = code & 0xFF;
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT) {
    throw FormatError(
        path, -1, "SQLite database",
        fmt::format("{}; expected a study that ingot tune wrote, or a path where nothing is", why));
  }
  if (primary == SQLITE_FULL || code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC) {
    throw IoError(path,
                  fmt::format("cannot {}: {} ({} free); what was recorded before is safe: make room and "
                              "run the same command again",
                              doing, why, human_bytes(free_disk_bytes(path))));
  }
  if (primary == SQLITE_CANTOPEN || primary == SQLITE_READONLY) {
    std::error_code ignored;
    INGOT_CHECK(!std::filesystem::is_directory(path, ignored),
                IoError(path, "is a directory; a study is one file: give it another path (study: ...)"));
    throw IoError(path, fmt::format("cannot {}: {}; a study writes to this file and to others beside it: "
                                    "check that its directory is there, and who may write to both",
                                    doing, sqlite3_errstr(code)));
  }
  if (primary == SQLITE_BUSY) {
    throw IoError(path, fmt::format("cannot {}: another process has kept it locked for {} s", doing,
                                    kBusyMilliseconds / 1000));
  }
  throw IoError(path, fmt::format("cannot {}: {}", doing, why));
}

}  // namespace

std::unique_ptr<DatabaseEngine> open_sqlite(const std::string& path) {
  return std::make_unique<SqliteEngine>(path);
}

}  // namespace ingot::tune
