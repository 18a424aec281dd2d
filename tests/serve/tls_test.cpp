#include "tests/serve/running_server.h"
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot::serve {
namespace {

using test::Json;
using test::RunningServer;

template <class F>
std::string pem(F write) {
  BIO* memory = BIO_new(BIO_s_mem());
  write(memory);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(memory);
  return text;
}

/// Writes a self-signed certificate for 127.0.0.1 and its key.
void write_certificate(const std::string& certificate_file, const std::string& key_file) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_version(certificate, X509_VERSION_3);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("ingot"), -1,
                             -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(certificate, key, EVP_sha256());
  write_file_atomically(certificate_file, pem([&](BIO* to) { PEM_write_bio_X509(to, certificate); }));
  write_file_atomically(key_file, pem([&](BIO* to) {
                          PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
                        }));
  X509_free(certificate);
  EVP_PKEY_free(key);
}

class Tls : public ::testing::Test {
 protected:
  Tls() { write_certificate(certificate_, key_); }
  ServerOptions options() const { return {.http = {.tls_cert = certificate_, .tls_key = key_}}; }

  /// What curl says that trusts `certificate`, and its exit code behind it.
  static std::string curl(const RunningServer& server, const std::string& certificate,
                          const std::string& arguments) {
    const std::string command =
        "curl -sS --max-time 20 --cacert " + certificate + " " + arguments + " 2>&1; echo $?";
    const std::string address = "https://127.0.0.1:" + std::to_string(server.server().port());
    std::string text = command;
    for (std::size_t at = 0; (at = text.find("URL", at)) != std::string::npos;) text.replace(at, 3, address);
    FILE* pipe = popen(text.c_str(), "r");
    std::string output;
    for (int c = 0; (c = fgetc(pipe)) != EOF;) output += static_cast<char>(c);
    pclose(pipe);
    return output;
  }

  const ingot::test::TemporaryDirectory folder_;
  const std::string certificate_ = folder_.at("cert.pem"), key_ = folder_.at("key.pem");
};

TEST_F(Tls, CurlGetsAnswersStreamsAndSeveralOnOneConnection) {
  const RunningServer server(options());
  const std::string two = curl(server, certificate_, "URL/live URL/ready");
  EXPECT_EQ(two, R"({"status":"ok"}{"status":"ok"})"
                 "0\n");
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"temperature":0,"stream":true})";
  const std::string stream = curl(server, certificate_, "URL/v1/chat/completions -d '" + body + "'");
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n0\n")) << stream;
  // A body of several records, and a connection that the server ends.
  const std::string large = folder_.at("large.json");
  write_file_atomically(large, Json{{"content", std::string(100'000, 'a')}}.dump());
  const std::string tokens =
      curl(server, certificate_, "-H 'Connection: close' URL/tokenize -d @" + large + " | tail -c 300");
  EXPECT_TRUE(tokens.ends_with("]}0\n")) << tokens;
}

TEST_F(Tls, WhoDoesNotEncryptOrDoesNotTrustTheCertificateGetsNothing) {
  const RunningServer server(options());
  EXPECT_THROW(server.client().get("/live"), IoError);
  write_certificate(folder_.at("other.pem"), folder_.at("other-key.pem"));
  const std::string refused = curl(server, folder_.at("other.pem"), "URL/live");
  EXPECT_TRUE(refused.ends_with("60\n")) << refused;  // curl: the certificate is not trusted
  EXPECT_TRUE(curl(server, certificate_, "URL/live").ends_with("0\n"));
}

TEST_F(Tls, AReloadTakesTheNewCertificateAndKeepsTheOldOneWhereThatIsWrong) {
  RunningServer server(options());
  write_certificate(certificate_, key_);
  const std::string renewed = folder_.at("renewed.pem");
  write_file_atomically(renewed, read_file(certificate_));
  EXPECT_TRUE(curl(server, renewed, "URL/live").ends_with("60\n"));
  server.server().reload_certificate();
  EXPECT_TRUE(curl(server, renewed, "URL/live").ends_with("}0\n"));
  write_file_atomically(certificate_, "no certificate\n");
  EXPECT_THROW(server.server().reload_certificate(), InvalidConfig);
  EXPECT_TRUE(curl(server, renewed, "URL/live").ends_with("}0\n"));
}

TEST_F(Tls, FilesThatCannotBeUsedAreRefusedByName) {
  const auto problem = [](const ServerOptions& options) {
    try {
      const RunningServer server(options);
    } catch (const InvalidConfig& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  ServerOptions missing = options(), half = options(), mixed = options();
  missing.http.tls_cert = folder_.at("none.pem");
  EXPECT_NE(problem(missing).find("none.pem"), std::string::npos);
  half.http.tls_key.clear();
  EXPECT_NE(problem(half).find("tls_key"), std::string::npos);
  write_certificate(folder_.at("other.pem"), folder_.at("other-key.pem"));
  mixed.http.tls_key = folder_.at("other-key.pem");
  EXPECT_NE(problem(mixed).find("other-key.pem"), std::string::npos);
}

}  // namespace
}  // namespace ingot::serve
