"""Names of the memories that programs put buffers in."""

DRAM = "global"
INP, WGT, ACC = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
SRAM_SCOPES: tuple[str, ...] = (INP, WGT, ACC)
