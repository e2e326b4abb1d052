/* SPDX-License-Identifier: MIT
 *
 * A CUPTI for the driver of fake_cuda.c, as libcupti.so.13: what that driver did becomes activity records. A graph is
 * one record where graphs are traced, and then its nodes have none. Where calls are traced, each launch is one of
 * CALL_NS.
 *
 * The environment steers it: FAKE_CUPTI_REFUSES (records of activities may not be had), FAKE_CUPTI_LOSES (the first
 * record of each flush is dropped).
 */
#include <cupti.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 100000, DRIVER = 4, CALL_NS = 2000 };

static struct {
    int what;
    const char *name;
    unsigned graph;
    double begin_ms, end_ms;
} events[EVENTS];
static size_t count;
static bool enabled[CUPTI_ACTIVITY_KIND_COUNT];
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
                                           CUPTI_ACTIVITY_KIND_DRIVER};

static void did(int what, const char *name, unsigned graph, double begin_ms, double end_ms)
{
    if (enabled[CUPTI_ACTIVITY_KIND_DRIVER] && what != 2 && (what == 3 || !graph)) what = DRIVER;
    if (!enabled[kinds[what]] || count == EVENTS) return;
    if (what < 3 && graph && enabled[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]) return;
    events[count].what = what;
    events[count].name = name;
    events[count].graph = graph;
    events[count].begin_ms = begin_ms;
    events[count++].end_ms = end_ms;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *now)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *ms = driver ? dlsym(driver, "fake_cuda_ms") : NULL;
    *now = ms ? (uint64_t)(*(double *)ms * 1e6) + 1000 : 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR";
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    if (getenv("FAKE_CUPTI_REFUSES")) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD),
         *hook = driver ? dlsym(driver, "fake_cuda_did") : NULL;
    if (!hook) return CUPTI_ERROR_NOT_INITIALIZED;
    *(void (**)(int, const char *, unsigned, double, double))hook = did;
    enabled[kind] = true;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    enabled[kind] = false;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c)
{
    request = r;
    complete = c;
    return CUPTI_SUCCESS;
}

/* Bytes of the record of event `i` at `to`. */
static size_t put(size_t i, uint8_t *to)
{
    const uint64_t begin = (uint64_t)(events[i].begin_ms * 1e6) + 1000, end = (uint64_t)(events[i].end_ms * 1e6) + 1000;
    switch (events[i].what) {
    case 0: {
        CUpti_ActivityKernel10 k = {.kind = kinds[0], .start = begin, .end = end, .name = events[i].name};
        k.graphId = events[i].graph;
        memcpy(to, &k, sizeof k);
        return sizeof k;
    }
    case 1: {
        CUpti_ActivityMemset4 m = {.kind = kinds[1], .start = begin, .end = end};
        m.graphId = events[i].graph;
        memcpy(to, &m, sizeof m);
        return sizeof m;
    }
    case 2: {
        CUpti_ActivityMemcpy6 m = {.kind = kinds[2], .start = begin, .end = end};
        memcpy(to, &m, sizeof m);
        return sizeof m;
    }
    case DRIVER: {
        CUpti_ActivityAPI a = {.kind = kinds[DRIVER], .start = begin, .end = begin + CALL_NS};
        a.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;
        memcpy(to, &a, sizeof a);
        return sizeof a;
    }
    default: {
        CUpti_ActivityGraphTrace2 g = {.kind = kinds[3], .start = begin, .end = end};
        g.graphId = events[i].graph;
        memcpy(to, &g, sizeof g);
        return sizeof g;
    }
    }
}

static size_t lost;

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    size_t i = 0;
    if (count && getenv("FAKE_CUPTI_LOSES")) i = lost = 1;
    while (i < count) {
        uint8_t *buffer = NULL;
        size_t size = 0, most = 0, at = 0;
        request(&buffer, &size, &most);
        if (!buffer) return CUPTI_ERROR_OUT_OF_MEMORY;
        while (i < count && at + 512 <= size) at += put(i++, buffer + at);
        complete(NULL, 0, buffer, size, at);
    }
    count = 0;
    return CUPTI_SUCCESS;
}

static size_t bytes_of(const CUpti_Activity *record)
{
    switch ((int)record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_DRIVER:
        return sizeof(CUpti_ActivityAPI);
    default:
        return sizeof(CUpti_ActivityGraphTrace2);
    }
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + bytes_of(*record) : buffer;
    if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context, (void)stream;
    *dropped = lost;
    lost = 0;
    return CUPTI_SUCCESS;
}
