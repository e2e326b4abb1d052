/* SPDX-License-Identifier: MIT
 *
 * Owns the library's handle and the algorithms that its heuristics chose, one for each shape, so that a shape always
 * runs the same kernel and gives the same bits. Sums that are split over the reduction go through the workspace and
 * are added in a fixed order there; other reduction schemes are not allowed.
 *
 * The few types and values of cublasLt.h that are used are declared here (they are the same in cuBLAS 12 and 13): a
 * build needs neither the header nor the library.
 */
#include "cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- cublasLt.h, as far as it is used ---- */
typedef struct lt_context *lt_handle;        /* cublasLtHandle_t */
typedef struct lt_layout *lt_layout;         /* cublasLtMatrixLayout_t */
typedef struct lt_desc *lt_desc;             /* cublasLtMatmulDesc_t */
typedef struct lt_preference *lt_preference; /* cublasLtMatmulPreference_t */
typedef struct lt_algo {
    uint64_t data[8];
} lt_algo;                 /* cublasLtMatmulAlgo_t */
typedef struct lt_result { /* cublasLtMatmulHeuristicResult_t */
    lt_algo algo;
    size_t workspace_bytes;
    int state; /* cublasStatus_t */
    float waves;
    int reserved[4];
} lt_result;
enum {
    LT_SUCCESS = 0,         /* CUBLAS_STATUS_SUCCESS */
    LT_F32 = 0,             /* CUDA_R_32F */
    LT_BF16 = 14,           /* CUDA_R_16BF */
    LT_COMPUTE_F32 = 68,    /* CUBLAS_COMPUTE_32F */
    LT_TRANSPOSE = 1,       /* CUBLAS_OP_T */
    LT_DESC_TRANSPOSE_A = 3 /* CUBLASLT_MATMUL_DESC_TRANSA, int32 */
};
enum {
    LT_PREF_WORKSPACE = 1, /* CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64 */
    LT_PREF_REDUCTION = 3, /* CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32 */
    LT_PREF_ALIGN_A = 5,   /* CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32; then B, C, D */
    LT_PREF_ALIGN_B = 6,
    LT_PREF_ALIGN_C = 7,
    LT_PREF_ALIGN_D = 8,
    LT_REDUCTION_COMPUTE = 2 /* CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; none (0) is always allowed */
};

#define LT_FUNCTIONS(X)                                                                                                \
    X(int, create, "cublasLtCreate", (lt_handle *))                                                                    \
    X(int, destroy, "cublasLtDestroy", (lt_handle))                                                                    \
    X(const char *, status_name, "cublasLtGetStatusName", (int))                                                       \
    X(int, layout_create, "cublasLtMatrixLayoutCreate", (lt_layout *, int, uint64_t, uint64_t, int64_t))               \
    X(int, layout_destroy, "cublasLtMatrixLayoutDestroy", (lt_layout))                                                 \
    X(int, desc_create, "cublasLtMatmulDescCreate", (lt_desc *, int, int))                                             \
    X(int, desc_destroy, "cublasLtMatmulDescDestroy", (lt_desc))                                                       \
    X(int, desc_set, "cublasLtMatmulDescSetAttribute", (lt_desc, int, const void *, size_t))                           \
    X(int, preference_create, "cublasLtMatmulPreferenceCreate", (lt_preference *))                                     \
    X(int, preference_destroy, "cublasLtMatmulPreferenceDestroy", (lt_preference))                                     \
    X(int, preference_set, "cublasLtMatmulPreferenceSetAttribute", (lt_preference, int, const void *, size_t))         \
    X(int, heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                \
      (lt_handle, lt_desc, lt_layout, lt_layout, lt_layout, lt_layout, lt_preference, int, lt_result *, int *))        \
    X(int, matmul, "cublasLtMatmul",                                                                                   \
      (lt_handle, lt_desc, const void *, const void *, lt_layout, const void *, lt_layout, const void *, const void *, \
       lt_layout, void *, lt_layout, const lt_algo *, void *, size_t, void *))

/* Shapes kept; a model has about eight, times the widths of passes, most of which are full. */
enum { SHAPES = 128 };

typedef struct shape {
    int rows, n, k;
    uint32_t alignment; /* of Y in bytes: 4 or 16 */
    int64_t x_stride, y_stride;
    lt_layout w, x, y;
    lt_algo algo;
    size_t workspace_bytes;
} shape;

struct b1i_cublaslt {
    b1i_gpu *gpu;
    void *library;
    lt_handle handle;
    lt_desc desc;
    shape shapes[SHAPES];
    int count, next; /* next: free, or the oldest once all are taken */
#define X(type, name, symbol, arguments) type(*name) arguments;
    LT_FUNCTIONS(X)
#undef X
};

/* ---- finding the library ---- */

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};

static bool find_functions(b1i_cublaslt *lt)
{
#define X(type, name, symbol, arguments)            \
    do {                                            \
        void *found = dlsym(lt->library, symbol);   \
        if (!found) return false;                   \
        memcpy(&lt->name, &found, sizeof lt->name); \
    } while (0);
    LT_FUNCTIONS(X)
#undef X
    return true;
}

/* One library: opened, complete, and willing to work with this driver and device. Why it is not goes to `why`. A
 * library that was opened stays so: it keeps state of the driver's that must not outlive its code. */
static bool try_library(b1i_cublaslt *lt, const char *path, char *why, size_t why_bytes)
{
    lt->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lt->library) return false;
    if (!find_functions(lt)) {
        snprintf(why, why_bytes, "; %s lacks functions of cuBLASLt 12", path);
        return false;
    }
    int status = lt->create(&lt->handle);
    if (status == LT_SUCCESS) return true;
    lt->handle = NULL;
    snprintf(why, why_bytes, "; %s was found but says %s", path, lt->status_name(status));
    return false;
}

static bool try_folder(b1i_cublaslt *lt, const char *folder, char *why, size_t why_bytes)
{
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", names[i]) < (int)sizeof path &&
            try_library(lt, path, why, why_bytes))
            return true;
    return false;
}

static b1_status find_library(b1i_cublaslt *lt, b1_error *err)
{
    char why[256] = "", at[256] = ""; /* at: where BATCHONE_CUBLASLT led */
    const char *given = getenv("BATCHONE_CUBLASLT");
    struct stat info;
    if (given && strcmp(given, "none") == 0)
        return b1i_fail(err, B1_UNSUPPORTED, "cuBLASLt is not used: BATCHONE_CUBLASLT says none");
    if (given && !*given) given = NULL;
    if (given && stat(given, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (try_folder(lt, given, why, sizeof why)) return B1_OK;
        snprintf(at, sizeof at, "%s", *why ? why + 2 : given);
    } else if (given) {
        if (try_library(lt, given, why, sizeof why)) return B1_OK;
        const char *failure = *why ? why + 2 : dlerror();
        snprintf(at, sizeof at, "%s", failure ? failure : given);
    }
    *why = 0;
    if (try_folder(lt, "", why, sizeof why) || try_folder(lt, "/usr/local/cuda/lib64", why, sizeof why)) return B1_OK;
    return b1i_fail(err, B1_UNSUPPORTED,
                    "no usable cuBLASLt: looked for %s, %s and %s %s%s%sby the loader's path and in "
                    "/usr/local/cuda/lib64%s; BATCHONE_CUBLASLT may name a file or folder",
                    names[0], names[1], names[2], given ? "at BATCHONE_CUBLASLT (" : "", at, given ? "), " : "", why);
}

/* ---- life ---- */

static b1_status check(const b1i_cublaslt *lt, int status, const char *call, const char *what, b1_error *err)
{
    if (status == LT_SUCCESS) return B1_OK;
    return b1i_fail(err, B1_DEVICE, "%s for %s failed: %s", call, what, lt->status_name(status));
}

b1_status b1i_cublaslt_open(b1i_gpu *gpu, b1i_cublaslt **out, b1_error *err)
{
    b1_status st;
    const int32_t transpose = LT_TRANSPOSE;
    bool entered = false;
    *out = NULL;
    b1i_cublaslt *lt = b1i_calloc(1, sizeof *lt);
    if (!lt) return b1i_fail_memory(err, sizeof *lt);
    lt->gpu = gpu;
    B1I_TRY(b1i_gpu_enter(gpu, err));
    entered = true;
    B1I_TRY(find_library(lt, err));
    B1I_TRY(check(lt, lt->desc_create(&lt->desc, LT_COMPUTE_F32, LT_F32), "cublasLtMatmulDescCreate", "prefill", err));
    B1I_TRY(check(lt, lt->desc_set(lt->desc, LT_DESC_TRANSPOSE_A, &transpose, sizeof transpose),
                  "cublasLtMatmulDescSetAttribute", "prefill", err));
    *out = lt;
    lt = NULL;
fail:
    if (entered) b1i_gpu_leave(gpu);
    b1i_cublaslt_close(lt);
    return st;
}

static void shape_free(const b1i_cublaslt *lt, shape *s)
{
    if (s->w) lt->layout_destroy(s->w);
    if (s->x) lt->layout_destroy(s->x);
    if (s->y) lt->layout_destroy(s->y);
    *s = (shape){0};
}

void b1i_cublaslt_close(b1i_cublaslt *lt)
{
    if (!lt) return;
    for (int i = 0; i < lt->count; i++) shape_free(lt, &lt->shapes[i]);
    if (lt->desc) lt->desc_destroy(lt->desc);
    if (lt->handle && b1i_gpu_enter(lt->gpu, NULL) == B1_OK) {
        lt->destroy(lt->handle);
        b1i_gpu_leave(lt->gpu);
    }
    b1i_free(lt);
}

/* ---- products ---- */

/* What the heuristics say is best for the shape of `s`. In cuBLAS's words, which are column by column: Yᵀ [rows × n] =
 * op(W) [k × rows] transposed, times Xᵀ [k × n]. */
static b1_status choose(b1i_cublaslt *lt, shape *s, const char *what, b1_error *err)
{
    b1_status st;
    static const char layout_call[] = "cublasLtMatrixLayoutCreate", heuristic_call[] = "cublasLtMatmulAlgoGetHeuristic";
    const uint64_t workspace = B1I_CUBLASLT_WORKSPACE;
    const uint32_t reduction = LT_REDUCTION_COMPUTE, input = 64;
    const struct {
        int attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {{LT_PREF_WORKSPACE, &workspace, sizeof workspace},
                  {LT_PREF_REDUCTION, &reduction, sizeof reduction},
                  {LT_PREF_ALIGN_A, &input, sizeof input},
                  {LT_PREF_ALIGN_B, &input, sizeof input},
                  {LT_PREF_ALIGN_C, &s->alignment, sizeof(uint32_t)},
                  {LT_PREF_ALIGN_D, &s->alignment, sizeof(uint32_t)}};
    lt_preference preference = NULL;
    lt_result result;
    int found = 0;
    memset(&result, 0, sizeof result);
    B1I_TRY(
        check(lt, lt->layout_create(&s->w, LT_BF16, (uint64_t)s->k, (uint64_t)s->rows, s->k), layout_call, what, err));
    B1I_TRY(check(lt, lt->layout_create(&s->x, LT_BF16, (uint64_t)s->k, (uint64_t)s->n, s->x_stride), layout_call, what,
                  err));
    B1I_TRY(check(lt, lt->layout_create(&s->y, LT_F32, (uint64_t)s->rows, (uint64_t)s->n, s->y_stride), layout_call,
                  what, err));
    B1I_TRY(check(lt, lt->preference_create(&preference), "cublasLtMatmulPreferenceCreate", what, err));
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        B1I_TRY(check(lt, lt->preference_set(preference, wishes[i].attribute, wishes[i].value, wishes[i].bytes),
                      "cublasLtMatmulPreferenceSetAttribute", what, err));
    B1I_TRY(check(lt, lt->heuristic(lt->handle, lt->desc, s->w, s->x, s->y, s->y, preference, 1, &result, &found),
                  heuristic_call, what, err));
    if (found < 1) B1I_TRY(b1i_fail(err, B1_DEVICE, "%s knows no way for %s", heuristic_call, what));
    B1I_TRY(check(lt, result.state, heuristic_call, what, err));
    s->algo = result.algo;
    s->workspace_bytes = result.workspace_bytes;
    lt->preference_destroy(preference);
    return B1_OK;
fail:
    if (preference) lt->preference_destroy(preference);
    return st;
}

static b1_status shape_get(b1i_cublaslt *lt, const b1i_product *p, const char *what, shape **out, b1_error *err)
{
    const uint32_t alignment = p->y % 16 == 0 ? 16 : 4;
    for (int i = 0; i < lt->count; i++) {
        shape *s = &lt->shapes[i];
        if (s->rows == p->rows && s->n == p->n && s->k == p->k && s->x_stride == p->x_stride &&
            s->y_stride == p->y_stride && s->alignment == alignment) {
            *out = s;
            return B1_OK;
        }
    }
    shape made = {.rows = p->rows,
                  .n = p->n,
                  .k = p->k,
                  .alignment = alignment,
                  .x_stride = p->x_stride,
                  .y_stride = p->y_stride};
    b1_status st = choose(lt, &made, what, err);
    if (st != B1_OK) {
        shape_free(lt, &made);
        return st;
    }
    shape *to = &lt->shapes[lt->next];
    lt->next = (lt->next + 1) % SHAPES;
    if (lt->count < SHAPES) lt->count++;
    shape_free(lt, to);
    *to = made;
    *out = to;
    return B1_OK;
}

static void *address(b1i_gpu_ptr p) { return (void *)(uintptr_t)p; }

b1_status b1i_cublaslt_run(b1i_cublaslt *lt, const b1i_product *p, b1i_gpu_ptr workspace, const char *what,
                           b1_error *err)
{
    const float one = 1, beta = p->add ? 1 : 0;
    shape *s;
    b1_status st = b1i_gpu_enter(lt->gpu, err);
    if (st != B1_OK) return st;
    B1I_TRY(shape_get(lt, p, what, &s, err));
    B1I_TRY(check(lt,
                  lt->matmul(lt->handle, lt->desc, &one, address(p->w), s->w, address(p->x), s->x, &beta, address(p->y),
                             s->y, address(p->y), s->y, &s->algo, address(workspace), B1I_CUBLASLT_WORKSPACE,
                             b1i_gpu_stream(lt->gpu)),
                  "cublasLtMatmul", what, err));
fail:
    b1i_gpu_leave(lt->gpu);
    return st;
}
