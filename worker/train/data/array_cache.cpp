// See the header. Nothing here is trusted: what is read must be a file of our own user, have the
// size that its hashes ask for, and match them.
#include "worker/train/data/array_cache.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/time.hpp"

namespace stoker::train {
namespace {

using Hashes = std::vector<std::uint64_t>;

std::string_view text_of(const Hashes& hashes) {
  return {reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof hashes[0]};
}

std::string stamp(const std::string& description, const Hashes& blocks) {
  return fmt::format("{}\nblocks {}\n", description, hex64(xxh3_64(text_of(blocks))));
}

std::string array_path(const std::string& stem, const ArrayKind& kind) {
  return fmt::format("{}-{}_index.npy", stem, kind.name);
}

// All of a file that only we can have written.
Result<std::string> read_whole(const std::string& path, std::uint64_t longest) {
  STOKER_TRY(file, ByteFile::open_own(path));
  if (file.size() > longest) return fail("longer than expected", path);
  std::string text(file.size(), '\0');
  STOKER_TRY_STATUS(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::vector<IndexArray>> read_arrays(const std::string& stem, const ArrayPlan& plan) {
  std::vector<ByteFile> files;
  std::uint64_t blocks = 0;
  STOKER_TRY(noted, read_whole(stem + "-description.txt", 1u << 20));
  for (const ArrayKind& kind : plan.arrays) {
    STOKER_TRY(file, ByteFile::open_own(array_path(stem, kind)));
    blocks += checked_blocks(file.size());
    files.push_back(std::move(file));
  }
  Hashes hashes(blocks);
  STOKER_TRY(text, read_whole(stem + "-blocks.bin", text_of(hashes).size()));
  if (text.size() != text_of(hashes).size()) return fail("not the size of its arrays", stem);
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(hashes.data()));
  if (noted != stamp(plan.description, hashes)) return fail("does not match its description", stem);
  std::vector<IndexArray> arrays;
  auto next = hashes.cbegin();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(checked_blocks(files[i].size()));
    STOKER_TRY(array,
               IndexArray::open(std::move(files[i]), Hashes(next, end), plan.arrays[i].columns));
    arrays.push_back(std::move(array));
    next = end;
  }
  if (plan.fits && !plan.fits(arrays)) return fail("does not fit its description", stem);
  return arrays;
}

Status write_arrays(const std::string& stem, const ArrayPlan& plan,
                    const std::vector<IntegerArray>& arrays) {
  Hashes blocks;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    STOKER_TRY(hashes,
               write_npy(array_path(stem, plan.arrays[i]), arrays[i], plan.arrays[i].columns));
    blocks.insert(blocks.end(), hashes.begin(), hashes.end());
  }
  STOKER_TRY_STATUS(
      os::replace_file(stem + "-blocks.bin", text_of(blocks), os::Durability::Synced));
  return os::replace_file(stem + "-description.txt", stamp(plan.description, blocks),
                          os::Durability::Synced);
}

// Holds the right to build; where there is no such lock (a file system without locks, a folder that
// cannot be written) everybody has it.
class BuildTurn {
 public:
  explicit BuildTurn(const std::string& stem) : path_(stem + ".lock") {}
  ~BuildTurn() {
    if (held_) ::unlink(path_.c_str());
  }
  BuildTurn(const BuildTurn&) = delete;
  BuildTurn& operator=(const BuildTurn&) = delete;

  // False: another process has it.
  bool take() {
    const os::Fd before = std::move(fd_);  // who had it may have removed the file that we have open
    fd_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!fd_ || !os::check_own(fd_.get(), path_)) return true;
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    struct stat open {
    }, named{};
    held_ = ::fstat(fd_.get(), &open) == 0 && ::stat(path_.c_str(), &named) == 0 &&
            open.st_ino == named.st_ino;
    return held_;
  }

 private:
  std::string path_;
  os::Fd fd_;
  bool held_ = false;
};

Result<CachedArrays> built_arrays(const ArrayPlan& plan, const BuildArrays& build,
                                  CachedArrays cached) {
  STOKER_TRY(built, build());
  STOKER_CHECK(built.size() == plan.arrays.size(), "an array is missing");
  const bool keep = !cached.stem.empty() && !cached.problem;
  if (keep) {
    if (const Status written = write_arrays(cached.stem, plan, built); !written) {
      cached.problem = written.error();
    } else if (auto kept = read_arrays(cached.stem, plan); kept) {
      cached.arrays = *std::move(kept);
      return cached;
    } else {
      cached.problem = kept.error();
    }
  }
  for (IntegerArray& array : built) cached.arrays.emplace_back(std::move(array));
  return cached;
}

}  // namespace

std::string md5_hex(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int done = EVP_Digest(text.data(), text.size(), digest, &size, EVP_md5(), nullptr);
  STOKER_CHECK(done == 1, "MD5 is not available");
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

Result<CachedArrays> load_or_build_arrays(const std::string& folder, const ArrayPlan& plan,
                                          const BuildArrays& build) {
  constexpr Duration kLongestWait = 10min, kFirstPause = 50ms, kLongestPause = 2s;
  CachedArrays cached;
  if (folder.empty()) return built_arrays(plan, build, std::move(cached));
  cached.stem = fmt::format("{}/{}-{}", folder, md5_hex(plan.description), plan.class_name);
  if (const Status made = os::make_directories(folder); !made) cached.problem = made.error();
  const auto found = [&] {  // or none can be: then there is a problem
    if (cached.problem) return true;
    auto arrays = read_arrays(cached.stem, plan);
    if (!arrays && os::is_refusal(arrays.error())) {
      cached.problem = arrays.error();
      cached.problem->hint = "the index is built in memory; name a data.cache that is yours alone";
    }
    cached.from_cache = arrays.has_value();
    if (arrays) cached.arrays = *std::move(arrays);
    return cached.from_cache || cached.problem;
  };
  bool done = found();
  if (!done) {
    BuildTurn turn(cached.stem);
    const Instant end = monotonic_now() + kLongestWait;
    for (Duration pause = kFirstPause; !done && !turn.take() && monotonic_now() < end;
         pause = std::min(2 * pause, kLongestPause)) {
      std::this_thread::sleep_for(pause);
      done = found();
    }
    done = done || found();  // built by the process that had the turn before
    if (!done) return built_arrays(plan, build, std::move(cached));
  }
  if (cached.from_cache) return cached;
  return built_arrays(plan, build, std::move(cached));
}

void forget(const CachedArrays& cached) {
  if (!cached.stem.empty() && !cached.problem) ::unlink((cached.stem + "-description.txt").c_str());
}

bool is_current(const CachedArrays& cached) {
  return cached.stem.empty() || cached.problem || os::exists(cached.stem + "-description.txt");
}

}  // namespace stoker::train
