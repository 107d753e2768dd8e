// Rules that the simulator and the tests of lock machines leave out on purpose, one at a time
// (lab/sim/rules.hpp). That shows that they find what then goes wrong. In the product a rule always
// holds, and costs nothing.
#pragma once

#ifndef SKERRY_RULE
#define SKERRY_RULE(name) true
#define SKERRY_LOCK_RULE(name) true
#endif
