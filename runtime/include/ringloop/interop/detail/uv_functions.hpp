// uv_functions: the functions of the libuv that a loop was made with. A program has one; a Python
// process may have several, for uvloop brings its own inside of its extension module.
// Thread: any, a table of constants.
#pragma once

#include <dlfcn.h>
#include <uv.h>

#include <stdexcept>
#include <string>

namespace ringloop::interop {

struct uv_functions {
    decltype(&::uv_version) version;
    decltype(&::uv_poll_init) poll_init;
    decltype(&::uv_poll_start) poll_start;
    decltype(&::uv_poll_stop) poll_stop;
    decltype(&::uv_timer_init) timer_init;
    decltype(&::uv_timer_start) timer_start;
    decltype(&::uv_timer_stop) timer_stop;
    decltype(&::uv_idle_init) idle_init;
    decltype(&::uv_idle_start) idle_start;
    decltype(&::uv_idle_stop) idle_stop;
    decltype(&::uv_update_time) update_time;
    decltype(&::uv_unref) unref;
    decltype(&::uv_close) close;
    decltype(&::uv_strerror) strerror;

    // Of the libuv that the program is linked with.
    [[nodiscard]] static uv_functions linked() noexcept {
        return {&::uv_version,    &::uv_poll_init,   &::uv_poll_start,  &::uv_poll_stop,
                &::uv_timer_init, &::uv_timer_start, &::uv_timer_stop,  &::uv_idle_init,
                &::uv_idle_start, &::uv_idle_stop,   &::uv_update_time, &::uv_unref,
                &::uv_close,      &::uv_strerror};
    }
    // Of a shared object that is loaded already, such as uvloop's extension module. Throws
    // std::runtime_error if it is not there, or has no libuv 1.x of 1.44 or newer.
    [[nodiscard]] static uv_functions of_module(const char* path) {
        void* const module = ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        if (module == nullptr)
            throw std::runtime_error(std::string("ringloop: not loaded: ") + path);
        const lookup find{module, path};
        uv_functions found{};
        find("uv_version", found.version);
        find("uv_poll_init", found.poll_init);
        find("uv_poll_start", found.poll_start);
        find("uv_poll_stop", found.poll_stop);
        find("uv_timer_init", found.timer_init);
        find("uv_timer_start", found.timer_start);
        find("uv_timer_stop", found.timer_stop);
        find("uv_idle_init", found.idle_init);
        find("uv_idle_start", found.idle_start);
        find("uv_idle_stop", found.idle_stop);
        find("uv_update_time", found.update_time);
        find("uv_unref", found.unref);
        find("uv_close", found.close);
        find("uv_strerror", found.strerror);
        if (found.version() < 0x012c00 || found.version() >= 0x020000)
            throw std::runtime_error(std::string("ringloop: not a libuv of 1.44 or newer: ") +
                                     path);
        return found;
    }

  private:
    // Closes the reference that dlopen() took: the module stays loaded, its loop is alive.
    struct lookup {
        void* module;
        const char* path;
        lookup(void* opened, const char* from) noexcept : module(opened), path(from) {}
        ~lookup() { ::dlclose(module); }
        lookup(const lookup&) = delete;
        lookup& operator=(const lookup&) = delete;
        template <class Function>
        void operator()(const char* name, Function& into) const {
            into = reinterpret_cast<Function>(::dlsym(module, name));
            if (into == nullptr)
                throw std::runtime_error(std::string("ringloop: ") + path + " has no " + name);
        }
    };
};

}  // namespace ringloop::interop
