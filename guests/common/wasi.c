/* The system calls that libc still refers to, for streams that nobody opens. They are answered here, where libc would import them,
 * so that a guest imports nothing but the host's two functions: what is not there cannot be reached. */
#include <errno.h>
#include <stdint.h>
#include <unistd.h>
#include <wasi/api.h>

#define SYSTEM_CALL(name, ...) int32_t __imported_wasi_snapshot_preview1_##name(__VA_ARGS__)

SYSTEM_CALL(fd_close, int32_t fd) {
    (void)fd;
    return __WASI_ERRNO_BADF;
}

SYSTEM_CALL(fd_fdstat_get, int32_t fd, int32_t out) {
    (void)fd, (void)out;
    return __WASI_ERRNO_BADF;
}

SYSTEM_CALL(fd_seek, int32_t fd, int64_t offset, int32_t whence, int32_t out) {
    (void)fd, (void)offset, (void)whence, (void)out;
    return __WASI_ERRNO_BADF;
}

SYSTEM_CALL(fd_write, int32_t fd, int32_t vectors, int32_t count, int32_t out) {
    (void)fd, (void)vectors, (void)count, (void)out;
    return __WASI_ERRNO_BADF;
}

int close(int fd) { /* the toolchain's own has an import of its own */
    (void)fd;
    errno = EBADF;
    return -1;
}
