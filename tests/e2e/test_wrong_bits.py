"""--health with supervisors: a run in which a bit was wrong goes on from before that, to the bits of a run without a fault, and without
the machine that had it where there is a spare."""

import test_elastic
import test_health
import test_launch
from test_elastic import PORT
from test_launch import SECRET

import mgctest

STEPS = 40


class WrongBits(test_elastic.Supervised):
    def plant(self, layout, fault):
        test_health.Planted.make(self, layout)
        self.args = ["./" + layout, "--data", "text1.txt", "--steps", str(STEPS), "--save-every", "5", "--keep", "0", "--threads", "1",
                     "--health=10", "--log-every", "1", "--out"]
        self.run_it([*self.args, "whole"])
        self.fault = {"FAULT": fault, "ONCE": self.path("once")}

    def check(self, out, restarts=1):
        self.assertEqual(self.saved(out, STEPS), self.saved("whole", STEPS))
        self.assertEqual([e["restart"] for e in self.events(out)], list(range(1, restarts + 1)))

    def test_alone(self):
        """The fault is in all that was computed since step 20, the last check, and goes on from there: later checkpoints are set aside."""
        self.plant("dp2", "end P_head:1:27:0:14:2")
        argv = [*self.args, "healed", "--max-restarts", "3", "--health-action", "stop"]
        said = self.ends(self.begin(argv, self.fault))
        (event,) = self.events("healed")
        self.assertEqual((event["step"], "bits are wrong" in event["cause"]), (20, True), event)
        self.assertIn("restart 1 of 3, from the newest checkpoint up to step 20, behind which no bit was wrong", said)
        self.check("healed")

    def test_again(self):
        """The same fault each time: it is given up with 76."""
        self.plant("one", "made:0:29:0:14:2")
        argv = [*self.args, "ill", "--max-restarts", "9"]
        said = self.ends(self.begin(argv, {"FAULT": self.fault["FAULT"]}), 76)
        self.assertIn("for the third time in a row: a restart does not help", said)

    def test_the_machine_is_left_out(self):
        self.plant("dp2", "held 0:1:29:2:14:2")
        argv = [*self.args, "healed", "--max-restarts", "3", "--rejoin", "30"]
        m = {rank: self.begin(argv, {**self.fault, **test_launch.torchrun(rank, 4, port=PORT), "MGC_SECRET": SECRET, "MGC_FAKE_HOSTS": 2})
             for rank in range(4)}
        said = self.all_end(m)
        self.assertTrue("the machine that was named is left out if there are spares enough" in said[0], self.all_said())
        self.check("healed")
        (event,) = self.events("healed")
        self.assertEqual(event["step"], 20)
        self.assertNotIn("resumed from", said[0])
        self.assertIn("resumed from healed/ckpt/step-00000020", said[2])  # rank 0 is on the other machine


if __name__ == "__main__":
    mgctest.main()
