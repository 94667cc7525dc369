"""For tests: of your own savers, and of graphs that must survive what databases do.

* `perdure.testing.saver_suite`: the contract of a saver as test classes. A backend's test file is five lines; see there. It needs
  pytest, which the extra `perdure[testing]` brings.
* `perdure.testing.strict.StrictMemorySaver`: a memory saver that refuses what a database would only keep silent about.
* `perdure.testing.faults`: saves that fail, fail late, or wait, at the commits you choose.
* `perdure.testing.counting`: how often a call goes to the database.
* `perdure.testing.random_graphs`: graphs drawn from a seed, whose nodes tell what they did.
* `perdure.testing.clock.ManualClock`: time that stands still until it is told to move.

Only `saver_suite` imports pytest.
"""
