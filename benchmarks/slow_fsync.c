/*
 * Preloaded into a broker by benchmarks/limits.py: fsync and fdatasync take SLOW_FSYNC_US longer, as
 * on a disk without a write cache, and are counted in the first eight bytes of the file
 * SLOW_FSYNC_COUNT. Nothing of it is known to the broker.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static struct timespec delay;
static _Atomic uint64_t unshared;
static _Atomic uint64_t *count = &unshared;

__attribute__((constructor)) static void set_up(void) {
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *microseconds = getenv("SLOW_FSYNC_US");
    if (microseconds != NULL) {
        long us = atol(microseconds);
        delay.tv_sec = us / 1000000;
        delay.tv_nsec = us % 1000000 * 1000;
    }
    const char *path = getenv("SLOW_FSYNC_COUNT");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && ftruncate(file, sizeof *count) == 0) {
        void *shared = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) {
            count = shared;
        }
    }
    if (file >= 0) {
        close(file);
    }
}

static void wait_first(void) {
    atomic_fetch_add(count, 1);
    nanosleep(&delay, NULL);
}

int fsync(int file) {
    wait_first();
    return real_fsync(file);
}

int fdatasync(int file) {
    wait_first();
    return real_fdatasync(file);
}
