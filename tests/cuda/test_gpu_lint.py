"""scripts/gpu-lint on machine code that has each fault, and on the same without it."""

import importlib.machinery
import importlib.util
import os
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/gpu-lint")
loader = importlib.machinery.SourceFileLoader("gpu_lint", SCRIPT)
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_lint", loader))
loader.exec_module(lint)


def kernel(name, *body, before=()):
    """The text of nvdisasm: some instructions, and a loop of others."""
    lines, at = [f".text.{name}:"], 0
    for text in [*before, ".L_x_1:", *body, "@!P0 BRA `(.L_x_1)", "EXIT"]:
        if text.endswith(":"):
            lines.append(text)
            continue
        lines.append(f"        /*{at:04x}*/                   {text} ;")
        at += 16
    return "\n".join(lines)


def faults(name, *body, before=()):
    return list(lint.faults(name, *lint.kernels(kernel(name, *body, before=before))[name]))


WIDE, ADD = "LDG.E.128 R4, desc[UR4][R2.64]", "IADD3 R2, R2, 0x10, RZ"


class Faults(unittest.TestCase):
    def test_none(self):
        self.assertEqual(faults("mg_xent_bf16", WIDE, ADD), [])
        self.assertEqual(faults("mg_other", "LDG.E.U16 R4, desc[UR4][R2.64]", ADD), [])

    def test_local_memory(self):
        self.assertEqual(faults("mg_other", WIDE, before=["STL [R1], R2"]), ["1 accesses to local memory"])

    def test_division(self):
        for text in ("CALL.REL.NOINC `($__internal_1_$__cuda_sm20_div_s64)", "I2F.U64.RP R4, R2", "@P1 CALL.REL.NOINC `($x$__cuda_sm20_rem_u64)"):
            self.assertEqual(faults("mg_other", ADD, text), ["a division of 64 bits in the loop at 0x0"])
            self.assertEqual(faults("mg_other", ADD, before=[text]), [])
        self.assertEqual(faults("mg_other", "CALL.REL.NOINC `($x$__cuda_sm20_div_rn_f64_full)"), [])

    def test_narrow(self):
        for text in ("LDG.E.U16 R4, desc[UR4][R2.64]", "LDG.E.U8 R4, [R2.64]", "@P0 LDG.E.64 R4, [R2.64]"):
            self.assertEqual(faults("mg_combine_f16", text, ADD, before=[WIDE]), ["no access of 16 bytes in the loop at 0x10"])

    def test_count(self):
        self.assertEqual(faults("mg_xent_bf16", WIDE, *[ADD] * 54), [])
        self.assertEqual(faults("mg_xent_bf16", WIDE, *[ADD] * 55), ["7.1 instructions an element in the loop at 0x0; the limit is 7"])

    def test_loops(self):
        """Of nested loops the inner one counts; a branch forth and the kernel's last branch are none."""
        text = kernel("k", ADD).replace("EXIT", "@P1 BRA `(.L_x_0)").replace(".text.k:", ".text.k:\n.L_x_0:\n        /*0000*/  MOV R1, R2 ;", 1)
        code, labels = lint.kernels(text)["k"]
        self.assertEqual(len(lint.innermost(lint.loops(code, labels))), 1)


if __name__ == "__main__":
    unittest.main()
