#include "worker/agent/storage/archive_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/permissions.hpp"
#include "common/os/random.hpp"
#include "common/os/there.hpp"
#include "common/os/way.hpp"
#include "kernels/state_digest.hpp"
#include "watch/checkpoint_removal.hpp"
#include "watch/checkpoint_scan.hpp"

namespace stoker::agent {
namespace {

constexpr const char* kAside = "archiving.";
constexpr std::size_t kPiece = 4u << 20;

struct CopiedFile {
  wire::ManifestFile file;          // as it is in the copy
  std::uint64_t low = 0, high = 0;  // of the digest: its parameters
  STOKER_FIELDS(CopiedFile, file, low, high)
};
struct CopyRecord {
  bool without_optimizer = false;
  std::vector<CopiedFile> files;
  STOKER_FIELDS(CopyRecord, without_optimizer, files)
};

std::string aside_prefix(const std::string& run) {
  return kAside + run + ".";
}

// The checkpoint that a name of the archive is an unfinished copy of.
std::optional<wire::CheckpointId> unfinished(const std::string& name, const std::string& run) {
  const std::string prefix = aside_prefix(run);
  if (!name.starts_with(prefix)) return {};
  const std::string_view rest = std::string_view(name).substr(prefix.size());
  const auto end = rest.find('.', rest.find('.') + 1);
  return wire::parse_checkpoint_name(rest.substr(0, end));
}

// In an archive that is sticky others may have put folders and links beside ours.
bool is_our_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && os::check_owner(path);
}

// A piece of the source: a range of a tensor, or what lies between (header).
struct Segment {
  std::uint64_t begin = 0, size = 0;
  const wire::ManifestRange* range = nullptr;
  bool kept = true;
};

class Copier {
 public:
  Copier(std::string from, const ArchiveRule& rule, Generation by, CopyPulse& pulse,
         ArchiveCopy& copy)
      : from_(std::move(from)), rule_(rule), by_(by), pulse_(pulse), copy_(copy) {}

  Status run() {
    STOKER_TRY_STATUS(os::check_way(rule_.to));
    STOKER_TRY_STATUS(os::check_keeps_ours(rule_.to));
    STOKER_TRY(manifest, watch::read_manifest(from_));
    manifest_ = std::move(manifest);
    name_ = wire::checkpoint_name(manifest_.iteration, manifest_.generation);
    copy_.path = rule_.to + "/" + name_;
    if (os::is_taken(copy_.path)) return judge_present();
    STOKER_TRY_STATUS(take_over());
    if (!os::exists(aside_ + "/" + wire::kManifestName)) {
      for (const wire::ManifestFile& file : manifest_.files)
        if (!is_done(file.name)) STOKER_TRY_STATUS(copy_file(file));
      STOKER_TRY_STATUS(write_manifest());
    }
    return read_back_and_publish();
  }

 private:
  [[nodiscard]] bool is_done(const std::string& name) const {
    return std::any_of(record_.files.begin(), record_.files.end(),
                       [&](const CopiedFile& c) { return c.file.name == name; });
  }

  // What has the name already, ours or another run's, is never replaced.
  Status judge_present() {
    copy_.name_taken = !is_our_folder(copy_.path);
    STOKER_TRY_STATUS(os::check_own(copy_.path));
    const auto there = watch::check_checkpoint(copy_.path, watch::Depth::Content);
    if (!there) return fail(there.error());
    if (there->run != manifest_.run)
      return fail("is a checkpoint of run " + there->run, copy_.path,
                  "give each run an archive of its own");
    if (there->without_optimizer && !rule_.without_optimizer)
      return fail("is a copy without the optimizer's state", copy_.path, "move it away");
    for (const auto& file : there->files) copy_.bytes += file.size;
    return ok();
  }

  // A folder of ours. Where another user has its name, it gets one that cannot be foreseen.
  Status find_aside() {
    const std::string stem = aside_prefix(manifest_.run) + name_ + ".";
    const std::string own = fmt::format("{}g{:06}", stem, by_.value);
    std::vector<std::string> older;
    STOKER_TRY(names, os::list_directory(rule_.to));
    for (const std::string& name : names) {
      if (!name.starts_with(stem) || !is_our_folder(rule_.to + "/" + name)) continue;
      if (name == own || name.starts_with(own + "."))
        aside_ = rule_.to + "/" + name;
      else if (name > own)
        return fail("a younger generation copies it", rule_.to + "/" + name);
      else
        older.push_back(name);
    }
    const bool found = !aside_.empty();
    if (!found) aside_ = rule_.to + "/" + own;
    if (!found && os::is_taken(aside_)) aside_ += "." + os::random_hex(4);
    for (const std::string& name : older)
      if (os::is_taken(aside_) || ::rename((rule_.to + "/" + name).c_str(), aside_.c_str()) != 0)
        (void)watch::remove_checkpoint_files(rule_.to, name);
    if (!os::is_taken(aside_) && ::mkdir(aside_.c_str(), 0755) != 0)
      return fail(errno_error(errno, "cannot make the directory", aside_));
    return ok();
  }

  // The directory aside, with what an earlier try of ours or of an older generation has done.
  Status take_over() {
    STOKER_TRY_STATUS(find_aside());
    STOKER_TRY_STATUS(os::set_mode(aside_, 0755, "cannot close it to others"));
    if (os::exists(aside_ + "/" + wire::kManifestName)) return ok();
    const std::string path = aside_ + "/" + watch::kCopyRecord;
    if (const auto text = os::read_file(path))
      if (auto record = from_json_text<CopyRecord>(*text, path);
          record && record->without_optimizer == rule_.without_optimizer)
        record_ = std::move(*record);
    record_.without_optimizer = rule_.without_optimizer;
    std::erase_if(record_.files, [&](const CopiedFile& c) {
      std::error_code missing;
      return std::filesystem::file_size(aside_ + "/" + c.file.name, missing) != c.file.size;
    });
    STOKER_TRY(inside, os::list_directory(aside_));
    for (const std::string& name : inside)
      if (name != watch::kCopyRecord && !is_done(name)) ::unlink((aside_ + "/" + name).c_str());
    return ok();
  }

  // How the source's bytes fall into ranges; without the optimizer only parameters are kept.
  [[nodiscard]] std::vector<Segment> segments_of(const wire::ManifestFile& file) const {
    if (!rule_.without_optimizer) return {{0, file.size, nullptr, true}};
    std::vector<const wire::ManifestRange*> ranges;
    for (const auto& range : manifest_.ranges)
      if (range.file == file.name) ranges.push_back(&range);
    std::sort(ranges.begin(), ranges.end(),
              [](const auto* a, const auto* b) { return a->file_offset < b->file_offset; });
    std::vector<Segment> segments;
    std::uint64_t at = 0;
    for (const auto* range : ranges) {
      if (range->file_offset > at) segments.push_back({at, range->file_offset - at});
      const std::uint64_t size = range->count * (range->dtype == "f64" ? 8 : 4);
      segments.push_back({range->file_offset, size, range, range->part == "parameter"});
      at = range->file_offset + size;
    }
    if (at < file.size) segments.push_back({at, file.size - at});
    return segments;
  }

  Status copy_file(const wire::ManifestFile& file) {
    const std::string source = from_ + "/" + file.name, path = aside_ + "/" + file.name;
    const os::Fd in(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!in) return fail(errno_error(errno, "cannot open", source));
    const std::string aside = path + ".tmp";
    const os::Fd out(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!out) return fail(errno_error(errno, "cannot make", aside));
    CopiedFile copied{{file.name, 0, ""}};
    Xxh3Stream whole, kept;
    kernels::StateDigest digest;
    for (const Segment& segment : segments_of(file)) {
      STOKER_TRY_STATUS(copy_segment(in.get(), out.get(), segment, whole, kept, digest));
      if (segment.kept) copied.file.size += segment.size;
    }
    if (hex64(whole.digest()) != file.xxh3) {
      copy_.source_damaged = true;
      return fail("its content is not what the manifest says: it is not copied", source);
    }
    if (::fsync(out.get()) != 0) return fail(errno_error(errno, "cannot sync", aside));
    ::posix_fadvise(out.get(), 0, 0,
                    POSIX_FADV_DONTNEED);  // read back from the disk, not from here
    ::posix_fadvise(in.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (::rename(aside.c_str(), path.c_str()) != 0)
      return fail(errno_error(errno, "cannot rename into place", path));
    copied.file.xxh3 = hex64(kept.digest());
    copied.low = digest.low;
    copied.high = digest.high;
    record_.files.push_back(std::move(copied));
    return os::replace_file(aside_ + "/" + watch::kCopyRecord, to_json_text(record_),
                            os::Durability::Synced);
  }

  Status copy_segment(int in, int out, const Segment& segment, Xxh3Stream& whole, Xxh3Stream& kept,
                      kernels::StateDigest& digest) {
    std::uint64_t element = segment.range != nullptr ? segment.range->begin : 0;
    for (std::uint64_t left = segment.size; left > 0;) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, kPiece));
      STOKER_TRY_STATUS(read_exactly(in, segment.begin + segment.size - left, size));
      whole.update(buffer_.data(), size);
      left -= size;
      if (!segment.kept) continue;
      STOKER_TRY_STATUS(write_exactly(out, size));
      kept.update(buffer_.data(), size);
      if (segment.range != nullptr) element += add(digest, *segment.range, element, size);
    }
    return ok();
  }

  // Elements are counted in the range's box; the digest counts them in the tensor.
  std::uint64_t add(kernels::StateDigest& digest, const wire::ManifestRange& range,
                    std::uint64_t element, std::size_t size) const {
    const std::string key = range.tensor + "/" + range.part;
    const bool wide = range.dtype == "f64";
    const std::size_t count = size / (wide ? 8 : 4);
    const auto put = [&](const wire::Run& run) {
      if (wide)
        digest.add(key, run.in_tensor, buffer_.data() + run.in_b, run.count);
      else
        digest.add(key, run.in_tensor, reinterpret_cast<const float*>(buffer_.data()) + run.in_b,
                   run.count);
    };
    const wire::Shape* shape = shape_of(range);
    if (shape != nullptr)
      wire::for_each_run(*shape, *range.box, element, count, put);
    else
      put({element, element, 0, count});
    return count;
  }

  // Of the tensor when the range is of a box of it. A box that does not fit is no box: the copy
  // then has a digest that no load finds again, as the original has.
  [[nodiscard]] const wire::Shape* shape_of(const wire::ManifestRange& range) const {
    if (!range.box) return nullptr;
    for (const wire::ManifestTensor& tensor : manifest_.tensors)
      if (tensor.name == range.tensor && wire::fits(*range.box, tensor.shape)) return &tensor.shape;
    return nullptr;
  }

  Status read_exactly(int fd, std::uint64_t at, std::size_t size) {
    auto* data = reinterpret_cast<char*>(buffer_.data());
    for (std::size_t got = 0; got < size;) {
      if (pulse_.stop) return fail("stopped", from_);
      const ssize_t n = ::pread(fd, data + got, size - got, static_cast<off_t>(at + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(errno_error(errno, "cannot read", from_));
      if (n == 0) {
        copy_.source_damaged = true;
        return fail("a file ends too early: it is not copied", from_);
      }
      got += static_cast<std::size_t>(n);
      ++pulse_.pieces;
    }
    return ok();
  }

  Status write_exactly(int fd, std::size_t size) {
    const auto* data = reinterpret_cast<const char*>(buffer_.data());
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = ::write(fd, data + done, size - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(errno_error(errno, "cannot write", aside_));
      done += static_cast<std::size_t>(n);
      ++pulse_.pieces;
    }
    return ok();
  }

  Status write_manifest() {
    wire::Manifest m = manifest_;
    m.files.clear();
    kernels::StateDigest digest;
    for (const wire::ManifestFile& file : manifest_.files)
      for (const CopiedFile& c : record_.files) {
        if (c.file.name != file.name) continue;
        m.files.push_back(c.file);
        digest.merge({c.low, c.high});
      }
    if (rule_.without_optimizer) {
      m.without_optimizer = true;
      m.digest = digest.hex();
      m.ranges = kept_ranges();
    }
    STOKER_TRY_STATUS(os::sync_directory(aside_));
    STOKER_TRY_STATUS(os::replace_file(aside_ + "/" + wire::kManifestName, to_json_text(m),
                                       os::Durability::Synced));
    if (::unlink((aside_ + "/" + watch::kCopyRecord).c_str()) != 0 && errno != ENOENT)
      return fail(errno_error(errno, "cannot remove", aside_ + "/" + watch::kCopyRecord));
    return os::sync_directory(aside_);
  }

  [[nodiscard]] std::vector<wire::ManifestRange> kept_ranges() const {
    std::vector<wire::ManifestRange> kept;
    for (const wire::ManifestFile& file : manifest_.files) {
      std::uint64_t at = 0;
      for (const Segment& segment : segments_of(file)) {
        if (segment.kept && segment.range != nullptr) {
          kept.push_back(*segment.range);
          kept.back().file_offset = at;
        }
        if (segment.kept) at += segment.size;
      }
    }
    return kept;
  }

  Status read_back_and_publish() {
    ++pulse_.pieces;
    ::unlink((aside_ + "/" + watch::kCopyRecord).c_str());  // of a copy that was killed just before
    const auto good = watch::check_checkpoint(aside_, watch::Depth::Content);
    const bool asked = good && good->without_optimizer == rule_.without_optimizer;
    if (!asked) {
      (void)watch::remove_checkpoint_files(rule_.to, aside_.substr(rule_.to.size() + 1));
      return good ? fail("was begun under another setting; it starts over", copy_.path)
                  : fail("the copy does not read back: " + good.error().message(), copy_.path);
    }
    for (const auto& file : good->files) copy_.bytes += file.size;
    if (::rename(aside_.c_str(), copy_.path.c_str()) != 0)
      return fail(errno_error(errno, "cannot give the copy its name", copy_.path));
    return os::sync_directory(rule_.to);
  }

  std::string from_, name_, aside_;
  const ArchiveRule& rule_;
  Generation by_;
  CopyPulse& pulse_;
  ArchiveCopy& copy_;
  wire::Manifest manifest_;
  CopyRecord record_;
  std::vector<double> buffer_ = std::vector<double>(kPiece / sizeof(double));
};

}  // namespace

std::vector<wire::CheckpointId> choose_archivable(
    const std::vector<wire::SurveyedCheckpoint>& complete, const ArchiveRule& rule,
    const std::set<wire::CheckpointId>& copied) {
  std::vector<wire::CheckpointId> chosen;
  for (const wire::SurveyedCheckpoint& c : complete)
    if (c.good && rule.wants(c.id) && !copied.contains(c.id)) chosen.push_back(c.id);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Result<std::set<wire::CheckpointId>> archived_checkpoints(const ArchiveRule& rule,
                                                          const std::string& run) {
  STOKER_TRY_STATUS(os::check_way(rule.to));
  STOKER_TRY_STATUS(os::check_keeps_ours(rule.to));
  STOKER_TRY(names, os::list_directory(rule.to));
  std::set<wire::CheckpointId> copied;
  for (const std::string& name : names) {
    const auto id = wire::parse_checkpoint_name(name);
    if (!id || !rule.wants(*id)) continue;
    if (!os::check_own(rule.to + "/" + name)) continue;  // another user's word, or a link's
    const auto there = watch::check_checkpoint(rule.to + "/" + name, watch::Depth::Sizes);
    if (there && there->run == run && (rule.without_optimizer || !there->without_optimizer))
      copied.insert(*id);
  }
  return copied;
}

Status copy_checkpoint(const std::string& checkpoint, const ArchiveRule& rule, Generation by,
                       CopyPulse& pulse, ArchiveCopy& copy) {
  return Copier(checkpoint, rule, by, pulse, copy).run();
}

void remove_archive_leftovers(const ArchiveRule& rule, const std::string& run,
                              const std::set<wire::CheckpointId>& wanted) {
  const auto names = os::list_directory(rule.to);
  if (!names) return;
  for (const std::string& name : *names)
    if (const auto id = unfinished(name, run); id && !wanted.contains(*id))
      (void)watch::remove_checkpoint_files(rule.to, name);
}

}  // namespace stoker::agent
