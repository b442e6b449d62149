// PatternCache: compiled pattern databases in a folder, so that a start need not compile them. A
// file is named by all that it depends on (expressions, Vectorscan's version, the CPU's features)
// and holds its own checksum; one that is damaged, somebody else's or writable by others is not
// used. Writing may fail: then the next start compiles again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::diagnose {

class PatternCache {
 public:
  explicit PatternCache(std::string folder) : folder_(std::move(folder)) {}

  // "": nothing is kept. $XDG_CACHE_HOME/stoker or $HOME/.cache/stoker of this environment.
  static std::string usual_folder(const char* cache_home, const char* home);

  [[nodiscard]] std::optional<std::string> load(const std::string& key) const;
  void store(const std::string& key, std::string_view bytes) const;

 private:
  [[nodiscard]] std::string path_of(const std::string& key) const;
  std::string folder_;
};

// 16 hexadecimal digits of the expressions, Vectorscan and this CPU.
std::string pattern_key(const std::vector<std::string>& expressions);

}  // namespace stoker::diagnose
