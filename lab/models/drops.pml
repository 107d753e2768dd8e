/* Pools of src/share/message.hpp that drop channels, again and again: does everybody get on? Two
 * channels share a trunk from a gate to a target. Client 0 takes no answers until client 1 is
 * through, client 1 always does; a channel has WINDOW messages under way, and an answer that its
 * client has not taken keeps the next request from being applied.
 *
 * The gate sends at once if it can. Otherwise the message waits, and its channel stands in a line:
 * when there is room on the trunk, the first in line sends one message (Trunks::serve). The
 * target applies what it can when it arrives, and keeps the rest. After each step a pool that is
 * over its limit ends the channel that keeps most, unless it is the only one there; its session
 * sends again what was not applied.
 *
 * Assumed: what is possible all the time happens (weak fairness); and a channel that comes to stand
 * in the line again and again is there now and then when there is room. ANY_TIMING takes the second
 * assumption away: in a pool for a single message, room may come only in the moments in which
 * client 1's channel has just been dropped. Each rule that is taken away must be found, since
 * channels are dropped for ever:
 *   LOOK_BEFORE_APPLYING: a server applies what arrived, then looks at its pools.
 *   ALONE_TOO: the only channel in a pool stays.
 *   ANY_TIMING: there is room now and then while a channel waits.
 */
#ifndef ROOM
#define ROOM 2
#endif
#ifndef REQUESTS
#define REQUESTS 3
#endif
#ifndef WINDOW
#define WINDOW 3
#endif

byte unsent[2] = REQUESTS;  /* in the session's log, and not under way */
byte at_gate[2], at_target[2], answers[2], through[2];
byte first = 0;             /* in line, if both are: the other one has just been served */
bool served = false;        /* the last step sent a message of client 1 from the line */

#define under_way(c) (at_gate[c] + at_target[c] + answers[c])
#define all_through (through[0] == REQUESTS && through[1] == REQUESTS)
#define takes(c) (c == 1 || through[1] == REQUESTS)

inline drop(c) {  /* what its session knows to be applied stays applied */
  unsent[c] = unsent[c] + at_gate[c] + at_target[c];
  at_gate[c] = 0;
  at_target[c] = 0;
  printf("the channel of client %d ends: no room\n", c)
}

inline relieve(zero, one) {
  if
#ifdef ALONE_TOO
  :: zero + one > ROOM ->
#else
  :: zero + one > ROOM && zero > 0 && one > 0 ->
#endif
     if
     :: zero >= one -> drop(0)
     :: one >= zero -> drop(1)
     fi
  :: else
  fi
}

inline apply(c) {
  if
  :: at_target[c] > 0 && answers[c] == 0 ->
     at_target[c]--;
     answers[c]++;
     printf("a request of client %d is applied\n", c)
  :: else
  fi
}

inline deliver(c) {
  at_target[c]++;
#ifndef LOOK_BEFORE_APPLYING
  apply(c);
#endif
  relieve(at_target[0], at_target[1])
}

active [2] proctype sender() {  /* a client, and what the gate does when it receives */
  do
  :: atomic { through[_pid] == REQUESTS -> served = false; break }
  :: atomic { unsent[_pid] > 0 && under_way(_pid) < WINDOW ->
     served = false;
     unsent[_pid]--;
     if
     :: at_gate[0] + at_gate[1] == 0 -> printf("client %d sends\n", _pid); deliver(_pid)
     :: true ->
        printf("client %d sends, and there is no room on the trunk\n", _pid);
        if
        :: at_gate[_pid] == 0 && at_gate[1 - _pid] > 0 -> first = 1 - _pid
        :: at_gate[_pid] == 0 && at_gate[1 - _pid] == 0 -> first = _pid
        :: else
        fi;
        at_gate[_pid]++;
        relieve(at_gate[0], at_gate[1])
     fi }
  od
}

active proctype trunk() {  /* there is room for one more message */
  byte c;
  do
  :: atomic { all_through -> served = false; break }
  :: atomic { at_gate[0] + at_gate[1] > 0 ->
     c = (at_gate[first] > 0 -> first : 1 - first);
     served = (c == 1);
     at_gate[c]--;
     first = 1 - c;
     printf("the gate sends a message of client %d\n", c);
     deliver(c);
     c = 0 }
  od
}

active [2] proctype taker() {
  byte c = _pid - 3;
  do
  :: atomic { through[c] == REQUESTS -> served = false; break }
  :: atomic { answers[c] > 0 && takes(c) ->
     served = false;
     answers[c]--;
     through[c]++;
     printf("client %d takes an answer\n", c);
#ifndef LOOK_BEFORE_APPLYING
     apply(c)
#endif
     }
  od
}

#ifdef LOOK_BEFORE_APPLYING
active proctype target() {
  do
  :: atomic { all_through -> served = false; break }
  :: atomic { at_target[1] > 0 && answers[1] == 0 -> served = false; apply(1) }
  :: atomic { at_target[0] > 0 && answers[0] == 0 -> served = false; apply(0) }
  od
}
#endif

#ifdef ANY_TIMING
ltl ends { <> all_through }
#else
ltl ends { (([] <> (at_gate[1] > 0)) -> ([] <> served)) -> <> all_through }
#endif
