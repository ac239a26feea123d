"""Names of the memories that programs put buffers in, and what these hold."""

DRAM = "global"
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
SRAM_SCOPES: tuple[str, ...] = (INP, WGT, ACC)
HELD = ("int8", "int32")  # types of the elements that they hold
WORD = 32  # bits of an element of the accumulator
