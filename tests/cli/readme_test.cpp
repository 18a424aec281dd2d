#include <cstdlib>
#include <filesystem>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/base/shell.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;

TEST(Readme, ItsCommandsRunAsWritten) {
  const std::string readme = read_file(test::source_dir() + "/README.md");
  const std::string mark = "<!-- runs as written -->\n```sh\n";
  const std::size_t begin = readme.find(mark);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t start = begin + mark.size();
  const test::TemporaryDirectory clone;
  fs::create_directories(clone.at("examples"));
  fs::copy(test::source_dir() + "/examples/data", clone.at("examples/data"));
  write_file_atomically(clone.at("commands.sh"), readme.substr(start, readme.find("```", start) - start));
  const std::string path = fs::path(INGOT_BINARY).parent_path().string();
  const std::string command = "cd " + shell_quoted(clone.path()) + " && PATH=" + shell_quoted(path) +
                              ":$PATH OMP_NUM_THREADS=1 bash -eux commands.sh >output 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(clone.at("output"));
  for (const char* file :
       {"out/curves.html", "out/tiny-q8_0.gguf", "out/forecast.csv", "out/study-trials/report.html"})
    EXPECT_TRUE(fs::exists(clone.at(file))) << file;
}

}  // namespace
}  // namespace ingot::testing
