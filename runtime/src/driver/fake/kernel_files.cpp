// Files and directories in memory.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "objects.hpp"

namespace ringloop::testing {
namespace {

constexpr std::uint32_t block_size = 4096;

}  // namespace

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

void simulated_kernel::add_directory(const std::string& path) {
    const auto directory = std::make_shared<simulated_file>();
    directory->directory = true;
    directory->mode = S_IFDIR | 0755;
    directory->inode = next_inode_++;
    files_[path] = directory;
}

void simulated_kernel::add_file(const std::string& path, std::string_view content) {
    const auto file = std::make_shared<simulated_file>();
    const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
    file->bytes.assign(bytes, bytes + content.size());
    file->mode = S_IFREG | 0644;
    file->inode = next_inode_++;
    files_[path] = file;
}

bool simulated_kernel::has_file(const std::string& path) const {
    return files_.contains(path);
}

std::string simulated_kernel::file_content(const std::string& path) const {
    const auto found = files_.find(path);
    if (found == files_.end()) return {};
    return {reinterpret_cast<const char*>(found->second->bytes.data()),
            found->second->bytes.size()};
}

// The absolute path, without "." and doubled slashes; empty if the directory is none.
std::string simulated_kernel::resolve(int directory, const char* path) const {
    std::string from = "/";
    if (path[0] != '/' && directory != AT_FDCWD) {
        const object_ref base = find(directory);
        if (base == nullptr || !is_file(*base) || !base->file->directory) return {};
        from = base->path;
    }
    std::string whole = path[0] == '/' ? path : from + "/" + path;
    std::string clean;
    std::size_t at = 0;
    while (at < whole.size()) {
        const std::size_t end = std::min(whole.find('/', at), whole.size());
        const std::string part = whole.substr(at, end - at);
        if (part == "..")
            clean.erase(std::min(clean.rfind('/'), clean.size()));
        else if (!part.empty() && part != ".")
            clean += "/" + part;
        at = end + 1;
    }
    return clean.empty() ? "/" : clean;
}

int simulated_kernel::open(int directory, const char* path, int flags, mode_t mode) {
    std::string whole = resolve(directory, path);
    if (whole.empty()) return -EBADF;
    whole = follow(whole);
    if (whole.empty()) return -ELOOP;
    object_ref opened;
    const int result = open_at(whole, flags, mode, opened);
    return result < 0 ? result : install(opened);
}

int simulated_kernel::open_at(const std::string& path, int flags, mode_t mode, object_ref& opened) {
    const auto parent = files_.find(parent_of(path));
    if (parent == files_.end()) return -ENOENT;
    if (!parent->second->directory) return -ENOTDIR;
    auto found = files_.find(path);
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (found == files_.end()) {
        if ((flags & O_CREAT) == 0) return -ENOENT;
        if (open_ >= limits_.descriptors_max) return -EMFILE;
        add_file(path, "");
        found = files_.find(path);
        found->second->mode = S_IFREG | (mode & 07777);
    } else {
        if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
        if (found->second->directory && writes) return -EISDIR;
        if (!found->second->directory && (flags & O_DIRECTORY) != 0) return -ENOTDIR;
        if ((flags & O_TRUNC) != 0 && writes) found->second->bytes.clear();
    }
    opened = std::make_shared<simulated_object>(object_kind::file);
    opened->file = found->second;
    opened->path = path;
    opened->flags = flags;
    return 0;
}

ssize_t simulated_kernel::read_file(simulated_object& object, void* data, std::size_t size,
                                    std::int64_t offset) {
    if ((object.flags & O_ACCMODE) == O_WRONLY) return -EBADF;
    if (object.file->directory) return -EISDIR;
    const auto& bytes = object.file->bytes;
    const std::int64_t from = offset < 0 ? object.position : offset;
    const std::size_t start = std::min(static_cast<std::size_t>(from), bytes.size());
    const std::size_t count = std::min(size, bytes.size() - start);
    if (count > 0) std::memcpy(data, bytes.data() + start, count);
    if (offset < 0) object.position = from + static_cast<std::int64_t>(count);
    return static_cast<ssize_t>(count);
}

ssize_t simulated_kernel::write_file(simulated_object& object, const void* data, std::size_t size,
                                     std::int64_t offset) {
    if ((object.flags & O_ACCMODE) == O_RDONLY) return -EBADF;
    auto& bytes = object.file->bytes;
    std::int64_t from = offset < 0 ? object.position : offset;
    if ((object.flags & O_APPEND) != 0) from = static_cast<std::int64_t>(bytes.size());
    const std::size_t start = static_cast<std::size_t>(from);
    if (bytes.size() < start + size) bytes.resize(start + size);
    if (size > 0) std::memcpy(bytes.data() + start, data, size);
    if (offset < 0) object.position = from + static_cast<std::int64_t>(size);
    return static_cast<ssize_t>(size);
}

int simulated_kernel::describe(int directory, const char* path, int flags, struct statx* result) {
    std::shared_ptr<simulated_file> file;
    if (path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0) {
        const object_ref object = find(directory);
        if (object == nullptr) return -EBADF;
        file = object->file;
    } else {
        std::string whole = resolve(directory, path);
        if (whole.empty()) return -EBADF;
        if ((flags & AT_SYMLINK_NOFOLLOW) == 0) whole = follow(whole);
        if (whole.empty()) return -ELOOP;
        const auto found = files_.find(whole);
        if (found == files_.end()) return -ENOENT;
        file = found->second;
    }
    *result = {};
    result->stx_mask = STATX_BASIC_STATS;
    result->stx_blksize = block_size;
    result->stx_nlink = 1;
    result->stx_mode = S_IFSOCK | 0777;
    if (file == nullptr) return 0;  // a socket or pipe
    result->stx_mode = static_cast<std::uint16_t>(file->mode);
    result->stx_nlink = file->names;
    result->stx_ino = file->inode;
    result->stx_size = file->bytes.size();
    result->stx_blocks = (file->bytes.size() + 511) / 512;
    return 0;
}

}  // namespace ringloop::testing
