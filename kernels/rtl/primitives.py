"""Inline Verilog primitives of our own: they stand at the head of a program that uses them.

Mixed-width two's complement arithmetic, round half to even, saturation, pipeline registers without enable,
constant tables. The bodies contain no braces, which the Calyx parser does not accept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..arith.numerics import bits_for_range

_DATA2 = "(@data left: LW, @data right: RW)"
PRIMITIVES: Mapping[str, str] = {
    "tc_add": f"comb primitive tc_add[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) + $signed(right); }",
    "tc_sub": f"comb primitive tc_sub[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) - $signed(right); }",
    "tc_mul": f"comb primitive tc_mul[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) * $signed(right); }",
    "tc_lt": f"comb primitive tc_lt[LW, RW]{_DATA2} -> (out: 1) "
    "{ assign out = $signed(left) < $signed(right); }",
    "tc_eq": f"comb primitive tc_eq[LW, RW]{_DATA2} -> (out: 1) "
    "{ assign out = $signed(left) == $signed(right); }",
    "tc_max": f"comb primitive tc_max[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) > $signed(right) ? $signed(left) : $signed(right); }",
    "tc_min": f"comb primitive tc_min[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) < $signed(right) ? $signed(left) : $signed(right); }",
    "tc_resize": "comb primitive tc_resize[IW, OW](@data in: IW) -> (out: OW) { assign out = $signed(in); }",
    "tc_shl": "comb primitive tc_shl[IW, SHIFT, OW](@data in: IW) -> (out: OW) {\n"
    "  wire signed [OW-1:0] wide = $signed(in);\n  assign out = wide <<< SHIFT;\n}",
    # Round half to even: floor((x + 2**(SHIFT-1) - 1 + bit SHIFT of x) / 2**SHIFT), one bit wider so it
    # cannot wrap.
    "tc_round": "comb primitive tc_round[IW, SHIFT, OW](@data in: IW) -> (out: OW) {\n"
    "  wire signed [IW:0] wide = $signed(in);\n"
    "  wire signed [IW:0] one = 1;\n"
    "  wire signed [IW:0] half = (one <<< (SHIFT - 1)) - one;\n"
    "  wire signed [IW:0] odd = (wide >>> SHIFT) & one;\n"
    "  wire signed [IW:0] up = wide + half + odd;\n"
    "  assign out = up >>> SHIFT;\n}",
    # Clip a signed IW-bit number to OW bits (OW < IW): every dropped bit must repeat the sign.
    "tc_clip": "comb primitive tc_clip[IW, OW](@data in: IW) -> (out: OW) {\n"
    "  wire signed [IW-1:0] wide = $signed(in);\n"
    "  wire signed [IW-1:0] top = wide >>> (OW - 1);\n"
    "  wire signed [OW-1:0] low = in[OW-1:0];\n"
    "  wire signed [OW-1:0] one = 1;\n"
    "  wire signed [OW-1:0] least = one <<< (OW - 1);\n"
    "  assign out = (top == 0 || top == -1) ? low : (wide < 0 ? least : ~least);\n}",
    # Zeros before the first one of an N-bit number.
    "tc_clz": "comb primitive tc_clz[IW, N, OW](@data in: IW) -> (out: OW) {\n"
    "  logic [OW-1:0] count;\n  integer i;\n"
    "  always_comb begin\n    count = N;\n"
    "    for (i = 0; i < N; i = i + 1) if (in[i]) count = N - 1 - i;\n  end\n  assign out = count;\n}",
    "tc_shlv": f"comb primitive tc_shlv[LW, RW, OW]{_DATA2} -> (out: OW) {{\n"
    "  wire signed [OW-1:0] wide = $signed(left);\n  assign out = wide <<< right;\n}",
    "pipe": "primitive pipe[W, N](@data in: W, @clk clk: 1, @reset reset: 1) -> (@stable out: W) {\n"
    "  logic [W-1:0] stage [0:N-1];\n  integer i;\n"
    "  always_ff @(posedge clk) begin\n"
    "    if (reset) for (i = 0; i < N; i = i + 1) stage[i] <= 0;\n"
    "    else begin\n      stage[0] <= in;\n"
    "      for (i = 1; i < N; i = i + 1) stage[i] <= stage[i-1];\n    end\n"
    "  end\n  assign out = stage[N-1];\n}",
    "held": "primitive held[W](@data in: W, en: 1, @clk clk: 1, @reset reset: 1) -> (@stable out: W) {\n"
    "  logic [W-1:0] value;\n"
    "  always_ff @(posedge clk) begin\n    if (reset) value <= 0;\n    else if (en) value <= in;\n  end\n"
    "  assign out = value;\n}",
    "gate": "comb primitive gate[W](in: W) -> (out: W) { assign out = in; }",
}
"""Inline primitives by name."""


def table_text(name: str, words: Sequence[int], first: int, width: int) -> str:
    """A lookup table as a primitive; braces are not allowed in its body."""
    bits, mask = bits_for_range(first, first + len(words) - 1), (1 << width) - 1
    cases = "\n".join(
        f"    {bits}'d{(first + i) & ((1 << bits) - 1)}: word = {width}'d{word & mask};"
        for i, word in enumerate(words)
    )
    return (
        f"comb primitive {name}[IW, OW](@data in: IW) -> (out: OW) {{\n  logic [{width - 1}:0] word;\n"
        f"  always_comb begin\n    case (in)\n{cases}\n    default: word = {width}'d0;\n    endcase\n  end\n"
        "  assign out = word;\n}"
    )
