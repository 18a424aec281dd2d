#include "ingot/serve/libssl.h"

#include <string>

#include <dlfcn.h>
#include <openssl/ssl.h>

#include "ingot/base/error.h"

namespace ingot::serve {

void* libssl() {
  static void* const library = [] {
    constexpr const char* kFile = "libssl.so.3";
    void* opened = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
    INGOT_CHECK(opened != nullptr, Error(std::string("TLS needs ") + kFile +
                                         " (Debian: libssl3), which cannot be opened: " + dlerror()));
    return opened;
  }();
  return library;
}

namespace {

template <class F>
F ssl_function(const char* name) {
  auto* const found = reinterpret_cast<F>(dlsym(libssl(), name));
  INGOT_CHECK(found != nullptr, Error(std::string("libssl.so.3 has no function ") + name));
  return found;
}

}  // namespace
}  // namespace ingot::serve

// Each function that Asio calls, as one that finds it in the library. Hidden: what the library and others
// that use it call stays theirs.
#define INGOT_FROM_LIBSSL(result, name, parameters, ...)                               \
  extern "C" __attribute__((visibility("hidden"))) result name parameters {            \
    static const auto function = ingot::serve::ssl_function<decltype(&::name)>(#name); \
    return function(__VA_ARGS__);                                                      \
  }
INGOT_FROM_LIBSSL(const SSL_METHOD*, TLS_method, ())
INGOT_FROM_LIBSSL(const SSL_METHOD*, TLS_client_method, ())
INGOT_FROM_LIBSSL(const SSL_METHOD*, TLS_server_method, ())
INGOT_FROM_LIBSSL(SSL_CTX*, SSL_CTX_new, (const SSL_METHOD* m), m)
INGOT_FROM_LIBSSL(void, SSL_CTX_free, (SSL_CTX * c), c)
INGOT_FROM_LIBSSL(long, SSL_CTX_ctrl, (SSL_CTX * c, int command, long n, void* p), c, command, n, p)
INGOT_FROM_LIBSSL(int, SSL_CTX_check_private_key, (const SSL_CTX* c), c)
INGOT_FROM_LIBSSL(void*, SSL_CTX_get_default_passwd_cb_userdata, (SSL_CTX * c), c)
INGOT_FROM_LIBSSL(void, SSL_CTX_set_default_passwd_cb_userdata, (SSL_CTX * c, void* data), c, data)
INGOT_FROM_LIBSSL(void, SSL_CTX_set_default_passwd_cb, (SSL_CTX * c, pem_password_cb* f), c, f)
INGOT_FROM_LIBSSL(void*, SSL_CTX_get_ex_data, (const SSL_CTX* c, int i), c, i)
INGOT_FROM_LIBSSL(int, SSL_CTX_set_ex_data, (SSL_CTX * c, int i, void* data), c, i, data)
INGOT_FROM_LIBSSL(uint64_t, SSL_CTX_set_options, (SSL_CTX * c, uint64_t options), c, options)
INGOT_FROM_LIBSSL(int, SSL_CTX_use_PrivateKey_file, (SSL_CTX * c, const char* f, int type), c, f, type)
INGOT_FROM_LIBSSL(int, SSL_CTX_use_certificate_chain_file, (SSL_CTX * c, const char* f), c, f)
INGOT_FROM_LIBSSL(SSL*, SSL_new, (SSL_CTX * c), c)
INGOT_FROM_LIBSSL(void, SSL_free, (SSL * s), s)
INGOT_FROM_LIBSSL(int, SSL_accept, (SSL * s), s)
INGOT_FROM_LIBSSL(int, SSL_connect, (SSL * s), s)
INGOT_FROM_LIBSSL(long, SSL_ctrl, (SSL * s, int command, long n, void* p), s, command, n, p)
INGOT_FROM_LIBSSL(int, SSL_get_error, (const SSL* s, int result), s, result)
INGOT_FROM_LIBSSL(void*, SSL_get_ex_data, (const SSL* s, int i), s, i)
INGOT_FROM_LIBSSL(int, SSL_set_ex_data, (SSL * s, int i, void* data), s, i, data)
INGOT_FROM_LIBSSL(int, SSL_get_shutdown, (const SSL* s), s)
INGOT_FROM_LIBSSL(int, SSL_shutdown, (SSL * s), s)
INGOT_FROM_LIBSSL(int, SSL_read, (SSL * s, void* to, int n), s, to, n)
INGOT_FROM_LIBSSL(int, SSL_write, (SSL * s, const void* from, int n), s, from, n)
INGOT_FROM_LIBSSL(void, SSL_set_bio, (SSL * s, BIO* in, BIO* out), s, in, out)
#undef INGOT_FROM_LIBSSL
