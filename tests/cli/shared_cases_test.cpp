#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>

#include "tests/cli/process.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/npz.h"
#include "ingot/weights/open.h"
#include "ingot/weights/zip.h"

// The shared cases of hostile files and of graphs as people export them, through the program: each within
// 10 s of a processor and 1 GiB.

namespace ingot {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;
using testing::Outcome;
using testing::run_ingot;
using testing::run_ingot_with_input;

fs::path shared_cases() { return fs::path(test::source_dir()) / "../shared/cases"; }

/// Seconds of processors that all children took so far.
double children_seconds(long* kib = nullptr) {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  if (kib != nullptr) *kib = used.ru_maxrss;
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

template <class Run>
Outcome within_limits(Run run) {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit limit = before;
  limit.rlim_cur = rlim_t{4'500'000} << 10;
  setrlimit(RLIMIT_AS, &limit);
  const double begin = children_seconds();
  Outcome outcome = run();
  long kib = 0;
  EXPECT_LT(children_seconds(&kib) - begin, 10);
  EXPECT_LT(kib, 1 << 20) << "KiB, the most of all children";
  setrlimit(RLIMIT_AS, &before);
  return outcome;
}

void expect_one_clear_error(const Outcome& outcome) {
  EXPECT_TRUE(outcome.exit_code == 1 || outcome.exit_code == 2) << outcome.exit_code << outcome.errors;
  for (const char* inside : {"std::", "_M_", "json.exception", "basic_string"})
    EXPECT_EQ(outcome.errors.find(inside), std::string::npos) << outcome.errors;
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_EQ(outcome.errors.find('\x1b'), std::string::npos) << outcome.errors;
}

struct SecurityCase {
  const char* name;
  const char* command;  ///< FILE: the case; DIR: a model with its files; OUT: a new directory
  bool runs = false;    ///< it ends well, only quickly
};

class SharedSecurity : public ::testing::TestWithParam<SecurityCase> {
 protected:
  /// A small model whose other files are the case's.
  static void make_model(const fs::path& from, const std::string& directory) {
    fs::copy(test::source_dir() + "/tests/models/goldens/qwen3", directory);
    const std::string golden = test::source_dir() + "/tests/text/goldens/word_level.json";
    write_file_atomically(directory + "/tokenizer.json", dump_json(parse_json<nlohmann::ordered_json>(
                                                             read_file(golden), golden)["tokenizer"]));
    for (const char* name : {"chat_template.jinja", "config.json"}) {
      const fs::path file = from / name;
      // What the case takes from a model of its maker holds the path to it alone.
      if (fs::exists(file) && !read_file(file.string()).starts_with('/'))
        fs::copy_file(file, directory + "/" + name, fs::copy_options::overwrite_existing);
    }
  }
};

TEST_P(SharedSecurity, EndsAtOnceWithOneError) {
  const SecurityCase& c = GetParam();
  const fs::path path = shared_cases() / "security" / c.name;
  if (!fs::exists(path)) GTEST_SKIP() << path << " is absent";
  const TemporaryDirectory directory;
  const std::string model = directory.at("model");
  if (fs::is_directory(path)) make_model(path, model);
  std::vector<std::string> words;
  for (std::string rest = c.command; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    const std::string word = rest.substr(0, space);
    words.push_back(word == "FILE"  ? path.string()
                    : word == "DIR" ? model
                    : word == "OUT" ? directory.at("out")
                                    : word);
    rest.erase(0, space + 1);
  }
  const Outcome outcome = within_limits([&] {
    return words[0] == "chat" ? run_ingot_with_input(words, "hi\n") : run_ingot(words, {"INGOT_FORCE_CPU=1"});
  });
  if (c.runs)
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  else
    expect_one_clear_error(outcome);
}

constexpr const char *kRun = "onnx run FILE -o OUT", *kInspect = "inspect FILE", *kChat = "chat DIR -n 2";
const std::vector<SecurityCase> kSecurity{{"alias.yaml", "train FILE"},
                                          {"cfg_deep", "inspect DIR"},
                                          {"cfg_layers", "inspect DIR"},
                                          {"tok_bsK.json", "tokenize FILE -t abcd"},
                                          {"tpl_chain", kChat},
                                          {"tpl_dag_text", kChat},
                                          {"tpl_find", kChat, true},
                                          {"tpl_sigfpe", kChat, true},
                                          {"keypath.pt", kInspect},
                                          {"memoize64M.pt", kInspect},
                                          {"reduce_copy.pt", kInspect},
                                          {"shape_bomb.pt", kInspect},
                                          {"conv_dilations_3.onnx", kRun},
                                          {"cos_4611686018427387904.onnx", kRun},
                                          {"d2s_2p32.onnx", kRun},
                                          {"expand_wrap.onnx", kRun},
                                          {"eye0.onnx", kRun},
                                          {"loop_inf.onnx", "onnx run FILE -o OUT --max-seconds 1"},
                                          {"out_coll.onnx", kRun, true},
                                          {"reshape_wrap3.onnx", kRun},
                                          {"trilu0.onnx", kRun}};

std::string word_of(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, SharedSecurity, ::testing::ValuesIn(kSecurity),
                         [](const auto& info) { return word_of(info.param.name); });

// What a study quotes is its own test: tune_test.cpp runs the choices of st.yaml.
TEST(SharedSecurityCases, AreAllNamedHere) {
  const fs::path folder = shared_cases() / "security";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "README.md" || name.starts_with("st.") || name.starts_with("st-")) continue;
    EXPECT_TRUE(std::ranges::any_of(kSecurity, [&](const SecurityCase& c) { return name == c.name; }))
        << name << " has no test";
  }
}

// The command of the study would make files named PWN2 if a choice reached the shell unquoted.
TEST(SharedSecurityCases, ChoicesOfAStudyAreWordsToItsCommand) {
  const fs::path path = shared_cases() / "security/st.yaml";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is absent";
  const TemporaryDirectory directory;
  fs::copy_file(path, directory.at("st.yaml"));
  const Outcome outcome = within_limits([&] { return run_ingot({"tune", directory.at("st.yaml")}); });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const auto& entry : fs::recursive_directory_iterator(directory.path()))
    EXPECT_EQ(entry.path().filename().string().find("PWN"), std::string::npos) << entry.path();
  EXPECT_FALSE(fs::exists("PWN2"));
}

/// What stands behind a .npy file's header.
std::string_view values_of(std::span<const std::byte> npy) {
  const std::string_view text(reinterpret_cast<const char*>(npy.data()), npy.size());
  const std::size_t length = static_cast<unsigned char>(text[8]) + 256U * static_cast<unsigned char>(text[9]);
  return text.substr(10 + length);
}

class SharedGraph : public ::testing::TestWithParam<std::string> {};

TEST_P(SharedGraph, GivesWhatOnnxRuntimeGives) {
  const fs::path folder = shared_cases() / "misc" / ("onnx-" + GetParam());
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const TemporaryDirectory directory;
  std::vector<std::string> words{"onnx", "run", folder / "model.onnx", "-o", directory.at("out"), "--json"};
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::smatch parts;
    const std::string name = entry.path().filename().string();
    if (!std::regex_match(name, parts, std::regex("in[0-9]+_(.*)[.]npy"))) continue;
    words.insert(words.end(), {"--input", parts[1].str() + "=" + entry.path().string()});
  }
  const Outcome outcome = within_limits([&] { return run_ingot(words); });
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  std::map<std::string, std::string> paths;
  for (const auto& row : parse_json<nlohmann::json>(outcome.output, "output"))
    EXPECT_TRUE(paths.emplace(row["name"].get<std::string>(), row["path"].get<std::string>()).second);
  const std::string expected = folder / "expected.npz", names = read_file(folder / "names.txt");
  const ZipArchive archive(map_blob(expected));
  const auto source = open_npz(map_blob(expected));
  const std::regex line("(out[0-9]+) = (\\S+)");
  std::size_t checked = 0;
  for (std::sregex_iterator it(names.begin(), names.end(), line), end; it != end; ++it, ++checked) {
    SCOPED_TRACE((*it)[2].str());
    const std::string &path = paths.at((*it)[2]), key = (*it)[1];
    const TensorInfo* info = source->find(key);
    const Blob want = archive.content(*archive.find(key + ".npy"));
    const MappedFile got(path);
    if (info != nullptr && info->dtype && is_floating_point(*info->dtype)) {
      const Tensor ours = read_npy(path), theirs = source->load_tensor(key);
      ASSERT_EQ(ours.shape(), theirs.shape());
      EXPECT_LE(testing::max_error(ours, theirs), 1e-3);
    } else {
      EXPECT_EQ(values_of(got.bytes()), values_of(want.bytes));
    }
  }
  EXPECT_EQ(checked, archive.entries().size());
}

INSTANTIATE_TEST_SUITE_P(Misc, SharedGraph,
                         ::testing::Values("attention23", "bitwise", "embeddingbag", "fp16-unsorted", "irfft",
                                           "output-name-collision", "qoperator", "resize-stretch",
                                           "string-labels"),
                         [](const auto& info) { return word_of(info.param); });

}  // namespace
}  // namespace ingot
