#include "ingot/base/secrets.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

using Words = std::vector<std::string>;

TEST(Secrets, AreHiddenInCommandLinesAndTheRestStays) {
  const Words command{"ingot", "pull", "--token", "abc", "--threads", "4", "HF_TOKEN=abc", "--set=api_key=x"};
  EXPECT_EQ(without_secrets(command), (Words{"ingot", "pull", "--token", "***", "--threads", "4",
                                             "HF_TOKEN=***", "--set=api_key=***"}));
  const Words plain{"ingot",       "train",  "run.yaml", "--set",         "max_tokens=5",
                    "--tokenizer", "t.json", "a:b@c",    "cls_token=true"};
  EXPECT_EQ(without_secrets(plain), plain);
}

TEST(Secrets, AreHiddenInUrlsAndWhereTheyLookLikeTokens) {
  EXPECT_EQ(without_secrets("postgresql://ann:pass@w:ord@db:5432/study"),
            "postgresql://ann:***@db:5432/study");
  EXPECT_EQ(without_secrets("https://h/f?X-Amz-Signature=ab12&v=3&token=q#top"),
            "https://h/f?X-Amz-Signature=***&v=3&token=***#top");
  EXPECT_EQ(without_secrets("use hf_abcdefghijklmnop now"), "use hf_*** now");
  EXPECT_EQ(without_secrets("https://host:8080/a?b=c"), "https://host:8080/a?b=c");
  EXPECT_EQ(without_secrets("task-sk-1"), "task-sk-1");
}

TEST(Secrets, OfLongTextsTakeNoTimeAndNoStack) {
  const std::string long_text(2'000'000, 'a');
  EXPECT_EQ(without_secrets(long_text), long_text);
}

}  // namespace
}  // namespace ingot
