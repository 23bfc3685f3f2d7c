// Names in the simulated file system: renaming, removing, directories, hard and symbolic links.
// Symbolic links are followed in the last part of a path only.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "objects.hpp"

namespace ringloop::testing {
namespace {

constexpr int links_max = 40;

bool is_below(const std::string& path, const std::string& directory) {
    return path.size() > directory.size() && path.starts_with(directory) &&
           path[directory.size()] == '/';
}

}  // namespace

std::string simulated_kernel::follow(std::string path) const {
    for (int count = 0; count < links_max; ++count) {
        const auto found = files_.find(path);
        if (found == files_.end() || !S_ISLNK(found->second->mode)) return path;
        const auto& bytes = found->second->bytes;
        const std::string target(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        const bool absolute = target.starts_with('/');
        path = resolve(AT_FDCWD, (absolute ? target : parent_of(path) + "/" + target).c_str());
    }
    return {};
}

int simulated_kernel::may_name(const std::string& path) const {
    if (path.empty()) return -EBADF;
    const auto parent = files_.find(parent_of(path));
    if (parent == files_.end()) return -ENOENT;
    if (!parent->second->directory) return -ENOTDIR;
    return files_.contains(path) ? -EEXIST : 0;
}

bool simulated_kernel::has_entries(const std::string& directory) const {
    const auto next = files_.lower_bound(directory + "/");
    return next != files_.end() && is_below(next->first, directory);
}

int simulated_kernel::make_directory(int directory, const char* path, mode_t mode) {
    const std::string whole = resolve(directory, path);
    if (const int refused = may_name(whole); refused < 0) return refused;
    add_directory(whole);
    files_[whole]->mode = S_IFDIR | (mode & 07777);
    return 0;
}

int simulated_kernel::make_symlink(const char* target, int directory, const char* path) {
    const std::string whole = resolve(directory, path);
    if (const int refused = may_name(whole); refused < 0) return refused;
    add_file(whole, target);
    files_[whole]->mode = S_IFLNK | 0777;
    return 0;
}

int simulated_kernel::link(int directory, const char* path, int new_directory,
                           const char* new_path) {
    const auto from = files_.find(resolve(directory, path));
    if (from == files_.end()) return -ENOENT;
    const std::string to = resolve(new_directory, new_path);
    if (const int refused = may_name(to); refused < 0) return refused;
    if (from->second->directory) return -EPERM;
    ++from->second->names;
    files_[to] = from->second;
    return 0;
}

int simulated_kernel::unlink(int directory, const char* path, int flags) {
    const auto found = files_.find(resolve(directory, path));
    if (found == files_.end()) return -ENOENT;
    const bool wants_directory = (flags & AT_REMOVEDIR) != 0;
    if (found->second->directory && !wants_directory) return -EISDIR;
    if (!found->second->directory && wants_directory) return -ENOTDIR;
    if (found->second->directory && has_entries(found->first)) return -ENOTEMPTY;
    --found->second->names;
    files_.erase(found);
    return 0;
}

int simulated_kernel::rename(int directory, const char* path, int new_directory,
                             const char* new_path, int flags) {
    const std::string from = resolve(directory, path);
    const std::string to = resolve(new_directory, new_path);
    const auto moved = files_.find(from);
    if (moved == files_.end()) return -ENOENT;
    const int refused = may_name(to);
    if (refused < 0 && refused != -EEXIST) return refused;
    const bool is_directory = moved->second->directory;
    if (is_directory && is_below(to, from)) return -EINVAL;
    if (refused == -EEXIST) {
        const auto there = files_.find(to);
        if ((flags & RENAME_NOREPLACE) != 0) return -EEXIST;
        if (there->second == moved->second) return 0;  // two names of one file: both stay
        if (there->second->directory && !is_directory) return -EISDIR;
        if (!there->second->directory && is_directory) return -ENOTDIR;
        if (has_entries(to)) return -ENOTEMPTY;
        --there->second->names;
        files_.erase(there);
    }
    for (auto each = files_.lower_bound(from + "/");
         each != files_.end() && is_below(each->first, from);) {
        auto node = files_.extract(each++);
        node.key() = to + node.key().substr(from.size());
        files_.insert(std::move(node));
    }
    auto node = files_.extract(from);
    node.key() = to;
    files_.insert(std::move(node));
    return 0;
}

}  // namespace ringloop::testing
