#include "wire/heartbeat_page.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/mount_point.hpp"
#include "wire/step_losses.hpp"

namespace stoker::wire {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'O', 'K', 'E', 'R', 'H', 'B'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kSequence = 12;
constexpr std::size_t kGroupNorms = 164;
constexpr std::size_t kWritten = kGroupNorms + 4 * kMostLayerGroups;  // end of the beat
constexpr std::size_t kSaveRequest = 2048;
static_assert(kWritten <= kSaveRequest);
constexpr std::size_t kLeave = 2056;
constexpr std::size_t kRing = 4096;
constexpr std::size_t kRingEntries = 64;
constexpr std::size_t kRingEntryBytes = 64;

template <class T>
void put(unsigned char* base, std::size_t offset, T value) {
  std::memcpy(base + offset, &value, sizeof value);
}
template <class T>
T get(const unsigned char* base, std::size_t offset) {
  T value;
  std::memcpy(&value, base + offset, sizeof value);
  return value;
}
template <class T>
std::atomic_ref<T> shared(unsigned char* base, std::size_t offset) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(base + offset));
}

std::int64_t ns(Instant t) {
  return t.time_since_epoch().count();
}
Instant at(std::int64_t value) {
  return Instant(Duration(value));
}

Result<unsigned char*> map_page(const os::Fd& fd, const std::string& path) {
  void* bytes = ::mmap(nullptr, kHeartbeatBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (bytes == MAP_FAILED) return fail(errno_error(errno, "cannot map the heartbeat page", path));
  return static_cast<unsigned char*>(bytes);
}

}  // namespace

HeartbeatPage::HeartbeatPage(HeartbeatPage&& other) noexcept
    : bytes_(std::exchange(other.bytes_, nullptr)), lock_(std::move(other.lock_)) {}
HeartbeatPage& HeartbeatPage::operator=(HeartbeatPage&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(lock_, other.lock_);
  return *this;
}
HeartbeatPage::~HeartbeatPage() {
  if (bytes_ != nullptr) ::munmap(bytes_, kHeartbeatBytes);
}

Result<HeartbeatPage> HeartbeatPage::create(const std::string& path) {
  ::unlink(path.c_str());
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return fail(errno_error(errno, "cannot create the heartbeat page", path));
  ::flock(fd.get(), LOCK_EX | LOCK_NB);  // a network file system may know no locks: it is not swept
  if (const int error = ::posix_fallocate(fd.get(), 0, kHeartbeatBytes); error != 0)
    return fail(errno_error(error, "cannot allocate the heartbeat page", path,
                            "free space in its file system"));
  STOKER_TRY(bytes, map_page(fd, path));
  put(bytes, 8, kVersion);
  std::memcpy(bytes, kMagic, sizeof kMagic);
  HeartbeatPage page(bytes);
  page.lock_ = std::move(fd);
  return page;
}

Result<HeartbeatPage> HeartbeatPage::open(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return fail(errno_error(errno, "cannot open the heartbeat page", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(kHeartbeatBytes))
    return fail("too small for a heartbeat page", path);
  STOKER_TRY(bytes, map_page(fd, path));
  HeartbeatPage page(bytes);
  if (std::memcmp(bytes, kMagic, sizeof kMagic) != 0) return fail("not a heartbeat page", path);
  if (get<std::uint32_t>(bytes, 8) != kVersion)
    return fail("heartbeat page of another version", path,
                "use one version of stoker on all nodes");
  return page;
}

std::size_t sweep_heartbeat_pages(const std::string& directory) {
  constexpr std::time_t kAbandonedS = 60;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(directory.c_str()), ::closedir);
  const std::time_t now = std::time(nullptr);
  std::size_t swept = 0;
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    if (!std::string_view(entry->d_name).starts_with("stoker.")) continue;
    const std::string path = directory + "/" + entry->d_name;
    if (os::mount_point_of(path) == path) continue;  // a stranger's FUSE file may never answer
    const os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (info.st_uid != ::geteuid() || info.st_mtime > now - kAbandonedS) continue;
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0) ++swept;
  }
  return swept;
}

void HeartbeatPage::write(const Heartbeat& beat) {
  auto sequence = shared<std::uint32_t>(bytes_, kSequence);
  const std::uint32_t even = sequence.load(std::memory_order_relaxed) & ~1u;
  sequence.store(even + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  put(bytes_, 16, beat.attempt.value);
  put(bytes_, 20, static_cast<std::uint32_t>(beat.phase));
  put(bytes_, 24, ns(beat.phase_since));
  put(bytes_, 32, ns(beat.progress_at));
  put(bytes_, 40, beat.iteration.value);
  put(bytes_, 48, beat.total);
  put(bytes_, 56, beat.consumed_samples);
  put(bytes_, 64, beat.loss.value_or(0));
  put(bytes_, 72, beat.learning_rate);
  put(bytes_, 80, beat.iteration_seconds);
  put(bytes_, 88, beat.tflops);
  put(bytes_, 96, beat.gradient_norm);
  put(bytes_, 104, static_cast<std::int64_t>(beat.compute.count()));
  put(bytes_, 112, beat.checkpoint.value);
  put(bytes_, 120, beat.phase_steps);
  put(bytes_, 128, beat.pid);
  put(bytes_, 132, static_cast<std::uint32_t>(beat.loss.has_value() ? 1 : 0));
  put(bytes_, 136, beat.consumed_tokens);
  put(bytes_, 144, beat.saves_answered);
  // Some of them would be worse than none: the last one is taken for the final norm.
  const std::size_t groups =
      beat.group_norms.size() > kMostLayerGroups ? 0 : beat.group_norms.size();
  put(bytes_, 152, beat.norms_at.value);
  put(bytes_, 160, static_cast<std::uint32_t>(groups));
  for (std::size_t i = 0; i < groups; ++i)
    put(bytes_, kGroupNorms + i * sizeof(float), beat.group_norms[i]);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  sequence.store(even + 2, std::memory_order_release);
}

std::optional<Heartbeat> HeartbeatPage::read() const {
  auto sequence = shared<std::uint32_t>(bytes_, kSequence);
  for (int tries = 0; tries < 1000; ++tries) {
    const std::uint32_t before = sequence.load(std::memory_order_acquire);
    if (before == 0) return std::nullopt;
    if ((before & 1u) != 0) continue;
    unsigned char copy[kWritten];
    std::memcpy(copy, bytes_, sizeof copy);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sequence.load(std::memory_order_relaxed) != before) continue;
    const auto phase = get<std::uint32_t>(copy, 20);
    if (phase > static_cast<std::uint32_t>(Phase::Shutdown)) return std::nullopt;
    Heartbeat beat;
    beat.attempt = Attempt(get<std::uint32_t>(copy, 16));
    beat.phase = static_cast<Phase>(phase);
    beat.phase_since = at(get<std::int64_t>(copy, 24));
    beat.progress_at = at(get<std::int64_t>(copy, 32));
    beat.iteration = Iteration(get<std::uint64_t>(copy, 40));
    beat.total = get<std::uint64_t>(copy, 48);
    beat.consumed_samples = get<std::uint64_t>(copy, 56);
    if ((get<std::uint32_t>(copy, 132) & 1u) != 0) beat.loss = get<double>(copy, 64);
    beat.learning_rate = get<double>(copy, 72);
    beat.iteration_seconds = get<double>(copy, 80);
    beat.tflops = get<double>(copy, 88);
    beat.gradient_norm = get<double>(copy, 96);
    beat.compute = Duration(get<std::int64_t>(copy, 104));
    beat.checkpoint = Iteration(get<std::uint64_t>(copy, 112));
    beat.phase_steps = get<std::uint64_t>(copy, 120);
    beat.pid = get<std::uint32_t>(copy, 128);
    beat.consumed_tokens = get<std::uint64_t>(copy, 136);
    beat.saves_answered = get<std::uint64_t>(copy, 144);
    beat.norms_at = Iteration(get<std::uint64_t>(copy, 152));
    beat.group_norms.resize(std::min<std::size_t>(get<std::uint32_t>(copy, 160), kMostLayerGroups));
    for (std::size_t i = 0; i < beat.group_norms.size(); ++i)
      beat.group_norms[i] = get<float>(copy, kGroupNorms + i * sizeof(float));
    return beat;
  }
  return std::nullopt;
}

std::uint64_t HeartbeatPage::save_request() const {
  return shared<std::uint64_t>(bytes_, kSaveRequest).load();
}
Leave HeartbeatPage::leave() const {
  const auto value = shared<std::uint32_t>(bytes_, kLeave).load();
  return value > 2 ? Leave::GoOn : static_cast<Leave>(value);
}
void HeartbeatPage::request_save() {
  shared<std::uint64_t>(bytes_, kSaveRequest).fetch_add(1);
}
void HeartbeatPage::request_leave(Leave how) {
  shared<std::uint32_t>(bytes_, kLeave).store(static_cast<std::uint32_t>(how));
}

std::uint64_t HeartbeatPage::enter_collective(const std::string& name, std::uint64_t bytes,
                                              Instant now) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < kRingEntries; ++i)
    last = std::max(last, get<std::uint64_t>(bytes_, kRing + i * kRingEntryBytes));
  const std::uint64_t number = last + 1;
  unsigned char* entry = bytes_ + kRing + (number % kRingEntries) * kRingEntryBytes;
  put(entry, 0, std::uint64_t{0});
  put(entry, 8, ns(now));
  put(entry, 16, std::int64_t{0});
  put(entry, 24, bytes);
  char text[32] = {};
  std::memcpy(text, name.data(), std::min<std::size_t>(name.size(), 31));
  std::memcpy(entry + 32, text, sizeof text);
  shared<std::uint64_t>(entry, 0).store(number, std::memory_order_release);
  return number;
}

void HeartbeatPage::leave_collective(std::uint64_t number, Instant now) {
  put(bytes_ + kRing + (number % kRingEntries) * kRingEntryBytes, 16, ns(now));
}

std::optional<bool> HeartbeatPage::in_collective() const {
  std::uint64_t last = 0;
  bool inside = false;
  for (std::size_t i = 0; i < kRingEntries; ++i) {
    unsigned char* entry = bytes_ + kRing + i * kRingEntryBytes;
    const auto number = shared<std::uint64_t>(entry, 0).load(std::memory_order_acquire);
    if (number <= last) continue;
    last = number;
    inside = get<std::int64_t>(entry, 16) == 0;
  }
  return last == 0 ? std::nullopt : std::optional(inside);
}

std::vector<CollectiveRecord> HeartbeatPage::collectives() const {
  std::vector<CollectiveRecord> records;
  for (std::size_t i = 0; i < kRingEntries; ++i) {
    unsigned char copy[kRingEntryBytes];
    std::memcpy(copy, bytes_ + kRing + i * kRingEntryBytes, sizeof copy);
    CollectiveRecord r;
    r.number = get<std::uint64_t>(copy, 0);
    if (r.number == 0) continue;
    r.entered_at = at(get<std::int64_t>(copy, 8));
    if (const auto left = get<std::int64_t>(copy, 16); left != 0) r.left_at = at(left);
    r.bytes = get<std::uint64_t>(copy, 24);
    const char* name = reinterpret_cast<const char*>(copy + 32);
    r.name.assign(name, ::strnlen(name, 31));
    records.push_back(std::move(r));
  }
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return records;
}

}  // namespace stoker::wire
