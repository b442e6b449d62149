// HMAC-SHA256 by OpenSSL's libcrypto.
#include "worker/agent/link/seal.hpp"

#include <cerrno>
#include <memory>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

namespace stoker::agent {
namespace {

// Fetched once. The configuration file of the host's OpenSSL, which the environment can name, is
// not read.
EVP_MAC* hmac() {
  static EVP_MAC* const mac = [] {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
    return EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  }();
  STOKER_CHECK(mac != nullptr, "OpenSSL has no HMAC");
  return mac;
}

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(value >> shift)));
  return bytes;
}

const unsigned char* raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::string mac_of(std::string_view key, std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(EVP_MAC_CTX_new(hmac()),
                                                                          &EVP_MAC_CTX_free);
  char digest[] = "SHA256";
  const OSSL_PARAM options[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                OSSL_PARAM_construct_end()};
  bool good = context && EVP_MAC_init(context.get(), raw(key), key.size(), options) == 1;
  for (const std::string_view part : parts) {
    const std::string length = little_endian(part.size());
    good = good && EVP_MAC_update(context.get(), raw(length), length.size()) == 1 &&
           EVP_MAC_update(context.get(), raw(part), part.size()) == 1;
  }
  std::string mac(kMacBytes, '\0');
  std::size_t size = 0;
  good = good && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(mac.data()), &size,
                               mac.size()) == 1;
  STOKER_CHECK(good && size == kMacBytes, "OpenSSL cannot compute an HMAC");
  return mac;
}

bool same_mac(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string Seal::next(char kind, std::string_view content) {
  return mac_of(key_, {little_endian(count_++), {&kind, 1}, content});
}

std::string Seal::close(char kind, std::string_view content) {
  return next(kind, content);
}

bool Seal::open(Frame& frame) {
  if (frame.content.size() < kMacBytes) return false;
  const std::size_t size = frame.content.size() - kMacBytes;
  const std::string_view whole = frame.content;
  if (!same_mac(next(frame.kind, whole.substr(0, size)), whole.substr(size))) return false;
  frame.content.resize(size);
  return true;
}

}  // namespace stoker::agent
