/* Protected states: src/job/survivors.cpp and views.hpp, and what python/skerry/_protected.py makes
 * of them. Members on nodes of their own write a copy of their block, and one at the next member,
 * their partner; two copies alternate. A collective at the end of each step makes the state valid:
 * it succeeds on all that live, or fails on all. Members die at any moment, with their memory; what
 * they had sent may arrive at some and not at others. All hear of deaths in one order, each in its
 * time. After a failure those that live meet, and go back to the last valid state.
 *
 * Holds: those that live have the same valid state, and each block of it is there, at its owner's
 * or at its partner's, unless both died. Nobody waits for ever. Each rule that is taken away must
 * be found:
 *   ONE_COPY: a new state is not written over the valid one.
 *   NO_FENCE: a member enters the collective when its partner has the block.
 *   ONE_HALF: a call succeeds when all have said that they have their data.
 *   OWN_ANSWER: of those that do not know, the first one asks for all (Views::decide).
 *   SILENT_FAILURE: who gives a call up says so.
 *   DEAD_COUNT: who asks does not wait for the dead.
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define NOBODY 255

bool dead[MEMBERS];
byte died[2], deaths = 0;      /* in the launcher's order */
byte heard[MEMBERS];           /* how many of these a member has heard of */
/* Copies: the step that they hold, by member and slot. */
byte own[MEMBERS * 2], partners[MEMBERS * 2];
byte under_way[MEMBERS];       /* to the partner; 0: nothing */
byte valid[MEMBERS];           /* the last valid state, as a member believes */
/* The collective: what arrived at a member from another, and what a member says in its area. */
byte data[MEMBERS * MEMBERS], came[MEMBERS * MEMBERS];
byte entered[MEMBERS], failed[MEMBERS];
byte decided = 0;              /* of the last call that was asked for: 2 * step + answer */
bool is_over[MEMBERS], meets[MEMBERS];

#define next(i) ((i + 1) % MEMBERS)
#ifdef ONE_COPY
#define slot(step) 0
#else
#define slot(step) (step % 2)
#endif
#ifdef DEAD_COUNT
#define knows(i, x) false
#else
#define knows(i, x) ((heard[i] > 0 && died[0] == x) || (heard[i] > 1 && died[1] == x))
#endif

#define has(from, j) (i == j || from[i * MEMBERS + j] >= step)
#if MEMBERS == 3
#define has_all(from) (has(from, 0) && has(from, 1) && has(from, 2))
#else
#define has_all(from) (has(from, 0) && has(from, 1) && has(from, 2) && has(from, 3))
#endif

proctype member(byte i) {
  byte step = 1, k, answer;
work:
  do
  :: atomic { dead[i] -> goto end }
  :: atomic { step > STEPS -> is_over[i] = true; goto end }
  :: atomic { step <= STEPS ->
       own[i * 2 + slot(step)] = step;
       under_way[i] = step };
#ifndef NO_FENCE
     if
     :: atomic { under_way[i] == 0 }
     :: atomic { heard[i] > 0 -> goto gives_up }  /* a fence that fails, of whatever it is */
     :: atomic { dead[i] -> goto end }
     fi;
#endif
     k = 0;
     do
     :: atomic { k < MEMBERS && !dead[i] -> data[k * MEMBERS + i] = step; k++ }
     :: atomic { dead[i] -> goto end }
     :: atomic { k == MEMBERS -> break }
     od;
     if
     :: atomic { dead[i] -> goto end }
     :: atomic { !dead[i] && has_all(data) -> entered[i] = step; k = 0 }
     :: atomic { !dead[i] && heard[i] > 0 && !has_all(data) -> goto gives_up }
     fi;
#ifndef ONE_HALF
     do
     :: atomic { k < MEMBERS && !dead[i] -> came[k * MEMBERS + i] = step; k++ }
     :: atomic { dead[i] -> goto end }
     :: atomic { k == MEMBERS -> break }
     od;
     if
     :: atomic { dead[i] -> goto end }
     :: atomic { !dead[i] && has_all(came) -> skip }
     :: atomic { !dead[i] && heard[i] > 0 && !has_all(came) -> goto asks }
     fi;
#endif
     if
     :: atomic { dead[i] -> goto end }
     :: atomic { !dead[i] -> k = 0; valid[i] = step; step++ }
     fi
  od;

asks:  /* one member after the other, until each has said something */
  k = 0; answer = 1;
  do
  :: atomic { dead[i] -> goto end }
  :: atomic { k < MEMBERS && answer == 1 && (k == i || entered[k] >= step || knows(i, k)) -> k++ }
  :: atomic { k < MEMBERS && answer == 1 && k != i && entered[k] < step && failed[k] != 0 &&
              !knows(i, k) -> answer = 0 }
  :: atomic { k == MEMBERS || answer == 0 -> break }
  od;
  if
  :: atomic { dead[i] -> goto end }
  :: atomic { !dead[i] ->
     k = 0;
#ifndef OWN_ANSWER
     if
     :: decided / 2 == step -> answer = decided % 2
     :: else -> decided = 2 * step + answer
     fi;
#endif
     if
     :: answer == 1 -> answer = 0; valid[i] = step; step++; goto work
     :: else
     fi }
  fi;

gives_up:
  atomic {
     k = 0; answer = 0;
#ifndef SILENT_FAILURE
     if
     :: dead[i]
     :: else -> failed[i] = step
     fi;
#endif
     meets[i] = true; step = 0 };
end:
  skip
}

proctype network(byte i) {  /* from a member to its partner, whether it lives or not */
  byte step;
  do
  :: atomic { under_way[i] > 0 ->
     partners[i * 2 + slot(under_way[i])] = under_way[i];
     under_way[i] = 0 }
  :: atomic { dead[i] -> under_way[i] = 0; break }
  :: atomic { is_over[i] || meets[i] -> break }
  od
}

proctype news(byte i) {
  do
  :: atomic { heard[i] < deaths -> heard[i]++ }
  :: atomic { dead[i] || heard[i] == DEATHS -> break }
  od
}

proctype death() {
  byte v;
  do
  :: deaths == DEATHS -> break
  :: atomic { deaths < DEATHS ->
     select(v : 0 .. MEMBERS - 1);
     if
     :: !dead[v] -> dead[v] = true; died[deaths] = v; deaths++;
        printf("member %d dies\n", v)
     :: else -> break
     fi;
     v = 0 }
  :: break
  od
}

proctype judge() {
  byte i, state = NOBODY;
  atomic { timeout ->
     i = 0;
     do
     :: i < MEMBERS && !dead[i] ->
        assert(is_over[i] || meets[i]);            /* nobody waits for ever */
        assert(state == NOBODY || state == valid[i]);
        state = valid[i]; i++
     :: i < MEMBERS && dead[i] -> i++
     :: else -> break
     od;
     i = 0;
     do
     :: i < MEMBERS ->
        assert(state == NOBODY || (!dead[i] && own[i * 2 + slot(state)] == state) ||
               (!dead[next(i)] && partners[i * 2 + slot(state)] == state) ||
               (dead[i] && dead[next(i)]));
        i++
     :: else -> break
     od }
}

init {
  byte i = 0;
  atomic {
    do
    :: i < MEMBERS -> run member(i); run network(i); run news(i); i++
    :: else -> break
    od;
    i = 0;
    run death(); run judge()
  }
}
