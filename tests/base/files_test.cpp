#include "ingot/base/files.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <functional>

#include "tests/support/temporary_directory.h"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/fault.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "ingot_files_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string at(const std::string& name) const { return root_ + "/" + name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }

  std::string root_;
};

/// Runs `body` in a child process; true if it was killed, as by kill -9.
bool killed(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

template <class E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(Files, WhatIsWrittenIsReadBack) {
  std::string content(3'000'000, 'x');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 % 251);
  FileWriter out(at("a"));
  out.write(std::string_view(content).substr(0, 10));
  out.write(std::string_view(content).substr(10, 2'500'000));  // more than the buffer
  out.write(std::string_view(content).substr(2'500'010));
  out.close();
  EXPECT_EQ(out.size(), content.size());
  EXPECT_EQ(read_file(at("a")), content);
  EXPECT_EQ(MappedFile(at("a")).text(), content);

  FileWriter more(at("a"), FileWriter::Mode::append);
  more.write("end");
  more.close();
  EXPECT_EQ(read_file(at("a")), content + "end");
}

TEST_F(Files, WhereNoFileCanBeIsAnErrorThatNamesWhatWasAskedFor) {
  const auto refused = [](const std::string& path) {
    return test::message_of<IoError>([&] { write_file_atomically(path, "x"); });
  };
  std::filesystem::create_directory(at("folder"));
  EXPECT_EQ(refused(at("folder")), at("folder") + ": is a directory; name a file");
  EXPECT_EQ(refused(at("none/x.csv")), at("none/x.csv") + ": cannot be written: there is no directory " +
                                           at("none") + "; make it first");
}

TEST_F(Files, FilesThatSayTheyAreEmptyAreReadToTheirEnd) {
  EXPECT_NE(read_file("/proc/self/status").find("Pid:"), std::string::npos);
  write_file_atomically(at("empty"), "");
  EXPECT_EQ(read_file(at("empty")), "");
  EXPECT_TRUE(MappedFile(at("empty")).bytes().empty());
}

TEST_F(Files, MappingsMoveAndTakeAdviceBeyondTheirEnd) {
  write_file_atomically(at("a"), "hello");
  MappedFile first(at("a"), MappedFile::Access::random);
  MappedFile second = std::move(first);
  second.will_need(3, 1'000'000);
  second.will_not_need(1'000'000, 1);
  EXPECT_EQ(second.text(), "hello");
  first = std::move(second);
  EXPECT_EQ(first.text(), "hello");
}

TEST_F(Files, CopyOnWriteMapTakesWritesThatNeverReachTheFile) {
  write_file_atomically(at("a"), "weights");
  MappedFile map(at("a"), MappedFile::Access::copy_on_write);
  map.writable_bytes()[0] = std::byte{'W'};
  EXPECT_EQ(map.text(), "Weights");
  EXPECT_EQ(read_file(at("a")), "weights");
}

TEST_F(Files, AtomicFileMadeInPiecesKeepsTheOldOneWhenAPieceFails) {
  write_file_atomically(at("a"), "old");
  const auto half = [&](FileWriter& out) {
    out.write("ne");
    throw Error("no more");
  };
  EXPECT_THROW(write_file_atomically(at("a"), half), Error);
  EXPECT_EQ(read_file(at("a")), "old");
  EXPECT_EQ(entries(), 1U);
  write_file_atomically(at("a"), [](FileWriter& out) {
    out.write("ne");
    out.write("w");
  });
  EXPECT_EQ(read_file(at("a")), "new");
}

TEST_F(Files, LinksStayAndWhatTheyLeadToIsReplaced) {
  write_file_atomically(at("target"), "old");
  std::filesystem::create_symlink("target", at("link"));
  std::filesystem::create_symlink("link", at("second"));
  write_file_atomically(at("second"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(at("second")));
  EXPECT_EQ(read_file(at("target")), "new");

  std::filesystem::create_symlink("nothing-yet", at("early"));
  write_file_atomically(at("early"), "made");
  EXPECT_EQ(read_file(at("nothing-yet")), "made");

  std::filesystem::create_symlink("round", at("round"));
  EXPECT_NE(message_of<IoError>([&] { write_file_atomically(at("round"), ""); }).find("circle"),
            std::string::npos);
}

TEST_F(Files, AnAtomicDirectoryReplacesWhatALinkLeadsTo) {
  std::filesystem::create_directory_symlink("model", at("link"));
  for (const char* content : {"first", "second"}) {
    AtomicDirectory directory(at("link"));
    write_file_atomically(directory.file("config.json"), content);
    directory.commit();
    EXPECT_TRUE(std::filesystem::is_symlink(at("link")));
    EXPECT_EQ(read_file(at("model/config.json")), content);
  }
}

TEST_F(Files, PipesAreWrittenToAndStayPipes) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const int reader = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file_atomically(at("pipe"), "forecast");
  std::array<char, 16> read_back{};
  EXPECT_EQ(read(reader, read_back.data(), read_back.size()), 8);
  EXPECT_STREQ(read_back.data(), "forecast");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(at("pipe")));
}

// Who opened a pipe to read it whole would wait for a writer, and /dev/zero has no end.
TEST_F(Files, WhatIsNoRegularFileIsNotReadWhole) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  for (const std::string& path : {at("pipe"), std::string("/dev/zero")}) {
    const std::string expected = path + ": is a pipe, socket or device; expected a regular file";
    EXPECT_EQ(message_of<IoError>([&] { read_file(path); }), expected);
    EXPECT_EQ(message_of<IoError>([&] { MappedFile file(path); }), expected);
  }
}

TEST_F(Files, ErrorsNameTheFileTheReasonAndWhatToDo) {
  const std::string missing = message_of<IoError>([&] { read_file(at("none")); });
  EXPECT_EQ(missing, at("none") + ": cannot open it: No such file or directory; check the path");
  EXPECT_NE(message_of<IoError>([&] { read_file(root_); }).find("is a directory"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { MappedFile file(root_); }).find("is a directory"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { FileWriter out(at("no/such/place")); }).find("cannot create it"),
            std::string::npos);
  const std::string long_name = at(std::string(300, 'x'));
  EXPECT_NE(message_of<IoError>([&] { write_file_atomically(long_name, ""); }).find("File name too long"),
            std::string::npos);
  write_file_atomically(at("file"), "");
  EXPECT_NE(message_of<IoError>([&] { make_directories(at("file/below")); }).find("Not a directory"),
            std::string::npos);
}

TEST_F(Files, AFullDiskSaysHowMuchIsFreeAndLeavesTheOldFile) {
  write_file_atomically(at("a"), "old");
  const ScopedFault fault({Fault::Kind::no_space, "write", 2});
  const std::string message = message_of<IoError>([&] { write_file_atomically(at("a"), "new content"); });
  EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
  EXPECT_NE(message.find("free there: delete something"), std::string::npos) << message;
  EXPECT_EQ(read_file(at("a")), "old");
  EXPECT_EQ(entries(), 1U) << "the partial file is gone";
}

TEST_F(Files, ACrashAtAnyByteLeavesTheOldFileAndALeftoverThatIsSwept) {
  write_file_atomically(at("a"), "old");
  const std::string content = "new content";
  for (std::uint64_t after = 0; after < content.size(); ++after) {
    EXPECT_TRUE(killed([&] {
      const ScopedFault fault({Fault::Kind::crash, "write", after});
      write_file_atomically(at("a"), content);
    }));
    EXPECT_EQ(read_file(at("a")), "old");
    EXPECT_EQ(sweep_partial(root_).size(), 1U);
    EXPECT_EQ(entries(), 1U);
  }
  EXPECT_TRUE(killed([&] {
    const ScopedFault fault({Fault::Kind::crash, "file.before_rename", 1});
    write_file_atomically(at("a"), content);
  }));
  EXPECT_EQ(read_file(at("a")), "old");
}

void write_directory(const std::string& path, const std::string& content) {
  AtomicDirectory directory(path);
  FileWriter out(directory.file("config.json"));
  out.write(content);
  out.close();
  write_file_atomically(directory.file("model.safetensors"), content);
  directory.commit();
}

TEST_F(Files, ADirectoryAppearsWholeAndReplacesTheOldOne) {
  write_directory(at("deep/checkpoint/"), "one");
  EXPECT_EQ(read_file(at("deep/checkpoint/model.safetensors")), "one");
  write_directory(at("deep/checkpoint"), "two");
  EXPECT_EQ(read_file(at("deep/checkpoint/config.json")), "two");
  EXPECT_TRUE(sweep_partial(at("deep")).empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(at("deep")), fs::directory_iterator()), 1);
}

TEST_F(Files, ADirectoryReplacesAModelAndNothingElse) {
  const auto refusal = [&](const char* name) {
    return message_of<IoError>([&] { AtomicDirectory{at(name)}; });
  };
  make_directories(at("empty"));
  write_directory(at("empty"), "new");
  write_file_atomically(at("empty/notes.txt"), "mine");
  EXPECT_NE(refusal("empty").find("holds 'notes.txt', which is not part of a model"), std::string::npos);
  write_directory(at("packed"), "old");
  for (const char* cache : {"packed/q8_0.ingot-packed", "packed/q8_0.ingot-packed.partial-0123abcd"})
    write_file_atomically(at(cache), "tiles of the old weights");
  write_directory(at("packed"), "new");
  EXPECT_FALSE(fs::exists(at("packed/q8_0.ingot-packed")));
  make_directories(at("projects/one"));
  EXPECT_NE(refusal("projects").find("holds 'one'"), std::string::npos);
  make_directories(at("results"));
  write_file_atomically(at("results/run.json"), "mine");
  EXPECT_NE(refusal("results").find("and no model"), std::string::npos);
  write_file_atomically(at("data.csv"), "mine");
  EXPECT_NE(refusal("data.csv").find("is a file"), std::string::npos);
  EXPECT_EQ(entries(), 5U);
  EXPECT_EQ(read_file(at("empty/notes.txt")) + read_file(at("results/run.json")) + read_file(at("data.csv")),
            "mineminemine");
}

TEST_F(Files, ADirectoryWithoutCommitLeavesNothing) {
  {
    AtomicDirectory directory(at("checkpoint"));
    FileWriter out(directory.file("a"));
    EXPECT_EQ(entries(), 1U);
    EXPECT_TRUE(sweep_partial(root_).empty()) << "a living writer's directory is not a leftover";
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Files, ACrashedDirectoryLeavesTheOldOneOrTheNewOneWhole) {
  write_directory(at("c"), "old");
  struct Case {
    std::string point;
    std::uint64_t count;
    std::string holds;
  };
  const std::vector<Case> cases = {{"write", 0, "old"},
                                   {"write", 2, "old"},
                                   {"write", 4, "old"},
                                   {"file.before_rename", 1, "old"},
                                   {"directory.before_rename", 1, "old"},
                                   {"directory.after_rename", 1, "new"}};
  for (const Case& c : cases) {
    EXPECT_TRUE(killed([&] {
      const ScopedFault fault({Fault::Kind::crash, c.point, c.count});
      write_directory(at("c"), "new");
    })) << c.point;
    EXPECT_EQ(read_file(at("c/config.json")), c.holds) << c.point;
    EXPECT_EQ(read_file(at("c/model.safetensors")), c.holds) << c.point;
    EXPECT_EQ(sweep_partial(root_).size(), 1U) << c.point;
    EXPECT_EQ(entries(), 1U) << c.point;
  }
}

TEST_F(Files, SweepPutsBackADirectoryCaughtBetweenTwoRenames) {
  write_directory(at("c"), "old");
  fs::rename(at("c"), at("c.replaced-0123abcd"));
  EXPECT_EQ(sweep_partial(root_).size(), 1U);
  EXPECT_EQ(read_file(at("c/config.json")), "old");
}

TEST_F(Files, SweepTouchesNothingThatIsNotItsOwn) {
  for (const char* name : {"c.partial-", "c.partial-xyz", "notes.partial-2024", ".partial-0123abcd"}) {
    write_file_atomically(at(name), "");
  }
  EXPECT_TRUE(sweep_partial(root_).empty());
  EXPECT_TRUE(sweep_partial(at("no such directory")).empty());
  EXPECT_EQ(entries(), 4U);
}

TEST_F(Files, SpaceIsCheckedAgainstThePlaceEvenBeforeItExists) {
  EXPECT_GT(free_disk_bytes(at("not/yet/there")), 0U);
  EXPECT_NO_THROW(require_disk_space(root_, 1, "a test"));
  const std::string message =
      message_of<IoError>([&] { require_disk_space(at("x"), std::uint64_t{1} << 62, "a checkpoint"); });
  EXPECT_NE(message.find("a checkpoint needs 4.00 EiB, but the disk has"), std::string::npos) << message;
}

TEST(Fault, TextFromOutsideIsReadOrRefused) {
  const Fault fault = parse_fault("crash:directory.before_rename:3");
  EXPECT_EQ(fault.kind, Fault::Kind::crash);
  EXPECT_EQ(fault.point, "directory.before_rename");
  EXPECT_EQ(fault.count, 3U);
  for (const char* text :
       {"", "crash", "crash:1", "crash::1", "boom:write:1", "crash:write:x", "crash:write:1x"}) {
    EXPECT_THROW(parse_fault(text), InvalidConfig) << text;
  }
}

TEST(Fault, NoMemoryIsWhatAnAllocationThrows) {
  const ScopedFault fault(parse_fault("memory:somewhere:1"));
  EXPECT_THROW(fault_point("somewhere"), std::bad_alloc);
  EXPECT_NO_THROW(fault_point("somewhere"));
}

TEST(Fault, APlaceIsMetAtTheCountedPassing) {
  const ScopedFault fault({Fault::Kind::crash, "somewhere", 3});
  fault_point("somewhere");
  fault_point("elsewhere");
  fault_point("somewhere");
  EXPECT_TRUE(killed([] { fault_point("somewhere"); }));
}

}  // namespace
}  // namespace ingot
