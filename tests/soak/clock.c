/* The time of day that one job sees, moved by the seconds in the file that SOAK_CLOCK names.

Only Python and drumline's own library are shown the other time. Waiting until a time of day is the
kernel's business, which knows the true one: a library that computes such a time (absl, in jaxlib,
does) would wait for hours, as it would not where a true clock jumps. All other clocks are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *moved_by;

__attribute__((constructor)) static void open_clock(void) {
    const char *name = getenv("SOAK_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *place = mmap(NULL, sizeof *moved_by, PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED) moved_by = place;
    close(file);
}

static int64_t seconds_for(const void *caller) {
    Dl_info found;
    if (!moved_by || !dladdr(caller, &found) || !found.dli_fname) return 0;
    const char *slash = strrchr(found.dli_fname, '/');
    const char *name = slash ? slash + 1 : found.dli_fname;
    int ours = !strncmp(name, "python", 6) || !strncmp(name, "libpython", 9) ||
               !strncmp(name, "_core.", 6);
    return ours ? *moved_by : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += seconds_for(__builtin_return_address(0));
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int failed = (int)syscall(SYS_gettimeofday, now, zone);
    if (!failed && now) now->tv_sec += seconds_for(__builtin_return_address(0));
    return failed;
}

time_t time(time_t *now) {
    struct timespec true_now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &true_now);
    time_t shown = true_now.tv_sec + seconds_for(__builtin_return_address(0));
    if (now) *now = shown;
    return shown;
}
