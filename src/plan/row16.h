/* SPDX-License-Identifier: MIT
 *
 * Layout row16 byte by byte: what the packer writes and the kernels read. A panel is 16 rows; "line" is 64 bytes.
 *
 *   f32       [cols even][16 rows] float
 *   f16       [cols even][16 rows] half
 *   bf16      [cols even / 2][16 rows][2] bfloat16
 *   others    units of one scale line and 1 or 2 blocks' bodies; the last unit may have one block of two:
 *     q8_0    d[2 blocks][16]   body [8][16 rows] dword: 4 consecutive columns, int8
 *     q4_0    d[2 blocks][16]   body N
 *     q4_1    d[16] m[16]       body N
 *     q5_0    d[2 blocks][16]   body H N
 *     q5_1    d[16] m[16]       body H N
 *     q4_k    d[16] dmin[16]    body S, 8 × N
 *     q5_k    d[16] dmin[16]    body S, 8 × (H N)
 *     q6_k    d[2 blocks][16]   body [16 sub-blocks][16 rows] int8, 8 × (P P N)
 *   All d, dmin and m are halfs.
 *   N: 32 columns, [4][16 rows] dword: byte j of dword i holds column 4i + j in its low, 16 + 4i + j in its high
 * nibble. H: their fifth bits, [16 rows] dword: byte j, bit g is that of column 4g + j. P: the fifth and sixth bits of
 * 16 columns, [16 rows] dword: byte j, bits 2g and 2g + 1 are those of column 4g + j. S: scales and mins of 8
 * sub-blocks of 32 columns, [3][16 rows] dword. Pair p of sub-blocks 2p and 2p + 1 is 24 bits: scale | min << 6 | scale
 * of the second << 12 | its min << 18. Dword p < 3 holds pair p in its low 24 bits; byte p of pair 3 is its high byte.
 */
#ifndef B1I_ROW16_H
#define B1I_ROW16_H

#include "plan/layout.h"

enum { B1I_LINE = 64 };

/* Bytes of a block's body (16 rows), and how many blocks share a scale line. */
enum {
    B1I_BODY_Q8_0 = 512,
    B1I_BODY_Q4_0 = 256,
    B1I_BODY_Q4_1 = 256,
    B1I_BODY_Q5_0 = 320,
    B1I_BODY_Q5_1 = 320,
    B1I_BODY_Q4_K = 192 + 8 * 256,
    B1I_BODY_Q5_K = 192 + 8 * 320,
    B1I_BODY_Q6_K = 256 + 8 * 384
};

#endif
